//! The documents of the month before, closed: made anew once, as of its end. The last beat before midnight could not know the minutes
//! after it.

use std::collections::BTreeMap;

use domain::budget::{Books, Budget, Holder, Period, STALE_AFTER, Spends};
use domain::observed::Gap;
use domain::policy::Policy;
use futures::{StreamExt, stream};

use super::Months;
use super::documents::{Stored, renew};
use super::ledgers::Ledgers;
use crate::{AT_ONCE, Run};

/// Closes those that are open, from ledgers that all know the month's end, and gives them. Of a region that is not looked at any
/// more no beat tells it: after an hour it is not awaited any longer.
pub(super) async fn closed(
    run: &Run<'_>,
    policy: &Policy,
    months: &Months,
    ledgers: &Ledgers,
    stored: Stored,
) -> (BTreeMap<Holder, Budget>, Vec<Gap>) {
    let period = Period::from(&months.previous);
    let waited = run.now.duration_since(period.to) > STALE_AFTER;
    let know_the_end = ledgers.before.iter().all(|ledger| ledger.as_of().is_some_and(|as_of| as_of >= period.to));
    if !ledgers.is_before_whole || !(know_the_end || waited) {
        return (BTreeMap::new(), Vec::new());
    }
    let nothing = BTreeMap::new();
    let spends = {
        let known: BTreeMap<&Holder, &Budget> = stored.iter().map(|(holder, one)| (holder, &one.value)).collect();
        Spends::of(&ledgers.before, &[], known, period.to)
    };
    let books = Books::closing((&policy.config, policy.ceiling), &spends, &nothing, period.clone());
    let open = stored.into_iter().filter(|(_, one)| one.value.is_open(period.to));
    let writes = stream::iter(open).map(|(holder, one)| renew(run, &books, &months.previous, holder, one));
    let (mut closed, mut gaps) = (BTreeMap::new(), Vec::new());
    for (holder, written) in writes.buffer_unordered(AT_ONCE).collect::<Vec<_>>().await {
        match written {
            Ok(budget) => drop(closed.insert(holder, budget)),
            Err(gap) => gaps.push(gap),
        }
    }
    (closed, gaps)
}
