//! Spend by run, from the ledgers.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use model::id::{Region, ResourceId, TeamName};
use model::money::{Amount, Rate};

use super::condense::condense;
use super::{Budget, BudgetHolder, forecast};
use crate::ledger::{FoldKey, FoldSum, Ledger, LedgerRun, PurchaseTerms, RunKind, RunShare, TimeSpan};
use crate::price::PriceSource;

/// Cost that one run of an instance, of a volume beside one, or of a `SageMaker` resource caused for one team in one month.
#[derive(Debug, Clone, PartialEq)]
pub struct Spend {
    pub resource: ResourceId,
    pub region: Region,
    /// Type of the resource: `g5.xlarge`, `500 GiB gp3`.
    pub what: String,
    /// Action that would stop the cost.
    pub ends: SavingAction,
    /// Instance of the volume; `None` for everything but volumes.
    pub on: Option<ResourceId>,
    /// Its `Name` tag.
    pub name: Option<String>,
    pub owner: Option<String>,
    pub team: Option<TeamName>,
    /// The job that it runs, `<team>/<job>`.
    pub job: Option<String>,
    /// Known cost in the month.
    pub spent: Amount,
    /// Possible cost beyond `spent`.
    pub uncertain: Amount,
    /// Running time in the month at an unknown price.
    pub unpriced_seconds: u64,
    /// The dated table of its price, if the Price List has none.
    pub table: Option<PriceSource>,
    /// `true` if the resource is still billed.
    pub is_running: bool,
    pub seen_until: Timestamp,
    /// Present rate, if it runs and the rate is known.
    pub rate: Option<Rate>,
    /// Part of the spend in the time that the forecast looks back to.
    pub lately: Amount,
    /// Part of the spend since each time at which money was reserved for the job.
    pub since: BTreeMap<Timestamp, Amount>,
    /// Number of runs in a sum of many that cost at least a cent each; `None` for a single run.
    pub folded: Option<usize>,
}

/// Action that would stop a cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SavingAction {
    Stopping,
    /// Terminating it: a Spot instance of a one-time request cannot be stopped.
    Terminating,
    /// Stopping or deleting it under `SageMaker`, as its kind needs.
    EndingSageMaker,
    /// No action saves anything: a volume costs the same beside a stopped instance, and prepaid capacity costs the same without an
    /// instance.
    Nothing,
}

/// Spends that one beat reads from the ledgers.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LedgerSpends {
    pub current: Vec<Spend>,
    /// Spends of the previous month.
    pub before: Vec<Spend>,
    /// Start of the ledger, as far as these months tell.
    pub ledger_began: Option<Timestamp>,
    /// The times without a beat in the month, by region.
    pub blind: BTreeMap<TimeSpan, BTreeSet<Region>>,
}

/// The moments at which something was reserved, by job.
#[derive(Debug, Default)]
pub struct ReservationTimes<'a>(BTreeMap<&'a str, BTreeSet<Timestamp>>);

impl<'a> ReservationTimes<'a> {
    /// Collects the times of all reservations in these budget documents.
    pub fn from_documents(documents: impl IntoIterator<Item = &'a Budget>) -> Self {
        let mut moments = Self::default();
        for (job, reservation) in documents.into_iter().flat_map(|budget| &budget.reservations) {
            moments.0.entry(job).or_default().insert(reservation.since);
        }
        moments
    }
}

impl LedgerSpends {
    /// Reads the ledgers of the month of `now` and of the previous month, of all regions. `documents` are all budget documents of both
    /// months: the spend of their jobs settles their reservations.
    #[must_use]
    pub fn from_ledgers<'a>(
        current: &[Ledger],
        before: &[Ledger],
        documents: impl IntoIterator<Item = (&'a BudgetHolder, &'a Budget)>,
        now: Timestamp,
    ) -> Self {
        let moments = ReservationTimes::from_documents(documents.into_iter().map(|(_, budget)| budget));
        let mut spends = Self::default();
        for ledger in current {
            let before = before.iter().find(|before| before.region() == ledger.region());
            spends.add_region(Some(ledger), before, &moments, now);
        }
        let has_month = |before: &&Ledger| current.iter().any(|ledger| ledger.region() == before.region());
        for ledger in before.iter().filter(|before| !has_month(before)) {
            spends.add_region(None, Some(ledger), &moments, now);
        }
        spends
    }

    /// Adds the ledgers of one region for the month of `now` and the previous one. They can be dropped afterwards: of a hundred thousand runs it
    /// keeps the running ones, those with reservations, and the most expensive.
    pub fn add_region(
        &mut self,
        current: Option<&Ledger>,
        before: Option<&Ledger>,
        moments: &ReservationTimes<'_>,
        now: Timestamp,
    ) {
        let began = current.into_iter().chain(before).filter_map(Ledger::since).min();
        self.ledger_began = self.ledger_began.into_iter().chain(began).min();
        let counts_from = forecast::counts_from(began.unwrap_or(now), now);
        let condensed = |ledger: &Ledger| {
            let within = ledger.span().within(TimeSpan { from: Timestamp::MIN, to: now });
            let spends = ledger.runs().flat_map(|run| {
                let shares = run.shares(within).into_iter();
                shares.map(move |share| Spend::from_run(&run, share, counts_from, moments))
            });
            let sums = ledger.folded().map(|(key, sum)| Spend::from_fold(ledger, key, sum, counts_from));
            condense(spends).into_iter().chain(sums).collect::<Vec<Spend>>()
        };
        self.current.extend(current.map(condensed).unwrap_or_default());
        self.before.extend(before.map(condensed).unwrap_or_default());
        if let Some(ledger) = current {
            for span in ledger.blind(now) {
                self.blind.entry(span).or_default().extend(ledger.region().cloned());
            }
        }
    }
}

impl Spend {
    fn from_run(
        run: &LedgerRun<'_>,
        share: RunShare<'_>,
        counts_from: Timestamp,
        moments: &ReservationTimes<'_>,
    ) -> Self {
        let within = share.span;
        let spent = run.spent(within);
        let from = |from: Timestamp| run.spent(TimeSpan { from, to: Timestamp::MAX }.within(within)).amount;
        let reserved_at = share.job.and_then(|job| moments.0.get(job));
        Self {
            resource: run.resource.clone(),
            region: run.region.cloned().unwrap_or_else(|| "".into()),
            what: share.what.to_owned(),
            ends: match (run.kind(), run.terms()) {
                (RunKind::Instance, PurchaseTerms::OnDemand) => SavingAction::Stopping,
                (RunKind::Instance, PurchaseTerms::Spot) => SavingAction::Terminating,
                (RunKind::SageMaker, _) => SavingAction::EndingSageMaker,
                (RunKind::Instance | RunKind::Volume, _) => SavingAction::Nothing,
            },
            on: run.attached_to().cloned(),
            name: run.name().map(str::to_owned),
            owner: run.owner().map(str::to_owned),
            team: share.team.cloned(),
            job: share.job.map(str::to_owned),
            spent: spent.amount,
            uncertain: spent.uncertain,
            unpriced_seconds: spent.unpriced_seconds,
            table: run.table(within),
            is_running: share.is_last && run.is_running(),
            seen_until: run.seen_until.unwrap_or(run.began),
            rate: run.rate_now().filter(|_| share.is_last),
            lately: from(counts_from),
            since: reserved_at.into_iter().flatten().map(|at| (*at, from(*at))).collect(),
            folded: None,
        }
    }

    /// A sum of runs that the ledger does not keep one by one. Of a day that the forecast begins in, the share of that time counts.
    fn from_fold(ledger: &Ledger, key: &FoldKey, sum: &FoldSum, counts_from: Timestamp) -> Self {
        let (day, spent) = (key.span(), sum.spent);
        let counted = TimeSpan { from: counts_from, to: Timestamp::MAX }.within(day);
        Self {
            resource: format!("earlier runs of {}", key.what).as_str().into(),
            region: ledger.region().cloned().unwrap_or_else(|| "".into()),
            what: key.what.clone(),
            ends: SavingAction::Nothing,
            on: None,
            name: None,
            owner: None,
            team: key.team.clone(),
            job: None,
            spent: spent.amount,
            uncertain: spent.uncertain,
            unpriced_seconds: spent.unpriced_seconds,
            table: None,
            is_running: false,
            seen_until: day.to,
            rate: None,
            lately: spent.amount.scaled(counted.seconds(), day.seconds()),
            since: BTreeMap::new(),
            folded: Some(usize::try_from(sum.runs).unwrap_or(usize::MAX)),
        }
    }
}
