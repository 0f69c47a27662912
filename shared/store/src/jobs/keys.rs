//! Where the documents of a job lie.
//!
//! Team and job are one part of a key each, written as the team of a budget is.

use domain::id::TeamName;
use domain::job::JobId;

use crate::budgets::folder;
use crate::budgets::list::team_of;

/// Which document of a job.
#[derive(Debug, Clone, Copy)]
pub(super) enum Of {
    Spec,
    State,
    Head,
    Cancel,
    Heartbeat(u32),
    Exit(u32),
    Log(u32),
}

pub(super) fn key(job: &JobId, of: Of) -> String {
    let name = match of {
        Of::Spec => "spec.toml".to_owned(),
        Of::State => "state.json".to_owned(),
        Of::Head => "head.json".to_owned(),
        Of::Cancel => "cancel.json".to_owned(),
        Of::Heartbeat(attempt) => format!("attempts/{attempt}/heartbeat.json"),
        Of::Exit(attempt) => format!("attempts/{attempt}/exit.json"),
        Of::Log(attempt) => format!("attempts/{attempt}/log"),
    };
    format!("jobs/{}/{name}", path(job))
}

pub(super) fn jobs_folder(team: &TeamName) -> String {
    format!("jobs/{}/", folder(team))
}

pub(super) fn active_key(job: &JobId) -> String {
    format!("active/{}", path(job))
}

/// What an attempt uploads of its outputs: in no folder of documents, for people name them.
pub(super) fn outputs_folder(job: &JobId, attempt: u32) -> String {
    format!("outputs/{}/{attempt}/", path(job))
}

fn path(job: &JobId) -> String {
    format!("{}/{}", folder(&job.team), folder(&TeamName::new(job.job.as_str())))
}

/// The job that `<team>/<job>` of a key names; `None` where it names none.
pub(super) fn team_and_job(path: &str) -> Option<JobId> {
    let (team, job) = path.split_once('/')?;
    let (team, job) = (team_of(team)?, team_of(job)?);
    let job = JobId { team: TeamName::new(team), job };
    // Only what is written so is of Curfew.
    let is_one = !job.team.as_str().is_empty() && !job.job.is_empty();
    (is_one && self::path(&job) == path).then_some(job)
}

/// The job that an object under `jobs/` is of; `None` where it is of none.
#[must_use]
pub fn job_of_key(key: &str) -> Option<JobId> {
    let (team, rest) = key.strip_prefix("jobs/")?.split_once('/')?;
    let (job, _) = rest.split_once('/')?;
    team_and_job(&format!("{team}/{job}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn id(team: &str, job: &str) -> JobId {
        JobId { team: TeamName::from(team), job: job.to_owned() }
    }

    fn check(team: &str, job: &str, expect: &str) {
        let (job, expect) = (id(team, job), format!("jobs/{expect}/state.json"));
        assert_eq!(key(&job, Of::State), expect);
        assert_eq!(job_of_key(&expect), Some(job));
    }

    #[test]
    fn team_and_job_are_one_folder_each() {
        check("vision", "llama-ft-0123abcd", "vision/llama-ft-0123abcd");
        check("Bildverarbeitung Köln", "x.y_z-0123abcd", "Bildverarbeitung%20Köln/x.y_z-0123abcd");
        check("a/b", "c-0123abcd", "a%2Fb/c-0123abcd");
        check("..", "..", "%2E%2E/%2E%2E");
    }

    #[test]
    fn outputs_lie_beside_the_documents() {
        let folder = outputs_folder(&id("a/b", "c-0123abcd"), 2);
        assert_eq!(folder, "outputs/a%2Fb/c-0123abcd/2/");
        assert_eq!(job_of_key(&format!("{folder}cancel.json")), None);
    }

    #[test]
    fn what_curfew_does_not_write_is_no_job() {
        for key in ["jobs/vision", "jobs/vision/x", "jobs//x/state.json", "jobs/a b/x/state.json", "inbox/vision/x/y"] {
            assert_eq!(job_of_key(key), None, "{key}");
        }
    }

    proptest! {
        #[test]
        fn a_key_says_which_job_it_is_of(team in "\\PC{1,20}|[-./_%a-z ]{1,8}", job in "[A-Za-z0-9][-._A-Za-z0-9]{0,30}") {
            let job = id(&team, &job);
            prop_assert_eq!(team_and_job(&path(&job)), Some(job.clone()));
            for of in [Of::Spec, Of::Head, Of::Cancel, Of::Heartbeat(3), Of::Exit(3), Of::Log(3)] {
                prop_assert_eq!(job_of_key(&key(&job, of)), Some(job.clone()));
            }
        }
    }
}
