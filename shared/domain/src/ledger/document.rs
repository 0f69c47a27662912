//! The ledger as it is written down: what many runs share stands once, and times are seconds since 1970.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::run::{Entry, Source};
use super::{Facts, Kind, Ledger, Span, Tariff, Terms};
use crate::id::{Region, ResourceId, TeamName};
use crate::money::Rate;

/// The document.
#[derive(Serialize, Deserialize, Default)]
#[serde(default)]
struct Written {
    month: Option<String>,
    region: Option<Region>,
    from: Option<i64>,
    to: Option<i64>,
    /// The first whole beat, and the seconds from each to the next.
    beats: Vec<i64>,
    /// Micro-USD per hour, by the second from which they are in force.
    rates: BTreeMap<Tariff, BTreeMap<i64, u64>>,
    /// What runs share, by place.
    kinds: Vec<Shared>,
    runs: Vec<Row>,
}

#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Shared {
    kind: Kind,
    what: String,
    terms: Terms,
    tariff: Tariff,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    team: Option<TeamName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct Row {
    id: ResourceId,
    began: i64,
    /// The place in `kinds`.
    of: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    job: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    on: Option<ResourceId>,
    #[serde(default, skip_serializing_if = "is_usual")]
    told: Source,
    /// When it was told; left out where it is `seen`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    at: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seen: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stopped: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    terminated: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ended_by: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reclaimed: Option<bool>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_usual(source: &Source) -> bool {
    *source == Source::default()
}

impl Serialize for Ledger {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut places = BTreeMap::new();
        let mut kinds = Vec::new();
        let mut runs = Vec::new();
        for (id, lives) in &self.runs {
            for (began, entry) in lives {
                let shared = Shared::of(&entry.facts);
                let of = *places.entry(shared.clone()).or_insert(kinds.len());
                if of == kinds.len() {
                    kinds.push(shared);
                }
                runs.push(Row::of(id, *began, entry, of));
            }
        }
        let rates = self.rates.iter().map(|(tariff, rates)| {
            let rates = rates.iter().map(|(from, rate)| (from.as_second(), rate.usd_micros_per_hour()));
            (tariff.clone(), rates.collect())
        });
        let mut last = 0;
        let beats = self.beats.iter().map(|at| at.as_second() - std::mem::replace(&mut last, at.as_second()));
        let written = Written {
            month: self.month.clone(),
            region: self.region.clone(),
            from: Some(self.span.from.as_second()),
            to: Some(self.span.to.as_second()),
            beats: beats.collect(),
            rates: rates.collect(),
            kinds,
            runs,
        };
        written.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Ledger {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = Written::deserialize(deserializer)?;
        read(written).ok_or_else(|| D::Error::custom("a ledger that names a run's kind or a moment that there is not"))
    }
}

/// `None` where it names what it has not, or no moment.
fn read(written: Written) -> Option<Ledger> {
    let mut ledger = Ledger { month: written.month, region: written.region, ..Ledger::default() };
    let edge = |second: Option<i64>, edge| second.map_or(Some(edge), moment);
    let all = Span::default();
    ledger.span = Span { from: edge(written.from, all.from)?, to: edge(written.to, all.to)? };
    let mut at: i64 = 0;
    for step in written.beats {
        at = at.checked_add(step)?;
        ledger.beats.insert(moment(at)?);
    }
    for (tariff, rates) in written.rates {
        let rates = rates
            .into_iter()
            .map(|(from, usd_micros)| Some((moment(from)?, Rate::from_usd_micros_per_hour(usd_micros))));
        ledger.rates.insert(tariff, rates.collect::<Option<_>>()?);
    }
    for row in written.runs {
        let shared = written.kinds.get(row.of)?;
        let began = moment(row.began)?;
        let id = row.id.clone();
        ledger.runs.entry(id).or_default().insert(began, row.entry(shared)?);
    }
    Some(ledger)
}

fn moment(second: i64) -> Option<Timestamp> {
    Timestamp::from_second(second).ok()
}

impl Shared {
    fn of(facts: &Facts) -> Self {
        let Facts { kind, team, owner, what, terms, tariff, .. } = facts.clone();
        Self { kind, what, terms, tariff, team, owner }
    }
}

impl Row {
    fn of(id: &ResourceId, began: Timestamp, entry: &Entry, of: usize) -> Self {
        let second = |at: Option<Timestamp>| at.map(Timestamp::as_second);
        Self {
            id: id.clone(),
            began: began.as_second(),
            of,
            name: entry.facts.name.clone(),
            job: entry.facts.job.clone(),
            on: entry.facts.attached_to.clone(),
            told: entry.source,
            at: second(Some(entry.facts_at).filter(|at| Some(*at) != entry.seen)),
            seen: second(entry.seen),
            stopped: second(entry.stopped),
            terminated: second(entry.terminated),
            ended_by: second(entry.ended_by),
            reclaimed: entry.reclaimed,
        }
    }

    fn entry(self, shared: &Shared) -> Option<Entry> {
        let moment = |second: Option<i64>| second.map_or(Some(None), |second| moment(second).map(Some));
        let Shared { kind, what, terms, tariff, team, owner } = shared.clone();
        let facts =
            Facts { kind, team, owner, name: self.name, what, terms, job: self.job, attached_to: self.on, tariff };
        let seen = moment(self.seen)?;
        Some(Entry {
            facts,
            source: self.told,
            facts_at: moment(self.at)?.or(seen)?,
            seen,
            stopped: moment(self.stopped)?,
            terminated: moment(self.terminated)?,
            ended_by: moment(self.ended_by)?,
            reclaimed: self.reclaimed,
        })
    }
}
