//! `curfew schedule add`.

use std::path::PathBuf;

use clap::Args;

use crate::command_error::CommandError;
use crate::command_status::CommandStatus;
use crate::commands::submit::trigger::{ScheduleTerms, submit_schedule};
use crate::commands::submit::{JobDocument, SubmitOptions};
use crate::context::CommandContext;

/// Add a schedule, or replace the one of that name
#[derive(Debug, Args)]
#[command(
    after_help = "It checks the file as Curfew does, and shows what one of its jobs can cost at most. A time that summer time skips or repeats \
        makes one job. The bucket keeps the archive of --workdir for 180 days: add the schedule again before. Schedules run where the parameter Schedules of the stack is yes. Exit codes: 0 added, or with --dry-run legal; 1 it has \
        mistakes, or its jobs would be held, or cannot be launched now; 2 error or incomplete result.\n\nExample:\n  \
        curfew schedule add nightly train.toml --cron '0 2 * * MON-FRI' --time-zone Europe/Berlin --team vision"
)]
pub(crate) struct Add {
    /// Name of the schedule
    #[arg(value_name = "NAME")]
    name: String,
    /// The job, as docs/jobs.md describes it; - for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The moments: minute, hour, day of the month, month, day of the week [default: the section [schedule] of FILE]
    #[arg(long, value_name = "CRON")]
    cron: Option<String>,
    /// Count them in this time zone, such as Europe/Berlin [default: that of [account]]
    #[arg(long, value_name = "ZONE", requires = "cron")]
    time_zone: Option<String>,
    /// Skip a moment while so many of its jobs are unfinished [default: 1]
    #[arg(long, value_name = "NUMBER", requires = "cron")]
    max_at_once: Option<u32>,
    /// Bring this directory along: each attempt finds its files in the home of its user, except what git ignores
    #[arg(long, value_name = "DIRECTORY")]
    workdir: Option<PathBuf>,
    #[command(flatten)]
    options: SubmitOptions,
}

impl Add {
    pub(super) async fn run(self, context: &CommandContext) -> Result<CommandStatus, CommandError> {
        let document = JobDocument::read(&self.file)?;
        let Self { time_zone, max_at_once, workdir, .. } = self;
        let terms = self.cron.map(|cron| ScheduleTerms { cron, time_zone, max_at_once });
        submit_schedule(context, document, &self.options, &self.name, (terms, workdir.as_deref())).await
    }
}
