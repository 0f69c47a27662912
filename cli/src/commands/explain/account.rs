//! The facts about one resource that a run would get: observed, queried and remembered as the functions do.

use std::collections::BTreeMap;
use std::time::Duration;

use billing::budget::BudgetStatuses;
use billing::price::PriceBook;
use cloud::operator::ResourceKind;
use execution::UsageInquiry;
use execution::budgets::load_budget_statuses;
use execution::volumes::load_live_jobs;
use model::ceiling::{AnnouncementTarget, Ceiling};
use model::config::Config;
use model::gang::Gangs;
use model::id::{Region, ResourceId};
use model::instance::{Instance, InstanceState};
use model::mode::Mode;
use model::notification_log::{CarriedOut, NotificationLog, NotificationLogs};
use model::observation::{Gap, Observation, ObservedResource};
use model::ownership::{is_owner_mailed, team_of};
use model::sagemaker::SageMakerResource;
use model::subscriptions::{Readership, TopicSubscriptions};
use model::usage::{ActivityCache, Usage};
use operator::undo;
use plan::report::RunRecord;
use reaping::job_ownership::JobStates;
use reaping::policy::Policy;
use reaping::rules::hours::standing_stop;
use reaping::volumes::LiveJobs;
use reaping::{instances, sagemaker, volumes};
use store::{ActivityDocuments as _, Documents as _};

use super::outcome::{ExplainedResource, OutOfScope, Unexplained};
use crate::command_error::{CommandError, describe_gap};
use crate::context::{CommandContext, DeployedResources, own_ceiling};
use crate::named_resource::{EnabledRegions, NamedResource};

/// So long one region has to answer each look.
const TIMEOUT: Duration = Duration::from_mins(1);

const OF_INSTANCES: &str = "reap-instances";
const OF_VOLUMES: &str = "reap-volumes";
const OF_SAGEMAKER: &str = "reap-sagemaker";

/// The account, as far as it is the same for every resource.
pub(super) struct ExplainAccount<'a> {
    pub(super) context: &'a CommandContext,
    deployed: Option<DeployedResources>,
    pub(super) config: Config,
    prices: PriceBook,
    pub(super) everywhere: EnabledRegions,
    /// `CURFEW_MODE` of this command's environment.
    own_ceiling: Option<Mode>,
}

/// The context of an explanation that is no part of it.
#[derive(Default)]
pub(super) struct ExplanationContext {
    /// The most that the function does at present, where anybody can say.
    pub(super) ceiling: Option<Mode>,
    /// The record of the function's newest run.
    pub(super) newest: Option<RunRecord>,
    /// The stop by Curfew, if the resource was not started since.
    pub(super) stopped: Option<CarriedOut>,
    pub(super) notes: Vec<String>,
    pub(super) gaps: Vec<Gap>,
    /// The subscriptions of the topic, if the function enforces.
    pub(super) subscriptions: Option<TopicSubscriptions>,
}

impl ExplanationContext {
    fn ceiling_by_team(&self, function: &'static str) -> Ceiling {
        let mode = self.ceiling.unwrap_or(Mode::Observe);
        self.subscriptions
            .clone()
            .map_or_else(|| Ceiling::fixed(mode), |all| Ceiling::with_readers(mode, function, all))
    }

    /// Notes that nobody reads what is announced about a resource. `log` has what was announced about it.
    fn note_unread(
        &mut self,
        ceiling: &Ceiling,
        target: AnnouncementTarget<'_>,
        id: &ResourceId,
        log: &NotificationLog,
    ) {
        let announced = log.resources.get(id).into_iter().flat_map(|record| record.announced.values());
        let is_suspended = announced.into_iter().any(|one| ceiling.has_suspended(&log.readers, one.at));
        let is_confirmed = ceiling.subscriptions().is_none_or(TopicSubscriptions::has_confirmed);
        let note = match ceiling.readership(target) {
            Readership::Readers(()) => return,
            Readership::NoReader(reason) if is_suspended => {
                format!("{reason}, so Curfew carries out what it announced, and announces nothing more")
            }
            Readership::NoReader(_) if !is_confirmed => {
                self.ceiling = Some(Mode::Observe);
                "the topic has no confirmed subscription, so Curfew enforces nothing".to_owned()
            }
            Readership::NoReader(reason) => format!("{reason}, so Curfew only observes it"),
            Readership::Unknown(reason) => format!("{reason}, so Curfew announces nothing, and does not end it"),
        };
        self.notes.push(note);
    }
}

impl<'a> ExplainAccount<'a> {
    pub(super) async fn load(context: &'a CommandContext) -> Result<Self, CommandError> {
        let own_ceiling = own_ceiling()?;
        let deployed = context.deployed().await?;
        let config = match &deployed {
            Some(deployed) => deployed.store.read_config().await?,
            None => Config::default(),
        };
        let prices = context.prices(deployed.as_ref().map(|deployed| &deployed.store), &config).await;
        Ok(Self { context, deployed, config, prices, everywhere: EnabledRegions::load(context).await, own_ceiling })
    }

    /// The explanation; or why there is none.
    pub(super) async fn explain(&self, named: &NamedResource) -> Result<ExplainedResource, Unexplained> {
        let seen = match self.everywhere.find(self.context, named).await {
            Ok(seen) => seen,
            Err(missing) => return self.gone(named, missing).await,
        };
        let region = seen.region();
        let function = match named.kind {
            ResourceKind::Instance => OF_INSTANCES,
            ResourceKind::Volume | ResourceKind::Snapshot => OF_VOLUMES,
            ResourceKind::SageMaker => OF_SAGEMAKER,
        };
        let mut besides = ExplanationContext::default();
        self.look_for_the_ceiling(function, &mut besides).await;
        if !self.config.regions.is_empty() && !self.config.regions.contains(region) {
            besides.notes.push(format!("no run looks at {region}: it is not among `regions` of the configuration"));
        }
        let notices = self.notices(function, region, &mut besides).await;
        let policy = Policy {
            config: self.config.clone(),
            ceiling: besides.ceiling_by_team(function),
            prices: self.prices.clone(),
            budgets: self.budget_statuses(&seen, &mut besides).await,
            jobs: JobStates::default(),
            gangs: Gangs::default(),
        };
        let team = team_of(seen.tags(), &self.config);
        let is_owner_mailed = is_owner_mailed(seen.tags(), &self.config);
        let target = AnnouncementTarget { team: team.as_ref(), is_owner_mailed };
        besides.note_unread(&policy.ceiling, target, seen.id(), &notices);
        match &seen {
            ObservedResource::Instance(instance) => self.instance(instance, &notices, &policy, besides).await,
            ObservedResource::Volume(_) | ObservedResource::Snapshot(_) => {
                let memory = NotificationLogs::from([(region.clone(), notices)]);
                self.storage(&named.id, region, &seen, &memory, &policy, besides).await
            }
            ObservedResource::SageMaker(resource) => {
                let memory = NotificationLogs::from([(region.clone(), notices)]);
                self.sagemaker(resource, &memory, &policy, besides).await
            }
        }
    }

    /// Reads the status of the budgets by which the resource may be stopped, as the function does. The status of an unreadable budget stays
    /// unknown.
    async fn budget_statuses(&self, seen: &ObservedResource, besides: &mut ExplanationContext) -> BudgetStatuses {
        let (ObservedResource::Instance(_) | ObservedResource::SageMaker(_), Some(deployed)) = (seen, &self.deployed)
        else {
            return BudgetStatuses::default();
        };
        let CommandContext { aws, now, .. } = self.context;
        let statuses = load_budget_statuses(&deployed.store, &self.config, aws.home(), *now, TIMEOUT).await;
        statuses.with_gaps_in(&mut besides.gaps)
    }

    /// The states of the jobs that instances name, as the function reads them. Without a deployment they are unknown.
    async fn jobs(&self, instances: &[&Instance], besides: &mut ExplanationContext) -> JobStates {
        let Some(deployed) = &self.deployed else { return JobStates::default() };
        let instances = instances.iter().copied();
        let jobs = execution::load_job_states(&deployed.store, instances, self.context.aws.home(), TIMEOUT).await;
        jobs.with_gaps_in(&mut besides.gaps)
    }

    /// `CURFEW_MODE` of the function's newest run, under that of this command's environment; and observe without a confirmed subscription.
    async fn look_for_the_ceiling(&self, function: &'static str, besides: &mut ExplanationContext) {
        let Some(deployed) = &self.deployed else {
            besides
                .notes
                .push("nothing is deployed here, so nothing is done: this is by the default configuration".to_owned());
            besides.ceiling = self.own_ceiling;
            return;
        };
        let of_runs = self.context.ceiling(&deployed.store, function).await;
        besides.ceiling = match of_runs {
            Ok(Some(ceiling)) => {
                besides.newest = Some(ceiling.newest);
                Some(ceiling.mode)
            }
            Ok(None) => self.own_ceiling,
            Err(CommandError { problem, .. }) => {
                besides.notes.push(problem);
                None
            }
        };
        if besides.ceiling.is_none() {
            besides.notes.push(format!(
                "the mode of {function} is unknown without a record of today or yesterday, so this assumes observe mode; set \
                 CURFEW_MODE=enforce to explain it as if it were to enforce"
            ));
        }
        self.read_subscriptions(deployed, besides).await;
    }

    async fn read_subscriptions(&self, deployed: &DeployedResources, besides: &mut ExplanationContext) {
        if besides.ceiling != Some(Mode::Enforce) {
            return;
        }
        let Some(topics) = &deployed.topics else {
            besides.notes.push(
                "the topic's subscriptions were not read, and without a confirmed one nothing is enforced: pass --topic-arn".to_owned(),
            );
            return;
        };
        match cloud::sns::subscriptions(&self.context.aws, topics).await {
            Ok(subscriptions) => besides.subscriptions = Some(subscriptions),
            Err(error) => {
                besides.notes.push("the topic's subscriptions could not be read, so nothing is stopped".to_owned());
                besides.gaps.push(error.gap());
            }
        }
    }

    async fn notices(&self, function: &str, region: &Region, besides: &mut ExplanationContext) -> NotificationLog {
        let Some(deployed) = &self.deployed else { return NotificationLog::default() };
        match deployed.store.read_notices(function, region).await {
            Ok(read) => read.value,
            Err(error) => {
                besides
                    .notes
                    .push(format!("the notifications of {region} cannot be read, so no run judges that region"));
                besides.gaps.push(error.gap(region));
                NotificationLog::default()
            }
        }
    }

    /// Looked at with all others of its region: whose metrics are whose is known by their names.
    async fn instance(
        &self,
        described: &Instance,
        notices: &NotificationLog,
        policy: &Policy,
        mut besides: ExplanationContext,
    ) -> Result<ExplainedResource, Unexplained> {
        let (id, region, aws) = (&described.id, &described.region, &self.context.aws);
        if described.state == InstanceState::Terminated {
            return Ok(ExplainedResource::not_ours(
                &ObservedResource::Instance(described.clone()),
                policy,
                OutOfScope::Life,
                besides,
            ));
        }
        let Observation { items, gaps } = cloud::instances(aws, std::slice::from_ref(region), TIMEOUT).await;
        let Some(instance) = items.iter().find(|one| one.id == *id) else {
            return match gaps.first() {
                Some(gap) => Err(Unexplained(describe_gap(gap))),
                None => Ok(ExplainedResource::not_ours(
                    &ObservedResource::Instance(described.clone()),
                    policy,
                    OutOfScope::Accelerator,
                    besides,
                )),
            };
        };
        besides.gaps.extend(gaps);
        besides.stopped = undo::stop_to_undo(instance, standing_stop(instance, notices.record(id))).ok();
        let gangs = Gangs::find(&items, &policy.config);
        let gang = gangs.gang_of(id).cloned();
        let is_member =
            |one: &&Instance| one.id == *id || gang.as_ref().is_some_and(|gang| gang.members.contains_key(&one.id));
        let asked: Vec<&Instance> = items.iter().filter(is_member).collect();
        let policy = &Policy { gangs, jobs: self.jobs(&asked, &mut besides).await, ..policy.clone() };
        let usages = self.usages(region, &asked, policy, &mut besides).await;
        let explained = instances::explain_among(instance, &items, &usages, notices, policy, self.context.now);
        explained
            .map(|explained| ExplainedResource::from_explanation(explained, besides, self.context.now))
            .ok_or_else(|| Unexplained(format!("{id} is in no plan")))
    }

    /// Asked in full, whether or not a run would ask now.
    async fn usages(
        &self,
        region: &Region,
        asked: &[&Instance],
        policy: &Policy,
        besides: &mut ExplanationContext,
    ) -> BTreeMap<ResourceId, Usage> {
        let activity = self.activity(region, besides).await;
        let now = self.context.now;
        let inquiry = UsageInquiry { activity: &activity, memory: None, policy, now, timeout: TIMEOUT };
        inquiry.learn(&self.context.aws, region, asked).await.with_gaps_in(&mut besides.gaps).usages
    }

    /// Reads what earlier runs learnt: that something was at work, of which CloudWatch has no sample yet.
    async fn activity(&self, region: &Region, besides: &mut ExplanationContext) -> ActivityCache {
        let Some(deployed) = &self.deployed else { return ActivityCache::default() };
        match deployed.store.read_activity(region).await {
            Ok(read) => read.value,
            Err(error) => {
                besides.gaps.push(error.gap(region));
                ActivityCache::default()
            }
        }
    }

    async fn storage(
        &self,
        id: &ResourceId,
        region: &Region,
        seen: &ObservedResource,
        memory: &NotificationLogs,
        policy: &Policy,
        mut besides: ExplanationContext,
    ) -> Result<ExplainedResource, Unexplained> {
        let (aws, now) = (&self.context.aws, self.context.now);
        let mut storage = cloud::storage(
            aws,
            std::slice::from_ref(region),
            TIMEOUT,
            |volume, _| volume.id == *id,
            |volume| volume.id == *id,
        )
        .await;
        let is_there = storage.volumes.items.iter().any(|volume| volume.id == *id)
            || storage.snapshots.iter().any(|snapshot| snapshot.id == *id);
        let gaps = std::mem::take(&mut storage.volumes.gaps);
        if !is_there {
            return match gaps.first() {
                Some(gap) => Err(Unexplained(describe_gap(gap))),
                None if matches!(seen, ObservedResource::Snapshot(_)) => {
                    Ok(ExplainedResource::not_ours(seen, policy, OutOfScope::Origin, besides))
                }
                None => Err(Unexplained("it has just gone".to_owned())),
            };
        }
        besides.gaps.extend(gaps);
        let live_jobs = match &self.deployed {
            Some(deployed) => {
                let live_jobs = load_live_jobs(&deployed.store, &storage, aws.home(), TIMEOUT).await;
                live_jobs.with_gaps_in(&mut besides.gaps)
            }
            None => LiveJobs::new(),
        };
        let asks = Vec::from_iter(volumes::full_use_query(&storage, &live_jobs, memory, policy, now, id));
        let uses = if asks.is_empty() {
            BTreeMap::new()
        } else {
            cloud::volume_uses(aws, region, &asks, now, TIMEOUT).await.with_gaps_in(&mut besides.gaps)
        };
        let explained = volumes::explain(&storage, &uses, &live_jobs, memory, policy, now, id);
        explained
            .map(|explained| ExplainedResource::from_explanation(explained, besides, self.context.now))
            .ok_or_else(|| Unexplained(format!("{id} is in no plan")))
    }

    /// Looked up by its id already, with everything that a run knows of it.
    async fn sagemaker(
        &self,
        resource: &SageMakerResource,
        memory: &NotificationLogs,
        policy: &Policy,
        mut besides: ExplanationContext,
    ) -> Result<ExplainedResource, Unexplained> {
        let CommandContext { aws, now, .. } = self.context;
        let SageMakerResource { region, id, .. } = resource;
        let all = std::slice::from_ref(resource);
        let (activities, gaps) =
            execution::sagemaker::activities(aws, (region, None), all, &policy.config, *now, TIMEOUT).await;
        besides.gaps.extend(gaps);
        let record = memory.get(region).and_then(|log| log.record_about(id, resource.created_at));
        besides.stopped = undo::notebook_stop_to_undo(resource, record.and_then(|record| record.carried_out)).ok();
        let seen = Observation { items: all.to_vec(), gaps: Vec::new() };
        let explained = sagemaker::explain(&seen, &activities, memory, policy, *now, (region, id));
        explained
            .map(|explained| ExplainedResource::from_explanation(explained, besides, self.context.now))
            .ok_or_else(|| Unexplained(format!("{id} is in no plan")))
    }
}
