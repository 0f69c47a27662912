//! Whether an instance is the job's that its `curfew:job` names. Anybody can write that tag, and "launch more like this" copies
//! it: it is believed if and only if the state of that job knows this very instance.
//!
//! - **Ours**: it does, and the job is not closed. `run-jobs` ends it; of the rules it knows only `expired`.
//! - **Unsayable**: the state could not be read, or a launch is under way of which nobody has heard yet. Nothing is known, so
//!   nothing but `expired` ends it, and nothing that was announced is taken back.
//! - **Stranger**: there is no such job, or it is closed, or it does not know this instance. The tag was copied, or the answer to
//!   a launch was lost. It is judged like one that lacks a required tag: `[untagged]` says when and how it ends. Where there is no such job,
//!   its expiry terminates it.

use std::collections::{BTreeMap, BTreeSet};

use crate::instance::Instance;
use crate::job::{Job, JobId};
use crate::vocabulary::{ATTEMPT, JOB};

/// What the states of jobs say: of each that an instance names and that could be looked up, its state, or that there is none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Jobs(pub BTreeMap<JobId, Option<Job>>);

/// Whose an instance is, as far as jobs go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim<'a> {
    /// It names no job.
    None,
    /// The job knows it.
    Ours(&'a str),
    /// Nobody can say whether it does.
    Unsayable(&'a str),
    /// It is not the job's that it names.
    Stranger(Stranger<'a>),
}

/// An instance that names a job which does not know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stranger<'a> {
    /// What its `curfew:job` says.
    pub job: &'a str,
    /// Why that is not believed.
    pub why: Disowned,
}

/// Why an instance is not the job's that it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disowned {
    /// The tag names no job.
    NoName,
    /// There is no such job.
    NoJob,
    /// That job is over, and everything of it is gone.
    Closed,
    /// That job's state names other machines.
    NotItsOwn,
}

impl Disowned {
    /// For people, after the job's name.
    #[must_use]
    pub const fn explained(self) -> &'static str {
        match self {
            Self::NoName => "which is no name of a job",
            Self::NoJob => "which does not exist",
            Self::Closed => "which is over, and has no machine any more",
            Self::NotItsOwn => "whose state does not know it",
        }
    }
}

impl Claim<'_> {
    /// Whether only an end that was written down at its launch may befall it.
    #[must_use]
    pub const fn knows_only_its_expiry(self) -> bool {
        matches!(self, Self::Ours(_) | Self::Unsayable(_))
    }
}

/// The jobs that these instances name, each once: what has to be looked up.
#[must_use]
pub fn claimed<'a>(instances: impl IntoIterator<Item = &'a Instance>) -> Vec<JobId> {
    let named = instances.into_iter().filter_map(|instance| JobId::read(instance.tags.get(JOB)?).ok());
    let once: BTreeSet<JobId> = named.collect();
    once.into_iter().collect()
}

impl Jobs {
    /// Whose an instance is.
    #[must_use]
    pub fn claim<'a>(&self, instance: &'a Instance) -> Claim<'a> {
        let Some(job) = instance.tags.get(JOB).map(String::as_str) else { return Claim::None };
        let stranger = |why| Claim::Stranger(Stranger { job, why });
        let Ok(id) = JobId::read(job) else { return stranger(Disowned::NoName) };
        let Some(state) = self.0.get(&id) else { return Claim::Unsayable(job) };
        let Some(state) = state else { return stranger(Disowned::NoJob) };
        if state.is_closed() {
            return stranger(Disowned::Closed);
        }
        let attempt = instance.tags.get(ATTEMPT).and_then(|attempt| attempt.trim().parse().ok());
        match state.knows(&instance.region, &instance.id, attempt) {
            Some(true) => Claim::Ours(job),
            Some(false) => stranger(Disowned::NotItsOwn),
            None => Claim::Unsayable(job),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{instance, jobs, launching, placed};
    use crate::job::{Ended, Ending, Phase};

    const NAMED: &str = "vision/llama-0123abcd";

    fn ended(closed: bool) -> Phase {
        let at = crate::fixture::time(crate::fixture::NOW);
        let machine = Some(placed("i-0abc", "us-east-1"));
        Phase::Ended(Ended { result: Ending::Failed, why: String::new(), at, machine, released: closed, closed })
    }

    /// The usual instance, with these values of `curfew:job` and `curfew:attempt`.
    fn check(named: &str, attempt: &str, jobs: &Jobs, expect: Claim<'_>) {
        let instance = instance().tag("curfew:job", named).tag("curfew:attempt", attempt).build();
        assert_eq!(jobs.claim(&instance), expect, "{named} {attempt}");
    }

    fn stranger(job: &str, why: Disowned) -> Claim<'_> {
        Claim::Stranger(Stranger { job, why })
    }

    #[test]
    fn a_machine_that_its_job_knows_is_its_own() {
        check(NAMED, "2", &jobs(Phase::Running(placed("i-0abc", "us-east-1"))), Claim::Ours(NAMED));
        // Whatever the attempt says: the state knows the instance by its id.
        check(NAMED, "1", &jobs(Phase::Running(placed("i-0abc", "us-east-1"))), Claim::Ours(NAMED));
        // It is over, but its machine is not gone yet.
        check(NAMED, "2", &jobs(ended(false)), Claim::Ours(NAMED));
    }

    #[test]
    fn any_other_is_a_stranger() {
        let running = |region| jobs(Phase::Running(placed("i-0other", region)));
        check(NAMED, "2", &running("us-east-1"), stranger(NAMED, Disowned::NotItsOwn));
        check(NAMED, "2", &jobs(Phase::Submitted), stranger(NAMED, Disowned::NotItsOwn));
        // An id is of one region.
        let elsewhere = jobs(Phase::Running(placed("i-0abc", "eu-west-1")));
        check(NAMED, "2", &elsewhere, stranger(NAMED, Disowned::NotItsOwn));
        check(NAMED, "2", &jobs(ended(true)), stranger(NAMED, Disowned::Closed));
        let none = Jobs(BTreeMap::from([(JobId::read(NAMED).unwrap(), None)]));
        check(NAMED, "2", &none, stranger(NAMED, Disowned::NoJob));
        check("llama", "2", &none, stranger("llama", Disowned::NoName));
    }

    #[test]
    fn while_a_launch_is_under_way_nobody_can_say() {
        check(NAMED, "2", &jobs(launching()), Claim::Unsayable(NAMED));
        check(NAMED, "soon", &jobs(launching()), Claim::Unsayable(NAMED));
        check(NAMED, "1", &jobs(launching()), stranger(NAMED, Disowned::NotItsOwn));
    }

    #[test]
    fn of_a_job_that_could_not_be_read_nobody_can_say() {
        check(NAMED, "2", &Jobs::default(), Claim::Unsayable(NAMED));
        assert_eq!(Jobs::default().claim(&instance().build()), Claim::None);
    }

    #[test]
    fn each_job_is_looked_up_once() {
        let of = |job: &str| instance().tag("curfew:job", job).build();
        let seen = [of(NAMED), instance().build(), of(NAMED), of("llama"), of("nlp/bert-1")];
        let found: Vec<String> = claimed(&seen).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["nlp/bert-1", NAMED]);
    }
}
