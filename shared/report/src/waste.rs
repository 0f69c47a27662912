//! Waste that was found and still runs, and machines without enough metrics to judge.

use std::collections::{BTreeMap, BTreeSet};

use model::id::{ResourceId, TeamName};
use model::known_sum::KnownSum;
use model::money::{Rate, usd};
use plan::report::{OutcomeKind, RecordedStep, RunRecord, SkippedCost};
use reaping::rules::summarize;
use serde::Serialize;

use crate::spend::{MonthSpend, RunningResource};
use crate::sums::KnownResource;
use crate::{DayActions, RecordedAction, SeenInstances};

/// Reason why a resource costs money without need, or may do so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WasteKind {
    /// `[limits]` hold the action until a person approves it.
    AwaitsApproval,
    /// Observe mode: the action would have been carried out.
    ObserveOnly,
    /// The action failed, or was not reached.
    Failed,
    /// The action is announced, and due later.
    Announced,
    /// The owner was notified, and Curfew does no more.
    NotifyOnly,
    /// No GPU metric says whether it works.
    Uninstrumented,
    /// Its owner keeps it by a tag.
    Kept,
    /// An unattached volume that belongs to a Kubernetes claim or another controller, which may be gone.
    OfOthers,
}

impl WasteKind {
    /// Describes the kind for people, in a table.
    #[must_use]
    pub const fn describe(self) -> &'static str {
        match self {
            Self::AwaitsApproval => "a person must approve its stop or deletion",
            Self::ObserveOnly => "Curfew would stop or delete it, but is set to observe only",
            Self::Failed => "Curfew tried to stop or delete it, and failed",
            Self::Announced => "its stop or deletion is announced",
            Self::NotifyOnly => "Curfew only notifies people of it",
            Self::Uninstrumented => "no GPU metric says whether it works",
            Self::Kept => "kept by its owner",
            Self::OfOthers => "belongs to another system",
        }
    }

    /// Returns `true` if the kind counts as waste. A resource without metrics, or one that an owner or a controller keeps, may be needed.
    #[must_use]
    pub const fn is_waste(self) -> bool {
        !matches!(self, Self::Uninstrumented | Self::Kept | Self::OfOthers)
    }

    fn from_skip_reason(reason: &str) -> Option<Self> {
        match reason {
            "marked" => Some(Self::Announced),
            "notified" => Some(Self::NotifyOnly),
            "refused" | "snapshot-failed" => Some(Self::Failed),
            "usage-unknown" => Some(Self::Uninstrumented),
            "kept" | "protected" => Some(Self::Kept),
            _ => None,
        }
    }

    fn from_step(step: &RecordedStep, record: &RunRecord) -> Option<Self> {
        match step.outcome {
            OutcomeKind::AlreadyGone | OutcomeKind::Changed => None,
            _ if step.action == "unmark" || step.action == "start" => None,
            OutcomeKind::Done if step.stops_or_deletes() || step.action == "snapshot" => None,
            _ if record.waits(step) => Some(Self::AwaitsApproval),
            OutcomeKind::Observed if step.stops_or_deletes() => Some(Self::ObserveOnly),
            OutcomeKind::Failed | OutcomeKind::NotReached => Some(Self::Failed),
            OutcomeKind::Done | OutcomeKind::Observed if step.action == "notify" => Some(Self::NotifyOnly),
            OutcomeKind::Done | OutcomeKind::Observed => Some(Self::Announced),
        }
    }
}

/// One resource of that kind.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WasteRow {
    pub kind: WasteKind,
    pub resource: ResourceId,
    pub what: String,
    pub name: Option<String>,
    pub owner: Option<String>,
    pub team: Option<TeamName>,
    /// Explanation in a few words; empty if the newest run did not give it again.
    pub why: String,
    /// Its cost; `None` if unknown.
    pub usd_per_hour: Option<Rate>,
    /// The part of the cost that a stop saves: nothing of capacity that is paid for anyway.
    pub saves_usd_per_hour: Option<Rate>,
}

impl WasteRow {
    pub(crate) fn describe(&self) -> String {
        let Self { resource, what, name, owner, team, .. } = self;
        let (id, team) = (resource.as_str(), team.as_ref());
        KnownResource { id, what, name: name.as_deref(), owner: owner.as_deref(), team }.describe()
    }

    /// The sum of the costs of these rows, with what it leaves out; where stops save less, with that sum: `$40,179.20 a month, of which stops
    /// save $0.00`.
    pub(crate) fn describe_sum(rows: &[&Self], period: &str) -> String {
        let sum = |rate: fn(&Self) -> Option<Rate>| KnownSum::from_parts(rows.iter().map(|row| rate(row)));
        let (costs, saves) = (sum(|row| row.usd_per_hour), sum(|row| row.saves_usd_per_hour));
        let dollars = |rate: Rate| format!("${}", usd(rate.usd_cents_per_month()));
        if costs.known().is_none() {
            return "an unknown sum".to_owned();
        }
        let saving = match saves.known() {
            known @ Some(_) if known != costs.known() => {
                format!(", of which stops save {}", saves.describe_shortly(dollars))
            }
            _ => String::new(),
        };
        costs.describe(|rate| format!("{} {period}{saving}", dollars(rate)))
    }
}

/// Collects the findings of the newest runs, the most expensive first. A resource appears once, under its first kind. What was
/// stopped since, or is gone, does not appear.
pub(crate) fn find_waste(
    newest: &[RunRecord],
    days: &[DayActions],
    spend: &MonthSpend,
    seen: &SeenInstances,
) -> Vec<WasteRow> {
    let running = &spend.running;
    let mut announced: BTreeMap<&ResourceId, &RecordedAction> = BTreeMap::new();
    for action in days.iter().flat_map(|day| &day.actions) {
        announced.insert(&action.resource, action);
    }
    let mut rows = Vec::new();
    for record in newest {
        let steps = record.steps.iter().filter(|step| !seen.has_ended(&step.region, &step.resource));
        rows.extend(steps.filter_map(|step| row_of_step(step, record, running.get(&step.resource))));
        for (reason, resources) in &record.skipped {
            let Some(kind) = WasteKind::from_skip_reason(reason) else { continue };
            rows.extend(resources.iter().filter_map(|resource| {
                let (running, announced) = (running.get(resource), announced.get(resource).copied());
                let region = running.and_then(|one| one.region.as_ref()).or(announced.map(|action| &action.region));
                let has_ended = region.is_some_and(|region| seen.has_ended(region, resource));
                row_of_skipped(kind, resource, running, announced).filter(|_| !has_ended)
            }));
        }
    }
    rows.extend(newest.iter().flat_map(|record| &record.skipped_costs).map(row_of_others));
    rows.sort_by_key(|row| row.kind);
    let mut named = BTreeSet::new();
    rows.retain(|row| named.insert(row.resource.clone()));
    for row in &mut rows {
        if let Some(label) = spend.labels.get(&row.resource) {
            row.name = row.name.take().or_else(|| label.name.clone());
            row.owner.clone_from(&label.owner);
        }
    }
    rows.sort_by(|one, other| {
        (other.usd_per_hour, one.kind, &one.resource).cmp(&(one.usd_per_hour, other.kind, &other.resource))
    });
    rows
}

fn row_of_others((resource, cost): (&ResourceId, &SkippedCost)) -> WasteRow {
    WasteRow {
        kind: if cost.waste.is_some() { WasteKind::NotifyOnly } else { WasteKind::OfOthers },
        resource: resource.clone(),
        what: cost.what.clone(),
        name: cost.name.clone(),
        owner: None,
        team: cost.team.as_deref().map(TeamName::from),
        why: cost.waste.clone().unwrap_or_else(|| "unattached; Curfew never deletes it".to_owned()),
        usd_per_hour: cost.usd_per_hour,
        saves_usd_per_hour: cost.usd_per_hour,
    }
}

/// The cost of an instance of which a stop saves that: where it saves nothing, the ledger has the cost.
fn cost_of(resource: &ResourceId, saves: Option<Rate>, running: Option<&RunningResource>) -> Option<Rate> {
    let is_prepaid = saves == Some(Rate::ZERO) && resource.as_str().starts_with("i-");
    if is_prepaid { running?.rate } else { saves }
}

fn row_of_step(step: &RecordedStep, record: &RunRecord, running: Option<&RunningResource>) -> Option<WasteRow> {
    if step.resource.as_str().starts_with("snap-") {
        return None;
    }
    let detail = summarize(&step.evidence, &step.action);
    let colon = if detail.is_empty() { "" } else { ": " };
    Some(WasteRow {
        kind: WasteKind::from_step(step, record)?,
        resource: step.resource.clone(),
        what: step.what.clone().unwrap_or_default(),
        name: step.name.clone(),
        owner: None,
        team: step.team.as_deref().map(TeamName::from),
        why: format!("{}{colon}{detail}", step.evidence.rule),
        usd_per_hour: cost_of(&step.resource, step.saves_usd_per_hour, running),
        saves_usd_per_hour: step.saves_usd_per_hour,
    })
}

/// Returns no row for a resource that neither runs nor was ever announced, because it costs nothing that this report knows of: a stopped
/// instance, or a volume that is kept.
fn row_of_skipped(
    kind: WasteKind,
    resource: &ResourceId,
    running: Option<&RunningResource>,
    announced: Option<&RecordedAction>,
) -> Option<WasteRow> {
    let announced_rate = announced.and_then(|action| action.saves_usd_per_hour);
    let (what, name, team, saves) = match (running, announced) {
        (Some(one), _) => (one.what.clone(), one.name.clone(), one.team.clone(), announced_rate.or(one.saves)),
        (None, Some(one)) => (one.what.clone().unwrap_or_default(), one.name.clone(), one.team.clone(), announced_rate),
        (None, None) => return None,
    };
    let why = announced.map(|action| action.rule.clone()).filter(|_| kind.is_waste()).unwrap_or_default();
    let usd_per_hour = cost_of(resource, saves, running);
    let resource = resource.clone();
    Some(WasteRow { kind, resource, what, name, owner: None, team, why, usd_per_hour, saves_usd_per_hour: saves })
}
