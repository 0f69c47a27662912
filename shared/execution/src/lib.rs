//! Carries a plan out: act, tell, mark, remember, record. The same for every function, and for every mode.
//!
//! The order is the contract. What ends something is acted on first, so that the message can say what became of it; the
//! message is sent before a mark is written, so that nothing is marked of which nobody has heard; what was told is
//! remembered, and all of it is recorded. One failure never stops the rest.

mod memory;
mod steps;

use std::collections::BTreeSet;

use cloud::Aws;
use domain::id::{Region, RunId};
use domain::mode::Mode;
use domain::news::{self, News};
use domain::observed::{Gap, GapKind};
use domain::plan::{Action, Plan};
use domain::report::{AuditRecord, OutcomeKind, Report};
use futures::{StreamExt, stream};
use jiff::{SignedDuration, Timestamp};
use store::Store;

pub use memory::Recalled;

/// No step is started later than this before the run's deadline: telling and recording come after it.
const RESERVE: SignedDuration = SignedDuration::from_secs(20);

/// Calls of one kind at once; EC2 lets an account write about 5 times a second in the long run (EC2 API reference,
/// "Request throttling"), and the SDK slows down by itself.
const AT_ONCE: usize = 8;

/// One run of one function.
pub struct Run<'a> {
    /// AWS, but for the bucket.
    pub aws: &'a Aws,
    /// The bucket.
    pub store: &'a Store,
    /// Where people hear of it.
    pub topic_arn: &'a str,
    /// The function's name.
    pub function: &'static str,
    /// The run's id.
    pub id: RunId,
    /// `CURFEW_MODE`.
    pub mode: Mode,
    /// When it began.
    pub now: Timestamp,
    /// When it is cut off.
    pub deadline: Timestamp,
    /// To see how far that is.
    pub clock: fn() -> Timestamp,
}

impl Run<'_> {
    /// Carries a plan out and reports what became of it.
    pub async fn carry_out(&self, plan: Plan, regions: Vec<Region>, recalled: Recalled) -> Report {
        let home = self.aws.home().clone();
        let mut report = Report::of(plan, self.function, self.id.clone(), self.now, self.mode, regions);
        let recorded = self.record_ahead(&mut report).await;
        self.act(&mut report, |step| !matches!(step.action, Action::Mark(_)) && (recorded || !step.action.is_end())).await;
        let news = news::news(&report, &recalled.memory, &home, self.now);
        let delivered = self.tell(&mut report, &news, &recalled).await;
        let heard = |step: &domain::plan::Step| step.told_before || delivered.contains(&news::team_attribute(&step.target));
        self.act(&mut report, |step| matches!(step.action, Action::Mark(_)) && heard(step)).await;
        report.gaps.extend(self.record(&report).await);
        let late = news::late_news(&report, &news, &recalled.memory, &home, self.now);
        let after = news::remember(&recalled.memory, &report, &news, &late, &delivered, self.now);
        report.gaps.extend(self.memorise(&recalled, &after).await);
        for gap in &report.gaps {
            tracing::warn!(region = gap.region.as_str(), call = gap.call, "{}", gap.error);
        }
        report
    }

    /// Tells, once a day, that a configuration was refused.
    pub async fn refuse(&self, refusal: &str) {
        let home = self.aws.home().clone();
        let recalled = self.recall(std::slice::from_ref(&home)).await;
        let nothing = Plan { steps: Vec::new(), spared: Vec::new(), gaps: Vec::new() };
        let mut report = Report::of(nothing, self.function, self.id.clone(), self.now, self.mode, Vec::new());
        let news: Vec<News> =
            news::of_refused_configuration(&home, refusal, &recalled.memory, self.now).into_iter().collect();
        let delivered = self.tell(&mut report, &news, &recalled).await;
        let after = news::remember(&recalled.memory, &report, &news, &[], &delivered, self.now);
        report.gaps.extend(self.memorise(&recalled, &after).await);
        for gap in &report.gaps {
            tracing::warn!(region = gap.region.as_str(), call = gap.call, "{}", gap.error);
        }
    }

    /// The mode that this run may act in: enforcing with nobody listening is refused, and so is enforcing where nobody can
    /// say whether somebody listens.
    pub async fn ceiling(&self) -> (Mode, Option<Gap>) {
        if self.mode == Mode::Observe {
            return (Mode::Observe, None);
        }
        match cloud::tell::is_heard(self.aws, self.topic_arn).await {
            Ok(false) => {
                let error = format!(
                    "nobody listens: the topic {} has no confirmed subscription, so Curfew enforces nothing and only observes; \
                     subscribe somebody and confirm the e-mail",
                    self.topic_arn
                );
                let call = "sns:ListSubscriptionsByTopic".to_owned();
                (Mode::Observe, Some(Gap { region: self.aws.home().clone(), call, error, kind: GapKind::Part }))
            }
            Ok(true) => (Mode::Enforce, None),
            Err(error) => (Mode::Observe, Some(error.gap())),
        }
    }

    /// Sends one message a team; the teams whose message was taken.
    async fn tell(&self, report: &mut Report, news: &[News], recalled: &Recalled) -> BTreeSet<String> {
        let messages = news::messages(report, news, &recalled.memory);
        let sent = stream::iter(messages).map(|message| async move {
            let taken = cloud::tell::publish(self.aws, self.topic_arn, &message).await;
            (message.team, taken)
        });
        let mut delivered = BTreeSet::new();
        for (team, taken) in sent.buffer_unordered(AT_ONCE).collect::<Vec<_>>().await {
            match taken {
                Ok(()) => drop(delivered.insert(team)),
                Err(error) => {
                    let untold = |step: &domain::plan::Step| news::team_attribute(&step.target) == team && !step.told_before;
                    for (step, outcome) in report.steps.iter_mut().filter(|(step, _)| untold(step)) {
                        if matches!(step.action, Action::Mark(_)) && outcome.kind == OutcomeKind::NotReached {
                            outcome.error = Some(format!("not marked, because its owner could not be told: {error}"));
                        }
                    }
                    report.gaps.push(error.gap());
                }
            }
        }
        delivered
    }

    /// Writes the plan down before it ends anything: a run that is cut off leaves a trace. What cannot be recorded is not
    /// ended.
    async fn record_ahead(&self, report: &mut Report) -> bool {
        let ends = report.steps.iter().any(|(step, _)| step.action.is_end() && step.mode == Mode::Enforce && step.held.is_none());
        let Some(gap) = (if ends { self.record(report).await } else { None }) else { return true };
        for (step, outcome) in &mut report.steps {
            if step.action.is_end() && step.held.is_none() {
                outcome.error = Some(format!("not ended, because the audit record could not be written: {}", gap.error));
            }
        }
        report.gaps.push(gap);
        false
    }

    async fn record(&self, report: &Report) -> Option<Gap> {
        let written = self.store.write_audit(&AuditRecord::key(report), &AuditRecord::of(report)).await;
        written.err().map(|error| error.gap(self.aws.home()))
    }
}
