//! The log of notifications after a run.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use model::id::{Region, ResourceId};
use model::mark::Mark;
use model::mode::Mode;
use model::notification_log::{
    Notification, NotificationEntry, NotificationKey, NotificationKind, NotificationLog, NotificationLogs,
    REPEAT_AFTER, UndeliveredCause, UndeliveredParagraph,
};
use plan::report::{OutcomeKind, Report};
use plan::{Action, ResourceMemory, Step};

/// The newest of one region: a team that could not be reached for so long finds the rest in the audit records.
const UNDELIVERED_MAX: usize = 1000;

/// Of one paragraph: only tags make one longer.
const UNDELIVERED_CHARACTERS_MAX: usize = 2000;

/// The logs after a run, with `delivered`, the teams whose messages SNS accepted. The `late` notifications are undelivered, and count as
/// sent.
///
/// The log keeps everything about a region that was not observed, and about resources that a person did not choose. About an observed
/// resource it keeps what its `ResourceMemory` lists; about one that is gone, nothing.
#[must_use]
pub fn update_log(
    memory: &NotificationLogs,
    report: &Report,
    notifications: &[Notification],
    late: &[Notification],
    delivered: &BTreeSet<String>,
    now: Timestamp,
) -> NotificationLogs {
    memory
        .iter()
        .map(|(region, before)| {
            let of_region: Vec<&Notification> = notifications.iter().filter(|one| one.region == *region).collect();
            let mut after = before.clone();
            after.gaps = gaps(before, &of_region, report, delivered, now);
            after.undelivered = undelivered(before, &of_region, delivered);
            if !is_unseen(region, report) {
                let was_delivered = |team: &str| delivered.contains(team);
                after.notified = notifications_about(region, before, &of_region, report, delivered, now);
                after.shadow_marks = shadow_marks(region, report, was_delivered);
                after.unwritten_marks = unwritten_marks(region, report, was_delivered);
                after.void_marks = void_marks(region, report);
                remember_volumes(&mut after, region, report);
                if is_half_seen(region, report) {
                    let seen: BTreeSet<&ResourceId> =
                        resource_memories(region, report).map(|(resource, _)| resource).collect();
                    after.keep_of_unseen(before, &seen);
                }
            }
            for one in late.iter().filter(|one| one.region == *region) {
                after.undelivered.push(to_undelivered(one, UndeliveredCause::Late));
                remember_state(&mut after.notified, one, now);
                after.gaps.extend(state_of(one, now).filter(|_| one.resource.is_none()));
            }
            (region.clone(), after)
        })
        .collect()
}

/// In a region that was not observed nothing was judged, unless budgets are remembered with it.
fn is_unseen(region: &Region, report: &Report) -> bool {
    let is_of_budgets = |(step, _): &(Step, _)| matches!(step.action, Action::Budget(_));
    if resource_memories(region, report).next().is_some() && report.steps.iter().any(is_of_budgets) {
        return false;
    }
    !report.regions.contains(region) || report.gaps.iter().any(|gap| gap.region == *region && gap.kind.hides_region())
}

/// Whether existing resources may be missing from the observation.
fn is_half_seen(region: &Region, report: &Report) -> bool {
    report.of_chosen_only || report.gaps.iter().any(|gap| gap.region == *region && gap.kind.hides_resources())
}

fn remember_volumes(after: &mut NotificationLog, region: &Region, report: &Report) {
    after.first_sights.clear();
    after.seen_on.clear();
    after.hosts.clear();
    for (volume, resource_memory) in resource_memories(region, report) {
        after.first_sights.extend(resource_memory.first_sight.map(|at| (volume.clone(), at)));
        if let Some((host, tags)) = &resource_memory.last_host {
            after.seen_on.insert(volume.clone(), host.clone());
            after.hosts.entry(host.clone()).or_insert_with(|| tags.clone());
        }
    }
}

fn gaps(
    before: &NotificationLog,
    notifications: &[&Notification],
    report: &Report,
    delivered: &BTreeSet<String>,
    now: Timestamp,
) -> BTreeMap<NotificationKey, NotificationEntry> {
    let stands = |topic: &NotificationKey| report.gaps.iter().any(|gap| *topic == NotificationKey::gap(gap));
    let mut gaps = before.gaps.clone();
    gaps.retain(|topic, told| report.of_chosen_only || stands(topic) || now.duration_since(told.at) < REPEAT_AFTER);
    let new = notifications.iter().filter(|one| one.resource.is_none() && delivered.contains(&one.team));
    gaps.extend(new.filter_map(|one| state_of(one, now)));
    gaps
}

fn undelivered(
    before: &NotificationLog,
    notifications: &[&Notification],
    delivered: &BTreeSet<String>,
) -> Vec<UndeliveredParagraph> {
    let new = notifications.iter().filter(|one| one.happened).map(|one| to_undelivered(one, UndeliveredCause::Refused));
    let all = before.undelivered.iter().cloned().chain(new).filter(|one| !delivered.contains(&one.team));
    let mut all: Vec<UndeliveredParagraph> = all.collect();
    all.drain(..all.len().saturating_sub(UNDELIVERED_MAX));
    all
}

fn to_undelivered(notification: &Notification, cause: UndeliveredCause) -> UndeliveredParagraph {
    let Notification { team, severity, text, .. } = notification;
    let text = text.shortened(UNDELIVERED_CHARACTERS_MAX);
    UndeliveredParagraph { team: team.clone(), severity: *severity, text, cause }
}

type ResourceNotifications = BTreeMap<ResourceId, BTreeMap<NotificationKey, NotificationEntry>>;

fn remember_state(told: &mut ResourceNotifications, notification: &Notification, now: Timestamp) {
    if let (Some(resource), Some((topic, said))) = (&notification.resource, state_of(notification, now)) {
        told.entry(resource.clone()).or_default().insert(topic, said);
    }
}

fn notifications_about(
    region: &Region,
    before: &NotificationLog,
    notifications: &[&Notification],
    report: &Report,
    delivered: &BTreeSet<String>,
    now: Timestamp,
) -> ResourceNotifications {
    let mut told = ResourceNotifications::new();
    for (resource, resource_memory) in resource_memories(region, report) {
        let Some(topics) = before.notified.get(resource) else {
            continue;
        };
        let standing: BTreeMap<NotificationKey, NotificationEntry> = topics
            .iter()
            .filter(|(topic, _)| resource_memory.active_keys.contains(topic))
            .map(|(topic, told)| (topic.clone(), told.clone()))
            .collect();
        if !standing.is_empty() {
            told.insert(resource.clone(), standing);
        }
    }
    for one in notifications.iter().filter(|one| one.counts_as_sent(delivered)) {
        remember_state(&mut told, one, now);
    }
    told
}

fn state_of(notification: &Notification, now: Timestamp) -> Option<(NotificationKey, NotificationEntry)> {
    match &notification.kind {
        NotificationKind::State { topic, what, .. } => Some((topic.clone(), NotificationEntry::new(now, what))),
        NotificationKind::Event | NotificationKind::Announcement => None,
    }
}

fn resource_memories<'a>(
    region: &'a Region,
    report: &'a Report,
) -> impl Iterator<Item = (&'a ResourceId, &'a ResourceMemory)> {
    let of_steps = report.steps.iter().map(|(step, _)| (&step.target, &step.memory));
    let of_skipped = report.skipped.iter().map(|skipped| (&skipped.target, &skipped.memory));
    of_steps
        .chain(of_skipped)
        .filter(move |(target, _)| target.region == *region)
        .map(|(target, resource_memory)| (&target.resource, resource_memory))
}

/// The announcements from before, and the present ones to teams whose messages were delivered.
fn shadow_marks(region: &Region, report: &Report, was_delivered: impl Fn(&str) -> bool) -> BTreeMap<ResourceId, Mark> {
    let before = resource_memories(region, report)
        .filter_map(|(resource, resource_memory)| Some((resource.clone(), resource_memory.shadow_mark.clone()?)));
    let now = announced(region, report, Mode::Observe, was_delivered)
        .map(|(step, _, mark)| (step.target.resource.clone(), mark.clone()));
    before.chain(now).collect()
}

fn void_marks(region: &Region, report: &Report) -> BTreeMap<ResourceId, Mark> {
    resource_memories(region, report)
        .filter_map(|(resource, resource_memory)| Some((resource.clone(), resource_memory.void_mark.clone()?)))
        .collect()
}

/// The announcements that could not be written on their resource.
fn unwritten_marks(
    region: &Region,
    report: &Report,
    was_delivered: impl Fn(&str) -> bool,
) -> BTreeMap<ResourceId, Mark> {
    let mut marks: BTreeMap<ResourceId, Mark> = resource_memories(region, report)
        .filter_map(|(resource, resource_memory)| Some((resource.clone(), resource_memory.unwritten_mark.clone()?)))
        .collect();
    for (step, outcome, mark) in announced(region, report, Mode::Enforce, was_delivered) {
        if outcome == OutcomeKind::Done {
            marks.remove(&step.target.resource);
        } else {
            marks.insert(step.target.resource.clone(), mark.clone());
        }
    }
    // A resource that was stopped or deleted needs no mark.
    for (step, _) in report
        .steps
        .iter()
        .filter(|(step, outcome)| step.action.stops_or_deletes() && outcome.kind == OutcomeKind::Done)
    {
        marks.remove(&step.target.resource);
    }
    marks
}

fn announced<'a>(
    region: &'a Region,
    report: &'a Report,
    mode: Mode,
    was_delivered: impl Fn(&str) -> bool,
) -> impl Iterator<Item = (&'a Step, OutcomeKind, &'a Mark)> {
    report.steps.iter().filter_map(move |(step, outcome)| {
        let mark = step.action.announced_mark()?;
        let is_notified = step.already_notified || was_delivered(&super::team_attribute(&step.target));
        (step.target.region == *region && step.mode == mode && is_notified).then_some((step, outcome.kind, mark))
    })
}
