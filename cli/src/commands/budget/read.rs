//! The documents.

use std::collections::BTreeMap;

use domain::budget::overview::needs_account;
use domain::budget::{Budget, Holder, Period};
use futures::{StreamExt, stream};
use jiff::Timestamp;
use store::{Store, StoreError};

use crate::failure::{Failure, of_store};

/// Calls at once.
const READS_AT_ONCE: usize = 16;

/// What was read, and what of it could not be.
pub(super) struct Read {
    pub(super) documents: BTreeMap<Holder, Budget>,
    /// Why, for people.
    pub(super) unread: Vec<String>,
}

/// One of them, and the account's where it is needed to say why there is none that holds; or all of that month.
///
/// # Errors
/// Where none could be read.
pub(super) async fn read(
    store: &Store,
    wanted: Option<&Holder>,
    period: &Period,
    now: Timestamp,
) -> Result<Read, Failure> {
    let month = &period.month;
    let holders = match wanted {
        Some(holder) => vec![holder.clone()],
        None => store.list_budgets(month).await?,
    };
    let reads = holders.into_iter().map(|holder| async move {
        let read = store.read_budget(&holder, month).await;
        (holder, read)
    });
    let answers: Vec<_> = stream::iter(reads).buffered(READS_AT_ONCE).collect().await;
    let (mut documents, mut errors) = (BTreeMap::new(), Vec::new());
    for (holder, answer) in answers {
        match answer {
            Ok(read) if read.etag.is_none() => {}
            Ok(read) => {
                documents.insert(holder, read.value);
            }
            Err(error) => errors.push(error),
        }
    }
    if documents.is_empty()
        && let Some(error) = errors.pop()
    {
        return Err(Failure::from(error));
    }
    if let Some(holder) = wanted
        && needs_account(holder, documents.get(holder), period, now)
    {
        match store.read_budget(&Holder::Account, month).await {
            Ok(read) if read.etag.is_none() => {}
            Ok(read) => drop(documents.insert(Holder::Account, read.value)),
            Err(error) => errors.push(error),
        }
    }
    Ok(Read { documents, unread: errors.iter().map(unread).collect() })
}

fn unread(error: &StoreError) -> String {
    format!("a budget could not be read: {}", of_store(error))
}
