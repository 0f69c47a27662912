//! Computation of every budget, made anew from the ledger in every beat. Only the reservations come from the previous document.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use model::ceiling::Ceiling;
use model::config::{Config, OverBudget};
use model::id::{Region, ResourceId, TeamName};
use model::mode::Mode;
use model::money::{Amount, Rate};
use model::notification_log::NO_TEAM;

use super::{
    Budget, BudgetHolder, BudgetMonth, BudgetReservation, BudgetVerdict, LedgerSpends, MachineFacts, ObservationGap,
    OtherSpenders, STALE_AFTER, SharedBudget, Spend, Spender, UnpricedResource, forecast, remedy,
};
use crate::price::PriceSource;

/// The most documents in one beat: each is a read and a write. Every holder with a budget has one, in any number; of the others those with the most
/// spend.
pub const HOLDERS_MAX: usize = 500;
/// The most spenders that a document names.
pub(super) const TOP: usize = 5;
/// The most entries without a price in a document.
pub(super) const UNPRICED_MAX: usize = 50;
/// Age from which a sighting is older than a beat: beats are a quarter of an hour apart.
const BLIND_AFTER: SignedDuration = SignedDuration::from_mins(20);

/// Limit that the configuration sets for a holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetLimit {
    /// Budget of the month.
    pub budget: Amount,
    /// Action above the budget.
    pub over_budget: OverBudget,
    /// Mode of the action: enforced, or only reported.
    pub mode: Mode,
}

impl BudgetLimit {
    /// `None` without a budget. Resources without a team have none, even if a team has that name.
    #[must_use]
    pub fn from_config(holder: &BudgetHolder, config: &Config, ceiling: &Ceiling) -> Option<Self> {
        let (usd, over_budget, mode) = match holder {
            BudgetHolder::Account => (config.account.monthly_budget_usd?, config.account.over_budget, config.mode),
            BudgetHolder::Team(name) if name.as_str() == NO_TEAM => return None,
            BudgetHolder::Team(name) => {
                let team = config.team(name)?;
                let over_budget = team.over_budget.unwrap_or(OverBudget::Notify);
                (team.monthly_budget_usd?, over_budget, team.mode.unwrap_or(config.mode))
            }
        };
        Some(Self { budget: Amount::from_usd(usd), over_budget, mode: mode.min(ceiling.of(holder.team())) })
    }

    /// Returns `true` if launches wait for the budget.
    #[must_use]
    pub fn holds_launches(&self) -> bool {
        self.mode == Mode::Enforce && self.over_budget != OverBudget::Notify
    }

    /// The actions that a certain spend causes. Reservations and unpriced runs do not count.
    #[must_use]
    pub fn verdict(&self, spent: Amount) -> BudgetVerdict {
        match self.over_budget {
            _ if spent < self.budget || spent == Amount::ZERO => BudgetVerdict::Ok,
            OverBudget::Notify => BudgetVerdict::Notify,
            OverBudget::Hold => BudgetVerdict::Hold,
            OverBudget::Stop => BudgetVerdict::Stop,
        }
    }
}

/// The holders by whose budgets instances may be stopped: what the reaper reads.
#[must_use]
pub fn needed_by_the_reaper(config: &Config) -> BTreeSet<BudgetHolder> {
    let stops = |holder: &BudgetHolder| {
        BudgetLimit::from_config(holder, config, &Ceiling::fixed(Mode::Enforce))
            .is_some_and(|limit| limit.over_budget == OverBudget::Stop)
    };
    config.teams.keys().cloned().map(BudgetHolder::Team).chain([BudgetHolder::Account]).filter(stops).collect()
}

/// The configuration of the budgets, and the ceiling of the deployment, which limits what an exceeded budget causes.
#[derive(Debug, Clone, Copy)]
pub struct BudgetTerms<'a> {
    pub config: &'a Config,
    pub ceiling: &'a Ceiling,
}

impl BudgetTerms<'_> {
    /// Returns the limit of a holder; `None` without a budget.
    #[must_use]
    pub fn limit(self, holder: &BudgetHolder) -> Option<BudgetLimit> {
        BudgetLimit::from_config(holder, self.config, self.ceiling)
    }
}

/// Facts of one beat from which all budget documents are computed.
#[derive(Debug)]
pub struct BudgetBooks<'a> {
    terms: BudgetTerms<'a>,
    period: BudgetMonth,
    now: Timestamp,
    ledger_began: Timestamp,
    observation_gaps: Vec<ObservationGap>,
    current: BTreeMap<BudgetHolder, Vec<&'a Spend>>,
    before: BTreeMap<BudgetHolder, Vec<&'a Spend>>,
    earlier: &'a BTreeMap<BudgetHolder, Budget>,
    machines: Option<&'a BTreeMap<ResourceId, MachineFacts>>,
    shared: Option<&'a BTreeMap<TeamName, SharedBudget>>,
}

impl<'a> BudgetBooks<'a> {
    /// The books of the month of `now`; `earlier` are the documents of the previous month, whose reservations may continue.
    #[must_use]
    pub fn new(
        terms: BudgetTerms<'a>,
        spends: &'a LedgerSpends,
        earlier: &'a BTreeMap<BudgetHolder, Budget>,
        now: Timestamp,
    ) -> Self {
        Self::for_month(terms, spends, earlier, BudgetMonth::containing(now, terms.config), now)
    }

    /// The books of a month that is over, as they stood at its end; `spends` are of that month.
    #[must_use]
    pub fn closing(
        terms: BudgetTerms<'a>,
        spends: &'a LedgerSpends,
        nothing: &'a BTreeMap<BudgetHolder, Budget>,
        period: BudgetMonth,
    ) -> Self {
        let end = period.to;
        Self::for_month(terms, spends, nothing, period, end)
    }

    fn for_month(
        terms: BudgetTerms<'a>,
        spends: &'a LedgerSpends,
        earlier: &'a BTreeMap<BudgetHolder, Budget>,
        period: BudgetMonth,
        now: Timestamp,
    ) -> Self {
        let (current, before) = (by_holder(&spends.current), by_holder(&spends.before));
        let ledger_began = spends.ledger_began.unwrap_or(now);
        let observation_gaps = ObservationGap::from_blind_spans(&spends.blind, ledger_began);
        Self {
            terms,
            period,
            now,
            ledger_began,
            observation_gaps,
            current,
            before,
            earlier,
            machines: None,
            shared: None,
        }
    }

    /// The books with facts about running machines, by which the advice is ordered.
    #[must_use]
    pub fn with_machines(self, machines: &'a BTreeMap<ResourceId, MachineFacts>) -> Self {
        Self { machines: Some(machines), ..self }
    }

    /// The books with the budgets that this account shares with others. Without them a document keeps what it has.
    #[must_use]
    pub fn with_shared(self, shared: &'a BTreeMap<TeamName, SharedBudget>) -> Self {
        Self { shared: Some(shared), ..self }
    }

    /// The holders of documents: the account, and every team that has a section, spend, or a reservation; of those without a budget as many as fit
    /// beside the others, [`HOLDERS_MAX`] in all.
    #[must_use]
    pub fn holders(&self, stored: &BTreeMap<BudgetHolder, Budget>) -> BTreeSet<BudgetHolder> {
        let has_budget = |holder: &BudgetHolder| self.terms.limit(holder).is_some();
        let ranked = self.ranked(stored).into_iter().enumerate();
        ranked.filter(|(place, holder)| *place < HOLDERS_MAX || has_budget(holder)).map(|(_, holder)| holder).collect()
    }

    /// Returns the number of teams without a budget that have no document, because the limit is reached.
    #[must_use]
    pub fn left_out(&self, stored: &BTreeMap<BudgetHolder, Budget>) -> usize {
        self.ranked(stored).len().saturating_sub(self.holders(stored).len())
    }

    /// Returns all holders in order: the account, holders of budgets, holders of reservations, the highest spend.
    fn ranked(&self, stored: &BTreeMap<BudgetHolder, Budget>) -> Vec<BudgetHolder> {
        let configured = self.terms.config.teams.keys().cloned().map(BudgetHolder::Team);
        let reserving = self
            .earlier
            .iter()
            .filter(|(_, budget)| !self.continuing_reservations(budget).is_empty())
            .map(|(who, _)| who);
        let known = stored.keys().chain(self.current.keys()).chain(reserving).cloned();
        let all: BTreeSet<BudgetHolder> = configured.chain(known).chain([BudgetHolder::Account]).collect();
        let mut ranked: Vec<BudgetHolder> = all.into_iter().collect();
        ranked.sort_by_cached_key(|holder| {
            let has_budget = self.terms.limit(holder).is_some();
            let reserves = stored.get(holder).is_some_and(|budget| !budget.reservations.is_empty());
            std::cmp::Reverse((*holder == BudgetHolder::Account, has_budget, reserves, spent(self.spends(holder))))
        });
        ranked
    }

    /// The documents as they are to be written, from those that are `stored`.
    #[must_use]
    pub fn documents(&self, stored: &BTreeMap<BudgetHolder, Budget>) -> BTreeMap<BudgetHolder, Budget> {
        let nothing = Budget::default();
        let document = |holder: BudgetHolder| {
            let budget = self.budget_of(&holder, stored.get(&holder).unwrap_or(&nothing));
            (holder, budget)
        };
        self.holders(stored).into_iter().map(document).collect()
    }

    /// One document as it is to be written over the `stored` one, whose reservations it keeps. What a later beat has
    /// written already stays.
    #[must_use]
    pub fn budget_of(&self, holder: &BudgetHolder, stored: &Budget) -> Budget {
        let is_later = |as_of: Timestamp| as_of > self.now && as_of.duration_since(self.now) <= STALE_AFTER;
        if stored.month == self.period.month && stored.as_of.is_some_and(is_later) {
            return stored.clone();
        }
        let spends = self.spends(holder);
        let limit = self.terms.limit(holder);
        let spent_usd = spent(spends);
        let shared = match self.shared {
            Some(shared) => holder.team().and_then(|team| shared.get(team)).cloned(),
            None => stored.shared.clone(),
        };
        let lately = spends.iter().chain(self.previous_spends(holder)).map(|one| one.lately).sum();
        let (forecast_usd, forecast_method) =
            forecast::forecast(spent_usd, lately, self.ledger_began, &self.period, self.now);
        let (top, others) = spenders(spends);
        let mut budget = Budget {
            team: match holder {
                BudgetHolder::Team(name) => Some(name.clone()),
                BudgetHolder::Account => None,
            },
            month: self.period.month.clone(),
            as_of: Some(self.now),
            budget_usd: limit.map(|limit| limit.budget),
            over_budget: limit.map(|limit| limit.over_budget),
            blind_since: self.blind_since(spends),
            observation_gaps: self.observation_gaps.clone(),
            ledger_since: Some(self.ledger_began).filter(|began| *began > self.period.from),
            spent_usd,
            uncertain_usd: spends.iter().map(|one| one.uncertain).sum(),
            forecast_usd,
            forecast_method,
            usd_per_hour: spends.iter().filter_map(|one| one.rate).sum::<Rate>().usd_per_hour(),
            mode: limit.map(|limit| limit.mode).unwrap_or_default(),
            top,
            others,
            unpriced: unpriced(spends),
            tables: spends.iter().filter_map(|one| one.table).map(PriceSource::describe).collect(),
            teams: if *holder == BudgetHolder::Account { self.teams() } else { BTreeMap::new() },
            billed: stored.billed.clone(),
            cost_explorer_failure: stored.cost_explorer_failure.clone(),
            shared,
            reservations: self.reservations(holder, stored),
            ..Budget::default()
        };
        budget.verdict = limit.map(|limit| limit.verdict(budget.counted_usd())).unwrap_or_default();
        budget.count_reservations();
        budget.remedy = remedy::remedy(&budget, spends, self.machines, &self.period, self.now);
        budget
    }

    /// Returns `true` if the document takes over reservations of the previous month, each less the spend in that month, which needs all of
    /// its ledgers. A reservation is taken over only once.
    #[must_use]
    pub fn takes_over(&self, holder: &BudgetHolder, stored: &Budget) -> bool {
        let going_on = self.earlier.get(holder).map(|budget| self.continuing_reservations(budget)).unwrap_or_default();
        going_on.keys().any(|job| !stored.reservations.contains_key(*job))
    }

    fn spends(&self, holder: &BudgetHolder) -> &[&'a Spend] {
        self.current.get(holder).map(Vec::as_slice).unwrap_or_default()
    }

    fn previous_spends(&self, holder: &BudgetHolder) -> &[&'a Spend] {
        self.before.get(holder).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the last sighting of the running resource that was not seen for the longest time, if that is longer than a beat.
    fn blind_since(&self, spends: &[&Spend]) -> Option<Timestamp> {
        let seen = spends.iter().filter(|one| one.is_running).map(|one| one.seen_until);
        seen.min().filter(|seen| self.now.duration_since(*seen) > BLIND_AFTER)
    }

    /// The reservations of the document, and the continuing ones of the previous month, each with its spent part. Spend before this month no longer
    /// counts. Reservations of ended jobs are dropped.
    fn reservations(&self, holder: &BudgetHolder, stored: &Budget) -> BTreeMap<String, BudgetReservation> {
        let mut kept = stored.reservations.clone();
        for (job, one) in
            self.earlier.get(holder).map(|budget| self.continuing_reservations(budget)).unwrap_or_default()
        {
            let before = settled(self.previous_spends(holder), job, one);
            kept.entry(job.clone()).or_insert_with(|| BudgetReservation {
                usd: one.usd.saturating_sub(before),
                since: one.since.max(self.period.from),
                ..one.clone()
            });
        }
        kept.retain(|_, one| !one.is_over(self.now));
        for (job, one) in &mut kept {
            // What counts since the month began, counts in full: its ledger holds nothing of before.
            one.spent_usd = if one.since <= self.period.from {
                job_spends(self.spends(holder), job, one).map(|spend| spend.spent).sum()
            } else {
                settled(self.spends(holder), job, one)
            };
        }
        kept
    }

    fn continuing_reservations<'b>(&self, earlier: &'b Budget) -> BTreeMap<&'b String, &'b BudgetReservation> {
        let goes_on = |one: &BudgetReservation| !one.is_over(self.period.from) && !one.is_over(self.now);
        earlier.reservations.iter().filter(|(_, one)| goes_on(one)).collect()
    }

    /// Returns the spend of each team, and of resources without a team.
    fn teams(&self) -> BTreeMap<String, Amount> {
        let mut teams: Vec<(String, Amount)> = self
            .current
            .iter()
            .filter_map(|(holder, spends)| match holder {
                BudgetHolder::Team(name) => Some((name.to_string(), spent(spends))),
                BudgetHolder::Account => None,
            })
            .collect();
        teams.sort_by_key(|(_, spent)| std::cmp::Reverse(*spent));
        teams.into_iter().take(HOLDERS_MAX).collect()
    }
}

/// Each under its team, and all of them under the account.
fn by_holder(spends: &[Spend]) -> BTreeMap<BudgetHolder, Vec<&Spend>> {
    let mut found = BTreeMap::from([(BudgetHolder::Account, spends.iter().collect())]);
    for one in spends {
        let team = one.team.clone().unwrap_or_else(|| NO_TEAM.into());
        found.entry(BudgetHolder::Team(team)).or_insert_with(Vec::new).push(one);
    }
    found
}

fn spent(spends: &[&Spend]) -> Amount {
    spends.iter().map(|one| one.spent).sum()
}

/// Returns the spend on a job since its reservation.
fn settled(spends: &[&Spend], job: &str, reserved: &BudgetReservation) -> Amount {
    job_spends(spends, job, reserved).filter_map(|one| one.since.get(&reserved.since)).copied().sum()
}

/// Returns the instances of a job, and the volumes beside them. A tag alone proves nothing, because anyone can copy it.
fn job_spends<'s>(
    spends: &'s [&Spend],
    job: &'s str,
    reserved: &'s BudgetReservation,
) -> impl Iterator<Item = &'s Spend> {
    let is_of_job = |one: &&Spend| {
        one.job.as_deref() == Some(job) && reserved.instances.contains(one.on.as_ref().unwrap_or(&one.resource))
    };
    spends.iter().copied().filter(move |one| is_of_job(one))
}

/// The dearest, all runs of one resource together, and the rest. What would be shown as $0.00 is not named, nor is what is folded.
fn spenders(spends: &[&Spend]) -> (Vec<Spender>, OtherSpenders) {
    let mut found: BTreeMap<(&Region, &ResourceId), Spender> = BTreeMap::new();
    for one in spends.iter().filter(|one| one.folded.is_none()) {
        let spender = found.entry((&one.region, &one.resource)).or_insert_with(|| Spender {
            resource: one.resource.clone(),
            region: one.region.clone(),
            what: one.what.clone(),
            name: one.name.clone(),
            owner: one.owner.clone(),
            usd: Amount::ZERO,
            usd_per_hour: None,
            running: false,
        });
        spender.usd = spender.usd + one.spent;
        if one.is_running {
            // As it is now, where its type or its tags were others before.
            spender.what.clone_from(&one.what);
            spender.name.clone_from(&one.name);
            spender.owner.clone_from(&one.owner);
            spender.running = true;
            spender.usd_per_hour = one.rate.map(Rate::usd_per_hour);
        }
    }
    let mut all: Vec<Spender> = found.into_values().filter(|one| one.usd > Amount::ZERO).collect();
    all.sort_by_key(|one| std::cmp::Reverse(one.usd));
    let named = all.iter().take(TOP).take_while(|one| one.usd.is_a_cent()).count();
    let rest = all.split_off(named);
    let folded = || spends.iter().filter(|one| one.folded.is_some());
    let others = OtherSpenders {
        count: rest.iter().filter(|one| one.usd.is_a_cent()).count()
            + folded().filter_map(|one| one.folded).sum::<usize>(),
        usd: rest.iter().map(|one| one.usd).chain(folded().map(|one| one.spent)).sum(),
    };
    (all, others)
}

fn unpriced(spends: &[&Spend]) -> Vec<UnpricedResource> {
    let mut found: BTreeMap<(&Region, &ResourceId), UnpricedResource> = BTreeMap::new();
    for one in spends.iter().filter(|one| one.unpriced_seconds > 0) {
        let unpriced = found.entry((&one.region, &one.resource)).or_insert_with(|| UnpricedResource {
            resource: one.resource.clone(),
            region: one.region.clone(),
            what: one.what.clone(),
            seconds: 0,
        });
        unpriced.seconds = unpriced.seconds.saturating_add(one.unpriced_seconds);
    }
    let mut all: Vec<UnpricedResource> = found.into_values().collect();
    all.sort_by_key(|one| std::cmp::Reverse(one.seconds));
    all.truncate(UNPRICED_MAX);
    all
}
