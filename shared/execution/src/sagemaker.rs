//! A run about `SageMaker`: it observes what runs, whether somebody uses it, and the notifications of earlier runs.

use std::time::Duration;

use futures::future::{join, join_all};
use jiff::Timestamp;
use model::config::Config;
use model::fault::Bug;
use model::id::Region;
use model::notification_log::NotificationLog;
use model::observation::{Gap, Observation};
use model::sagemaker::{Activity, ActivityQuestion, ActivitySamples, ObservedSageMaker, SageMakerResource};
use ports::{BudgetDocuments, ConfigLoadError, Documents, SageMakerCloud};
use reaping::policy::Policy;
use reaping::sagemaker::{
    Activities, decide, evaluate, evaluate_low_use, first_questions, further_questions, low_use_questions, wants_facts,
};

use crate::budgets::load_budget_statuses;
use crate::bugs::or_gap;
use crate::{Planned, RecalledLogs, Run, RunObservation};

/// Rounds of questions, which share the time.
const ROUNDS: u32 = 3;

/// The documents in the bucket that a run about `SageMaker` reads and writes.
pub trait SageMakerDocuments: Documents + BudgetDocuments {}

impl<D: Documents + BudgetDocuments> SageMakerDocuments for D {}

/// Observes the account, and decides.
///
/// # Errors
/// If the configuration was refused, or could not be read.
pub async fn plan(
    run: &Run<'_, impl SageMakerCloud, impl SageMakerDocuments>,
) -> Result<Planned<SageMakerObservation>, ConfigLoadError> {
    let (policy, subscribers) = run.prepare().await?;
    let observation = observe(run, &policy).await;
    let plan = decide(
        &observation.resources,
        &observation.activities,
        &observation.recalled.memory,
        &observation.policy,
        run.now,
    );
    Ok(Planned { plan, observation, subscribers })
}

/// The observation of the account by one run.
pub struct SageMakerObservation {
    /// The regions that the run observed.
    pub regions: Vec<Region>,
    /// The configuration, and the status of the budgets by which resources may be stopped.
    pub policy: Policy,
    pub resources: ObservedSageMaker,
    /// The activity of each resource, which shows whether somebody uses it.
    pub activities: Activities,
    /// The notifications of earlier runs.
    pub recalled: RecalledLogs,
}

impl RunObservation for SageMakerObservation {
    fn into_regions_and_logs(self) -> (Vec<Region>, RecalledLogs) {
        (self.regions, self.recalled)
    }
}

/// Observes every region at once. A run about chosen resources sees only these.
pub async fn observe(
    run: &Run<'_, impl SageMakerCloud, impl SageMakerDocuments>,
    policy: &Policy,
) -> SageMakerObservation {
    let Observation { items: regions, gaps } = run.regions(&policy.config).await;
    let recalled = run.recall(&regions).await;
    let wants = |resource: &SageMakerResource| {
        let wants = || wants_facts(resource, &policy.config, run.now);
        run.is_about(&resource.region, &resource.id) && Bug::catch(wants).unwrap_or(true)
    };
    let (mut resources, budgets) = join(
        run.cloud.sagemaker(&recalled.regions(), run.timeout(), wants),
        load_budget_statuses(run.store, &policy.config, run.cloud.home(), run.now, run.timeout()),
    )
    .await;
    resources.items.retain(|resource| run.is_about(&resource.region, &resource.id));
    resources.gaps.extend(gaps);
    let budgets = budgets.with_gaps_in(&mut resources.gaps);
    resources.gaps.extend(recalled.gaps.iter().cloned());
    let mut activities = Activities::new();
    let by_region = regions.iter().map(|region| async {
        let observed: Vec<SageMakerResource> =
            resources.items.iter().filter(|one| one.region == *region).cloned().collect();
        let notices = recalled.memory.get(region);
        self::activities(run.cloud, (region, notices), &observed, &policy.config, run.now, run.timeout()).await
    });
    for (region_activities, gaps) in join_all(by_region).await {
        activities.extend(region_activities);
        resources.gaps.extend(gaps);
    }
    let policy = Policy { budgets, ..policy.clone() };
    SageMakerObservation { regions, policy, resources, activities, recalled }
}

/// Determines in two rounds of questions whether resources of one region are used: the first round clears most that work. A third asks how much
/// of that use there was for long. `notices` are the notifications of earlier runs in that region; without them every question is asked.
pub async fn activities(
    cloud: &impl SageMakerCloud,
    (region, notices): (&Region, Option<&NotificationLog>),
    resources: &[SageMakerResource],
    config: &Config,
    now: Timestamp,
    timeout: Duration,
) -> (Activities, Vec<Gap>) {
    let (mut answers, mut gaps, mut bugs) = (ActivitySamples::new(), Vec::new(), Vec::new());
    let mut each = |work: &dyn Fn(&[SageMakerResource]) -> Vec<ActivityQuestion>| -> Vec<ActivityQuestion> {
        let one = |resource: &SageMakerResource| {
            or_gap((region, &resource.id), &mut bugs, || work(std::slice::from_ref(resource))).unwrap_or_default()
        };
        resources.iter().flat_map(one).collect()
    };
    let no_notices = NotificationLog::default();
    let timeout = timeout / ROUNDS;
    let first = each(&|resource| first_questions(resource, config, now));
    if !first.is_empty() {
        (answers, gaps) = cloud.activity(region, &first, timeout).await;
        let further =
            each(&|resource| further_questions(resource, &answers, notices.unwrap_or(&no_notices), config, now));
        if !further.is_empty() {
            let (more, further_gaps) = cloud.activity(region, &further, timeout).await;
            gaps.extend(further_gaps);
            for (resource, signals) in more {
                answers.entry(resource).or_default().extend(signals);
            }
        }
    }
    let evaluated = resources.iter().filter_map(|resource| {
        let activity = or_gap((region, &resource.id), &mut bugs, || evaluate(resource, &answers, config, now))?;
        Some((resource, activity))
    });
    let evaluated: Vec<(&SageMakerResource, Activity)> = evaluated.collect();
    let questions = evaluated.iter().filter_map(|(resource, activity)| {
        let ask = || low_use_questions(resource, activity, notices, config, now);
        or_gap((region, &resource.id), &mut bugs, ask)
    });
    let questions: Vec<ActivityQuestion> = questions.flatten().collect();
    let (answers, low_use_gaps) = if questions.is_empty() {
        (ActivitySamples::new(), Vec::new())
    } else {
        cloud.activity(region, &questions, timeout).await
    };
    let evaluated = evaluated.into_iter().filter_map(|(resource, activity)| {
        let judge = || evaluate_low_use(resource, activity, &answers, config, now);
        Some(((region.clone(), resource.id.clone()), or_gap((region, &resource.id), &mut bugs, judge)?))
    });
    let evaluated = evaluated.collect();
    gaps.extend(low_use_gaps.into_iter().chain(bugs));
    (evaluated, gaps)
}
