//! `curfew scan --organization`: the accounts of an organization side by side, by a role that may only read.
//!
//! Some rows are kept of each account, and nothing of an account reaches another: neither its credentials, its retries, its jobs nor its failure.

mod document;
mod member;
mod resume_file;
mod show;

use std::collections::BTreeSet;
use std::fs::File;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Read as _;
use std::path::PathBuf;
use std::pin::pin;

use clap::Args;
use cloud::operator::{AssumedRole, caller_arn, list_accounts};
use futures::future::{Either, select};
use futures::{StreamExt as _, stream};
use model::config::Config;
use operator::organization::{
    AccountId, AccountSummary, CallerIdentity, ExternalId, ListedAccount, RESUME_SCHEMA, ResumeHeader, RoleName,
    parse_accounts,
};
use serde::Serialize;

use super::show::ScanProgress;
use super::{SILENCE, Scan};
use crate::command_error::{CommandError, describe_gap};
use crate::command_status::CommandStatus;
use crate::context::CommandContext;
use crate::screen;
use member::MemberScan;
use resume_file::ResumeFile;

/// Accounts that are read at once. Each holds the fleets of up to six regions at a time, and 8 keep a fast network busy.
const ACCOUNTS_AT_ONCE_MAX: usize = 8;
/// Size of a file with accounts, in bytes: the most accounts, each with a long comment.
const ACCOUNTS_FILE_BYTES_MAX: u64 = 1 << 20;

#[derive(Debug, Args)]
#[command(next_help_heading = "Scan of many accounts")]
pub(super) struct OrganizationArguments {
    /// Scan every active account of the organization, by a role in each (docs/organization.md)
    #[arg(long)]
    pub(super) organization: bool,
    /// Assume the role of this name, with its path, in each account
    #[arg(long, requires = "organization", value_name = "NAME", default_value = "curfew-look", value_parser = RoleName::parse)]
    role: RoleName,
    /// Scan only these accounts, comma-separated, or those in a file: @FILE, one a line
    #[arg(long, requires = "organization", value_name = "ACCOUNTS")]
    accounts: Option<String>,
    /// Send this external id, if the role's trust policy asks for it
    #[arg(long, requires = "organization", value_name = "ID", value_parser = ExternalId::parse)]
    external_id: Option<ExternalId>,
    /// Write each finished account to this file, and continue the scan that is in it
    #[arg(long, requires = "organization", value_name = "FILE")]
    resume: Option<PathBuf>,
}

/// An account that could not be read.
#[derive(Debug, Serialize)]
struct RefusedAccount {
    account: AccountId,
    name: Option<String>,
    reason: String,
}

/// The result of a scan of many accounts.
struct OrganizationResult {
    partition: String,
    role: String,
    accounts: Vec<AccountSummary>,
    refused: Vec<RefusedAccount>,
    /// Accounts of the organization that are not active.
    left_out: Vec<ListedAccount>,
    /// Accounts that had not answered when the scan was interrupted.
    unanswered: BTreeSet<AccountId>,
}

/// Scans the accounts.
pub(super) async fn run(scan: Scan, context: &CommandContext) -> Result<CommandStatus, CommandError> {
    let progress = ScanProgress { quiet: scan.quiet };
    let (config, store, _) = scan.config(context, progress).await?;
    let config = if scan.regions.is_empty() { config } else { Config { regions: scan.regions.clone(), ..config } };
    let arguments = &scan.organization;
    let caller = CallerIdentity::from_arn(&caller_arn(&context.aws).await?).map_err(CommandError::new)?;
    let listed = match &arguments.accounts {
        Some(named) => read_accounts(named)?,
        None => list_accounts(&context.aws).await?,
    };
    let (left_out, listed): (Vec<_>, Vec<_>) = listed.into_iter().partition(|one| one.inactive.is_some());
    let ids: BTreeSet<AccountId> = listed.iter().map(|one| one.account.clone()).collect();
    let header = ResumeHeader {
        schema: RESUME_SCHEMA,
        started_at: context.now,
        partition: caller.partition.clone(),
        role: arguments.role.as_str().to_owned(),
        accounts: ids.clone(),
        regions: config.regions.clone(),
        sagemaker: scan.sagemaker,
        config: fingerprint(&config),
    };
    let (mut file, accounts) = match &arguments.resume {
        Some(path) => ResumeFile::open(path, &header, context.now)?,
        None => (ResumeFile::none(), Vec::new()),
    };
    let mut found = OrganizationResult {
        partition: caller.partition.clone(),
        role: arguments.role.as_str().to_owned(),
        accounts,
        refused: Vec::new(),
        left_out,
        unanswered: ids,
    };
    let role = AssumedRole { caller: &caller, role: &arguments.role, external_id: arguments.external_id.as_ref() };
    let known_prices = context.known_prices(store.as_ref()).await;
    let member = MemberScan::new(context, role, &config, store.as_ref(), known_prices, scan.sagemaker);
    scan_accounts(&member, listed, &mut found, &mut file, progress).await;
    let (prices, price_gap) = member.into_prices();
    context.cache_prices(&prices);
    if let Some(gap) = price_gap {
        progress.print(format_args!("Prices are those of tables, as far as these have any: {}", describe_gap(&gap)));
    }
    found.accounts.sort_by_key(|account| (std::cmp::Reverse(account.totals().cost()), account.account.clone()));
    show::gaps(&found);
    if context.global.json {
        screen::json(&document::build_output(&found, context.now))?;
    } else {
        show::result(&found);
    }
    if let Some(path) = arguments.resume.as_ref().filter(|_| !found.is_complete()) {
        progress.print(format_args!("Repeat the command to read the rest; {} has what was read.", path.display()));
    }
    Ok(found.ending())
}

/// Scans some accounts at a time, and adds each to the result as soon as it is finished.
async fn scan_accounts(
    member: &MemberScan<'_>,
    listed: Vec<ListedAccount>,
    found: &mut OrganizationResult,
    file: &mut ResumeFile,
    progress: ScanProgress,
) {
    for account in &found.accounts {
        found.unanswered.remove(&account.account);
    }
    let count = listed.len();
    progress.print(format_args!("Looking at {}", screen::counted(count, "account")));
    if !found.accounts.is_empty() {
        progress.print(format_args!("{} of them are in the file already", found.accounts.len()));
    }
    let pending = listed.into_iter().filter(|one| found.unanswered.contains(&one.account)).collect::<Vec<_>>();
    let looks = pending.into_iter().map(|one| member.scan_account(one));
    let mut looks = stream::iter(looks).buffer_unordered(ACCOUNTS_AT_ONCE_MAX);
    let mut interrupted = pin!(tokio::signal::ctrl_c());
    loop {
        let next = tokio::time::timeout(SILENCE, looks.next());
        let next = match select(&mut interrupted, pin!(next)).await {
            Either::Left(_) => break,
            Either::Right((next, _)) => next,
        };
        let line = match next {
            Ok(Some(Ok(summary))) => {
                found.unanswered.remove(&summary.account);
                file.append(&summary);
                let line = show::account_line(&summary);
                found.accounts.push(summary);
                line
            }
            Ok(Some(Err(refused))) => {
                found.unanswered.remove(&refused.account);
                let line = show::refused_line(&refused);
                found.refused.push(refused);
                line
            }
            Ok(None) => break,
            Err(_) => "still reading".to_owned(),
        };
        let done = count.saturating_sub(found.unanswered.len());
        progress.print(format_args!("{done} of {count} accounts, {} refused: {line}", found.refused.len()));
    }
    found.refused.sort_by(|one, other| one.account.cmp(&other.account));
}

/// Reads `--accounts`: ids, or `@FILE`.
pub(crate) fn read_accounts(named: &str) -> Result<Vec<ListedAccount>, CommandError> {
    let Some(path) = named.strip_prefix('@') else {
        return parse_accounts(named).map_err(|why| CommandError::new(format_args!("--accounts: {why}")));
    };
    let unreadable = |why: &dyn std::fmt::Display| CommandError::new(format_args!("--accounts: {path}: {why}"));
    let mut text = String::new();
    let file = File::open(path).map_err(|error| unreadable(&error))?;
    file.take(ACCOUNTS_FILE_BYTES_MAX).read_to_string(&mut text).map_err(|error| unreadable(&error))?;
    parse_accounts(&text).map_err(|why| unreadable(&why))
}

/// Fingerprint of a configuration, by which a later scan knows whether its figures would be judged by another one.
fn fingerprint(config: &Config) -> u64 {
    let mut hasher = DefaultHasher::new();
    format!("{config:?}").hash(&mut hasher);
    hasher.finish()
}

impl OrganizationResult {
    fn is_complete(&self) -> bool {
        self.unanswered.is_empty() && self.refused.is_empty()
    }

    fn saw_everything(&self) -> bool {
        self.is_complete() && self.accounts.iter().all(|account| account.gaps.is_empty())
    }

    fn ending(&self) -> CommandStatus {
        let has_findings = self.accounts.iter().any(|account| account.totals().findings > 0);
        match (self.unanswered.is_empty(), has_findings) {
            (true, true) => CommandStatus::Findings,
            (true, false) if self.saw_everything() => CommandStatus::Success,
            _ => CommandStatus::Error,
        }
    }
}
