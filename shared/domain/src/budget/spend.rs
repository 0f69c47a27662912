//! What was spent, run by run, as the ledgers have it.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::{Budget, Holder, Unseen, forecast};
use crate::id::{Region, ResourceId, TeamName};
use crate::ledger::{Kind, Ledger, Run, Span, Terms};
use crate::money::{Amount, Rate};
use crate::price::Source;

/// What one run of an instance, or of a volume beside one, cost in one month.
#[derive(Debug, Clone, PartialEq)]
pub struct Spend {
    /// Its id.
    pub resource: ResourceId,
    /// Where it is.
    pub region: Region,
    /// What it is: `g5.xlarge`, `500 GiB gp3`.
    pub what: String,
    /// What would end what it costs.
    pub ends: Ends,
    /// Of a volume: the instance that it is on.
    pub on: Option<ResourceId>,
    /// Its `Name` tag.
    pub name: Option<String>,
    /// Its owner.
    pub owner: Option<String>,
    /// Its team.
    pub team: Option<TeamName>,
    /// The job that it runs, `<team>/<job>`.
    pub job: Option<String>,
    /// What it is known to have cost in the month.
    pub spent: Amount,
    /// By how much more it may be.
    pub uncertain: Amount,
    /// For how long it ran in the month at an unknown price.
    pub unpriced_seconds: u64,
    /// The dated table by whose price it is counted, where the Price List had not said one.
    pub table: Option<Source>,
    /// Whether it is still billed.
    pub is_running: bool,
    /// Until when it was seen.
    pub seen_until: Timestamp,
    /// What it costs now, where it runs and that is known.
    pub rate: Option<Rate>,
    /// What of it was spent in the time that the forecast looks back to.
    pub lately: Amount,
    /// What of it was spent since certain moments: those at which something was reserved for its job.
    pub since: BTreeMap<Timestamp, Amount>,
}

/// What would end what something costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ends {
    /// Stopping it.
    Stopping,
    /// Terminating it: a Spot instance of a one-time request cannot be stopped.
    Terminating,
    /// Nothing: a volume costs the same beside a stopped instance, and what is paid for anyway costs the same without one.
    Nothing,
}

/// What one beat finds in the ledgers.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Spends {
    /// Of the month.
    pub of_month: Vec<Spend>,
    /// Of the month before.
    pub before: Vec<Spend>,
    /// Since when the ledger is kept, as far as these months say.
    pub ledger_began: Option<Timestamp>,
    /// When nobody looked, in the month.
    pub unseen: Vec<Unseen>,
}

/// The moments at which something was reserved, by job.
type Moments<'a> = BTreeMap<&'a str, BTreeSet<Timestamp>>;

impl Spends {
    /// From the ledgers of the month in which `now` lies, and of the month before, of all regions. `documents` are all budget
    /// documents of both months: their reservations are settled by what their jobs spent.
    #[must_use]
    pub fn of<'a>(
        of_month: &[Ledger],
        before: &[Ledger],
        documents: impl IntoIterator<Item = (&'a Holder, &'a Budget)>,
        now: Timestamp,
    ) -> Self {
        let mut moments = Moments::new();
        for (job, reservation) in documents.into_iter().flat_map(|(_, budget)| &budget.reservations) {
            moments.entry(job).or_default().insert(reservation.since);
        }
        let ledger_began = of_month.iter().chain(before).filter_map(Ledger::since).min();
        let counts_from = forecast::counts_from(ledger_began.unwrap_or(now), now);
        let of = |ledgers: &[Ledger]| -> Vec<Spend> {
            let spends = ledgers.iter().flat_map(|ledger| {
                let within = ledger.span().within(Span { from: Timestamp::MIN, to: now });
                let moments = &moments;
                ledger.runs().map(move |run| Spend::of(&run, within, counts_from, moments))
            });
            spends.collect()
        };
        let unseen = Unseen::of(of_month, ledger_began.unwrap_or(now), now);
        Self { of_month: of(of_month), before: of(before), ledger_began, unseen }
    }
}

impl Spend {
    fn of(run: &Run<'_>, within: Span, counts_from: Timestamp, moments: &Moments<'_>) -> Self {
        let facts = run.facts;
        let spent = run.spent(within);
        let from = |from: Timestamp| run.spent(Span { from, to: Timestamp::MAX }.within(within)).amount;
        let reserved_at = facts.job.as_deref().and_then(|job| moments.get(job));
        Self {
            resource: run.resource.clone(),
            region: run.region.cloned().unwrap_or_else(|| "".into()),
            what: facts.what.clone(),
            ends: match (facts.kind, facts.terms) {
                (Kind::Instance, Terms::OnDemand) => Ends::Stopping,
                (Kind::Instance, Terms::Spot) => Ends::Terminating,
                (Kind::Instance, Terms::Reserved | Terms::Prepaid) | (Kind::Volume, _) => Ends::Nothing,
            },
            on: facts.attached_to.clone(),
            name: facts.name.clone(),
            owner: facts.owner.clone(),
            team: facts.team.clone(),
            job: facts.job.clone(),
            spent: spent.amount,
            uncertain: spent.uncertain,
            unpriced_seconds: spent.unpriced_seconds,
            table: run.table(within),
            is_running: run.is_running(),
            seen_until: run.seen_until.unwrap_or(run.began),
            rate: run.rate_now(),
            lately: from(counts_from),
            since: reserved_at.into_iter().flatten().map(|at| (*at, from(*at))).collect(),
        }
    }
}
