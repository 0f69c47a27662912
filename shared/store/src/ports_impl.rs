//! The traits of `ports`, for the state bucket.

use billing::budget::{Budget, BudgetHolder};
use billing::ledger::{CalendarMonth, Ledger};
use billing::price;
use jobs::{Job, JobId};
use model::config::Config;
use model::id::Region;
use model::notification_log::NotificationLog;
use model::usage::ActivityCache;
use ports::{ActivityDocuments, BudgetDocuments, ConfigLoadError, Documents, JobDocuments, LedgerDocuments};
use serde::Serialize;

use crate::{Store, StoreError, Versioned};

impl Documents for Store {
    async fn read_config(&self) -> Result<Config, ConfigLoadError> {
        self.read_config().await
    }

    async fn read_notices(&self, function: &str, region: &Region) -> Result<Versioned<NotificationLog>, StoreError> {
        self.read_notices(function, region).await
    }

    async fn write_notices(
        &self,
        function: &str,
        region: &Region,
        notices: &NotificationLog,
        last: Option<&str>,
    ) -> Result<Option<String>, StoreError> {
        self.write_notices(function, region, notices, last).await
    }

    async fn restart_notices(&self, function: &str, region: &Region) -> Result<bool, StoreError> {
        self.restart_notices(function, region).await
    }

    async fn write_audit(&self, key: &str, record: &impl Serialize) -> Result<(), StoreError> {
        self.write_audit(key, record).await
    }

    async fn read_prices(&self) -> Result<Versioned<price::PriceDocument>, StoreError> {
        self.read_prices().await
    }

    async fn write_prices(
        &self,
        prices: &price::PriceDocument,
        last: Option<&str>,
    ) -> Result<Option<String>, StoreError> {
        self.write_prices(prices, last).await
    }
}

impl ActivityDocuments for Store {
    async fn read_activity(&self, region: &Region) -> Result<Versioned<ActivityCache>, StoreError> {
        self.read_activity(region).await
    }

    async fn write_activity(
        &self,
        region: &Region,
        activity: &ActivityCache,
        last: Option<&str>,
    ) -> Result<(), StoreError> {
        self.write_activity(region, activity, last).await
    }
}

impl BudgetDocuments for Store {
    async fn read_budget(&self, holder: &BudgetHolder, month: &str) -> Result<Versioned<Budget>, StoreError> {
        self.read_budget(holder, month).await
    }

    async fn write_budget(
        &self,
        holder: &BudgetHolder,
        month: &str,
        budget: &Budget,
        last: Option<&str>,
    ) -> Result<(), StoreError> {
        self.write_budget(holder, month, budget, last).await
    }
}

impl LedgerDocuments for Store {
    async fn list_ledgers(&self, month: &CalendarMonth) -> Result<Vec<Region>, StoreError> {
        self.list_ledgers(month).await
    }

    async fn read_ledger(&self, month: &CalendarMonth, region: &Region) -> Result<Versioned<Ledger>, StoreError> {
        self.read_ledger(month, region).await
    }

    async fn write_ledger(
        &self,
        month: &CalendarMonth,
        region: &Region,
        ledger: &Ledger,
        last: Option<&str>,
    ) -> Result<(), StoreError> {
        self.write_ledger(month, region, ledger, last).await
    }
}

impl JobDocuments for Store {
    async fn read_job(&self, job: &JobId) -> Result<Versioned<Option<Job>>, StoreError> {
        self.read_job(job).await
    }

    async fn is_active(&self, job: &str) -> Result<bool, StoreError> {
        self.is_active(job).await
    }
}
