//! What a run cost.

use std::ops::Bound;

use jiff::{SignedDuration, Timestamp};

use super::run::{Entry, Facts, Kind, Terms, earliest};
use super::{BLIND_AFTER, Ledger, Rates, Span};
use crate::id::{Region, ResourceId};
use crate::money::{Amount, Rate};
use crate::price::Source;

/// What each start of an instance costs at least (EC2 user guide, "On-Demand Instances").
const MINIMUM: SignedDuration = SignedDuration::from_secs(60);

/// A Spot instance that EC2 takes back sooner costs nothing (EC2 user guide, "Billing for interrupted Spot Instances").
pub(super) const FREE_WITHIN: SignedDuration = SignedDuration::from_hours(1);

/// A beat so soon after a launch may not see it yet: the EC2 API is eventually consistent.
const SETTLES: SignedDuration = SignedDuration::from_mins(5);

/// So long a look takes at most: what a beat did not see running may have ended while it looked.
const LOOK: SignedDuration = SignedDuration::from_mins(1);

/// One run, with its end and its prices.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Run<'a> {
    /// Its id.
    pub resource: &'a ResourceId,
    /// Where; `None` of a ledger that is of no region.
    pub region: Option<&'a Region>,
    /// Of an instance its launch, of a volume its attachment.
    pub began: Timestamp,
    /// What it is, and whose.
    pub facts: &'a Facts,
    /// The latest moment at which it was seen running; none where it was seen only after its end.
    pub seen_until: Option<Timestamp>,
    /// When it ended.
    pub end: End,
    /// Whether it is charged for.
    pub charge: Charge,
    pub(super) entry: &'a Entry,
    rates: Option<&'a Rates>,
}

/// When a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It has not, as far as anybody saw.
    Running,
    /// At this moment.
    At(Timestamp),
    /// When, nobody saw: from `earliest` on, and by `latest`.
    Between {
        /// It was still running.
        earliest: Timestamp,
        /// It was no longer.
        latest: Timestamp,
    },
}

/// Whether a run is charged for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Charge {
    /// By the second.
    Due,
    /// EC2 took it back within its first hour, or nobody saw that it did not.
    PerhapsFree,
    /// EC2 took it back within its first hour.
    Free,
}

/// What a run cost within a span of time: `amount` at least, and at most `amount` and `uncertain` together, for what has a
/// price.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spent {
    /// What is known.
    pub amount: Amount,
    /// By how much more it may be: an end that nobody saw, or no sighting since.
    pub uncertain: Amount,
    /// For so many seconds it ran at a price that nobody knows.
    pub unpriced_seconds: u64,
}

impl std::ops::Add for Spent {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            amount: self.amount + other.amount,
            uncertain: self.uncertain + other.uncertain,
            unpriced_seconds: self.unpriced_seconds.saturating_add(other.unpriced_seconds),
        }
    }
}

impl std::iter::Sum for Spent {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), std::ops::Add::add)
    }
}

impl Ledger {
    /// Every run that may have cost something in the month, by resource and beginning.
    pub fn runs(&self) -> impl Iterator<Item = Run<'_>> {
        self.all_runs().filter(|run| self.concerns(run))
    }

    /// The same, and those that were over before the month.
    pub(super) fn all_runs(&self) -> impl Iterator<Item = Run<'_>> {
        self.runs.iter().flat_map(move |(resource, runs)| {
            let nexts = runs.keys().copied().skip(1).map(Some).chain([None]);
            runs.iter().zip(nexts).map(move |((began, entry), next)| self.run(resource, *began, entry, next))
        })
    }

    /// Whether a run may have cost anything in the month. Of one that began before it, and was seen only after an end that nobody
    /// knows exactly, the ledger of the month before knows whether it had ended by then: see [`Ledger::carry`].
    fn concerns(&self, run: &Run<'_>) -> bool {
        let before = self.span.from;
        let ended_unseen = run.seen_until.is_none() && matches!(run.end, End::Between { .. });
        let over = run.latest().is_some_and(|latest| latest <= before);
        !(over || ended_unseen && run.began < before)
    }

    fn run<'a>(
        &'a self,
        resource: &'a ResourceId,
        began: Timestamp,
        entry: &'a Entry,
        next: Option<Timestamp>,
    ) -> Run<'a> {
        let end = self.end(began, entry, next);
        Run {
            resource,
            region: self.region.as_ref(),
            began,
            facts: &entry.facts,
            seen_until: entry.seen,
            end,
            charge: charge(began, entry, end),
            entry,
            rates: self.rates.get(&entry.facts.tariff),
        }
    }

    fn end(&self, began: Timestamp, entry: &Entry, next: Option<Timestamp>) -> End {
        let seen = entry.seen.unwrap_or(began);
        // The next life of an instance begins after this one; a volume that hangs on several counts once.
        if let Some(next) = next.filter(|next| *next <= seen) {
            return End::At(next);
        }
        if let Some(stopped) = entry.stopped {
            return End::At(next.map_or(stopped, |next| stopped.min(next)));
        }
        let by = earliest(entry.ended_by.map(|at| at + LOOK), next);
        if let Some(terminated) = entry.terminated {
            let by = by.map_or(terminated, |by| by.min(terminated));
            // EC2 keeps one reason: it may have been stopped long before it was terminated, where nobody looked.
            let is_exact = by == terminated && terminated.duration_since(seen) <= BLIND_AFTER;
            return if is_exact { End::At(terminated) } else { between(seen, by) };
        }
        match earliest(by, self.first_look_after(entry.seen, began)) {
            Some(latest) => between(seen, latest),
            None => End::Running,
        }
    }

    /// The first whole beat at which it was not seen running any more.
    fn first_look_after(&self, seen: Option<Timestamp>, began: Timestamp) -> Option<Timestamp> {
        let after = seen.unwrap_or(began + SETTLES);
        self.beats.range((Bound::Excluded(after), Bound::Unbounded)).next().map(|at| *at + LOOK)
    }
}

fn between(earliest: Timestamp, latest: Timestamp) -> End {
    if latest <= earliest { End::At(earliest) } else { End::Between { earliest, latest } }
}

fn charge(began: Timestamp, entry: &Entry, end: End) -> Charge {
    let within_first_hour = |at: Timestamp| at.duration_since(began) < FREE_WITHIN;
    let (earliest, latest) = match end {
        End::Running => return Charge::Due,
        End::At(at) => (at, at),
        End::Between { earliest, latest } => (earliest, latest),
    };
    match entry.reclaimed {
        _ if entry.facts.terms != Terms::Spot || !within_first_hour(earliest) => Charge::Due,
        Some(false) => Charge::Due,
        Some(true) if within_first_hour(latest) => Charge::Free,
        Some(true) | None => Charge::PerhapsFree,
    }
}

impl Run<'_> {
    /// Whether it is still billed, as far as anybody saw.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.end == End::Running
    }

    /// What it costs while it runs on; `None` where it does not, or nobody knows.
    #[must_use]
    pub fn rate_now(&self) -> Option<Rate> {
        if self.is_running() { self.rate_at(self.seen_until?) } else { None }
    }

    /// What it cost within that span, which ends now at the latest: of what has not been seen since, nobody knows whether it ran on.
    #[must_use]
    pub fn spent(&self, window: Span) -> Spent {
        let known = self.known_until();
        let possible = self.latest().unwrap_or_else(|| window.to.max(known));
        let cost_until = |until| self.cost(Span { from: self.began, to: until }.within(window));
        let (least, unpriced_seconds) = cost_until(known);
        let (most, _) = cost_until(possible);
        match self.charge {
            Charge::Free => Spent::default(),
            Charge::PerhapsFree => Spent { amount: Amount::ZERO, uncertain: most, unpriced_seconds },
            Charge::Due => Spent { amount: least, uncertain: most.saturating_sub(least), unpriced_seconds },
        }
    }

    /// Until when it is known to be billed: until its end, or until it was seen last.
    pub(super) fn known_until(&self) -> Timestamp {
        self.billed(match self.end {
            End::Running => self.seen_until.unwrap_or(self.began),
            End::At(at) => at,
            End::Between { earliest, .. } => earliest,
        })
    }

    /// When it ended at the latest; `None` where it runs.
    pub(super) fn latest(&self) -> Option<Timestamp> {
        match self.end {
            End::Running => None,
            End::At(latest) | End::Between { latest, .. } => Some(self.billed(latest)),
        }
    }

    /// Until when it is billed, where it ended then.
    fn billed(&self, ended: Timestamp) -> Timestamp {
        match self.facts.kind {
            Kind::Instance => ended.max(self.began + MINIMUM),
            Kind::Volume => ended,
        }
    }

    /// What those seconds cost, and for how many of them nobody knows.
    fn cost(&self, span: Span) -> (Amount, u64) {
        if span.from >= span.to {
            return (Amount::ZERO, 0);
        }
        let Some(rates) = self.rates else { return (Amount::ZERO, span.seconds()) };
        let changes = rates.range((Bound::Excluded(span.from), Bound::Excluded(span.to)));
        let changes = changes.map(|(from, _)| *from);
        let (mut amount, mut unpriced, mut from) = (Amount::ZERO, 0, span.from);
        for to in changes.chain([span.to]) {
            let part = Span { from, to };
            match self.rate_at(from) {
                Some(rate) => amount = amount + Amount::of(rate, part.seconds()),
                None => unpriced += part.seconds(),
            }
            from = to;
        }
        (amount, unpriced)
    }

    /// The dated table by whose price it is counted at the beginning of that span, or of its own; none where the Price List, or the
    /// history of Spot prices, said what it cost by then.
    #[must_use]
    pub fn table(&self, window: Span) -> Option<Source> {
        self.in_force(window.from.max(self.began)).and_then(|(from, _)| Source::table_holding_from(from))
    }

    pub(super) fn rate_at(&self, at: Timestamp) -> Option<Rate> {
        self.in_force(at).map(|(_, rate)| rate)
    }

    /// A rate, and from when on it holds.
    fn in_force(&self, at: Timestamp) -> Option<(Timestamp, Rate)> {
        let rates = self.rates?;
        let in_force = rates.range(..=at).next_back();
        let learnt_later = || rates.first_key_value().filter(|_| self.facts.terms != Terms::Spot);
        in_force.or_else(learnt_later).map(|(from, rate)| (*from, *rate))
    }
}
