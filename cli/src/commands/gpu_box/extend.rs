//! `curfew box extend`: a box ends later.

use std::time::Duration;

use clap::Args;
use jiff::{SignedDuration, Timestamp};
use jobs::boxes::ExtendRequest;
use model::duration;
use serde::Serialize;
use store::JobDocuments as _;
use tokio::time::{Instant, sleep};

use super::find::{find_box, needs_up};
use crate::command_error::CommandError;
use crate::command_status::CommandStatus;
use crate::commands::plans::minute;
use crate::context::CommandContext;
use crate::{screen, world};

/// A run answers each minute, and reserves money before that.
const TIMEOUT: Duration = Duration::from_secs(90);
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Keep a box for so long from now on
#[derive(Debug, Args)]
#[command(
    after_help = "Until then it ends neither by idleness nor by its end. An end that is later stays, and the end of its machine, 24 hours after \
                  its launch at most, moves never. The cost is reserved first. Exit codes: 0 granted; 1 refused; 2 error, or no answer within 90 seconds.\n\n\
                  Example:\n  curfew box extend my-box 3h"
)]
pub(crate) struct Extend {
    /// Name of the box: <name>, or <team>/<name>
    #[arg(value_name = "NAME")]
    name: String,
    /// Keep it for so long, such as 3h or 90m
    #[arg(value_name = "DURATION", value_parser = read_duration)]
    length: SignedDuration,
}

#[derive(Serialize)]
struct ExtendOutput {
    #[serde(rename = "box")]
    name: String,
    asked_until: Timestamp,
    /// The reason for a refusal; null if it was granted.
    refused: Option<String>,
    ends_at: Timestamp,
}

pub(super) fn read_duration(text: &str) -> Result<SignedDuration, String> {
    duration::parse(text).map_err(|error| error.to_string())
}

impl Extend {
    pub(super) async fn run(self, context: &CommandContext) -> Result<CommandStatus, CommandError> {
        let store = context.needs_deployed().await?.store;
        let (id, gpu_box) = find_box(&store, &self.name).await?;
        let job = needs_up(&store, &id, &gpu_box).await?;
        let request = ExtendRequest::new(context.now, self.length, world::variable("USER"));
        store.extend(&job.job, &request).await?;
        let ExtendRequest { at, until, .. } = request;
        screen::progress("waiting for the answer");
        let deadline = Instant::now() + TIMEOUT;
        let (refused, ends_at) = loop {
            let state = store.read_job(&job.job).await?.value.and_then(|job| job.gpu_box);
            let answer = state.as_ref().and_then(|state| Some((state.extended.as_ref()?, state.soft_end)));
            if let Some((answer, soft_end)) = answer.filter(|(answer, _)| answer.asked_at == at) {
                break (answer.refused.clone(), soft_end);
            }
            if Instant::now() + LOOK_EVERY > deadline {
                return Err(CommandError::with(
                    format!("{} got no answer within {TIMEOUT:?}", id.full()),
                    "curfew box ls shows its end; curfew doctor checks whether run-jobs runs",
                ));
            }
            sleep(LOOK_EVERY).await;
        };
        let status = if refused.is_some() { CommandStatus::Findings } else { CommandStatus::Success };
        if context.global.json {
            screen::json(&ExtendOutput { name: id.full(), asked_until: until, refused, ends_at })?;
            return Ok(status);
        }
        screen::print_line(match refused {
            Some(why) => format!("{}: refused: {why}. It ends at {} UTC", id.full(), minute(ends_at)),
            None => format!("{}: ends at {} UTC", id.full(), minute(ends_at)),
        });
        Ok(status)
    }
}
