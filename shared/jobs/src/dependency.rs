//! The jobs that a job comes after: what is known of each, and the variable by which its command finds their outputs.

use super::{Job, JobResult, Phase};

/// What is known of a job that another one comes after.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DependencyState {
    Unfinished,
    /// How it ended, which never changes.
    Ended(JobResult),
    /// There is no such job.
    Absent,
}

impl DependencyState {
    /// Of its state; `None` if there is no such job.
    #[must_use]
    pub fn from_job(job: Option<&Job>) -> Self {
        match job.map(|job| &job.phase) {
            None => Self::Absent,
            Some(Phase::Ended(ended)) => Self::Ended(ended.result),
            Some(_) => Self::Unfinished,
        }
    }

    /// Why no job can come after it any more, to follow its name; `None` if one can.
    #[must_use]
    pub const fn obstacle(self) -> Option<&'static str> {
        match self {
            Self::Unfinished | Self::Ended(JobResult::Succeeded) => None,
            Self::Ended(JobResult::Failed) => Some("has failed"),
            Self::Ended(JobResult::Expired) => Some("has expired"),
            Self::Ended(JobResult::Cancelled) => Some("was cancelled"),
            Self::Absent => Some("is no job of this team, or not accepted yet"),
        }
    }
}

/// The variable with the outputs of a job, `<name>-<8 hex>`: its name in capitals, without the digits, which change with each submission.
#[must_use]
pub fn outputs_variable(job: &str) -> String {
    let name = job.rsplit_once('-').map_or(job, |(name, _)| name);
    let legal = |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_uppercase() } else { '_' };
    format!("CURFEW_OUTPUTS_OF_{}", name.chars().map(legal).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::next::tests::fixture::*;

    #[test]
    fn only_an_end_without_success_is_an_obstacle() {
        let check = |job: Option<Job>, expect: Option<&str>| {
            assert_eq!(DependencyState::from_job(job.as_ref()).obstacle(), expect);
        };
        check(Some(running().job), None);
        check(Some(ended(JobResult::Succeeded).job), None);
        check(Some(ended(JobResult::Failed).job), Some("has failed"));
        check(Some(ended(JobResult::Expired).job), Some("has expired"));
        check(Some(ended(JobResult::Cancelled).job), Some("was cancelled"));
        check(None, Some("is no job of this team, or not accepted yet"));
    }

    #[test]
    fn a_variable_has_the_name_that_a_person_gave() {
        assert_eq!(outputs_variable("llama-ft.2-1a2b3c4d"), "CURFEW_OUTPUTS_OF_LLAMA_FT_2");
        assert_eq!(outputs_variable("x-1a2b3c4d"), "CURFEW_OUTPUTS_OF_X");
    }
}
