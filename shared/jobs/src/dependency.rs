//! The jobs and sweeps that a job comes after: what is known of each, and the variable by which its command finds their outputs.

use super::{Job, JobResult, Phase};

/// The state of a job, or a sweep, that another job comes after.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DependencyState {
    Unfinished,
    /// The job or sweep has ended with this result, which never changes.
    Ended(JobResult),
    /// A job of the sweep ended so, which is no success: its number.
    MemberEnded(u32, JobResult),
    /// There is neither such a job nor such a sweep.
    Absent,
}

impl DependencyState {
    /// Reads the state of a job; `None` is a job that does not exist.
    #[must_use]
    pub fn from_job(job: Option<&Job>) -> Self {
        match job.map(|job| &job.phase) {
            None => Self::Absent,
            Some(Phase::Ended(ended)) => Self::Ended(ended.result),
            Some(_) => Self::Unfinished,
        }
    }

    /// Reads the state of a sweep, as far as this member decides: a sweep has succeeded once all members have. A member without a state has
    /// not begun yet.
    #[must_use]
    pub fn from_member(number: u32, member: Option<&Job>) -> Self {
        match Self::from_job(member) {
            Self::Absent => Self::Unfinished,
            Self::Ended(result) if result != JobResult::Succeeded => Self::MemberEnded(number, result),
            state => state,
        }
    }

    /// Returns the reason why no job can come after it any more, to follow its name; `None` if one can.
    #[must_use]
    pub fn obstacle(self) -> Option<String> {
        match self {
            Self::Unfinished | Self::Ended(JobResult::Succeeded) => None,
            Self::Ended(result) => Some(describe_end(result).to_owned()),
            Self::MemberEnded(number, result) => {
                Some(format!("is a sweep whose job {number} {}", describe_end(result)))
            }
            Self::Absent => Some("is not a job or sweep of this team, or not accepted yet".to_owned()),
        }
    }
}

const fn describe_end(result: JobResult) -> &'static str {
    match result {
        JobResult::Succeeded => "has succeeded",
        JobResult::Failed => "has failed",
        JobResult::Expired => "has expired",
        JobResult::Cancelled => "was cancelled",
    }
}

/// The variable with the outputs of a job or a sweep, `<name>-<8 hex>`: its name in capitals, without the digits, which change with each submission.
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
            assert_eq!(DependencyState::from_job(job.as_ref()).obstacle().as_deref(), expect);
        };
        check(Some(running().job), None);
        check(Some(ended(JobResult::Succeeded).job), None);
        check(Some(ended(JobResult::Failed).job), Some("has failed"));
        check(Some(ended(JobResult::Expired).job), Some("has expired"));
        check(Some(ended(JobResult::Cancelled).job), Some("was cancelled"));
        check(None, Some("is not a job or sweep of this team, or not accepted yet"));
    }

    #[test]
    fn a_sweep_fails_with_one_of_its_jobs() {
        let check = |member: Option<Job>, expect: DependencyState| {
            assert_eq!(DependencyState::from_member(3, member.as_ref()), expect);
        };
        check(None, DependencyState::Unfinished);
        check(Some(running().job), DependencyState::Unfinished);
        check(Some(ended(JobResult::Succeeded).job), DependencyState::Ended(JobResult::Succeeded));
        let expired = DependencyState::MemberEnded(3, JobResult::Expired);
        check(Some(ended(JobResult::Expired).job), expired);
        assert_eq!(expired.obstacle().as_deref(), Some("is a sweep whose job 3 has expired"));
    }

    #[test]
    fn a_variable_has_the_name_that_a_person_gave() {
        assert_eq!(outputs_variable("llama-ft.2-1a2b3c4d"), "CURFEW_OUTPUTS_OF_LLAMA_FT_2");
        assert_eq!(outputs_variable("x-1a2b3c4d"), "CURFEW_OUTPUTS_OF_X");
    }
}
