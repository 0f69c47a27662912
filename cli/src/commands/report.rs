//! `curfew report`: what GPUs cost in a month, what Curfew saved, and what is still wasted.

mod organization;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use clap::{Args, ValueEnum};
use execution::month_report;
use model::channels::account_of_topic;
use report::{ExportFormat, ExportScope, MonthFacts, MonthReport, digest, export, render_html};
use store::{Documents as _, ReportDocuments as _};

use crate::command_error::CommandError;
use crate::command_status::CommandStatus;
use crate::context::CommandContext;
use crate::screen;
use organization::OrganizationArguments;

/// EC2 and `CloudWatch` have so long to say how hard instances worked; tens of thousands of instances take a minute or two.
const TIMEOUT: Duration = Duration::from_mins(5);

/// Write the report of a month: spend, savings, waste, jobs, energy and carbon
#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 written; 2 error, or something could not be read.\n\n\
                        Example:\n  curfew report --open\n  curfew report --month 2026-10 --team vision\n  \
                        curfew report --format focus --output charges.csv\n  \
                        curfew report --organization --hub curfew-hub-hubbucket-1x2y3z4w5v6u")]
pub(crate) struct Report {
    /// Report on this month instead of the current one, such as 2026-10
    #[arg(long, value_name = "MONTH")]
    month: Option<String>,
    /// Report on this team only, by the value of its tag; "(no team)" for what has none
    #[arg(long, value_name = "TEAM")]
    team: Option<String>,
    /// Write the page to this file [default: curfew-report-<month>.html; none with --json]; with --format, the charges
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Open the page in a browser
    #[arg(long)]
    open: bool,
    /// Print the charges by resource, team and day instead of a page
    #[arg(long, value_enum, value_name = "FORMAT", conflicts_with_all = ["json", "open"])]
    format: Option<ChargesFormat>,
    #[command(flatten)]
    organization: OrganizationArguments,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ChargesFormat {
    /// CSV with Curfew's own columns
    Csv,
    /// CSV with columns of FOCUS 1.2
    Focus,
}

/// With `--json` it prints the figures of the page. Amounts are in US dollars, and `gaps` says what could not be read:
/// ```json
/// {"schema": 1, "account": "123456789012", "account_name": "research", "month": "2026-11", "has_ledger": true, "at": "…", "is_over": false, "team": null, "mode": "enforce",
///  "headline": {"spent_usd": 36.0, "saved_usd": 12.0, "waste_usd_per_hour": 1.0, …},
///  "days": [{"day": "2026-11-01", "usd_by_team": {"vision": 12.0}}], "teams": […], "savings": […], "waste": […],
///  "next_month": {"findings": […], "coverage": {"vision": {"instances": 2, "measured": 1}},
///  "gpu_hours": {"vision": {"paid": 4032, "measured": 2016, "used": 605}}}, "jobs": […], "footprint_caveats": […], "gaps": []}
/// ```
impl Report {
    pub(crate) async fn run(self, context: &CommandContext) -> Result<CommandStatus, CommandError> {
        if self.organization.organization {
            return Box::pin(organization::run(&self, context)).await;
        }
        let deployed = context.needs_deployed().await?;
        let account = deployed.topics.as_ref().and_then(|topics| account_of_topic(&topics.teams));
        let store = deployed.store;
        let config = store.read_config().await?;
        let month = context.month(self.month.as_deref(), &config)?;
        screen::progress(format_args!("reading the ledger and the audit records of {month}"));
        let prices = context.prices(Some(&store), &config).await;
        if let Some(format) = self.format {
            let facts = Box::pin(store.read_month_facts(month, config.account.zone(), prices, context.now)).await;
            let scope = ExportScope {
                account: account.as_deref(),
                account_name: config.account.name.as_deref(),
                team: self.team.as_deref(),
                lines_max: None,
            };
            return self.write_charges(&facts, scope, format);
        }
        let at = (context.now, TIMEOUT);
        let mut report = month_report::read((&context.aws, &store), &config, month, prices, at).await.items;
        report.account = account;
        let report = self.part(report)?;
        let is_page_wanted = self.open || !context.global.json;
        let usual = || is_page_wanted.then(|| PathBuf::from(format!("curfew-report-{}.html", report.month)));
        let file = self.output.clone().or_else(usual);
        if let Some(file) = &file {
            write_file(file, &render_html(&report))?;
        }
        if context.global.json {
            for gap in &report.gaps {
                screen::warn(gap);
            }
            screen::json(&report)?;
        } else {
            screen::print_document(digest(&report).trim_end());
        }
        if let Some(file) = &file {
            screen::progress(format_args!("the page is {}", file.display()));
            if self.open {
                open_in_browser(file)?;
            }
        }
        Ok(if report.gaps.is_empty() { CommandStatus::Success } else { CommandStatus::Error })
    }

    fn write_charges(
        &self,
        facts: &MonthFacts,
        scope: ExportScope<'_>,
        format: ChargesFormat,
    ) -> Result<CommandStatus, CommandError> {
        let report = self.part(MonthReport::from_facts(facts))?;
        for gap in &report.gaps {
            screen::warn(gap);
        }
        let format = match format {
            ChargesFormat::Csv => ExportFormat::Csv,
            ChargesFormat::Focus => ExportFormat::Focus,
        };
        let charges = export(facts, scope, format);
        match &self.output {
            Some(file) => write_file(file, &charges)?,
            None => screen::print_document(charges.trim_end()),
        }
        Ok(if report.gaps.is_empty() { CommandStatus::Success } else { CommandStatus::Error })
    }

    /// The account's, or the named team's.
    fn part(&self, report: MonthReport) -> Result<MonthReport, CommandError> {
        let Some(team) = &self.team else { return Ok(report) };
        if report.teams.iter().any(|row| row.team == *team) {
            return Ok(report.for_team(team));
        }
        let known: Vec<&str> = report.teams.iter().map(|row| row.team.as_str()).collect();
        let problem = format!("{} knows no team {team}", report.month);
        Err(CommandError::with(problem, format!("it knows: {}", known.join(", "))))
    }
}

fn write_file(file: &Path, text: &str) -> Result<(), CommandError> {
    let cannot = |error| CommandError::new(format!("{} could not be written: {error}", file.display()));
    std::fs::write(file, text).map_err(cannot)
}

fn open_in_browser(file: &Path) -> Result<(), CommandError> {
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let outcome =
        Command::new(opener).arg(file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    match outcome {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(CommandError::new(format!("{opener} {} failed: {status}", file.display()))),
        Err(error) => Err(CommandError::new(format!("{opener} could not be run: {error}; open {}", file.display()))),
    }
}
