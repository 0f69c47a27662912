//! A scan of many accounts: which accounts, by which role, what is kept of each, and what a later scan takes over.
//!
//! An account's answers are foreign: its figures are kept under its own id alone, and its texts have a limit.

mod accounts;
mod resume;
mod summary;

pub use accounts::{ACCOUNTS_MAX, CallerIdentity, ExternalId, ListedAccount, RoleName, check_session, parse_accounts};
pub use model::account::AccountId;
pub use resume::{RESUME_HOURS_MAX, RESUME_SCHEMA, ResumeError, ResumeHeader, ResumedScan, read_resume_file, to_line};
pub use summary::{
    AccountSummary, AccountTally, AccountTotals, NotableFinding, OtherTeams, RegionPart, RunningTeams, SummaryGap,
    TeamSummary, by_cost,
};
