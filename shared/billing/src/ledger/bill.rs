//! Cost of a run.

use std::collections::BTreeMap;
use std::ops::Bound;

use jiff::{SignedDuration, Timestamp};
use model::id::{Region, ResourceId, TeamName};
use model::known_sum::KnownSum;
use model::moment::after;
use model::money::{Amount, Rate};

use super::run::{Attribution, Pricing, PurchaseTerms, RunEntry, RunKind, earliest};
use super::{BLIND_AFTER, Ledger, Tariff, TariffRates, TimeSpan};
use crate::energy::RunningTime;
use crate::price::PriceSource;

/// Shortest billed time of each start of an instance (EC2 user guide, "On-Demand Instances").
const MINIMUM: SignedDuration = SignedDuration::from_secs(60);

/// A Spot instance that EC2 takes back sooner costs nothing (EC2 user guide, "Billing for interrupted Spot Instances").
pub(super) const FREE_WITHIN: SignedDuration = SignedDuration::from_hours(1);

/// A beat so soon after a launch may not see it yet: the EC2 API is eventually consistent.
pub(super) const SETTLES: SignedDuration = SignedDuration::from_mins(5);

/// The longest that a beat observes: what it did not see running may have ended meanwhile.
const LOOK: SignedDuration = SignedDuration::from_mins(1);

/// One run, with its end and its prices.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LedgerRun<'a> {
    pub resource: &'a ResourceId,
    /// Region of the run; `None` if the ledger has no region.
    pub region: Option<&'a Region>,
    /// Launch of the instance, or attachment of the volume.
    pub began: Timestamp,
    /// The latest moment at which it was seen running; none if it was seen only after its end.
    pub seen_until: Option<Timestamp>,
    /// End of the run.
    pub end: RunEnd,
    /// Charge for the run.
    pub charge: ChargeStatus,
    pub(super) entry: &'a RunEntry,
    rates: &'a BTreeMap<Tariff, TariffRates>,
}

/// The part of a run that one team and one job are charged for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunShare<'a> {
    pub span: TimeSpan,
    /// `true` for the last share: it also pays for the run from now on.
    pub is_last: bool,
    /// The team; `None` if it had none, or changed more often than is followed.
    pub team: Option<&'a TeamName>,
    /// The job, `<team>/<job>`, in its tag.
    pub job: Option<&'a str>,
    /// Type of the resource at the end of the share: `g5.xlarge`, `500 GiB gp3`.
    pub what: &'a str,
}

/// End of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunEnd {
    /// The run has not ended, as far as was seen.
    Running,
    /// The run ended at this moment.
    At(Timestamp),
    /// Unseen: between `earliest` and `latest`.
    Between {
        /// Last moment at which the run is known to have been running.
        earliest: Timestamp,
        /// First moment at which the run is known to have ended.
        latest: Timestamp,
    },
}

/// Charge for a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChargeStatus {
    /// The run is charged by the second.
    Due,
    /// EC2 reclaimed it within its first hour, or may have; or it runs on managed Spot.
    PerhapsFree,
    /// EC2 took it back within its first hour.
    Free,
}

/// Cost of a run within a span of time: `amount` at least, and `amount` plus `uncertain` at most, for the time with a known price.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RunCost {
    /// Known cost.
    pub amount: Amount,
    /// Possible cost beyond `amount`, because of a stop that no beat saw, or because no beat saw the run since.
    pub uncertain: Amount,
    /// The seconds at an unknown price.
    pub unpriced_seconds: u64,
}

impl RunCost {
    /// The known cost, with the seconds that it lacks.
    #[must_use]
    pub const fn priced_sum(self) -> KnownSum<Amount> {
        KnownSum::new(self.amount, self.unpriced_seconds)
    }
}

impl std::ops::Add for RunCost {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            amount: self.amount + other.amount,
            uncertain: self.uncertain + other.uncertain,
            unpriced_seconds: self.unpriced_seconds.saturating_add(other.unpriced_seconds),
        }
    }
}

impl std::iter::Sum for RunCost {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), std::ops::Add::add)
    }
}

impl Ledger {
    /// Every run that may have cost something in the month, by resource and beginning.
    pub fn runs(&self) -> impl Iterator<Item = LedgerRun<'_>> {
        self.all_runs().filter(|run| self.concerns(run))
    }

    /// Iterates over the runs of [`Ledger::runs`], and those that were over before the month.
    pub(super) fn all_runs(&self) -> impl Iterator<Item = LedgerRun<'_>> {
        let mut runs = self.runs.iter().peekable();
        std::iter::from_fn(move || {
            let ((resource, began), entry) = runs.next()?;
            let next = runs.peek().filter(|((other, _), _)| other == resource).map(|((_, next), _)| *next);
            Some(self.run(resource, *began, entry, next))
        })
    }

    /// Returns `true` if a run may have cost anything in the month. If it began before the month, and was only observed after an inexact
    /// end, the previous month's ledger knows whether it had ended by then: see [`Ledger::carry`].
    pub(super) fn concerns(&self, run: &LedgerRun<'_>) -> bool {
        let before = self.span.from;
        let ended_unseen = run.seen_until.is_none() && matches!(run.end, RunEnd::Between { .. });
        let over = run.latest().is_some_and(|latest| latest <= before);
        !(over || ended_unseen && run.began < before)
    }

    fn run<'a>(
        &'a self,
        resource: &'a ResourceId,
        began: Timestamp,
        entry: &'a RunEntry,
        next: Option<Timestamp>,
    ) -> LedgerRun<'a> {
        let end = self.end(resource, began, entry, next);
        LedgerRun {
            resource,
            region: self.region.as_ref(),
            began,
            seen_until: entry.seen,
            end,
            charge: charge(began, entry, end),
            entry,
            rates: &self.rates,
        }
    }

    fn end(&self, resource: &ResourceId, began: Timestamp, entry: &RunEntry, next: Option<Timestamp>) -> RunEnd {
        let seen = entry.seen.unwrap_or(began);
        // The next life of an instance begins after this one; a volume that hangs on several counts once.
        if let Some(next) = next.filter(|next| *next <= seen) {
            return RunEnd::At(next);
        }
        if let Some(stopped) = entry.stopped {
            return RunEnd::At(next.map_or(stopped, |next| stopped.min(next)));
        }
        let by = earliest(entry.ended_by.map(|at| after(at, LOOK)), next);
        if let Some(terminated) = entry.terminated {
            let by = by.map_or(terminated, |by| by.min(terminated));
            // EC2 keeps one reason: an unseen stop may have come long before the termination.
            let is_exact = by == terminated && terminated.duration_since(seen) <= BLIND_AFTER;
            return if is_exact { RunEnd::At(terminated) } else { between(seen, by) };
        }
        let seen_last = entry.seen.unwrap_or(after(began, SETTLES));
        let look = self.first_look_after(seen_last, entry.label.kind, resource);
        match earliest(by, look.map(|at| after(at, LOOK))) {
            Some(latest) => between(seen, latest),
            None => RunEnd::Running,
        }
    }
}

fn between(earliest: Timestamp, latest: Timestamp) -> RunEnd {
    if latest <= earliest { RunEnd::At(earliest) } else { RunEnd::Between { earliest, latest } }
}

fn charge(began: Timestamp, entry: &RunEntry, end: RunEnd) -> ChargeStatus {
    if entry.pricing.last().terms == PurchaseTerms::ManagedSpot && entry.stopped.is_none() {
        return ChargeStatus::PerhapsFree;
    }
    let within_first_hour = |at: Timestamp| at.duration_since(began) < FREE_WITHIN;
    let (earliest, latest) = match end {
        RunEnd::Running => return ChargeStatus::Due,
        RunEnd::At(at) => (at, at),
        RunEnd::Between { earliest, latest } => (earliest, latest),
    };
    match entry.reclaimed {
        _ if entry.pricing.last().terms != PurchaseTerms::Spot || !within_first_hour(earliest) => ChargeStatus::Due,
        Some(false) => ChargeStatus::Due,
        Some(true) if within_first_hour(latest) => ChargeStatus::Free,
        Some(true) | None => ChargeStatus::PerhapsFree,
    }
}

impl<'a> LedgerRun<'a> {
    /// Returns the kind of resource.
    #[must_use]
    pub const fn kind(&self) -> RunKind {
        self.entry.label.kind
    }

    /// Returns the last known type of the resource: `g5.xlarge`, `500 GiB gp3`.
    #[must_use]
    pub fn what(&self) -> &'a str {
        &self.pricing_last().what
    }

    /// Returns the last known purchase terms.
    #[must_use]
    pub fn terms(&self) -> PurchaseTerms {
        self.pricing_last().terms
    }

    /// Its owner, by its latest tags.
    #[must_use]
    pub fn owner(&self) -> Option<&'a str> {
        self.entry.label.owner.as_deref()
    }

    /// Its latest `Name` tag.
    #[must_use]
    pub fn name(&self) -> Option<&'a str> {
        self.entry.label.name.as_deref()
    }

    /// Returns the instance to which the volume is attached; `None` for everything but volumes.
    #[must_use]
    pub const fn attached_to(&self) -> Option<&'a ResourceId> {
        self.entry.label.attached_to.as_ref()
    }

    /// The payers of it in that span, in order: at least the last share, even if it is empty. The cost of the run in the span is the sum of the
    /// shares.
    #[must_use]
    pub fn shares(&self, window: TimeSpan) -> Vec<RunShare<'a>> {
        let mut all = self.entry.attributions();
        all.dedup_by(|later, earlier| later.1 == earlier.1);
        let ends: Vec<Timestamp> = all.iter().skip(1).map(|(from, _)| *from).chain([Timestamp::MAX]).collect();
        let last = all.len() - 1;
        let shares = all.into_iter().zip(ends).enumerate().map(|(place, ((from, who), to))| {
            let span = TimeSpan { from, to }.within(window);
            self.share(who, span, place == last)
        });
        shares.filter(|share| share.is_last || share.span.from < share.span.to).collect()
    }

    fn share(&self, who: Option<&'a Attribution>, span: TimeSpan, is_last: bool) -> RunShare<'a> {
        let priced = self.entry.pricings().take_while(|(from, _)| *from < span.to).last();
        RunShare {
            span,
            is_last,
            team: who.and_then(|who| who.team.as_ref()),
            job: who.and_then(|who| who.job.as_deref()),
            what: priced.map_or_else(|| self.what(), |(_, pricing)| &pricing.what),
        }
    }

    fn pricing_last(&self) -> &'a Pricing {
        self.entry.pricings().next_back().map_or_else(|| self.entry.pricing.last(), |(_, pricing)| pricing)
    }

    /// Returns `true` if the run is still billed, as far as was seen.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.end == RunEnd::Running
    }

    /// Returns `true` if EC2 interrupted the ended Spot run; `None` if the reason is unknown.
    #[must_use]
    pub const fn was_reclaimed(&self) -> Option<bool> {
        self.entry.reclaimed
    }

    /// Returns the rate of a running resource; `None` if it does not run, or the rate is unknown.
    #[must_use]
    pub fn rate_now(&self) -> Option<Rate> {
        self.rate_at(self.seen_until.filter(|_| self.is_running() && self.terms() != PurchaseTerms::ManagedSpot)?)
    }

    /// Computes the cost within that span, which ends now at the latest: without a later sighting it is unknown whether the run continued.
    #[must_use]
    pub fn spent(&self, window: TimeSpan) -> RunCost {
        let known = self.known_until();
        let possible = self.latest().unwrap_or_else(|| window.to.max(known));
        let cost_until = |until| self.cost(TimeSpan { from: self.began, to: until }.within(window));
        let (least, unpriced_seconds) = cost_until(known);
        let (most, _) = cost_until(possible);
        match self.charge {
            ChargeStatus::Free => RunCost::default(),
            ChargeStatus::PerhapsFree => RunCost { amount: Amount::ZERO, uncertain: most, unpriced_seconds },
            ChargeStatus::Due => RunCost { amount: least, uncertain: most.saturating_sub(least), unpriced_seconds },
        }
    }

    /// Computes the running time within that span, which ends now at the latest.
    #[must_use]
    pub fn running_time(&self, window: TimeSpan) -> RunningTime {
        let known = self.known_until();
        let possible = self.latest().unwrap_or_else(|| window.to.max(known));
        let seconds = |until| TimeSpan { from: self.began, to: until }.within(window).seconds();
        RunningTime { least_seconds: seconds(known), most_seconds: seconds(possible) }
    }

    /// Returns the end of the time that is known to be billed: the run's end, or its last sighting.
    pub(super) fn known_until(&self) -> Timestamp {
        self.billed(match self.end {
            RunEnd::Running => self.seen_until.unwrap_or(self.began),
            RunEnd::At(at) => at,
            RunEnd::Between { earliest, .. } => earliest,
        })
    }

    /// Returns the latest possible end; `None` if it runs.
    pub(super) fn latest(&self) -> Option<Timestamp> {
        match self.end {
            RunEnd::Running => None,
            RunEnd::At(latest) | RunEnd::Between { latest, .. } => Some(self.billed(latest)),
        }
    }

    /// Returns the end of the billed time of a run that ended at that moment.
    fn billed(&self, ended: Timestamp) -> Timestamp {
        match self.kind() {
            RunKind::Instance => ended.max(after(self.began, MINIMUM)),
            RunKind::Volume | RunKind::SageMaker => ended,
        }
    }

    /// Computes the cost of that span, and its seconds at an unknown price.
    fn cost(&self, span: TimeSpan) -> (Amount, u64) {
        let mut sum = (Amount::ZERO, 0_u64);
        let all: Vec<(Timestamp, &Pricing)> = self.entry.pricings().collect();
        let ends = all.iter().skip(1).map(|(from, _)| *from).chain([Timestamp::MAX]);
        for ((from, pricing), to) in all.iter().zip(ends) {
            let (amount, unpriced_seconds) = self.cost_at(pricing, TimeSpan { from: *from, to }.within(span));
            sum = (sum.0 + amount, sum.1.saturating_add(unpriced_seconds));
        }
        sum
    }

    /// Computes the cost of a span with a single pricing.
    fn cost_at(&self, pricing: &Pricing, span: TimeSpan) -> (Amount, u64) {
        if span.from >= span.to {
            return (Amount::ZERO, 0);
        }
        let Some(rates) = self.rates.get(&pricing.tariff) else { return (Amount::ZERO, span.seconds()) };
        let changes = rates.range((Bound::Excluded(span.from), Bound::Excluded(span.to)));
        let changes = changes.map(|(from, _)| *from);
        let (mut amount, mut unpriced_seconds, mut from) = (Amount::ZERO, 0_u64, span.from);
        for to in changes.chain([span.to]) {
            let part = TimeSpan { from, to };
            match in_force(rates, pricing.terms, from) {
                Some((_, rate)) => amount = amount + Amount::from_rate(rate, part.seconds()),
                None => unpriced_seconds = unpriced_seconds.saturating_add(part.seconds()),
            }
            from = to;
        }
        (amount, unpriced_seconds)
    }

    /// The dated table of its price at the beginning of that span, or of its own; none if the Price List, or the history of Spot prices, had a
    /// price by then.
    #[must_use]
    pub fn table(&self, window: TimeSpan) -> Option<PriceSource> {
        self.rate_in_force(window.from.max(self.began)).and_then(|(from, _)| PriceSource::table_holding_from(from))
    }

    pub(super) fn rate_at(&self, at: Timestamp) -> Option<Rate> {
        self.rate_in_force(at).map(|(_, rate)| rate)
    }

    fn rate_in_force(&self, at: Timestamp) -> Option<(Timestamp, Rate)> {
        let pricing = self.entry.pricings().take_while(|(from, _)| *from <= at).last();
        let pricing = pricing.map_or_else(|| self.pricing_last(), |(_, pricing)| pricing);
        in_force(self.rates.get(&pricing.tariff)?, pricing.terms, at)
    }
}

/// A rate, and from when on it holds.
fn in_force(rates: &TariffRates, terms: PurchaseTerms, at: Timestamp) -> Option<(Timestamp, Rate)> {
    let in_force = rates.range(..=at).next_back();
    let learnt_later = || rates.first_key_value().filter(|_| terms != PurchaseTerms::Spot);
    in_force.or_else(learnt_later).map(|(from, rate)| (*from, *rate))
}
