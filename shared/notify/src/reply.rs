//! Links by which the readers of an announcement answer it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use model::id::{Region, ResourceId};
use model::mark::whole_second;
use model::mode::Mode;
use model::notification_log::{Notification, NotificationKind};
use model::reply_link::{LinkRecipient, ReplyLink};
use plan::report::Report;
use plan::{Action, Step};

/// The address of the link of each resource that has one.
pub type ReplyUrls = BTreeMap<(Region, ResourceId), String>;

/// Label of a link's line.
const LABEL: &str = "Keep it, or undo it later, by one click";

/// The links to write for the announcements of a run in enforce mode, the earliest deadline first.
#[must_use]
pub fn reply_links(report: &Report, notifications: &[Notification], topic_arn: &str) -> Vec<ReplyLink> {
    let is_announced = |one: &&Notification| {
        one.kind == NotificationKind::Announcement && one.mode == Some(Mode::Enforce) && one.resource.is_some()
    };
    let announced: BTreeMap<_, &Notification> =
        notifications.iter().filter(is_announced).map(|one| ((&one.region, one.resource.as_ref()), one)).collect();
    let link = |step: &Step| {
        let notification = announced.get(&(&step.target.region, Some(&step.target.resource)))?;
        link(report, step, notification, topic_arn)
    };
    let mut links: Vec<ReplyLink> = report.steps.iter().filter_map(|(step, _)| link(step)).collect();
    links.sort_by_key(|link| link.deadline);
    links
}

fn link(report: &Report, step: &Step, notification: &Notification, topic_arn: &str) -> Option<ReplyLink> {
    let rule = step.evidence.rule();
    let announced = step.action.announced_actions()?.get(&rule)?;
    let since = match &step.action {
        Action::Instance(instance, _) => instance.launched_at,
        Action::Volume(volume, _) => volume.created_at,
        Action::SageMaker(resource, _) => resource.created_at,
        Action::Snapshot(..) | Action::Budget(_) => return None,
    };
    Some(ReplyLink {
        region: step.target.region.clone(),
        resource: step.target.resource.clone(),
        since: whole_second(since),
        what: step.target.what.clone(),
        name: step.target.name.clone(),
        owner: step.target.owner.clone(),
        action: announced.ending,
        rule,
        why: step.evidence.explain(),
        loses: notification.loses.clone(),
        deadline: announced.deadline,
        sent_to: LinkRecipient {
            function: report.function.to_owned(),
            team: notification.team.clone(),
            topic: topic_arn.to_owned(),
            at: report.at,
        },
        expires_at: ReplyLink::expiry(announced.deadline),
        used: None,
    })
}

/// The notifications with their links, for messages. Events have none: a bus may keep them, and a link is a secret.
#[must_use]
pub fn with_links<'a>(notifications: &'a [Notification], urls: &ReplyUrls) -> Cow<'a, [Notification]> {
    if urls.is_empty() {
        return Cow::Borrowed(notifications);
    }
    let add = |one: &Notification| {
        let key = one.resource.clone().map(|resource| (one.region.clone(), resource));
        let is_announcement = one.kind == NotificationKind::Announcement;
        match key.and_then(|key| urls.get(&key)).filter(|_| is_announcement) {
            Some(url) => Notification { text: one.text.clone().with_command(LABEL, url), ..one.clone() },
            None => one.clone(),
        }
    };
    notifications.iter().map(add).collect()
}
