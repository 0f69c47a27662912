//! The report of the month, once a day: the page and the charges in the bucket, its digest to the subscribers, and by mail to each team its
//! own part.

mod usage;

use std::time::Duration;

use billing::ledger::CalendarMonth;
use billing::price::PriceBook;
use futures::{StreamExt as _, stream};
use jiff::{SignedDuration, Timestamp};
use model::channels::account_of_topic;
use model::config::Config;
use model::moment::before;
use model::notification_log::Severity;
use model::observation::{Gap, GapKind, Observed};
use notify::{Message, ReplyUrls};
use plan::report::Report;
use ports::{CallError, ConfigLoadError, Documents, FiguresDocuments, HubDocuments, ReportCloud, ReportDocuments};
use report::{
    AccountFigures, AccountMetrics, MonthFacts, MonthReport, Publisher, bucket_export, digest, mail, render_html,
};

use crate::publish_figures::publish_figures;
use crate::{Run, organization_report, prices};

/// The report covers the month of the day before: on the first of a month the month that has just ended.
const DAY: SignedDuration = SignedDuration::from_hours(24);

/// Concurrent mails: SES accepts 14 a second from most accounts, and one from a new one (Amazon SES developer guide, "Service quotas in Amazon
/// SES").
const MAILS_AT_ONCE: usize = 4;

#[derive(Debug, thiserror::Error)]
pub enum MonthReportError {
    #[error(transparent)]
    Config(#[from] ConfigLoadError),
    #[error("the digest could not be sent, and the page was not written; a repeated run tries both again")]
    Digest(#[source] CallError),
}

/// The report of a month that has begun, and what could not be read for it. Of that the report itself has a sentence each.
pub async fn read(
    (cloud, store): (&impl ReportCloud, &impl ReportDocuments),
    config: &Config,
    month: CalendarMonth,
    prices: PriceBook,
    (now, timeout): (Timestamp, Duration),
) -> Observed<MonthReport> {
    let facts = store.read_month_facts(month, config.account.zone(), prices, now).await;
    report_on(facts, cloud, config, timeout).await
}

async fn report_on(
    mut facts: MonthFacts,
    cloud: &impl ReportCloud,
    config: &Config,
    timeout: Duration,
) -> Observed<MonthReport> {
    let Observed { items: usage, gaps: unseen } = usage::read(cloud, config, &facts, timeout).await;
    facts.usage = usage;
    let mut month_report = MonthReport::from_facts(&facts);
    month_report.account_name.clone_from(&config.account.name);
    let unread = month_report.gaps.iter().map(|gap| Gap::new(cloud.home(), "s3:GetObject", gap.clone(), GapKind::Part));
    let gaps = unread.chain(unseen.iter().cloned()).collect();
    let unknown = |gap: &Gap| format!("how hard instances in {} worked: {}: {}", gap.region, gap.call, gap.in_run());
    month_report.gaps.extend(unseen.iter().map(unknown));
    Observed { items: month_report, gaps }
}

/// Sends the digest unless the day has a page already, and writes the page of the day. Only the run that wrote the day's first page sends mails:
/// never twice, and refused mails are reported. The figures go to the hub of the organization, if the account has one; in the account of the
/// hub itself, which `hub` is, the report of the organization is sent too.
///
/// # Errors
/// If the configuration was refused or could not be read, or if SNS did not accept the digest.
pub async fn send(
    run: &Run<'_, impl ReportCloud, impl Documents + FiguresDocuments + ReportDocuments>,
    hub: Option<&impl HubDocuments>,
) -> Result<Report, MonthReportError> {
    let config = run.config().await?.config;
    let zone = config.account.zone();
    let prices = prices::load(run.store, &config, run.now).await;
    let month = CalendarMonth::containing(before(run.now, DAY), &zone);
    let day = run.now.to_zoned(zone).date();
    let facts = run.store.read_month_facts(month.clone(), config.account.zone(), prices, run.now).await;
    let account = account_of_topic(&run.channels.topics.teams);
    let charges = bucket_export(&facts, account.as_deref(), config.account.name.as_deref());
    let saved = run.metrics.as_ref().map(|publisher| AccountMetrics::from_month(publisher.account, &facts));
    let Observed { items: mut month_report, gaps } = report_on(facts, run.cloud, &config, run.timeout()).await;
    month_report.account = account;
    let home = run.cloud.home();
    let seen = month_report.teams.len();
    let mut report = Report { regions: vec![home.clone()], ..run.report_without_steps(seen, gaps) };
    let has_page = run.store.has_report_page(day).await;
    if !matches!(has_page, Ok(true)) {
        let address = run.store.report_page_address(day);
        let message = digest_message(run.function, &month_report, &address);
        report.gaps.extend(run.publish_to_all(&message).await.map_err(MonthReportError::Digest)?);
        let event = notify::digest_event(&report, &message);
        report.gaps.extend(run.copy_to_channels(&[&message], &ReplyUrls::new(), &[event]).await);
    }
    let written = run.store.write_report_page(day, render_html(&month_report)).await;
    if matches!(has_page, Ok(false)) && written.is_ok() {
        report.gaps.extend(send_mails(run, &config, &month_report).await);
    }
    let exported = match charges {
        Some(charges) => run.store.write_month_export(&month, charges).await,
        None => Ok(()),
    };
    let published = || Some(AccountFigures::from_report(&month_report));
    report.gaps.extend(publish_figures(run, Publisher::SendReport, published).await);
    if let Some(hub) = hub {
        let is_first = matches!(has_page, Ok(false));
        let sent = organization_report::send(run, hub, &config, (&month, day), is_first);
        report.gaps.extend(Box::pin(sent).await);
    }
    let errors = has_page.err().into_iter().chain(written.err()).chain(exported.err());
    report.gaps.extend(errors.map(|error| error.gap(home)));
    run.publish_metrics(&saved.unwrap_or_default());
    let unrecorded = run.record(&mut report).await;
    report.gaps.extend(unrecorded);
    for gap in &report.gaps {
        tracing::warn!(region = gap.region.as_str(), call = gap.call, "{}", gap.in_run());
    }
    Ok(report)
}

/// Sends every mail, and returns which were refused.
async fn send_mails(
    run: &Run<'_, impl ReportCloud, impl Documents>,
    config: &Config,
    month_report: &MonthReport,
) -> Vec<Gap> {
    let Some(sender) = &config.report.sender else { return Vec::new() };
    let mails = month_report.recipients(config).into_iter().map(|(address, part)| async move {
        let sent = run.cloud.mail_report(sender, &address, &mail(&part)).await;
        sent.err().map(|error| (address, error))
    });
    let refused: Vec<(String, CallError)> =
        stream::iter(mails).buffer_unordered(MAILS_AT_ONCE).filter_map(async |refused| refused).collect().await;
    let mut gaps: Vec<Gap> =
        refused.iter().map(|(address, error)| Gap { error: format!("{address}: {error}"), ..error.gap() }).collect();
    if !refused.is_empty() {
        let lines = refused.iter().map(|(address, error)| format!("  {address}: {error}\n"));
        let subject = format!("Curfew: the report of {} could not be mailed", month_report.month);
        let body = format!(
            "SES did not accept the report of {} for {} addresses.\nIt is not mailed again; the page is in the bucket.\n{}",
            month_report.month,
            refused.len(),
            lines.collect::<String>()
        );
        let message = Message::about_deployment(run.function, Severity::Warning, subject, body);
        gaps.extend(run.publish_to_all(&message).await.unwrap_or_else(|error| vec![error.gap()]));
    }
    gaps
}

fn digest_message(function: &'static str, month_report: &MonthReport, address: &str) -> Message {
    let body = format!(
        "{}\nThe whole report, as a page: {address}\n`curfew report --team <team>` writes the part of one team.\n",
        digest(month_report)
    );
    let subject = notify::fit_subject(&format!("Curfew: {}", month_report.title()));
    Message::about_deployment(function, Severity::Info, subject, body)
}
