//! The budget documents: read, made anew from the ledgers, written.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;

use domain::budget::{Books, Budget, HOLDERS_MAX, Holder, LOOKS_BACK, Spends};
use domain::ledger::Month;
use domain::observed::{Gap, GapKind};
use domain::policy::Policy;
use futures::{StreamExt, stream};
use jiff::SignedDuration;
use store::{StoreError, Versioned};

use super::ledgers::Ledgers;
use super::{Months, closing, cost_explorer, impatient};
use crate::{AT_ONCE, Run};

/// So long into a month the documents of the one before are read: what they reserve goes on. Once is enough, in the first beat of the
/// month, whenever that is; but whoever reserved just before midnight may have been slow to write it.
const CARRIED_OVER: SignedDuration = SignedDuration::from_hours(24);

/// Documents as they were read. One that could not be is missing.
pub(super) type Stored = BTreeMap<Holder, Versioned<Budget>>;

/// What became of the documents.
pub(super) struct Renewed {
    /// Each of the month as it is in the bucket now.
    pub(super) budgets: BTreeMap<Holder, Budget>,
    /// Those of the month before that were closed by this beat.
    pub(super) closed: BTreeMap<Holder, Budget>,
}

/// Makes each document anew, and closes those of the month before.
pub(super) async fn renewed(run: &Run<'_>, policy: &Policy, months: &Months, ledgers: &Ledgers) -> (Renewed, Vec<Gap>) {
    let Ledgers { of_month, before, is_whole, is_before_whole } = ledgers;
    let terms = (&policy.config, policy.ceiling);
    let (holders, left_out) = {
        let (spends, nothing) = (Spends::of(of_month, &[], [], run.now), BTreeMap::new());
        let books = Books::new(terms, &spends, &nothing, run.now);
        (books.holders(&nothing), books.left_out(&nothing))
    };
    let (mut stored, mut gaps) = read(run, &holders, &months.this).await;
    gaps.extend(without_document(run, left_out));
    let since_midnight = run.now.duration_since(months.this.span().from);
    let is_young = since_midnight < CARRIED_OVER;
    let is_new = |holder: &Holder| stored.get(holder).is_some_and(|one| one.value.as_of.is_none());
    let of_earlier: BTreeSet<Holder> = holders.iter().filter(|one| is_young || is_new(one)).cloned().collect();
    let (of_before, unread) = read(run, &of_earlier, &months.previous).await;
    gaps.extend(unread);

    let values = |all: &Stored| all.iter().map(|(holder, one)| (holder.clone(), one.value.clone())).collect();
    let (known, earlier): (BTreeMap<Holder, Budget>, BTreeMap<Holder, Budget>) = (values(&stored), values(&of_before));
    let spends = Spends::of(of_month, before, known.iter().chain(&earlier), run.now);
    let books = Books::new(terms, &spends, &earlier, run.now);
    // Of what cannot be renewed the old document stays, and of what cannot even be read nothing is known.
    let mut budgets: BTreeMap<Holder, Budget> = holders.into_iter().map(|holder| (holder, Budget::default())).collect();
    budgets.extend(known);
    if *is_whole {
        let account = stored.get_mut(&Holder::Account).map(|one| &mut one.value);
        gaps.extend(cost_explorer::renew(run, policy, ledgers, account).await);
        // So late that nobody looks back, all that was reserved is taken over: rather too much than too little.
        let is_known = *is_before_whole || since_midnight >= LOOKS_BACK;
        let is_complete = |holder: &Holder, one: &Budget| {
            !of_earlier.contains(holder)
                || (earlier.contains_key(holder) && (is_known || !books.takes_over(holder, one)))
        };
        let renewable = stored.into_iter().filter(|(holder, one)| is_complete(holder, &one.value));
        let writes = stream::iter(renewable).map(|(holder, one)| renew(run, &books, &months.this, holder, one));
        for (holder, written) in writes.buffer_unordered(AT_ONCE).collect::<Vec<_>>().await {
            match written {
                Ok(budget) => drop(budgets.insert(holder, budget)),
                Err(gap) => gaps.push(gap),
            }
        }
    }
    // Without the ledgers of that month nobody knows what it came to.
    let to_close = if before.is_empty() { Stored::new() } else { of_before };
    let (closed, unclosed) = closing::closed(run, policy, months, ledgers, to_close).await;
    gaps.extend(unclosed);
    (Renewed { budgets, closed }, gaps)
}

/// Nobody's spend goes uncounted: that of a team without a document is in the account's.
fn without_document(run: &Run<'_>, count: usize) -> Option<Gap> {
    let error = format!(
        "{count} more teams spend than {HOLDERS_MAX} documents of budgets hold; those of them that have no budget and spend the \
         least have no document, and count in the account's alone"
    );
    let (region, call) = (run.aws.home().clone(), "s3:PutObject".to_owned());
    (count > 0).then_some(Gap { region, call, error, kind: GapKind::Part })
}

async fn read(run: &Run<'_>, holders: &BTreeSet<Holder>, month: &Month) -> (Stored, Vec<Gap>) {
    let month = &month.to_string();
    let reads = stream::iter(holders).map(|holder| async move {
        let read = tokio::time::timeout(run.patience(), run.store.read_budget(holder, month)).await;
        let home = run.aws.home();
        let read = match read {
            Ok(read) => read.map_err(|error| error.gap(home)),
            Err(_) => Err(impatient(run.patience(), home, "s3:GetObject", &format!("a budget of {month}"))),
        };
        (holder.clone(), read)
    });
    let (mut stored, mut gaps) = (Stored::new(), Vec::new());
    for (holder, read) in reads.buffer_unordered(AT_ONCE).collect::<Vec<_>>().await {
        match read {
            Ok(one) => drop(stored.insert(holder, one)),
            Err(gap) => gaps.push(gap),
        }
    }
    (stored, gaps)
}

/// Writes one over what was read, or over what another run wrote since.
pub(super) async fn renew(
    run: &Run<'_>,
    books: &Books<'_>,
    month: &Month,
    holder: Holder,
    stored: Versioned<Budget>,
) -> (Holder, Result<Budget, Gap>) {
    let month = &month.to_string();
    let write = async {
        let budget = books.of(&holder, &stored.value);
        if budget == stored.value {
            return Ok(budget);
        }
        match run.store.write_budget(&holder, month, &budget, stored.etag.as_deref()).await {
            Err(StoreError::Lost { .. }) => {
                let again = |there: &mut Budget| -> Result<Budget, Infallible> {
                    // What was asked in this beat is not asked again.
                    there.learn_billed(&stored.value);
                    *there = books.of(&holder, there);
                    Ok(there.clone())
                };
                run.store.update_budget(&holder, month, again).await.map(|Ok(budget)| budget)
            }
            written => written.map(|()| budget),
        }
    };
    let home = run.aws.home();
    let written = match tokio::time::timeout(run.patience(), write).await {
        Ok(written) => written.map_err(|error| error.gap(home)),
        Err(_) => Err(impatient(run.patience(), home, "s3:PutObject", &format!("a budget of {month}"))),
    };
    (holder, written)
}
