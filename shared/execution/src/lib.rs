//! Carries a plan out: act, tell, mark, record, remember. The same for every function, and for every mode.
//!
//! The order is the contract. What ends something is acted on first, so that the message can say what became of it; the
//! message is sent before a mark is written, so that nothing is marked without an accepted message; all of it is
//! recorded, and what was told is remembered. One failure never stops the rest.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod act;
pub mod budgets;
mod bugs;
#[cfg(feature = "aws")]
mod clients;
mod delivery;
pub mod instances;
mod job_states;
#[cfg(feature = "aws")]
pub mod jobs;
#[cfg(feature = "aws")]
pub mod month_report;
mod notification_logs;
pub mod prices;
pub mod sagemaker;
mod steps;
mod usages;
pub mod volumes;

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use billing::budget::BudgetStatuses;
use billing::price::PriceBook;
use futures::future::join;
use jiff::{SignedDuration, Timestamp};
use model::channels::NotificationChannels;
use model::config::Config;
use model::id::{Region, ResourceId, RunId};
use model::mode::Mode;
use model::notification_log::{Notification, NotificationLogs};
use model::observation::{Gap, GapKind, Observation};
use notify::AcceptedNotifications;
use plan::report::{AuditRecord, Report, RunUsage, StepOutcome};
use plan::{Plan, Step, Target};
use ports::{Cloud, ConfigLoadError, Documents, StoreError};
use reaping::job_ownership::JobStates;
use reaping::policy::Policy;

pub use act::carry_out;
pub use bugs::{catch_bug, due_queries, learn_usage};
#[cfg(feature = "aws")]
pub use clients::Clients;
pub use job_states::load_job_states;
pub use notification_logs::RecalledLogs;
pub use steps::log;
pub use usages::{IdleThresholds, device_reports, usages};

/// No step is started later than this before the run's deadline: telling and recording come after it.
const RESERVE: SignedDuration = SignedDuration::from_secs(20);

/// Returns the timeout of a call that begins with so much time left: a call that began in time may still hang.
fn answer_timeout(left: SignedDuration) -> Duration {
    Duration::try_from(left).unwrap_or_default().saturating_sub(RESERVE.unsigned_abs() / 2)
}

/// However close the deadline is, an observation has this long.
const OBSERVATION_TIMEOUT_MIN: Duration = Duration::from_secs(1);

/// Calls of one kind at once; EC2 lets an account write about 5 times a second in the long run (EC2 API reference,
/// "Request throttling"), and the SDK backs off by itself.
const AT_ONCE: usize = 8;

/// One run of one function, on AWS or on what stands for it.
pub struct Run<'a, C, D> {
    /// AWS, except for the bucket.
    pub cloud: &'a C,
    /// The bucket.
    pub store: &'a D,
    /// The channels that notify people of the run.
    pub channels: &'a NotificationChannels,
    /// The function's name.
    pub function: &'static str,
    /// The run's id.
    pub id: RunId,
    /// `CURFEW_MODE`.
    pub mode: Mode,
    /// Time when the run began.
    pub now: Timestamp,
    /// Time when the run is cut off.
    pub deadline: Timestamp,
    /// The clock by which the run measures the time until `deadline`.
    pub clock: &'a dyn Fn() -> Timestamp,
    /// The resources that it is about, where a person has chosen them. Of all others nothing is judged, told, marked, ended
    /// or forgotten.
    pub chosen: Option<&'a ChosenResources>,
    /// Hears of each step as soon as it is known what became of it: [`log`].
    pub progress: &'a dyn Fn(&Step, &StepOutcome),
    /// A flag that halts the run: while it is `true`, no further step begins.
    pub halted: Option<&'a AtomicBool>,
}

/// Resources, each with its region.
pub type ChosenResources = BTreeSet<(Region, ResourceId)>;

/// The subscriptions of the topic, as far as they decide whether Curfew may enforce.
pub enum Subscribers {
    /// Somebody has confirmed.
    Confirmed,
    /// No subscription is confirmed: enforcing is refused.
    NoneConfirmed(Gap),
    /// Unknown: nothing is ended in this run.
    Unknown(Gap),
}

impl<C: Cloud, D: Documents> Run<'_, C, D> {
    /// The configuration, and whether a subscription is confirmed. A refused or unreadable configuration is notified.
    ///
    /// # Errors
    /// Where the configuration was refused, or could not be read.
    pub async fn prepare(&self) -> Result<(Policy, Subscribers), ConfigLoadError> {
        let config = self.config().await?;
        let (audience, prices) = join(self.subscribers(), prices::load(self.store, &config, self.now)).await;
        Ok((self.policy(config, &audience, prices), audience))
    }

    /// Prepares a run that requests prices itself with [`prices::refresh`], after it knows which ones.
    ///
    /// # Errors
    /// Where the configuration was refused, or could not be read.
    pub async fn prepare_without_prices(&self) -> Result<(Policy, Subscribers), ConfigLoadError> {
        let config = self.config().await?;
        let audience = self.subscribers().await;
        Ok((self.policy(config, &audience, PriceBook::dated()), audience))
    }

    async fn config(&self) -> Result<Config, ConfigLoadError> {
        let read = self.store.read_config().await;
        if let Err(fault) = &read {
            self.notify_refused_config(&fault.to_string()).await;
        }
        read
    }

    fn policy(&self, config: Config, audience: &Subscribers, prices: PriceBook) -> Policy {
        let ceiling = if matches!(audience, Subscribers::NoneConfirmed(_)) { Mode::Observe } else { self.mode };
        Policy { config, ceiling, prices, budgets: BudgetStatuses::default(), jobs: JobStates::default() }
    }

    /// Returns `true` if the run is about this resource.
    #[must_use]
    pub fn is_about(&self, region: &Region, resource: &ResourceId) -> bool {
        self.chosen.is_none_or(|chosen| chosen.contains(&(region.clone(), resource.clone())))
    }

    /// Returns the regions to observe.
    pub(crate) async fn regions(&self, config: &Config) -> Observation<Region> {
        let mut regions = self.cloud.regions(config).await;
        if let Some(chosen) = self.chosen {
            regions.items.retain(|region| chosen.iter().any(|(of_chosen, _)| of_chosen == region));
        }
        regions
    }

    /// Carries a plan out and reports what became of it. Of a run about chosen resources, what the plan says of any other is
    /// not even looked at.
    pub async fn carry_out(
        &self,
        plan: Plan,
        regions: Vec<Region>,
        audience: Subscribers,
        recalled: RecalledLogs,
    ) -> Report {
        self.carry_out_and_notify(plan, regions, audience, recalled, Vec::new()).await
    }

    /// Carries a plan out, reports the outcomes, and sends the notifications that an earlier run owes.
    pub async fn carry_out_and_notify(
        &self,
        mut plan: Plan,
        regions: Vec<Region>,
        audience: Subscribers,
        mut recalled: RecalledLogs,
        untold: Vec<Notification>,
    ) -> Report {
        let is_about = |target: &Target| self.is_about(&target.region, &target.resource);
        plan.steps.retain(|step| is_about(&step.target));
        plan.skipped.retain(|skipped| is_about(&skipped.target));
        let report = Report::from_plan(plan, self.function, self.id.clone(), self.now, self.mode, regions);
        let mut report = Report { has_only_chosen_resources: self.chosen.is_some(), ..report };
        let may_end = check_subscribers(&mut report, audience) && self.record_ahead(&mut report).await;
        let unrecorded = if may_end { self.log_ahead(&mut report, &mut recalled).await } else { BTreeSet::new() };
        // A label that was refused before is tried before anything is promised.
        let is_marked_first = |step: &Step| {
            step.action.announced_actions().is_some() && step.refused_at.is_some() && !step.already_notified
        };
        self.act(&mut report, |step| {
            (step.action.announced_actions().is_none() || is_marked_first(step))
                && (may_end || !step.action.stops_or_deletes())
                && !(changes_more_than_labels(step) && unrecorded.contains(&step.target.region))
        })
        .await;
        let mut news = notify::notifications(&report, &recalled.memory, recalled.home(), self.now);
        news.extend(untold);
        let delivered = self.notify_teams(&mut report, &news, &recalled.memory).await;
        let accepted = AcceptedNotifications::new(&news, &delivered);
        self.act(&mut report, |step| {
            step.action.announced_actions().is_some() && !is_marked_first(step) && accepted.has_announcement(step)
        })
        .await;
        let gap = self.record(&mut report).await;
        report.gaps.extend(gap);
        self.record_notifications(&mut report, &news, &delivered, &recalled).await;
        report
    }

    /// The report of a run that changes no resource by itself.
    fn report_without_steps(&self, seen: usize, gaps: Vec<Gap>) -> Report {
        Report {
            function: self.function,
            run: self.id.clone(),
            at: self.now,
            mode: self.mode,
            regions: Vec::new(),
            seen,
            steps: Vec::new(),
            skipped: Vec::new(),
            gaps,
            usage: RunUsage::default(),
            has_only_chosen_resources: false,
        }
    }

    /// Tells, once a day, that a configuration was refused.
    async fn notify_refused_config(&self, refusal: &str) {
        let home = self.cloud.home();
        let recalled = self.recall(std::slice::from_ref(home)).await;
        let mut report = self.report_without_steps(0, Vec::new());
        let news = notify::refused_config_notification(home, refusal, &recalled.memory, self.now);
        let news: Vec<Notification> = news.into_iter().collect();
        let delivered = self.notify_teams(&mut report, &news, &recalled.memory).await;
        self.record_notifications(&mut report, &news, &delivered, &recalled).await;
    }

    /// Reads whether a subscription is confirmed. Calls SNS only if something could be enforced.
    async fn subscribers(&self) -> Subscribers {
        if self.mode == Mode::Observe {
            return Subscribers::Confirmed;
        }
        let topic_arn = &self.channels.topic_arn;
        match self.cloud.has_confirmed_subscription(topic_arn).await {
            Ok(true) => Subscribers::Confirmed,
            Ok(false) => {
                let error = format!(
                    "the topic {topic_arn} has no confirmed subscription, so Curfew only observes; \
                     subscribe somebody and confirm the e-mail"
                );
                let call = "sns:ListSubscriptionsByTopic";
                Subscribers::NoneConfirmed(Gap::new(self.cloud.home(), call, error, GapKind::Part))
            }
            Err(error) => Subscribers::Unknown(error.gap()),
        }
    }

    /// A third of the run's time, for looking as for asking. Where jobs are looked up besides and all three hang, no time is left
    /// to act, and the next run takes it up.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        let left = self.deadline.duration_since(self.now).saturating_sub(RESERVE);
        (Duration::try_from(left).unwrap_or_default() / 3).max(OBSERVATION_TIMEOUT_MIN)
    }

    /// Writes the plan down before it ends anything: a run that is cut off leaves a trace. What cannot be recorded is not
    /// ended.
    async fn record_ahead(&self, report: &mut Report) -> bool {
        if !report.steps.iter().any(|(step, _)| is_reached_end(step)) {
            return true;
        }
        let Some(gap) = self.record(report).await else { return true };
        not_ended(report, &format!("not done, because the audit record could not be written: {}", gap.in_run()));
        report.gaps.push(gap);
        false
    }

    /// Writes to the logs what this run is about to carry out. The regions whose log could not be written, where nothing may be carried out
    /// that only the log would know: another run is active there, or the bucket fails.
    async fn log_ahead(&self, report: &mut Report, recalled: &mut RecalledLogs) -> BTreeSet<Region> {
        let ahead = notify::record_ahead(&recalled.memory, report);
        let mut unrecorded = BTreeSet::new();
        for (region, log) in ahead {
            let Err(error) = self.write_log(recalled, &region, log).await else { continue };
            let why = format!("not done, because the log of notifications could not be written: {error}");
            let is_lost = |step: &Step| step.target.region == region && changes_more_than_labels(step);
            for (_, outcome) in report.steps.iter_mut().filter(|(step, _)| is_lost(step)) {
                outcome.error = Some(why.clone());
            }
            // Another run is active there, and carries out the same.
            if !matches!(error, StoreError::Lost { .. }) {
                report.gaps.push(error.gap(&region));
            }
            unrecorded.insert(region);
        }
        unrecorded
    }

    async fn record(&self, report: &mut Report) -> Option<Gap> {
        report.usage += self.cloud.take_usage();
        (report.usage.runs, report.usage.milliseconds) = (1, self.elapsed_milliseconds());
        let report = &*report;
        let written = self.store.write_audit(&AuditRecord::key(report), &AuditRecord::from_report(report)).await;
        written.err().map(|error| error.gap(self.cloud.home()))
    }

    fn elapsed_milliseconds(&self) -> u64 {
        u64::try_from((self.clock)().duration_since(self.now).as_millis()).unwrap_or_default()
    }

    /// Writes down what was told. Where that fails the next run repeats itself, so at least the reason is told with it.
    async fn record_notifications(
        &self,
        report: &mut Report,
        news: &[Notification],
        delivered: &BTreeSet<String>,
        recalled: &RecalledLogs,
    ) {
        let late = notify::late_notifications(report, news, &recalled.memory, recalled.home(), self.now);
        let after = notify::update_log(&recalled.memory, report, news, &late, delivered, self.now);
        let events = notify::events(report, &late.iter().collect::<Vec<_>>());
        report.gaps.extend(self.copy_to_channels(&[], &events).await);
        let unwritten = self.write_notices(recalled, &after).await;
        // A person who applies a plan sees it, and it may be their own permission that is missing.
        if !unwritten.is_empty() && self.chosen.is_some() {
            report.gaps.extend(unwritten);
        } else if !unwritten.is_empty() {
            let told: Vec<Notification> =
                unwritten.iter().map(|gap| notify::gap_notification(gap, recalled.home())).collect();
            self.notify_teams(report, &told, &NotificationLogs::new()).await;
            report.gaps.extend(unwritten);
        }
        for gap in &report.gaps {
            tracing::warn!(region = gap.region.as_str(), call = gap.call, "{}", gap.in_run());
        }
    }
}

/// Returns `true` if the topic's subscriptions do not forbid to stop or delete anything.
fn check_subscribers(report: &mut Report, audience: Subscribers) -> bool {
    let (gap, may_end) = match audience {
        Subscribers::Confirmed => return true,
        // The plan was made to observe.
        Subscribers::NoneConfirmed(gap) => (gap, true),
        Subscribers::Unknown(gap) => (gap, false),
    };
    if !may_end {
        not_ended(report, &format!("not done, because the topic's subscriptions could not be read: {}", gap.in_run()));
    }
    report.gaps.push(gap);
    may_end
}

fn changes_more_than_labels(step: &Step) -> bool {
    step.action.announcement().is_none() && step.is_due()
}

fn is_reached_end(step: &Step) -> bool {
    step.action.stops_or_deletes() && step.is_due()
}

fn not_ended(report: &mut Report, why: &str) {
    for (_, outcome) in report.steps.iter_mut().filter(|(step, _)| is_reached_end(step)) {
        outcome.error = Some(why.to_owned());
    }
}
