//! One file a command: its arguments, its calls and actions, and its output.

pub(crate) mod apply;
pub(crate) mod budget;
pub(crate) mod cancel;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod gpu_box;
pub(crate) mod gpus;
pub(crate) mod jobs;
pub(crate) mod keep;
pub(crate) mod logs;
pub(crate) mod metrics;
pub(crate) mod mode;
pub(crate) mod plans;
pub(crate) mod recommend;
pub(crate) mod report;
pub(crate) mod rerun;
pub(crate) mod run;
pub(crate) mod run_now;
pub(crate) mod scan;
pub(crate) mod schedule;
pub(crate) mod ssh;
pub(crate) mod submit;
pub(crate) mod team;
pub(crate) mod undo;
pub(crate) mod uninstall;
pub(crate) mod version;
pub(crate) mod watch;

use crate::arguments::{Arguments, Command};
use crate::command_error::CommandError;
use crate::command_status::CommandStatus;
use crate::context::CommandContext;

/// Runs the command. Errors of AWS calls name the credentials.
pub(crate) async fn run(Arguments { global, command }: Arguments) -> Result<CommandStatus, CommandError> {
    if let Command::Completions(completions) = command {
        return Ok(completions.run());
    }
    if let Command::Config(config) = command {
        return Box::pin(config.run(global)).await;
    }
    if let Command::Recommend(recommend) = command {
        return Box::pin(recommend.run(global)).await;
    }
    if let Command::Gpus(gpus) = command {
        return Box::pin(gpus.run(global)).await;
    }
    if let Command::Version(version) = command {
        return version.run(global).await;
    }
    if let Command::Keep(keep) = &command {
        keep.resources()?;
    }
    let context = CommandContext::connect(global).await?;
    let done = match command {
        Command::Scan(scan) => scan.run(&context).await,
        Command::Explain(explain) => Box::pin(explain.run(&context)).await,
        Command::Plans(plans) => plans.run(&context).await,
        Command::Budget(budget) => budget.run(&context).await,
        Command::Report(report) => Box::pin(report.run(&context)).await,
        Command::Apply(apply) => Box::pin(apply.run(&context)).await,
        Command::Keep(keep) => keep.run(&context).await,
        Command::Protect(protect) => protect.run(&context).await,
        Command::Release(release) => release.run(&context).await,
        Command::Undo(undo) => undo.run(&context).await,
        Command::Submit(submit) => Box::pin(submit.run(&context)).await,
        Command::Run(run) => Box::pin(run.run(&context)).await,
        Command::Rerun(rerun) => Box::pin(rerun.run(&context)).await,
        Command::Jobs(jobs) => jobs.run(&context).await,
        Command::Logs(logs) => Box::pin(logs.run(&context)).await,
        Command::Ssh(ssh) => ssh.run(&context).await,
        Command::Cancel(cancel) => cancel.run(&context).await,
        Command::Box(gpu_box) => Box::pin(gpu_box.run(&context)).await,
        Command::Schedule(schedule) => schedule.run(&context).await,
        Command::Team(team) => team.run(&context).await,
        Command::Doctor(doctor) => Box::pin(doctor.run(&context)).await,
        Command::Metrics(metrics) => Box::pin(metrics.run(&context)).await,
        Command::Mode(mode) => mode.run(&context).await,
        Command::RunNow(run_now) => run_now.run(&context).await,
        Command::Uninstall(uninstall) => Box::pin(uninstall.run(&context)).await,
        Command::Watch(watch) => Box::pin(watch.run(&context)).await,
        Command::Completions(_)
        | Command::Config(_)
        | Command::Gpus(_)
        | Command::Recommend(_)
        | Command::Version(_) => Ok(CommandStatus::Success),
    };
    done.map_err(|failure| context.blame(failure))
}
