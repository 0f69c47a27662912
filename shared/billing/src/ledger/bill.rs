//! What a run cost.

use std::collections::BTreeMap;
use std::ops::Bound;

use jiff::{SignedDuration, Timestamp};
use model::id::{Region, ResourceId, TeamName};
use model::moment::after;
use model::money::{Amount, Rate};

use super::run::{Attribution, Pricing, PurchaseTerms, RunEntry, RunKind, earliest};
use super::{BLIND_AFTER, Ledger, Tariff, TariffRates, TimeSpan};
use crate::energy::RunningTime;
use crate::price::PriceSource;

/// What each start of an instance costs at least (EC2 user guide, "On-Demand Instances").
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
    /// Where; `None` of a ledger that is of no region.
    pub region: Option<&'a Region>,
    /// Of an instance its launch, of a volume its attachment.
    pub began: Timestamp,
    /// The latest moment at which it was seen running; none if it was seen only after its end.
    pub seen_until: Option<Timestamp>,
    /// When it ended.
    pub end: RunEnd,
    /// Whether it is charged for.
    pub charge: ChargeStatus,
    pub(super) entry: &'a RunEntry,
    rates: &'a BTreeMap<Tariff, TariffRates>,
}

/// The part of a run that one team and one job are charged for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunShare<'a> {
    pub span: TimeSpan,
    /// Whether it is the last one: what the run costs from now on is charged to it as well.
    pub is_last: bool,
    /// The team; `None` if it had none, or changed more often than is followed.
    pub team: Option<&'a TeamName>,
    /// The job, `<team>/<job>`, in its tag.
    pub job: Option<&'a str>,
    /// What it was when the share ended: `g5.xlarge`, `500 GiB gp3`.
    pub what: &'a str,
}

/// When a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunEnd {
    /// It has not, as far as was seen.
    Running,
    /// At this moment.
    At(Timestamp),
    /// Unseen: between `earliest` and `latest`.
    Between {
        /// It was still running.
        earliest: Timestamp,
        /// It was no longer.
        latest: Timestamp,
    },
}

/// Whether a run is charged for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChargeStatus {
    /// By the second.
    Due,
    /// EC2 reclaimed it within its first hour, or may have; or it runs on managed Spot.
    PerhapsFree,
    /// EC2 took it back within its first hour.
    Free,
}

/// What a run cost within a span of time: `amount` at least, and at most `amount` and `uncertain` together, for what has a
/// price.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RunCost {
    /// What is known.
    pub amount: Amount,
    /// By how much more it may be: an unseen end, or no sighting since.
    pub uncertain: Amount,
    /// The seconds at an unknown price.
    pub unpriced_seconds: u64,
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

    /// The same, and those that were over before the month.
    pub(super) fn all_runs(&self) -> impl Iterator<Item = LedgerRun<'_>> {
        let mut runs = self.runs.iter().peekable();
        std::iter::from_fn(move || {
            let ((resource, began), entry) = runs.next()?;
            let next = runs.peek().filter(|((other, _), _)| other == resource).map(|((_, next), _)| *next);
            Some(self.run(resource, *began, entry, next))
        })
    }

    /// Whether a run may have cost anything in the month. If it began before the month, and was only observed after an inexact end, the previous
    /// month's ledger knows whether it had ended by then: see [`Ledger::carry`].
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
    /// What it is a run of.
    #[must_use]
    pub const fn kind(&self) -> RunKind {
        self.entry.label.kind
    }

    /// What it was last: `g5.xlarge`, `500 GiB gp3`.
    #[must_use]
    pub fn what(&self) -> &'a str {
        &self.pricing_last().what
    }

    /// How it was bought last.
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

    /// Of a volume: the instance that it hangs on.
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

    /// Whether it is still billed, as far as was seen.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.end == RunEnd::Running
    }

    /// Whether EC2 interrupted it, for an ended run on Spot; `None` if the reason is unknown.
    #[must_use]
    pub const fn was_reclaimed(&self) -> Option<bool> {
        self.entry.reclaimed
    }

    /// What it costs while it runs; `None` if it does not, or if that is unknown.
    #[must_use]
    pub fn rate_now(&self) -> Option<Rate> {
        self.rate_at(self.seen_until.filter(|_| self.is_running() && self.terms() != PurchaseTerms::ManagedSpot)?)
    }

    /// What it cost within that span, which ends now at the latest: without a later sighting it is unknown whether it ran on.
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

    /// For how long it ran within that span, which ends now at the latest.
    #[must_use]
    pub fn running_time(&self, window: TimeSpan) -> RunningTime {
        let known = self.known_until();
        let possible = self.latest().unwrap_or_else(|| window.to.max(known));
        let seconds = |until| TimeSpan { from: self.began, to: until }.within(window).seconds();
        RunningTime { least_seconds: seconds(known), most_seconds: seconds(possible) }
    }

    /// Until when it is known to be billed: until its end, or until it was seen last.
    pub(super) fn known_until(&self) -> Timestamp {
        self.billed(match self.end {
            RunEnd::Running => self.seen_until.unwrap_or(self.began),
            RunEnd::At(at) => at,
            RunEnd::Between { earliest, .. } => earliest,
        })
    }

    /// When it ended at the latest; `None` if it runs.
    pub(super) fn latest(&self) -> Option<Timestamp> {
        match self.end {
            RunEnd::Running => None,
            RunEnd::At(latest) | RunEnd::Between { latest, .. } => Some(self.billed(latest)),
        }
    }

    /// Until when it is billed, where it ended then.
    fn billed(&self, ended: Timestamp) -> Timestamp {
        match self.kind() {
            RunKind::Instance => ended.max(after(self.began, MINIMUM)),
            RunKind::Volume | RunKind::SageMaker => ended,
        }
    }

    /// What those seconds cost, and for how many of them the price is unknown.
    fn cost(&self, span: TimeSpan) -> (Amount, u64) {
        let mut sum = (Amount::ZERO, 0_u64);
        let all: Vec<(Timestamp, &Pricing)> = self.entry.pricings().collect();
        let ends = all.iter().skip(1).map(|(from, _)| *from).chain([Timestamp::MAX]);
        for ((from, pricing), to) in all.iter().zip(ends) {
            let (amount, unpriced) = self.cost_at(pricing, TimeSpan { from: *from, to }.within(span));
            sum = (sum.0 + amount, sum.1.saturating_add(unpriced));
        }
        sum
    }

    /// The same, where one pricing holds throughout.
    fn cost_at(&self, pricing: &Pricing, span: TimeSpan) -> (Amount, u64) {
        if span.from >= span.to {
            return (Amount::ZERO, 0);
        }
        let Some(rates) = self.rates.get(&pricing.tariff) else { return (Amount::ZERO, span.seconds()) };
        let changes = rates.range((Bound::Excluded(span.from), Bound::Excluded(span.to)));
        let changes = changes.map(|(from, _)| *from);
        let (mut amount, mut unpriced, mut from) = (Amount::ZERO, 0_u64, span.from);
        for to in changes.chain([span.to]) {
            let part = TimeSpan { from, to };
            match in_force(rates, pricing.terms, from) {
                Some((_, rate)) => amount = amount + Amount::from_rate(rate, part.seconds()),
                None => unpriced = unpriced.saturating_add(part.seconds()),
            }
            from = to;
        }
        (amount, unpriced)
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
