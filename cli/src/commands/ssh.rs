//! `curfew ssh`: a shell on the machine of a job, by Session Manager.

use std::io::ErrorKind;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use clap::Args;
use model::team_role::create_team_command;

use crate::command_error::CommandError;
use crate::command_status::CommandStatus;
use crate::context::CommandContext;
use crate::resolve_job::resolve_job;
use crate::screen;

/// What a machine's role needs (Systems Manager user guide, "Configure instance permissions required for Systems Manager").
const POLICY: &str = "arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore";

/// Open a shell on the machine of a job
#[derive(Debug, Args)]
#[command(
    after_help = "It runs `aws ssm start-session`: no key and no open port is needed. The AWS CLI needs its Session Manager plugin, and the role \
                  of the team's machines the policy AmazonSSMManagedInstanceCore (curfew team create). Exit codes: of that command; 2 there is \
                  no machine.\n\nExample:\n  curfew ssh llama"
)]
pub(crate) struct Ssh {
    /// Name of the job: <team>/<job>, or a unique part of it
    #[arg(value_name = "JOB")]
    job: String,
}

impl Ssh {
    pub(crate) async fn run(self, context: &CommandContext) -> Result<CommandStatus, CommandError> {
        let store = context.needs_deployed().await?.store;
        let job = resolve_job(&store, &self.job).await?;
        let Some(machine) = job.machine() else {
            let advice = format!("curfew jobs {} shows its state", job.job.to_shell_word());
            return Err(CommandError::with(format!("{} has no machine now", job.job), advice));
        };
        screen::progress(format!(
            "Opens {} of {}. If Session Manager does not know it, its role lacks a policy; machines that start later have it after:",
            machine.instance, job.job
        ));
        screen::progress(format!("  {} --policy-arn {POLICY}", create_team_command(&job.job.team)));
        let mut command = Command::new("aws");
        command.args([
            "ssm",
            "start-session",
            "--target",
            machine.instance.as_str(),
            "--region",
            machine.region.as_str(),
        ]);
        if let Some(profile) = &context.global.profile {
            command.args(["--profile", profile]);
        }
        // It takes the place of this process, so that Ctrl-C belongs to the session alone.
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
