//! The ownership of instances by the jobs that their `curfew:job` names. Anybody can write that tag, and "launch more like this" copies it: Curfew
//! accepts it if and only if the state of that job lists this instance.
//!
//! - **Owned**: the state lists it, and the job is not closed. `run-jobs` terminates it; the only rule for it is `expired`.
//! - **Unknown**: the state could not be read, or a launch has no answer yet. Only `expired` acts on it, and no announcement is called
//!   off.
//! - **Not owned**: there is no such job, or it is closed, or its state does not list this instance. Somebody copied the tag, or the
//!   answer to a launch was lost. It is judged as untagged, by `[untagged]`. If there is no such job, `expired` terminates it.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use jobs::{EXPIRES_AFTER, Job, JobId};
use model::curfew_tags::{ATTEMPT, JOB};
use model::instance::Instance;

/// The states of the jobs that instances name; `None` for a job that does not exist. A job whose state could not be read is absent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobStates(pub BTreeMap<JobId, Option<Job>>);

/// The relation of an instance to the job that it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobOwnership<'a> {
    /// No `curfew:job`.
    None,
    /// A machine of this job.
    Owned(&'a str),
    /// A possible machine of this job: the state could not be read, or a launch has no answer yet.
    Unknown(&'a str),
    /// No machine of the job that it names.
    NotOwned(RejectedClaim<'a>),
}

/// The `curfew:job` of an instance that does not belong to that job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RejectedClaim<'a> {
    pub job: &'a str,
    pub why: RejectionReason,
}

/// The reason why an instance does not belong to the job that it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RejectionReason {
    /// The tag names no job.
    NoName,
    /// There is no such job.
    NoJob,
    /// The job has ended, and all its machines are gone.
    Closed,
    /// The job's state names other machines.
    NotItsOwn,
}

impl RejectionReason {
    /// The reason in words for people. The job's name comes before them.
    #[must_use]
    pub const fn explain(self) -> &'static str {
        match self {
            Self::NoName => "which is not the name of a job",
            Self::NoJob => "which does not exist",
            Self::Closed => "which has ended and has no machine left",
            Self::NotItsOwn => "which did not launch it",
        }
    }
}

impl JobOwnership<'_> {
    /// `true` if `expired` is the only rule that may act on the instance.
    #[must_use]
    pub const fn knows_only_its_expiry(self) -> bool {
        matches!(self, Self::Owned(_) | Self::Unknown(_))
    }
}

/// The jobs that these instances name, each once.
#[must_use]
pub fn claimed_jobs<'a>(instances: impl IntoIterator<Item = &'a Instance>) -> Vec<JobId> {
    let named = instances.into_iter().filter_map(|instance| JobId::read(instance.tags.get(JOB)?).ok());
    let once: BTreeSet<JobId> = named.collect();
    once.into_iter().collect()
}

impl JobStates {
    #[must_use]
    pub fn ownership<'a>(&self, instance: &'a Instance) -> JobOwnership<'a> {
        let Some(job) = instance.tags.get(JOB).map(String::as_str) else { return JobOwnership::None };
        let not_owned = |why| JobOwnership::NotOwned(RejectedClaim { job, why });
        let Ok(id) = JobId::read(job) else { return not_owned(RejectionReason::NoName) };
        let Some(state) = self.0.get(&id) else { return JobOwnership::Unknown(job) };
        let Some(state) = state else { return not_owned(RejectionReason::NoJob) };
        if state.is_closed() {
            return not_owned(RejectionReason::Closed);
        }
        let attempt = instance.tags.get(ATTEMPT).and_then(|attempt| attempt.trim().parse().ok());
        match state.knows(&instance.region, &instance.id, attempt) {
            Some(true) => JobOwnership::Owned(job),
            Some(false) => not_owned(RejectionReason::NotItsOwn),
            None => JobOwnership::Unknown(job),
        }
    }

    /// The deadline of a job's machine by the job's state, which only Curfew writes; `None` for any other instance, and for a machine
    /// that another one has replaced.
    #[must_use]
    pub fn deadline(&self, instance: &Instance) -> Option<Timestamp> {
        let JobOwnership::Owned(job) = self.ownership(instance) else { return None };
        let machine = self.0.get(&JobId::read(job).ok()?)?.as_ref()?.machine()?;
        let is_its = machine.has(&instance.id) && machine.region == instance.region;
        machine.ends_at.checked_add(EXPIRES_AFTER).ok().filter(|_| is_its)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{instance, jobs, launching, placed};
    use jobs::{JobEnd, JobMachine, JobResult, Phase};

    const NAMED: &str = "vision/llama-0123abcd";

    fn ended(closed: bool) -> Phase {
        let at = crate::fixture::time(crate::fixture::NOW);
        let machine = Some(placed("i-0abc", "us-east-1"));
        Phase::Ended(JobEnd { result: JobResult::Failed, why: String::new(), at, machine, released: closed, closed })
    }

    /// The usual instance, with these values of `curfew:job` and `curfew:attempt`.
    fn check(named: &str, attempt: &str, jobs: &JobStates, expect: JobOwnership<'_>) {
        let instance = instance().tag("curfew:job", named).tag("curfew:attempt", attempt).build();
        assert_eq!(jobs.ownership(&instance), expect, "{named} {attempt}");
    }

    fn not_owned(job: &str, why: RejectionReason) -> JobOwnership<'_> {
        JobOwnership::NotOwned(RejectedClaim { job, why })
    }

    #[test]
    fn a_machine_that_its_job_knows_is_its_own() {
        check(NAMED, "2", &jobs(Phase::Running(placed("i-0abc", "us-east-1"))), JobOwnership::Owned(NAMED));
        // Whatever the attempt says: the state knows the instance by its id.
        check(NAMED, "1", &jobs(Phase::Running(placed("i-0abc", "us-east-1"))), JobOwnership::Owned(NAMED));
        // It is over, but its machine is not gone yet.
        check(NAMED, "2", &jobs(ended(false)), JobOwnership::Owned(NAMED));
    }

    #[test]
    fn every_member_of_a_gang_is_its_own_and_ends_with_it() {
        let gang = |members: &[&str]| JobMachine {
            members: members.iter().map(|id| (*id).into()).collect(),
            launch: "0123456789abcdef".to_owned(),
            ..placed("i-0other", "us-east-1")
        };
        let running = jobs(Phase::Running(gang(&["i-1", "i-0abc", "i-3"])));
        check(NAMED, "2", &running, JobOwnership::Owned(NAMED));
        check_deadline(NAMED, &running, Some("2026-09-02T12:10:00Z"));
        let foreign = jobs(Phase::Running(gang(&["i-1", "i-3"])));
        check(NAMED, "2", &foreign, not_owned(NAMED, RejectionReason::NotItsOwn));
        check_deadline(NAMED, &foreign, None);
        // A warned gang, which runs beside the one that replaces it.
        let mut replaced = foreign;
        let job = replaced.0.values_mut().next().unwrap().as_mut().unwrap();
        job.previous_attempt = Some(gang(&["i-0abc"]));
        check(NAMED, "1", &replaced, JobOwnership::Owned(NAMED));
        check_deadline(NAMED, &replaced, None);
        // The state names no member before all are known.
        check(NAMED, "2", &jobs(launching()), JobOwnership::Unknown(NAMED));
    }

    #[test]
    fn any_other_instance_is_not_owned() {
        let running = |region| jobs(Phase::Running(placed("i-0other", region)));
        check(NAMED, "2", &running("us-east-1"), not_owned(NAMED, RejectionReason::NotItsOwn));
        check(NAMED, "2", &jobs(Phase::Submitted), not_owned(NAMED, RejectionReason::NotItsOwn));
        // An id is of one region.
        let elsewhere = jobs(Phase::Running(placed("i-0abc", "eu-west-1")));
        check(NAMED, "2", &elsewhere, not_owned(NAMED, RejectionReason::NotItsOwn));
        check(NAMED, "2", &jobs(ended(true)), not_owned(NAMED, RejectionReason::Closed));
        let none = JobStates(BTreeMap::from([(JobId::read(NAMED).unwrap(), None)]));
        check(NAMED, "2", &none, not_owned(NAMED, RejectionReason::NoJob));
        check("llama", "2", &none, not_owned("llama", RejectionReason::NoName));
    }

    #[test]
    fn during_a_launch_the_ownership_is_unknown() {
        check(NAMED, "2", &jobs(launching()), JobOwnership::Unknown(NAMED));
        check(NAMED, "soon", &jobs(launching()), JobOwnership::Unknown(NAMED));
        check(NAMED, "1", &jobs(launching()), not_owned(NAMED, RejectionReason::NotItsOwn));
    }

    #[test]
    fn an_unreadable_job_leaves_the_ownership_unknown() {
        check(NAMED, "2", &JobStates::default(), JobOwnership::Unknown(NAMED));
        assert_eq!(JobStates::default().ownership(&instance().build()), JobOwnership::None);
    }

    fn check_deadline(named: &str, jobs: &JobStates, expect: Option<&str>) {
        let instance = instance().tag("curfew:job", named).tag("curfew:expires-at", "2026-09-01T11:00:00Z").build();
        assert_eq!(jobs.deadline(&instance), expect.map(crate::fixture::time), "{named}");
    }

    #[test]
    fn the_deadline_comes_from_the_state_of_the_job() {
        let running = |instance| jobs(Phase::Running(placed(instance, "us-east-1")));
        check_deadline(NAMED, &running("i-0abc"), Some("2026-09-02T12:10:00Z"));
        check_deadline(NAMED, &jobs(ended(false)), Some("2026-09-02T12:10:00Z"));
        check_deadline(NAMED, &jobs(ended(true)), None);
        check_deadline(NAMED, &running("i-0other"), None);
        check_deadline(NAMED, &jobs(launching()), None);
        check_deadline(NAMED, &JobStates::default(), None);
        check_deadline("vision/other-0123abcd", &running("i-0abc"), None);
        // One that another machine has replaced ends when EC2 has taken it back.
        let mut replaced = running("i-0other");
        let job = replaced.0.values_mut().next().unwrap().as_mut().unwrap();
        job.previous_attempt = Some(placed("i-0abc", "us-east-1"));
        check_deadline(NAMED, &replaced, None);
    }

    #[test]
    fn each_claimed_job_is_listed_once() {
        let named = |job: &str| instance().tag("curfew:job", job).build();
        let seen = [named(NAMED), instance().build(), named(NAMED), named("llama"), named("nlp/bert-0123abcd")];
        let claimed: Vec<String> = claimed_jobs(&seen).iter().map(ToString::to_string).collect();
        assert_eq!(claimed, ["nlp/bert-0123abcd", NAMED]);
    }
}
