//! One run, in this order, for every function and every mode:
//!
//! 1. Observe: read the configuration, the topic's subscriptions and the prices (`Run::prepare`), then the logs of earlier notifications and
//!    the account (`observe` of each kind).
//! 2. Decide: make the plan from that alone (`plan` of each kind). It names each resource once.
//! 3. Record ahead: write the plan to the audit trail, and the coming stops, terminations and snapshots to the logs. If a record cannot be
//!    written, the run carries out none of the actions that need it.
//! 4. Act on all steps but labels, so that the message can report their outcome. A label that AWS refused before is tried here as well, before the
//!    message promises an action.
//! 5. Notify: one message about the account and one a team, or several if one cannot hold all.
//! 6. Write the labels of accepted announcements. A resource is labelled only after SNS accepted its notification.
//! 7. Record the plan with all outcomes in the audit trail.
//! 8. Remember announcements, actions and notifications in the logs.
//!
//! One failure never stops the other steps.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use billing::budget::BudgetStatuses;
use billing::price::PriceBook;
use futures::future::join;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use model::channels::NotificationChannels;
use model::config::{Config, ConfigInForce, HubStatus};
use model::gang::Gangs;
use model::home::HomeStatus;
use model::id::{Region, ResourceId, RunId};
use model::mode::Mode;
use model::notification_log::{Notification, NotificationLogs};
use model::observation::{Gap, GapKind, Observation};
use model::subscriptions::TopicSubscriptions;
use notify::{AcceptedNotifications, ConfigFault, Delivery, Recipients, ReplyUrls};
use plan::report::{AuditRecord, Report, RunUsage, StepOutcome};
use plan::{Plan, Step, Target};
use ports::{Cloud, ConfigLoadError, Documents, StoreError};
use reaping::job_ownership::JobStates;
use reaping::policy::Policy;

use crate::subscribers::{Subscribers, stops_or_deletes_now};
use crate::{MetricsPublisher, OBSERVATION_TIMEOUT_MIN, RESERVE, RecalledLogs, prices};

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
    /// The resources that a person chose with `curfew apply`. The run ignores all others.
    pub chosen: Option<&'a ChosenResources>,
    /// Observer of each step, called as soon as its outcome is known; functions use [`log`](crate::log).
    pub progress: &'a dyn Fn(&Step, &StepOutcome),
    /// A flag that halts the run: while it is `true`, no further step begins.
    pub halted: Option<&'a AtomicBool>,
    /// Destination of the metrics of the account; `None` if the deployment asks for none.
    pub metrics: Option<MetricsPublisher<'a>>,
    /// Standing of the stack among those of the account. On standby the run observes, and changes nothing.
    pub home: HomeStatus,
}

/// The function that writes which stack acts, and notifies people of it.
pub const HOME_WRITER: &str = "reap-instances";

/// The function that reads the hub's configuration for its account.
pub const HUB_READER: &str = "reap-instances";

/// Resources, each with its region.
pub type ChosenResources = BTreeSet<(Region, ResourceId)>;

/// An observation that a plan is based on, with what the run needs to carry that plan out.
pub trait RunObservation {
    /// The observed regions, and the notifications of earlier runs.
    fn into_regions_and_logs(self) -> (Vec<Region>, RecalledLogs);

    /// Notifications of the run besides those of its steps.
    fn notifications(&self, _plan: &Plan, _now: Timestamp) -> Vec<Notification> {
        Vec::new()
    }
}

/// A run after step 2: it has observed and decided, and has not acted yet.
pub struct Planned<O> {
    /// The steps that the run will carry out.
    pub plan: Plan,
    /// The observation that the plan is based on.
    pub observation: O,
    pub(crate) subscribers: Subscribers,
}

impl<O: RunObservation> Planned<O> {
    /// Carries the plan out, and reports the outcomes.
    pub async fn carry_out(self, run: &Run<'_, impl Cloud, impl Documents>) -> Report {
        let is_of_all = run.chosen.is_none();
        let extra = if is_of_all { self.observation.notifications(&self.plan, run.now) } else { Vec::new() };
        let (regions, recalled) = self.observation.into_regions_and_logs();
        run.carry_out_and_notify(self.plan, regions, self.subscribers, recalled, extra).await
    }
}

impl<C, D> Run<'_, C, D> {
    /// The reason why this run changes nothing, whatever its mode is.
    pub(crate) fn standby_reason(&self) -> Option<&str> {
        self.home.problem.as_deref().filter(|_| self.home.is_standby)
    }
}

impl<C: Cloud, D: Documents> Run<'_, C, D> {
    /// Reads the configuration, the subscriptions and the prices. People are notified of a configuration that is refused or cannot be read.
    ///
    /// # Errors
    /// If the configuration was refused, or could not be read.
    pub async fn prepare(&self) -> Result<(Policy, Subscribers), ConfigLoadError> {
        let ConfigInForce { config, hub } = self.config().await?;
        let read = Subscribers::read(self, &config, &hub);
        let (subscribers, prices) = join(read, prices::load(self.store, &config, self.now)).await;
        Ok((Self::policy(config, &subscribers, prices), subscribers))
    }

    /// Prepares a run that requests prices itself with [`prices::refresh`], after it knows which ones.
    ///
    /// # Errors
    /// If the configuration was refused, or could not be read.
    pub async fn prepare_without_prices(&self) -> Result<(Policy, Subscribers), ConfigLoadError> {
        let ConfigInForce { config, hub } = self.config().await?;
        let subscribers = Subscribers::read(self, &config, &hub).await;
        Ok((Self::policy(config, &subscribers, PriceBook::dated()), subscribers))
    }

    pub(crate) async fn config(&self) -> Result<ConfigInForce, ConfigLoadError> {
        let read = self.store.read_config_in_force(self.now).await;
        if let Err(fault) = &read {
            let kind = match fault {
                ConfigLoadError::Refused(_) => ConfigFault::Refused,
                ConfigLoadError::Unreachable(_) => ConfigFault::Unreachable,
            };
            self.notify_config_fault(kind, &fault.to_string()).await;
        }
        read
    }

    fn policy(config: Config, subscribers: &Subscribers, prices: PriceBook) -> Policy {
        let ceiling = subscribers.ceiling().clone();
        Policy {
            config,
            ceiling,
            prices,
            budgets: BudgetStatuses::default(),
            jobs: JobStates::default(),
            gangs: Gangs::default(),
        }
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
            regions.items.retain(|region| chosen.iter().any(|(chosen_region, _)| chosen_region == region));
        }
        regions
    }

    /// Carries a plan out, and reports the outcomes. A run about chosen resources ignores the rest of the plan.
    pub async fn carry_out(
        &self,
        plan: Plan,
        regions: Vec<Region>,
        subscribers: Subscribers,
        recalled: RecalledLogs,
    ) -> Report {
        self.carry_out_and_notify(plan, regions, subscribers, recalled, Vec::new()).await
    }

    /// Carries a plan out, and reports the outcomes: steps 3 to 8 of a run. It also sends `extra`: notifications that no step of this plan makes.
    pub async fn carry_out_and_notify(
        &self,
        mut plan: Plan,
        regions: Vec<Region>,
        subscribers: Subscribers,
        mut recalled: RecalledLogs,
        extra: Vec<Notification>,
    ) -> Report {
        let is_about = |target: &Target| self.is_about(&target.region, &target.resource);
        plan.steps.retain(|step| is_about(&step.target));
        plan.skipped.retain(|skipped| is_about(&skipped.target));
        let report = Report::from_plan(plan, self.function, self.id.clone(), self.now, self.mode, regions);
        let mut report = Report { has_only_chosen_resources: self.chosen.is_some(), ..report };
        let ceiling = subscribers.ceiling().clone();
        let owner_sender = subscribers.owner_sender().cloned();
        let recipients =
            Recipients { subscriptions: ceiling.subscriptions(), owner_sender: owner_sender.as_ref(), postponed: None };
        let blocked = subscribers.check(&mut report, &recalled.memory, self.channels, self.cloud.home());
        let may_stop = self.record_ahead(&mut report).await;
        let unrecorded = if may_stop { self.log_ahead(&mut report, &mut recalled).await } else { BTreeSet::new() };
        let is_blocked = |step: &Step| blocked.contains(&(step.target.region.clone(), step.target.resource.clone()));
        // If AWS refused the label before, this run tries it before the message promises an action.
        let is_marked_first = |step: &Step| {
            step.action.announced_actions().is_some()
                && step.refused_at.is_some()
                && !step.already_notified
                && !is_blocked(step)
        };
        self.act(&mut report, |step| {
            (step.action.announced_actions().is_none() || is_marked_first(step))
                && (may_stop || !step.action.stops_or_deletes())
                && !is_blocked(step)
                && !(changes_more_than_labels(step) && unrecorded.contains(&step.target.region))
        })
        .await;
        let mut notifications = notify::notifications(&report, &recalled.memory, recalled.home(), self.now);
        notifications.extend(extra);
        let delivery = self.notify_teams(&mut report, &notifications, &recalled.memory, recipients).await;
        let accepted = AcceptedNotifications::new(&notifications, &delivery);
        self.act(&mut report, |step| {
            step.action.announced_actions().is_some() && !is_marked_first(step) && accepted.has_announcement(step)
        })
        .await;
        let gap = self.record(&mut report).await;
        report.gaps.extend(gap);
        self.record_notifications(&mut report, &notifications, &delivery, &recalled, recipients.subscriptions).await;
        report
    }

    /// The report of a run that changes no resource by itself.
    pub(crate) fn report_without_steps(&self, seen: usize, gaps: Vec<Gap>) -> Report {
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
            time_zone: TimeZone::UTC,
        }
    }

    /// Notifies people of a configuration that was refused or could not be read, once a day.
    pub(crate) async fn notify_config_fault(&self, fault: ConfigFault, error: &str) {
        let notification = |logs: &NotificationLogs| {
            notify::config_fault_notification(self.cloud.home(), fault, error, logs, self.now)
        };
        self.notify_instead_of_run(notification).await;
    }

    /// Notifies people once a day that another stack has taken over: the only thing that a replaced stack still does.
    pub async fn notify_replaced(&self, reason: &str) {
        let notification =
            |logs: &NotificationLogs| notify::replaced_notification(self.cloud.home(), reason, logs, self.now);
        self.notify_instead_of_run(notification).await;
    }

    async fn notify_instead_of_run(&self, notification: impl Fn(&NotificationLogs) -> Option<Notification>) {
        let recalled = self.recall(std::slice::from_ref(self.cloud.home())).await;
        let mut report = self.report_without_steps(0, Vec::new());
        let notifications: Vec<Notification> = notification(&recalled.memory).into_iter().collect();
        let delivery = self.notify_teams(&mut report, &notifications, &recalled.memory, Recipients::default()).await;
        self.record_notifications(&mut report, &notifications, &delivery, &recalled, None).await;
    }

    /// Time limit of each kind of reading: a third of the run's time. If observing, querying and reading jobs all hang, no time is left to
    /// act, and the next run does it.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        let left = self.deadline.duration_since(self.now).saturating_sub(RESERVE);
        (Duration::try_from(left).unwrap_or_default() / 3).max(OBSERVATION_TIMEOUT_MIN)
    }

    /// Writes the plan to the audit trail before the first stop or deletion, so that a run that is cut off leaves a trace. `false` if that
    /// failed: then the run stops and deletes nothing.
    async fn record_ahead(&self, report: &mut Report) -> bool {
        if !report.steps.iter().any(|(step, outcome)| stops_or_deletes_now(step) && outcome.error.is_none()) {
            return true;
        }
        let Some(gap) = self.record(report).await else { return true };
        set_reason_not_done(
            report,
            &format!("not done, because the audit record could not be written: {}", gap.in_run()),
        );
        report.gaps.push(gap);
        false
    }

    /// Writes to the logs what this run is about to carry out. Returns the regions whose log could not be written, because another run is
    /// active there, or the bucket fails: there the run may carry out nothing that only the log would know.
    async fn log_ahead(&self, report: &mut Report, recalled: &mut RecalledLogs) -> BTreeSet<Region> {
        let ahead = notify::log_due_actions(&recalled.memory, report);
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

    pub(crate) async fn record(&self, report: &mut Report) -> Option<Gap> {
        report.usage += self.cloud.take_usage();
        (report.usage.runs, report.usage.milliseconds) = (1, self.elapsed_milliseconds());
        let report = &*report;
        let written = self.store.write_audit(&AuditRecord::key(report), &AuditRecord::from_report(report)).await;
        written.err().map(|error| error.gap(self.cloud.home()))
    }

    pub(crate) fn elapsed_milliseconds(&self) -> u64 {
        u64::try_from((self.clock)().duration_since(self.now).as_millis()).unwrap_or_default()
    }

    /// Writes the logs of notifications. If that fails the next run repeats its messages, so this run notifies people of the reason.
    pub(crate) async fn record_notifications(
        &self,
        report: &mut Report,
        notifications: &[Notification],
        delivery: &Delivery,
        recalled: &RecalledLogs,
        subscriptions: Option<&TopicSubscriptions>,
    ) {
        let late = notify::late_notifications(report, notifications, &recalled.memory, recalled.home(), self.now);
        let after =
            notify::update_log(&recalled.memory, report, notifications, &late, delivery, subscriptions, self.now);
        let events = notify::events(report, &late.iter().collect::<Vec<_>>());
        report.gaps.extend(self.copy_to_channels(&[], &ReplyUrls::new(), &events).await);
        let gaps = self.write_notices(recalled, &after).await;
        // A person who applies a plan sees the gap, and may lack the permission themselves.
        if !gaps.is_empty() && self.chosen.is_some() {
            report.gaps.extend(gaps);
        } else if !gaps.is_empty() {
            let notifications: Vec<Notification> =
                gaps.iter().map(|gap| notify::gap_notification(gap, recalled.home())).collect();
            let recipients = Recipients { postponed: delivery.postponed(), ..Recipients::default() };
            self.notify_teams(report, &notifications, &NotificationLogs::new(), recipients).await;
            report.gaps.extend(gaps);
        }
        for gap in &report.gaps {
            tracing::warn!(region = gap.region.as_str(), call = gap.call, "{}", gap.in_run());
        }
    }
}

/// The gap of a hub's configuration that is old or unknown. Of a copy that was not made yet, its reader alone notifies.
pub(crate) fn hub_gap(hub: &HubStatus, home: &Region, function: &str) -> Option<Gap> {
    gap_of_one(hub.problem(), (function, HUB_READER), home, GapKind::Hub)
}

/// The gap of a stack whose standing people have to know.
pub(crate) fn home_gap(status: &HomeStatus, home: &Region, function: &str) -> Option<Gap> {
    gap_of_one(status.problem.as_deref(), (function, HOME_WRITER), home, GapKind::Home)
}

/// The gap of a problem that each function sees, and one of them, `notifier`, notifies people of.
fn gap_of_one(problem: Option<&str>, (function, notifier): (&str, &str), home: &Region, kind: GapKind) -> Option<Gap> {
    let problem = problem?;
    if function == notifier {
        return Some(Gap::new(home, "s3:GetObject", problem, kind));
    }
    tracing::warn!("{problem}");
    None
}

fn changes_more_than_labels(step: &Step) -> bool {
    step.action.announcement().is_none() && step.is_due()
}

fn set_reason_not_done(report: &mut Report, why: &str) {
    for (_, outcome) in report.steps.iter_mut().filter(|(step, _)| stops_or_deletes_now(step)) {
        outcome.error = Some(why.to_owned());
    }
}
