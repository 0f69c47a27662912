//! The next run's decision about a resource, in words for people.

use jiff::{SignedDuration, Timestamp};
use model::curfew_tags::{DELETED_AT, STOPPED, UNATTACHED_SINCE};
use model::mode::Mode;
use plan::{Action, Announcement, BudgetAction, NotifyOnlyReason, SkipReason, SnapshotAction, Step, VolumeAction};

use super::{Explanation, PlanDecision, RuleExplanation, RuleVerdict};

impl PlanDecision {
    /// The decision in one sentence, for people.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Step(step) => describe_step(step),
            Self::Skipped(skipped) => describe_skip(skipped.reason).to_owned(),
        }
    }
}

impl Explanation {
    /// The decision in one sentence, for people; of an announced action its moment.
    #[must_use]
    pub fn describe_decision(&self, now: Timestamp) -> String {
        match &self.decision {
            PlanDecision::Skipped(skipped) if skipped.reason == SkipReason::Marked => {
                self.describe_announced(now).unwrap_or_else(|| self.decision.describe())
            }
            decision => decision.describe(),
        }
    }

    /// `will be stopped at 16:26 UTC (in 43 min): idle`.
    fn describe_announced(&self, now: Timestamp) -> Option<String> {
        let is_coming =
            |one: &&RuleExplanation| one.announced && one.verdict == RuleVerdict::Violated && one.notify_only.is_none();
        let with_deadline = self.rules.iter().filter(is_coming).filter_map(|one| Some((one.deadline?, one)));
        let (at, next) = with_deadline.min_by_key(|(at, _)| *at)?;
        let action = next.ending?.past_tense();
        let format = if at.strftime("%F").to_string() == now.strftime("%F").to_string() { "%H:%M" } else { "%F %H:%M" };
        let (shown, left) = (at.strftime(format), describe_time_left(at.duration_since(now)));
        Some(format!("will be {action} at {shown} UTC ({left}): {}", next.rule))
    }
}

/// `in 43 min`, `in 2 h 5 min`, `in 3 d 4 h`; a past one is due.
fn describe_time_left(left: SignedDuration) -> String {
    let minutes = left.as_mins();
    match (minutes.div_euclid(24 * 60), minutes.div_euclid(60) % 24, minutes % 60) {
        _ if minutes < 1 => "now".to_owned(),
        (0, 0, minutes) => format!("in {minutes} min"),
        (0, hours, 0) => format!("in {hours} h"),
        (0, hours, minutes) => format!("in {hours} h {minutes} min"),
        (days, 0, _) => format!("in {days} d"),
        (days, hours, _) => format!("in {days} d {hours} h"),
    }
}

fn describe_step(step: &Step) -> String {
    let rule = step.evidence.rule();
    let notifies = if step.already_notified { "" } else { "notifies its subscribers, and " };
    let text = match (step.action.announcement(), &step.action) {
        (Some(Announcement::Mark(actions)), _) => {
            let announced = actions.get(&rule).map_or("ended", |announced| announced.ending.past_tense());
            let from = step.deadline.map(|at| format!(" from {at} on")).unwrap_or_default();
            format!("{notifies}marks it: {rule}, to be {announced}{from}")
        }
        // Nothing that was announced is called off: only a tag is removed that is no longer true.
        (Some(Announcement::Unmark { also: Some(STOPPED), .. }), _) if step.deadline.is_none() => {
            format!("removes {STOPPED}: it runs again")
        }
        (Some(Announcement::Unmark { also: Some(UNATTACHED_SINCE), .. }), _) if step.deadline.is_none() => {
            format!("removes {UNATTACHED_SINCE}: it is in use again")
        }
        (Some(Announcement::Unmark { .. }), _) => format!("{notifies}calls off what it announced for {rule}"),
        (Some(Announcement::Notify), _) | (None, Action::Budget(BudgetAction::Notify)) => {
            format!(
                "notifies its subscribers: {rule}{}",
                step.notify_only.map(describe_notify_only).unwrap_or_default()
            )
        }
        (None, Action::Budget(BudgetAction::Hold)) => format!("holds its jobs: {rule}"),
        (None, action) if action.is_start() => "starts it: its hours have begun".to_owned(),
        (None, Action::Volume(_, VolumeAction::TagUnattachedSince(at))) => format!("writes {UNATTACHED_SINCE}={at}"),
        (None, Action::Volume(_, VolumeAction::Snapshot { .. })) => {
            "starts its snapshot; a later run deletes the volume once the snapshot is complete".to_owned()
        }
        (None, Action::Snapshot(_, SnapshotAction::AnnounceExpiry(expiry))) => {
            format!("{notifies}writes {DELETED_AT}={}", expiry.deleted_at)
        }
        (None, action) => format!("{}s it: {rule}", action.as_str()),
    };
    match (step.held, step.mode) {
        (Some(held), _) => format!("awaits approval: {held}. Once approved, the next run {text}"),
        (None, Mode::Observe) if step.already_notified => {
            format!(
                "the next run does nothing (observe mode, and its subscribers were notified); in enforce mode it {text}"
            )
        }
        (None, Mode::Observe) => format!("the next run only notifies (observe mode); in enforce mode it {text}"),
        (None, Mode::Enforce) => format!("the next run {text}"),
    }
}

fn describe_notify_only(why: NotifyOnlyReason) -> String {
    format!(", for which it does no more: {}", why.explain())
}

pub(crate) const fn describe_skip(reason: SkipReason) -> &'static str {
    match reason {
        SkipReason::Protected => "skipped: it carries curfew:protected",
        SkipReason::Kept => "skipped: its curfew:keep-until is in the future",
        SkipReason::Unreadable => "skipped: one of its tags cannot be read",
        SkipReason::Bug => "skipped because of a bug in Curfew",
        SkipReason::ForeignOwned => "skipped: another controller manages it",
        SkipReason::NotRunning => "skipped: it does not run",
        SkipReason::Marked => "skipped until the announced deadline",
        SkipReason::Notified => "skipped: its subscribers were notified, and nothing more is due",
        SkipReason::Busy => "skipped: it is busy",
        SkipReason::Young => "skipped: it is too young to be judged",
        SkipReason::UsageUnknown => "skipped: its usage is unknown",
        SkipReason::Compliant => "skipped: it violates no rule",
        SkipReason::Attached => "skipped: it is attached",
        SkipReason::NotAvailable => "skipped: it is being created or deleted, or has failed",
        SkipReason::Kubernetes => "skipped: it belongs to a Kubernetes claim",
        SkipReason::MultiAttach => "skipped: several instances may share it",
        SkipReason::LiveJob => "skipped: its job is not finished",
        SkipReason::JobUnknown => "skipped: it is unknown whether it belongs to the job that it names",
        SkipReason::SnapshotPending => "skipped until its snapshot is complete",
        SkipReason::SnapshotFailed => "skipped: its snapshot failed, and is tried again a day later",
        SkipReason::Refused => "skipped: AWS refused it, and Curfew tries it again once a day",
        SkipReason::VolumeExists => "skipped: its volume exists",
        SkipReason::Restorable => "skipped: its volume can be restored from it",
        SkipReason::WithinBudget => "skipped: it is within its budget",
        SkipReason::WithoutBudget => "skipped: it has no budget",
        SkipReason::BudgetUnknown => "skipped: its spend is unknown",
        SkipReason::Autoscaled => "skipped: Application Auto Scaling scales it, as it does in production",
        SkipReason::SeveralVariants => "skipped: it has several variants, as endpoints in production do",
        SkipReason::ShadowVariants => "skipped: it has shadow variants, as endpoints in production do",
        SkipReason::AsyncInference => "skipped: it is for asynchronous inference, which waits for requests",
        SkipReason::Serverless => "skipped: it is serverless, and costs nothing without requests",
        SkipReason::InferenceComponents => "skipped: it hosts inference components, whose use Curfew does not know",
        SkipReason::RecentlyChanged => "skipped: it was created or changed within its window",
    }
}
