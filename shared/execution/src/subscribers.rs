//! The subscriptions of the topic, as far as they decide what a run may enforce.

use std::collections::BTreeSet;

use model::ceiling::{AnnouncementTarget, Ceiling};
use model::channels::NotificationChannels;
use model::config::{Config, HubStatus};
use model::id::{Region, TeamName};
use model::mode::Mode;
use model::notification_log::{NotificationLog, NotificationLogs};
use model::observation::{Gap, GapKind};
use model::ownership::OwnerSender;
use model::subscriptions::Readership;
use plan::report::Report;
use plan::{Action, SnapshotAction, Step};
use ports::{CallError, Cloud};

use crate::run::{home_gap, hub_gap};
use crate::{ChosenResources, Run};

/// Teams whose announcements no one reads, as far as one gap names them.
const NAMED_MAX: usize = 5;

/// What the subscriptions allow the run to enforce.
pub struct Subscribers {
    ceiling: Ceiling,
    /// `None` if the run mails no owner.
    owner_sender: Option<OwnerSender>,
    /// The reason why the subscriptions are unknown.
    gap: Option<Gap>,
    /// The teams that the configuration names, and for which it enforces.
    enforced: BTreeSet<Option<TeamName>>,
    /// `true` if it enforces for every team that it does not name.
    enforces_by_default: bool,
    /// `true` if it enforces for what belongs to no team.
    enforces_without_team: bool,
    /// The reasons why the hub's configuration is old or unknown, or which stack acts.
    other_gaps: Vec<Gap>,
    /// `true` if the hub's configuration is unknown, or another stack may act.
    is_withheld: bool,
}

impl Subscribers {
    /// Subscriptions that were checked before, or need not be.
    #[must_use]
    pub const fn checked(ceiling: Ceiling, owner_sender: Option<OwnerSender>) -> Self {
        Self {
            ceiling,
            owner_sender,
            gap: None,
            enforced: BTreeSet::new(),
            enforces_by_default: false,
            enforces_without_team: false,
            other_gaps: Vec::new(),
            is_withheld: false,
        }
    }

    pub(crate) const fn owner_sender(&self) -> Option<&OwnerSender> {
        self.owner_sender.as_ref()
    }

    pub(crate) const fn ceiling(&self) -> &Ceiling {
        &self.ceiling
    }

    /// Reads the subscriptions. Calls SNS only if something could be enforced. While the hub's configuration is
    /// unknown, or another stack may act, nothing is.
    pub(crate) async fn read<C: Cloud, D>(run: &Run<'_, C, D>, config: &Config, hub: &HubStatus) -> Self {
        let home = run.cloud.home();
        let gaps = [home_gap(&run.home, home, run.function), hub_gap(hub, home, run.function)];
        let other_gaps = gaps.into_iter().flatten().collect();
        if run.mode == Mode::Observe {
            return Self { other_gaps, ..Self::checked(Ceiling::fixed(Mode::Observe), None) };
        }
        if let Some(reason) = run.standby_reason().or(hub.unknown()) {
            let ceiling = Ceiling::with_unknown_readers(run.mode, reason.to_owned());
            return Self { other_gaps, is_withheld: true, ..Self::checked(ceiling, None) };
        }
        let (ceiling, gap) = match run.cloud.subscriptions(&run.channels.topics).await {
            Ok(subscriptions) => (Ceiling::with_readers(run.mode, run.function, subscriptions), None),
            Err(error) => unknown(run.mode, &error),
        };
        let team_mode = |team: &TeamName| config.team(team).and_then(|team| team.mode).unwrap_or(config.mode);
        let is_enforcing = |mode: Mode| mode == Mode::Enforce;
        let teams = config.named_teams().filter(|team| is_enforcing(team_mode(team))).cloned().map(Some);
        let enforced = teams.collect();
        let enforces_by_default = is_enforcing(config.mode);
        let enforces_without_team = enforces_by_default || is_enforcing(config.untagged.mode);
        let owner_sender = OwnerSender::from_config(config);
        Self {
            ceiling,
            owner_sender,
            gap,
            enforced,
            enforces_by_default,
            enforces_without_team,
            other_gaps,
            is_withheld: false,
        }
    }

    /// Adds the gaps, and the reason to each step that ends or announces something of a team whose readers are unknown. Returns the targets of
    /// these steps: the run does nothing about them.
    pub(crate) fn check(
        self,
        report: &mut Report,
        memory: &NotificationLogs,
        channels: &NotificationChannels,
        home: &Region,
    ) -> ChosenResources {
        let (mut unread, mut unknown) = (Vec::new(), Vec::new());
        for team in self.teams(report) {
            match self.ceiling.readership(team.as_ref()) {
                Readership::Readers(()) => {}
                Readership::NoReader(reason) => unread.push(reason),
                Readership::Unknown(reason) => unknown.push(reason),
            }
        }
        let mut blocked = ChosenResources::new();
        for (step, outcome) in &mut report.steps {
            let consequence = match (stops_or_deletes_now(step), announces_now(step), self.is_withheld) {
                (false, false, _) => continue,
                (true, _, false) => "not done, because its announcement may have no reader",
                (false, true, false) => "not announced, because nobody may read it",
                (true, _, true) => "not done",
                (false, true, true) => "not announced",
            };
            let owner = step.target.owner.as_deref();
            let is_owner_mailed =
                self.owner_sender.as_ref().is_some_and(|sender| owner.is_some_and(|owner| sender.mails(owner)));
            let target = AnnouncementTarget { team: step.target.team.as_ref(), is_owner_mailed };
            if let Readership::Unknown(reason) = self.ceiling.readership(target) {
                outcome.error = Some(format!("{consequence}: {reason}"));
                blocked.insert((step.target.region.clone(), step.target.resource.clone()));
            }
        }
        let gaps = match &self.gap {
            Some(gap) => vec![gap.clone()],
            None => self.gaps(unread, unknown, memory, &channels.topics.teams, home),
        };
        report.gaps.extend(gaps.into_iter().filter(|_| !self.is_withheld));
        report.gaps.extend(self.other_gaps);
        blocked
    }

    /// The teams for which the run would enforce, as far as the configuration or its steps name them.
    fn teams(&self, report: &Report) -> BTreeSet<Option<TeamName>> {
        let is_enforced = |step: &Step| {
            let by_config = match &step.target.team {
                None => self.enforces_without_team,
                team => self.enforces_by_default || self.enforced.contains(team),
            };
            by_config || stops_or_deletes_now(step)
        };
        let of_steps = report.steps.iter().filter(|(step, _)| is_enforced(step)).map(|(step, _)| &step.target.team);
        self.enforced.iter().chain(of_steps).cloned().collect()
    }

    /// The gaps of the teams whose announcements no one reads, or may not read, with these reasons.
    fn gaps(
        &self,
        unread: Vec<String>,
        unknown: Vec<String>,
        memory: &NotificationLogs,
        topic_arn: &str,
        home: &Region,
    ) -> Vec<Gap> {
        let announced = |log: &NotificationLog| {
            log.resources.values().flat_map(|record| record.announced.values()).map(|one| one.at).collect::<Vec<_>>()
        };
        let is_suspended = memory
            .values()
            .any(|log| announced(log).into_iter().any(|at| self.ceiling.has_suspended(&log.readers, at)));
        let observes = if is_suspended {
            "so Curfew carries out what it announced, and announces nothing more: SNS suspends an e-mail subscription that gets more than 10 \
             messages a second"
        } else if self.owner_sender.is_some() {
            "so Curfew only observes, except where it mails the owner"
        } else {
            "so Curfew only observes"
        };
        if self.ceiling.subscriptions().is_some_and(|subscriptions| !subscriptions.has_confirmed()) {
            let error = format!(
                "the topic {topic_arn} has no confirmed subscription, {observes}; subscribe somebody and confirm the e-mail"
            );
            return vec![Gap::new(home, "sns:ListSubscriptionsByTopic", error, GapKind::Readers)];
        }
        if is_suspended && unread.is_empty() && unknown.is_empty() {
            let error = format!(
                "an e-mail subscription that was confirmed is pending again, because SNS suspends one that gets more than 10 messages a second; its \
                 subscriber has to confirm it again, or subscribe to {topic_arn} anew"
            );
            return vec![Gap::new(home, "sns:ListSubscriptionsByTopic", error, GapKind::Readers)];
        }
        let by_consequence = [(unread, observes), (unknown, "so it announces nothing there, and ends nothing")];
        let with_reasons = by_consequence.into_iter().filter(|(reasons, _)| !reasons.is_empty());
        let to_gap = |(reasons, consequence): (Vec<String>, &str)| {
            let error = format!(
                "{}, {consequence}; subscribe somebody to {topic_arn} whose filter policy, if any, lets these warnings through",
                in_short(reasons)
            );
            Gap::new(home, "sns:GetSubscriptionAttributes", error, GapKind::Readers)
        };
        with_reasons.map(to_gap).collect()
    }
}

fn unknown(mode: Mode, error: &CallError) -> (Ceiling, Option<Gap>) {
    let gap = error.gap();
    let reason = format!("the topic's subscriptions could not be read: {}", gap.in_run());
    (Ceiling::with_unknown_readers(mode, reason), Some(gap))
}

/// The distinct reasons, in one sentence.
fn in_short(reasons: Vec<String>) -> String {
    let reasons: BTreeSet<String> = reasons.into_iter().collect();
    let named: Vec<&str> = reasons.iter().take(NAMED_MAX).map(String::as_str).collect();
    match reasons.len().saturating_sub(NAMED_MAX) {
        0 => named.join("; "),
        more => format!("{}; and {more} more teams", named.join("; ")),
    }
}

pub(crate) fn stops_or_deletes_now(step: &Step) -> bool {
    step.action.stops_or_deletes() && step.is_due()
}

/// Returns `true` if the step announces in enforce mode what was not announced before.
fn announces_now(step: &Step) -> bool {
    let announces = step.action.announced_actions().is_some()
        || matches!(step.action, Action::Snapshot(_, SnapshotAction::AnnounceExpiry(_)));
    step.mode == Mode::Enforce && announces && !step.already_notified
}
