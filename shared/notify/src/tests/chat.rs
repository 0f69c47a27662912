//! Messages as custom notifications for a chat.

use model::fixture::box_link;
use model::reply_link::{LinkDocument, LinkSubject};
use serde_json::Value;

use super::*;
use crate::{ReplyUrls, reply_links, to_chat, with_links};

fn chat(message: &Message) -> Value {
    let copy = to_chat(message, &ReplyUrls::new(), &"run-1".into());
    let attributes = |one: &Message| (one.team.clone(), one.function, one.severity, one.subject.clone());
    assert_eq!(attributes(&copy), attributes(message), "for the same filter policies");
    serde_json::from_str(&copy.body).unwrap()
}

#[test]
fn the_sample_is_what_curfew_writes() {
    let named = instance().tag("Name", "bench").instance_storage(250).tag("curfew:local-disk", "expendable");
    let expect = chat(&message(&planned(named, &idle(), ENFORCED)));
    let sample: Value = serde_json::from_str(include_str!("../../../../docs/events/chat.json")).unwrap();
    assert_eq!(sample, expect, "{}", serde_json::to_string_pretty(&expect).unwrap());
}

#[test]
fn a_long_message_is_cut_where_slack_would_cut_it_and_says_where_the_rest_is() {
    let mut long = message(&planned(instance(), &idle(), ENFORCED));
    long.body += &"ü".repeat(10_000);
    long.resources = vec!["i-0abc".into(); 40];
    let shown = chat(&long);
    let description = shown["content"]["description"].as_str().unwrap();
    assert!(description.chars().count() < 3000 && description.ends_with("and in the audit record."));
    assert_eq!(shown["metadata"]["relatedResources"].as_array().unwrap().len(), 10);
}

#[test]
fn a_message_of_one_line_has_a_description_all_the_same() {
    let line = Message { body: "Nothing to report.".to_owned(), ..message(&planned(instance(), &idle(), ENFORCED)) };
    assert_eq!(chat(&line)["content"]["description"], "Nothing to report");
}

#[test]
fn tags_of_strangers_neither_mention_nor_link() {
    let name = "<!channel> <http://evil.example|Click> @here *now* [x](https://evil.example)";
    let hostile = instance().tag("Name", name).tag("Team", name).tag("Owner", name);
    let shown = chat(&message(&planned(hostile, &idle(), ENFORCED))).to_string();
    for markup in ["<", ">", "@", "*", "http://", "https://", "]("] {
        assert!(!shown.contains(markup), "{markup} is in {shown}");
    }
}

#[test]
fn the_links_of_a_run_stay_links_and_a_single_one_is_for_the_buttons() {
    let report = planned(instance().tag("Name", "https://evil.example/r/0"), &idle(), ENFORCED);
    let resource = |id: &str| LinkSubject::Resource("us-east-1".into(), id.into());
    let url = |digit: &str| format!("https://links.example/r/{}", digit.repeat(64));
    let urls = ReplyUrls::from([(resource("i-0abc"), url("a"))]);
    let chat = |message: &Message, urls: &ReplyUrls| -> Value {
        serde_json::from_str(&to_chat(message, urls, &"run-1".into()).body).unwrap()
    };
    let linked =
        messages(&report, &with_links(&notify(&report), &urls), &no_memory(), &[Audience::Team], None).remove(0);
    assert!(linked.body.contains(&format!(" by one click: {}", url("a"))), "{}", linked.body);
    let shown = chat(&linked, &urls);
    assert!(shown["content"]["description"].as_str().unwrap().contains(&url("a")));
    assert_eq!(shown["metadata"]["additionalContext"]["reply"], "a".repeat(64));
    assert!(!shown.to_string().contains("//evil.example"), "{shown}");
    // Links of other messages of the run count for nothing, and of two in one message none is for the buttons.
    let mut several = urls.clone();
    several.insert(resource("i-0def"), url("b"));
    assert_eq!(chat(&linked, &several)["metadata"]["additionalContext"]["reply"], "a".repeat(64));
    let both = Message { body: format!("{}\nBy one click: {}", linked.body, url("b")), ..linked };
    assert_eq!(chat(&both, &several)["metadata"]["additionalContext"].get("reply"), None);
}

#[test]
fn only_announcements_of_enforce_mode_have_links() {
    let links = |report: &Report| reply_links(report, &notify(report), "arn:aws:sns:us-east-1:123456789012:curfew");
    let disk = instance().tag("Name", "bench").instance_storage(250).tag("curfew:local-disk", "expendable");
    let report = planned(disk, &idle(), ENFORCED);
    let [LinkDocument::Resource(link)] = &links(&report)[..] else { panic!("{report:?}") };
    assert_eq!((link.resource.as_str(), link.action.as_str(), &link.rule), ("i-0abc", "stop", &Rule::Idle));
    assert_eq!(link.expires_at, link.deadline + SignedDuration::from_hours(7 * 24));
    assert_eq!((link.sent_to.team.as_str(), link.sent_to.at), ("vision", report.at));
    assert!(link.loses.as_ref().unwrap().contains("250 GB"), "{link:?}");
    assert_eq!(links(&planned(instance(), &idle(), "mode = \"observe\"\n")), []);
    assert_eq!(links(&done(instance().tag(MARKED, DUE), &idle(), ENFORCED)), []);
    assert_eq!(links(&planned(instance().tag("curfew:on-idle", "notify"), &idle(), ENFORCED)), []);
}

#[test]
fn a_box_whose_end_is_near_has_one_link_and_buttons_of_its_own() {
    let report = planned(instance(), &idle(), "mode = \"observe\"\n");
    let ending = box_link().ending;
    let mut about_box = notify(&report).remove(0);
    about_box.kind = NotificationKind::Event;
    about_box.facts.ending_box = Some(ending.clone());
    let [LinkDocument::Box(link)] = &reply_links(&report, &[about_box.clone(), about_box.clone()], "arn")[..] else {
        panic!("one link about the box")
    };
    assert_eq!((&link.ending, link.sent_to.team.as_str()), (&ending, "vision"));
    let url = format!("https://links.example/r/{}", "a".repeat(64));
    let urls = ReplyUrls::from([(LinkSubject::Box(ending.job), url.clone())]);
    let linked = messages(&report, &with_links(&[about_box], &urls), &no_memory(), &[Audience::Team], None).remove(0);
    assert!(linked.body.contains(&format!("Keep it for 3 hours by one click: {url}")), "{}", linked.body);
    let shown: Value = serde_json::from_str(&to_chat(&linked, &urls, &"run-1".into()).body).unwrap();
    let context = &shown["metadata"]["additionalContext"];
    assert_eq!((&context["box_reply"], context.get("reply")), (&Value::from("a".repeat(64)), None));
}
