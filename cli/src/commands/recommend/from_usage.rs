//! `curfew recommend --from-usage`: what could cost less, by past usage.

use std::time::Duration;

use billing::ledger::TimeSpan;
use cloud::usage_history;
use jobs::JobId;
use model::fault::Bug;
use model::id::{Region, TeamName};
use model::instance::Instance;
use model::moment::before;
use recommend::GpuOffer;
use recommend::usage::{InstanceUsage, JOBS_SEEN, UsageFinding, find_spot, is_looked_at, on_demand_jobs, top_findings};
use serde::Serialize;
use store::JobDocuments as _;

use super::account::{Account, Deployed};
use crate::command_error::{CommandError, describe_call_error, describe_gap, describe_store_error};
use crate::command_status::CommandStatus;
use crate::context::CommandContext;
use crate::screen::{self, ColumnAlignment, Table};

/// Tens of thousands of instances take a minute or two.
const TIMEOUT: Duration = Duration::from_mins(5);

/// Series of GPUs of one region that are queried, two metrics each: $0.04.
const SERIES_MAX: usize = 2_000;

/// The most expensive jobs; the state of each is read in a call.
const JOBS_MAX: usize = 200;

const FINDINGS_MAX: usize = 500;

/// ```json
/// {"schema": 1, "at": "…", "team": null, "metrics_asked": 16,
///  "findings": [{"kind": "hours", "region": "us-east-1", "resource": "i-0abc", "what": "g5.12xlarge", "team": "vision",
///                "saves_usd_per_month": 2786.4, "evidence": "from 2026-11-02 …", "action": "tag it curfew:hours=…"}]}
/// ```
/// `kind` is `spot`, `hours` or `smaller`. `metrics_asked` is the number of metrics requested from CloudWatch: 100,000 cost a dollar.
#[derive(Serialize)]
struct UsageOutput<'a> {
    at: jiff::Timestamp,
    team: Option<&'a TeamName>,
    metrics_asked: usize,
    findings: &'a [UsageFinding],
}

/// The data that was read, and the findings.
#[derive(Default)]
struct Found {
    findings: Vec<UsageFinding>,
    metrics_asked: usize,
    is_incomplete: bool,
}

pub(super) async fn run(account: &Account, team: Option<&TeamName>) -> Result<CommandStatus, CommandError> {
    let context = account.needs_context()?;
    let deployed = account.deployed().await?;
    let mut found = Found::default();
    of_instances(account, context, &deployed, &mut found).await;
    of_jobs(account, &deployed, &mut found).await;
    let mut findings = std::mem::take(&mut found.findings);
    findings.retain(|finding| team.is_none_or(|team| finding.team.as_ref() == Some(team)));
    let findings = top_findings(findings, FINDINGS_MAX);
    if account.json {
        let (at, metrics_asked) = (account.now, found.metrics_asked);
        screen::json(&UsageOutput { at, team, metrics_asked, findings: &findings })?;
    } else {
        show(&findings);
    }
    Ok(match () {
        () if found.is_incomplete => CommandStatus::Error,
        () if findings.is_empty() => CommandStatus::Success,
        () => CommandStatus::Findings,
    })
}

/// Instances on demand that work now, by the metrics of three weeks.
async fn of_instances(account: &Account, context: &CommandContext, deployed: &Deployed, found: &mut Found) {
    let config = &deployed.config;
    let regions = cloud::regions(&context.aws, config).await;
    let seen = cloud::instances(&context.aws, &regions.items, TIMEOUT).await;
    for gap in regions.gaps.iter().chain(&seen.gaps) {
        found.is_incomplete = true;
        screen::warn(describe_gap(gap));
    }
    for region in &regions.items {
        let concerned: Vec<&Instance> =
            seen.items.iter().filter(|one| one.region == *region && is_looked_at(one)).collect();
        if !concerned.is_empty() {
            of_region(account, context, deployed, (region, &concerned), found).await;
        }
    }
}

async fn of_region(
    account: &Account,
    context: &CommandContext,
    deployed: &Deployed,
    (region, instances): (&Region, &[&Instance]),
    found: &mut Found,
) {
    let config = &deployed.config;
    let Some(names) = &config.metrics.nvidia else { return };
    let history = match usage_history(&context.aws, region, instances, names, (account.now, SERIES_MAX)).await {
        Ok((history, left_out)) => {
            if left_out > 0 {
                screen::warn(format_args!("{region} has too many GPUs: {left_out} were not checked"));
            }
            history
        }
        Err(error) => {
            found.is_incomplete = true;
            return screen::warn(describe_call_error(&error));
        }
    };
    found.metrics_asked += 2 * history.values().map(Vec::len).sum::<usize>();
    let (offers, is_complete) = account.offers(std::slice::from_ref(region)).await;
    found.is_incomplete |= !is_complete;
    let prices = account.prices(deployed, &offers, false).await;
    for instance in instances {
        let Some(samples) = history.get(&instance.id) else { continue };
        let findings = || {
            let usage = InstanceUsage::from_samples(instance, samples, names, (&prices, config));
            usage.findings(&offers, &prices, config).collect::<Vec<_>>()
        };
        match Bug::catch(findings) {
            Ok(findings) => found.findings.extend(findings),
            Err(bug) => {
                found.is_incomplete = true;
                screen::warn(format_args!("{}: {bug}", instance.id));
            }
        }
    }
}

/// Jobs of the last month that ran on demand, by the ledger and their states.
async fn of_jobs(account: &Account, deployed: &Deployed, found: &mut Found) {
    let Some(store) = &deployed.store else { return };
    let ledgers = account.ledgers(deployed, None, 1).await;
    let span = TimeSpan { from: before(account.now, JOBS_SEEN), to: account.now };
    let mut jobs = on_demand_jobs(&ledgers, span);
    jobs.sort_by(|one, other| other.cost.cmp(&one.cost).then_with(|| one.job.cmp(&other.job)));
    jobs.truncate(JOBS_MAX);
    if jobs.is_empty() {
        return;
    }
    let offers: Vec<GpuOffer> = jobs.iter().map(|runs| GpuOffer::named(&runs.region, &runs.instance_type)).collect();
    let prices = account.prices(deployed, &offers, true).await;
    for runs in &jobs {
        let Ok(id) = JobId::read(&runs.job) else { continue };
        match store.read_job(&id).await {
            Ok(read) => {
                let step = read.value.filter(|job| job.terms.checkpoint.is_some()).and_then(|job| job.progress.step);
                found.findings.extend(find_spot(runs, step, &prices, span));
            }
            Err(error) => {
                found.is_incomplete = true;
                screen::warn(describe_store_error(&error));
            }
        }
    }
}

fn show(findings: &[UsageFinding]) {
    if findings.is_empty() {
        return screen::print_line(
            "Nothing was found that could cost less, by the metrics of three weeks and the ledger of a month.",
        );
    }
    let mut table = Table::new([
        ("USD/month", ColumnAlignment::Right),
        ("finding", ColumnAlignment::Left),
        ("resource", ColumnAlignment::Whole),
        ("what", ColumnAlignment::Left),
        ("team", ColumnAlignment::Left),
    ]);
    for finding in findings {
        table.row([
            model::money::usd(finding.saves.usd_cents_per_month()),
            finding.kind.as_str().to_owned(),
            finding.resource.clone(),
            finding.what.clone(),
            finding.team.as_ref().map_or_else(|| "(no team)".to_owned(), ToString::to_string),
        ]);
    }
    table.print();
    for finding in findings {
        screen::print_line("");
        screen::print_line(format!("{}: {}.", finding.resource, finding.evidence));
        screen::print_line(format!("  {}.", finding.action));
    }
}
