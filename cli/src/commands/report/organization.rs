//! `curfew report --organization`: the accounts of an organization, by what each has published in the hub.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use cloud::operator::read_stack;
use execution::organization_report;
use model::config::{Config, HubConfig, Overlay};
use model::id::TeamName;
use report::{BudgetOfAccounts, organization_digest, render_organization_html};
use store::HubStore;

use super::{Report, open_in_browser, write_file};
use crate::command_error::CommandError;
use crate::command_status::CommandStatus;
use crate::commands::scan::read_accounts;
use crate::context::CommandContext;
use crate::{screen, world};

#[derive(Debug, Args)]
#[command(next_help_heading = "Report of an organization")]
pub(super) struct OrganizationArguments {
    /// Report on every account that publishes its figures in the hub of the organization (docs/organization.md)
    #[arg(long, conflicts_with_all = ["team", "format"])]
    pub(super) organization: bool,
    /// Read the hub in this bucket [default: that of the environment, or of the stack]
    #[arg(long, requires = "organization", value_name = "BUCKET")]
    hub: Option<String>,
    /// Name these accounts too if they never published, comma-separated, or those in a file: @FILE, one a line
    #[arg(long, requires = "organization", value_name = "ACCOUNTS")]
    accounts: Option<String>,
}

/// The hub that the parameter of this account's stack names.
async fn read_hub_of_stack(context: &CommandContext) -> Result<String, CommandError> {
    const ADVICE: &str = "pass --hub, or set CURFEW_HUB_BUCKET, to the bucket of the organization";
    let name = &context.global.stack;
    let stack = read_stack(&context.aws, name).await;
    let stack = stack.map_err(|error| CommandError::with(format!("no hub is named, and {error}"), ADVICE))?;
    let hub = stack.and_then(|stack| stack.parameters.get("HubBucket").cloned()).filter(|hub| !hub.is_empty());
    hub.ok_or_else(|| CommandError::with(format!("no hub is named, and the stack {name} has none"), ADVICE))
}

/// The budgets that accounts share, by the hub's configuration.
async fn read_shared_budgets(hub: &HubStore) -> Result<BTreeMap<TeamName, BudgetOfAccounts>, String> {
    let document = hub.read_hub_config().await.map_err(|error| error.to_string())?;
    let lines = HubConfig::read_bytes(&document).map_err(|error| error.to_string())?;
    // The lines for no account in particular.
    let overlay = Overlay::new(&lines, "", "").map_err(|error| error.to_string())?;
    Ok(BudgetOfAccounts::from_config(&overlay.config))
}

/// Writes the report of the organization. It needs no deployment, only the bucket.
pub(super) async fn run(arguments: &Report, context: &CommandContext) -> Result<CommandStatus, CommandError> {
    let of = &arguments.organization;
    let hub = match of.hub.clone().or_else(|| world::variable("CURFEW_HUB_BUCKET")) {
        Some(hub) => hub,
        None => Box::pin(read_hub_of_stack(context)).await?,
    };
    let expected = match &of.accounts {
        Some(named) => read_accounts(named)?.into_iter().map(|listed| listed.account).collect(),
        None => Vec::new(),
    };
    let month = context.month(arguments.month.as_deref(), &Config::default())?;
    screen::progress(format_args!("reading what the accounts have published about {month}"));
    let store = HubStore::new(context.aws.sdk_config(), hub);
    let (shared, problem) = match Box::pin(read_shared_budgets(&store)).await {
        Ok(shared) => (shared, None),
        Err(problem) => (BTreeMap::new(), Some(format!("which budgets accounts share is unknown: {problem}"))),
    };
    let read = organization_report::read(&store, &month, expected, &shared, context.now);
    // Without any account there is nothing to show, and a page of an earlier run knows more.
    let mut report = Box::pin(read).await.map_err(CommandError::new)?;
    report.gaps.extend(problem);
    let is_page_wanted = arguments.open || !context.global.json;
    let usual = || is_page_wanted.then(|| PathBuf::from(format!("curfew-organization-{month}.html")));
    let file = arguments.output.clone().or_else(usual);
    if let Some(file) = &file {
        write_file(file, &render_organization_html(&report))?;
    }
    if context.global.json {
        for gap in &report.gaps {
            screen::warn(gap);
        }
        screen::json(&report)?;
    } else {
        screen::print_document(organization_digest(&report).trim_end());
    }
    if let Some(file) = &file {
        screen::progress(format_args!("the page is {}", file.display()));
        if arguments.open {
            open_in_browser(file)?;
        }
    }
    let is_complete = report.gaps.is_empty() && report.silent_accounts().next().is_none();
    Ok(if is_complete { CommandStatus::Success } else { CommandStatus::Error })
}
