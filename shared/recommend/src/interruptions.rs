//! Frequency of Spot interruptions in this account, as far as its ledgers saw. The account's own past is no promise of AWS.

use std::collections::BTreeMap;

use billing::ledger::{Ledger, LedgerRun, PurchaseTerms, RunEnd, RunKind};
use model::id::{Region, TypeName};
use serde::Serialize;

/// Runs and interruptions of one type on Spot in one region, as the ledgers saw them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Interruptions {
    pub runs: u32,
    /// So many of them EC2 took back.
    pub interrupted: u32,
    /// Runs whose end has no known reason.
    pub unknown: u32,
    /// Running time of all runs together.
    pub seconds: u64,
}

/// Interruptions by region and type.
pub type InterruptionHistory = BTreeMap<(Region, TypeName), Interruptions>;

/// Collects the interruptions in the months of these ledgers.
#[must_use]
pub fn interruption_history<'a>(ledgers: impl IntoIterator<Item = &'a Ledger>) -> InterruptionHistory {
    let mut history = InterruptionHistory::new();
    for ledger in ledgers {
        let on_spot = |run: &LedgerRun<'_>| run.kind() == RunKind::Instance && run.terms() == PurchaseTerms::Spot;
        for run in ledger.runs().filter(on_spot) {
            let Some(region) = run.region else { continue };
            let seen = history.entry((region.clone(), TypeName::from(run.what()))).or_default();
            let month = ledger.span();
            seen.seconds = seen.seconds.saturating_add(run.running_time(month).least_seconds);
            let has_ended = match run.end {
                RunEnd::Running => false,
                // The ledger of the next month counts it.
                RunEnd::At(latest) | RunEnd::Between { latest, .. } => latest < month.to,
            };
            if !has_ended {
                continue;
            }
            seen.runs += 1;
            match run.was_reclaimed() {
                Some(true) => seen.interrupted += 1,
                Some(false) => {}
                None => seen.unknown += 1,
            }
        }
    }
    history.retain(|_, seen| seen.runs > 0 || seen.seconds > 0);
    history
}
