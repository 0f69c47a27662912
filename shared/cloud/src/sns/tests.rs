use std::collections::BTreeSet;

use super::*;
use crate::replay::{ReplayAnswer, aws};

const TOPIC: &str = "arn:aws:sns:eu-central-1:123456789012:curfew";

fn topics() -> MessageTopics {
    MessageTopics::teams(TOPIC.to_owned())
}

fn message() -> Message {
    Message {
        audience: Audience::Team,
        team: "vision".to_owned(),
        teams: BTreeSet::from(["vision".to_owned()]),
        function: "reap-instances",
        severity: "action",
        subject: "Curfew: 1 matter".to_owned(),
        body: "i-0abc".to_owned(),
        resources: Vec::new(),
        paragraphs: 1,
    }
}

/// A page of subscriptions, by their ARNs, and the next page's token.
fn page(arns: &[&str], next: &str) -> String {
    let member = |arn: &&str| {
        format!(
            "<member><Protocol>email</Protocol><Endpoint>ada@example.com</Endpoint><SubscriptionArn>{arn}</SubscriptionArn></member>"
        )
    };
    let members: Vec<String> = arns.iter().map(member).collect();
    let next = if next.is_empty() { String::new() } else { format!("<NextToken>{next}</NextToken>") };
    let result = format!("<Subscriptions>{}</Subscriptions>{next}", members.concat());
    format!("<ListSubscriptionsByTopicResult>{result}</ListSubscriptionsByTopicResult>")
}

/// The attributes of a subscription, with its filter policy.
fn attributes(arn: &str, policy: Option<&str>) -> String {
    let entry = |key: &str, value: &str| format!("<entry><key>{key}</key><value>{value}</value></entry>");
    let policy = policy.map(|policy| entry("FilterPolicy", policy)).unwrap_or_default();
    let attributes = entry("SubscriptionArn", arn) + &policy;
    format!("<GetSubscriptionAttributesResult><Attributes>{attributes}</Attributes></GetSubscriptionAttributesResult>")
}

const CONFIRMED: &str = "arn:aws:sns:eu-central-1:123456789012:curfew:6b0e71bd";
const SECOND: &str = "arn:aws:sns:eu-central-1:123456789012:curfew:80289ba6";

#[tokio::test]
async fn a_confirmed_subscription_counts() {
    let table: [(&[&str], bool); 4] = [
        (&[], false),
        (&["PendingConfirmation"], false),
        (&["PendingConfirmation", "Deleted"], false),
        (&["PendingConfirmation", CONFIRMED], true),
    ];
    for (arns, expected) in table {
        let (aws, calls) = aws(move |_| ReplayAnswer::ok(page(arns, "")));
        assert_eq!(has_confirmed_subscription(&aws, &topics()).await, Ok(expected), "{arns:?}");
        assert_eq!(calls.recorded()[0].region, "eu-central-1", "where the topic lives");
    }
}

#[tokio::test]
async fn a_confirmed_subscription_may_be_on_a_later_page() {
    let (aws, calls) = aws(|call| {
        let is_second = call.parameters.iter().any(|parameter| parameter == "NextToken=two");
        ReplayAnswer::ok(if is_second { page(&[CONFIRMED], "") } else { page(&["PendingConfirmation"], "two") })
    });
    assert_eq!(has_confirmed_subscription(&aws, &topics()).await, Ok(true));
    assert_eq!(calls.names().len(), 2);
}

#[tokio::test]
async fn without_permission_the_subscriptions_are_unknown() {
    let (aws, _) = aws(|_| ReplayAnswer::query_error("AuthorizationError", "Not you"));
    for error in [
        has_confirmed_subscription(&aws, &topics()).await.unwrap_err(),
        subscriptions(&aws, &topics()).await.unwrap_err(),
    ] {
        assert!(error.to_string().ends_with("grant sns:ListSubscriptionsByTopic to the role that asked"), "{error}");
    }
}

/// Each filter by the answers about two confirmed subscriptions, and the number of calls.
async fn filters(answer: impl Fn(&str) -> ReplayAnswer + Send + Sync + 'static) -> (Vec<SubscriptionFilter>, usize) {
    let (aws, calls) = aws(move |call| {
        let asked = call.parameters.iter().find_map(|parameter| parameter.strip_prefix("SubscriptionArn="));
        asked.map_or_else(|| ReplayAnswer::ok(page(&["PendingConfirmation", CONFIRMED, SECOND], "")), &answer)
    });
    let found = subscriptions(&aws, &topics()).await.unwrap();
    let confirmed = found.all().iter().filter(|one| one.state == SubscriptionState::Confirmed);
    (confirmed.map(|one| one.filter.clone()).collect(), calls.names().len())
}

#[tokio::test]
async fn filter_policies_are_read_up_to_the_first_subscription_without_one() {
    let policy = r#"{"team": ["vision"]}"#;
    let filtered = SubscriptionFilter::from_attributes(Some(policy), None);
    let (found, calls) = filters(move |arn| ReplayAnswer::ok(attributes(arn, Some(policy)))).await;
    assert_eq!((found, calls), (vec![filtered.clone(), filtered.clone()], 3));
    let (found, calls) = filters(|arn| ReplayAnswer::ok(attributes(arn, None))).await;
    assert_eq!((&found[0], calls), (&SubscriptionFilter::None, 2));
}

#[tokio::test]
async fn what_is_not_known_of_a_filter_is_unreadable() {
    let unreadable = |filter: &SubscriptionFilter, words: &str| {
        assert!(matches!(filter, SubscriptionFilter::Unreadable(reason) if reason.contains(words)), "{filter:?}");
    };
    let (found, _) =
        filters(|_| ReplayAnswer::query_error("AuthorizationError", "Not authorized to access this subscription"))
            .await;
    unreadable(&found[0], "Not authorized to access this subscription");
    // An answer without attributes is none without a filter policy.
    let half = "<GetSubscriptionAttributesResult><Attributes></Attributes></GetSubscriptionAttributesResult>";
    let (found, _) = filters(move |_| ReplayAnswer::ok(half)).await;
    unreadable(&found[1], "the answer does not name the subscription");
    let (found, _) = filters(|_| ReplayAnswer::ok(attributes(CONFIRMED, None))).await;
    assert_eq!(found[0], SubscriptionFilter::None);
    let (found, _) = filters(|arn| match arn {
        CONFIRMED => ReplayAnswer::query_error("NotFound", "Subscription does not exist"),
        _ => ReplayAnswer::ok(attributes(arn, None)),
    })
    .await;
    assert_eq!(found, [SubscriptionFilter::None], "it was deleted meanwhile");
}

#[tokio::test]
async fn a_message_carries_what_filters_read() {
    let (aws, calls) = aws(|_| ReplayAnswer::ok("<PublishResult/>"));
    publish(&aws, TOPIC, &message()).await.unwrap();
    let call = &calls.recorded()[0];
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
    let (aws, calls) = aws(|_| ReplayAnswer::ok("<PublishResult/>"));
    publish(&aws, TOPIC, &Message { team: String::new(), ..message() }).await.unwrap();
    assert!(!calls.said()[0].contains("=team"), "{:?}", calls.said());
}

#[tokio::test]
async fn a_refused_message_is_an_error() {
    let (aws, _) = aws(|_| ReplayAnswer::query_error("AuthorizationError", "Not you"));
    let error = publish(&aws, TOPIC, &message()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "sns:Publish failed in eu-central-1: AuthorizationError: Not you; grant sns:Publish to the role that asked"
    );
}

#[test]
fn the_topic_says_its_region() {
    let home = Region::from("us-east-1");
    assert_eq!(region_of(TOPIC, &home).as_str(), "eu-central-1");
    assert_eq!(region_of("curfew", &home), home);
}
