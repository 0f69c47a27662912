//! The outputs of a job besides its checkpoints: `outputs/<team>/<job>/<n>/<path>`; and where those of the jobs are that it comes after.

use std::path::Path;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use jobs::{JobId, outputs_variable};
use store::{FileOwner, LocalFile, StoreError, SweepDocuments as _, UnsentFile};

use crate::agent::{Agent, StartError};
use crate::directory::{self, FoundFiles};
use crate::disk::on_disk;
use crate::fence::FenceError;
use crate::retry_timeout::{RetryTimeout, read_with_retries};
use crate::variables::VariableMap;

/// Heads that are read at once.
const AT_ONCE: usize = 16;

/// Limit of one variable with its name, `=` and a NUL (Linux manual pages, "execve": 32 pages of 4 KiB).
const VARIABLE_BYTES_MAX: usize = 128 * 1024;

/// The most refusals in a message; the log has all of them.
const SAID_MAX: usize = 5;

/// The variables with the outputs of the jobs that it comes after: the folder of each, and of several with one name one a line, as of all jobs of
/// a sweep in their order.
pub(crate) async fn find_earlier(agent: &Agent, after: &[String]) -> Result<VariableMap, StartError> {
    let mut variables = VariableMap::new();
    for name in after {
        let id = JobId { team: agent.identity.job.team.clone(), job: name.clone() };
        let found = find_folders(agent, &id).await;
        let found = found
            .map_err(|error| StartError::from_store(&error, format!("the outputs of {id} cannot be found: {error}")))?;
        for (job, folder) in found {
            let variable = outputs_variable(name);
            let Some(folder) = folder else {
                // Its exit record may have said so alone.
                agent.log.write_line(&format!("{variable} is without {job}: its head.json names no success"));
                continue;
            };
            let folders: &mut String = variables.entry(variable).or_default();
            if !folders.is_empty() {
                folders.push('\n');
            }
            folders.push_str(&folder);
        }
    }
    variables.iter().try_for_each(|(name, folders)| check_length(name, folders))?;
    Ok(variables)
}

/// The folder of a job, or of each job of a sweep; `None` for one without a success.
async fn find_folders(agent: &Agent, id: &JobId) -> Result<Vec<(JobId, Option<String>)>, StoreError> {
    let find = async |job: &JobId| {
        read_with_retries(agent, "the result of a job", async || agent.store().find_outputs(job).await).await
    };
    let folder = find(id).await?;
    if folder.is_some() {
        return Ok(vec![(id.clone(), folder)]);
    }
    let sweep = read_with_retries(agent, "a sweep", async || agent.store().read_sweep(id).await).await?;
    let Some(sweep) = sweep else { return Ok(vec![(id.clone(), None)]) };
    let members = stream::iter(sweep.numbers()).map(|number| async move {
        let member = id.member(number);
        let folder = find(&member).await?;
        Ok((member, folder))
    });
    members.buffered(AT_ONCE).try_collect().await
}

fn check_length(name: &str, folders: &str) -> Result<(), StartError> {
    let bytes = name.len() + folders.len() + "=\0".len();
    if bytes <= VARIABLE_BYTES_MAX {
        return Ok(());
    }
    let why = format!(
        "{name} would have {bytes} bytes, and Linux hands a program at most {VARIABLE_BYTES_MAX} in one variable: give the sweep \
         a shorter name or fewer jobs, or name some of its jobs in `after`"
    );
    Err(StartError::cannot_run(why))
}

/// Uploads files and directories, each file by itself, with the rights of the user. Returns the failures for people; `None` if there are none.
pub(crate) async fn upload(agent: &Agent, wanted: &[String], owner: &FileOwner) -> Option<String> {
    agent.set_activity("uploading outputs");
    let paths = wanted.to_vec();
    let found = on_disk(owner, move || {
        let mut found = FoundFiles::default();
        for path in &paths {
            directory::collect_files(Path::new(path), &mut found);
        }
        Ok(found)
    });
    let FoundFiles { mut files, mut missing } = match found.await {
        Ok(found) => found,
        Err(error) => return describe_missing(&[directory::describe_io_error(&error)]),
    };
    files.sort_unstable_by(|one, other| one.path.cmp(&other.path));
    files.dedup();
    let count = files.len();
    let refused = while_s3_answers(agent, files, owner).await;
    agent.log.write_line(&format!("{} of {count} files of its outputs are uploaded", count - refused.len()));
    missing.extend(refused);
    describe_missing(&missing)
}

/// Retries uploads that may succeed later. Returns for people what S3 refuses for good.
async fn while_s3_answers(agent: &Agent, all: Vec<LocalFile>, owner: &FileOwner) -> Vec<String> {
    let (mut refused, mut timeout) = (Vec::new(), RetryTimeout::default());
    let (mut files, mut had_moved) = (all.clone(), agent.buckets.has_moved());
    loop {
        if agent.buckets.has_moved() != had_moved {
            // What was uploaded before is in the other bucket.
            (had_moved, files) = (true, all.clone());
            refused.clear();
        }
        let (job, attempt, node) =
            (&agent.identity.job, agent.identity.attempt, agent.seat().map_or(0, |seat| seat.node));
        let unsent = agent.store().upload_outputs(job, attempt, node, files, owner).await;
        let (fenced, unreachable) = match agent.fence.check().await {
            Ok(()) => (false, None),
            Err(FenceError::Fenced(_)) => (true, None),
            Err(FenceError::Store(error)) => (false, Some(error)),
        };
        let is_sent_again = |one: &UnsentFile| !fenced && (unreachable.is_some() || one.passing.is_some());
        let (again, over): (Vec<UnsentFile>, Vec<UnsentFile>) = unsent.into_iter().partition(is_sent_again);
        refused.extend(over.into_iter().map(|one| one.words));
        let passing = again.iter().find_map(|one| unreachable.as_ref().or(one.passing.as_ref()));
        let Some(error) = passing else { return refused };
        if !timeout.pause_and_retry(agent, "the outputs cannot be uploaded yet", error).await {
            refused.extend(again.into_iter().map(|one| one.words));
            return refused;
        }
        files = again.into_iter().map(|one| one.file).collect();
    }
}

fn describe_missing(missing: &[String]) -> Option<String> {
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
        assert_eq!(describe_missing(&missing), expect);
    }

    #[test]
    fn a_variable_that_linux_would_refuse_is_refused() {
        let folders = |count: usize| vec!["s3://curfew-state/outputs/vision/tune-0001-1a2b3c4d/1/"; count].join("\n");
        assert_eq!(check_length("CURFEW_OUTPUTS_OF_TUNE", &folders(1_000)), Ok(()));
        let name = "x".repeat(100);
        assert_eq!(check_length(&name, &"y".repeat(VARIABLE_BYTES_MAX - 102)), Ok(()));
        let refused = check_length(&name, &"y".repeat(VARIABLE_BYTES_MAX - 101));
        assert!(matches!(refused, Err(StartError::Impossible { why, .. }) if why.contains("131073 bytes")));
    }

    #[test]
    fn some_refusals_are_named_and_the_rest_counted() {
        check(0, None);
        check(5, Some("0, 1, 2, 3, 4"));
        check(8, Some("0, 1, 2, 3, 4, and 3 more"));
    }
}
