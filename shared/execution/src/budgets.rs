//! Everything that a beat does before it decides about budgets: it observes what runs, adds it to the ledger, and makes each budget document anew
//! from that.
//!
//! Two beats at once are harmless: an observation can be added any number of times in any order, a document is written only over the version that
//! was read, and a beat that loses the swap reads again. Every beat keeps the reservations of jobs.
//!
//! Unknown data changes nothing: an unobserved region keeps its runs. While a ledger cannot be read, no budget document is renewed, because it
//! would show too little; after an hour it is stale, and no function holds or stops anything by it.

mod beats;
mod cost_explorer;
mod documents;
mod ledgers;
mod machines;
mod statuses;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use billing::budget::{Budget, BudgetHolder, MachineFacts, SharedBudget};
use billing::ledger::{CalendarMonth, Ledger, LedgerBeat, RegionObservation, SageMakerObservation};
use billing::price::sagemaker_types;
use futures::future::join;
use model::fault::Passing;
use model::id::{Region, ResourceId, TeamName};
use model::instance::Instance;
use model::observation::{Gap, GapKind, Observation, Observed};
use plan::Plan;
use plan::report::Report;
use ports::{
    ActivityDocuments, AuditDocuments, BudgetCloud, BudgetDocuments, ConfigLoadError, Documents as CommonDocuments,
    FiguresDocuments, HubDocuments, LedgerDocuments, StoreError,
};
use reaping::budgets::{close, decide};
use reaping::policy::Policy;
use report::{AccountFigures, AccountMetrics, BeatFacts, PublishedBeat, Publisher};

use crate::account_metrics::read_newest_judgement;
use crate::publish_figures::publish_figures;
use crate::shared_budgets::{read_shared_budgets, sum_shared_budgets};
use crate::{RecalledLogs, Run, prices};
use documents::{LoadedBudgets, UpdatedBudgets};
pub use statuses::load_budget_statuses;

pub trait BeatDocuments:
    CommonDocuments + ActivityDocuments + AuditDocuments + BudgetDocuments + FiguresDocuments + LedgerDocuments
{
}

impl<D: CommonDocuments + ActivityDocuments + AuditDocuments + BudgetDocuments + FiguresDocuments + LedgerDocuments>
    BeatDocuments for D
{
}

/// One beat of a run: observes, updates ledgers and documents, decides, notifies and records. In the account of an organization's hub, which `hub`
/// is, it also sums the budgets that accounts share.
///
/// # Errors
/// If the configuration was refused, or could not be read.
pub async fn enforce(
    run: &Run<'_, impl BudgetCloud, impl BeatDocuments>,
    hub: Option<&impl HubDocuments>,
) -> Result<Report, ConfigLoadError> {
    let (policy, subscribers) = run.prepare_without_prices().await?;
    let mut observation = observe(run, &policy).await;
    run.publish_metrics(&observation.metrics);
    observation.gaps.extend(publish(run, &policy, &observation).await);
    if let Some(hub) = hub {
        observation.gaps.extend(Box::pin(sum_shared_budgets(run, hub, &policy.config)).await);
    }
    let (memory, home) = (&observation.recalled.memory, run.cloud.home());
    let plan = decide(&observation.budgets, &policy.config, &policy.ceiling, memory, home);
    let plan = close(plan, &observation.closed, &policy.config, &policy.ceiling, memory, home);
    Ok(run
        .carry_out(Plan { gaps: observation.gaps, ..plan }, observation.regions, subscribers, observation.recalled)
        .await)
}

/// Publishes where the account stands to the hub of its organization, and the final figures of a month that this beat closed.
async fn publish(
    run: &Run<'_, impl BudgetCloud, impl BeatDocuments>,
    policy: &Policy,
    observation: &BudgetsObservation,
) -> Vec<Gap> {
    let account_name = policy.config.account.name.as_deref();
    let BudgetMonths { this, previous } = BudgetMonths::from_run(run, policy);
    let BudgetsObservation { budgets, closed, coverage, .. } = observation;
    let BeatCoverage { seen_regions, unseen_regions, knows_end_of_before } = *coverage;
    let present = PublishedBeat {
        month: &this,
        budgets,
        account_name,
        mode: run.mode,
        is_final: false,
        seen_regions,
        unseen_regions,
    };
    // Where the end of that month was awaited for too long, it is unknown.
    let unseen_regions = (!knows_end_of_before).into();
    let before = PublishedBeat { month: &previous, budgets: closed, is_final: true, unseen_regions, ..present };
    let mut gaps = Vec::new();
    for beat in [before, present] {
        let figures = || AccountFigures::from_beat(&beat);
        gaps.extend(publish_figures(run, Publisher::EnforceBudgets, figures).await);
    }
    gaps
}

/// The facts about the account that a beat has read.
pub struct BudgetsObservation {
    /// The regions to observe.
    pub regions: Vec<Region>,
    /// Each budget by its current document.
    pub budgets: BTreeMap<BudgetHolder, Budget>,
    /// The budgets of the previous month that this beat closed.
    pub closed: BTreeMap<BudgetHolder, Budget>,
    /// Everything that the beat could not observe, read or write.
    pub gaps: Vec<Gap>,
    /// The notifications of earlier beats, all in the log of the home region.
    pub recalled: RecalledLogs,
    /// Coverage of the account by the beat.
    coverage: BeatCoverage,
    /// Metrics of the account; none where the deployment asks for none.
    pub metrics: AccountMetrics,
}

/// Coverage of an account by a beat.
struct BeatCoverage {
    /// Number of regions that it saw, completely or in part.
    seen_regions: usize,
    /// Number of regions that it did not see completely. Regions that could not be listed count as one.
    unseen_regions: usize,
    /// `true` if each ledger of the previous month includes a beat after its end.
    knows_end_of_before: bool,
}

/// Facts beside the ledgers from which budgets are made.
#[derive(Clone, Copy)]
struct BudgetFacts<'a> {
    machines: &'a BTreeMap<ResourceId, MachineFacts>,
    shared: &'a BTreeMap<TeamName, SharedBudget>,
}

/// The current month and the previous one, in the account's time zone.
struct BudgetMonths {
    this: CalendarMonth,
    previous: CalendarMonth,
}

impl BudgetMonths {
    fn from_run(run: &Run<'_, impl BudgetCloud, impl BeatDocuments>, policy: &Policy) -> Self {
        let this = CalendarMonth::containing(run.now, &policy.config.account.zone());
        Self { previous: this.previous(), this }
    }
}

pub async fn observe(run: &Run<'_, impl BudgetCloud, impl BeatDocuments>, policy: &Policy) -> BudgetsObservation {
    let Observation { items: regions, mut gaps } = run.regions(&policy.config).await;
    let unlisted = usize::from(!gaps.is_empty());
    let recalled = recall(run, &regions).await;
    // Without the log no notification is sent, but nothing else depends on it: the region is observed all the same.
    gaps.extend(recalled.gaps.iter().map(|gap| Gap { kind: GapKind::Part, ..gap.clone() }));
    let beats = observe_regions(run, policy, &regions).await.with_gaps_in(&mut gaps);
    let machines = machines::read_machine_facts(run, policy, &beats.instances).await.with_gaps_in(&mut gaps);
    let months = BudgetMonths::from_run(run, policy);
    let documents = LoadedBudgets::read_named(run, policy, &months).await;
    let ledgers = ledgers::kept(run, &months, &regions, &beats, &documents.moments()).await.with_gaps_in(&mut gaps);
    let shared = Box::pin(read_shared_budgets(run, &policy.config, &months.this)).await.with_gaps_in(&mut gaps);
    let facts = BudgetFacts { machines: &machines, shared: &shared };
    let renewed = documents::renewed(run, policy, &months, &ledgers, facts, documents).await;
    let UpdatedBudgets { budgets, closed } = renewed.with_gaps_in(&mut gaps);
    let coverage = BeatCoverage {
        seen_regions: beats.ec2.len(),
        unseen_regions: beats.unseen_regions(&regions).saturating_add(unlisted),
        knows_end_of_before: ledgers.knows_end_of_before,
    };
    let mut metrics = AccountMetrics::default();
    if let Some(publisher) = &run.metrics {
        let judged = read_newest_judgement(run).await.with_gaps_in(&mut gaps);
        let looks = ledgers.looks.iter().filter(|(region, _)| regions.contains(region));
        metrics = AccountMetrics::from_beat(&BeatFacts {
            account: publisher.account,
            now: run.now,
            config: &policy.config,
            spends: ledgers.is_whole.then_some(ledgers.spends.current.as_slice()),
            looks: looks.map(|(region, look)| (region.clone(), *look)).collect(),
            instances: &beats.instances,
            machines: &machines,
            judged: judged.as_ref(),
            budgets: &budgets,
        });
    }
    BudgetsObservation { regions, budgets, closed, gaps, recalled, coverage, metrics }
}

/// The beats of EC2 and of `SageMaker`, one per region.
struct RegionBeats {
    ec2: Vec<LedgerBeat>,
    sagemaker: Vec<LedgerBeat>,
    /// The instances that were observed for the first.
    instances: Vec<Instance>,
    /// Regions in which `SageMaker` could not be read, or only in part.
    unread_sagemaker: BTreeSet<Region>,
}

impl RegionBeats {
    /// Number of these regions in which something may run that no beat has.
    fn unseen_regions(&self, regions: &[Region]) -> usize {
        let is_whole = |region: &Region| self.ec2.iter().any(|beat| beat.whole && beat.region == *region);
        regions.iter().filter(|region| !is_whole(region) || self.unread_sagemaker.contains(*region)).count()
    }

    /// Takes down what was seen of that region.
    fn observe(&self, ledger: &mut Ledger, region: &Region) -> bool {
        let is_of_region = |beat: &&LedgerBeat| beat.region == *region;
        let seen = self.ec2.iter().find(is_of_region).is_some_and(|beat| ledger.observe(beat));
        self.sagemaker.iter().find(is_of_region).is_some_and(|beat| ledger.observe_sagemaker(beat)) || seen
    }
}

/// Observes everything that runs now, as beats of the ledger. Requests missing and old prices.
async fn observe_regions(
    run: &Run<'_, impl BudgetCloud, impl BeatDocuments>,
    policy: &Policy,
    regions: &[Region],
) -> Observed<RegionBeats> {
    let (Observation { items: looks, mut gaps }, bills) =
        join(run.cloud.looks(regions, run.timeout()), run.cloud.sagemaker_bills(regions, run.now, run.timeout())).await;
    let unread_sagemaker = bills.gaps.iter().map(|gap| gap.region.clone()).collect();
    let bills = bills.with_gaps_in(&mut gaps);
    let instances: Vec<Instance> =
        looks.iter().flat_map(|look| &look.instances).map(|one| one.instance.clone()).collect();
    let with_volumes: Vec<Region> =
        looks.iter().filter(|look| !look.volumes.is_empty()).map(|look| look.region.clone()).collect();
    let sagemaker_types = sagemaker_types(bills.iter().flat_map(|look| &look.resources));
    let refreshed = prices::refresh(run, &policy.config, &instances, &with_volumes, &sagemaker_types).await;
    let prices = refreshed.with_gaps_in(&mut gaps);
    let to_beat = |look: &RegionObservation| {
        look.to_beat(
            run.now,
            &policy.config,
            |one| prices.known_rates(&one.instance),
            |volume| prices.known_rates_of_volume(volume),
        )
    };
    let bill_to_beat =
        |look: &SageMakerObservation| look.to_beat(run.now, &policy.config, |one| prices.known_rates_of_sagemaker(one));
    let ec2 = looks.into_iter().map(|look| beats::from_look(look, to_beat, &mut gaps)).collect();
    let sagemaker = bills.into_iter().map(|look| beats::from_bill(look, bill_to_beat, &mut gaps)).collect();
    Observed { items: RegionBeats { ec2, sagemaker, instances, unread_sagemaker }, gaps }
}

/// The log of the home region has all notifications about budgets. If it cannot be read, an empty one takes at least the notification of that.
async fn recall(run: &Run<'_, impl BudgetCloud, impl BeatDocuments>, regions: &[Region]) -> RecalledLogs {
    let recalled = run.recall(&[]).await;
    if recalled.memory.is_empty() { run.recall(regions).await } else { recalled }
}

/// Calls the bucket within a timeout. Its failure is a gap of that region; `what` names the document of one that timed out.
pub(crate) async fn in_time<T>(
    call: impl Future<Output = Result<T, StoreError>>,
    timeout: Duration,
    region: &Region,
    action: &str,
    what: impl FnOnce() -> String,
) -> Result<T, Gap> {
    match tokio::time::timeout(timeout, call).await {
        Ok(answer) => answer.map_err(|error| error.gap(region)),
        Err(_) => Err(timed_out(timeout, region, action, &what())),
    }
}

/// A gap for a read that timed out.
pub(crate) fn timed_out(timeout: Duration, region: &Region, call: &str, what: &str) -> Gap {
    let error = format!("{what}: S3 did not answer within {} s", timeout.as_secs());
    Gap { passing: Some(Passing::Later), ..Gap::new(region, call, error, GapKind::Part) }
}
