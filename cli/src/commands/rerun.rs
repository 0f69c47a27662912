//! `curfew rerun`: submits the document of an earlier job again.

use clap::Args;
use jobs::JobSpec;

use super::submit::{JobDocument, SubmitOptions, submit};
use crate::command_error::CommandError;
use crate::command_status::CommandStatus;
use crate::context::CommandContext;
use crate::resolve_job::{NamedWork, resolve};

/// The last line of a document that was submitted again. It makes each of them another object: one with the same content may be the same job.
const NOTE: &str = "# Submitted again by curfew rerun, for ";

const RESUME_FROM: &str = "resume_from";

/// Submit a job, or a sweep, again, with the same document
#[derive(Debug, Args)]
#[command(
    after_help = "The new job starts without checkpoints, unless --from-checkpoint gives it the newest of the earlier one, and runs the same \
                  directory (--workdir). It belongs to the team of the earlier one unless --team says otherwise. A limit that is a time, such as finish_by, may be past by now. \
                  Exit codes: as submit.\n\nExample:\n  curfew rerun llama\n  curfew rerun vision/llama-1a2b3c4d --dry-run\n  \
                  curfew rerun llama --from-checkpoint"
)]
pub(crate) struct Rerun {
    /// Name of the job or sweep: <team>/<job>, or a unique part of it
    #[arg(value_name = "JOB")]
    job: String,
    /// Begin with the newest checkpoint of the earlier job
    #[arg(long)]
    from_checkpoint: bool,
    #[command(flatten)]
    options: SubmitOptions,
    /// Wait until it is accepted or rejected
    #[arg(long, conflicts_with = "dry_run")]
    wait: bool,
}

impl Rerun {
    pub(crate) async fn run(mut self, context: &CommandContext) -> Result<CommandStatus, CommandError> {
        let store = context.needs_deployed().await?.store;
        let (job, name) = match resolve(&store, &self.job).await? {
            // The document of a member has the name of its sweep.
            NamedWork::Job(job) => (job.job.clone(), job.sweep_id().unwrap_or(job.job)),
            NamedWork::Sweep(sweep) => (sweep.sweep.clone(), sweep.sweep),
        };
        let text = store.read_spec(&job).await?;
        let text = text.ok_or_else(|| CommandError::new(format!("{job} has no document any more")))?;
        self.options.team.get_or_insert_with(|| job.team.clone());
        let text = with_name(&without_resume_from(&text), name.name());
        let text = if self.from_checkpoint { format!("{RESUME_FROM} = \"{}\"\n{text}", job.job) } else { text };
        let document = JobDocument {
            source: job.to_string(),
            file_name: name.name().to_owned(),
            bytes: with_note(&text, &format!("{NOTE}{job} at {}", context.now)).into_bytes(),
        };
        Ok(submit(context, document, &self.options, None, self.wait).await?.ending)
    }
}

/// Without the key of an earlier rerun, or of a person: the new job begins where this command says.
fn without_resume_from(text: &str) -> String {
    let text = text.trim_start_matches('\u{feff}');
    let root_end = text.lines().take_while(|line| !line.trim_start().starts_with('[')).count();
    let is_key = |line: &str| {
        let rest = line.trim_start().strip_prefix(RESUME_FROM);
        rest.is_some_and(|rest| rest.trim_start().starts_with('='))
    };
    let kept = text.lines().enumerate().filter(|(index, line)| *index >= root_end || !is_key(line));
    kept.flat_map(|(_, line)| [line, "\n"]).collect()
}

/// With the name that its file gave it: the new object is called otherwise.
fn with_name(text: &str, name: &str) -> String {
    let named_by = |file: &str| JobSpec::read_name(text.as_bytes(), file);
    if named_by("a") == named_by("b") { text.to_owned() } else { format!("name = \"{name}\"\n{text}") }
}

fn with_note(text: &str, note: &str) -> String {
    let text = text.trim_end();
    let before = match text.rsplit_once('\n') {
        Some((before, last)) if last.starts_with(NOTE) => before,
        _ => text,
    };
    format!("{before}\n{note}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_document_is_another_one_and_none_grows() {
        let first = with_note("command = \"a\"\n\n", &format!("{NOTE}1"));
        assert_eq!(first, format!("command = \"a\"\n{NOTE}1\n"));
        assert_eq!(with_note(&first, &format!("{NOTE}2")), format!("command = \"a\"\n{NOTE}2\n"));
    }

    #[test]
    fn a_rerun_begins_where_the_command_says_and_keeps_its_name() {
        let check = |text: &str, expect: &str| assert_eq!(without_resume_from(text), expect);
        check("resume_from = \"x-1\"\na = 1\n", "a = 1\n");
        check("member = 3\n  resume_from=\"x-1\" # as before\na = 1", "member = 3\na = 1\n");
        check("a = 1\n[env]\nresume_from = \"x\"\n", "a = 1\n[env]\nresume_from = \"x\"\n");
        assert_eq!(
            with_name("member = 3\ncommand = \"a\"\n", "tune"),
            "name = \"tune\"\nmember = 3\ncommand = \"a\"\n"
        );
        assert_eq!(with_name("name = \"x\"\n", "tune"), "name = \"x\"\n");
    }
}
