use super::*;
use crate::replay::{Answer, aws};

const TOPIC: &str = "arn:aws:sns:eu-central-1:123456789012:curfew";

fn message() -> Message {
    Message {
        team: "vision".to_owned(),
        function: "reap-instances",
        severity: "action",
        subject: "Curfew: 1 matter".to_owned(),
        body: "i-0abc".to_owned(),
    }
}

fn attributes(confirmed: &str) -> String {
    format!(
        "<GetTopicAttributesResponse><GetTopicAttributesResult><Attributes>{confirmed}</Attributes>\
         </GetTopicAttributesResult></GetTopicAttributesResponse>"
    )
}

#[tokio::test]
async fn confirmed_subscriptions_are_counted_where_the_topic_lives() {
    let entry = "<entry><key>SubscriptionsConfirmed</key><value>2</value></entry>";
    let (aws, calls) = aws(move |_| Answer::ok(attributes(entry)));
    assert_eq!(listeners(&aws, TOPIC).await, Ok(2));
    assert_eq!(calls.all()[0].region, "eu-central-1");
}

#[tokio::test]
async fn an_answer_without_a_count_is_no_zero() {
    let (aws, _) = aws(|_| Answer::ok(attributes("")));
    let error = listeners(&aws, TOPIC).await.unwrap_err();
    assert!(error.to_string().starts_with("sns:GetTopicAttributes failed in eu-central-1"), "{error}");
}

#[tokio::test]
async fn a_message_carries_what_filters_read() {
    let (aws, calls) = aws(|_| Answer::ok("<PublishResponse><PublishResult/></PublishResponse>"));
    publish(&aws, TOPIC, &message()).await.unwrap();
    let call = &calls.all()[0];
    for (name, value) in [("team", "vision"), ("function", "reap-instances"), ("severity", "action")] {
        let entry =
            call.parameters.iter().find_map(|parameter| parameter.strip_suffix(&format!(".Name={name}"))).unwrap();
        assert!(call.parameters.contains(&format!("{entry}.Value.StringValue={value}")));
        assert!(call.parameters.contains(&format!("{entry}.Value.DataType=String")));
    }
    assert!(call.parameters.contains(&format!("TopicArn={TOPIC}")));
    assert!(call.parameters.contains(&"Subject=Curfew: 1 matter".to_owned()));
}

#[tokio::test]
async fn an_empty_attribute_does_not_fail_the_message() {
    let (aws, calls) = aws(|_| Answer::ok("<PublishResponse><PublishResult/></PublishResponse>"));
    publish(&aws, TOPIC, &Message { team: String::new(), ..message() }).await.unwrap();
    assert!(!calls.said()[0].contains("=team"), "{:?}", calls.said());
}

#[tokio::test]
async fn a_refused_message_is_an_error() {
    let (aws, _) = aws(|_| Answer::query_error("AuthorizationError", "Not you"));
    let error = publish(&aws, TOPIC, &message()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "sns:Publish failed in eu-central-1: AuthorizationError: Not you; grant sns:Publish to the function's role"
    );
}

#[test]
fn subjects_are_what_sns_takes() {
    assert_eq!(subject("Curfew: stopped i-0abc"), "Curfew: stopped i-0abc");
    assert_eq!(subject("Zürich\nteam"), "Z?rich?team");
    assert_eq!(subject(&"x".repeat(500)).len(), 99);
    assert_eq!(subject("  "), "Curfew");
}

#[test]
fn the_topic_says_its_region() {
    let home = Region::from("us-east-1");
    assert_eq!(region_of(TOPIC, &home).as_str(), "eu-central-1");
    assert_eq!(region_of("curfew", &home), home);
}
