//! `curfew rerun`: submits the document of an earlier job again.

use clap::Args;
use jobs::{Job, rerun_document};
use store::{MachineDocument, MachineDocuments as _, Store};

use super::submit::{JobDocument, SubmitOptions, submit};
use crate::command_error::CommandError;
use crate::command_status::CommandStatus;
use crate::context::CommandContext;
use crate::resolve_job::{NameUse, NamedWork, name_member, resolve};
use crate::screen;

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
        let (job, name) = match resolve(&store, &self.job, NameUse::Act).await? {
            // The document of a member has the name of its sweep.
            NamedWork::Job(job) => {
                if self.from_checkpoint {
                    announce_checkpoint(&store, &job).await?;
                }
                (job.job.clone(), job.sweep_id().unwrap_or(job.job))
            }
            NamedWork::Sweep(sweep) if self.from_checkpoint => {
                let problem = format!("{} is a sweep, and has no checkpoint of its own", sweep.sweep);
                return Err(CommandError::with(problem, name_member(&sweep.sweep)));
            }
            NamedWork::Sweep(sweep) => (sweep.sweep.clone(), sweep.sweep),
        };
        let text = store.read_spec(&job).await?;
        let text = text.ok_or_else(|| CommandError::new(format!("{job} has no document any more")))?;
        self.options.team.team.get_or_insert_with(|| job.team.clone());
        let resume_from = self.from_checkpoint.then_some(job.job.as_str());
        let note = format!("{job} at {}", context.now);
        let document = JobDocument {
            source: job.to_string(),
            file_name: name.name().to_owned(),
            bytes: rerun_document(&text, name.name(), resume_from, &note),
        };
        Ok(Box::pin(submit(context, document, &self.options, None, self.wait)).await?.ending)
    }
}

/// Says with which checkpoint the new job begins. Without a known one it says nothing: the document is refused, or the machine finds one.
async fn announce_checkpoint(store: &Store, job: &Job) -> Result<(), CommandError> {
    let id = &job.job;
    if job.terms.checkpoint.is_none() {
        return Err(CommandError::with(
            format!("{id} kept no checkpoint, because its document has no [checkpoint]"),
            "rerun it without --from-checkpoint",
        ));
    }
    if let MachineDocument::Believed(head) = store.read_head(id).await?
        && let Some(checkpoint) = head.checkpoint
    {
        screen::progress(format!("It begins with step {} of {id}", checkpoint.step));
    }
    Ok(())
}
