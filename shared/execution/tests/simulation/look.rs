//! What a run about instances observes of the account: the list of EC2, the metrics of `CloudWatch`, and the documents of others.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use execution::{Run, instances};
use jiff::Timestamp;
use jobs::{Job, JobId};
use model::config::SeriesNames;
use model::id::Region;
use model::instance::{Instance, PurchaseOption};
use model::observation::{Gap, GapKind, Observation};
use model::usage::{ActivityCache, MetricQuestion, MetricSeries, SeriesOwners};
use ports::{
    ActivityDocuments, Answered, CallError, CallErrorKind, InstanceCloud, JobDocuments, StoreError, Versioned,
};

use crate::account::SimulatedAccount;
use crate::chance::HOUR;
use crate::explained::find_contradiction;
use crate::fault::Fault;
use crate::session::{Session, gap, refused_to_read, refused_to_write};

pub(crate) const FUNCTION: &str = "reap-instances";

/// Carries out one run. Between its decision and its action a colleague may intervene, or time may pass.
pub(crate) async fn live(session: &Rc<Session>, run: &Run<'_, Session, Session>) {
    {
        let mut account = session.account();
        let (budgets, jobs) = (account.read_budgets(run.now.as_second()), account.read_jobs(run.now.as_second()));
        account.oracle.read(session.facts().id, budgets, jobs);
    }
    let Ok(mut planned) = instances::plan(run).await else { return };
    if let Some(contradiction) = find_contradiction(&planned, session.facts().id, run.now) {
        session.account().oracle.violated(run.now.as_second(), contradiction);
    }
    let seen = std::mem::take(&mut planned.observation.instances.items);
    session.decided(&planned.plan, seen.len());
    let ends = planned.plan.steps.iter().filter(|step| step.action.stops_or_deletes());
    *session.interfered.borrow_mut() = ends.map(|step| step.target.resource.clone()).collect();
    {
        let mut account = session.account();
        account.oracle.planned(&planned.plan, &seen, &session.facts());
        account.log_skipped(&planned.plan);
        account.listing.take_back(seen);
    }
    session.may_act().await;
    planned.carry_out(run).await;
    session.account().ran(&session.facts());
}

impl InstanceCloud for Session {
    async fn instances(&self, regions: &[Region], _timeout: Duration) -> Observation<Instance> {
        let (mut borrowed, now) = (self.account(), self.now());
        let SimulatedAccount { faults, listing, machines, regions: count, .. } = &mut *borrowed;
        if !faults.occurs(Fault::ListingStale, now) {
            listing.refresh(machines);
        }
        let mut seen = Observation { items: listing.lend(), gaps: Vec::new() };
        for place in 0..*count {
            let region = crate::chance::region(place);
            let is_asked = regions.contains(&region);
            let unseen = is_asked && faults.occurs(Fault::ListingFailed, now);
            if unseen {
                seen.gaps.push(Gap { kind: GapKind::Region, ..gap(&region, "ec2:DescribeInstances") });
            }
            if unseen || !is_asked {
                listing.keep(&seen.items);
                seen.items.retain(|instance| instance.region != region);
            }
        }
        if faults.occurs(Fault::SpotUnread, now) {
            listing.keep(&seen.items);
            for instance in &mut seen.items {
                if matches!(instance.purchase, PurchaseOption::SpotOneTime | PurchaseOption::SpotPersistent) {
                    instance.purchase = PurchaseOption::SpotUnknown;
                }
            }
            seen.gaps.push(gap(&crate::chance::region(0), "ec2:DescribeSpotInstanceRequests"));
        }
        seen
    }

    async fn metric_data(
        &self,
        _region: &Region,
        questions: impl Iterator<Item = MetricQuestion>,
        until: Timestamp,
    ) -> Answered {
        let mut questions = questions.peekable();
        let mut answered = Answered::default();
        if questions.peek().is_none() {
            return answered;
        }
        let (mut borrowed, now) = (self.account(), self.now());
        let SimulatedAccount { faults, machines, calls, .. } = &mut *borrowed;
        let failed = faults.occurs(Fault::MetricsFailed, now);
        for question in questions {
            calls.metrics += 1;
            if failed || faults.occurs(Fault::MetricsPartly, now) {
                answered.missed.insert(question.instance);
                continue;
            }
            let machine = machines.iter().find(|machine| machine.ec2.id == question.instance);
            let mut samples = machine.map_or_else(Vec::new, |machine| machine.samples(&question, now));
            samples.retain(|(at, _)| *at < until);
            answered.answers.entry(question.instance).or_default().insert(question.signal, samples);
        }
        if !answered.missed.is_empty() {
            let (call, why) = ("cloudwatch:GetMetricData", "the simulation refuses it");
            answered.errors.push(self.failed(call, CallErrorKind::Other, why));
        }
        answered
    }

    async fn series(
        &self,
        region: &Region,
        names: &SeriesNames,
        is_recent: bool,
        owners: &SeriesOwners<'_>,
    ) -> Result<BTreeSet<MetricSeries>, CallError> {
        if self.occurs(Fault::SeriesUnlisted) {
            return Err(self.failed("cloudwatch:ListMetrics", CallErrorKind::Other, "the simulation refuses it"));
        }
        let now = self.now();
        let since = if is_recent { now - 3 * HOUR } else { i64::MIN };
        let mut account = self.account();
        account.calls.lists += 1;
        let of_region = account.machines.iter().filter(|machine| machine.ec2.region == *region);
        let listed = of_region.flat_map(|machine| machine.listed_series(names.namespace == "AWS/EC2", since, now));
        Ok(listed.filter(|series| owners.owner_of(series).is_some()).cloned().collect())
    }

    async fn published(
        &self,
        _region: &Region,
        _dimension: &str,
        _value: &str,
    ) -> Result<Vec<MetricSeries>, CallError> {
        Ok(Vec::new())
    }
}

impl ActivityDocuments for Session {
    async fn read_activity(&self, region: &Region) -> Result<Versioned<ActivityCache>, StoreError> {
        if self.occurs(Fault::ActivityUnreadable) {
            return Err(refused_to_read());
        }
        let mut account = self.account();
        let (version, activity) = account.activity.entry(region.clone()).or_default();
        Ok(Versioned { value: activity.clone(), etag: Some(version.to_string()) })
    }

    async fn write_activity(
        &self,
        region: &Region,
        activity: &ActivityCache,
        last: Option<&str>,
    ) -> Result<(), StoreError> {
        self.is_cut_here().await;
        if self.occurs(Fault::ActivityUnwritten) {
            return Err(refused_to_write());
        }
        let mut account = self.account();
        let (version, there) = account.activity.entry(region.clone()).or_default();
        // If another run was faster, its findings are as good.
        if last == Some(version.to_string().as_str()) {
            (*version, *there) = (*version + 1, activity.clone());
        }
        Ok(())
    }
}

impl JobDocuments for Session {
    async fn read_job(&self, job: &JobId) -> Result<Versioned<Option<Job>>, StoreError> {
        let account = self.account();
        let read = account.oracle.jobs_of(&self.facts());
        let value = account.jobs.document(&read, job, account.clock).ok_or_else(refused_to_read)?;
        Ok(Versioned { value, etag: None })
    }

    async fn is_active(&self, _job: &str) -> Result<bool, StoreError> {
        unreachable!("whether a job is active is asked for volumes")
    }
}
