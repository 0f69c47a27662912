//! The total of Cost Explorer, once a day, beside the account's ledger.

use std::collections::BTreeMap;

use billing::budget::{Budget, BudgetMonth, CostExplorerFailure, billed};
use billing::ledger::CalendarMonth;
use model::id::TypeName;
use model::money::Amount;
use model::observation::Gap;
use ports::BudgetCloud;
use reaping::policy::Policy;

use super::ledgers::LedgerSummary;
use super::{BeatDocuments, in_time, timed_out};
use crate::Run;

const CALL: &str = "ce:GetCostAndUsage";

/// Queries it if the configuration enables it and the last query is a day old, and writes the answer into the account's document. After an error
/// the old value stays, with its date, and the next query is a day away, because each costs a cent.
pub(super) async fn renew(
    run: &Run<'_, impl BudgetCloud, impl BeatDocuments>,
    policy: &Policy,
    ledgers: &LedgerSummary,
    account: Option<&mut Budget>,
) -> Option<Gap> {
    let account = account.filter(|_| policy.config.account.cost_explorer)?;
    let days =
        billed::due(account, &BudgetMonth::containing(run.now, &policy.config), ledgers.spends.ledger_began?, run.now)?;
    let home = run.cloud.home();
    // The ledgers are read once more, one after the other: once a day.
    let mut by_type = BTreeMap::<TypeName, Amount>::new();
    for region in ledgers.looks.keys() {
        let month = CalendarMonth::containing(run.now, &policy.config.account.zone());
        let (read, what) = (run.store.read_ledger(&month, region), || format!("the ledger of {month}"));
        match in_time(read, run.timeout(), region, "s3:GetObject", what).await {
            Ok(ledger) => {
                for (name, amount) in billed::by_type([&ledger.value], days) {
                    let sum = by_type.entry(name).or_default();
                    *sum = *sum + amount;
                }
            }
            Err(gap) => return Some(gap),
        }
    }
    let gap = match tokio::time::timeout(run.timeout(), run.cloud.billed(days)).await {
        Ok(Ok(bill)) => {
            account.billed = Some(billed::compare(&bill, &by_type, run.now));
            account.cost_explorer_failure = None;
            return None;
        }
        Ok(Err(error)) => error.gap(),
        Err(_) => timed_out(run.timeout(), home, CALL, "what AWS billed"),
    };
    account.cost_explorer_failure = Some(CostExplorerFailure { asked_at: run.now, error: gap.in_run() });
    Some(gap)
}
