use super::*;

const FUNCTION: &str = "reap-instances";

fn subscription(name: &str, arn: &str, policy: Option<&str>) -> Subscription {
    Subscription {
        audience: Audience::Team,
        protocol: "email".to_owned(),
        endpoint: name.to_owned(),
        state: SubscriptionState::from_arn(arn),
        filter: SubscriptionFilter::from_attributes(policy, None),
    }
}

fn confirmed(name: &str, policy: Option<&str>) -> Subscription {
    subscription(name, "arn:aws:sns:us-east-1:123456789012:curfew:1", policy)
}

fn topic(subscriptions: &[Subscription]) -> TopicSubscriptions {
    TopicSubscriptions::new(subscriptions.to_vec(), true)
}

/// The endpoints of the readers, or the reason.
fn announcement_readers(topic: &TopicSubscriptions, team: &str) -> Result<Vec<String>, String> {
    match topic.announcement_readers(team, FUNCTION) {
        Readership::Readers(readers) => Ok(readers.iter().map(|one| one.endpoint.clone()).collect()),
        Readership::NoReader(reason) => Err(format!("no reader: {reason}")),
        Readership::Unknown(reason) => Err(format!("unknown: {reason}")),
    }
}

#[track_caller]
fn check(subscriptions: &[Subscription], team: &str, expect: Result<&[&str], &str>) {
    let expect = expect.map(|names| names.iter().map(|name| (*name).to_owned()).collect()).map_err(str::to_owned);
    assert_eq!(announcement_readers(&topic(subscriptions), team), expect);
}

#[test]
fn one_subscription_of_another_team_is_no_reader() {
    let ada = confirmed("ada", Some(r#"{"team": ["vision"]}"#));
    check(std::slice::from_ref(&ada), "vision", Ok(&["ada"]));
    let reason = "no reader: the only confirmed subscription filters out messages of severity warning about team nlp";
    check(std::slice::from_ref(&ada), "nlp", Err(reason));
    let grace = confirmed("grace", Some(r#"{"team": ["nlp"], "severity": ["error"]}"#));
    let reason =
        "no reader: each of the 2 confirmed subscriptions filters out messages of severity warning about team nlp";
    check(&[ada.clone(), grace], "nlp", Err(reason));
    check(&[ada, confirmed("platform", None)], "nlp", Ok(&["platform"]));
}

#[test]
fn the_readers_of_an_announcement_may_not_get_a_greater_severity() {
    let only_warnings = confirmed("ada", Some(r#"{"severity": ["warning"]}"#));
    check(std::slice::from_ref(&only_warnings), "nlp", Ok(&["ada"]));
    let is_read = |subscriptions: &[Subscription], severity| {
        topic(subscriptions).is_read_with_severity(severity, Audience::Team, "nlp", FUNCTION)
    };
    assert!(is_read(std::slice::from_ref(&only_warnings), Severity::Warning));
    assert!(!is_read(std::slice::from_ref(&only_warnings), Severity::Error));
    let all = confirmed("grace", Some(r#"{"severity": ["warning", "action", "error"]}"#));
    assert!(is_read(&[all.clone(), confirmed("emmy", None)], Severity::Error));
    assert!(!is_read(&[all, only_warnings], Severity::Action), "one reader would miss it");
    assert!(
        is_read(&[confirmed("errors", Some(r#"{"severity": ["error"]}"#))], Severity::Error),
        "nobody reads the announcement"
    );
}

#[test]
fn a_subscriber_of_the_account_reads_what_is_announced_to_each_team() {
    let account = |policy| Subscription { audience: Audience::Account, ..confirmed("platform", policy) };
    check(&[account(None)], "nlp", Ok(&["platform"]));
    check(&[account(Some(r#"{"severity": ["warning"]}"#))], "nlp", Ok(&["platform"]));
    let reason = "no reader: the only confirmed subscription filters out messages of severity warning about team nlp";
    check(&[account(Some(r#"{"team": ["nlp"]}"#))], "nlp", Err(reason));
    assert_ne!(account(None).key(), confirmed("platform", None).key(), "one of the two may be suspended");
    let both = topic(&[account(Some(r#"{"severity": ["warning"]}"#)), confirmed("ada", None)]);
    let is_read = |audience| both.is_read_with_severity(Severity::Error, audience, "nlp", FUNCTION);
    assert_eq!((is_read(Audience::Account), is_read(Audience::Team)), (false, true));
    let read = |all: &[Subscription]| topic(all).reading_audiences("nlp", FUNCTION);
    assert_eq!(read(&[account(None)]), BTreeSet::from([Audience::Account]));
}

#[test]
fn a_filter_policy_that_is_unknown_may_leave_out_the_greater_severity() {
    let unreadable =
        Subscription { filter: SubscriptionFilter::Unreadable("denied".to_owned()), ..confirmed("ada", None) };
    assert!(!topic(&[unreadable]).is_read_with_severity(Severity::Error, Audience::Team, "nlp", FUNCTION));
}

#[test]
fn the_reason_says_what_is_missing() {
    let pending = subscription("ada", "PendingConfirmation", None);
    let deleted = subscription("grace", "Deleted", None);
    check(&[], "nlp", Err("no reader: the topic has no subscription"));
    check(std::slice::from_ref(&deleted), "nlp", Err("no reader: the topic has no subscription"));
    check(&[pending.clone(), deleted], "nlp", Err("no reader: the only subscription of the topic is not confirmed"));
    let reason = "no reader: none of the 2 subscriptions of the topic is confirmed";
    check(&[pending.clone(), pending], "nlp", Err(reason));
}

#[test]
fn resources_without_a_team_have_an_attribute_as_well() {
    check(&[confirmed("platform", Some(r#"{"team": ["untagged"]}"#))], NO_TEAM, Ok(&["platform"]));
    let absent = confirmed("platform", Some(r#"{"team": [{"exists": false}]}"#));
    check(std::slice::from_ref(&absent), "", Ok(&["platform"]));
    let reason = "no reader: the only confirmed subscription filters out messages of severity warning about resources without a team";
    check(&[absent], NO_TEAM, Err(reason));
}

#[test]
fn what_cannot_be_evaluated_is_no_reader() {
    let open = confirmed("ada", Some(r#"{"team": [{"future": "nlp"}]}"#));
    let reason = "unknown: Curfew cannot tell whether email ada receives messages of severity warning about team nlp: its filter \
                  policy is not one that Curfew can evaluate";
    check(std::slice::from_ref(&open), "nlp", Err(reason));
    let mut unreadable = confirmed("grace", Some("{"));
    let reason = "unknown: Curfew cannot tell whether email grace and 1 more receive messages of severity warning about team nlp: \
                  the filter policy is not a JSON object with distinct keys";
    check(&[unreadable.clone(), open.clone()], "nlp", Err(reason));
    check(&[unreadable.clone(), open, confirmed("emmy", None)], "nlp", Ok(&["emmy"]));
    unreadable.state = SubscriptionState::Pending;
    check(&[unreadable], "nlp", Err("no reader: the only subscription of the topic is not confirmed"));
}

#[test]
fn an_incomplete_list_proves_no_absence() {
    let partial = |subscriptions: &[Subscription]| TopicSubscriptions::new(subscriptions.to_vec(), false);
    let vision = confirmed("ada", Some(r#"{"team": ["vision"]}"#));
    assert_eq!(announcement_readers(&partial(std::slice::from_ref(&vision)), "vision"), Ok(vec!["ada".to_owned()]));
    let reason = "unknown: no subscription that Curfew could list receives messages of severity warning about team nlp, but the list is \
                  incomplete";
    assert_eq!(announcement_readers(&partial(&[vision]), "nlp"), Err(reason.to_owned()));
}

#[test]
fn plain_text_passes_no_policy_for_the_body() {
    let mut body = confirmed("ada", None);
    body.filter = SubscriptionFilter::from_attributes(Some(r#"{"team": [{"exists": false}]}"#), Some("MessageBody"));
    let reason = "no reader: the only confirmed subscription filters out messages of severity warning about team nlp";
    check(&[body], "nlp", Err(reason));
}

#[test]
fn a_chat_on_this_topic_is_no_reader() {
    let over =
        |protocol: &str, endpoint: &str| Subscription { protocol: protocol.to_owned(), ..confirmed(endpoint, None) };
    for endpoint in [CHAT_ENDPOINT, &format!("{CHAT_ENDPOINT}/")] {
        let reason = "no reader: only a chat is subscribed to the topic, and it shows no plain text: connect it to the topic for chats, and \
                      subscribe somebody by e-mail";
        check(&[over("https", endpoint)], "nlp", Err(reason));
        check(&[over("https", endpoint), confirmed("ada", None)], "nlp", Ok(&["ada"]));
    }
    let alike = "https://global.sns-api.chatbot.amazonaws.com.example.com";
    check(&[over("https", alike)], "nlp", Ok(&[alike]));
    check(
        &[over("sqs", "arn:aws:sqs:us-east-1:123456789012:tickets")],
        "nlp",
        Ok(&["arn:aws:sqs:us-east-1:123456789012:tickets"]),
    );
}

#[test]
fn readers_are_remembered_with_the_time_at_which_they_were_seen() {
    let time = |text: &str| -> Timestamp { format!("2026-09-01T{text}:00Z").parse().unwrap() };
    let (noon, later, last) = (time("12:00"), time("12:05"), time("12:10"));
    let key = |name: &str| confirmed(name, None).key();
    let everybody = topic(&["ada", "emmy", "grace"].map(|name| confirmed(name, None)));
    let at_first = everybody.readers_to_remember(&BTreeMap::new(), noon, noon);
    assert_eq!(at_first, ["ada", "emmy", "grace"].map(|name| (key(name), noon)).into());
    assert_eq!(everybody.readers_to_remember(&at_first, noon, later), at_first, "nothing new is announced");
    let then = everybody.readers_to_remember(&at_first, later, later);
    assert_eq!(then[&key("ada")], later, "it was there for the later announcement");
    let now = topic(&[
        subscription("ada", "PendingConfirmation", None),
        subscription("emmy", "Deleted", None),
        confirmed("grace", None),
        // Never confirmed.
        subscription("rosa", "PendingConfirmation", None),
    ]);
    assert_eq!(now.readers_to_remember(&then, last, last), [(key("ada"), later), (key("grace"), last)].into());
    assert_eq!(now.pending_keys(), [key("ada"), key("rosa")].into());
}
