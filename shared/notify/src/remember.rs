//! The log of notifications after a run.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use model::capacity_reservation::CapacityReservation;
use model::channels::Audience;
use model::file_system::LustreFileSystem;
use model::id::{Region, ResourceId};
use model::instance::Tags;
use model::mark::{AnnouncedAction, whole_second};
use model::mode::Mode;
use model::notification_log::{
    CarriedOut, Headline, Notification, NotificationEntry, NotificationKey, NotificationKind, NotificationLog,
    NotificationLogs, REPEAT_AFTER, ResourceRecord, Severity, UndeliveredCause, UndeliveredParagraph,
};
use model::observation::GapKind;
use model::refusal::Refusal;
use model::rule::{ResourceAction, Rule};
use model::subscriptions::{KnownReaders, MessageAttributes, Readership, TopicSubscriptions};
use plan::report::{OutcomeKind, Report, StepOutcome};
use plan::{
    Action, Announcement, ExpiryAnnouncement, InstanceAction, Refusable, ResourceMemory, SageMakerAction,
    SnapshotAction, Step, Target, VolumeAction,
};

use crate::local_disk::{ASK_AGAIN_AFTER, choice_key};
use crate::{AcceptedNotifications, Delivery};

/// Most undelivered notifications of one region, the newest. A team without messages for longer finds the rest in the audit records.
const UNDELIVERED_MAX: usize = 1000;

/// Length of one paragraph: only tags make one longer.
const UNDELIVERED_CHARACTERS_MAX: usize = 2000;

/// Within this time EC2 shows a terminated instance, and `run-jobs` asks who ended it (EC2 user guide, "Terminate your instance").
const CARRIED_OUT_REMEMBERED: SignedDuration = SignedDuration::from_hours(2);

/// The logs after a run. The `late` notifications are undelivered, and count as sent.
///
/// The log keeps everything about a region that was not observed, and about resources that a person did not choose. About an observed
/// resource it keeps what its `ResourceMemory` lists, and what this run announced and carried out; about one that is gone, nothing but a
/// recent termination.
#[must_use]
pub fn update_log(
    memory: &NotificationLogs,
    report: &Report,
    notifications: &[Notification],
    late: &[Notification],
    delivery: &Delivery,
    subscriptions: Option<&TopicSubscriptions>,
    now: Timestamp,
) -> NotificationLogs {
    let accepted = AcceptedNotifications::new(notifications, delivery);
    memory
        .iter()
        .map(|(region, before)| {
            let region_notifications: Vec<&Notification> =
                notifications.iter().filter(|one| one.region == *region).collect();
            let mut after = before.clone();
            after.gaps = gaps(before, &region_notifications, report, delivery, now);
            after.undelivered = undelivered(before, &region_notifications, report, delivery);
            after.undelivered.extend(delivery.missed(region, memory));
            keep_newest(&mut after.undelivered);
            if !is_unseen(region, report) {
                (after.resources, after.hosts) = records(region, before, report);
                for one in region_notifications.iter().filter(|one| delivery.is_settled(one)) {
                    remember_state(&mut after, one, now);
                }
                for (step, outcome) in report.steps.iter().filter(|(step, _)| step.target.region == *region) {
                    remember_step(
                        &mut after,
                        report,
                        (step, outcome.kind),
                        accepted.has_announcement(step),
                        subscriptions,
                    );
                    if !is_unsent(&step.target, &region_notifications, delivery) {
                        remember_refusal(&mut after, report, step, outcome);
                    }
                    keep_uncancelled(&mut after, before, step, outcome.kind);
                }
                let seen: BTreeSet<&ResourceId> =
                    resource_memories(region, report).map(|(resource, _)| resource).collect();
                keep_recent_terminations(&mut after, before, &seen, now);
                after.keep_of_unseen(before, &seen, |unseen| may_exist(unseen, region, report));
            }
            for one in late.iter().filter(|one| one.region == *region) {
                let undelivered = |audience| to_undelivered(one, UndeliveredCause::Late, audience, report);
                after.undelivered.extend(delivery.audiences.iter().copied().map(undelivered));
                remember_state(&mut after, one, now);
                after.gaps.extend(state_entry(one, now).filter(|_| one.resource.is_none()));
            }
            after.resources.retain(|_, record| !record.is_empty());
            after.readers = readers(before, &after, subscriptions, now);
            (region.clone(), after)
        })
        .collect()
}

/// The logs with what this run is about to carry out: they are written before the first call, so that a run that is cut off leaves a
/// record. Only the regions that change.
#[must_use]
pub fn log_due_actions(memory: &NotificationLogs, report: &Report) -> NotificationLogs {
    let mut ahead = NotificationLogs::new();
    // A step with an error before it was tried is not carried out.
    for (step, _) in report.steps.iter().filter(|(_, outcome)| outcome.error.is_none()) {
        let Some(before) = memory.get(&step.target.region).filter(|_| step.is_due()) else { continue };
        if carried_out(step, report.at).is_none() && !requests_snapshot(step) {
            continue;
        }
        let log = ahead.entry(step.target.region.clone()).or_insert_with(|| before.clone());
        let record = log.resources.entry(step.target.resource.clone()).or_default();
        record.since = step.memory.record.since;
        note_action(record, step, report);
    }
    ahead
}

/// The stop or termination that a step carries out.
fn carried_out(step: &Step, at: Timestamp) -> Option<CarriedOut> {
    let action = step.action.ending().filter(|_| {
        matches!(
            step.action,
            Action::Instance(_, InstanceAction::Stop { .. } | InstanceAction::Terminate { .. })
                | Action::SageMaker(_, SageMakerAction::Stop { .. })
        )
    })?;
    Some(CarriedOut { rule: step.evidence.rule(), action, at: whole_second(at) })
}

const fn requests_snapshot(step: &Step) -> bool {
    matches!(step.action, Action::Volume(_, VolumeAction::Snapshot { .. }))
}

fn note_action(record: &mut ResourceRecord, step: &Step, report: &Report) {
    if requests_snapshot(step) {
        record.add_snapshot_run(report.run.clone());
    }
    record.carried_out = carried_out(step, report.at).or(record.carried_out);
}

/// The readers to remember: none where nothing is announced in enforce mode.
fn readers(
    before: &NotificationLog,
    after: &NotificationLog,
    subscriptions: Option<&TopicSubscriptions>,
    now: Timestamp,
) -> KnownReaders {
    let announced = after.resources.values().flat_map(|record| record.announced.values());
    let enforced = announced.filter(|announced| announced.mode == Mode::Enforce);
    let Some(last) = enforced.map(|announced| announced.at).max() else { return KnownReaders::new() };
    let remember = |all: &TopicSubscriptions| all.readers_to_remember(&before.readers, last, whole_second(now));
    subscriptions.map_or_else(|| before.readers.clone(), remember)
}

/// The records of the observed resources, without this run's announcements and actions.
fn records(
    region: &Region,
    before: &NotificationLog,
    report: &Report,
) -> (BTreeMap<ResourceId, ResourceRecord>, BTreeMap<ResourceId, Tags>) {
    let (mut records, mut hosts) = (BTreeMap::new(), BTreeMap::new());
    let region_steps = report.steps.iter().filter(|(step, _)| step.target.region == *region);
    // A failure is notified once a day, also if its step follows from no violated rule.
    let undone: BTreeMap<&ResourceId, NotificationKey> =
        region_steps.map(|(step, _)| (&step.target.resource, NotificationKey::undone(step.evidence.rule()))).collect();
    for (resource, ResourceMemory { active_keys, record, host_tags }) in resource_memories(region, report) {
        if let (Some(host), Some(tags)) = (&record.last_host, host_tags) {
            hosts.entry(host.clone()).or_insert_with(|| tags.clone());
        }
        let notified = before.record(resource).into_iter().flat_map(|record| &record.notified);
        let standing =
            notified.filter(|(topic, _)| active_keys.contains(topic) || undone.get(resource) == Some(*topic));
        let notified = standing.map(|(topic, entry)| (topic.clone(), entry.clone())).collect();
        records.insert(resource.clone(), ResourceRecord { notified, ..record.clone() });
    }
    (records, hosts)
}

/// Adds a step to the record of its resource. `is_notified`: SNS accepted its announcement, now or earlier.
fn remember_step(
    log: &mut NotificationLog,
    report: &Report,
    (step, outcome): (&Step, OutcomeKind),
    is_notified: bool,
    subscriptions: Option<&TopicSubscriptions>,
) {
    let resource = &step.target.resource;
    let announced_at = is_notified.then(|| whole_second(report.at));
    // Also where the mark could not be written: the next run writes it.
    if let Some(actions) = step.action.announced_actions().filter(|_| is_notified) {
        log.resources.entry(resource.clone()).or_default().announced.extend(actions);
    }
    match (&step.action, outcome) {
        // Where the answer was lost, there may be a snapshot.
        (Action::Volume(_, VolumeAction::Snapshot { .. }), OutcomeKind::Done | OutcomeKind::Failed) => {
            note_action(log.resources.entry(resource.clone()).or_default(), step, report);
        }
        (Action::Volume(_, VolumeAction::Delete { expiring, at, kept_until, .. }), OutcomeKind::Done) => {
            let expiry = ExpiryAnnouncement { deleted_at: *at, kept_until: *kept_until };
            // The message about the deletion is the announcement. Where nobody reads it, a later run announces the expiry by itself.
            let announced_at = announced_at.filter(|_| is_read(step, Severity::Action, report, subscriptions));
            for snapshot in expiring {
                let Some(record) = log.resources.get_mut(snapshot) else { continue };
                announce_expiry(record, expiry, announced_at, Mode::Enforce);
            }
        }
        (Action::Snapshot(_, SnapshotAction::AnnounceExpiry(expiry)), OutcomeKind::Done | OutcomeKind::Observed)
            if !step.already_notified =>
        {
            let Some(record) = log.resources.get_mut(resource) else { return };
            announce_expiry(record, *expiry, announced_at, step.mode);
        }
        (Action::Instance(_, InstanceAction::Start), OutcomeKind::Done) => {
            log.resources.entry(resource.clone()).or_default().start_requested = Some(whole_second(report.at));
        }
        (_, OutcomeKind::Done) => {
            let Some(done) = carried_out(step, report.at) else { return };
            let record = log.resources.entry(resource.clone()).or_default();
            record.carried_out = Some(done);
            record.announced.clear();
        }
        _ => {}
    }
}

/// Keeps what could not be called off because AWS did not find the resource: if it is there all the same, the next run calls it off.
fn keep_uncancelled(after: &mut NotificationLog, before: &NotificationLog, step: &Step, outcome: OutcomeKind) {
    let is_unmark = matches!(step.action.announcement(), Some(Announcement::Unmark { .. }));
    if let Some(record) = before.record(&step.target.resource)
        && is_unmark
        && outcome == OutcomeKind::AlreadyGone
    {
        after.resources.entry(step.target.resource.clone()).or_default().announced.clone_from(&record.announced);
    }
}

/// Returns `true` if SNS did not accept the notification about this resource. The next run then meets the refusal again, and sends it.
fn is_unsent(target: &Target, notifications: &[&Notification], delivery: &Delivery) -> bool {
    let mut about_it = notifications.iter().filter(|one| one.resource.as_ref() == Some(&target.resource));
    about_it.any(|one| !delivery.is_settled(one))
}

/// Records what AWS refused, and forgets that once it was done. What it refuses to a person who chose the resource, it may allow a run.
fn remember_refusal(log: &mut NotificationLog, report: &Report, step: &Step, outcome: &StepOutcome) {
    let at = whole_second(report.at);
    let refusal = outcome.refusal.map(|reason| Refusal { reason, at });
    let is_answered = outcome.kind == OutcomeKind::Done || refusal.is_some();
    let is_of_run = is_answered && step.is_due() && !report.has_only_chosen_resources;
    let (Some(refusable), true) = (step.refusable(), is_of_run) else { return };
    let Some(record) = log.resources.get_mut(&step.target.resource) else { return };
    match (refusable, refusal) {
        (Refusable::Label, refusal) => record.label_refused = refusal,
        (Refusable::Ending(ending), Some(refusal)) => {
            record.refused.insert(ending, refusal);
        }
        (Refusable::Ending(ending), None) => {
            record.refused.remove(&ending);
        }
    }
}

/// Returns `true` if somebody reads a message of this severity about the resource of the step.
fn is_read(step: &Step, severity: Severity, report: &Report, subscriptions: Option<&TopicSubscriptions>) -> bool {
    let team = crate::team_attribute(&step.target);
    let attributes = MessageAttributes { team: &team, function: report.function, severity };
    subscriptions.is_none_or(|all| matches!(all.message_readers(&attributes), Readership::Readers(_)))
}

fn announce_expiry(
    record: &mut ResourceRecord,
    expiry: ExpiryAnnouncement,
    announced_at: Option<Timestamp>,
    mode: Mode,
) {
    if let Some(safety) = &mut record.safety {
        safety.deleted_at = Some(expiry.deleted_at);
    }
    if let Some(at) = announced_at {
        let announced = AnnouncedAction { ending: ResourceAction::Delete, mode, at, deadline: expiry.kept_until };
        record.announced.insert(Rule::Expired, announced);
    }
}

/// Runs of `reap-instances` do not see terminated instances.
fn keep_recent_terminations(
    after: &mut NotificationLog,
    before: &NotificationLog,
    seen: &BTreeSet<&ResourceId>,
    now: Timestamp,
) {
    let is_recent = |record: &ResourceRecord| {
        record.carried_out.is_some_and(|done| now.duration_since(done.at).abs() < CARRIED_OUT_REMEMBERED)
    };
    for (resource, record) in
        before.resources.iter().filter(|(resource, record)| !seen.contains(resource) && is_recent(record))
    {
        let lasting =
            ResourceRecord { since: record.since, carried_out: record.carried_out, ..ResourceRecord::default() };
        after.resources.entry(resource.clone()).or_insert(lasting);
    }
}

/// Returns `true` for a region that was not observed, where nothing was judged, unless budgets are remembered with it.
fn is_unseen(region: &Region, report: &Report) -> bool {
    let is_of_budgets = |(step, _): &(Step, _)| matches!(step.action, Action::Budget(_));
    if resource_memories(region, report).next().is_some() && report.steps.iter().any(is_of_budgets) {
        return false;
    }
    !report.regions.contains(region) || report.gaps.iter().any(|gap| gap.region == *region && gap.kind.hides_region())
}

/// Returns `true` if a resource that this run did not judge may still exist.
fn may_exist(unseen: &ResourceId, region: &Region, report: &Report) -> bool {
    let hides = |kind: GapKind| {
        kind.hides_resources()
            || kind == GapKind::Reservations && unseen.as_str().starts_with(CapacityReservation::ID_PREFIX)
            || kind == GapKind::FileSystems && unseen.as_str().starts_with(LustreFileSystem::ID_PREFIX)
    };
    report.has_only_chosen_resources || report.gaps.iter().any(|gap| gap.region == *region && hides(gap.kind))
}

fn gaps(
    before: &NotificationLog,
    notifications: &[&Notification],
    report: &Report,
    delivery: &Delivery,
    now: Timestamp,
) -> BTreeMap<NotificationKey, NotificationEntry> {
    let stands = |topic: &NotificationKey| report.gaps.iter().any(|gap| *topic == NotificationKey::gap(gap));
    let mut gaps = before.gaps.clone();
    gaps.retain(|topic, entry| {
        report.has_only_chosen_resources
            || stands(topic)
            || now.duration_since(entry.at) < if *topic == choice_key() { ASK_AGAIN_AFTER } else { REPEAT_AFTER }
    });
    let new = notifications.iter().filter(|one| one.resource.is_none() && delivery.is_delivered(one));
    gaps.extend(new.filter_map(|one| state_entry(one, now)));
    gaps
}

fn undelivered(
    before: &NotificationLog,
    notifications: &[&Notification],
    report: &Report,
    delivery: &Delivery,
) -> Vec<UndeliveredParagraph> {
    let still = before.undelivered.iter().filter(|one| delivery.still_owes(one)).cloned();
    let happened = notifications.iter().filter(|one| one.happened && !delivery.is_delivered(one));
    let new = happened.flat_map(|one| delivery.undelivered(one, report)).map(|(_, one)| one);
    still.chain(new).collect()
}

fn keep_newest(undelivered: &mut Vec<UndeliveredParagraph>) {
    undelivered.drain(..undelivered.len().saturating_sub(UNDELIVERED_MAX));
}

pub(crate) fn to_undelivered(
    notification: &Notification,
    cause: UndeliveredCause,
    audience: Audience,
    report: &Report,
) -> UndeliveredParagraph {
    let Notification { team, severity, text, headline, .. } = notification;
    let text = text.shortened(UNDELIVERED_CHARACTERS_MAX);
    let headline = Headline::describe(&[headline], &BTreeSet::from([team.as_str()]), &report.zoned_at());
    UndeliveredParagraph { team: team.clone(), severity: *severity, text, headline, cause, audience }
}

fn remember_state(log: &mut NotificationLog, notification: &Notification, now: Timestamp) {
    if let (Some(resource), Some((topic, entry))) = (&notification.resource, state_entry(notification, now)) {
        log.resources.entry(resource.clone()).or_default().notified.insert(topic, entry);
    }
}

fn state_entry(notification: &Notification, now: Timestamp) -> Option<(NotificationKey, NotificationEntry)> {
    match &notification.kind {
        NotificationKind::State { topic, what, .. } => Some((topic.clone(), NotificationEntry::new(now, what))),
        NotificationKind::Event | NotificationKind::Announcement => None,
    }
}

fn resource_memories<'a>(
    region: &'a Region,
    report: &'a Report,
) -> impl Iterator<Item = (&'a ResourceId, &'a ResourceMemory)> {
    let from_steps = report.steps.iter().map(|(step, _)| (&step.target, &step.memory));
    let from_skipped = report.skipped.iter().map(|skipped| (&skipped.target, &skipped.memory));
    from_steps
        .chain(from_skipped)
        .filter(move |(target, _)| target.region == *region)
        .map(|(target, resource_memory)| (&target.resource, resource_memory))
}
