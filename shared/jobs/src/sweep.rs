//! The schedule of the search for jobs that are missing from the index of those that are not finished.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use sha2::{Digest, Sha256};

use super::JobId;

/// Minute of each hour at which the search runs: not the full hour, when everybody's schedules come.
const MINUTE: i8 = 7;

const HOURS: u8 = 24;

/// Returns `true` if this run, one of a minute, searches for jobs that are missing from the index. Only the time decides: a lost run costs
/// a day, and nothing has to be remembered.
#[must_use]
pub fn is_index_search_due(now: Timestamp) -> bool {
    now.to_zoned(TimeZone::UTC).minute() == MINUTE
}

/// Returns `true` if a sweep at that time looks at this job: each is looked at in one hour of the day, UTC. A finished job stays under
/// `jobs/` for long, and has to be read to know that it is finished: so no run reads more than a part of them. To list ten thousand jobs
/// takes ten calls, which is once an hour some cents in a month (Amazon S3 pricing, "Requests & data retrievals").
#[must_use]
pub fn is_searched(job: &JobId, now: Timestamp) -> bool {
    let hash = Sha256::digest(job.to_string().as_bytes());
    let hour = i8::try_from(hash.first().copied().unwrap_or_default() % HOURS);
    hour == Ok(now.to_zoned(TimeZone::UTC).hour())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use jiff::SignedDuration;
    use model::fixture::{NOW, time};

    use super::*;

    #[test]
    fn every_job_is_looked_at_once_a_day() {
        let minutes = || (0..24 * 60).map(|minute| time(NOW) + SignedDuration::from_mins(minute));
        let sweeps: Vec<Timestamp> = minutes().filter(|now| is_index_search_due(*now)).collect();
        assert_eq!(sweeps.len(), 24);
        let mut hours = BTreeSet::new();
        for number in 0..500 {
            let job = JobId::read(&format!("vision/llama-{number:08x}")).unwrap();
            let looks: Vec<Timestamp> = sweeps.iter().copied().filter(|now| is_searched(&job, *now)).collect();
            assert_eq!(looks.len(), 1, "{job}");
            hours.extend(looks);
        }
        assert_eq!(hours.len(), 24, "and not all at once");
    }
}
