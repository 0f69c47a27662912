//! Links by which the readers of an announcement answer it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use model::mark::whole_second;
use model::mode::Mode;
use model::notification_log::{Notification, NotificationKind};
use model::reply_link::{BoxLink, LinkDocument, LinkRecipient, LinkSubject, ReplyLink};
use plan::report::Report;
use plan::{Action, Step};

/// The address of the link of each subject that has one.
pub type ReplyUrls = BTreeMap<LinkSubject, String>;

/// The links to write for the announcements of a run in enforce mode, the earliest deadline first.
#[must_use]
pub fn reply_links(report: &Report, notifications: &[Notification], topic_arn: &str) -> Vec<LinkDocument> {
    let is_announced = |one: &&Notification| {
        one.kind == NotificationKind::Announcement && one.mode == Some(Mode::Enforce) && one.resource.is_some()
    };
    let announced: BTreeMap<_, &Notification> =
        notifications.iter().filter(is_announced).map(|one| ((&one.region, one.resource.as_ref()), one)).collect();
    let link = |step: &Step| {
        let notification = announced.get(&(&step.target.region, Some(&step.target.resource)))?;
        link(step, recipient(report, notification, topic_arn), notification)
    };
    let of_boxes = notifications.iter().filter_map(|one| {
        let ending = one.facts.ending_box.clone()?;
        Some((ending.job.clone(), BoxLink { ending, sent_to: recipient(report, one, topic_arn), used: None }))
    });
    // Two messages of a run about one box have the same link.
    let of_boxes: BTreeMap<String, BoxLink> = of_boxes.collect();
    let of_resources = report.steps.iter().filter_map(|(step, _)| link(step)).map(LinkDocument::Resource);
    let mut links: Vec<LinkDocument> = of_resources.chain(of_boxes.into_values().map(LinkDocument::Box)).collect();
    links.sort_by_key(LinkDocument::deadline);
    links
}

fn recipient(report: &Report, notification: &Notification, topic_arn: &str) -> LinkRecipient {
    LinkRecipient {
        function: report.function.to_owned(),
        team: notification.team.clone(),
        topic: topic_arn.to_owned(),
        at: report.at,
    }
}

fn link(step: &Step, sent_to: LinkRecipient, notification: &Notification) -> Option<ReplyLink> {
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
        sent_to,
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
        let subject = subject(one);
        match subject.as_ref().and_then(|subject| Some((label(subject), urls.get(subject)?))) {
            Some((label, url)) => Notification { text: one.text.clone().with_command(label, url), ..one.clone() },
            None => one.clone(),
        }
    };
    notifications.iter().map(add).collect()
}

/// The subject of a notification's link, if one was written.
fn subject(notification: &Notification) -> Option<LinkSubject> {
    if let Some(ending) = &notification.facts.ending_box {
        return Some(LinkSubject::Box(ending.job.clone()));
    }
    let resource = notification.resource.clone().filter(|_| notification.kind == NotificationKind::Announcement)?;
    Some(LinkSubject::Resource(notification.region.clone(), resource))
}

/// Label of a link's line.
const fn label(subject: &LinkSubject) -> &'static str {
    match subject {
        LinkSubject::Resource(..) => "Keep it, or undo it later, by one click",
        LinkSubject::Box(_) => "Keep it for 3 hours by one click",
    }
}
