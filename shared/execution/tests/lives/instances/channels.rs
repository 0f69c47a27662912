//! What a chat and an event bus get, and when.

use model::reply_link::{LinkDocument, ReplyToken};
use serde_json::Value;

use super::*;

/// An account that has both, with one idle instance.
fn account(config: &str) -> Account {
    let mut account = enforcing_account(instance(), config);
    account.aws.channels.chat_topic_arn = Some("arn:aws:sns:us-east-1:123456789012:chat".to_owned());
    account.aws.channels.event_bus = Some("curfew".to_owned());
    account
}

/// `announcement stop`, of each event of the last run.
fn events(account: &Account) -> Vec<String> {
    let show =
        |detail: Value| format!("{} {}", detail["kind"].as_str().unwrap(), detail["action"].as_str().unwrap_or("-"));
    account.aws.events.iter().map(|event| show(serde_json::from_str(&event.detail).unwrap())).collect()
}

#[test]
fn both_get_what_the_topic_accepts_once() {
    let mut account = account(ENFORCED);
    account.run("01 12:00");
    assert_eq!(events(&account), ["announcement stop"]);
    let [copy] = &account.aws.chat[..] else { panic!("{:?}", account.aws.chat) };
    let body: Value = serde_json::from_str(&copy.body).unwrap();
    assert_eq!((&body["version"], &body["source"]), (&"1.0".into(), &"custom".into()));
    assert_eq!(copy.team, account.aws.messages[0].team);
    account.run("01 12:05");
    assert_eq!((events(&account).len(), account.aws.chat.len()), (0, 0));
    account.run("01 13:05");
    assert_eq!(events(&account), ["event stop"]);
}

#[test]
fn an_announcement_refused_by_the_topic_reaches_no_channel() {
    let mut account = account(ENFORCED);
    account.aws.deaf.insert("vision");
    account.run("01 12:00");
    // The refusal itself is a notification, which the next run sends.
    assert_eq!((events(&account), account.aws.chat.len()), (vec!["state -".to_owned()], 0));
    assert_eq!(account.tag_of(MARKED), None);
    account.aws.deaf.clear();
    account.run("01 12:05");
    assert_eq!(events(&account), ["announcement stop"]);
    assert!(account.tag_of(MARKED).is_some());
}

#[test]
fn an_action_is_an_event_at_once_and_reaches_the_chat_with_its_message() {
    let mut account = account(ENFORCED);
    account.run("01 12:00");
    account.aws.deaf.insert("vision");
    account.run("01 13:05");
    assert_eq!((events(&account), account.aws.chat.len()), (vec!["event stop".to_owned(), "state -".to_owned()], 0));
    account.aws.deaf.clear();
    account.run("01 13:10");
    assert!(!events(&account).contains(&"event stop".to_owned()), "{:?}", account.aws.events);
    assert!(account.aws.chat.iter().any(|copy| copy.team == "vision" && copy.body.contains("It was stopped")));
}

#[test]
fn a_refusing_channel_delays_nothing_and_is_notified_once_a_day() {
    let mut account = account(ENFORCED);
    account.aws.refuses_copies = true;
    account.run("01 12:00");
    assert!(account.tag_of(MARKED).is_some());
    assert!(account.log.contains("notified vision (warning)"), "{}", account.log);
    let told = |account: &Account| {
        let messages = account.aws.messages.iter().filter(|message| message.team == "untagged");
        messages.map(|message| message.body.clone()).collect::<String>()
    };
    account.run("01 12:05");
    assert!(told(&account).contains("events:PutEvents: ThrottlingException"), "{}", told(&account));
    assert!(told(&account).contains("to the chat topic arn:aws:sns:us-east-1:123456789012:chat: Throttled"));
    account.run("01 13:05");
    assert_eq!((account.aws.instances[0].state, told(&account)), (InstanceState::Stopped, String::new()));
}

/// The token of the only link of the last run's messages.
fn token(account: &Account) -> Option<ReplyToken> {
    let bodies = account.aws.messages.iter().map(|message| message.body.as_str());
    let lines: Vec<&str> =
        bodies.flat_map(str::lines).filter_map(|line| line.split_once("/r/")).map(|(_, token)| token).collect();
    assert!(lines.len() <= 1, "{lines:?}");
    lines.first().map(|token| ReplyToken::read(token).unwrap())
}

#[test]
fn an_announcement_has_a_link_whose_token_is_stored_nowhere() {
    let mut account = account(ENFORCED);
    account.aws.channels.reply_url = Some("https://links.example/".to_owned());
    account.run("01 12:00");
    let token = token(&account).unwrap();
    let LinkDocument::Resource(link) = &account.aws.links[&token.hash()] else { panic!("it is about a resource") };
    assert_eq!((link.resource.as_str(), link.sent_to.team.as_str()), ("i-0abc", "vision"));
    assert!(account.aws.chat[0].body.contains(token.as_str()));
    let kept =
        format!("{:?} {:?} {:?} {:?}", account.aws.events, account.aws.audits, account.aws.memory, account.aws.links);
    assert!(!kept.contains(token.as_str()), "{kept}");
    // Neither a run that announces nothing new has one, nor the stop itself.
    account.run("01 12:05");
    account.run("01 13:05");
    assert_eq!((account.aws.instances[0].state, account.aws.links.len()), (InstanceState::Stopped, 1));
}

#[test]
fn an_announcement_whose_link_cannot_be_written_is_sent_without_it() {
    let mut account = account(ENFORCED);
    account.aws.channels.reply_url = Some("https://links.example/".to_owned());
    account.aws.refuses_links = Some("s3://curfew/replies");
    account.run("01 12:00");
    assert!(token(&account).is_none() && account.tag_of(MARKED).is_some());
    account.run("01 12:05");
    let told: String = account.aws.messages.iter().map(|message| message.body.as_str()).collect();
    assert!(told.contains("s3:PutObject"), "{told}");
}
