//! What happens to the instances of a team whose announcements no one reads.

use model::channels::Audience;
use model::fixture::subscriptions;
use model::notification_log::NO_TEAM;
use model::subscriptions::{Subscription, SubscriptionFilter, SubscriptionState, TopicSubscriptions};

use super::*;
use crate::aws::FUNCTION;

const VISION_ALONE: &str = r#"{"team": ["vision"]}"#;

impl Account {
    fn read_by(&mut self, subscriptions: TopicSubscriptions) -> &mut Self {
        self.policy.ceiling = Ceiling::with_readers(Mode::Enforce, FUNCTION, subscriptions);
        self
    }

    fn report(&mut self, at: &str) -> Report {
        let (day, clock) = at.split_once(' ').unwrap();
        self.aws.now = time(&format!("2026-09-{day}T{clock}:00Z"));
        let plan = self.plan();
        self.aws.carry_out(plan, &self.policy)
    }

    /// The action and the outcome of each step of a run.
    fn outcomes(&mut self, at: &str) -> Vec<(&'static str, OutcomeKind)> {
        self.report(at).steps.iter().map(|(step, outcome)| (step.action.as_str(), outcome.kind)).collect()
    }
}

/// The only subscription, which waits for its confirmation.
fn pending() -> TopicSubscriptions {
    let subscription = Subscription {
        audience: Audience::Team,
        protocol: "email".to_owned(),
        endpoint: "ada@example.com".to_owned(),
        state: SubscriptionState::Pending,
        filter: SubscriptionFilter::None,
    };
    TopicSubscriptions::new(vec![subscription], true)
}

#[test]
fn a_team_that_every_filter_leaves_out_is_only_observed() {
    let mut account = enforcing_account(instance().tag("Team", "nlp"), ENFORCED);
    account.read_by(subscriptions(&[Some(VISION_ALONE)]));
    assert_eq!(account.outcomes("01 12:00"), [("mark", OutcomeKind::Observed)]);
    account.run("01 13:05");
    account.run("01 14:10");
    assert_eq!((account.aws.instances[0].state, account.tag_of(MARKED)), (InstanceState::Running, None));

    account.read_by(subscriptions(&[Some(VISION_ALONE), Some(r#"{"team": ["nlp"], "severity": ["warning"]}"#)]));
    assert_eq!(account.outcomes("01 14:15"), [("mark", OutcomeKind::Done)], "announced with the whole grace");
    account.run("01 15:10");
    assert_eq!(account.aws.instances[0].state, InstanceState::Running);
    assert_eq!(account.outcomes("01 15:16"), [("stop", OutcomeKind::Done)]);
}

#[test]
fn a_team_with_a_reader_is_not_held_up_by_one_without() {
    let of_nlp = instance().id("i-nlp").tag("Team", "nlp");
    let mut account = fleet([instance(), of_nlp], "mode = \"enforce\"\n[limits]\nfleet_share_max_percent = 100\n");
    account.read_by(subscriptions(&[Some(VISION_ALONE)]));
    account.run("01 12:00");
    account.run("01 13:05");
    let runs: Vec<(&str, bool)> =
        account.aws.instances.iter().map(|one| (one.id.as_str(), one.state == InstanceState::Running)).collect();
    assert_eq!(runs, [("i-0abc", false), ("i-nlp", true)]);
}

#[test]
fn what_was_announced_is_called_off_where_the_reader_is_gone() {
    let mut account = enforcing_account(instance(), ENFORCED);
    account.read_by(subscriptions(&[Some(VISION_ALONE)]));
    account.run("01 12:00");
    account.read_by(subscriptions(&[Some(r#"{"team": ["nlp"]}"#)]));
    account.run("01 13:05");
    assert_eq!(account.aws.instances[0].state, InstanceState::Running);
}

#[test]
fn what_was_announced_goes_on_while_the_subscription_is_suspended() {
    let mut account =
        fleet([instance(), instance().id("i-new")], "mode = \"enforce\"\n[limits]\nfleet_share_max_percent = 100\n");
    account.usages.insert("i-new".into(), busy());
    account.read_by(subscriptions(&[None]));
    assert_eq!(account.outcomes("01 12:00"), [("mark", OutcomeKind::Done)]);
    account.read_by(pending());
    account.all_are(&idle());
    assert_eq!(account.outcomes("01 12:05"), [("mark", OutcomeKind::Observed)], "nothing new is announced");
    assert_eq!(account.outcomes("01 13:05")[0], ("stop", OutcomeKind::Done));
    account.run("01 14:10");
    assert_eq!(account.aws.instances[1].state, InstanceState::Running);
}

#[test]
fn nothing_is_announced_to_unknown_readers() {
    let mut account = enforcing_account(instance(), ENFORCED);
    account.read_by(subscriptions(&[Some("{")]));
    assert_eq!(account.outcomes("01 12:00"), [("mark", OutcomeKind::NotReached)]);
    assert!(account.aws.messages.iter().all(|message| message.team == NO_TEAM), "the gap alone is notified");
    // Whoever subscribes now has not read it.
    account.read_by(subscriptions(&[None]));
    assert_eq!(account.outcomes("01 13:05"), [("mark", OutcomeKind::Done)]);
}

#[test]
fn a_machine_is_started_for_its_hours_whoever_reads_about_it() {
    let stopped =
        instance().state(InstanceState::Stopped).tag("curfew:hours", OFFICE).tag(STOPPED, "hours 2026-08-31T20:00:00Z");
    let mut account = enforcing_account(stopped, ENFORCED);
    account.stopped_for_hours("2026-08-31T20:00:00Z");
    account.read_by(TopicSubscriptions::new(Vec::new(), true));
    assert_eq!(account.outcomes("01 08:05"), [("start", OutcomeKind::Done)]);
}

#[test]
fn where_the_readers_are_unknown_nothing_is_ended() {
    let mut account = enforcing_account(instance(), ENFORCED);
    account.run("01 12:00");
    account.read_by(subscriptions(&[Some("{")]));
    let report = account.report("01 13:05");
    let (step, outcome) = &report.steps[0];
    assert_eq!((step.action.as_str(), outcome.kind), ("stop", OutcomeKind::NotReached));
    let error = outcome.error.as_deref().unwrap();
    assert!(
        error.starts_with("not done, because its announcement may have no reader: Curfew cannot tell whether email"),
        "{error}"
    );
    assert_eq!(report.gaps.iter().map(|gap| gap.call.as_str()).collect::<Vec<_>>(), ["sns:GetSubscriptionAttributes"]);
    assert_eq!(account.aws.memory["us-east-1"].resources["i-0abc"].carried_out, None, "it was not even tried");
    account.read_by(subscriptions(&[None]));
    assert_eq!(account.outcomes("01 13:10"), [("stop", OutcomeKind::Done)], "the announcement still holds");
}

/// The messages of a run that announces one stop and fails to carry out another: the severity, and whether it has the announcement.
fn messages_of_both(policy: &str) -> Vec<(&'static str, bool)> {
    let expired = instance().id("i-expired").tag("curfew:expires-at", "2026-09-01T11:00:00Z");
    let mut account = fleet([instance(), expired], "mode = \"enforce\"\n[limits]\nfleet_share_max_percent = 100\n");
    account.read_by(subscriptions(&[Some(policy)]));
    account.all_are(&busy()).run("01 10:30");
    account.aws.refuses = Some("Server.InternalError");
    account.all_are(&idle()).run("01 12:00");
    account.aws.messages.iter().map(|one| (one.severity, one.body.contains("It will be stopped"))).collect()
}

#[test]
fn an_announcement_reaches_whoever_receives_warnings_alone() {
    assert_eq!(messages_of_both(r#"{"severity": ["warning"]}"#), [("warning", true), ("error", false)]);
    assert_eq!(messages_of_both(r#"{"severity": ["warning", "error"]}"#), [("error", true)]);
}
