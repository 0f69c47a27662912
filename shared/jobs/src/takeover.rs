//! Jobs after their state bucket was taken over from a copy, which may be older than what runs: machines that no state names.
//!
//! Of an instance anybody who may launch some can choose the tags and the client token. The instance profile of a job's machines is passed by the
//! role of `run-jobs` alone (`iam:PassRole`), so the profile and the token of a launch together prove that Curfew launched it.

use jiff::{SignedDuration, Timestamp};
use model::home::{HomeRecord, StateBucket, TAKEOVER_DELAY};
use model::id::{Region, ResourceId, TypeName};
use model::moment::{after, before};

use super::{EXPIRES_AFTER, Job, JobId, Lifecycle, Phase, Ranking, launch_token};

/// Time after a takeover in which an earlier machine counts as alive without a heartbeat: its agent looks for the record every three minutes, a call
/// to a region that does not answer takes some minutes, and a machine that boots may take a quarter of an hour to its first heartbeat.
pub const MACHINES_MOVE_IN: SignedDuration = SignedDuration::from_mins(30);

/// Longest time after a takeover for which a job waits for a region that does not answer, and for instances that only claim to be its own. Then it is
/// launched: the fence keeps a second machine from doing harm.
const SEARCHED_FOR: SignedDuration = SignedDuration::from_hours(1);

/// A document of the inbox that was copied with the bucket may become a job so late, with a machine of its own.
const SUBMITTED_AFTER_MAX: SignedDuration = SignedDuration::from_hours(24);

/// The most attempts and passes through the ranking by which EC2 may be ahead of the copy.
const ATTEMPTS_AHEAD_MAX: u32 = 50;
const PASSES_AHEAD_MAX: u32 = 300;

/// The takeover of the state bucket by the stack that acts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Takeover {
    pub term: u64,
    /// Time of the takeover.
    pub since: Timestamp,
    /// Home region of the stack before, if its record was copied.
    pub region_before: Option<Region>,
}

impl Takeover {
    /// `None`: the stack that acts is the first.
    #[must_use]
    pub fn from_record(record: &HomeRecord) -> Option<Self> {
        let region_before = record.before.as_ref().map(|before| before.region.clone());
        (record.term > 1).then_some(Self { term: record.term, since: record.since, region_before })
    }

    /// `true` while a machine of before may still be on its way to this bucket.
    #[must_use]
    pub(crate) fn excuses_silence(&self, now: Timestamp) -> bool {
        now < after(self.since, MACHINES_MOVE_IN)
    }

    /// Latest time until which a job waits for what is not known.
    #[must_use]
    pub fn waits_until(&self) -> Timestamp {
        after(self.since, SEARCHED_FOR)
    }
}

/// An instance with the tag `curfew:job`, as EC2 describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundMachine {
    pub instance: ResourceId,
    pub region: Region,
    pub zone: Option<String>,
    pub instance_type: TypeName,
    /// `None`: bought in a way in which Curfew buys none.
    pub lifecycle: Option<Lifecycle>,
    pub launched_at: Timestamp,
    /// The value of its tag `curfew:job`.
    pub job: String,
    /// The number of its tag `curfew:attempt`.
    pub attempt: Option<u32>,
    /// The time of its tag `curfew:expires-at`.
    pub expires_at: Option<Timestamp>,
    /// Client token of its launch.
    pub token: Option<String>,
    /// Name of its instance profile.
    pub profile: Option<String>,
}

/// The machines of a job that EC2 shows and its state does not name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum NewerMachines {
    /// Not searched, or a region did not answer.
    #[default]
    Unknown,
    None,
    /// Curfew has launched this one. Of several it is that of the latest attempt.
    Launched(Box<FoundMachine>),
    /// Instances with its tag that Curfew may not have launched.
    Unproven(Vec<ResourceId>),
}

impl NewerMachines {
    /// Judges what all regions show. `profiles`: the instance profiles that its launches may have named.
    #[must_use]
    pub fn judge(job: &Job, takeover: &Takeover, found: &[FoundMachine], profiles: &[String]) -> Self {
        let id = job.job.to_string();
        let is_newer = |one: &&FoundMachine| {
            let is_known = job.knows(&one.region, &one.instance, one.attempt) == Some(true);
            one.job == id && !is_known && one.launched_at < after(takeover.since, TAKEOVER_DELAY)
        };
        let (launched, others): (Vec<&FoundMachine>, Vec<&FoundMachine>) =
            found.iter().filter(is_newer).partition(|one| one.is_launched_by_curfew(job, profiles));
        // One of an attempt that the state has passed is fenced, and ends by itself.
        let latest = launched.into_iter().filter(|one| one.attempt.is_some_and(|attempt| is_ahead(job, attempt)));
        let latest = latest.max_by_key(|one| (one.attempt, one.launched_at, &one.instance));
        match latest {
            Some(latest) => Self::Launched(Box::new(latest.clone())),
            None if others.is_empty() => Self::None,
            None => Self::Unproven(others.into_iter().map(|one| one.instance.clone()).collect()),
        }
    }
}

/// `true` if a machine of that attempt is later than what the state has.
const fn is_ahead(job: &Job, attempt: u32) -> bool {
    let has_own = matches!(job.phase, Phase::Running(_) | Phase::Interrupted(_) | Phase::Retrying(_));
    attempt > job.attempt || (attempt == job.attempt && !has_own)
}

impl FoundMachine {
    fn is_launched_by_curfew(&self, job: &Job, profiles: &[String]) -> bool {
        let has_profile = self.profile.as_ref().is_some_and(|own| profiles.contains(own));
        let Some((token, attempt)) = self.token.as_deref().zip(self.attempt).filter(|_| has_profile) else {
            return false;
        };
        let latest = job.attempt.saturating_add(ATTEMPTS_AHEAD_MAX);
        if attempt > latest {
            return false;
        }
        // A later attempt begins with its first pass.
        let first = if attempt == job.attempt { job.passes } else { 0 };
        let passes = first..=first.saturating_add(PASSES_AHEAD_MAX);
        passes.into_iter().any(|pass| has_token(&job.job, attempt, pass, token))
    }

    /// The attempt's absolute end, which its tag says with a margin. Anybody may have written a later one: the limits of the job bound it.
    pub(crate) fn ends_at(&self, latest: Timestamp) -> Timestamp {
        self.expires_at.map_or(latest, |expires_at| before(expires_at, EXPIRES_AFTER).min(latest))
    }
}

fn has_token(job: &JobId, attempt: u32, pass: u32, token: &str) -> bool {
    let candidates = 0..u8::try_from(Ranking::MAX).unwrap_or(u8::MAX);
    candidates.into_iter().any(|candidate| launch_token(job, attempt, pass, candidate) == token)
}

impl Job {
    /// `true` if EC2 has to be searched for newer machines of the job before anything is launched for it.
    #[must_use]
    pub fn is_unsettled(&self, takeover: &Takeover) -> bool {
        let is_over = matches!(self.phase, Phase::Ended(_));
        let may_be_older = self.submitted_at < after(takeover.since, SUBMITTED_AFTER_MAX);
        !is_over && self.settled_term < takeover.term && may_be_older
    }

    /// The regions in which it may have a machine that its state does not name; without those of the stacks.
    pub fn regions(&self) -> impl Iterator<Item = &Region> {
        let ranked = self.ranking.iter().flat_map(|ranking| &ranking.candidates).map(|candidate| &candidate.region);
        let machines = self.machine().into_iter().chain(&self.last_machine).map(|machine| &machine.region);
        ranked.chain(&self.terms.machine.regions).chain(machines)
    }
}

/// The record by which an attempt moves from the bucket `own` to its copy: the latest that is known, which names exactly that copy. Of two stacks
/// with one term neither is believed.
#[must_use]
pub fn find_takeover<'a>(
    own: &StateBucket,
    replica: &StateBucket,
    records: &'a [HomeRecord],
) -> Option<&'a HomeRecord> {
    let latest = records.iter().max_by_key(|record| record.term)?;
    let has_rival = records.iter().any(|other| other.term == latest.term && other.stack != latest.stack);
    let is_of_own = latest.before.as_ref().is_none_or(|before| before == own);
    (latest.is_takeover_by(replica) && is_of_own && !has_rival).then_some(latest)
}

#[cfg(test)]
mod tests {
    use model::fixture::time;

    use super::*;

    #[test]
    fn an_attempt_moves_to_its_own_copy_alone() {
        let bucket = |name: &str| StateBucket { bucket: name.to_owned(), region: "us-west-2".into() };
        let record = |term, stack: &str, before: Option<&str>| HomeRecord {
            term,
            stack: bucket(stack),
            since: time("2026-11-30T12:00:00Z"),
            before: before.map(bucket),
        };
        let term = |records: &[HomeRecord]| {
            find_takeover(&bucket("first"), &bucket("copy"), records).map(|record| record.term)
        };
        let (first, taken) = (record(1, "first", None), record(2, "copy", Some("first")));
        assert_eq!(term(&[]), None);
        assert_eq!(term(std::slice::from_ref(&first)), None);
        assert_eq!(term(&[first.clone(), taken.clone()]), Some(2));
        assert_eq!(term(&[taken.clone(), taken.clone()]), Some(2));
        assert_eq!(term(&[record(2, "copy", None)]), Some(2));
        // No takeover, of another bucket, another one's copy, or in another region.
        assert_eq!(term(&[record(1, "copy", None)]), None);
        assert_eq!(term(&[record(2, "strange", Some("first"))]), None);
        assert_eq!(term(&[record(2, "copy", Some("strange"))]), None);
        let elsewhere = StateBucket { region: "eu-west-1".into(), ..bucket("copy") };
        assert_eq!(term(&[HomeRecord { stack: elsewhere, ..taken.clone() }]), None);
        // The first stack has taken over again, another one has, or two claim to have.
        assert_eq!(term(&[record(3, "first", Some("copy")), taken.clone()]), None);
        assert_eq!(term(&[record(3, "third", Some("copy")), taken.clone()]), None);
        assert_eq!(term(&[record(2, "strange", Some("first")), taken]), None);
    }
}
