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
    let (mut documents, mut errors) = read_documents(store, holders, month).await;
    if documents.is_empty()
        && let Some(error) = errors.pop()
    {
        return Err(CommandError::from(error));
    }
    if let Some(holder) = wanted
        && needs_account(holder, documents.get(holder), period, now)
    {
        let (account, more_errors) = read_documents(store, [BudgetHolder::Account], month).await;
        documents.extend(account);
        errors.extend(more_errors);
    }
    Ok(ReadBudgets { documents, unread: errors.iter().map(unread).collect() })
}

/// The documents of these holders that exist, and the failures.
pub(in crate::commands) async fn read_documents(
    store: &Store,
    holders: impl IntoIterator<Item = BudgetHolder>,
    month: &str,
) -> (BTreeMap<BudgetHolder, Budget>, Vec<StoreError>) {
    let reads = holders.into_iter().map(|holder| async move {
        let read = store.read_budget(&holder, month).await;
        (holder, read)
    });
    let (mut documents, mut errors) = (BTreeMap::new(), Vec::new());
    for (holder, answer) in stream::iter(reads).buffered(READS_AT_ONCE).collect::<Vec<_>>().await {
        match answer {
            Ok(read) if read.etag.is_none() => {}
            Ok(read) => drop(documents.insert(holder, read.value)),
            Err(error) => errors.push(error),
        }
    }
    (documents, errors)
}

fn unread(error: &StoreError) -> String {
    format!("a budget could not be read: {}", describe_store_error(error))
}
