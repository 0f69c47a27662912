//! `curfew submit --trigger`: a document that makes jobs later.

use jobs::Trigger;

use super::{JobDocument, SubmitOptions, SubmitOutput, container, finish};
use crate::command_error::CommandError;
use crate::command_status::CommandStatus;
use crate::context::CommandContext;
use crate::screen;

/// Checks a trigger as `run-jobs` does, shows what one of its jobs can cost, and puts it into the folder of the team.
pub(super) async fn submit_trigger(
    context: &CommandContext,
    document: JobDocument,
    options: &SubmitOptions,
    name: &str,
) -> Result<CommandStatus, CommandError> {
    let bytes = container::pin_image(context, document.bytes).await?;
    let store = context.needs_deployed().await?.store;
    let config = store.read_config().await?;
    let team = options.team(&config)?;
    let mut output = SubmitOutput::new(document.source, &team, None);
    let bucket = (store.bucket_name(), context.aws.home());
    let (trigger, spec) = match Trigger::read(&bytes, name, Some(&team), &config, bucket, context.now) {
        Ok(legal) => legal,
        Err(mistakes) => {
            output.mistakes = mistakes;
            return Ok(finish(context, &output, CommandStatus::Findings)?.ending);
        }
    };
    if let Some(ending) = output.preview(context, &store, &config, (&spec, trigger.text().as_bytes()), options).await {
        return Ok(finish(context, &output, ending)?.ending);
    }
    let key = store.put_trigger(&team, name, &bytes).await?;
    if !context.global.json {
        screen::print_line(screen::plain(&format!("submitted as {key}")));
    }
    output.submitted = Some(key);
    Ok(finish(context, &output, CommandStatus::Success)?.ending)
}
