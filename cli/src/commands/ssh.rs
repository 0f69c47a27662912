//! `curfew ssh`: a shell on the machine of a job, by Session Manager.

use std::io::ErrorKind;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use clap::Args;
use jobs::node_gang::{NODES_MAX, Node};
use model::id::{Region, ResourceId};
use model::team_role::create_team_command;
use store::Documents as _;

use crate::command_error::CommandError;
use crate::command_status::CommandStatus;
use crate::context::CommandContext;
use crate::resolve_job::{check_node, resolve_job};
use crate::screen;

/// Open a shell on the machine of a job
#[derive(Debug, Args)]
#[command(
    after_help = "It runs `aws ssm start-session`: no key and no open port is needed. The AWS CLI needs its Session Manager plugin. The roles that \
                  Curfew makes for machines allow it, unless the configuration says `ssh = false` under [jobs]. Exit codes: of that command; \
                  2 there is no machine, or the account allows no shell.\n\nExample:\n  curfew ssh llama\n  curfew ssh llama --node 2"
)]
pub(crate) struct Ssh {
    /// Name of the job: <team>/<job>, or a unique part of it
    #[arg(value_name = "JOB")]
    job: String,
    /// Open it on this node, of a job on several machines
    #[arg(long, value_name = "NUMBER", default_value_t = 0, value_parser = clap::value_parser!(u8).range(..i64::from(NODES_MAX)))]
    node: Node,
}

impl Ssh {
    pub(crate) async fn run(self, context: &CommandContext) -> Result<CommandStatus, CommandError> {
        let store = context.needs_deployed().await?.store;
        let job = resolve_job(&store, &self.job).await?;
        check_node(&job, Some(self.node))?;
        let named =
            job.machine().and_then(|machine| machine.instances().nth(usize::from(self.node)).zip(Some(machine)));
        let Some((instance, machine)) = named else {
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
            instance, job.job
        ));
        screen::progress(format!("  {}", create_team_command(&job.job.team)));
        Err(start_session(context, (instance, &machine.region), &[]))
    }
}

/// Runs `aws ssm start-session` for that machine. It takes the place of this process, so that Ctrl-C, input and output belong to the session alone;
/// it returns only why it could not.
pub(super) fn start_session(
    context: &CommandContext,
    (instance, region): (&ResourceId, &Region),
    more: &[&str],
) -> CommandError {
    let mut command = Command::new("aws");
    command.args(["ssm", "start-session", "--target", instance.as_str(), "--region", region.as_str()]).args(more);
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
