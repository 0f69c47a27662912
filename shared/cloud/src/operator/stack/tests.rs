use super::*;
use crate::replay::{ReplayAnswer, ReplayedCall, aws};

fn request(parameters: Vec<(&'static str, Option<String>)>, tags: Option<&str>) -> StackRequest<'static> {
    let tags = tags.map(|value| BTreeMap::from([("team".to_owned(), value.to_owned())]));
    StackRequest { stack: "s", template: "Resources: {}\n", parameters, tags }
}

fn accepted(call: &ReplayedCall) -> ReplayAnswer {
    ReplayAnswer::ok(format!("<{0}Result><StackId>id</StackId></{0}Result>", call.name))
}

fn no_such_stack(_: &ReplayedCall) -> ReplayAnswer {
    ReplayAnswer::query_error("ValidationError", "Stack with id s does not exist")
}

#[tokio::test]
async fn a_stack_is_read_with_its_parameters_outputs_and_tags() {
    let (aws, calls) = aws(|_| {
        ReplayAnswer::ok(
            "<DescribeStacksResult><Stacks><member><StackName>s</StackName><StackStatus>ROLLBACK_COMPLETE</StackStatus>\
             <StackStatusReason>R &lt; 1</StackStatusReason><Parameters><member><ParameterKey>Empty</ParameterKey><ParameterValue/>\
             </member><member><ParameterKey>Valueless</ParameterKey></member></Parameters><Outputs><member><OutputKey>Version</OutputKey>\
             <OutputValue>1</OutputValue></member></Outputs><Tags><member><Key>team</Key><Value>a</Value></member></Tags></member></Stacks>\
             </DescribeStacksResult>",
        )
    });
    let pair = |key: &str, value: &str| BTreeMap::from([(key.to_owned(), value.to_owned())]);
    let expect = Stack {
        name: "s".to_owned(),
        status: "ROLLBACK_COMPLETE".to_owned(),
        reason: Some("R < 1".to_owned()),
        parameters: pair("Empty", ""),
        outputs: pair("Version", "1"),
        tags: pair("team", "a"),
    };
    assert_eq!(read_stack(&aws, "s").await, Ok(Some(expect)));
    assert_eq!(calls.said(), ["DescribeStacks StackName=s"]);
}

#[tokio::test]
async fn an_absent_stack_is_no_error() {
    let (aws, _) = aws(no_such_stack);
    assert_eq!(read_stack(&aws, "s").await, Ok(None));
    assert_eq!(resources(&aws, "s").await, Ok(None));
}

#[tokio::test]
async fn a_request_has_the_parameters_and_the_tags() {
    let (aws, calls) = aws(accepted);
    let parameters = || vec![("Kept", None), ("New", Some("a b".to_owned()))];
    create_stack(&aws, &request(parameters(), Some("x"))).await.unwrap();
    assert_eq!(update_stack(&aws, &request(parameters(), None)).await, Ok(true));
    let expect = [
        "CreateStack Capabilities.member.1=CAPABILITY_NAMED_IAM Parameters.member.1.ParameterKey=New \
         Parameters.member.1.ParameterValue=a b StackName=s Tags.member.1.Key=team Tags.member.1.Value=x TemplateBody=Resources: {}\n",
        "UpdateStack Capabilities.member.1=CAPABILITY_NAMED_IAM Parameters.member.1.ParameterKey=Kept \
         Parameters.member.1.UsePreviousValue=true Parameters.member.2.ParameterKey=New Parameters.member.2.ParameterValue=a b \
         StackName=s TemplateBody=Resources: {}\n",
    ];
    assert_eq!(calls.said(), expect);
}

#[tokio::test]
async fn an_update_that_changes_nothing_is_no_error() {
    let (aws, _) = aws(|_| ReplayAnswer::query_error("ValidationError", "No updates are to be performed."));
    assert_eq!(update_stack(&aws, &request(Vec::new(), None)).await, Ok(false));
}

#[tokio::test]
async fn a_deletion_is_answered_without_a_result() {
    let (aws, calls) = aws(|_| ReplayAnswer::ok("<ResponseMetadata><RequestId>1</RequestId></ResponseMetadata>"));
    delete_stack(&aws, aws.home(), "s", "token").await.unwrap();
    assert_eq!(calls.said(), ["DeleteStack ClientRequestToken=token StackName=s"]);
}

#[tokio::test]
async fn the_first_failure_is_the_oldest_of_the_operation() {
    let event = |token: &str, id: &str, status: &str, reason: &str| {
        format!(
            "<member><ClientRequestToken>{token}</ClientRequestToken><LogicalResourceId>{id}</LogicalResourceId>\
             <ResourceType>AWS::IAM::Role</ResourceType><ResourceStatus>{status}</ResourceStatus>\
             <ResourceStatusReason>{reason}</ResourceStatusReason></member>"
        )
    };
    let page = |events: &[String], next: &str| {
        let events = format!("<StackEvents>{}</StackEvents>", events.concat());
        ReplayAnswer::ok(format!("<DescribeStackEventsResult>{events}{next}</DescribeStackEventsResult>"))
    };
    let (aws, calls) = aws(move |call| {
        if call.parameters.iter().any(|one| one == "NextToken=2") {
            return page(
                &[event("now", "First", "UPDATE_FAILED", "denied"), event("before", "Old", "UPDATE_FAILED", "old")],
                "<NextToken>3</NextToken>",
            );
        }
        page(
            &[
                event("now", "Third", "UPDATE_FAILED", "Resource update cancelled"),
                event("now", "Second", "UPDATE_FAILED", "later"),
            ],
            "<NextToken>2</NextToken>",
        )
    });
    let failure = first_failure(&aws, "s", "now").await.unwrap().unwrap();
    assert_eq!((failure.logical_id.as_str(), failure.reason.as_str()), ("First", "denied"));
    assert_eq!(calls.names().len(), 2);
}
