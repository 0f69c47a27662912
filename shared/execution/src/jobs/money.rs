//! Reservations of a job on the budgets: first its team's, then the account's.

use billing::budget::{
    Budget, BudgetHolder, BudgetMonth, ReservationOutcome, ReservationRequest, launched, release, reserve, withdraw,
};
use jiff::Timestamp;
use jobs::{Job, ReserveResult};
use model::config::Config;
use model::id::ResourceId;
use model::moment::before;
use model::money::Amount;
use ports::BudgetDocuments as _;
use store::StoreError;

use super::JobsRun;

/// Team first, then account.
fn holders(job: &Job) -> [BudgetHolder; 2] {
    [BudgetHolder::Team(job.job.team.clone()), BudgetHolder::Account]
}

/// The months in which a job can have a reservation, the earlier first: also the previous month, if it was submitted before this one began.
fn months(job: &Job, config: &Config, now: Timestamp) -> Vec<String> {
    let this = BudgetMonth::containing(now, config);
    let before = (job.submitted_at < this.from)
        .then(|| BudgetMonth::containing(before(this.from, jiff::SignedDuration::from_secs(1)), config));
    before.into_iter().chain([this]).map(|period| period.month).collect()
}

/// The most that it will have cost without a further launch.
fn cost_max(job: &Job) -> Amount {
    job.used_by(Timestamp::MAX).1
}

impl JobsRun<'_> {
    pub(super) async fn reserve(&self, job: &Job, usd: Amount, until: Timestamp) -> ReserveResult {
        let _exclusive = self.budgets.lock().await;
        let now = self.now();
        let month = BudgetMonth::containing(now, self.config).month;
        let wanted = ReservationRequest { job: job.job.to_string(), usd, until };
        let terms = (self.config, self.run.mode);
        for holder in holders(job) {
            let change = |document: &mut Budget| reserve(document, &holder, &wanted, terms, now);
            let refused = match self.run.store.update_budget(&holder, &month, change).await {
                Ok(Ok(ReservationOutcome::Fits)) => continue,
                Ok(Ok(ReservationOutcome::Anyway(why))) => {
                    tracing::info!(job = %job.job, "reserved anyway: {why}");
                    continue;
                }
                Ok(Err(refused)) => ReserveResult::Refused(refused.to_string()),
                Err(StoreError::Lost { .. }) => ReserveResult::Overtaken,
                Err(error) => ReserveResult::Unknown(error.to_string()),
            };
            if holder == BudgetHolder::Account
                && let Err(error) = self.withdraw(job, now).await
            {
                self.gap(error.gap(self.run.cloud.home()));
            }
            return refused;
        }
        ReserveResult::Granted
    }

    /// Releases the team's reservation. That of the previous month is released as well, and first: a beat would carry it over again.
    async fn withdraw(&self, job: &Job, now: Timestamp) -> Result<(), StoreError> {
        let (name, team) = (job.job.to_string(), BudgetHolder::Team(job.job.team.clone()));
        let (this, cost) = (BudgetMonth::containing(now, self.config).month, cost_max(job));
        for month in months(job, self.config, now) {
            let change = |document: &mut Budget| {
                let had = if month == this { withdraw(document, &name) } else { release(document, &name, cost, now) };
                Ok::<bool, std::convert::Infallible>(had)
            };
            self.run.store.update_budget(&team, &month, change).await.map(drop)?;
        }
        Ok(())
    }

    pub(super) async fn settle(&self, job: &Job, instance: &ResourceId) -> Result<(), StoreError> {
        self.change(job, |document, name| launched(document, name, instance.clone())).await
    }

    /// Releases everything at once, for a job that never had a machine: it has spent nothing.
    pub(super) async fn release(&self, job: &Job) -> Result<(), StoreError> {
        let now = self.now();
        if job.machines == 0 {
            return self.change(job, withdraw).await;
        }
        let cost = cost_max(job);
        self.change(job, |document, name| release(document, name, cost, now)).await
    }

    /// First in the previous month, if the job may have a reservation there, and in each month the team's first.
    async fn change(&self, job: &Job, change: impl Fn(&mut Budget, &str) -> bool) -> Result<(), StoreError> {
        let _exclusive = self.budgets.lock().await;
        let name = job.job.to_string();
        for month in months(job, self.config, self.now()) {
            for holder in holders(job) {
                let change = |document: &mut Budget| Ok::<bool, std::convert::Infallible>(change(document, &name));
                self.run.store.update_budget(&holder, &month, change).await.map(drop)?;
            }
        }
        Ok(())
    }
}
