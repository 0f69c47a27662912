//! The report of a month: what a team spent, what Curfew saved, and what is still wasted, and what could cost less.
//!
//! [`MonthFacts`] is what was read, almost all of it from the state bucket. [`MonthReport`] is made from it and nothing else. [`render_html`] shows it as one
//! self-contained page, [`digest()`] as text, and [`mail()`] as a mail with both. [`export()`] writes
//! its charges as CSV. `MonthReport::of_team` is the part of one team. [`OrganizationReport`] is the same of many accounts.
//!
//! What could not be read is named in the report. A figure never counts what is unknown.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod account_metrics;
mod actions;
mod checkpoints;
mod coverage;
mod digest;
mod export;
mod facts;
mod figures;
mod gpu_hours;
mod html;
mod idle;
mod jobs;
mod mail;
mod next_month;
mod organization;
mod outline;
mod own;
mod past;
mod spend;
mod sums;
mod waste;

pub use account_metrics::{AccountMetrics, BeatFacts, Dimension, Metric, OTHERS, SERIES_MAX};
pub use actions::{ACTIONS_MAX, DayActions, DayCondenser, RecordedAction};
pub use checkpoints::{CheckpointRow, StoredCheckpoints};
pub use coverage::MonthCoverage;
pub use digest::digest;
pub use export::{ExportFormat, ExportScope, bucket_export, export};
pub use facts::{MonthFacts, SeenInstances};
pub use figures::{Headline, MonthReport, SavingRow, TeamRow};
pub use gpu_hours::GpuHours;
pub use html::render_html;
pub use jobs::{AttemptRecord, JobRow};
pub use mail::{Mail, mail};
pub use next_month::{FINDINGS_SHOWN, NextMonth, UsageCoverage, UsageFacts};
pub use organization::{
    AccountExport, AccountFigures, AccountRow, BudgetOfAccounts, FIGURES_BYTES_MAX, FigureSums, Figures,
    FiguresRefusal, OrganizationReport, OrganizationTeam, OtherTeams, PublishedBeat, PublishedMonth, PublishedSpend,
    Publisher, SILENT_AFTER, SharedBudgets, TEAMS_MAX, TeamBudget, TeamFigures, account_of_folder, export_account,
    organization_digest, organization_mail, present_months, render_organization_html,
};
pub use outline::RunOutline;
pub use own::{FUNCTIONS, FunctionRuns, OwnCost};
pub use past::{PastSpend, PastSpends};
pub use spend::{DaySpend, ResourceLabel};
pub use waste::{WasteKind, WasteRow};

/// Label of a row without a team.
pub const NO_TEAM: &str = "(no team)";

/// Lines of a table on the page. The rest is counted below the table.
pub const ROWS_MAX: usize = 50;
