//! The hub of an organization: a bucket that is another account's, and perhaps in another region.

use std::sync::Arc;

use aws_config::SdkConfig;
use billing::budget::{BUDGET_SUMS_BYTES_MAX, BudgetSums};
use billing::ledger::CalendarMonth;
use model::account::AccountId;
use ports::CallAdvice;
use ports::action::LIST;
use report::{AccountExport, AccountFigures, FIGURES_BYTES_MAX, Publisher, account_of_folder};
use tokio::sync::OnceCell;

use crate::bucket::{Bucket, InputBucket, InputError, WriteCondition};
use crate::document::{read, stamped};
use crate::{FiguresDocuments, HubDocuments, Store, StoreError};

/// Accounts of an organization: AWS raises its quota to 10,000 and more only on request (AWS Organizations user guide, "Quotas").
const ACCOUNTS_MAX: usize = 10_000;

const SUMS_IF_LOST: &str = "the hub writes it again within a quarter of an hour";

const NO_SUCH_HUB: &str = "name the bucket of the organization: by the parameter HubBucket of the stack, and by --hub or CURFEW_HUB_BUCKET for the command";

const IF_LOST: &str = "the account writes it again within a quarter of an hour, or a day";

/// The hub's bucket. Its region is asked for before the first call.
#[derive(Debug, Clone)]
pub struct HubStore {
    config: SdkConfig,
    name: String,
    bucket: Arc<OnceCell<Bucket>>,
}

impl HubStore {
    /// The bucket of that name, in whichever region it is; without a call.
    #[must_use]
    pub fn new(config: &SdkConfig, name: String) -> Self {
        Self { config: config.clone(), name, bucket: Arc::default() }
    }

    /// The configuration of the organization; empty if there is none.
    ///
    /// # Errors
    /// If S3 refused, or it is too large.
    pub async fn read_hub_config(&self) -> Result<Vec<u8>, StoreError> {
        let bucket = self.bucket().await?.clone().asking_listing();
        let found = bucket.get(model::config::KEY, model::config::BYTES_MAX).await?;
        Ok(found.map(|object| object.bytes).unwrap_or_default())
    }

    pub(crate) async fn bucket(&self) -> Result<&Bucket, StoreError> {
        let open = || Box::pin(async { InputBucket::open(&self.config, &self.name).await.map(|input| input.bucket) });
        self.bucket.get_or_try_init(open).await.map_err(|error| match error {
            InputError::Store(error) => error,
            other => StoreError::Call {
                action: LIST,
                address: format!("s3://{}", self.name),
                said: other.to_string(),
                advice: CallAdvice::Do(NO_SUCH_HUB),
            },
        })
    }
}

impl FiguresDocuments for Store {
    fn publishes_figures(&self) -> bool {
        self.figures_hub.is_some()
    }

    async fn publish_figures(
        &self,
        publisher: Publisher,
        account: &AccountId,
        figures: &AccountFigures,
    ) -> Result<(), StoreError> {
        let Some(hub) = &self.figures_hub else { return Ok(()) };
        let (bucket, key) = (hub.bucket().await?, publisher.key(account, &figures.month));
        let bytes = stamped(figures, &bucket.address(&key))?;
        bucket.put(&key, bytes, WriteCondition::None).await.map(drop)
    }

    async fn read_budget_sums(&self, account: &AccountId, month: &str) -> Result<Option<BudgetSums>, StoreError> {
        let Some(hub) = &self.figures_hub else { return Ok(None) };
        let key = BudgetSums::key(account, month);
        // Whoever may not list the bucket is denied what is absent.
        let bucket = hub.bucket().await?.clone().asking_listing();
        let Some(object) = bucket.get(&key, BUDGET_SUMS_BYTES_MAX).await? else { return Ok(None) };
        read(&object.bytes, &bucket.address(&key), SUMS_IF_LOST).map(Some)
    }
}

impl HubDocuments for HubStore {
    fn hub_bucket(&self) -> &str {
        &self.name
    }

    async fn list_publishers(&self) -> Result<Vec<AccountId>, StoreError> {
        let folders = self.bucket().await?.folders("accounts/", ACCOUNTS_MAX).await?;
        Ok(folders.iter().filter_map(|folder| account_of_folder(folder)).collect())
    }

    async fn read_figures(
        &self,
        publisher: Publisher,
        account: &AccountId,
        month: &CalendarMonth,
    ) -> Result<Option<AccountFigures>, StoreError> {
        let (bucket, key) = (self.bucket().await?, publisher.key(account, &month.to_string()));
        let Some(object) = bucket.get(&key, FIGURES_BYTES_MAX).await? else { return Ok(None) };
        read(&object.bytes, &bucket.address(&key), IF_LOST).map(Some)
    }

    async fn write_hub_export(&self, export: AccountExport) -> Result<(), StoreError> {
        let AccountExport { key, media_type, content } = export;
        self.bucket().await?.put_as(media_type, &key, content, WriteCondition::None).await.map(drop)
    }

    async fn write_budget_sums(&self, sums: &BudgetSums) -> Result<(), StoreError> {
        let (bucket, key) = (self.bucket().await?, BudgetSums::key(&sums.account, &sums.month));
        let bytes = stamped(sums, &bucket.address(&key))?;
        bucket.put(&key, bytes, WriteCondition::None).await.map(drop)
    }
}
