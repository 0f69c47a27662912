//! Reads the status of budgets.

use std::collections::BTreeMap;
use std::time::Duration;

use billing::budget::{Budget, BudgetMonth, BudgetStatuses, needed_by_the_reaper};
use futures::{StreamExt, stream};
use jiff::Timestamp;
use model::config::Config;
use model::id::Region;
use model::observation::Observed;
use ports::BudgetDocuments;

use super::in_time;
use crate::AT_ONCE;

/// The status of each budget that may stop what runs: one object each, and none if no budget has `stop`. A budget that cannot be read within
/// `timeout`, or whose document names another holder, is unknown, so it stops nothing: a gap of the region `home`.
pub async fn load_budget_statuses(
    store: &impl BudgetDocuments,
    config: &Config,
    home: &Region,
    now: Timestamp,
    timeout: Duration,
) -> Observed<BudgetStatuses> {
    let month = &BudgetMonth::containing(now, config).month;
    let reads = stream::iter(needed_by_the_reaper(config)).map(|holder| async move {
        let what = || format!("a budget of {month}");
        let read = in_time(store.read_budget(&holder, month), timeout, home, "s3:GetObject", what).await;
        let to_status = |budget: Budget| budget.belongs_to(&holder).then(|| budget.to_status()).flatten();
        let read = read.map(|one| to_status(one.value));
        (holder, read)
    });
    let Observed { items, gaps } = reads.buffer_unordered(AT_ONCE).collect::<Observed<BTreeMap<_, _>>>().await;
    let known = items.into_iter().filter_map(|(holder, status)| Some((holder, status?)));
    Observed { items: BudgetStatuses(known.collect()), gaps }
}
