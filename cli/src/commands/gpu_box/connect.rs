//! `curfew box connect`: the tunnel of ssh to a box, by Session Manager.

use std::io::ErrorKind;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use clap::Args;
use jobs::boxes::SSH_PORT;
use jobs::boxes::overview::describe_start;
use model::image_source::check_id;

use super::find::{find_box, find_heartbeat, needs_up};
use crate::command_error::CommandError;
use crate::command_status::CommandStatus;
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
        let mut command = Command::new("aws");
        command.args(["ssm", "start-session", "--target", machine.instance.as_str()]);
        command.args(["--region", machine.region.as_str(), "--document-name", "AWS-StartSSHSession"]);
        command.args(["--parameters", &format!("portNumber={SSH_PORT}")]);
        if let Some(profile) = &context.global.profile {
            command.args(["--profile", profile]);
        }
        // It takes the place of this process: its input and output are those of ssh.
        let error = command.exec();
        Err(match error.kind() {
            ErrorKind::NotFound => CommandError::with(
                "the AWS CLI is not installed: there is no program `aws`",
                "install it with its Session Manager plugin (AWS CLI user guide; Systems Manager user guide, \"Install the Session Manager plugin\")",
            ),
            _ => CommandError::new(format!("the AWS CLI cannot be run: {error}")),
        })
    }
}
