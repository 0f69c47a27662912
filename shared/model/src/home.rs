//! The stack of Curfew that acts, where the state bucket has a copy in a second region: the record of it, and what a stack may do by it.
//!
//! A stack is named by its state bucket. Each takeover writes a record with a higher term, by compare-and-swap, into the bucket of the stack
//! that acts from then on, and into that of the stack that it replaces. The highest term that is known counts.

use std::fmt;
use std::iter;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::fault::{InvalidValue, shortened};
use crate::id::Region;
use crate::input_source::is_bucket_name;
use crate::moment::after;
use crate::region::has_shape;

/// Key of the record, in each state bucket.
pub const HOME_KEY: &str = "home.json";

/// The largest record that is read, in bytes: it has two names of buckets and a time.
pub const HOME_BYTES_MAX: usize = 4 * 1024;

/// The highest legal term. Each takeover by a person counts one, so a higher one is a damaged record.
const TERM_MAX: u64 = 1_000_000;

/// The longest name of a region, in bytes: that of today's longest is 14.
const REGION_BYTES_MAX: usize = 32;

/// Time from a takeover until the new stack acts: a run of the stack that it replaces lasts 15 minutes at most (AWS Lambda developer guide,
/// "Lambda quotas"), and may have begun before. The rest is for the write of the record, and for clocks.
pub const TAKEOVER_DELAY: SignedDuration = SignedDuration::from_mins(20);

/// A state bucket, by which a stack is named.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateBucket {
    pub bucket: String,
    pub region: Region,
}

/// The record of the stack that acts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HomeRecord {
    /// Number of the stack: 1 for the first, one more for each takeover.
    pub term: u64,
    /// The stack that acts.
    #[serde(flatten)]
    pub stack: StateBucket,
    /// Time of the takeover; of the first stack, time of its first run with a copy.
    pub since: Timestamp,
    /// The stack that it replaces; `None` for the first, or if the copy had no record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<StateBucket>,
}

/// The record of one bucket as it was read; `Err`: the reason why it is unknown.
pub type ReadHome = Result<Option<HomeRecord>, String>;

/// A stack and its neighbours, as it was deployed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HomeSettings {
    /// Its own state bucket.
    pub own: StateBucket,
    /// The copy of its state bucket.
    pub replica: Option<StateBucket>,
    /// `true` if its state bucket was a copy, so it takes over.
    pub is_restored: bool,
}

/// What a stack may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// It acts.
    Home,
    /// Another stack acts, so this one changes nothing any more.
    Replaced { by: HomeRecord },
    /// It takes over, and observes until then: runs of the stack that it replaces may not be over yet.
    TakingOver { until: Timestamp },
    /// It is unknown which stack acts, with the reason; this one only observes.
    Unknown(String),
}

/// What a run has to know of the stack's standing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HomeStatus {
    /// `true` if the run changes nothing: another stack may act.
    pub is_standby: bool,
    /// The problem that people have to know; always there on standby.
    pub problem: Option<String>,
}

impl fmt::Display for StateBucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s3://{} in {}", self.bucket, self.region)
    }
}

impl StateBucket {
    /// # Errors
    /// If the name of the bucket or of the region is impossible.
    pub fn check(&self) -> Result<(), InvalidValue> {
        if !is_bucket_name(&self.bucket) {
            return Err(InvalidValue::new(format!("{:?} is no name of a bucket", shortened(&self.bucket, 80))));
        }
        let region = self.region.as_str();
        if region.len() > REGION_BYTES_MAX || !has_shape(region) {
            return Err(InvalidValue::new(format!("{:?} is no name of a region", shortened(region, 80))));
        }
        Ok(())
    }
}

impl HomeRecord {
    /// Refuses a record that no stack writes.
    ///
    /// # Errors
    /// If its term, or the name of a bucket or region, is impossible.
    pub fn check(&self) -> Result<(), InvalidValue> {
        if !(1..=TERM_MAX).contains(&self.term) {
            return Err(InvalidValue::new(format!("its term is {}, and must be from 1 to {TERM_MAX}", self.term)));
        }
        self.stack.check()?;
        self.before.as_ref().map_or(Ok(()), StateBucket::check)
    }

    /// `true` if by this record the stack of the bucket `other` has taken over.
    #[must_use]
    pub fn is_takeover_by(&self, other: &StateBucket) -> bool {
        self.term > 1 && self.stack == *other
    }
}

impl HomeSettings {
    /// What the stack may do by the records of its own bucket and of its copy; `replica` is `None` where it has no copy.
    #[must_use]
    pub fn standing(&self, own: &ReadHome, replica: Option<&ReadHome>, now: Timestamp) -> Standing {
        let reads = || iter::once(own).chain(replica);
        let predecessor = own.as_ref().ok().and_then(Option::as_ref).filter(|record| self.precedes(record));
        let term_before = predecessor.map_or(0, |record| record.term);
        let records = || {
            let known = reads().filter_map(|read| read.as_ref().ok().and_then(Option::as_ref));
            known.filter(|record| record.term > term_before)
        };
        let highest = records().max_by_key(|record| record.term);
        if let Some(record) = highest.filter(|record| record.stack != self.own) {
            if let Some(rival) = records().find(|rival| rival.term == record.term && rival.stack != record.stack) {
                return Standing::Unknown(format!(
                    "two stacks have term {} by {HOME_KEY}: {} and {}",
                    record.term, record.stack, rival.stack
                ));
            }
            // One record is enough to be replaced. To act, all of them have to be known.
            return Standing::Replaced { by: record.clone() };
        }
        if let Some(reason) = reads().find_map(|read| read.as_ref().err()) {
            return Standing::Unknown(reason.clone());
        }
        match highest {
            None if self.is_restored => Standing::Unknown(format!("the stack of {} has not taken over yet", self.own)),
            Some(record) if record.term > 1 && now < after(record.since, TAKEOVER_DELAY) => {
                Standing::TakingOver { until: after(record.since, TAKEOVER_DELAY) }
            }
            _ => Standing::Home,
        }
    }

    /// The record that the stack has to write into its own bucket, over the one that was read there; `None` if that one stays.
    #[must_use]
    pub fn missing_record(&self, own: &ReadHome, replica: Option<&ReadHome>, now: Timestamp) -> Option<HomeRecord> {
        let last = own.as_ref().ok()?.as_ref();
        let is_missing = match self.standing(own, replica, now) {
            Standing::Home => last.is_none(),
            Standing::Unknown(_) => {
                self.is_restored && last.is_none_or(|last| self.precedes(last)) && replica.is_none_or(Result::is_ok)
            }
            Standing::Replaced { .. } | Standing::TakingOver { .. } => false,
        };
        // Without a record in the copy, the first stack may still have one of term 1.
        let last_term = last.map_or(u64::from(self.is_restored), |last| last.term);
        is_missing.then(|| HomeRecord {
            term: last_term.saturating_add(1),
            stack: self.own.clone(),
            since: now,
            before: last.map(|last| last.stack.clone()),
        })
    }

    /// `true` if the record is that of the stack from whose copy this one was restored: replication carried it into the bucket.
    /// The stack that takes over from this one writes this one's name into its record.
    fn precedes(&self, record: &HomeRecord) -> bool {
        self.is_restored && record.stack != self.own && record.before.as_ref() != Some(&self.own)
    }
}

impl Standing {
    /// The reason why the stack changes nothing, as a sentence without a full stop; `None` if it acts.
    #[must_use]
    pub fn standby_reason(&self) -> Option<String> {
        match self {
            Self::Home => None,
            Self::Replaced { by } => Some(format!(
                "the stack of {} has taken over at {}, so this one changes nothing any more",
                by.stack, by.since
            )),
            Self::TakingOver { until } => Some(format!(
                "this stack has taken over, and acts from {until}: runs of the stack before may last until then"
            )),
            Self::Unknown(reason) => {
                Some(format!("it is unknown which stack acts, so this one only observes: {reason}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::time;

    const NOW: &str = "2026-11-30T12:00:00Z";

    fn bucket(name: &str) -> StateBucket {
        let region = if name == "first" { "us-east-1" } else { "us-west-2" };
        StateBucket { bucket: name.to_owned(), region: region.into() }
    }

    /// The record of a stack that replaced another one, both by name, long ago.
    fn record(term: u64, stack: &str, before: Option<&str>) -> HomeRecord {
        HomeRecord { term, stack: bucket(stack), since: time("2026-11-01T00:00:00Z"), before: before.map(bucket) }
    }

    #[expect(clippy::unnecessary_wraps, reason = "a read, as the functions take it")]
    fn read(term: u64, stack: &str, before: Option<&str>) -> ReadHome {
        Ok(Some(record(term, stack, before)))
    }

    fn first() -> HomeSettings {
        HomeSettings { own: bucket("first"), replica: Some(bucket("copy")), is_restored: false }
    }

    fn restored() -> HomeSettings {
        HomeSettings { own: bucket("copy"), replica: Some(bucket("third")), is_restored: true }
    }

    /// One word of what the stack may do, and the record that it writes.
    fn judged(settings: &HomeSettings, own: &ReadHome, replica: &ReadHome) -> (String, Option<HomeRecord>) {
        let word = match settings.standing(own, Some(replica), time(NOW)) {
            Standing::Home => "home".to_owned(),
            Standing::Replaced { by } => format!("replaced by {}", by.stack.bucket),
            Standing::TakingOver { .. } => "taking over".to_owned(),
            Standing::Unknown(_) => "unknown".to_owned(),
        };
        (word, settings.missing_record(own, Some(replica), time(NOW)))
    }

    #[test]
    fn the_first_stack_acts_until_a_record_names_another_one() {
        let unknown: ReadHome = Err("no answer".to_owned());
        let written = HomeRecord { term: 1, stack: bucket("first"), since: time(NOW), before: None };
        let cases = [
            ("never ran", Ok(None), Ok(None), "home", Some(written.clone())),
            ("not carried yet", read(1, "first", None), Ok(None), "home", None),
            ("carried", read(1, "first", None), read(1, "first", None), "home", None),
            ("its record is lost", Ok(None), read(1, "first", None), "home", Some(written.clone())),
            ("replaced", read(1, "first", None), read(2, "copy", Some("first")), "replaced by copy", None),
            (
                "replaced by both",
                read(2, "copy", Some("first")),
                read(2, "copy", Some("first")),
                "replaced by copy",
                None,
            ),
            ("the copy is out", read(2, "copy", Some("first")), unknown.clone(), "replaced by copy", None),
            ("its own is out", unknown.clone(), read(2, "copy", Some("first")), "replaced by copy", None),
            ("its own is lost", Ok(None), read(2, "copy", Some("first")), "replaced by copy", None),
            ("no word of the copy", read(1, "first", None), unknown.clone(), "unknown", None),
            ("no word of its own", unknown.clone(), read(1, "first", None), "unknown", None),
            ("never ran, no word of the copy", Ok(None), unknown.clone(), "unknown", None),
            ("two of one term", read(2, "first", None), read(2, "copy", None), "unknown", None),
            ("a stranger's", read(1, "first", None), read(5, "strange", None), "replaced by strange", None),
        ];
        for (name, own, replica, expect, write) in cases {
            let (word, missing) = judged(&first(), &own, &replica);
            assert_eq!((word.as_str(), missing), (expect, write), "{name}");
        }
    }

    #[test]
    fn a_restored_stack_takes_over_once_and_never_from_its_successor() {
        let unknown: ReadHome = Err("no answer".to_owned());
        let takeover = |term, before| Some(HomeRecord { term, stack: bucket("copy"), since: time(NOW), before });
        let first_stack = Some(bucket("first"));
        let cases = [
            ("a copy", read(1, "first", None), Ok(None), "unknown", takeover(2, first_stack.clone())),
            ("a copy of a copy", read(7, "first", Some("zero")), Ok(None), "unknown", takeover(8, first_stack.clone())),
            ("carried further", read(1, "first", None), read(1, "first", None), "unknown", takeover(2, first_stack)),
            ("a copy without a record", Ok(None), Ok(None), "unknown", takeover(2, None)),
            ("unreadable", unknown.clone(), Ok(None), "unknown", None),
            ("no word of its copy", read(1, "first", None), unknown.clone(), "unknown", None),
            ("acts", read(2, "copy", Some("first")), read(1, "first", None), "home", None),
            ("replaced", read(3, "third", Some("copy")), unknown, "replaced by third", None),
            (
                "replaced in its copy",
                read(2, "copy", Some("first")),
                read(3, "third", Some("copy")),
                "replaced by third",
                None,
            ),
            (
                "replaced twice",
                read(3, "third", Some("copy")),
                read(4, "fourth", Some("third")),
                "replaced by fourth",
                None,
            ),
        ];
        for (name, own, replica, expect, write) in cases {
            let (word, missing) = judged(&restored(), &own, &replica);
            assert_eq!((word.as_str(), missing), (expect, write), "{name}");
        }
    }

    #[test]
    fn a_takeover_waits_for_the_runs_of_the_stack_that_it_replaces() {
        let taken = HomeRecord { since: time(NOW), ..record(2, "copy", Some("first")) };
        let standing = |now: &str| restored().standing(&Ok(Some(taken.clone())), None, time(now));
        let until = time("2026-11-30T12:20:00Z");
        assert_eq!(standing("2026-11-30T12:19:59Z"), Standing::TakingOver { until });
        assert_eq!(standing("2026-11-30T12:20:00Z"), Standing::Home);
        let far = HomeRecord { since: Timestamp::MAX, ..taken };
        let standing = restored().standing(&Ok(Some(far)), None, time(NOW));
        assert_eq!(standing, Standing::TakingOver { until: Timestamp::MAX });
    }

    #[test]
    fn of_two_stacks_at_most_one_acts() {
        let reads: Vec<ReadHome> = vec![
            Err("no answer".to_owned()),
            Ok(None),
            read(1, "first", None),
            read(2, "copy", Some("first")),
            read(1, "copy", None),
        ];
        // The first stack reads what the restored one wrote, wherever that stands, and whatever else it reads.
        for other in &reads {
            for (own, replica) in [(other, &reads[3]), (&reads[3], other)] {
                assert!(!matches!(first().standing(own, Some(replica), time(NOW)), Standing::Home), "{other:?}");
            }
        }
    }

    #[test]
    fn an_absurd_record_is_refused() {
        let refused = |change: &dyn Fn(&mut HomeRecord)| {
            let mut record = record(2, "copy", Some("first"));
            change(&mut record);
            record.check().unwrap_err().to_string()
        };
        assert_eq!(record(2, "copy", Some("first")).check(), Ok(()));
        assert!(refused(&|record| record.term = u64::MAX).contains("18446744073709551615"));
        assert!(refused(&|record| record.term = 0).contains("must be from 1 to 1000000"));
        assert!(refused(&|record| record.stack.bucket = "Not/a bucket".repeat(999)).contains("no name of a bucket"));
        assert!(
            refused(&|record| record.stack.region = "us-east-1.evil.example".into()).contains("no name of a region")
        );
        assert!(refused(&|record| record.stack.region = Region::new(format!("us-{}-1", "e".repeat(99)))).len() < 200);
        assert!(refused(&|record| record.before = Some(bucket(""))).contains("no name of a bucket"));
    }
}
