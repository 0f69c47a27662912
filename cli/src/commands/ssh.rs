//! `curfew ssh`: a shell on the machine of a job, by Session Manager.

use std::io::ErrorKind;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use clap::Args;
use jobs::JobMachine;
use model::team_role::create_team_command;
use store::Documents as _;

use crate::command_error::CommandError;
use crate::command_status::CommandStatus;
use crate::context::CommandContext;
use crate::resolve_job::resolve_job;
use crate::screen;

/// Open a shell on the machine of a job
#[derive(Debug, Args)]
#[command(
    after_help = "It runs `aws ssm start-session`: no key and no open port is needed. The AWS CLI needs its Session Manager plugin. The roles that \
                  Curfew makes for machines allow it, unless the configuration says `ssh = false` under [jobs]. Exit codes: of that command; \
                  2 there is no machine, or the account allows no shell.\n\nExample:\n  curfew ssh llama"
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
        // An unreadable configuration forbids nothing: IAM decides.
        if store.read_config().await.is_ok_and(|config| !config.jobs.ssh) {
            let advice = format!("curfew logs --follow {} shows what the job prints", job.job.to_shell_word());
            return Err(CommandError::with(
                "the account allows no shell on machines of jobs ([jobs] ssh = false)",
                advice,
            ));
        }
        screen::progress(format!(
            "Opens {} of {}. A machine that has just started is known to Session Manager after a minute. If it never is, its role is older than \
             this version of Curfew, or your own; machines that start later have a shell after:",
            machine.instance, job.job
        ));
        screen::progress(format!("  {}", create_team_command(&job.job.team)));
        Err(start_session(context, machine, &[]))
    }
}

/// Runs `aws ssm start-session` for that machine. It takes the place of this process, so that Ctrl-C, input and output belong to the session alone;
/// it returns only why it could not.
pub(super) fn start_session(context: &CommandContext, machine: &JobMachine, more: &[&str]) -> CommandError {
    let (instance, region) = (machine.instance.as_str(), machine.region.as_str());
    let mut command = Command::new("aws");
    command.args(["ssm", "start-session", "--target", instance, "--region", region]).args(more);
    if let Some(profile) = &context.global.profile {
        command.args(["--profile", profile]);
    }
    let error = command.exec();
    match error.kind() {
        ErrorKind::NotFound => CommandError::with(
            "the AWS CLI is not installed: there is no program `aws`",
            "install it with its Session Manager plugin (AWS CLI user guide; Systems Manager user guide, \"Install the Session Manager plugin\")",
        ),
        _ => CommandError::new(format!("the AWS CLI cannot be run: {error}")),
    }
}
