use std::time::Duration;

use aws_config::retry::RetryConfig;

use super::*;
use crate::aws::ATTEMPTS_MAX;
use crate::replay::{ReplayAnswer, ReplayedCall, aws, aws_that_repeats};

const CALL: &str = "iam:ListThings";

/// The names in the answers, and the calls that were made.
async fn list(
    script: impl Fn(&ReplayedCall) -> ReplayAnswer + Send + Sync + 'static,
) -> (Result<String, CallError>, Vec<String>) {
    let (aws, calls) = aws(script);
    let mut names = String::new();
    let read_page = |page: &XmlElement| {
        names.extend(page.members("Things").filter_map(|thing| thing.text("Name")));
        ControlFlow::Continue(())
    };
    let call = QueryCall::iam(CALL, aws.home());
    let read = call.read_pages(&aws, 3, |form| form.prefix("Path").string("/"), read_page).await;
    (read.map(|()| names), calls.said())
}

fn page(name: &str, more: &str) -> ReplayAnswer {
    let things = format!("<Things><member><Name>{name}</Name></member></Things>");
    ReplayAnswer::ok(format!("<ListThingsResult>{things}{more}</ListThingsResult><ResponseMetadata/>"))
}

#[tokio::test]
async fn a_form_goes_and_a_result_comes() {
    let (aws, calls) = aws(|_| page("a&amp;b", ""));
    let call = QueryCall::cloudformation("cloudformation:ListThings", aws.home());
    let write = |form: &mut QueryWriter<'_>| {
        form.prefix("Text").string("a=b&c d\né");
        write_list(form.prefix("Two"), ["1", "2"]);
        write_list(form.prefix("None"), []);
    };
    let answer = call.read(&aws, write).await.unwrap();
    assert_eq!(answer.members("Things").next().unwrap().text("Name"), Some("a&b"));
    let call = calls.recorded().remove(0);
    let expect =
        ["Action=ListThings", "None=", "Text=a=b&c d\né", "Two.member.1=1", "Two.member.2=2", "Version=2010-05-15"];
    assert_eq!((call.parameters.as_slice(), call.region.as_str()), (expect.map(str::to_owned).as_slice(), "us-east-1"));
    assert!(call.user_agent.contains(" api/cloudformation/"), "{}", call.user_agent);
}

#[tokio::test]
async fn pages_are_read_to_the_last_or_to_the_limit() {
    let next = |token: &str| format!("<IsTruncated>true</IsTruncated><Marker>{token}</Marker>");
    let (names, calls) = list(move |call| match call.parameters.iter().find(|one| one.starts_with("Marker=")) {
        None => page("a", &next("1&amp;2")),
        Some(_) => page("b", "<IsTruncated>false</IsTruncated>"),
    })
    .await;
    assert_eq!(
        (names, calls),
        (Ok("ab".to_owned()), vec!["ListThings Path=/".to_owned(), "ListThings Marker=1&2 Path=/".to_owned()])
    );
    let (names, calls) = list(move |call| {
        let marker = call.parameters.iter().find_map(|one| one.strip_prefix("Marker="));
        page("a", &next(&format!("{}1", marker.unwrap_or_default())))
    })
    .await;
    assert_eq!((names, calls.len()), (Ok("aaa".to_owned()), 3));
}

#[tokio::test]
async fn a_list_that_goes_on_nowhere_is_an_error() {
    let check = async |more: &'static str| {
        let (names, _) = list(move |_| page("a", more)).await;
        let said = names.unwrap_err().to_string();
        assert_eq!(
            said,
            "iam:ListThings failed in us-east-1: the answer is truncated, and does not say where the next page begins"
        );
    };
    check("<IsTruncated>true</IsTruncated>").await;
    check("<IsTruncated>true</IsTruncated><Marker/>").await;
    check("<Marker>same</Marker>").await;
}

#[tokio::test]
async fn an_answer_that_cannot_be_read_is_none() {
    let check = async |body: &'static str, expect: &str| {
        let (names, _) = list(move |_| ReplayAnswer::Raw(200, body.into())).await;
        let error = names.unwrap_err();
        assert!(error.kind.is_unanswered() && error.to_string().contains(expect), "{error}");
    };
    check("", "the answer ends within an element").await;
    check("<ListThingsResponse><ListThingsResult><Things><member>", "the answer ends within an element").await;
    check("<ListThingsResponse/>", "the answer has no ListThingsResult").await;
    check("<ListOthersResponse/>", "the answer is not a ListThingsResponse: <ListOthersResponse>").await;
}

#[tokio::test]
async fn an_error_has_the_code_and_the_words_of_aws() {
    let check = async |answer: (u16, &'static str), kind: CallErrorKind, message: &str| {
        let (names, _) = list(move |_| ReplayAnswer::Raw(answer.0, answer.1.into())).await;
        let error = names.unwrap_err();
        assert_eq!((error.kind, error.message.as_str()), (kind, message));
    };
    let denied = "<ErrorResponse><Error><Type>Sender</Type><Code>AccessDenied</Code><Message>Not &quot;you&quot;</Message></Error></ErrorResponse>";
    check((403, denied), CallErrorKind::Denied { by_organisation: false }, "AccessDenied: Not \"you\"").await;
    let throttled = "<ErrorResponse><Error><Code>Throttling</Code></Error></ErrorResponse>";
    check((400, throttled), CallErrorKind::Throttled, "Throttling").await;
    let message = "HTTP status 503: response error: the answer is not a ErrorResponse: <html>";
    check((503, "<html></html>"), CallErrorKind::Unanswered, message).await;
    let message = "HTTP status 400: response error: the error has no Error";
    check((400, "<ErrorResponse/>"), CallErrorKind::Unanswered, message).await;
}

#[tokio::test]
async fn only_what_the_sdk_repeats_is_repeated() {
    let check = async |answer: (u16, &'static str), expect: u32| {
        let retries =
            RetryConfig::standard().with_max_attempts(ATTEMPTS_MAX).with_initial_backoff(Duration::from_millis(1));
        let script = move |_: &ReplayedCall| ReplayAnswer::Raw(answer.0, answer.1.into());
        let (aws, calls) = aws_that_repeats(retries, Duration::from_secs(1), script);
        QueryCall::iam(CALL, aws.home()).request(&aws, |_| {}).await.unwrap_err();
        assert_eq!(calls.names().len(), expect as usize, "{answer:?}");
    };
    check((400, "<ErrorResponse><Error><Code>Throttling</Code></Error></ErrorResponse>"), ATTEMPTS_MAX).await;
    check((503, ""), ATTEMPTS_MAX).await;
    check((400, "<ErrorResponse><Error><Code>ValidationError</Code></Error></ErrorResponse>"), 1).await;
    check((200, "<ListThingsResponse>"), 1).await;
}
