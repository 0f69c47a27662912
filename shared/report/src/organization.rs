//! The report of an organization: what each account publishes to the hub, and what the hub makes of all of it.
//!
//! An account is foreign to the hub: what it publishes is its own word about itself, counted under the id in the key that only it can write.

mod budget_sums;
mod export;
mod figures;
mod page;
mod parquet_file;
mod sums;
mod text;

pub use budget_sums::{PublishedSpend, SharedBudgets, present_months};
pub use export::{AccountExport, export_account};
pub use figures::{
    AccountFigures, FIGURES_BYTES_MAX, Figures, FiguresRefusal, OtherTeams, PublishedBeat, Publisher, TEAMS_MAX,
    TeamFigures, account_of_folder,
};
pub use page::render_organization_html;
pub use sums::{
    AccountRow, BudgetOfAccounts, FigureSums, OrganizationReport, OrganizationTeam, PublishedMonth, SILENT_AFTER,
    TeamBudget,
};
pub use text::{organization_digest, organization_mail};
