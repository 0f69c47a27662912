//! Reads the status of budgets.

use std::time::Duration;

use billing::budget::{Budget, BudgetMonth, BudgetStatuses, needed_by_the_reaper};
use futures::{StreamExt, stream};
use jiff::Timestamp;
use model::config::Config;
use model::id::Region;
use model::observation::Gap;
use ports::BudgetDocuments;

use super::timed_out;
use crate::AT_ONCE;

/// The status of each budget that may stop what runs: one object each, and none if no budget has `stop`. A budget that cannot be read within
/// `timeout`, or whose document names another holder, is unknown, so it stops nothing: a gap of the region `home`.
pub async fn load_budget_statuses(
    store: &impl BudgetDocuments,
    config: &Config,
    home: &Region,
    now: Timestamp,
    timeout: Duration,
) -> (BudgetStatuses, Vec<Gap>) {
    let month = &BudgetMonth::containing(now, config).month;
    let reads = stream::iter(needed_by_the_reaper(config)).map(|holder| async move {
        let read = tokio::time::timeout(timeout, store.read_budget(&holder, month)).await;
        let read = match read {
            Ok(read) => {
                let to_status = |budget: Budget| budget.belongs_to(&holder).then(|| budget.to_status()).flatten();
                read.map(|one| to_status(one.value)).map_err(|error| error.gap(home))
            }
            Err(_) => Err(timed_out(timeout, home, "s3:GetObject", &format!("a budget of {month}"))),
        };
        (holder, read)
    });
    let (mut statuses, mut gaps) = (BudgetStatuses::default(), Vec::new());
    for (holder, read) in reads.buffer_unordered(AT_ONCE).collect::<Vec<_>>().await {
        match read {
            Ok(status) => statuses.0.extend(status.map(|status| (holder, status))),
            Err(gap) => gaps.push(gap),
        }
    }
    (statuses, gaps)
}
