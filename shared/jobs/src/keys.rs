//! The keys of a job's documents in the state bucket.
//!
//! Team and job are one part of a key each, spelt as the team of a budget.

use model::id::TeamName;
use model::team_folder::{decode_folder, team_folder};

use super::{JobId, JobName};

/// Written by a job's machine. In IAM `*` matches `/` too: only a separate top folder keeps a machine's role out of `jobs/` (IAM user
/// guide, "IAM JSON policy elements: Resource").
pub(crate) const ATTEMPTS: &str = "attempts/";

/// A document of a job; those of an attempt with its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobDocument {
    Spec,
    State,
    Head,
    Cancel,
    Extend,
    Sweep,
    Followed,
    Heartbeat(u32),
    Exit(u32),
    Log(u32),
    /// Attempt, and number of the part.
    LogPart(u32, u32),
}

/// The key of a document of a job.
#[must_use]
pub fn document_key(job: &JobId, of: JobDocument) -> String {
    let job = path(job);
    match of {
        JobDocument::Spec => format!("jobs/{job}/spec.toml"),
        JobDocument::State => format!("jobs/{job}/state.json"),
        JobDocument::Cancel => format!("jobs/{job}/cancel.json"),
        JobDocument::Extend => format!("jobs/{job}/extend.json"),
        JobDocument::Sweep => format!("jobs/{job}/sweep.json"),
        JobDocument::Followed => format!("jobs/{job}/followed.json"),
        JobDocument::Head => format!("{ATTEMPTS}{job}/head.json"),
        JobDocument::Heartbeat(attempt) => format!("{ATTEMPTS}{job}/{attempt}/heartbeat.json"),
        JobDocument::Exit(attempt) => format!("{ATTEMPTS}{job}/{attempt}/exit.json"),
        JobDocument::Log(attempt) => format!("{ATTEMPTS}{job}/{attempt}/log"),
        JobDocument::LogPart(attempt, number) => format!("{ATTEMPTS}{job}/{attempt}/log.{number}"),
    }
}

/// The folder of a team under `jobs/`.
#[must_use]
pub fn jobs_folder(team: &TeamName) -> String {
    format!("jobs/{}/", team_folder(team))
}

/// The team of a folder directly under `jobs/`; `None` if Curfew would spell it differently.
#[must_use]
pub fn team_of_folder(folder: &str) -> Option<TeamName> {
    let team = TeamName::new(decode_folder(folder.strip_prefix("jobs/")?.strip_suffix('/')?)?);
    (!team.as_str().is_empty() && jobs_folder(&team) == folder).then_some(team)
}

/// The entry of a job on the index of unfinished jobs.
#[must_use]
pub fn active_key(job: &JobId) -> String {
    format!("active/{}", path(job))
}

/// Prefix of the entries of all jobs of a name, and of members of a sweep of that name. Entries of other jobs have it, too.
#[must_use]
pub fn active_name_prefix(team: &TeamName, name: &JobName) -> String {
    format!("active/{}/{}-", team_folder(team), name.as_str())
}

/// The entry of an unfinished sweep among the jobs of its team. Its name is no job's, and in a list it comes before all of them: whoever sees it
/// sees all members that were written before it.
#[must_use]
pub fn active_sweep_key(sweep: &JobId) -> String {
    format!("active/{}/-{}", team_folder(&sweep.team), team_folder(&TeamName::new(sweep.job.as_str())))
}

/// The sweep of such an entry; `None` for any other key.
#[must_use]
pub fn sweep_of_active_key(key: &str) -> Option<JobId> {
    let (team, sweep) = key.strip_prefix("active/")?.split_once("/-")?;
    team_and_job(&format!("{team}/{sweep}"))
}

/// Prefix of the entries of all members of a sweep. Entries of other jobs have it, too.
#[must_use]
pub fn active_members_prefix(sweep: &JobId) -> String {
    let first = active_key(&sweep.member(1));
    let (rest, _) = first.rsplit_once('-').unwrap_or((&first, ""));
    rest.rsplit_once('-').map_or_else(String::new, |(name, _)| format!("{name}-"))
}

/// The outputs of an attempt: apart from documents, because people choose their names.
#[must_use]
pub fn outputs_folder(job: &JobId, attempt: u32) -> String {
    format!("outputs/{}/{attempt}/", path(job))
}

pub(crate) fn path(job: &JobId) -> String {
    format!("{}/{}", team_folder(&job.team), team_folder(&TeamName::new(job.job.as_str())))
}

/// The job that `<team>/<job>` of a key names; `None` if it names none.
#[must_use]
pub fn team_and_job(path: &str) -> Option<JobId> {
    let (team, job) = path.split_once('/')?;
    let job = JobId::read(&format!("{}/{}", decode_folder(team)?, decode_folder(job)?)).ok()?;
    // Only Curfew's own spelling counts.
    (self::path(&job) == path).then_some(job)
}

/// The job of an object under `jobs/`; `None` if it belongs to none.
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
        assert_eq!(document_key(&job, JobDocument::State), expect);
        assert_eq!(job_of_key(&expect), Some(job));
    }

    #[test]
    fn team_and_job_are_one_folder_each() {
        check("vision", "llama-ft-0123abcd", "vision/llama-ft-0123abcd");
        check("Bildverarbeitung Köln", "x.y_z-0123abcd", "Bildverarbeitung%20Köln/x.y_z-0123abcd");
        check("a/b", "c-0123abcd", "a%2Fb/c-0123abcd");
        check("..", "x-0123abcd", "%2E%2E/x-0123abcd");
    }

    #[test]
    fn a_sweep_is_on_the_index_before_its_members() {
        let sweep = id("a/b", "tune-a-0123abcd");
        assert_eq!(active_sweep_key(&sweep), "active/a%2Fb/-tune-a-0123abcd");
        assert_eq!(sweep_of_active_key("active/a%2Fb/-tune-a-0123abcd"), Some(sweep.clone()));
        assert_eq!(team_and_job("a%2Fb/-tune-a-0123abcd"), None);
        assert_eq!(sweep_of_active_key("active/a%2Fb/tune-a-0123abcd"), None);
        let (prefix, member) = (active_members_prefix(&sweep), active_key(&sweep.member(7)));
        assert_eq!((prefix.as_str(), member.as_str()), ("active/a%2Fb/tune-a-", "active/a%2Fb/tune-a-0007-0123abcd"));
        assert!(active_sweep_key(&sweep) < member && member.starts_with(&prefix));
        assert!(active_sweep_key(&sweep) < active_key(&id("a/b", "0-0123abcd")));
    }

    #[test]
    fn a_machine_writes_in_a_folder_of_its_own() {
        let job = id("a/b", "c-0123abcd");
        let keys = [
            JobDocument::Head,
            JobDocument::Heartbeat(2),
            JobDocument::Exit(2),
            JobDocument::Log(2),
            JobDocument::LogPart(2, 0),
        ]
        .map(|of| document_key(&job, of));
        let names = ["head.json", "2/heartbeat.json", "2/exit.json", "2/log", "2/log.0"];
        assert_eq!(keys, names.map(|name| format!("attempts/a%2Fb/c-0123abcd/{name}")));
    }

    #[test]
    fn a_folder_is_of_the_team_that_it_is_written_for() {
        for team in ["vision", "a/b", "computer vision"] {
            assert_eq!(team_of_folder(&jobs_folder(&team.into())), Some(team.into()));
        }
        for folder in ["jobs/", "jobs//", "jobs/v%69sion/", "jobs/a b/", "inbox/vision/"] {
            assert_eq!(team_of_folder(folder), None, "{folder}");
        }
    }

    #[test]
    fn outputs_lie_beside_the_documents() {
        let folder = outputs_folder(&id("a/b", "c-0123abcd"), 2);
        assert_eq!(folder, "outputs/a%2Fb/c-0123abcd/2/");
        assert_eq!(job_of_key(&format!("{folder}cancel.json")), None);
    }

    #[test]
    fn foreign_objects_are_no_jobs() {
        let forged =
            ["jobs/nlp/attempts/state.json", "jobs/vision/x-0123ABCD/state.json", "jobs/vision/x-0123abc/state.json"];
        let respelt = [
            "jobs/v%69sion/x-0123abcd/state.json",
            "jobs/a b/x-0123abcd/y",
            "jobs/%20a/x-0123abcd/y",
            "jobs/a/..-0123abcd/y",
        ];
        let no_jobs =
            ["jobs/vision", "jobs/vision/x-0123abcd", "jobs//x-0123abcd/state.json", "inbox/vision/x-0123abcd/y"];
        for key in forged.iter().chain(&respelt).chain(&no_jobs) {
            assert_eq!(job_of_key(key), None, "{key}");
        }
    }

    proptest! {
        #[test]
        fn a_key_says_which_job_it_is_of(team in "\\PC{1,20}|[-./_%a-z ]{1,8}", job in "[A-Za-z0-9][-._A-Za-z0-9]{0,30}-[0-9a-f]{8}") {
            prop_assume!(model::ownership::is_team(&team));
            let job = id(&team, &job);
            prop_assert_eq!(team_and_job(&path(&job)), Some(job.clone()));
            for of in [JobDocument::Spec, JobDocument::State, JobDocument::Cancel] {
                prop_assert_eq!(job_of_key(&document_key(&job, of)), Some(job.clone()));
            }
            for of in [JobDocument::Head, JobDocument::Heartbeat(3), JobDocument::Exit(3), JobDocument::Log(3)] {
                prop_assert_eq!(job_of_key(&document_key(&job, of)), None);
            }
        }
    }
}
