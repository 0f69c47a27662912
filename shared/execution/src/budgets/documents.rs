//! The budget documents: read, made anew from the ledgers, written.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;

use billing::budget::{
    Budget, BudgetBooks, BudgetHolder, BudgetMonth, BudgetTerms, HOLDERS_MAX, LOOKS_BACK, LedgerSpends,
    ReservationTimes, STALE_AFTER,
};
use billing::ledger::CalendarMonth;
use futures::{StreamExt, stream};
use jiff::SignedDuration;
use model::observation::{Gap, GapKind, Observed};
use ports::{BudgetCloud, StoreError, Versioned};
use reaping::policy::Policy;

use super::ledgers::LedgerSummary;
use super::{BeatDocuments, BudgetFacts, BudgetMonths, cost_explorer, in_time};
use crate::{AT_ONCE, Run};

/// Period at the beginning of a month in which the previous month's documents are read, to carry their reservations over. The first beat of
/// the month does it; but a reservation from just before midnight may have been written late.
const CARRY_OVER_TIME: SignedDuration = SignedDuration::from_hours(24);

/// The documents as they were read, without unreadable ones.
pub(super) type StoredBudgets = BTreeMap<BudgetHolder, Versioned<Budget>>;

pub(super) struct UpdatedBudgets {
    /// Each document of the month as it is in the bucket now.
    pub(super) budgets: BTreeMap<BudgetHolder, Budget>,
    /// The budgets of the previous month that this beat closed.
    pub(super) closed: BTreeMap<BudgetHolder, Budget>,
}

pub(super) struct LoadedBudgets {
    /// The requested holders.
    holders: BTreeSet<BudgetHolder>,
    stored: StoredBudgets,
    /// The requested holders of the previous month.
    holders_before: BTreeSet<BudgetHolder>,
    /// The documents of the previous month.
    stored_before: StoredBudgets,
    gaps: Vec<Gap>,
}

impl LoadedBudgets {
    /// The documents of the account and of the teams in the configuration. The account's has every reservation.
    pub(super) async fn read_named(
        run: &Run<'_, impl BudgetCloud, impl BeatDocuments>,
        policy: &Policy,
        months: &BudgetMonths,
    ) -> Self {
        let (spends, nothing) = (LedgerSpends::default(), BTreeMap::new());
        let terms = BudgetTerms { config: &policy.config, ceiling: &policy.ceiling };
        let books = BudgetBooks::new(terms, &spends, &nothing, run.now);
        Self::read(run, books.holders(&nothing), months).await
    }

    async fn read(
        run: &Run<'_, impl BudgetCloud, impl BeatDocuments>,
        holders: BTreeSet<BudgetHolder>,
        months: &BudgetMonths,
    ) -> Self {
        let Observed { items: stored, mut gaps } = read(run, &holders, &months.this).await;
        let is_young = run.now.duration_since(months.this.span().from) < CARRY_OVER_TIME;
        let is_new = |holder: &BudgetHolder| stored.get(holder).is_some_and(|one| one.value.as_of.is_none());
        let holders_before: BTreeSet<BudgetHolder> =
            holders.iter().filter(|one| is_young || is_new(one)).cloned().collect();
        let stored_before = read(run, &holders_before, &months.previous).await.with_gaps_in(&mut gaps);
        Self { holders, stored, holders_before, stored_before, gaps }
    }

    pub(super) fn moments(&self) -> ReservationTimes<'_> {
        ReservationTimes::from_documents(self.stored.values().chain(self.stored_before.values()).map(|one| &one.value))
    }

    /// Only the documents of these holders.
    async fn for_holders(
        mut self,
        run: &Run<'_, impl BudgetCloud, impl BeatDocuments>,
        holders: &BTreeSet<BudgetHolder>,
        months: &BudgetMonths,
    ) -> Self {
        let others = Self::read(run, holders.difference(&self.holders).cloned().collect(), months).await;
        self.stored.extend(others.stored);
        self.stored.retain(|holder, _| holders.contains(holder));
        self.holders_before.extend(others.holders_before);
        self.stored_before.extend(others.stored_before);
        self.stored_before.retain(|holder, _| holders.contains(holder));
        self.gaps.extend(others.gaps);
        self
    }
}

/// Makes each document anew, and closes those of the previous month.
pub(super) async fn renewed(
    run: &Run<'_, impl BudgetCloud, impl BeatDocuments>,
    policy: &Policy,
    months: &BudgetMonths,
    ledgers: &LedgerSummary,
    facts: BudgetFacts<'_>,
    documents: LoadedBudgets,
) -> Observed<UpdatedBudgets> {
    let LedgerSummary { spends, is_whole, is_before_whole, .. } = ledgers;
    let terms = BudgetTerms { config: &policy.config, ceiling: &policy.ceiling };
    let (holders, left_out) = {
        let nothing = BTreeMap::new();
        let books = BudgetBooks::new(terms, spends, &nothing, run.now);
        (books.holders(&nothing), books.left_out(&nothing))
    };
    let documents = documents.for_holders(run, &holders, months).await;
    let LoadedBudgets { mut stored, holders_before, stored_before, mut gaps, .. } = documents;
    gaps.extend(without_document(run, left_out));
    let since_midnight = run.now.duration_since(months.this.span().from);

    let values = |all: &StoredBudgets| all.iter().map(|(holder, one)| (holder.clone(), one.value.clone())).collect();
    let (known, earlier): (BTreeMap<BudgetHolder, Budget>, BTreeMap<BudgetHolder, Budget>) =
        (values(&stored), values(&stored_before));
    let books =
        BudgetBooks::new(terms, spends, &earlier, run.now).with_machines(facts.machines).with_shared(facts.shared);
    // A document that cannot be renewed stays; an unreadable one is unknown.
    let mut budgets: BTreeMap<BudgetHolder, Budget> =
        holders.into_iter().map(|holder| (holder, Budget::default())).collect();
    budgets.extend(known);
    if *is_whole {
        let account = stored.get_mut(&BudgetHolder::Account).map(|one| &mut one.value);
        gaps.extend(cost_explorer::renew(run, policy, ledgers, account).await);
        // So late that the previous month is not read any more, every reservation is carried over: too much is safer than too little.
        let is_known = *is_before_whole || since_midnight >= LOOKS_BACK;
        let is_complete = |holder: &BudgetHolder, one: &Budget| {
            !holders_before.contains(holder)
                || (earlier.contains_key(holder) && (is_known || !books.takes_over(holder, one)))
        };
        let renewable = stored.into_iter().filter(|(holder, one)| is_complete(holder, &one.value));
        let writes = stream::iter(renewable).map(|(holder, one)| renew(run, &books, &months.this, holder, one));
        let written = writes.buffer_unordered(AT_ONCE).collect::<Observed<BTreeMap<_, _>>>().await;
        budgets.extend(written.with_gaps_in(&mut gaps));
    }
    let closed = closed(run, policy, months, ledgers, stored_before).await.with_gaps_in(&mut gaps);
    Observed { items: UpdatedBudgets { budgets, closed }, gaps }
}

/// The account's document includes the spend of teams without a document.
fn without_document(run: &Run<'_, impl BudgetCloud, impl BeatDocuments>, count: usize) -> Option<Gap> {
    let error = format!(
        "{count} more teams spend than {HOLDERS_MAX} documents of budgets hold; those of them that have no budget and spend the \
         least have no document, and count in the account's alone"
    );
    (count > 0).then(|| Gap::new(run.cloud.home(), "s3:PutObject", error, GapKind::Part))
}

async fn read(
    run: &Run<'_, impl BudgetCloud, impl BeatDocuments>,
    holders: &BTreeSet<BudgetHolder>,
    month: &CalendarMonth,
) -> Observed<StoredBudgets> {
    let month = &month.to_string();
    let reads = stream::iter(holders).map(|holder| async move {
        let (read, what) = (run.store.read_budget(holder, month), || format!("a budget of {month}"));
        (holder.clone(), in_time(read, run.timeout(), run.cloud.home(), "s3:GetObject", what).await)
    });
    reads.buffer_unordered(AT_ONCE).collect().await
}

/// Writes a document over the version that was read, or over one that another run wrote since.
pub(super) async fn renew(
    run: &Run<'_, impl BudgetCloud, impl BeatDocuments>,
    books: &BudgetBooks<'_>,
    month: &CalendarMonth,
    holder: BudgetHolder,
    stored: Versioned<Budget>,
) -> (BudgetHolder, Result<Budget, Gap>) {
    let month = &month.to_string();
    let write = async {
        let budget = books.budget_of(&holder, &stored.value);
        if budget == stored.value {
            return Ok(budget);
        }
        match run.store.write_budget(&holder, month, &budget, stored.etag.as_deref()).await {
            Err(StoreError::Lost { .. }) => {
                let again = |there: &mut Budget| -> Result<Budget, Infallible> {
                    // Each is requested once in a beat.
                    there.learn_billed(&stored.value);
                    *there = books.budget_of(&holder, there);
                    Ok(there.clone())
                };
                run.store.update_budget(&holder, month, again).await.map(|Ok(budget)| budget)
            }
            written => written.map(|()| budget),
        }
    };
    let what = || format!("a budget of {month}");
    let written = in_time(write, run.timeout(), run.cloud.home(), "s3:PutObject", what).await;
    (holder, written)
}

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
