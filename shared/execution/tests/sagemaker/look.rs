//! What a run observes of the account: the lists of `SageMaker`, its looks at endpoints, and the metrics of `CloudWatch`.

use std::rc::Rc;
use std::time::Duration;

use execution::{Run, sagemaker};
use model::id::Region;
use model::observation::{Gap, GapKind};
use model::sagemaker::{ActivityQuestion, ActivitySamples, ObservedSageMaker, SageMakerKind, SageMakerResource};
use ports::SageMakerCloud;

use crate::account::SimulatedAccount;
use crate::fault::Fault;
use crate::session::{Session, gap};

pub(crate) const FUNCTION: &str = "reap-sagemaker";

/// Carries out one run. Between its decision and its action a colleague may intervene, or time may pass.
pub(crate) async fn live(session: &Rc<Session>, run: &Run<'_, Session, Session>) {
    let id = session.facts().id;
    session.account().read_budgets(id, run.now.as_second());
    let Ok(planned) = sagemaker::plan(run).await else { return };
    session.decided(&planned.plan, planned.observation.resources.items.len());
    let done = planned.plan.steps.iter().filter(|step| step.action.ending().is_some());
    *session.interfered.borrow_mut() = done.map(|step| step.target.resource.clone()).collect();
    {
        let mut account = session.account();
        account.planned(&planned.plan, &planned.observation.resources, &session.facts());
        account.log_skipped(&planned.plan);
    }
    session.may_act().await;
    planned.carry_out(run).await;
    session.account().ran(&session.facts());
}

impl SageMakerCloud for Session {
    async fn sagemaker(
        &self,
        regions: &[Region],
        _timeout: Duration,
        wants_facts: impl Fn(&SageMakerResource) -> bool,
    ) -> ObservedSageMaker {
        let (mut account, now) = (self.account(), self.now());
        let is_stale = account.faults.occurs(Fault::ListingStale, now);
        let items = if is_stale { account.an_hour_ago.clone() } else { account.list(now) };
        let mut seen = ObservedSageMaker { items, gaps: Vec::new() };
        for region in regions {
            if account.faults.occurs(Fault::ListingFailed, now) {
                seen.items.retain(|resource| resource.region != *region);
                let kind = if now % 2 == 0 { GapKind::Region } else { GapKind::Listing };
                seen.gaps.push(Gap { kind, ..gap(region, "sagemaker:ListEndpoints") });
            }
        }
        seen.items.retain(|resource| regions.contains(&resource.region));
        let is_scaling_known = !account.faults.occurs(Fault::ScalingUnread, now);
        for resource in &mut seen.items {
            if let SageMakerKind::InferenceComponent(component) = &mut resource.kind {
                component.is_autoscaled = component.is_autoscaled.filter(|_| is_scaling_known);
            }
            let SageMakerKind::Endpoint { facts } = &mut resource.kind else { continue };
            let found = facts.take();
            if !wants_facts(resource) {
                continue;
            }
            if account.faults.occurs(Fault::FactsUnread, now) {
                seen.gaps.push(gap(&resource.region, "sagemaker:DescribeEndpoint"));
            } else if let SageMakerKind::Endpoint { facts } = &mut resource.kind {
                *facts = found;
                if let Some(facts) = facts {
                    facts.is_autoscaled = facts.is_autoscaled.filter(|_| is_scaling_known);
                }
            }
        }
        seen
    }

    async fn activity(
        &self,
        region: &Region,
        questions: &[ActivityQuestion],
        _timeout: Duration,
    ) -> (ActivitySamples, Vec<Gap>) {
        let (mut account, now) = (self.account(), self.now());
        let SimulatedAccount { faults, resources, oracle, lag, .. } = &mut *account;
        let (mut answers, mut missed) = (ActivitySamples::new(), false);
        let is_failed = faults.occurs(Fault::MetricsFailed, now);
        for question in questions {
            let is_it = |one: &crate::world::SimulatedResource| one.id == question.resource && one.region == *region;
            let Some(place) = resources.iter().position(is_it) else { continue };
            let is_answered = !is_failed && !faults.occurs(Fault::MetricsPartly, now);
            oracle.asked(place, now, is_answered.then_some(*lag));
            if !is_answered {
                missed = true;
                continue;
            }
            let (from, until) = (question.from.as_second(), question.until.as_second());
            let samples = resources[place].samples(question.signal, from, until, now, *lag);
            answers.entry(question.resource.clone()).or_default().insert(question.signal, samples);
        }
        let gaps = Vec::from_iter(missed.then(|| gap(region, "cloudwatch:GetMetricData")));
        (answers, gaps)
    }
}
