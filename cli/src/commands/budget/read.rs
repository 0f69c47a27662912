//! The documents.

use std::collections::BTreeMap;

use billing::budget::overview::needs_account;
use billing::budget::{Budget, BudgetHolder, BudgetMonth};
use futures::{StreamExt, stream};
use jiff::Timestamp;
use store::{BudgetDocuments as _, Store, StoreError};

use crate::command_error::{CommandError, describe_store_error};

const READS_AT_ONCE: usize = 16;

/// The documents that were read, and the failures.
pub(super) struct ReadBudgets {
    pub(super) documents: BTreeMap<BudgetHolder, Budget>,
    /// The failed reads, in words for people.
    pub(super) unread: Vec<String>,
}

/// One of them, and the account's if it explains why a document is missing; or all of that month.
///
/// # Errors
/// If none could be read.
pub(super) async fn read(
    store: &Store,
    wanted: Option<&BudgetHolder>,
    period: &BudgetMonth,
    now: Timestamp,
) -> Result<ReadBudgets, CommandError> {
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
        return Err(CommandError::from(error));
    }
    if let Some(holder) = wanted
        && needs_account(holder, documents.get(holder), period, now)
    {
        match store.read_budget(&BudgetHolder::Account, month).await {
            Ok(read) if read.etag.is_none() => {}
            Ok(read) => drop(documents.insert(BudgetHolder::Account, read.value)),
            Err(error) => errors.push(error),
        }
    }
    Ok(ReadBudgets { documents, unread: errors.iter().map(unread).collect() })
}

fn unread(error: &StoreError) -> String {
    format!("a budget could not be read: {}", describe_store_error(error))
}
