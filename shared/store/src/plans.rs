//! Audit records, read for people. No run of a function decides by one.

use std::cmp::Reverse;

use jiff::{SignedDuration, Timestamp};
use model::id::RunId;
use model::listing::ListedObject;
use model::moment::{CLOCK_SKEW_MAX, after, before};
use plan::report::{APPLIED, RunRecord, folder_of};
use ports::AuditDocuments;
use report::RunOutline;

use crate::document::{is_at_home, read, read_in_one_pass};
use crate::{BYTES_MAX, Store, StoreError};

/// The most records of a day that are listed: a function that runs every five seconds leaves fewer.
const KEYS_MAX: usize = 20_000;

/// S3 rounds times to seconds, and runs overlap: the order of this number of last records follows their own times.
const NEWEST_OF: usize = 4;

/// The most runs of `curfew apply` between two runs of a function that are read, the newest.
const APPLIES_MAX: usize = 50;

const DAY: SignedDuration = SignedDuration::from_hours(24);

const IF_LOST: &str = "it is the trail of one run, and no run decides by it";

/// The key of an audit record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanKey {
    /// The key: `plans/<yyyy-mm-dd>/<function>/<run>.json`.
    pub key: String,
    pub function: String,
    pub run: RunId,
    /// Time of the write, to the second: about the end of the run.
    pub written_at: Timestamp,
    pub bytes: u64,
}

impl PlanKey {
    /// `None` if Curfew could not have written it there.
    fn from_key(ListedObject { key, written_at, bytes }: ListedObject) -> Option<Self> {
        let name = key.strip_prefix("plans/")?.strip_suffix(".json")?;
        let [_, function, run] = name.split('/').collect::<Vec<_>>().try_into().ok()?;
        Some(Self { function: function.to_owned(), run: RunId::from(run), written_at, bytes, key })
    }
}

impl AuditDocuments for Store {
    async fn read_newest_audit(&self, function: &str, now: Timestamp) -> Result<Option<RunRecord>, StoreError> {
        self.newest_plan_after_applies(function, now).await
    }
}

impl Store {
    /// The records of the runs that began on the day of that moment, of one function or of all, newest first.
    ///
    /// # Errors
    /// If S3 refused, or there are too many.
    pub async fn list_plans(&self, day: Timestamp, function: Option<&str>) -> Result<Vec<PlanKey>, StoreError> {
        let function = function.map(|function| format!("{function}/")).unwrap_or_default();
        let listed = self.bucket.list(&format!("{}{function}", folder_of(day)), KEYS_MAX).await?;
        let mut keys: Vec<PlanKey> = listed.into_iter().filter_map(PlanKey::from_key).collect();
        keys.sort_by(|one, other| other.written_at.cmp(&one.written_at).then_with(|| one.key.cmp(&other.key)));
        Ok(keys)
    }

    /// One audit record; `None` if there is none at that key.
    ///
    /// # Errors
    /// If S3 refused, or the object is not Curfew's.
    pub async fn read_plan(&self, key: &str) -> Result<Option<RunRecord>, StoreError> {
        let object = self.bucket.get(key, BYTES_MAX).await?;
        let Some(object) = object else { return Ok(None) };
        let address = self.bucket.address(key);
        let record: RunRecord = read(&object.bytes, &address, IF_LOST)?;
        is_at_home(record.key() == key, record.key(), &address, IF_LOST)?;
        Ok(Some(record))
    }

    /// The bytes of an audit record, for [`Self::read_outline`]; `None` if there is none at that key.
    pub(crate) async fn read_plan_bytes(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.bucket.get(key, BYTES_MAX).await?.map(|object| object.bytes))
    }

    /// Reads from the audit record at that key what the report of a month needs.
    pub(crate) fn read_outline<'a>(&self, key: &str, bytes: &'a [u8]) -> Result<RunOutline<'a>, StoreError> {
        let address = self.bucket.address(key);
        let outline: RunOutline<'_> =
            read_in_one_pass(bytes, |outline: &RunOutline<'_>| outline.schema, &address, IF_LOST)?;
        is_at_home(outline.key() == key, outline.key(), &address, IF_LOST)?;
        Ok(outline)
    }

    /// The newest record of a function's own runs, of today or yesterday; `None` if there is none. Runs of `curfew apply` do not count:
    /// they show neither whether the function is alive, nor its mode. Of two in the same second the one in the lesser mode counts.
    ///
    /// # Errors
    /// If S3 refused, or one of the newest is not Curfew's: then the mode is unknown.
    pub async fn newest_plan(&self, function: &str, now: Timestamp) -> Result<Option<RunRecord>, StoreError> {
        // At midnight the newest record may be tomorrow's.
        let mut days = vec![after(now, CLOCK_SKEW_MAX), now, before(now, DAY)];
        days.dedup_by_key(|day| folder_of(*day));
        for day in days {
            let keys = self.list_plans(day, Some(function)).await?;
            let own = keys.iter().filter(|key| !key.run.as_str().starts_with(APPLIED));
            let mut newest: Option<RunRecord> = None;
            for PlanKey { key, .. } in own.take(NEWEST_OF) {
                let record = self.read_plan(key).await?;
                newest = newest.into_iter().chain(record).max_by_key(|record| (record.at, Reverse(record.mode)));
            }
            if newest.is_some() {
                return Ok(newest);
            }
        }
        Ok(None)
    }

    /// [`Self::newest_plan`], after what `curfew apply` has carried out since.
    ///
    /// # Errors
    /// As of [`Self::newest_plan`], and if the record of an apply is not Curfew's.
    pub async fn newest_plan_after_applies(
        &self,
        function: &str,
        now: Timestamp,
    ) -> Result<Option<RunRecord>, StoreError> {
        let Some(newest) = self.newest_plan(function, now).await? else { return Ok(None) };
        if newest.waiting().next().is_none() {
            return Ok(Some(newest));
        }
        let mut days = vec![after(now, CLOCK_SKEW_MAX), now, newest.at];
        days.dedup_by_key(|day| folder_of(*day));
        let mut applies = Vec::new();
        for day in days {
            let keys = self.list_plans(day, Some(function)).await?;
            // S3 rounds its times down.
            let is_later = |key: &&PlanKey| after(key.written_at, SignedDuration::from_secs(1)) >= newest.at;
            let later = keys.iter().filter(|key| key.run.as_str().starts_with(APPLIED)).filter(is_later);
            for PlanKey { key, .. } in later.take(APPLIES_MAX) {
                applies.extend(self.read_plan(key).await?);
            }
        }
        Ok(Some(newest.after_applies(&applies)))
    }
}
