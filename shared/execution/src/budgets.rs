//! Everything that a beat does before it decides about budgets: it looks at what runs, takes it down in the ledger, and makes each
//! budget document anew from that.
//!
//! Two beats at once do no harm: what a beat saw can be taken down any number of times in any order, documents are written over
//! the version that was read and no other, and whoever loses reads again. What a document reserves for jobs is kept
//! by each of them.
//!
//! What is not known says nothing: of a region that was not seen, all that is known stays, and nothing is over; where a ledger could
//! not be read, no budget document is renewed, for it would say too little; after an hour it is stale, and nobody holds or
//! stops anything by it.

mod closing;
mod cost_explorer;
mod documents;
mod ledgers;
mod statuses;

use std::collections::BTreeMap;
use std::time::Duration;

use billing::budget::{Budget, BudgetHolder};
use billing::ledger::{CalendarMonth, LedgerBeat, RegionObservation};
use model::fault::Passing;
use model::id::Region;
use model::instance::Instance;
use model::observation::{Gap, GapKind, Observation};
use plan::Plan;
use plan::report::Report;
use ports::{BudgetCloud, BudgetDocuments, ConfigLoadError, Documents as CommonDocuments, LedgerDocuments};
use reaping::budgets::{close, decide};
use reaping::policy::Policy;

use crate::{RecalledLogs, Run, prices};
use documents::{LoadedBudgets, UpdatedBudgets};
pub use statuses::load_budget_statuses;

/// What a beat reads and writes of the bucket.
pub trait BeatDocuments: CommonDocuments + BudgetDocuments + LedgerDocuments {}

impl<D: CommonDocuments + BudgetDocuments + LedgerDocuments> BeatDocuments for D {}

/// One beat of a run: looks, keeps the ledger and the documents, decides, tells and records.
///
/// # Errors
/// Where the configuration was refused, or could not be read.
pub async fn enforce(run: &Run<'_, impl BudgetCloud, impl BeatDocuments>) -> Result<Report, ConfigLoadError> {
    let (policy, audience) = run.prepare_without_prices().await?;
    let seen = observe(run, &policy).await;
    let (memory, terms, home) = (&seen.recalled.memory, (&policy.config, policy.ceiling), run.cloud.home());
    let plan = decide(&seen.budgets, &policy.config, policy.ceiling, memory, home);
    let plan = close(plan, &seen.closed, terms, memory, home);
    Ok(run.carry_out(Plan { gaps: seen.gaps, ..plan }, seen.regions, audience, seen.recalled).await)
}

/// What a beat knows of the account.
pub struct BudgetsObservation {
    /// Where was looked.
    pub regions: Vec<Region>,
    /// Each budget as its document has it now.
    pub budgets: BTreeMap<BudgetHolder, Budget>,
    /// Those of the month before that this beat closed.
    pub closed: BTreeMap<BudgetHolder, Budget>,
    /// What could not be seen, read or written.
    pub gaps: Vec<Gap>,
    /// What earlier beats told: all of it with the home region.
    pub recalled: RecalledLogs,
}

/// The month that it is, and the one before, in the account's time zone.
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

/// One beat.
pub async fn observe(run: &Run<'_, impl BudgetCloud, impl BeatDocuments>, policy: &Policy) -> BudgetsObservation {
    let Observation { items: regions, mut gaps } = run.regions(&policy.config).await;
    let recalled = recall(run, &regions).await;
    // Without what was told nothing is told anew, and nothing else depends on it: the region is seen all the same.
    gaps.extend(recalled.gaps.iter().map(|gap| Gap { kind: GapKind::Part, ..gap.clone() }));
    let Observation { items: beats, gaps: unseen } = observe_regions(run, policy, &regions).await;
    gaps.extend(unseen);
    let months = BudgetMonths::from_run(run, policy);
    let documents = LoadedBudgets::read_named(run, policy, &months).await;
    let (ledgers, unkept) = ledgers::kept(run, &months, &regions, &beats, &documents.moments()).await;
    gaps.extend(unkept);
    let (UpdatedBudgets { budgets, closed }, unwritten) =
        documents::renewed(run, policy, &months, &ledgers, documents).await;
    gaps.extend(unwritten);
    BudgetsObservation { regions, budgets, closed, gaps, recalled }
}

/// What runs now, as beats of the ledger, with prices that are asked for as far as they are missing or old.
async fn observe_regions(
    run: &Run<'_, impl BudgetCloud, impl BeatDocuments>,
    policy: &Policy,
    regions: &[Region],
) -> Observation<LedgerBeat> {
    let Observation { items: looks, mut gaps } = run.cloud.looks(regions, run.timeout()).await;
    let instances: Vec<Instance> =
        looks.iter().flat_map(|look| &look.instances).map(|one| one.instance.clone()).collect();
    let with_volumes: Vec<Region> =
        looks.iter().filter(|look| !look.volumes.is_empty()).map(|look| look.region.clone()).collect();
    let (prices, unasked) = prices::refresh(run, &policy.config, &instances, &with_volumes).await;
    gaps.extend(unasked);
    let of_look = |look: RegionObservation| {
        look.to_beat(
            run.now,
            &policy.config,
            |one| prices.known_rates(&one.instance),
            |volume| prices.known_rates_of_volume(volume),
        )
    };
    Observation { items: looks.into_iter().map(of_look).collect(), gaps }
}

/// All that is told of budgets is remembered with the home region. Where that cannot be read, there is at least a place to remember that
/// this was told.
async fn recall(run: &Run<'_, impl BudgetCloud, impl BeatDocuments>, regions: &[Region]) -> RecalledLogs {
    let recalled = run.recall(&[]).await;
    if recalled.memory.is_empty() { run.recall(regions).await } else { recalled }
}

/// What could not be awaited.
pub(crate) fn timed_out(timeout: Duration, region: &Region, call: &str, what: &str) -> Gap {
    let error = format!("{what} was not there within {} s", timeout.as_secs());
    Gap { passing: Some(Passing::Later), ..Gap::new(region, call, error, GapKind::Part) }
}
