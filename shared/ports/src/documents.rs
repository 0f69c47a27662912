//! Documents of the state bucket that a run reads and writes. A document is read with its version and written only over that version. If
//! two runs write at once, one loses and knows it.

use billing::budget::{Budget, BudgetHolder};
use billing::ledger::{CalendarMonth, Ledger};
use billing::price;
use jiff::Timestamp;
use model::config::{Config, ConfigInForce};
use model::id::Region;
use model::notification_log::NotificationLog;
use model::reply_link::LinkDocument;
use model::usage::ActivityCache;
use plan::report::RunRecord;
use serde::Serialize;

use crate::{ConfigLoadError, StoreError};

/// Attempts to write a budget. A writer that loses so often does not lose to another run. If 40 jobs reserve at once, each loses to some.
const BUDGET_TRIES_MAX: u32 = 10;

/// Attempts to write a ledger. A writer that loses so often leaves the ledger to the next beat, which sees nearly all of it again.
const LEDGER_TRIES_MAX: u32 = 3;

/// A value as it was read, and what a write of its successor replaces.
#[derive(Debug, Clone, PartialEq)]
pub struct Versioned<T> {
    /// The value; of an absent document the default.
    pub value: T,
    /// The object's `ETag`; `None` if there was no object.
    pub etag: Option<String>,
}

/// Documents that every run reads and writes.
pub trait Documents {
    /// The configuration; the default if the document is absent.
    ///
    /// # Errors
    /// If the document was refused, or could not be read.
    async fn read_config(&self) -> Result<Config, ConfigLoadError>;

    /// The configuration in force for a run, with the lines of the organization's hub.
    ///
    /// # Errors
    /// If the account's own document was refused, or could not be read.
    async fn read_config_in_force(&self, _now: Timestamp) -> Result<ConfigInForce, ConfigLoadError> {
        Ok(self.read_config().await?.into())
    }

    /// Log of a function's notifications about a region.
    ///
    /// # Errors
    /// If the document could not be read, or is not Curfew's.
    async fn read_notices(&self, function: &str, region: &Region) -> Result<Versioned<NotificationLog>, StoreError>;

    /// Writes the log of a function about a region over the version `last`; `None` if there was none. Returns the new version.
    ///
    /// # Errors
    /// [`StoreError::Lost`] if another run has written it since; otherwise if S3 refused.
    async fn write_notices(
        &self,
        function: &str,
        region: &Region,
        notices: &NotificationLog,
        last: Option<&str>,
    ) -> Result<Option<String>, StoreError>;

    /// Replaces a log that is too large, or no document at all, by an empty one. `false` if the document can be read, or is of another
    /// version of Curfew: then it stays.
    ///
    /// # Errors
    /// [`StoreError::Lost`] if another run has written it since; otherwise if S3 refused.
    async fn restart_notices(&self, function: &str, region: &Region) -> Result<bool, StoreError>;

    /// Writes the audit record of a run to its key: an [`AuditRecord`](plan::report::AuditRecord), or that of jobs. A run that Lambda
    /// delivered twice writes it twice; the bucket keeps both versions.
    async fn write_audit(&self, key: &str, record: &impl Serialize) -> Result<(), StoreError>;

    /// Writes the document of a link, named by the hash of its token, over the version `last`; `None` if the link is new.
    ///
    /// # Errors
    /// [`StoreError::Lost`] if somebody has used the link since; otherwise if S3 refused.
    async fn write_reply_link(&self, hash: &str, link: &LinkDocument, last: Option<&str>) -> Result<(), StoreError>;

    /// Live prices, as last queried. An unreadable document counts as lost: it is a cache, and the next write replaces it.
    async fn read_prices(&self) -> Result<Versioned<price::PriceDocument>, StoreError>;

    /// Writes live prices over the version `last`. Returns the new version; `None` if another run was faster, because its result is as good.
    async fn write_prices(
        &self,
        prices: &price::PriceDocument,
        last: Option<&str>,
    ) -> Result<Option<String>, StoreError>;
}

/// Cache of the results of earlier runs about instances.
pub trait ActivityDocuments {
    /// Cache of the instances of a region. An unreadable document counts as lost, and the next write replaces it.
    async fn read_activity(&self, region: &Region) -> Result<Versioned<ActivityCache>, StoreError>;

    /// Writes the cache over the version `last`. If another run was faster, its result is as good.
    async fn write_activity(
        &self,
        region: &Region,
        activity: &ActivityCache,
        last: Option<&str>,
    ) -> Result<(), StoreError>;
}

/// Audit records of other functions, for figures that people see. No run decides by one.
pub trait AuditDocuments {
    /// The newest record of a function's own runs, after what `curfew apply` has carried out since; `None` if there is none of today or yesterday.
    ///
    /// # Errors
    /// If S3 refused, or one of the records is not Curfew's.
    async fn read_newest_audit(&self, function: &str, now: Timestamp) -> Result<Option<RunRecord>, StoreError>;
}

/// Budgets: one document a holder and month.
pub trait BudgetDocuments {
    /// Status of a budget in that month, `yyyy-mm`. If the document is absent, nothing is known about the budget.
    ///
    /// # Errors
    /// If the document could not be read, or is not Curfew's.
    async fn read_budget(&self, holder: &BudgetHolder, month: &str) -> Result<Versioned<Budget>, StoreError>;

    /// Writes the budget over the version `last`.
    ///
    /// # Errors
    /// [`StoreError::Lost`] if another run has written it since; otherwise if S3 refused.
    async fn write_budget(
        &self,
        holder: &BudgetHolder,
        month: &str,
        budget: &Budget,
        last: Option<&str>,
    ) -> Result<(), StoreError>;

    /// Changes a budget by what is there now, and again by what another run wrote in the meantime. `change` may refuse, and
    /// then nothing is written; nor is what it leaves as it was.
    ///
    /// # Errors
    /// The outer ones are of reading and writing; the inner one is that of `change`.
    async fn update_budget<T, E>(
        &self,
        holder: &BudgetHolder,
        month: &str,
        mut change: impl FnMut(&mut Budget) -> Result<T, E>,
    ) -> Result<Result<T, E>, StoreError> {
        let mut tries = 1..BUDGET_TRIES_MAX;
        loop {
            let Versioned { value: before, etag } = self.read_budget(holder, month).await?;
            let mut after = before.clone();
            let changed = change(&mut after);
            if changed.is_err() || after == before {
                return Ok(changed);
            }
            match self.write_budget(holder, month, &after, etag.as_deref()).await {
                Err(StoreError::Lost { .. }) if tries.next().is_some() => {}
                written => return written.map(|()| changed),
            }
        }
    }
}

/// The ledger: one document a region and month.
pub trait LedgerDocuments {
    /// The regions with a ledger of that month.
    ///
    /// # Errors
    /// If S3 refused, or there are more than AWS has regions.
    async fn list_ledgers(&self, month: &CalendarMonth) -> Result<Vec<Region>, StoreError>;

    /// Ledger of a region in a month. It is empty if there is no document yet.
    ///
    /// # Errors
    /// If the document could not be read, or is not Curfew's.
    async fn read_ledger(&self, month: &CalendarMonth, region: &Region) -> Result<Versioned<Ledger>, StoreError>;

    /// Writes the ledger over the version `last`.
    ///
    /// # Errors
    /// [`StoreError::Lost`] if another run has written it since; otherwise if S3 refused.
    async fn write_ledger(
        &self,
        month: &CalendarMonth,
        region: &Region,
        ledger: &Ledger,
        last: Option<&str>,
    ) -> Result<(), StoreError>;

    /// Has `change` take down what it has seen, in what is there now, and again in what another run wrote in the meantime. Where
    /// it says that nothing was new, nothing is written. Gives the ledger as it is then; where it could not be written, as it would be,
    /// and why.
    ///
    /// # Errors
    /// Where the ledger could not be read.
    async fn update_ledger(
        &self,
        month: &CalendarMonth,
        region: &Region,
        mut change: impl FnMut(&mut Ledger) -> bool,
    ) -> Result<(Ledger, Option<StoreError>), StoreError> {
        let mut tries = 1..LEDGER_TRIES_MAX;
        loop {
            let Versioned { value: mut ledger, etag } = self.read_ledger(month, region).await?;
            if !change(&mut ledger) {
                return Ok((ledger, None));
            }
            match self.write_ledger(month, region, &ledger, etag.as_deref()).await {
                Err(StoreError::Lost { .. }) if tries.next().is_some() => {}
                written => return Ok((ledger, written.err())),
            }
        }
    }
}
