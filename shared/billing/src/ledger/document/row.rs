//! One run of the document.

use std::collections::BTreeSet;

use jiff::Timestamp;
use model::id::{ResourceId, TeamName};
use model::money::{Amount, Rate};
use serde::{Deserialize, Serialize};

use super::{from_steps, to_steps};
use crate::ledger::run::{Attribution, CarriedRun, FactSource, Pricing, RunEntry, RunLabel};
use crate::ledger::timeline::Timeline;
use crate::ledger::{Ledger, LedgerRun, PurchaseTerms, RunKind, Tariff, TimeSpan};

/// A run, by its instance, its volume or its resource of `SageMaker`.
#[derive(Serialize, Deserialize)]
pub(super) struct LedgerRow {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    instance: Option<ResourceId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    volume: Option<ResourceId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sagemaker: Option<ResourceId>,
    /// Launch of the instance, or attachment of the volume.
    pub(super) launched_at: Timestamp,
    team: Option<TeamName>,
    #[serde(rename = "type")]
    what: String,
    lifecycle: PurchaseTerms,
    tariff: Tariff,
    /// The present rate, or the last one; null if unknown.
    #[serde(skip_deserializing)]
    usd_per_hour: Option<Rate>,
    /// Start of the run within the month.
    #[serde(skip_deserializing)]
    from: Timestamp,
    /// End of the time within the month that is known to be billed.
    #[serde(skip_deserializing)]
    until: Timestamp,
    /// `true` if `until` is the end of the run.
    #[serde(skip_deserializing)]
    ended: bool,
    /// Known cost in the month.
    #[serde(skip_deserializing)]
    usd: Amount,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    job: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    attached_to: Option<ResourceId>,
    #[serde(rename = "told", default, skip_serializing_if = "is_usual")]
    source: FactSource,
    /// Time of the report; absent if it equals `seen`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    at: Option<Timestamp>,
    /// The first beat of the month that saw it running; left out where that was the first beat after it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    first: Option<Timestamp>,
    /// The beats since `first` that did not see it running, written as `beats` are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    missed: Vec<i64>,
    /// The earlier payers, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    charged: Vec<ChargedSpan>,
    /// Time from which no team is charged any more, because the team changed too often.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    uncharged_since: Option<Timestamp>,
    /// Earlier pricings, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    priced: Vec<PricedSpan>,
    /// Time from which changes of the price are no longer tracked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unpriced_since: Option<Timestamp>,
    /// Values at the start of the month.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    carried: Option<CarriedRow>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seen: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stopped: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    terminated: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ended_by: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reclaimed: Option<bool>,
}

/// Payer of a run until a beat saw another one.
#[derive(Serialize, Deserialize)]
struct ChargedSpan {
    until: Timestamp,
    team: Option<TeamName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    job: Option<String>,
    /// Known cost in the month, from the previous change until this one.
    #[serde(skip_deserializing)]
    usd: Amount,
}

/// Pricing of a run until a beat saw another one.
#[derive(Serialize, Deserialize)]
struct PricedSpan {
    until: Timestamp,
    #[serde(rename = "type")]
    what: String,
    lifecycle: PurchaseTerms,
    tariff: Tariff,
}

/// The last values of the previous month.
#[derive(Serialize, Deserialize)]
struct CarriedRow {
    at: Timestamp,
    team: Option<TeamName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    job: Option<String>,
    #[serde(rename = "type")]
    what: String,
    lifecycle: PurchaseTerms,
    tariff: Tariff,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_usual(source: &FactSource) -> bool {
    *source == FactSource::default()
}

impl LedgerRow {
    pub(super) fn from_run(run: &LedgerRun<'_>, ledger: &Ledger) -> Self {
        let RunEntry { label, source, facts_at, first_at, missed, seen, .. } = run.entry.clone();
        let RunEntry { stopped, terminated, ended_by, reclaimed, .. } = *run.entry;
        let RunLabel { kind, owner, name, attached_to } = label;
        let Pricing { what, terms, tariff } = run.entry.pricing.last().clone();
        let uncharged_since = run.entry.attribution.untracked_since;
        let Attribution { team, job } = match uncharged_since {
            Some(_) => Attribution::default(),
            None => run.entry.attribution.last().clone(),
        };
        let (known_until, month) = (run.known_until(), ledger.span);
        let TimeSpan { from, to: until } = TimeSpan { from: run.began, to: known_until }.within(month);
        let if_kind = |wanted| (kind == wanted).then(|| run.resource.clone());
        let usual = RunEntry::first_possible(run.began, facts_at, &ledger.looks);
        Self {
            instance: if_kind(RunKind::Instance),
            volume: if_kind(RunKind::Volume),
            sagemaker: if_kind(RunKind::SageMaker),
            launched_at: run.began,
            team,
            what,
            lifecycle: terms,
            tariff,
            usd_per_hour: run.rate_at(until),
            from,
            until,
            ended: !run.is_running() && known_until <= month.to,
            usd: run.spent(month).amount,
            owner,
            name,
            job,
            attached_to,
            source,
            at: Some(facts_at).filter(|at| Some(*at) != seen),
            first: Some(first_at).filter(|at| source == FactSource::Within && *at != usual),
            missed: to_steps(&missed),
            charged: charged(run, month),
            uncharged_since,
            priced: priced(run),
            unpriced_since: run.entry.pricing.untracked_since,
            carried: run.entry.carried.as_deref().map(CarriedRow::from_carried),
            seen,
            stopped,
            terminated,
            ended_by,
            reclaimed,
        }
    }

    pub(super) fn into_entry(self, looks: &BTreeSet<Timestamp>) -> Option<(ResourceId, RunEntry)> {
        let (kind, resource) = match (self.instance, self.volume, self.sagemaker) {
            (Some(instance), None, None) => (RunKind::Instance, instance),
            (None, Some(volume), None) => (RunKind::Volume, volume),
            (None, None, Some(resource)) => (RunKind::SageMaker, resource),
            _ => return None,
        };
        let Self { team, owner, name, what, lifecycle: terms, job, attached_to, tariff, .. } = self;
        let facts_at = self.at.or(self.seen)?;
        let usual = match self.source {
            FactSource::Within => RunEntry::first_possible(self.launched_at, facts_at, looks),
            FactSource::After | FactSource::Outside => facts_at,
        };
        let charged =
            self.charged.into_iter().map(|ChargedSpan { until, team, job, .. }| (until, Attribution { team, job }));
        let priced = self
            .priced
            .into_iter()
            .map(|PricedSpan { until, what, lifecycle, tariff }| (until, Pricing { what, terms: lifecycle, tariff }));
        let entry = RunEntry {
            label: RunLabel { kind, owner, name, attached_to },
            attribution: timeline(charged.collect(), Attribution { team, job }, self.uncharged_since),
            pricing: Timeline {
                untracked_since: self.unpriced_since,
                ..timeline(priced.collect(), Pricing { what, terms, tariff }, None)
            },
            carried: self.carried.map(|before| Box::new(before.carried())),
            source: self.source,
            facts_at,
            first_at: self.first.unwrap_or(usual),
            missed: from_steps(self.missed)?,
            seen: self.seen,
            stopped: self.stopped,
            terminated: self.terminated,
            ended_by: self.ended_by,
            reclaimed: self.reclaimed,
        };
        Some((resource, entry))
    }
}

/// Returns the earlier payers, each with its cost.
fn charged(run: &LedgerRun<'_>, month: TimeSpan) -> Vec<ChargedSpan> {
    let Timeline { first, changes, untracked_since } = &run.entry.attribution;
    let values = std::iter::once(first).chain(changes.iter().map(|(_, value)| value));
    let untils = changes.iter().map(|(at, _)| *at).chain(*untracked_since);
    let mut from = Timestamp::MIN;
    let charged = values.zip(untils).map(|(Attribution { team, job }, until)| {
        let span = TimeSpan { from: std::mem::replace(&mut from, until), to: until }.within(month);
        ChargedSpan { until, team: team.clone(), job: job.clone(), usd: run.spent(span).amount }
    });
    charged.collect()
}

/// Returns the earlier pricings.
fn priced(run: &LedgerRun<'_>) -> Vec<PricedSpan> {
    let Timeline { first, changes, .. } = &run.entry.pricing;
    let values = std::iter::once(first).chain(changes.iter().map(|(_, value)| value));
    let to_span = |(Pricing { what, terms, tariff }, (until, _)): (&Pricing, &(Timestamp, Pricing))| PricedSpan {
        until: *until,
        what: what.clone(),
        lifecycle: *terms,
        tariff: tariff.clone(),
    };
    values.zip(changes).map(to_span).collect()
}

/// Builds a timeline from each earlier value with its end, and the last value, which counts only if it is tracked.
fn timeline<T, const MAX: usize>(
    before: Vec<(Timestamp, T)>,
    last: T,
    untracked_since: Option<Timestamp>,
) -> Timeline<T, MAX> {
    let (untils, mut values): (Vec<Timestamp>, Vec<T>) = before.into_iter().unzip();
    if untracked_since.is_none() || values.is_empty() {
        values.push(last);
    }
    let first = values.remove(0);
    Timeline { first, changes: untils.into_iter().zip(values).collect(), untracked_since }
}

impl CarriedRow {
    fn from_carried(carried: &CarriedRun) -> Self {
        let CarriedRun { at, attribution: Attribution { team, job }, pricing } = carried.clone();
        let Pricing { what, terms, tariff } = pricing;
        Self { at, team, job, what, lifecycle: terms, tariff }
    }

    fn carried(self) -> CarriedRun {
        let Self { at, team, job, what, lifecycle: terms, tariff } = self;
        CarriedRun { at, attribution: Attribution { team, job }, pricing: Pricing { what, terms, tariff } }
    }
}
