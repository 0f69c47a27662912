//! What stays remembered after a run.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use model::fault::shortened;
use model::id::{Region, ResourceId};
use model::mark::Mark;
use model::mode::Mode;
use model::notification_log::{
    Notification, NotificationEntry, NotificationKey, NotificationKind, NotificationLog, NotificationLogs,
    REPEAT_AFTER, UndeliveredParagraph,
};
use plan::report::{OutcomeKind, Report};
use plan::{Action, ResourceMemory, Step};

/// Of one region, the newest: whoever cannot be told for so long finds the rest in the audit records.
const OWED_MAX: usize = 1000;

/// Of one paragraph: what is longer was made so by tags.
const OWED_CHARACTERS_MAX: usize = 2000;

/// The memory after a run, of which the messages to the teams in `delivered` were taken. What came too `late` for them is
/// owed, and counts as told.
///
/// A region that was not seen keeps what it had, and so does a resource that was not among the chosen ones. Of a resource that
/// was seen stays what its memo says; of one that is gone, nothing.
#[must_use]
pub fn update_log(
    memory: &NotificationLogs,
    report: &Report,
    news: &[Notification],
    late: &[Notification],
    delivered: &BTreeSet<String>,
    now: Timestamp,
) -> NotificationLogs {
    memory
        .iter()
        .map(|(region, before)| {
            let of_region: Vec<&Notification> = news.iter().filter(|one| one.region == *region).collect();
            let mut after = before.clone();
            after.gaps = gaps(before, &of_region, report, delivered, now);
            after.undelivered = owed(before, &of_region, delivered);
            if !is_unseen(region, report) {
                let told = |team: &str| delivered.contains(team);
                after.notified = notifications_about(region, before, &of_region, report, delivered, now);
                after.shadow_marks = shadow_marks(region, report, told);
                after.unwritten_marks = unwritten_marks(region, report, told);
                after.void_marks = void_marks(region, report);
                remember_volumes(&mut after, region, report);
                if is_half_seen(region, report) {
                    let seen: BTreeSet<&ResourceId> = memos(region, report).map(|(resource, _)| resource).collect();
                    after.keep_of_unseen(before, &seen);
                }
            }
            for one in late.iter().filter(|one| one.region == *region) {
                after.undelivered.push(to_undelivered(one));
                remember_state(&mut after.notified, one, now);
                after.gaps.extend(state_of(one, now).filter(|_| one.resource.is_none()));
            }
            (region.clone(), after)
        })
        .collect()
}

/// Of a region that was not looked at, nothing was judged, unless it is where budgets are remembered.
fn is_unseen(region: &Region, report: &Report) -> bool {
    let is_of_budgets = |(step, _): &(Step, _)| matches!(step.action, Action::Budget(_));
    if memos(region, report).next().is_some() && report.steps.iter().any(is_of_budgets) {
        return false;
    }
    !report.regions.contains(region) || report.gaps.iter().any(|gap| gap.region == *region && gap.kind.hides_region())
}

/// Something that was there may be missing from what was seen.
fn is_half_seen(region: &Region, report: &Report) -> bool {
    report.of_chosen_only || report.gaps.iter().any(|gap| gap.region == *region && gap.kind.hides_resources())
}

fn remember_volumes(after: &mut NotificationLog, region: &Region, report: &Report) {
    after.first_sights.clear();
    after.seen_on.clear();
    after.hosts.clear();
    for (volume, memo) in memos(region, report) {
        after.first_sights.extend(memo.first_sight.map(|at| (volume.clone(), at)));
        if let Some((host, tags)) = &memo.last_host {
            after.seen_on.insert(volume.clone(), host.clone());
            after.hosts.entry(host.clone()).or_insert_with(|| tags.clone());
        }
    }
}

fn gaps(
    before: &NotificationLog,
    news: &[&Notification],
    report: &Report,
    delivered: &BTreeSet<String>,
    now: Timestamp,
) -> BTreeMap<NotificationKey, NotificationEntry> {
    let stands = |topic: &NotificationKey| report.gaps.iter().any(|gap| *topic == NotificationKey::gap(gap));
    let mut gaps = before.gaps.clone();
    gaps.retain(|topic, told| report.of_chosen_only || stands(topic) || now.duration_since(told.at) < REPEAT_AFTER);
    let new = news.iter().filter(|one| one.resource.is_none() && delivered.contains(&one.team));
    gaps.extend(new.filter_map(|one| state_of(one, now)));
    gaps
}

fn owed(before: &NotificationLog, news: &[&Notification], delivered: &BTreeSet<String>) -> Vec<UndeliveredParagraph> {
    let new = news.iter().filter(|one| one.happened).map(|one| to_undelivered(one));
    let all = before.undelivered.iter().cloned().chain(new).filter(|owed| !delivered.contains(&owed.team));
    let mut all: Vec<UndeliveredParagraph> = all.collect();
    all.drain(..all.len().saturating_sub(OWED_MAX));
    all
}

fn to_undelivered(news: &Notification) -> UndeliveredParagraph {
    let text = shortened(&news.text, OWED_CHARACTERS_MAX);
    UndeliveredParagraph { team: news.team.clone(), severity: news.severity, text }
}

type ResourceNotifications = BTreeMap<ResourceId, BTreeMap<NotificationKey, NotificationEntry>>;

fn remember_state(told: &mut ResourceNotifications, news: &Notification, now: Timestamp) {
    if let (Some(resource), Some((topic, said))) = (&news.resource, state_of(news, now)) {
        told.entry(resource.clone()).or_default().insert(topic, said);
    }
}

fn notifications_about(
    region: &Region,
    before: &NotificationLog,
    news: &[&Notification],
    report: &Report,
    delivered: &BTreeSet<String>,
    now: Timestamp,
) -> ResourceNotifications {
    let mut told = ResourceNotifications::new();
    for (resource, memo) in memos(region, report) {
        let Some(topics) = before.notified.get(resource) else {
            continue;
        };
        let standing: BTreeMap<NotificationKey, NotificationEntry> = topics
            .iter()
            .filter(|(topic, _)| memo.active_keys.contains(topic))
            .map(|(topic, told)| (topic.clone(), told.clone()))
            .collect();
        if !standing.is_empty() {
            told.insert(resource.clone(), standing);
        }
    }
    // What is owed counts as told.
    for one in news.iter().filter(|one| one.happened || delivered.contains(&one.team)) {
        remember_state(&mut told, one, now);
    }
    told
}

fn state_of(news: &Notification, now: Timestamp) -> Option<(NotificationKey, NotificationEntry)> {
    match &news.kind {
        NotificationKind::State { topic, what, .. } => Some((topic.clone(), NotificationEntry::new(now, what))),
        NotificationKind::Event | NotificationKind::Announcement => None,
    }
}

fn memos<'a>(region: &'a Region, report: &'a Report) -> impl Iterator<Item = (&'a ResourceId, &'a ResourceMemory)> {
    let of_steps = report.steps.iter().map(|(step, _)| (&step.target, &step.memory));
    let of_spared = report.skipped.iter().map(|skipped| (&skipped.target, &skipped.memory));
    of_steps
        .chain(of_spared)
        .filter(move |(target, _)| target.region == *region)
        .map(|(target, memo)| (&target.resource, memo))
}

/// What was announced before, and what was announced now to a team that heard it.
fn shadow_marks(region: &Region, report: &Report, told: impl Fn(&str) -> bool) -> BTreeMap<ResourceId, Mark> {
    let before =
        memos(region, report).filter_map(|(resource, memo)| Some((resource.clone(), memo.shadow_mark.clone()?)));
    let now = announced(region, report, Mode::Observe, told)
        .map(|(step, _, mark)| (step.target.resource.clone(), mark.clone()));
    before.chain(now).collect()
}

fn void_marks(region: &Region, report: &Report) -> BTreeMap<ResourceId, Mark> {
    memos(region, report).filter_map(|(resource, memo)| Some((resource.clone(), memo.void_mark.clone()?))).collect()
}

/// What was announced, but could not be written on its resource.
fn unwritten_marks(region: &Region, report: &Report, told: impl Fn(&str) -> bool) -> BTreeMap<ResourceId, Mark> {
    let mut marks: BTreeMap<ResourceId, Mark> = memos(region, report)
        .filter_map(|(resource, memo)| Some((resource.clone(), memo.unwritten_mark.clone()?)))
        .collect();
    for (step, outcome, mark) in announced(region, report, Mode::Enforce, told) {
        if outcome == OutcomeKind::Done {
            marks.remove(&step.target.resource);
        } else {
            marks.insert(step.target.resource.clone(), mark.clone());
        }
    }
    // What has ended needs no mark any more, in this life.
    for (step, _) in
        report.steps.iter().filter(|(step, outcome)| step.action.is_end() && outcome.kind == OutcomeKind::Done)
    {
        marks.remove(&step.target.resource);
    }
    marks
}

fn announced<'a>(
    region: &'a Region,
    report: &'a Report,
    mode: Mode,
    told: impl Fn(&str) -> bool,
) -> impl Iterator<Item = (&'a Step, OutcomeKind, &'a Mark)> {
    report.steps.iter().filter_map(move |(step, outcome)| {
        let mark = step.action.announced_mark()?;
        let heard = step.already_notified || told(&super::team_attribute(&step.target));
        (step.target.region == *region && step.mode == mode && heard).then_some((step, outcome.kind, mark))
    })
}
