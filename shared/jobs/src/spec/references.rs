//! The mistakes of a legal document that only the bucket and the prices show.

use super::JobSpec;
use super::judge::SpecValidator;
use crate::worst_case::describe_too_little_usd;
use crate::{Candidate, LaunchObstacle, SpecMistake};

impl JobSpec {
    /// The mistakes of a legal document whose `after` names jobs that it cannot come after: each by its place in the list, with why.
    #[must_use]
    pub fn refuse_after(document: &[u8], obstacles: &[(usize, String)]) -> Vec<SpecMistake> {
        let text = String::from_utf8_lossy(document);
        let Ok((mut judge, written)) = SpecValidator::parse(&text) else { return Vec::new() };
        for (index, obstacle) in obstacles {
            let name = written.after.get(*index).map(String::as_str).unwrap_or_default();
            let problem = format!(
                "{name:?} {obstacle}, so this job would never begin; name one that is unfinished or has succeeded"
            );
            judge.refuse_item(&["after"], *index, &problem);
        }
        judge.done((), |()| None::<()>).err().unwrap_or_default()
    }

    /// The mistake of a legal document whose `resume_from` names a job without a checkpoint.
    #[must_use]
    pub fn refuse_resume_from(document: &[u8]) -> Vec<SpecMistake> {
        let text = String::from_utf8_lossy(document);
        let Ok((mut judge, written)) = SpecValidator::parse(&text) else { return Vec::new() };
        let name = written.resume_from.unwrap_or_default();
        let problem =
            format!("{name:?} is not a job of this team with a complete checkpoint; name one, or leave it out");
        judge.refuse(&["resume_from"], &problem);
        judge.done((), |()| None::<()>).err().unwrap_or_default()
    }

    /// The mistake of a legal document whose `max_usd` pays for too little time on each of the candidates: the job would be `expired` at once.
    #[must_use]
    pub fn refuse_max_usd(&self, document: &[u8], candidates: &[Candidate]) -> Vec<SpecMistake> {
        let Some(problem) = describe_too_little_usd(self, candidates) else { return Vec::new() };
        let text = String::from_utf8_lossy(document);
        let Ok((mut judge, _)) = SpecValidator::parse(&text) else { return Vec::new() };
        judge.refuse(&["limits", "max_usd"], &problem);
        judge.done((), |()| None::<()>).err().unwrap_or_default()
    }

    /// The mistake of a legal document that requires a network which no place has ([`refused_network`](crate::refused_network)).
    #[must_use]
    pub fn refuse_network(document: &[u8], why: &LaunchObstacle) -> Vec<SpecMistake> {
        let text = String::from_utf8_lossy(document);
        let Ok((mut judge, _)) = SpecValidator::parse(&text) else { return Vec::new() };
        judge.refuse(&["network", "efa"], &why.to_string());
        judge.done((), |()| None::<()>).err().unwrap_or_default()
    }
}
