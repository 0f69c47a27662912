//! `curfew box connect`: the tunnel of ssh to a box, by Session Manager.

use clap::Args;
use jobs::boxes::SSH_PORT;
use jobs::boxes::overview::describe_start;
use model::image_source::check_id;

use super::find::{find_box, find_heartbeat, needs_up};
use crate::command_error::CommandError;
use crate::command_status::CommandStatus;
use crate::commands::ssh::start_session;
use crate::context::CommandContext;

/// Connect ssh to a box that is up; the configuration that `up` writes calls it
#[derive(Debug, Args)]
#[command(
    after_help = "It runs `aws ssm start-session`, and never waits for a box: it fails at once unless people can log in.\n\n\
                  Example:\n  curfew box connect vision/my-box"
)]
pub(crate) struct Connect {
    /// Name of the box: <name>, or <team>/<name>
    #[arg(value_name = "NAME")]
    name: String,
}

impl Connect {
    pub(super) async fn run(self, context: &CommandContext) -> Result<CommandStatus, CommandError> {
        let store = context.needs_deployed().await?.store;
        let (id, gpu_box) = find_box(&store, &self.name).await?;
        let job = needs_up(&store, &id, &gpu_box).await?;
        let heartbeat = find_heartbeat(&store, &job).await?;
        let is_ready = heartbeat.as_ref().is_some_and(|heartbeat| heartbeat.gpu_box.is_some());
        let Some(machine) = job.machine().filter(|_| is_ready) else {
            let doing = heartbeat.as_ref().map(|heartbeat| heartbeat.doing.as_str());
            return Err(CommandError::with(
                format!("{} is not ready: {}", id.full(), describe_start(&job, doing)),
                format!("wait for it:  curfew box up {}", id.to_shell_word()),
            ));
        };
        check_id(machine.instance.as_str(), "i", "an instance").map_err(CommandError::new)?;
        let port = format!("portNumber={SSH_PORT}");
        let tunnel = ["--document-name", "AWS-StartSSHSession", "--parameters", &port];
        Err(start_session(context, (&machine.instance, &machine.region), &tunnel))
    }
}
