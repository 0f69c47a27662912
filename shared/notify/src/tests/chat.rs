//! Messages as custom notifications for a chat.

use serde_json::Value;

use super::*;
use crate::to_chat;

fn chat(message: &Message) -> Value {
    let copy = to_chat(message, &"run-1".into());
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
