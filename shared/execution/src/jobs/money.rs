//! Reservations of a job on the budgets: first its team's, then the account's.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use billing::budget::{
    Budget, BudgetHolder, BudgetMonth, BudgetTerms, ReservationOutcome, ReservationRefusal, ReservationRequest,
    launched, release, reserve,
};
use jiff::{SignedDuration, Timestamp};
use jobs::{Job, JobId, ReserveResult, is_index_search_due};
use model::ceiling::Ceiling;
use model::config::Config;
use model::id::{ResourceId, TeamName};
use model::moment::before;
use model::money::Amount;
use ports::{JobCloud, StoreError};

use super::{JobRunDocuments, JobsRun};

/// Pause before the next try: a reservation for a launch under way is given back within seconds, or is spent.
const IN_FLIGHT_FOR: Duration = Duration::from_secs(2);
const IN_FLIGHT_TRIES: u32 = 6;

/// A run takes less, and so does a launch that EC2 answers.
const IS_STRAY_AFTER: SignedDuration = SignedDuration::from_hours(1);

/// The most states that are read for strays in one run.
const STRAYS_MAX: usize = 200;

/// Team first, then account.
fn holders(team: &TeamName) -> [BudgetHolder; 2] {
    [BudgetHolder::Team(team.clone()), BudgetHolder::Account]
}

/// The months in which a job can have a reservation, the earlier first: also the previous month, if it was submitted before this one began.
fn months(submitted_at: Timestamp, config: &Config, now: Timestamp) -> Vec<String> {
    let this = BudgetMonth::containing(now, config);
    let before = (submitted_at < this.from)
        .then(|| BudgetMonth::containing(before(this.from, SignedDuration::from_secs(1)), config));
    before.into_iter().chain([this]).map(|period| period.month).collect()
}

/// The most that it will have cost without a further launch.
fn cost_max(job: &Job) -> Amount {
    job.used_by(Timestamp::MAX).1
}

impl<C: JobCloud, D: JobRunDocuments> JobsRun<'_, C, D> {
    pub(super) async fn reserve(&self, job: &Job, number: u32, usd: Amount, until: Timestamp) -> ReserveResult {
        let wanted = ReservationRequest { job: job.job.to_string(), number, usd, until };
        let mut tries = 1..IN_FLIGHT_TRIES;
        loop {
            let refused = match self.reserve_once(job, &wanted).await {
                Ok(()) => return ReserveResult::Granted,
                Err(Ok(ReservationRefusal::Overtaken) | Err(StoreError::Lost { .. })) => {
                    return ReserveResult::Overtaken;
                }
                Err(Ok(refused)) => refused,
                Err(Err(error)) => return ReserveResult::Unknown(error.to_string()),
            };
            let is_in_flight = matches!(refused, ReservationRefusal::InFlight(_));
            if !is_in_flight || tries.next().is_none() || self.time_left().is_none() {
                return ReserveResult::Refused(refused.to_string());
            }
            tokio::time::sleep(IN_FLIGHT_FOR).await;
        }
    }

    /// Reserves on both budgets, or on none.
    async fn reserve_once(
        &self,
        job: &Job,
        wanted: &ReservationRequest,
    ) -> Result<(), Result<ReservationRefusal, StoreError>> {
        let _exclusive = self.budgets.lock().await;
        let now = self.now();
        let month = BudgetMonth::containing(now, self.config).month;
        let ceiling = Ceiling::fixed(self.run.mode);
        let terms = BudgetTerms { config: self.config, ceiling: &ceiling };
        for holder in holders(&job.job.team) {
            let change = |document: &mut Budget| reserve(document, &holder, wanted, terms, now);
            let refused = match self.run.store.update_budget(&holder, &month, change).await {
                Ok(Ok(ReservationOutcome::Fits)) => continue,
                Ok(Ok(ReservationOutcome::Anyway(why))) => {
                    tracing::info!(job = %job.job, "reserved anyway: {why}");
                    continue;
                }
                Ok(Err(refused)) => Ok(refused),
                Err(error) => Err(error),
            };
            // That of the previous month first: a beat would carry it over again. What is not given back now, its state still owes.
            if holder == BudgetHolder::Account {
                let team = [BudgetHolder::Team(job.job.team.clone())];
                let back = |document: &mut Budget| release(document, &wanted.job, wanted.number, cost_max(job), now);
                if let Err(error) = self.change(&team, &months(job.submitted_at, self.config, now), back).await {
                    self.gap(error.gap(self.run.cloud.home()));
                }
            }
            return Err(refused);
        }
        Ok(())
    }

    pub(super) async fn settle(&self, job: &Job, instances: &[ResourceId]) -> Result<(), StoreError> {
        let _exclusive = self.budgets.lock().await;
        let (name, months) = (job.job.to_string(), months(job.submitted_at, self.config, self.now()));
        let settles = |document: &mut Budget| launched(document, &name, instances);
        self.change(&holders(&job.job.team), &months, settles).await
    }

    /// Gives back what the job has reserved, up to that number.
    pub(super) async fn release(&self, job: &Job, number: u32) -> Result<(), StoreError> {
        let _exclusive = self.budgets.lock().await;
        let (name, cost, now) = (job.job.to_string(), cost_max(job), self.now());
        let back = |document: &mut Budget| release(document, &name, number, cost, now);
        self.change(&holders(&job.job.team), &months(job.submitted_at, self.config, now), back).await
    }

    /// First in the previous month, if the job may have a reservation there, and in each month the team's first.
    async fn change(
        &self,
        holders: &[BudgetHolder],
        months: &[String],
        change: impl Fn(&mut Budget) -> bool,
    ) -> Result<(), StoreError> {
        for month in months {
            for holder in holders {
                let change = |document: &mut Budget| Ok::<bool, std::convert::Infallible>(change(document));
                self.run.store.update_budget(holder, month, change).await.map(drop)?;
            }
        }
        Ok(())
    }

    /// Gives back, once an hour, what is reserved for jobs whose states do not have the reservation. An overtaken run reserves too late,
    /// and a state can be gone.
    pub(super) async fn release_strays(&self) {
        if !is_index_search_due(self.run.now) {
            return;
        }
        for (job, number) in self.old_reservations().await.into_iter().take(STRAYS_MAX) {
            if self.time_left().is_none() {
                return;
            }
            let released = async {
                let state = self.run.store.read_job(&job).await?.value;
                if state.is_some_and(|state| state.unreleased().is_some()) {
                    return Ok(());
                }
                tracing::warn!(job = %job, "money was reserved for it, and its state has none; it was given back");
                let _exclusive = self.budgets.lock().await;
                let (name, now) = (job.to_string(), self.now());
                let back = |document: &mut Budget| release(document, &name, number, Amount::ZERO, now);
                self.change(&holders(&job.team), &months(Timestamp::MIN, self.config, now), back).await
            };
            if let Err(error) = Box::pin(released).await {
                self.gap(error.gap(self.run.cloud.home()));
            }
        }
    }

    /// The reservations by which nothing was launched for so long that their runs are over, with their numbers.
    async fn old_reservations(&self) -> BTreeMap<JobId, u32> {
        let (now, mut old) = (self.now(), BTreeMap::new());
        let month = BudgetMonth::containing(now, self.config).month;
        let teams: BTreeSet<TeamName> = self.config.teams.keys().cloned().collect();
        let holders = std::iter::once(BudgetHolder::Account).chain(teams.into_iter().map(BudgetHolder::Team));
        for holder in holders {
            let document = match self.run.store.read_budget(&holder, &month).await {
                Ok(read) => read.value,
                Err(error) => {
                    self.gap(error.gap(self.run.cloud.home()));
                    continue;
                }
            };
            let is_old = |since: Timestamp| now.duration_since(since) >= IS_STRAY_AFTER;
            let unlaunched =
                document.reservations.iter().filter(|(_, one)| one.instances.is_empty() && is_old(one.since));
            for (job, one) in unlaunched.filter_map(|(job, one)| Some((JobId::read(job).ok()?, one))) {
                let number = old.entry(job).or_insert(one.number);
                *number = one.number.max(*number);
            }
        }
        old
    }
}
