//! What a job leaves behind besides its checkpoints: `jobs/<team>/<job>/attempts/<n>/outputs/<path>`.

use std::path::Path;

use store::Local;

use crate::agent::Agent;
use crate::directory;

/// Uploads files, and directories with all that is in them. What could not be, in words; `None` where all was.
pub(crate) async fn upload(agent: &Agent, wanted: &[String]) -> Option<String> {
    agent.does("uploading outputs");
    let (mut files, mut missing) = (Vec::new(), Vec::new());
    for path in wanted {
        match directory::files(Path::new("/"), &[path.trim_start_matches('/').to_owned()]) {
            Ok(found) => files.extend(found),
            Err(error) => missing.push(format!("{path} ({error})")),
        }
    }
    files.sort_unstable_by(|one: &Local, other| one.path.cmp(&other.path));
    files.dedup();
    let count = files.len();
    match agent.store.upload_outputs(&agent.identity.job, agent.identity.attempt, files).await {
        Ok(_) => agent.log.say(&format!("{count} files of its outputs are uploaded")),
        Err(error) => missing.push(error.to_string()),
    }
    (!missing.is_empty()).then(|| format!("not all of its outputs are uploaded: {}", missing.join(", ")))
}
