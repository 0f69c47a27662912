//! Audit records, read back for people. No run of a function reads one.

use std::cmp::Reverse;

use jiff::{SignedDuration, Timestamp};
use model::id::RunId;
use plan::report::{APPLIED, RunRecord, folder_of};

use crate::bucket::ListedObject;
use crate::document::{is_at_home, read};
use crate::{BYTES_MAX, Store, StoreError};

/// The most records of a day that are listed: a function that runs every five seconds leaves fewer.
const KEYS_MAX: usize = 20_000;

/// S3 tells to the second when an object was written, and runs overlap: of the last so many the newest is found by what they
/// say themselves.
const NEWEST_OF: usize = 4;

/// By so much the clock of whoever reads may be behind that of whoever wrote, or S3 refuses it (Amazon S3 API reference, "Error
/// responses", `RequestTimeTooSkewed`): at midnight the newest record may be tomorrow's.
const CLOCKS_DIFFER: SignedDuration = SignedDuration::from_mins(15);

const DAY: SignedDuration = SignedDuration::from_hours(24);

const IF_LOST: &str = "it is the trail of one run, and no run reads it";

/// Where an audit record lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanKey {
    /// The key: `plans/<yyyy-mm-dd>/<function>/<run>.json`.
    pub key: String,
    /// The function.
    pub function: String,
    /// The run.
    pub run: RunId,
    /// When it was written, to the second: about when the run ended.
    pub written_at: Timestamp,
}

impl PlanKey {
    /// `None` where nobody but Curfew could have written it there.
    fn from_key(ListedObject { key, written_at }: ListedObject) -> Option<Self> {
        let name = key.strip_prefix("plans/")?.strip_suffix(".json")?;
        let [_, function, run] = name.split('/').collect::<Vec<_>>().try_into().ok()?;
        Some(Self { function: function.to_owned(), run: RunId::from(run), written_at, key })
    }
}

impl Store {
    /// The records of the runs that began on the day of that moment, of one function or of all, newest first.
    ///
    /// # Errors
    /// Where S3 refused, or there are more than anybody can review.
    pub async fn list_plans(&self, day: Timestamp, function: Option<&str>) -> Result<Vec<PlanKey>, StoreError> {
        let function = function.map(|function| format!("{function}/")).unwrap_or_default();
        let listed = self.bucket.list(&format!("{}{function}", folder_of(day)), KEYS_MAX).await?;
        let mut keys: Vec<PlanKey> = listed.into_iter().filter_map(PlanKey::from_key).collect();
        keys.sort_by(|one, other| other.written_at.cmp(&one.written_at).then_with(|| one.key.cmp(&other.key)));
        Ok(keys)
    }

    /// One audit record; `None` where there is none at that key.
    ///
    /// # Errors
    /// Where S3 refused, or the object is none of Curfew's.
    pub async fn read_plan(&self, key: &str) -> Result<Option<RunRecord>, StoreError> {
        let object = self.bucket.get(key, BYTES_MAX).await?;
        let Some(object) = object else { return Ok(None) };
        let address = self.bucket.address(key);
        let record: RunRecord = read(&object.bytes, &address, IF_LOST)?;
        is_at_home(record.key() == key, record.key(), &address, IF_LOST)?;
        Ok(Some(record))
    }

    /// The newest record of a function's own runs, of today or yesterday; `None` where there is none. Runs by which a person
    /// applied a plan say nothing of whether the function is alive, nor of its mode. Of two of the same second the one in the
    /// lesser mode counts.
    ///
    /// # Errors
    /// Where S3 refused, or one of the newest is none of Curfew's: nobody can say which mode holds.
    pub async fn newest_plan(&self, function: &str, now: Timestamp) -> Result<Option<RunRecord>, StoreError> {
        let mut days = vec![now + CLOCKS_DIFFER, now, now - DAY];
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
}
