//! The result of a scan of many accounts as JSON. Its shape is a promise: fields are added, none changes its meaning.
//!
//! ```json
//! {
//!   "schema": 1,
//!   "at": "2026-09-01T12:00:00Z", "partition": "aws", "role": "curfew-look",
//!   "accounts": [{
//!     "account": "111122223333", "name": "research", "regions": 17, "volumes": 3, "unjudged": 0,
//!     "teams": [{"team": "vision", "instances": 2, "gpus": 2, "running": {"usd_per_hour": 2.012, "unknown_prices": 0},
//!                "findings": 1, "waste": {"usd_per_hour": 1.006, "unknown_prices": 0}}],
//!     "other_teams": null,
//!     "notable": [{"region": "us-east-1", "resource": "i-0abc", "kinds": ["idle"], "team": "vision", "what": "g5.xlarge",
//!                  "why": "1 GPU at 0 %", "usd_per_hour": 1.006}],
//!     "gaps": [], "more_gaps": 0,
//!     "total": {"instances": 2, "gpus": 2, "running": {}, "findings": 1, "waste": {}}
//!   }],
//!   "total": {},
//!   "refused": [{"account": "444455556666", "name": "sandbox", "reason": "sts:AssumeRole failed in us-east-1: …"}],
//!   "left_out": [{"account": "777788889999", "name": "old", "state": "SUSPENDED"}],
//!   "unanswered": []
//! }
//! ```
//!
//! `running` is what the running instances with an accelerator cost, `waste` what an end of everything idle, reserved, orphaned or unused would
//! save, volumes and file systems included. A sum without any price is null. A team is one of its account: the same name in two accounts is two
//! teams. `other_teams` has the teams of an account beyond its 50 dearest, `notable` its five dearest findings, `left_out` the accounts that
//! are not active, `unanswered` those that had not answered when the scan was interrupted.

use std::collections::BTreeSet;

use jiff::Timestamp;
use operator::organization::{AccountId, AccountSummary, AccountTotals, ListedAccount};
use serde::Serialize;

use super::{OrganizationResult, RefusedAccount};

#[derive(Serialize)]
pub(super) struct OrganizationOutput<'a> {
    at: Timestamp,
    partition: &'a str,
    role: &'a str,
    accounts: Vec<AccountOutput<'a>>,
    total: AccountTotals,
    refused: &'a [RefusedAccount],
    left_out: &'a [ListedAccount],
    unanswered: &'a BTreeSet<AccountId>,
}

#[derive(Serialize)]
struct AccountOutput<'a> {
    #[serde(flatten)]
    summary: &'a AccountSummary,
    total: AccountTotals,
}

pub(super) fn build_output(found: &OrganizationResult, at: Timestamp) -> OrganizationOutput<'_> {
    let accounts = found.accounts.iter().map(|summary| AccountOutput { summary, total: summary.totals() });
    OrganizationOutput {
        at,
        partition: &found.partition,
        role: &found.role,
        accounts: accounts.collect(),
        total: AccountTotals::from_accounts(&found.accounts),
        refused: &found.refused,
        left_out: &found.left_out,
        unanswered: &found.unanswered,
    }
}
