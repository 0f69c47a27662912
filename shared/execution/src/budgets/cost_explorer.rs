//! What Cost Explorer says, once a day, beside the account's ledger.

use domain::budget::{Budget, Period, Unanswered, billed};
use domain::ledger::Ledger;
use domain::observed::Gap;
use domain::policy::Policy;

use super::impatient;
use super::ledgers::Ledgers;
use crate::Run;

const CALL: &str = "ce:GetCostAndUsage";

/// Asks where the configuration wants it and it was not asked within a day, and puts the answer into the account's document. Where
/// nobody can say, what was there stays: it has its date; and that is asked again only after a day, for a question costs a cent.
pub(super) async fn renew(
    run: &Run<'_>,
    policy: &Policy,
    ledgers: &Ledgers,
    account: Option<&mut Budget>,
) -> Option<Gap> {
    let account = account.filter(|_| policy.config.account.cost_explorer)?;
    let began = ledgers.of_month.iter().chain(&ledgers.before).filter_map(Ledger::since).min()?;
    let days = billed::due(account, &Period::of(run.now, &policy.config), began, run.now)?;
    let home = run.aws.home();
    let gap = match tokio::time::timeout(run.patience(), cloud::cost_explorer::billed(run.aws, days)).await {
        Ok(Ok(bill)) => {
            account.billed = Some(billed::compare(&bill, &billed::by_type(&ledgers.of_month, days), run.now));
            account.unanswered = None;
            return None;
        }
        Ok(Err(error)) => error.gap(),
        Err(_) => impatient(run.patience(), home, CALL, "what AWS billed"),
    };
    account.unanswered = Some(Unanswered { asked_at: run.now, error: gap.error.clone() });
    Some(gap)
}
