//! The ledger as it is written down: each run with all that is known of it, so that who reads it joins nothing. What of it is worked
//! out is written for readers alone, and not read back.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::run::{Entry, Source};
use super::{Facts, Kind, Ledger, Run, Span, Tariff, Terms, is_sane};
use crate::id::{Region, ResourceId, TeamName};
use crate::money::{Amount, Rate};

/// The document.
#[derive(Serialize, Deserialize, Default)]
#[serde(default)]
struct Written {
    month: Option<String>,
    region: Option<Region>,
    from: Option<Timestamp>,
    to: Option<Timestamp>,
    /// The first whole beat, in seconds since 1970, and the seconds from each to the next.
    beats: Vec<i64>,
    /// Micro-USD per hour, by the moment from which they are in force.
    rates: BTreeMap<Tariff, BTreeMap<Timestamp, u64>>,
    runs: Vec<Row>,
}

/// A run, by its instance or by its volume.
#[derive(Serialize, Deserialize)]
struct Row {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    instance: Option<ResourceId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    volume: Option<ResourceId>,
    /// Of a volume its attachment.
    launched_at: Timestamp,
    team: Option<TeamName>,
    #[serde(rename = "type")]
    what: String,
    lifecycle: Terms,
    tariff: Tariff,
    /// The present rate, or the last one; null where nobody knows.
    #[serde(skip_deserializing)]
    usd_per_hour: Option<Rate>,
    /// Where in the month it begins.
    #[serde(skip_deserializing)]
    from: Timestamp,
    /// Until when in the month it is known to be billed.
    #[serde(skip_deserializing)]
    until: Timestamp,
    /// Whether that is its end.
    #[serde(skip_deserializing)]
    ended: bool,
    /// What it is known to have cost in the month.
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
    #[serde(default, skip_serializing_if = "is_usual")]
    told: Source,
    /// When it was told; left out where it is `seen`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    at: Option<Timestamp>,
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

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_usual(source: &Source) -> bool {
    *source == Source::default()
}

impl Serialize for Ledger {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let rates = self.rates.iter().map(|(tariff, rates)| {
            let rates = rates.iter().map(|(from, rate)| (*from, rate.usd_micros_per_hour()));
            (tariff.clone(), rates.collect())
        });
        let mut last = 0;
        let beats = self.beats.iter().map(|at| at.as_second() - std::mem::replace(&mut last, at.as_second()));
        let written = Written {
            month: self.month.clone(),
            region: self.region.clone(),
            from: Some(self.span.from),
            to: Some(self.span.to),
            beats: beats.collect(),
            rates: rates.collect(),
            runs: self.all_runs().map(|run| Row::of(&run, self.span)).collect(),
        };
        written.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Ledger {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = Written::deserialize(deserializer)?;
        read(written).ok_or_else(|| D::Error::custom("a ledger with a run of nothing, or a moment that there is not"))
    }
}

/// `None` where a run is neither of an instance nor of a volume, or of both, or a moment is missing, or one at which nothing can
/// have run.
fn read(written: Written) -> Option<Ledger> {
    let mut ledger = Ledger { month: written.month, region: written.region, ..Ledger::default() };
    let all = Span::default();
    ledger.span = Span { from: written.from.unwrap_or(all.from), to: written.to.unwrap_or(all.to) };
    let mut at: i64 = 0;
    for step in written.beats {
        at = at.checked_add(step)?;
        ledger.beats.insert(Timestamp::from_second(at).ok()?);
    }
    for (tariff, rates) in written.rates {
        let rates = rates.into_iter().map(|(from, usd_micros)| (from, Rate::from_usd_micros_per_hour(usd_micros)));
        ledger.rates.insert(tariff, rates.collect());
    }
    for row in written.runs {
        let began = row.launched_at;
        let (id, entry) = row.entry()?;
        ledger.runs.entry(id).or_default().insert(began, entry);
    }
    let all_sane = moments(&ledger).all(is_sane);
    all_sane.then_some(ledger)
}

/// Every moment with which anything is computed; those of the month may be the ends of all time.
fn moments(ledger: &Ledger) -> impl Iterator<Item = Timestamp> {
    let of_runs = ledger.runs.values().flatten().flat_map(|(began, entry)| {
        let Entry { facts_at, seen, stopped, terminated, ended_by, .. } = entry;
        [Some(*began), Some(*facts_at), *seen, *stopped, *terminated, *ended_by].into_iter().flatten()
    });
    let of_rates = ledger.rates.values().flat_map(BTreeMap::keys).copied();
    ledger.beats.iter().copied().chain(of_rates).chain(of_runs)
}

impl Row {
    fn of(run: &Run<'_>, month: Span) -> Self {
        let Entry { facts, source, facts_at, seen, stopped, terminated, ended_by, reclaimed } = run.entry.clone();
        let Facts { kind, team, owner, name, what, terms, job, attached_to, tariff } = facts;
        let known_until = run.known_until();
        let Span { from, to: until } = Span { from: run.began, to: known_until }.within(month);
        let of_kind = |wanted| (kind == wanted).then(|| run.resource.clone());
        Self {
            instance: of_kind(Kind::Instance),
            volume: of_kind(Kind::Volume),
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
            told: source,
            at: Some(facts_at).filter(|at| Some(*at) != seen),
            seen,
            stopped,
            terminated,
            ended_by,
            reclaimed,
        }
    }

    fn entry(self) -> Option<(ResourceId, Entry)> {
        let (kind, resource) = match (self.instance, self.volume) {
            (Some(instance), None) => (Kind::Instance, instance),
            (None, Some(volume)) => (Kind::Volume, volume),
            _ => return None,
        };
        let Self { team, owner, name, what, lifecycle: terms, job, attached_to, tariff, .. } = self;
        let entry = Entry {
            facts: Facts { kind, team, owner, name, what, terms, job, attached_to, tariff },
            source: self.told,
            facts_at: self.at.or(self.seen)?,
            seen: self.seen,
            stopped: self.stopped,
            terminated: self.terminated,
            ended_by: self.ended_by,
            reclaimed: self.reclaimed,
        };
        Some((resource, entry))
    }
}
