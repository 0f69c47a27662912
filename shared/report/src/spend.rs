//! Spend of each team on each day, from the ledgers.

use std::collections::BTreeMap;

use billing::ledger::{Ledger, LedgerRun, PurchaseTerms, RunCost, RunKind, TimeSpan};
use billing::price::{self, PriceBook};
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};
use model::fault::shortened;
use model::foreign_text::quoted_unless_word;
use model::id::{Region, ResourceId, TeamName, TypeName};
use model::money::{Amount, Rate};
use serde::Serialize;

use crate::NO_TEAM;

/// Cost of one day, by team.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DaySpend {
    pub day: Date,
    #[serde(rename = "usd_by_team")]
    pub by_team: BTreeMap<String, Amount>,
}

/// The ledgers of a month, added up.
#[derive(Debug, Default)]
pub(crate) struct MonthSpend {
    pub(crate) days: Vec<(DaySpend, TimeSpan)>,
    pub(crate) by_team: BTreeMap<String, RunCost>,
    /// Spend by job, `<team>/<job>`.
    pub(crate) by_job: BTreeMap<String, JobSpend>,
    pub(crate) running: BTreeMap<ResourceId, RunningResource>,
    pub(crate) labels: BTreeMap<ResourceId, ResourceLabel>,
}

/// Latest name and owner of a resource, by its tags.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct ResourceLabel {
    #[serde(skip)]
    region: Option<Region>,
    pub name: Option<String>,
    pub owner: Option<String>,
}

/// Cost of a job's instances.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct JobSpend {
    pub(crate) spent: Amount,
    pub(crate) uncertain: Amount,
    pub(crate) unpriced_seconds: u64,
    /// Additional cost that its Spot instances would have had on demand.
    pub(crate) spot_saved: Amount,
    /// `true` if the on-demand price of a Spot instance's type is unknown: then `spot_saved` is too low.
    pub(crate) has_unpriced: bool,
}

/// An instance, or an attached volume, that is still billed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RunningResource {
    pub(crate) region: Option<Region>,
    pub(crate) what: String,
    pub(crate) name: Option<String>,
    pub(crate) team: Option<TeamName>,
    pub(crate) rate: Option<Rate>,
    /// The part of the rate that a stop saves.
    pub(crate) saves: Option<Rate>,
}

/// Returns the label of a team in a table.
pub(crate) fn team_label(team: Option<&TeamName>) -> String {
    team.map_or_else(|| NO_TEAM.to_owned(), |team| team.as_str().to_owned())
}

/// Returns the name of a team in a sentence.
pub(crate) fn describe_team(team: Option<&TeamName>) -> String {
    team.map_or_else(|| NO_TEAM.to_owned(), |team| quoted_unless_word(&shortened(team.as_str(), 60)))
}

/// Days of the span in that zone, each with its part of the span.
pub(crate) fn day_windows(span: TimeSpan, zone: &TimeZone) -> Vec<(Date, TimeSpan)> {
    let begins =
        |day: Date| zone.to_ambiguous_zoned(day.at(0, 0, 0, 0)).compatible().map(|midnight| midnight.timestamp());
    let first = zone.to_datetime(span.from).date();
    let days = (0..31_i64).map(|place| first.saturating_add(place.days()));
    let windows = days.filter_map(|day| {
        let window = TimeSpan { from: begins(day).ok()?, to: begins(day.saturating_add(1.day())).ok()? }.within(span);
        (window.from < window.to).then_some((day, window))
    });
    windows.collect()
}

impl MonthSpend {
    /// Creates an empty sum for the days of `span` in that zone.
    pub(crate) fn new(span: TimeSpan, zone: &TimeZone) -> Self {
        let days = day_windows(span, zone).into_iter();
        let days = days.map(|(day, window)| (DaySpend { day, by_team: BTreeMap::new() }, window));
        Self { days: days.collect(), ..Self::default() }
    }

    pub(crate) fn add_ledger(&mut self, ledger: &Ledger, prices: &PriceBook, span: TimeSpan) {
        let within = span.within(ledger.span());
        for run in ledger.runs() {
            self.add_label(&run);
            for share in run.shares(within) {
                self.add_share(&run, share.span, share.team, share.job, prices);
                if share.is_last && run.is_running() {
                    let running = RunningResource {
                        region: run.region.cloned(),
                        what: share.what.to_owned(),
                        name: run.name().map(str::to_owned),
                        team: share.team.cloned(),
                        rate: run.rate_now(),
                        saves: match run.terms() {
                            PurchaseTerms::Reserved | PurchaseTerms::Prepaid => Some(Rate::ZERO),
                            _ => run.rate_now(),
                        },
                    };
                    self.running.insert(run.resource.clone(), running);
                }
            }
        }
        for (key, sum) in ledger.folded() {
            let team = team_label(key.team.as_ref());
            self.add_to_day(key.span().from.max(within.from), &team, sum.spent.amount);
            let total = self.by_team.entry(team).or_default();
            *total = *total + sum.spent;
        }
    }

    /// Of two regions with a resource of that id, neither has a label: which of them is meant is unknown.
    fn add_label(&mut self, run: &LedgerRun<'_>) {
        let label = ResourceLabel {
            region: run.region.cloned(),
            name: run.name().map(str::to_owned),
            owner: run.owner().map(str::to_owned),
        };
        let known = self.labels.entry(run.resource.clone()).or_insert_with(|| label.clone());
        *known = if known.region == label.region { label } else { ResourceLabel::default() };
    }

    fn add_share(
        &mut self,
        run: &LedgerRun<'_>,
        span: TimeSpan,
        team: Option<&TeamName>,
        job: Option<&str>,
        prices: &PriceBook,
    ) {
        let team = team_label(team);
        let spent = run.spent(span);
        let total = self.by_team.entry(team.clone()).or_default();
        *total = *total + spent;
        let first = self.days.partition_point(|(_, window)| window.to <= span.from);
        for (day, window) in self.days.iter_mut().skip(first).take_while(|(_, window)| window.from < span.to) {
            let spent_that_day = run.spent(span.within(*window)).amount;
            if spent_that_day != Amount::ZERO {
                let sum = day.by_team.entry(team.clone()).or_default();
                *sum = *sum + spent_that_day;
            }
        }
        if let Some(job) = job {
            let job_spend = self.by_job.entry(job.to_owned()).or_default();
            job_spend.spent = job_spend.spent + spent.amount;
            job_spend.uncertain = job_spend.uncertain + spent.uncertain;
            job_spend.unpriced_seconds = job_spend.unpriced_seconds.saturating_add(spent.unpriced_seconds);
            if run.kind() == RunKind::Instance && run.terms() == PurchaseTerms::Spot {
                job_spend.add_spot(run, span, spent.amount, prices);
            }
        }
    }

    fn add_to_day(&mut self, at: Timestamp, team: &str, amount: Amount) {
        let place = self.days.partition_point(|(_, window)| window.to <= at);
        if let Some((day, _)) = self.days.get_mut(place) {
            let sum = day.by_team.entry(team.to_owned()).or_default();
            *sum = *sum + amount;
        }
    }
}

impl JobSpend {
    fn add_spot(&mut self, run: &LedgerRun<'_>, span: TimeSpan, spent: Amount, prices: &PriceBook) {
        let on_demand = run.region.and_then(|region| prices.on_demand(region, &TypeName::from(run.what())));
        match price::rate(on_demand) {
            Some(rate) => {
                let on_demand = Amount::from_rate(rate, run.running_time(span).least_seconds);
                self.spot_saved = self.spot_saved + on_demand.saturating_sub(spent);
            }
            None => self.has_unpriced = true,
        }
    }
}
