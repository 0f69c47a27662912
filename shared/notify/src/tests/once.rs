//! Notifications that are repeated, and those that are not.

use model::rule::{ResourceAction, Rule};
use model::subscriptions::{Subscription, TopicSubscriptions};

use super::*;

/// The delivery of a run's messages to the teams' topic, which does not accept those of `unreachable` teams.
pub(super) fn deliver(
    report: &Report,
    notifications: &[Notification],
    memory: &NotificationLogs,
    unreachable: &[&str],
) -> Delivery {
    let audiences = [Audience::Team];
    let sent = messages(report, notifications, memory, &audiences, None).into_iter();
    let sent: Vec<(Message, bool)> = sent
        .map(|message| {
            let is_accepted = !unreachable.contains(&message.team.as_str());
            (message, is_accepted)
        })
        .collect();
    let answers = Answers { audiences: &audiences, messages: &sent, unmailed: BTreeSet::new() };
    Delivery::new(answers, report, notifications, Recipients::default())
}

/// The memory after a run whose messages were accepted, except those of `unreachable` teams.
fn after(report: &Report, memory: &NotificationLogs, unreachable: &[&str], now: Timestamp) -> NotificationLogs {
    let notifications = notifications(report, memory, &home(), now);
    let delivery = deliver(report, &notifications, memory, unreachable);
    let late = late_notifications(report, &notifications, memory, &home(), now);
    update_log(memory, report, &notifications, &late, &delivery, None, now)
}

fn gap(region: &str, kind: GapKind) -> Gap {
    let call = "ec2:DescribeInstances".to_owned();
    Gap::new(&region.into(), call, "UnauthorizedOperation", kind)
}

/// Number of notifications about a lasting gap in 5 days of hourly runs.
fn count_notifications(gap: &Gap) -> usize {
    let mut memory = no_memory();
    let mut times = 0;
    for hour in 0..120 {
        let now = time(NOW) + SignedDuration::from_hours(hour);
        let report = Report { gaps: vec![gap.clone()], ..planned(instance(), &busy(), "") };
        times += notifications(&report, &memory, &home(), now).len();
        memory = after(&report, &memory, &[], now);
    }
    times
}

#[test]
fn a_gap_is_notified_once_a_day_and_a_forbidden_region_once() {
    assert_eq!(count_notifications(&gap("eu-west-1", GapKind::Region)), 5);
    assert_eq!(count_notifications(&gap("us-east-1", GapKind::Part)), 5);
    assert_eq!(count_notifications(&gap("eu-west-1", GapKind::ForbiddenRegion)), 1);
}

#[test]
fn a_gap_names_region_call_and_answer_and_goes_to_those_without_a_team() {
    let report = Report { gaps: vec![gap("eu-west-1", GapKind::Region)], ..planned(instance(), &busy(), "") };
    check(&report, "error", &["eu-west-1", "ec2:DescribeInstances", "UnauthorizedOperation"]);
    assert_eq!(message(&report).team, NO_TEAM);
}

#[test]
fn a_refused_configuration_is_notified_once_a_day_and_another_refusal_at_once() {
    let notifies = |memory: &NotificationLogs, refusal: &str, now: &str| {
        config_fault_notification(&home(), ConfigFault::Refused, refusal, memory, time(now)).is_some()
    };
    let mut memory = no_memory();
    let topic = NotificationKey::named("configuration");
    assert!(notifies(&memory, "line 3", NOW));
    let entry = NotificationEntry { at: time(NOW), what: "line 3".to_owned() };
    memory.get_mut("us-east-1").unwrap().gaps.insert(topic, entry);
    assert!(!notifies(&memory, "line 3", "2026-09-02T11:59:00Z"));
    assert!(notifies(&memory, "line 3", "2026-09-02T12:00:00Z"));
    assert!(notifies(&memory, "line 4", NOW));
}

#[test]
fn an_unaccepted_event_stays_undelivered_until_it_is_accepted() {
    let stopped = done(instance().tag(MARKED, DUE), &idle(), ENFORCED);
    let memory = after(&stopped, &no_memory(), &["vision"], time(NOW));
    let undelivered = &memory[&home()].undelivered;
    assert_eq!(
        undelivered,
        &[UndeliveredParagraph {
            team: "vision".to_owned(),
            severity: Severity::Action,
            text: notify(&stopped)[0].text.clone(),
            headline: "Curfew stopped i-0abc (g5.xlarge) of team vision at 2026-09-01 12:00 UTC: $1.01/h".to_owned(),
            cause: UndeliveredCause::Refused,
            audience: Audience::Team,
        }]
    );
    let nothing_new = planned(instance(), &busy(), ENFORCED);
    let sent = messages(&nothing_new, &[], &memory, &[Audience::Team], None);
    assert!(sent[0].body.contains("It was stopped"), "{}", sent[0].body);
    let still_unreachable = after(&nothing_new, &memory, &["vision"], time(NOW));
    assert_eq!(&still_unreachable[&home()].undelivered, undelivered);
    assert_eq!(after(&nothing_new, &memory, &[], time(NOW))[&home()].undelivered, []);
}

#[test]
fn an_unaccepted_state_is_notified_again_and_not_kept_as_undelivered() {
    let finding = planned(instance().tag("curfew:mode", "on"), &idle(), ENFORCED);
    let unreachable = after(&finding, &no_memory(), &["vision"], time(NOW));
    assert!(unreachable[&home()].resources.values().all(|record| record.notified.is_empty()));
    let accepted = after(&finding, &no_memory(), &[], time(NOW));
    assert_eq!(notifications(&finding, &accepted, &home(), time(NOW)), []);
}

#[test]
fn an_unobserved_region_keeps_its_notifications() {
    let finding = planned(instance().tag("curfew:mode", "on"), &idle(), ENFORCED);
    let memory = after(&finding, &no_memory(), &[], time(NOW));
    let count = |memory: &NotificationLogs| memory[&home()].resources.len();
    assert_eq!(count(&memory), 1);
    let without_steps = |kind: Option<GapKind>, regions: &[&str]| Report {
        skipped: Vec::new(),
        gaps: kind.map(|kind| gap("us-east-1", kind)).into_iter().collect(),
        regions: regions.iter().map(|region| (*region).into()).collect(),
        ..finding.clone()
    };
    assert_eq!(count(&after(&without_steps(Some(GapKind::Region), &["us-east-1"]), &memory, &[], time(NOW))), 1);
    assert_eq!(count(&after(&without_steps(None, &["eu-west-1"]), &memory, &[], time(NOW))), 1);
    assert_eq!(count(&after(&without_steps(None, &["us-east-1"]), &memory, &[], time(NOW))), 0);
    assert_eq!(count(&after(&without_steps(Some(GapKind::Listing), &["us-east-1"]), &memory, &[], time(NOW))), 1);
    assert_eq!(count(&after(&without_steps(Some(GapKind::OtherRegions), &["us-east-1"]), &memory, &[], time(NOW))), 1);
    assert_eq!(count(&after(&without_steps(Some(GapKind::Part), &["us-east-1"]), &memory, &[], time(NOW))), 0);
    // Nor is it seen where a run has nothing to do but knows of another one there.
    let other = planned(instance().id("i-0def").tag("curfew:protected", ""), &idle(), ENFORCED);
    assert!(other.steps.is_empty() && !other.skipped.is_empty());
    let half = Report { skipped: other.skipped, ..without_steps(Some(GapKind::Region), &["us-east-1"]) };
    assert_eq!(count(&after(&half, &memory, &[], time(NOW))), 1);
    let chosen_only = Report { has_only_chosen_resources: true, ..without_steps(None, &["us-east-1"]) };
    assert_eq!(after(&chosen_only, &memory, &[], time(NOW)), memory);
}

#[test]
fn an_announcement_is_remembered_if_its_message_was_accepted_even_without_its_mark() {
    let announced = |outcome: &StepOutcome, unreachable: &[&str]| {
        let report = with(planned(instance(), &idle(), ENFORCED), &StepOutcome::from_kind(OutcomeKind::NotReached));
        let notifications = notify(&report);
        let delivery = deliver(&report, &notifications, &no_memory(), unreachable);
        let acted = with(report, outcome);
        update_log(&no_memory(), &acted, &notifications, &[], &delivery, None, time(NOW))[&home()]
            .record(&"i-0abc".into())
            .map_or(0, |record| record.announced.len())
    };
    assert_eq!(announced(&StepOutcome::from_kind(OutcomeKind::Done), &[]), 1);
    assert_eq!(announced(&StepOutcome::with(OutcomeKind::Failed, "x"), &[]), 1);
    assert_eq!(announced(&StepOutcome::from_kind(OutcomeKind::NotReached), &[]), 1);
    assert_eq!(announced(&StepOutcome::from_kind(OutcomeKind::NotReached), &["vision"]), 0);
}

#[test]
fn a_message_about_another_resource_of_the_team_announces_nothing() {
    let report = with(planned(instance(), &idle(), ENFORCED), &StepOutcome::from_kind(OutcomeKind::NotReached));
    // A bug kept the text of this one from being written.
    let about_another: Vec<_> =
        notify(&report).into_iter().map(|one| Notification { resource: Some("i-0def".into()), ..one }).collect();
    let delivery = deliver(&report, &about_another, &no_memory(), &[]);
    let after = update_log(&no_memory(), &report, &about_another, &[], &delivery, None, time(NOW));
    assert!(after[&home()].record(&"i-0abc".into()).is_none_or(|record| record.announced.is_empty()));
    let accepted = AcceptedNotifications::new(&about_another, &delivery);
    assert!(!accepted.has_announcement(&report.steps[0].0));
}

#[test]
fn a_stop_is_recorded_ahead_and_stays_recorded_where_it_was_done() {
    let report = planned(instance().tag(MARKED, DUE), &idle(), ENFORCED);
    let carried_out = |memory: &NotificationLogs| {
        let record = memory[&home()].record(&"i-0abc".into()).cloned().unwrap_or_default();
        (record.carried_out.map(|done| (done.rule, done.action, done.at)), record.announced.len())
    };
    let stopped = Some((Rule::Idle, ResourceAction::Stop, time(NOW)));
    let ahead = log_due_actions(&no_memory(), &report);
    assert_eq!(carried_out(&ahead), (stopped, 0));
    let done = with(report.clone(), &StepOutcome::from_kind(OutcomeKind::Done));
    assert_eq!(carried_out(&after(&done, &ahead, &[], time(NOW))), (stopped, 0));
    let refused = with(report, &StepOutcome::with(OutcomeKind::Failed, "x"));
    assert_eq!(carried_out(&after(&refused, &ahead, &[], time(NOW))), (None, 1));
    // Runs do not see a terminated instance, about which run-jobs asks for a while.
    let gone = Report { steps: Vec::new(), ..done };
    assert_eq!(carried_out(&after(&gone, &ahead, &[], time("2026-09-01T13:59:00Z"))).0, stopped);
    assert_eq!(carried_out(&after(&gone, &ahead, &[], time("2026-09-01T14:00:00Z"))).0, None);
}

#[test]
fn nothing_is_recorded_ahead_in_observe_mode_or_where_approval_is_missing() {
    let observed = planned(instance().tag(MARKED, DUE), &idle(), "");
    assert!(log_due_actions(&no_memory(), &observed).is_empty());
    let held = planned(instance().tag(MARKED, DUE), &idle(), "mode = \"enforce\"\n[limits]\nactions_max = 0\n");
    assert!(held.steps[0].0.held.is_some() && log_due_actions(&no_memory(), &held).is_empty());
}

#[test]
fn a_failed_mark_is_a_late_notification_and_an_announcement_is_not() {
    let report = planned(instance(), &idle(), ENFORCED);
    let sent = notify(&report);
    assert_eq!(late_notifications(&report, &sent, &no_memory(), &home(), time(NOW)), []);
    let failed = with(report, &StepOutcome::with(OutcomeKind::Failed, "UnauthorizedOperation: ec2:CreateTags"));
    let late = late_notifications(&failed, &sent, &no_memory(), &home(), time(NOW));
    assert_eq!(late.len(), 1);
    assert!(late[0].text.contains("could not mark it"), "{}", late[0].text);
    assert_eq!(late[0].severity, Severity::Error);
    let delivery = deliver(&failed, &sent, &no_memory(), &[]);
    let memory = update_log(&no_memory(), &failed, &sent, &late, &delivery, None, time(NOW));
    let next = messages(&planned(instance(), &busy(), ENFORCED), &[], &memory, &[Audience::Team], None).remove(0);
    assert_snapshot!(next.subject, @"Curfew could not mark i-0abc (g5.xlarge) of team vision at 2026-09-01 12:00 UTC: $1.01/h");
    assert_snapshot!(next.body.lines().next().unwrap(), @"Curfew could not mark i-0abc (g5.xlarge) of team vision at 2026-09-01 12:00 UTC: $1.01/h (after the message of its run).");
}

/// A run that stops an instance of team vision, of a deployment with both topics, of which `refusing` does not accept its messages.
fn stopped_with_topics(
    refusing: &[Audience],
    subscriptions: Option<&TopicSubscriptions>,
) -> (Delivery, NotificationLog) {
    let report = done(instance().tag(MARKED, DUE), &idle(), ENFORCED);
    let notifications = notify(&report);
    let audiences = [Audience::Account, Audience::Team];
    let sent = messages(&report, &notifications, &no_memory(), &audiences, subscriptions).into_iter();
    let sent: Vec<(Message, bool)> = sent
        .map(|message| {
            let is_accepted = !refusing.contains(&message.audience);
            (message, is_accepted)
        })
        .collect();
    let answers = Answers { audiences: &audiences, messages: &sent, unmailed: BTreeSet::new() };
    let recipients = Recipients { subscriptions, ..Recipients::default() };
    let delivery = Delivery::new(answers, &report, &notifications, recipients);
    let log = update_log(&no_memory(), &report, &notifications, &[], &delivery, subscriptions, time(NOW));
    (delivery, log[&home()].clone())
}

#[test]
fn a_topic_gets_later_what_it_did_not_accept_and_the_other_does_not_get_it_twice() {
    use Audience::{Account, Team};
    let of = |audience, policy| {
        let one = model::fixture::subscriptions(&[policy]).all()[0].clone();
        Subscription { audience, ..one }
    };
    let readers = |all: &[Subscription]| Some(TopicSubscriptions::new(all.to_vec(), true));
    let account_reads = || readers(&[of(Account, None)]);
    let team_reads =
        || readers(&[of(Team, Some(r#"{"team": ["vision"]}"#)), of(Account, Some(r#"{"severity": ["error"]}"#))]);
    let both_read = || readers(&[of(Team, None), of(Account, None)]);
    // Whether the stop counts as sent, and the topics that get it later.
    for (refusing, subscriptions, is_sent, expect) in [
        (&[][..], None, true, &[][..]),
        (&[Account], None, true, &[Account]),
        (&[Team], account_reads(), true, &[Team]),
        (&[Account], account_reads(), false, &[Account]),
        (&[Account], team_reads(), true, &[Account]),
        (&[Team], team_reads(), false, &[Team]),
        (&[Team], both_read(), true, &[Team]),
        (&[Account, Team], both_read(), false, &[Account, Team]),
    ] {
        let (delivery, log) = stopped_with_topics(refusing, subscriptions.as_ref());
        assert_eq!(delivery.is_delivered_to_team("vision"), is_sent, "{refusing:?} {subscriptions:?}");
        let later: Vec<Audience> = log.undelivered.iter().map(|one| one.audience).collect();
        assert_eq!(later, expect, "{refusing:?} {subscriptions:?}");
        let memory = NotificationLogs::from([(home(), log)]);
        let next = messages(&planned(instance(), &busy(), ENFORCED), &[], &memory, &[Account, Team], None);
        assert_eq!(next.iter().map(|message| message.audience).collect::<Vec<_>>(), expect);
    }
}

#[test]
fn an_owner_who_is_mailed_reads_it_where_nobody_else_does() {
    let config =
        model::config::Config::read("[notify]\nowners = true\n[report]\nsender = \"curfew@example.com\"").unwrap();
    let sender = model::ownership::OwnerSender::from_config(&config).unwrap();
    let nobody = TopicSubscriptions::new(Vec::new(), true);
    let report = planned(instance().tag("Owner", "ada@example.com"), &idle(), ENFORCED);
    let notifications = notify(&report);
    let mails = owner_mails(&report, &notifications, &sender);
    let [mail] = &mails[..] else { panic!("{mails:?}") };
    assert_eq!(mail.owner, "ada@example.com");
    assert!(mail.message.subject.contains("i-0abc"), "{}", mail.message.subject);
    let sent = messages(&report, &notifications, &no_memory(), &[Audience::Team], Some(&nobody));
    let sent: Vec<(Message, bool)> = sent.into_iter().map(|message| (message, true)).collect();
    // Whether somebody receives the announcement.
    for (unmailed, subscriptions, expect) in [
        (BTreeSet::new(), Some(&nobody), true),
        (BTreeSet::from(["ada@example.com".to_owned()]), Some(&nobody), false),
        (BTreeSet::from(["ada@example.com".to_owned()]), Some(&model::fixture::subscriptions(&[None])), true),
        (BTreeSet::from(["ada@example.com".to_owned()]), None, true),
    ] {
        let answers = Answers { audiences: &[Audience::Team], messages: &sent, unmailed };
        let recipients = Recipients { subscriptions, owner_sender: Some(&sender), postponed: None };
        let delivery = Delivery::new(answers, &report, &notifications, recipients);
        assert_eq!(delivery.is_delivered(&notifications[0]), expect, "{delivery:?}");
    }
    let routine = Notification { severity: Severity::Info, ..notifications[0].clone() };
    assert_eq!(owner_mails(&report, &[routine], &sender).len(), 1, "what will be carried out is");
    let would_stop = notify(&observed(instance().tag("Owner", "ada@example.com").tag(MARKED, DUE), &idle(), ""));
    assert!(!would_stop.is_empty());
    assert_eq!(owner_mails(&report, &would_stop, &sender), [], "information is not mailed");
}

#[test]
fn what_is_postponed_comes_later_to_that_topic_alone() {
    let report = done(instance().tag(MARKED, DUE), &idle(), ENFORCED);
    let notifications = notify(&report);
    let postponing = Recipients { postponed: Some(Audience::Account), ..Recipients::default() };
    let audiences = [Audience::Account, Audience::Team];
    let sent = messages(&report, &notifications, &no_memory(), &[Audience::Team], None);
    let sent: Vec<(Message, bool)> = sent.into_iter().map(|message| (message, true)).collect();
    let deliver = |sent: &[(Message, bool)], notifications: &[Notification], memory: &NotificationLogs| {
        let answers = Answers { audiences: &audiences, messages: sent, unmailed: BTreeSet::new() };
        let delivery = Delivery::new(answers, &report, notifications, postponing);
        update_log(memory, &report, notifications, &[], &delivery, None, time(NOW))
    };
    let later = |memory: &NotificationLogs| {
        let owed = memory[&home()].undelivered.iter();
        owed.map(|one| (one.audience, one.cause)).collect::<Vec<_>>()
    };
    let memory = deliver(&sent, &notifications, &no_memory());
    assert_eq!(later(&memory), [(Audience::Account, UndeliveredCause::Late)]);
    let memory = deliver(&[], &[], &memory);
    assert_eq!(later(&memory), [(Audience::Account, UndeliveredCause::Late)], "another run that postpones keeps it");
    let answers = Answers { audiences: &[Audience::Team], messages: &[], unmailed: BTreeSet::new() };
    let delivery = Delivery::new(answers, &report, &[], Recipients::default());
    let memory = update_log(&memory, &report, &[], &[], &delivery, None, time(NOW));
    assert_eq!(later(&memory).len(), 1, "so does a run that knows only the other topic");
}
