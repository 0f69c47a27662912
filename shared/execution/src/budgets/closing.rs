//! Closes the documents of the previous month: they are made anew once, as of its end. The last beat before midnight could not know the minutes
//! after it.

use std::collections::BTreeMap;

use billing::budget::{Budget, BudgetBooks, BudgetHolder, BudgetMonth, BudgetTerms, STALE_AFTER};
use futures::{StreamExt, stream};
use model::observation::Observed;
use ports::BudgetCloud;
use reaping::policy::Policy;

use super::documents::{StoredBudgets, renew};
use super::ledgers::LedgerSummary;
use super::{BeatDocuments, BudgetMonths};
use crate::{AT_ONCE, Run};

/// Closes the open documents from ledgers that all include the month's end, and returns them. The ledger of a region that is no longer observed
/// never does: it is awaited for an hour.
pub(super) async fn closed(
    run: &Run<'_, impl BudgetCloud, impl BeatDocuments>,
    policy: &Policy,
    months: &BudgetMonths,
    ledgers: &LedgerSummary,
    stored: StoredBudgets,
) -> Observed<BTreeMap<BudgetHolder, Budget>> {
    let period = BudgetMonth::from(&months.previous);
    let waited = run.now.duration_since(period.to) > STALE_AFTER;
    let is_known = ledgers.is_before_whole && (ledgers.knows_end_of_before || waited);
    // Without the ledgers of that month its total is unknown.
    let Some(spends) = ledgers.closing.as_ref().filter(|_| is_known) else { return Observed::default() };
    let nothing = BTreeMap::new();
    let terms = BudgetTerms { config: &policy.config, ceiling: &policy.ceiling };
    let books = BudgetBooks::closing(terms, spends, &nothing, period.clone());
    let open = stored.into_iter().filter(|(_, one)| one.value.is_open(period.to));
    let writes = stream::iter(open).map(|(holder, one)| renew(run, &books, &months.previous, holder, one));
    writes.buffer_unordered(AT_ONCE).collect().await
}
