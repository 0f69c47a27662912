//! Budgets that accounts of an organization share: the account of the hub sums what they have published, and each of them reads its own sums.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use billing::budget::{ShareProblem, SharedBudget, SharingAccount};
use billing::ledger::CalendarMonth;
use futures::{StreamExt as _, stream};
use model::account::AccountId;
use model::config::Config;
use model::id::TeamName;
use model::observation::{Gap, GapKind, Observed};
use ports::{Cloud, Documents, FiguresDocuments, HubDocuments};
use report::{PublishedSpend, Publisher, SharedBudgets, present_months};

use crate::budgets::{in_time, timed_out};
use crate::publish_figures::own_account;
use crate::{AT_ONCE, Run};

/// The longest wait for the sums of the hub, which is another account's. The budgets are decided without them then.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The budgets that this account shares with others, by the hub's sum: one object, and none if it shares no budget. Where the sum does not count,
/// a gap says why.
pub(crate) async fn read_shared_budgets(
    run: &Run<'_, impl Cloud, impl Documents + FiguresDocuments>,
    config: &Config,
    month: &CalendarMonth,
) -> Observed<BTreeMap<TeamName, SharedBudget>> {
    let shared = &config.shared_budgets;
    let Some(account) = own_account(run).ok().filter(|own| shared.values().any(|accounts| accounts.contains(own)))
    else {
        return Observed::default();
    };
    let (home, month) = (run.cloud.home(), month.to_string());
    let what = || format!("the sums of shared budgets of {month}");
    let read = Box::pin(run.store.read_budget_sums(&account, &month));
    let read = in_time(read, TIMEOUT, home, "s3:GetObject", what).await;
    let problem = read.as_ref().err().cloned();
    let sums = read.map_err(|gap| format!("the hub's sum cannot be read: {}", gap.in_run()));
    let sharing = SharingAccount { account: &account, month: &month, now: run.now };
    let items = sharing.budgets(shared, sums);
    let reasons: BTreeSet<&String> = items.values().filter_map(|budget| budget.reason.as_ref()).collect();
    let to_gap = |reason: &&String| {
        let error = format!("of shared budgets, what this account spent counts alone: {reason}");
        Gap::new(home, "s3:GetObject", error, GapKind::Part)
    };
    let gaps = problem.map_or_else(|| reasons.iter().map(to_gap).collect(), |problem| vec![problem]);
    Observed { items, gaps }
}

/// Sums, in the account of the hub, what the accounts of each shared budget have published, and writes each of them its sums. What one of them has
/// published that does not count makes its own share unknown.
pub(crate) async fn sum_shared_budgets(
    run: &Run<'_, impl Cloud, impl Documents>,
    hub: &impl HubDocuments,
    config: &Config,
) -> Vec<Gap> {
    let Some(shared) = SharedBudgets::from_config(config) else { return Vec::new() };
    let (home, timeout) = (run.cloud.home(), run.timeout());
    let work = async {
        let mut gaps = Vec::new();
        for month in present_months(run.now) {
            gaps.extend(sum_month(run, hub, &shared, &month).await);
        }
        gaps
    };
    match tokio::time::timeout(timeout, Box::pin(work)).await {
        Ok(gaps) => gaps,
        Err(_) => vec![timed_out(timeout, home, "s3:GetObject", "the sums of shared budgets")],
    }
}

async fn sum_month(
    run: &Run<'_, impl Cloud, impl Documents>,
    hub: &impl HubDocuments,
    shared: &SharedBudgets,
    month: &CalendarMonth,
) -> Vec<Gap> {
    let home = run.cloud.home();
    let (mut published, mut gaps) = (BTreeMap::new(), Vec::new());
    let read = |account: AccountId| async move {
        let read = hub.read_figures(Publisher::EnforceBudgets, &account, month).await;
        (account, read)
    };
    let mut reads = stream::iter(shared.accounts().map(read)).buffer_unordered(AT_ONCE);
    while let Some((account, read)) = reads.next().await {
        let problem = match read {
            Ok(None) => continue,
            Ok(Some(figures)) => match figures.checked(month, run.now) {
                Ok(figures) => {
                    published.insert(account, Ok(PublishedSpend::from_figures(&figures, shared)));
                    continue;
                }
                Err(why) => {
                    let key = Publisher::EnforceBudgets.key(&account, &month.to_string());
                    Gap::new(home, "s3:GetObject", format!("{key} does not count: {why}"), GapKind::Part)
                }
            },
            Err(error) => error.gap(home),
        };
        published.insert(account, Err(ShareProblem::Refused));
        gaps.push(problem);
    }
    let sums = shared.sums(month, &published, run.now);
    let mut writes = stream::iter(&sums).map(|sums| hub.write_budget_sums(sums)).buffer_unordered(AT_ONCE);
    while let Some(written) = writes.next().await {
        gaps.extend(written.err().map(|error| error.gap(home)));
    }
    gaps
}
