use super::*;

fn gang() -> JobMachine {
    JobMachine { members: vec!["i-2".into(), "i-3".into()], launch: "0123456789abcdef".to_owned(), ..placed() }
}

/// Id, state and tags.
type SeenMachine<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)]);

/// Ends the machines that are so; and what was called.
async fn ended(machines: &[SeenMachine<'_>], refused: Option<&'static str>) -> (Result<(), CallError>, Vec<String>) {
    let all: Vec<String> = machines.iter().map(|(id, state, tags)| instance_xml(id, state, tags, "")).collect();
    let (aws, calls) = aws(move |call| match call.name.as_str() {
        "TerminateInstances" if refused.is_some_and(|id| call.parameters.iter().any(|one| one.ends_with(id))) => {
            ReplayAnswer::error("OperationNotPermitted", "said")
        }
        "TerminateInstances" => ReplayAnswer::ok(""),
        _ => instances_page(&all, None),
    });
    let ended = terminate(&aws, &JobId::read("vision/a-0123abcd").unwrap(), &gang(), now()).await;
    (ended, calls.said())
}

const LOOK: &str =
    "DescribeInstances Filter.1.Name=instance-id Filter.1.Value.1=i-1 Filter.1.Value.2=i-2 Filter.1.Value.3=i-3";

#[tokio::test]
async fn all_machines_end_in_one_call() {
    let (result, said) =
        ended(&[("i-1", "running", &OURS), ("i-2", "terminated", &[]), ("i-3", "pending", &OURS)], None).await;
    assert_eq!(
        (result, said.as_slice()),
        (Ok(()), &[LOOK.to_owned(), "TerminateInstances InstanceId.1=i-1 InstanceId.2=i-3".to_owned()][..])
    );
}

#[tokio::test]
async fn one_that_ec2_refuses_or_that_is_foreign_keeps_no_other() {
    let all = [("i-1", "running", &OURS[..]), ("i-2", "running", &OURS), ("i-3", "running", &OURS)];
    let (result, said) = ended(&all, Some("=i-2")).await;
    assert!(result.unwrap_err().to_string().contains("ec2:TerminateInstances failed"));
    assert_eq!(
        said[2..],
        [
            "TerminateInstances InstanceId.1=i-1",
            "TerminateInstances InstanceId.1=i-2",
            "TerminateInstances InstanceId.1=i-3"
        ]
    );
    let foreign = [("i-1", "running", &OURS[..]), ("i-2", "running", &[("curfew:job", "vision/b-0123abcd")])];
    let (result, said) = ended(&foreign, None).await;
    assert!(result.is_err());
    assert_eq!(said[1], "TerminateInstances InstanceId.1=i-1");
}

#[tokio::test]
async fn a_tag_on_one_holds_all() {
    let held = [OURS[0], ("curfew:protected", "")];
    let (result, said) =
        ended(&[("i-1", "running", &OURS), ("i-2", "running", &held), ("i-3", "running", &OURS)], None).await;
    let why = result.unwrap_err().message;
    assert!(why.starts_with("i-2 was not terminated: it carries the tag curfew:protected, which holds all"), "{why}");
    assert_eq!(said.len(), 1);
}
