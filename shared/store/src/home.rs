//! The record of the stack that acts, in each state bucket.

use std::time::Duration;

use aws_config::{Region, SdkConfig};
use futures::future::join;
use jiff::Timestamp;
use model::home::{HOME_BYTES_MAX, HOME_KEY, HomeRecord, HomeSettings, ReadHome, Standing, StateBucket};

use crate::bucket::{Bucket, WriteCondition};
use crate::document::{read, stamped};
use crate::{Store, StoreError, Versioned};

const IF_LOST: &str = "the stack that acts writes it again, if the copy of the bucket names no other one";

/// The longest wait for a record, which may be that of a region that is out: the rest of the run has to have its time.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A stack that may have another one beside it, as a store knows it.
#[derive(Debug, Clone)]
pub(crate) struct HomeAccess {
    settings: HomeSettings,
    config: SdkConfig,
    /// `true` for the function that takes over, and tells the stack that it replaces.
    writes: bool,
}

impl Store {
    /// Store of a stack that may have another one beside it. `writes`: the caller takes over, where that is to be done.
    #[must_use]
    pub fn knowing_home(self, config: &SdkConfig, settings: HomeSettings, writes: bool) -> Self {
        Self { home: Some(Box::new(HomeAccess { settings, config: config.clone(), writes })), ..self }
    }

    /// What this stack may do, and a problem that people have to know though it acts; `None` without a call if no other stack can exist.
    pub async fn read_standing(&self, now: Timestamp) -> Option<(Standing, Option<String>)> {
        let HomeAccess { settings, writes, .. } = self.home.as_deref()?;
        let replica = async {
            match &settings.replica {
                Some(replica) => Some(read_in_time(&self.beside(replica)?).await.map(|read| read.value)),
                None => None,
            }
        };
        let own = Self { bucket: self.bucket.clone().asking_listing(), ..self.clone() };
        let (own, replica) = Box::pin(join(read_in_time(&own), replica)).await;
        let (own, etag) = match own {
            Ok(Versioned { value, etag }) => (Ok(value), etag),
            Err(error) => (Err(error), None),
        };
        let replica = replica.as_ref();
        let missing = settings.missing_record(&own, replica, now).filter(|_| *writes);
        let own: ReadHome = match missing {
            // Of two runs at once one loses: the next run reads what the other one wrote.
            Some(record) => self.write_in_time(&record, etag.as_deref()).await.map(|()| Some(record)),
            None => own,
        };
        let standing = settings.standing(&own, replica, now);
        let is_home = matches!(standing, Standing::Home | Standing::TakingOver { .. });
        let problem = match &own {
            Ok(Some(record)) if *writes && is_home => Box::pin(self.tell_stack_before(record)).await,
            _ => None,
        };
        Some((standing, problem))
    }

    /// Writes the record into the bucket of the stack that this one replaces, where that has not been done. Returns why it could not.
    async fn tell_stack_before(&self, record: &HomeRecord) -> Option<String> {
        let before = record.before.as_ref()?;
        let store = self.beside(before)?;
        let failed = match read_in_time(&store).await {
            Ok(Versioned { value: Some(there), .. }) if there == *record => return None,
            // Its bucket is no other stack's, and no later record is replaced.
            Ok(Versioned { value: Some(there), .. }) if there.term >= record.term => {
                format!("its record has term {} and names {}", there.term, there.stack)
            }
            Ok(Versioned { etag, .. }) => store.write_in_time(record, etag.as_deref()).await.err()?,
            Err(failed) => failed,
        };
        Some(format!(
            "the stack of {before}, which this one has replaced, could not be told, and may act if it cannot read the copy either: {failed}"
        ))
    }

    /// The store of another state bucket, with the same credentials; `None` without a second stack.
    fn beside(&self, other: &StateBucket) -> Option<Self> {
        let config = &self.home.as_ref()?.config;
        let there = config.clone().into_builder().region(Region::new(other.region.to_string())).build();
        Some(Self { bucket: Bucket::new(&there, other.bucket.clone()).asking_listing(), ..self.clone() })
    }

    async fn write_in_time(&self, record: &HomeRecord, last: Option<&str>) -> Result<(), String> {
        let write = Box::pin(self.write_home(record, last));
        let written = tokio::time::timeout(TIMEOUT, write).await;
        written.map_err(|_| self.timed_out())?.map_err(|error| error.to_string())
    }

    fn timed_out(&self) -> String {
        format!("{} did not answer within {} seconds", self.bucket.address(HOME_KEY), TIMEOUT.as_secs())
    }

    /// The record of the stack that acts; `None` if there is none.
    ///
    /// # Errors
    /// If S3 refused, or the record is damaged or impossible.
    pub async fn read_home(&self) -> Result<Versioned<Option<HomeRecord>>, StoreError> {
        let Some(object) = self.bucket.get(HOME_KEY, HOME_BYTES_MAX).await? else {
            return Ok(Versioned { value: None, etag: None });
        };
        let address = self.bucket.address(HOME_KEY);
        let record: HomeRecord = read(&object.bytes, &address, IF_LOST)?;
        match record.check() {
            Ok(()) => Ok(Versioned { value: Some(record), etag: object.etag }),
            Err(refusal) => Err(StoreError::Unreadable { address, problem: refusal.to_string(), if_lost: IF_LOST }),
        }
    }

    /// Writes the record over the version that was read; `None`: over none.
    ///
    /// # Errors
    /// If S3 refused, or somebody has written the record since.
    pub async fn write_home(&self, record: &HomeRecord, last: Option<&str>) -> Result<(), StoreError> {
        let bytes = stamped(record, &self.bucket.address(HOME_KEY))?;
        self.bucket.put(HOME_KEY, bytes, WriteCondition::StillAt(last)).await.map(drop)
    }
}

async fn read_in_time(store: &Store) -> Result<Versioned<Option<HomeRecord>>, String> {
    let read = tokio::time::timeout(TIMEOUT, Box::pin(store.read_home())).await;
    read.map_err(|_| store.timed_out())?.map_err(|error| error.to_string())
}
