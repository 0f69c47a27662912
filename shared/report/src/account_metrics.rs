//! Metrics of the account for `CloudWatch`: what it costs now, what of that is wasted or saved, and how old this knowledge is.
//!
//! A figure that a run does not know is not published: a missing value is no zero. A sum that lacks some parts is published with their number
//! beside it, in the metric of [`Metric::lacking`]; a sum of which nothing is known is not published.
//!
//! AWS bills each series ([`SERIES_MAX`]), so only so many teams and regions have their own.

mod emf;
mod names;

use std::collections::{BTreeMap, BTreeSet};

use billing::budget::{Budget, BudgetHolder, LastUsage, MachineFacts, SavingAction, Spend};
use billing::ledger::TimeSpan;
use billing::savings::{COUNTED_MAX, SavingLimit, StartIndex, savings};
use jiff::{SignedDuration, Timestamp};
use model::config::Config;
use model::id::{Region, ResourceId, TeamName};
use model::instance::{Instance, InstanceState};
use model::known_sum::KnownSum;
use model::moment::before;
use model::money::Rate;
use model::ownership::team_of;
use plan::report::RunRecord;

use crate::spend::{MonthSpend, RunningResource};
use crate::waste::find_waste;
use crate::{DayActions, MonthFacts, SeenInstances};
use names::NamedSeries;
pub use names::OTHERS;

/// The most teams with series of their own: those that spent the most this month.
const TEAMS_MAX: usize = 10;

/// The most regions with series of their own.
const REGIONS_MAX: usize = 5;

/// The most series at one time: all metrics of the account, of each named team and of the others, of what has no team, which has neither budgets
/// nor jobs, and of each named region and of the others.
pub const SERIES_MAX: usize = 12 + 10 * (TEAMS_MAX + 1) + 8 + 7 * (REGIONS_MAX + 1);

/// Age from which a record of reap-instances is too old to say what is wasted now: it runs every five minutes.
const RECORD_AGE_MAX: SignedDuration = SignedDuration::from_hours(1);

/// One metric. Its unit is that of `CloudWatch`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Metric {
    /// List price of everything that runs, in USD per hour.
    SpendUsdPerHour,
    /// Running resources whose price is unknown, or that this run did not see.
    SpendUnpricedResources,
    /// Price of the instances that reap-instances found idle or against a rule, and that still run, in USD per hour.
    WasteUsdPerHour,
    /// Number of such instances whose price is unknown, and of running ones that were not judged.
    WasteUnpricedResources,
    /// Accelerators of running instances that were idle when they were asked last.
    IdleGpus,
    /// Accelerators whose use is unknown.
    GpusOfUnknownUse,
    /// Rate of what Curfew stopped, terminated or deleted, as long as it counts as saved (`billing::savings`), in USD per hour.
    SavedUsdPerHour,
    /// Number of such resources whose price is unknown.
    SavedUnpricedResources,
    /// Jobs that may not be launched.
    HeldJobs,
    /// Forecast of the month in percent of the budget. Of several budgets the highest.
    BudgetForecastPercent,
    /// Budgets without a forecast.
    BudgetsWithoutForecast,
    /// Age of the last whole look: of a region that of the ledger, of several the oldest, of the account also that of the last judgement.
    SecondsSinceLastLook,
}

impl Metric {
    /// The name in `CloudWatch`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SpendUsdPerHour => "SpendUsdPerHour",
            Self::SpendUnpricedResources => "SpendUnpricedResources",
            Self::WasteUsdPerHour => "WasteUsdPerHour",
            Self::WasteUnpricedResources => "WasteUnpricedResources",
            Self::IdleGpus => "IdleGpus",
            Self::GpusOfUnknownUse => "GpusOfUnknownUse",
            Self::SavedUsdPerHour => "SavedUsdPerHour",
            Self::SavedUnpricedResources => "SavedUnpricedResources",
            Self::HeldJobs => "HeldJobs",
            Self::BudgetForecastPercent => "BudgetForecastPercent",
            Self::BudgetsWithoutForecast => "BudgetsWithoutForecast",
            Self::SecondsSinceLastLook => "SecondsSinceLastLook",
        }
    }

    /// The unit (`CloudWatch` API reference, "`MetricDatum`"): there is none for money.
    const fn unit(self) -> &'static str {
        match self {
            Self::SpendUsdPerHour | Self::WasteUsdPerHour | Self::SavedUsdPerHour => "None",
            Self::BudgetForecastPercent => "Percent",
            Self::SecondsSinceLastLook => "Seconds",
            _ => "Count",
        }
    }

    /// The metric with the number of parts that this one lacks; `None` for one that is published only if it lacks none.
    #[must_use]
    pub const fn lacking(self) -> Option<Self> {
        match self {
            Self::SpendUsdPerHour => Some(Self::SpendUnpricedResources),
            Self::WasteUsdPerHour => Some(Self::WasteUnpricedResources),
            Self::IdleGpus => Some(Self::GpusOfUnknownUse),
            Self::SavedUsdPerHour => Some(Self::SavedUnpricedResources),
            Self::BudgetForecastPercent => Some(Self::BudgetsWithoutForecast),
            _ => None,
        }
    }
}

/// The only dimension of a series.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dimension {
    /// The account, by its number.
    Account(String),
    Team(String),
    Region(String),
}

impl Dimension {
    const fn name(&self) -> &'static str {
        match self {
            Self::Account(_) => "Account",
            Self::Team(_) => "Team",
            Self::Region(_) => "Region",
        }
    }

    const fn value(&self) -> &String {
        let (Self::Account(value) | Self::Team(value) | Self::Region(value)) = self;
        value
    }
}

/// The values that one run publishes.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AccountMetrics {
    values: BTreeMap<Dimension, BTreeMap<Metric, f64>>,
}

/// A sum that can be published.
trait PublishedSum: Copy + Default {
    /// The value; `None` if nothing is known.
    fn value(self) -> Option<f64>;
    fn lacks(self) -> u64;
}

impl PublishedSum for KnownSum<Rate> {
    fn value(self) -> Option<f64> {
        self.known().map(Rate::usd_per_hour)
    }

    fn lacks(self) -> u64 {
        self.unpriced()
    }
}

impl PublishedSum for KnownSum<u64> {
    #[expect(clippy::cast_precision_loss, reason = "a count of accelerators or jobs")]
    fn value(self) -> Option<f64> {
        self.known().map(|count| count as f64)
    }

    fn lacks(self) -> u64 {
        self.unpriced()
    }
}

/// Sums of one metric: of the account, and by team and region.
struct Sums<'a, T> {
    names: &'a SeriesNames,
    account: KnownSum<T>,
    teams: BTreeMap<String, KnownSum<T>>,
    regions: BTreeMap<String, KnownSum<T>>,
}

/// The series that exist beside that of the account.
struct SeriesNames {
    teams: NamedSeries,
    regions: NamedSeries,
    /// The regions that this run saw.
    seen: BTreeSet<Region>,
}

impl<'a, T: Copy + Default + PartialEq + std::ops::Add<Output = T>> Sums<'a, T> {
    /// Sums of nothing: zero for each named team and each named region, unless that was not seen.
    fn new(names: &'a SeriesNames) -> Self {
        let zero = |value: &String| (value.clone(), KnownSum::default());
        let seen: BTreeSet<String> =
            names.seen.iter().map(|region| names.regions.value(Some(region.as_str()))).collect();
        Self {
            names,
            account: KnownSum::default(),
            teams: names.teams.values().map(zero).collect(),
            regions: names.regions.values().filter(|value| seen.contains(*value)).map(zero).collect(),
        }
    }

    /// Adds to the account and to a team, and to a region if one is known.
    fn add(&mut self, team: Option<&TeamName>, region: Option<&Region>, part: KnownSum<T>) {
        self.account = self.account + part;
        let team = self.names.teams.value(team.map(TeamName::as_str));
        let team_sum = self.teams.entry(team).or_default();
        *team_sum = *team_sum + part;
        if let Some(region) = region {
            let region_sum = self.regions.entry(self.names.regions.value(Some(region.as_str()))).or_default();
            *region_sum = *region_sum + part;
        }
    }
}

/// Facts of a beat of enforce-budgets.
#[derive(Debug)]
pub struct BeatFacts<'a> {
    /// The number of the account.
    pub account: &'a str,
    pub now: Timestamp,
    pub config: &'a Config,
    /// Spends of the month, with what runs; `None` if a ledger could not be read.
    pub spends: Option<&'a [Spend]>,
    /// The regions of the run whose ledger was read, each with its last whole look.
    pub looks: BTreeMap<Region, Option<Timestamp>>,
    /// The instances that the beat saw.
    pub instances: &'a [Instance],
    /// Use of the running ones.
    pub machines: &'a BTreeMap<ResourceId, MachineFacts>,
    /// The newest record of reap-instances; `None` if unknown.
    pub judged: Option<&'a RunRecord>,
    pub budgets: &'a BTreeMap<BudgetHolder, Budget>,
}

impl BeatFacts<'_> {
    /// Looks are kept in whole seconds.
    fn second(&self) -> Timestamp {
        Timestamp::from_second(self.now.as_second()).unwrap_or(self.now)
    }

    fn seen(&self) -> BTreeSet<Region> {
        let is_seen = |look: &Option<Timestamp>| look.is_some_and(|look| look >= self.second());
        self.looks.iter().filter(|(_, look)| is_seen(look)).map(|(region, _)| region.clone()).collect()
    }

    /// The record, unless it is too old.
    fn judged(&self) -> Option<&RunRecord> {
        self.judged.filter(|record| self.now.duration_since(record.at) <= RECORD_AGE_MAX)
    }
}

impl AccountMetrics {
    /// The metrics of a beat of enforce-budgets.
    #[must_use]
    pub fn from_beat(facts: &BeatFacts<'_>) -> Self {
        let spends = facts.spends.unwrap_or_default();
        let by_team = spends.iter().filter_map(|one| Some((one.team.as_ref()?.as_str(), one.spent.usd_micros())));
        let by_region = spends.iter().map(|one| (one.region.as_str(), one.spent.usd_micros()));
        let names = SeriesNames {
            teams: NamedSeries::top(by_team, TEAMS_MAX),
            regions: NamedSeries::top(by_region, REGIONS_MAX),
            seen: facts.seen(),
        };
        let mut metrics = Self::default();
        metrics.add_looks(facts, &names);
        metrics.add_forecasts(facts, &names);
        let running: Vec<&Spend> = spends.iter().filter(|one| one.is_running && one.folded.is_none()).collect();
        if facts.spends.is_some() {
            let mut spend = Sums::new(&names);
            for one in &running {
                let rate = one.rate.filter(|_| names.seen.contains(&one.region));
                spend.add(one.team.as_ref(), Some(&one.region), KnownSum::from_parts([rate]));
            }
            metrics.add_sums(facts.account, Metric::SpendUsdPerHour, spend);
            metrics.add_sums(facts.account, Metric::IdleGpus, idle_gpus(facts, &names, &running));
            if let Some(record) = facts.judged() {
                metrics.add_sums(facts.account, Metric::WasteUsdPerHour, waste(record, &names, &running));
            }
        }
        metrics
    }

    /// The number of held jobs by team; `unknown` jobs have a state that this run does not know.
    #[must_use]
    pub fn from_jobs<'a>(account: &str, jobs: impl Iterator<Item = (&'a TeamName, Option<bool>)>) -> Self {
        let jobs: Vec<(&TeamName, Option<bool>)> = jobs.collect();
        let teams = NamedSeries::top(
            jobs.iter().map(|(team, is_held)| (team.as_str(), if *is_held == Some(true) { 1_000_000 } else { 1 })),
            TEAMS_MAX,
        );
        let names = SeriesNames { teams, regions: NamedSeries::default(), seen: BTreeSet::new() };
        let mut held = Sums::new(&names);
        for (team, is_held) in jobs {
            held.add(Some(team), None, KnownSum::from_parts([is_held.map(u64::from)]));
        }
        let mut metrics = Self::default();
        metrics.add_sums(account, Metric::HeldJobs, held);
        metrics
    }

    /// The savings that count now, by the report of a month that is not over. Nothing if something could not be read: a start that is not known
    /// would make them too high.
    #[must_use]
    pub fn from_month(account: &str, facts: &MonthFacts) -> Self {
        let mut metrics = Self::default();
        let has_gap = facts.unread_ledgers > 0 || facts.unread_previous_ledgers > 0 || !facts.gaps.is_empty();
        if has_gap || facts.now >= facts.month.span().to {
            return metrics;
        }
        let starts = StartIndex::from_ledgers(facts.ledgers.iter().chain(&facts.previous_ledgers));
        let span = TimeSpan { from: before(facts.now, COUNTED_MAX), to: facts.now };
        let saved = savings(facts.days.iter().flat_map(DayActions::ended), &starts, span);
        let counting: Vec<(Option<TeamName>, Option<Rate>)> = saved
            .lines
            .into_iter()
            .filter(|line| line.limit == SavingLimit::StillCounting)
            .map(|line| (line.ended.team, line.ended.rate.map(|rate| rate.less(line.ended.remaining_rate))))
            .collect();
        let weights = counting.iter().filter_map(|(team, rate)| {
            Some((team.as_ref()?.as_str(), rate.unwrap_or_default().usd_micros_per_hour().saturating_add(1)))
        });
        let names = SeriesNames {
            teams: NamedSeries::top(weights, TEAMS_MAX),
            regions: NamedSeries::default(),
            seen: BTreeSet::new(),
        };
        let mut sums = Sums::new(&names);
        for (team, rate) in &counting {
            sums.add(team.as_ref(), None, KnownSum::from_parts([*rate]));
        }
        metrics.add_sums(account, Metric::SavedUsdPerHour, sums);
        metrics
    }

    /// The number of values, each of a series of its own.
    #[must_use]
    pub fn series(&self) -> u64 {
        self.values.values().map(|values| u64::try_from(values.len()).unwrap_or(u64::MAX)).fold(0, u64::saturating_add)
    }

    fn set(&mut self, dimension: Dimension, metric: Metric, value: f64) {
        if value.is_finite() {
            self.values.entry(dimension).or_default().insert(metric, value);
        }
    }

    /// Adds a sum if anything of it is known, and the number of parts that it lacks: of the account always, of others if it lacks any.
    fn add_sum(&mut self, dimension: Dimension, metric: Metric, sum: impl PublishedSum) {
        let (is_account, lacks) = (matches!(dimension, Dimension::Account(_)), sum.lacks());
        let lacking = metric.lacking();
        if let Some(lacking) = lacking.filter(|_| lacks > 0 || is_account) {
            #[expect(clippy::cast_precision_loss, reason = "a count of resources")]
            self.set(dimension.clone(), lacking, lacks as f64);
        }
        if let Some(value) = sum.value().filter(|_| lacks == 0 || lacking.is_some()) {
            self.set(dimension, metric, value);
        }
    }

    fn add_sums<T>(&mut self, account: &str, metric: Metric, sums: Sums<'_, T>)
    where
        KnownSum<T>: PublishedSum,
    {
        self.add_sum(Dimension::Account(account.to_owned()), metric, sums.account);
        for (team, sum) in sums.teams {
            self.add_sum(Dimension::Team(team), metric, sum);
        }
        for (region, sum) in sums.regions {
            self.add_sum(Dimension::Region(region), metric, sum);
        }
    }

    /// The age of the looks. A region without one is not among them; of the account the record counts too, and without it the age is unknown.
    fn add_looks(&mut self, facts: &BeatFacts<'_>, names: &SeriesNames) {
        let seconds = |at: Timestamp| facts.now.duration_since(at).as_secs().max(0);
        let mut oldest: BTreeMap<String, i64> = BTreeMap::new();
        for (region, look) in &facts.looks {
            let Some(age) = look.map(seconds) else { continue };
            let known = oldest.entry(names.regions.value(Some(region.as_str()))).or_default();
            *known = age.max(*known);
        }
        let judged = facts.judged.map(|record| seconds(record.at));
        #[expect(clippy::cast_precision_loss, reason = "seconds of a month")]
        let as_value = |age: i64| age as f64;
        if let (Some(looked), Some(judged)) = (oldest.values().max(), judged) {
            let account = Dimension::Account(facts.account.to_owned());
            self.set(account, Metric::SecondsSinceLastLook, as_value(judged.max(*looked)));
        }
        for (region, age) in oldest {
            self.set(Dimension::Region(region), Metric::SecondsSinceLastLook, as_value(age));
        }
    }

    /// The forecasts of the budgets that this beat renewed.
    fn add_forecasts(&mut self, facts: &BeatFacts<'_>, names: &SeriesNames) {
        let (mut highest, mut teams, mut unknown) = (None, BTreeMap::new(), 0_u64);
        for (holder, budget) in facts.budgets {
            let Some(limit) = budget.budget_usd else { continue };
            let is_current = budget.as_of.is_some_and(|as_of| as_of >= facts.second());
            let forecast = budget.forecast_usd.filter(|_| is_current);
            let Some(percent) = forecast.and_then(|forecast| (forecast + budget.counted_others()).percent_of(limit))
            else {
                unknown = unknown.saturating_add(1);
                continue;
            };
            highest = highest.max(Some(percent));
            if let Some(team) = holder.team() {
                let known: &mut u64 = teams.entry(names.teams.value(Some(team.as_str()))).or_default();
                *known = percent.max(*known);
            }
        }
        if highest.is_none() && unknown == 0 {
            return;
        }
        #[expect(clippy::cast_precision_loss, reason = "a percentage, and a count of budgets")]
        let as_value = |number: u64| number as f64;
        let account = Dimension::Account(facts.account.to_owned());
        self.set(account.clone(), Metric::BudgetsWithoutForecast, as_value(unknown));
        if let Some(percent) = highest {
            self.set(account, Metric::BudgetForecastPercent, as_value(percent));
        }
        for (team, percent) in teams {
            self.set(Dimension::Team(team), Metric::BudgetForecastPercent, as_value(percent));
        }
    }
}

/// Idle accelerators. The use of one whose instance was not seen is unknown, and counts as one.
fn idle_gpus<'a>(facts: &BeatFacts<'_>, names: &'a SeriesNames, running: &[&Spend]) -> Sums<'a, u64> {
    let mut idle = Sums::new(names);
    let is_seen = |region: &Region| names.seen.contains(region);
    let runs = |one: &&Instance| one.state == InstanceState::Running && is_seen(&one.region);
    for instance in facts.instances.iter().filter(runs) {
        let gpus = u64::from(instance.machine.accelerators);
        let part = match facts.machines.get(&instance.id).map(|machine| machine.usage) {
            Some(LastUsage::Idle(_)) => KnownSum::new(gpus, 0),
            Some(LastUsage::Busy(_)) => KnownSum::default(),
            Some(LastUsage::Unknown) | None => KnownSum::new(0, gpus),
        };
        idle.add(team_of(&instance.tags, facts.config).as_ref(), Some(&instance.region), part);
    }
    let is_instance = |one: &&&Spend| one.on.is_none() && one.resource.as_str().starts_with("i-");
    for one in running.iter().filter(is_instance).filter(|one| !is_seen(&one.region)) {
        idle.add(one.team.as_ref(), Some(&one.region), KnownSum::new(0, 1));
    }
    idle
}

/// The waste that the record found and that still runs, by the same function as that of the report.
fn waste<'a>(record: &RunRecord, names: &'a SeriesNames, running: &[&Spend]) -> Sums<'a, Rate> {
    let to_running = |one: &&Spend| {
        let saves = one.rate.filter(|_| one.ends != SavingAction::Nothing).unwrap_or_default();
        let resource = RunningResource {
            region: Some(one.region.clone()),
            what: one.what.clone(),
            name: None,
            team: one.team.clone(),
            rate: one.rate,
            saves: one.rate.map(|_| saves),
        };
        (one.resource.clone(), resource)
    };
    let spend = MonthSpend { running: running.iter().map(to_running).collect(), ..MonthSpend::default() };
    let mut sums = Sums::new(names);
    for row in find_waste(std::slice::from_ref(record), &[], &spend, &SeenInstances::default()) {
        let Some(one) = spend.running.get(&row.resource).filter(|_| row.kind.is_waste()) else { continue };
        let is_seen = one.region.as_ref().is_some_and(|region| names.seen.contains(region));
        sums.add(one.team.as_ref(), one.region.as_ref(), KnownSum::from_parts([row.usd_per_hour.filter(|_| is_seen)]));
    }
    let is_unjudged = |region: &Region| !is_judged(record, region);
    let instances = spend.running.iter().filter(|(id, _)| id.as_str().starts_with("i-")).map(|(_, one)| one);
    for one in instances.filter(|one| one.region.as_ref().is_some_and(is_unjudged)) {
        sums.add(one.team.as_ref(), one.region.as_ref(), KnownSum::unknown());
    }
    sums
}

/// `false` for a region that the run did not look at, or whose instances or log it could not read.
fn is_judged(record: &RunRecord, region: &Region) -> bool {
    let hides = |call: &str| call.starts_with("ec2:Describe") || call == "s3:GetObject";
    record.regions.contains(region) && !record.gaps.iter().any(|gap| gap.region == *region && hides(&gap.call))
}

#[cfg(test)]
mod tests;
