//! The effects of a job's new state, once that is written. Each is idempotent.

use std::sync::PoisonError;

use jobs::machine_role::{MachineRole, missing_role};
use jobs::{
    Effect, EffectResult, HoldReason, Job, JobMachine, JobTransition, LaunchOrder, LaunchRefusals, LaunchRequest,
    LaunchResult, MachineIdentity, Phase, TransitionKind, documents, launch_id, launch_tags, user_data,
};
use model::observation::{Gap, GapKind};
use model::team_role::team_role;
use plan::report::{JobAction, JobStep, OutcomeKind, StepOutcome};
use ports::JobCloud;

use super::facts::KnownDocuments;
use super::groups::with_placement_hint;
use super::notifications::is_notified;
use super::{JobRunDocuments, JobsRun};

impl<C: JobCloud, D: JobRunDocuments> JobsRun<'_, C, D> {
    /// Carries one effect out and returns its result; `None` if it has none, or the round cannot continue.
    pub(super) async fn carry_out(
        &self,
        job: &Job,
        effect: &Effect,
        known: &mut KnownDocuments,
    ) -> Option<EffectResult> {
        let home = self.run.cloud.home();
        match effect {
            Effect::Record(note) => self.note(job, note),
            Effect::Rank => return self.ranked(job).await,
            Effect::Reserve { number, usd, until } => {
                return Some(EffectResult::Reserved(Box::pin(self.reserve(job, *number, *usd, *until)).await));
            }
            Effect::Launch(launch) => {
                return Some(EffectResult::Launched(self.launch(job, launch, known.is_first_ask).await));
            }
            Effect::Terminate(placed) => {
                known.changed.insert(placed.instance.clone());
                self.terminate(job, placed).await;
                return Some(EffectResult::Terminated);
            }
            Effect::MakeGroup(group) => return Some(self.make_group(job, group).await),
            Effect::DeleteGroup(group) => return Some(self.delete_group(job, group).await),
            Effect::Settle(instances) => {
                if let Err(error) = self.settle(job, instances).await {
                    self.gap(error.gap(home));
                }
            }
            Effect::Release(number) => {
                let released = self.release(job, *number).await;
                if let Err(error) = &released {
                    self.gap(error.gap(home));
                }
                return Some(EffectResult::Released(released.is_ok()));
            }
            // A job that left the index is not notified: see `notifications`.
            Effect::Forget if !is_notified(job, self.may_act(job)) => {}
            Effect::Forget => {
                if let Err(error) = self.run.store.forget_active(&job.job).await {
                    self.gap(error.gap(home));
                }
            }
        }
        None
    }

    fn note(&self, job: &Job, note: &JobTransition) {
        let JobTransition { kind, why, attempt, step } = note;
        tracing::info!(job = %job.job, attempt, step, kind = ?kind, "{why}");
        let found = JobStep::from_transition(job, note, self.run.cloud.home());
        let observes = matches!(&job.phase, Phase::Held(held) if held.by == HoldReason::Observing);
        self.step(if observes && note.kind == TransitionKind::Held { found.observed() } else { found });
    }

    /// Launches. A candidate that another job of this run was just refused is not requested again, unless this launch may already have been.
    async fn launch(&self, job: &Job, launch: &LaunchRequest, is_first_ask: bool) -> LaunchResult {
        let candidate = &launch.candidate;
        // Whether there is enough for several machines says nothing of one, nor the other way round.
        let is_shared = is_first_ask && !job.terms.is_gang();
        if let Some(refused) = self.refusals(|refusals| refusals.predict(candidate, self.now())).filter(|_| is_shared) {
            let (instance_type, zone) = (candidate.instance_type.as_str(), candidate.zone.as_str());
            tracing::info!(job = %job.job, attempt = launch.attempt, instance_type, zone, answer = ?refused, "launch not requested");
            return refused;
        }
        let has_other_teams = job.ranking.as_ref().is_some_and(|ranking| ranking.has_other_teams);
        // Only EC2 knows whether an earlier request launched a machine.
        if is_first_ask && let Err(why) = job.check_role(self.config, has_other_teams) {
            return LaunchResult::NoProfile(why.to_string());
        }
        if let Err(why) = job.check_access(self.config).and_then(|()| job.check_image(&launch.image, self.config)) {
            if is_first_ask {
                return LaunchResult::NotAllowed(why.to_string());
            }
            // What was launched by an earlier request is found; nothing is launched any more.
            let only_finds = LaunchRequest { only_find: true, ..launch.clone() };
            return match self.request_machine(job, &only_finds).await {
                LaunchResult::NoCapacity(_) => LaunchResult::Mismatch(why.to_string()),
                found => found,
            };
        }
        // Between a warning and the next launch every call counts.
        let asks_quota = is_first_ask && job.terms.is_gang() && job.machines == 0;
        let find = self.asked.find_too_few_vcpus(self.run.cloud, candidate, job.terms.gpu.nodes);
        if let Some(refused) = if asks_quota { Box::pin(find).await } else { None } {
            return refused;
        }
        if let Err(failed) = self.ensure_placement_group(job, launch, is_first_ask).await {
            return failed;
        }
        let answer = with_placement_hint(launch, self.request_machine(job, launch).await);
        if is_shared {
            self.refusals(|refusals| refusals.record(candidate, &answer, self.now()));
        }
        answer
    }

    fn refusals<T>(&self, with: impl FnOnce(&mut LaunchRefusals) -> T) -> T {
        with(&mut self.refusals.lock().unwrap_or_else(PoisonError::into_inner))
    }

    async fn request_machine(&self, job: &Job, launch: &LaunchRequest) -> LaunchResult {
        let identity = MachineIdentity {
            schema: documents::SCHEMA,
            bucket: self.run.store.bucket_name().to_owned(),
            region: self.run.cloud.home().clone(),
            replica: self.setup.replica.clone(),
            is_restored: self.setup.is_restored,
            job: job.job.clone(),
            attempt: launch.attempt,
            nodes: job.terms.gpu.nodes,
            retry_of: launch.retry_of,
            ends_at: launch.ends_at,
            launch: launch_id(&launch.token),
            agent_sha256: launch.image.agent_sha256.clone(),
        };
        let role = job.machine_role(self.config);
        let profile = match role {
            MachineRole::Named(profile) => Some(profile.to_owned()),
            MachineRole::Shared => self.setup.profile.clone(),
            MachineRole::Team => match team_role(&job.job.team) {
                Ok(profile) => Some(profile),
                Err(why) => return LaunchResult::NoProfile(why.to_string()),
            },
        };
        if profile.is_none() {
            tracing::warn!(job = %job.job, "launched without an instance profile: its agent cannot read the bucket; set CURFEW_JOB_PROFILE");
        }
        let order = LaunchOrder {
            launch,
            terms: &job.terms,
            tags: &launch_tags(job, launch, self.config),
            user_data: &user_data(&identity),
            profile: profile.as_deref(),
        };
        let answer = self.asked.launch(self.run.cloud, &order).await;
        let (instance_type, zone) = (launch.candidate.instance_type.as_str(), launch.candidate.zone.as_str());
        tracing::info!(job = %job.job, attempt = launch.attempt, instance_type, zone, answer = ?answer, "launch");
        if let LaunchResult::Unknown(why) = &answer {
            let what = format!(
                "it is unknown whether {instance_type} was launched in {zone}; the next run repeats the request with the same token"
            );
            if let Some(since) = job.unanswered_since(self.now()) {
                let error = format!("since {since} {what}, for the job {}: {why}", job.job);
                self.gap(Gap::new(&launch.candidate.region, "ec2:RunInstances", error, GapKind::Part));
            }
            let failed = StepOutcome::with(OutcomeKind::Failed, why.as_str());
            self.step(JobStep::new(job, JobAction::Launch, what, self.run.cloud.home()).with(failed));
        }
        if let (MachineRole::Team, LaunchResult::ProfileUnknown(_), Some(profile)) = (role, &answer, &profile) {
            return LaunchResult::NoProfile(missing_role(&job.job.team, role, profile));
        }
        answer
    }

    pub(super) async fn terminate(&self, job: &Job, placed: &JobMachine) {
        let JobMachine { instance, region, .. } = placed;
        let ended = self.run.cloud.terminate(&job.job, placed, self.now()).await;
        tracing::info!(job = %job.job, instance = instance.as_str(), region = region.as_str(), ended = ?ended, "terminate");
        let outcome = match &ended {
            Ok(()) => StepOutcome::from_kind(OutcomeKind::Done),
            Err(error) => {
                let error_text = format!(
                    "{} of the job {} was not terminated, and keeps costing money: {error}",
                    placed.name_instances(),
                    job.job
                );
                self.gap(Gap { error: error_text, ..error.gap() });
                // A condition that resolves within a minute needs no notification.
                if !error.kind.is_passing() {
                    let notification = job.notify_not_terminated(placed, &error.to_string(), self.run.cloud.home());
                    self.notify(notification);
                }
                StepOutcome::with(OutcomeKind::Failed, error.to_string())
            }
        };
        let kind = TransitionKind::Ended(instance.clone());
        let why = match placed.members.len() {
            0 => format!("{instance} is terminated"),
            _ => format!("{} are terminated", placed.name_instances()),
        };
        let note = JobTransition { kind, why, attempt: placed.attempt, step: job.progress.step };
        self.with_findings(|found| {
            JobStep::take_up(
                &mut found.steps,
                JobStep::from_transition(job, &note, self.run.cloud.home()).with(outcome),
            );
        });
    }
}
