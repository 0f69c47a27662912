//! The report of an organization, in the account with the hub: what all accounts have published, on one page, and as files for other tools.

use std::collections::BTreeMap;

use billing::ledger::CalendarMonth;
use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use jiff::civil::Date;
use model::account::AccountId;
use model::config::Config;
use model::id::TeamName;
use model::notification_log::Severity;
use model::observation::{Gap, GapKind};
use notify::Message;
use ports::action::LIST;
use ports::{Documents, HubDocuments, ReportCloud, ReportDocuments, StoreError};
use report::{
    AccountExport, AccountFigures, BudgetOfAccounts, OrganizationReport, PublishedMonth, Publisher, export_account,
    organization_digest, organization_mail, render_organization_html,
};

use crate::Run;
use crate::budgets::{in_time, timed_out};

/// Calls at once.
const AT_ONCE: usize = 32;

/// Reason why there is no report: of no account it is known what it has published.
#[derive(Debug, thiserror::Error)]
pub enum OrganizationReadError {
    #[error("the accounts that publish to the hub could not be listed: {0}")]
    Unlisted(#[from] StoreError),
    #[error(
        "no account has published its figures in s3://{0}; if that is the bucket of the hub, set HubBucket to it in the stack of each account, \
         and wait a quarter of an hour"
    )]
    NoAccount(String),
}

/// The month of all accounts that have published anything, and of those that should have, with the budgets that they share.
///
/// # Errors
/// If the accounts could not be listed, or there is none.
pub async fn read(
    hub: &impl HubDocuments,
    month: &CalendarMonth,
    expected: Vec<AccountId>,
    shared: &BTreeMap<TeamName, BudgetOfAccounts>,
    now: Timestamp,
) -> Result<OrganizationReport, OrganizationReadError> {
    let listed = hub.list_publishers().await?;
    if listed.is_empty() && expected.is_empty() {
        return Err(OrganizationReadError::NoAccount(hub.hub_bucket().to_owned()));
    }
    let reads = listed.into_iter().map(|account| Box::pin(read_account(hub, account, month, now)));
    let published: Vec<PublishedMonth> = stream::iter(reads).buffer_unordered(AT_ONCE).collect().await;
    Ok(OrganizationReport::new(month, now, published, expected, shared, Vec::new()))
}

async fn read_account(
    hub: &impl HubDocuments,
    account: AccountId,
    month: &CalendarMonth,
    now: Timestamp,
) -> PublishedMonth {
    let mut problems = Vec::new();
    let mut figures = [None, None];
    for (figures, publisher) in figures.iter_mut().zip([Publisher::EnforceBudgets, Publisher::SendReport]) {
        match read_figures(hub, publisher, &account, month, now).await {
            Ok(read) => *figures = read,
            Err(why) => problems.push(why),
        }
    }
    let mut heard_before = None;
    if figures.iter().all(Option::is_none) {
        let previous = month.previous();
        for publisher in [Publisher::EnforceBudgets, Publisher::SendReport] {
            let read = read_figures(hub, publisher, &account, &previous, now).await;
            heard_before = heard_before.max(read.ok().flatten().map(|figures| figures.as_of));
        }
    }
    let [beat, daily] = figures;
    PublishedMonth { account, beat, daily, heard_before, problems }
}

async fn read_figures(
    hub: &impl HubDocuments,
    publisher: Publisher,
    account: &AccountId,
    month: &CalendarMonth,
    now: Timestamp,
) -> Result<Option<AccountFigures>, String> {
    let Some(figures) = hub.read_figures(publisher, account, month).await.map_err(|error| error.to_string())? else {
        return Ok(None);
    };
    let refused = |why| format!("{} does not count: {why}", publisher.key(account, &month.to_string()));
    figures.checked(month, now).map(Some).map_err(refused)
}

/// Writes the page and the files, unless it is unknown which accounts there are. `is_first` on the first run of the day, which also sends the
/// digest and the mail. Returns what failed.
pub(crate) async fn send(
    run: &Run<'_, impl ReportCloud, impl Documents + ReportDocuments>,
    hub: &impl HubDocuments,
    config: &Config,
    (month, day): (&CalendarMonth, Date),
    is_first: bool,
) -> Vec<Gap> {
    let home = run.cloud.home();
    let timeout = run.timeout();
    let shared = BudgetOfAccounts::from_config(config);
    let read = Box::pin(read(hub, month, Vec::new(), &shared, run.now));
    let report = match tokio::time::timeout(timeout, read).await {
        Ok(Ok(report)) => report,
        // An earlier page of the day stays: it knows more.
        Ok(Err(OrganizationReadError::Unlisted(error))) => return vec![error.gap(home)],
        Ok(Err(error)) => return vec![Gap::new(home, LIST, error.to_string(), GapKind::Part)],
        Err(_) => return vec![timed_out(timeout, home, "s3:GetObject", "the figures of the organization")],
    };
    let mut gaps: Vec<Gap> =
        report.gaps.iter().map(|gap| Gap::new(home, "s3:GetObject", gap.clone(), GapKind::Part)).collect();
    let page = run.store.write_organization_page(day, render_organization_html(&report)).await;
    gaps.extend(page.err().map(|error| error.gap(home)));
    if is_first {
        let message = digest_message(run.function, &report, &run.store.organization_page_address(day));
        gaps.extend(run.publish_to_all(&message).await.unwrap_or_else(|error| vec![error.gap()]));
        if let (Some(sender), Some(address)) = (&config.report.sender, &config.report.email) {
            let mailed = run.cloud.mail_report(sender, address, &organization_mail(&report)).await;
            gaps.extend(mailed.err().map(|error| error.gap()));
        }
    }
    let exports = Box::pin(write_exports(hub, &report, month));
    let what = || "the exports of the organization".to_owned();
    gaps.extend(in_time(exports, run.timeout(), home, "s3:PutObject", what).await.err());
    gaps
}

/// Writes the files of every account that has figures. The first refusal ends it: the next would be the same.
async fn write_exports(
    hub: &impl HubDocuments,
    report: &OrganizationReport,
    month: &CalendarMonth,
) -> Result<(), StoreError> {
    let mut accounts: Vec<AccountId> = report.accounts.iter().map(|row| row.account.clone()).collect();
    accounts.sort();
    if accounts.is_empty() {
        return Ok(());
    }
    // The files of an account are made as they are written: those of all together would not fit into memory.
    let write = |row| async move {
        for file in export_account(row, month) {
            hub.write_hub_export(file).await?;
        }
        Ok::<_, StoreError>(())
    };
    let mut writes = stream::iter(report.accounts.iter().map(write)).buffer_unordered(AT_ONCE);
    while let Some(written) = writes.next().await {
        written?;
    }
    hub.write_hub_export(AccountExport::tables(hub.hub_bucket(), &accounts)).await
}

fn digest_message(function: &'static str, report: &OrganizationReport, address: &str) -> Message {
    let body = format!("{}\nThe whole report, as a page: {address}\n", organization_digest(report));
    let subject = notify::fit_subject(&format!("Curfew: {}", report.title()));
    Message::about_deployment(function, Severity::Info, subject, body)
}
