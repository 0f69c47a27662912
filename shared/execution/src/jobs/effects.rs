//! What is done for a job once its new state is written. Each can be done again without harm.

use std::sync::PoisonError;

use cloud::CallErrorKind;
use cloud::jobs::Order;
use domain::job::{
    Answer, Effect, HeldBy, Identity, Job, Launch, LaunchAnswer, Note, NoteKind, Phase, Placed, Refusals, SCHEMA,
    launch_id, launch_tags, user_data,
};
use domain::observed::{Gap, GapKind};
use domain::report::{JobAction, JobStep, Outcome, OutcomeKind};

use super::Jobs;
use super::facts::Known;
use super::telling::is_told;

impl Jobs<'_> {
    /// Carries the effects out, in their order. The answer of the one that has one; `None` where there is nothing to go on with.
    pub(super) async fn carry_out(&self, job: &Job, effects: Vec<Effect>, known: &mut Known) -> Option<Answer> {
        let mut answer = None;
        for effect in effects {
            let home = self.run.aws.home();
            match effect {
                Effect::Note(note) => self.note(job, &note),
                Effect::Rank => answer = self.ranked(job).await.map(Answer::Ranked),
                Effect::Reserve { usd, until } => answer = Some(Answer::Reserved(self.reserve(job, usd, until).await)),
                Effect::Launch(launch) => {
                    answer = Some(Answer::Launched(self.launch(job, &launch, known.is_first_ask).await));
                }
                Effect::Terminate(placed) => {
                    known.changed.insert(placed.instance.clone());
                    answer = Some(Answer::Terminated(self.terminate(job, &placed).await));
                }
                Effect::Settle(instance) => {
                    if let Err(error) = self.settle(job, &instance).await {
                        self.gap(error.gap(home));
                    }
                }
                Effect::Release => {
                    let released = self.release(job).await;
                    if let Err(error) = &released {
                        self.gap(error.gap(home));
                    }
                    answer = Some(Answer::Released(released.map_err(|error| error.to_string())));
                }
                // What nobody meets any more, nobody tells: see `telling`.
                Effect::Forget if !is_told(job, self.may_act) => {}
                Effect::Forget => {
                    if let Err(error) = self.run.store.forget_active(&job.job).await {
                        self.gap(error.gap(home));
                    }
                }
            }
        }
        answer
    }

    fn note(&self, job: &Job, note: &Note) {
        let Note { kind, why, attempt, step } = note;
        tracing::info!(job = %job.job, attempt, step, kind = ?kind, "{why}");
        let found = JobStep::of(job, note, self.run.aws.home());
        let observes = matches!(&job.phase, Phase::Held(held) if held.by == HeldBy::Observing);
        self.step(if observes && note.kind == NoteKind::Held { found.observed() } else { found });
    }

    /// Launches. What was refused to another job of this run a moment ago is not asked for again, unless it may have been asked for before.
    async fn launch(&self, job: &Job, launch: &Launch, is_first_ask: bool) -> LaunchAnswer {
        let candidate = &launch.candidate;
        if let Some(refused) = self.refusals(|refusals| refusals.answer(candidate, self.now())).filter(|_| is_first_ask)
        {
            let (instance_type, zone) = (candidate.instance_type.as_str(), candidate.zone.as_str());
            tracing::info!(job = %job.job, attempt = launch.attempt, instance_type, zone, answer = ?refused, "launch not asked for");
            return refused;
        }
        let answer = self.ask_for_machine(job, launch).await;
        if is_first_ask {
            self.refusals(|refusals| refusals.hear(candidate, &answer, self.now()));
        }
        answer
    }

    fn refusals<T>(&self, with: impl FnOnce(&mut Refusals) -> T) -> T {
        with(&mut self.refusals.lock().unwrap_or_else(PoisonError::into_inner))
    }

    async fn ask_for_machine(&self, job: &Job, launch: &Launch) -> LaunchAnswer {
        let identity = Identity {
            schema: SCHEMA,
            bucket: self.run.store.bucket_name().to_owned(),
            region: self.run.aws.home().clone(),
            job: job.job.clone(),
            attempt: launch.attempt,
            ends_at: launch.ends_at,
            launch: launch_id(&launch.token),
            agent_sha256: launch.image.agent_sha256.clone(),
        };
        let profile = job.terms.machine.instance_profile.as_deref().or(self.profile);
        if profile.is_none() {
            tracing::warn!(job = %job.job, "launched without an instance profile: its agent cannot read the bucket; set CURFEW_JOB_PROFILE");
        }
        let order = Order {
            launch,
            terms: &job.terms,
            tags: &launch_tags(job, launch, self.config),
            user_data: &user_data(&identity),
            profile,
        };
        let answer = cloud::jobs::launch(self.run.aws, &order).await;
        let (instance_type, zone) = (launch.candidate.instance_type.as_str(), launch.candidate.zone.as_str());
        tracing::info!(job = %job.job, attempt = launch.attempt, instance_type, zone, answer = ?answer, "launch");
        if let LaunchAnswer::Unknown(why) = &answer {
            let what =
                format!("nobody knows whether {instance_type} was launched in {zone}; the same token asks again");
            if let Some(since) = job.unanswered_since(self.now()) {
                let error = format!("since {since} {what}, for the job {}: {why}", job.job);
                let (region, call) = (launch.candidate.region.clone(), "ec2:RunInstances".to_owned());
                self.gap(Gap { region, call, error, kind: GapKind::Part });
            }
            let failed = Outcome::with(OutcomeKind::Failed, why.as_str());
            self.step(JobStep::new(job, JobAction::Launch, what, self.run.aws.home()).with(failed));
        }
        answer
    }

    pub(super) async fn terminate(&self, job: &Job, placed: &Placed) -> Result<(), String> {
        let Placed { instance, region, .. } = placed;
        let ended = cloud::jobs::terminate(self.run.aws, &job.job, placed).await;
        tracing::info!(job = %job.job, instance = instance.as_str(), region = region.as_str(), ended = ?ended, "terminate");
        let outcome = match &ended {
            Ok(()) => Outcome::of(OutcomeKind::Done),
            Err(error) => {
                let said = format!("{instance} of the job {} was not ended, and goes on costing: {error}", job.job);
                self.gap(Gap { error: said, ..error.gap() });
                // What a minute mends, its team need not hear.
                if !matches!(error.kind, CallErrorKind::Throttled | CallErrorKind::Unanswered) {
                    let news = job.says_not_ended(placed, &error.to_string(), self.run.aws.home());
                    self.say(news);
                }
                Outcome::with(OutcomeKind::Failed, error.to_string())
            }
        };
        let kind = NoteKind::Ended(instance.clone());
        let why = format!("{instance} is ended");
        let note = Note { kind, why, attempt: placed.attempt, step: job.progress.step };
        self.found(|found| {
            JobStep::take_up(&mut found.steps, JobStep::of(job, &note, self.run.aws.home()).with(outcome));
        });
        ended.map_err(|error| error.to_string())
    }
}
