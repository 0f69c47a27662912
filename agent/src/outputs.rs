//! What a job leaves behind besides its checkpoints: `outputs/<team>/<job>/<n>/<path>`.

use std::path::Path;

use store::{Local, Unsent};

use crate::agent::Agent;
use crate::directory::{self, Found};
use crate::fence::Shut;
use crate::patience::Patience;

/// So many refusals are said, for the words have to fit a message; the log has as many.
const SAID_MAX: usize = 5;

/// Uploads files, and directories with all that is in them, each by itself. What could not be, in words; `None` where all was.
pub(crate) async fn upload(agent: &Agent, wanted: &[String]) -> Option<String> {
    agent.does("uploading outputs");
    let mut found = Found::default();
    for path in wanted {
        directory::all(Path::new(path), &mut found);
    }
    let Found { mut files, mut missing } = found;
    files.sort_unstable_by(|one, other| one.path.cmp(&other.path));
    files.dedup();
    let count = files.len();
    let refused = while_s3_answers(agent, files).await;
    agent.log.say(&format!("{} files of its outputs are uploaded", count - refused.len()));
    missing.extend(refused);
    words_of(&missing)
}

/// What is refused while S3 answers, and would be refused again, stays refused; the rest is sent again. What is refused, in words.
async fn while_s3_answers(agent: &Agent, mut files: Vec<Local>) -> Vec<String> {
    let (mut refused, mut patience) = (Vec::new(), Patience::default());
    loop {
        let unsent = agent.store.upload_outputs(&agent.identity.job, agent.identity.attempt, files).await;
        let (fenced, silent) = match agent.fence.look().await {
            Ok(()) => (false, None),
            Err(Shut::Fenced(_)) => (true, None),
            Err(Shut::Store(error)) => (false, Some(error)),
        };
        let is_sent_again = |one: &Unsent| !fenced && (silent.is_some() || one.passing.is_some());
        let (again, over): (Vec<Unsent>, Vec<Unsent>) = unsent.into_iter().partition(is_sent_again);
        refused.extend(over.into_iter().map(|one| one.words));
        let passing = again.iter().find_map(|one| silent.as_ref().or(one.passing.as_ref()));
        let Some(error) = passing else { return refused };
        if !patience.bears(agent, "the outputs cannot be uploaded yet", error).await {
            refused.extend(again.into_iter().map(|one| one.words));
            return refused;
        }
        files = again.into_iter().map(|one| one.file).collect();
    }
}

fn words_of(missing: &[String]) -> Option<String> {
    let said = missing.get(..SAID_MAX).unwrap_or(missing).join(", ");
    let more = match missing.len().saturating_sub(SAID_MAX) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    (!missing.is_empty()).then(|| format!("not all of its outputs are uploaded: {said}{more}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(count: usize, expect: Option<&str>) {
        let missing: Vec<String> = (0..count).map(|number| number.to_string()).collect();
        let expect = expect.map(|said| format!("not all of its outputs are uploaded: {said}"));
        assert_eq!(words_of(&missing), expect);
    }

    #[test]
    fn some_refusals_are_said_and_the_rest_counted() {
        check(0, None);
        check(5, Some("0, 1, 2, 3, 4"));
        check(8, Some("0, 1, 2, 3, 4, and 3 more"));
    }
}
