mod gang;

use jobs::Lifecycle;
use model::money::Rate;

use super::*;
use crate::replay::{ReplayAnswer, ReplayedCall, ReplayedCalls, aws, instance_xml, instances_page};

const OURS: [(&str, &str); 2] = [("curfew:job", "vision/a-0123abcd"), ("curfew:attempt", "3")];

fn now() -> Timestamp {
    "2026-09-01T12:00:00Z".parse().unwrap()
}

fn ids(ids: &[&str]) -> Vec<ResourceId> {
    ids.iter().map(|id| ResourceId::from(*id)).collect()
}

async fn looked_at(
    asked: &[&str],
    script: impl Fn(&ReplayedCall) -> ReplayAnswer + Send + Sync + 'static,
) -> (Result<Vec<MachineObservation>, CallError>, ReplayedCalls) {
    let (aws, calls) = aws(script);
    (observe_machines(&aws, &"us-east-1".into(), &ids(asked), now()).await, calls)
}

fn absent(id: &str, sight: MachineSight) -> MachineObservation {
    MachineObservation { instance: id.into(), sight, launched_at: None, job: None, attempt: None, hold: None }
}

#[tokio::test]
async fn one_that_ec2_does_not_know_hides_no_other() {
    let more = "<stateReason><code>Server.SpotInstanceTermination</code></stateReason>";
    let one = instance_xml("i-2", "shutting-down", &OURS, more);
    let (looked, calls) =
        looked_at(&["i-1", "i-2", "i-1"], move |_| instances_page(std::slice::from_ref(&one), None)).await;
    let seen = MachineObservation {
        instance: "i-2".into(),
        sight: MachineSight::Seen {
            state: InstanceState::ShuttingDown,
            reason: Some("Server.SpotInstanceTermination".to_owned()),
        },
        launched_at: Some("2026-08-31T12:00:00Z".parse().unwrap()),
        job: Some("vision/a-0123abcd".to_owned()),
        attempt: Some(3),
        hold: None,
    };
    assert_eq!(looked.unwrap(), [absent("i-1", MachineSight::Absent), seen]);
    let said = calls.said();
    assert_eq!(said.len(), 1);
    assert!(said[0].contains("Filter.1.Name=instance-id Filter.1.Value.1=i-1 Filter.1.Value.2=i-2"), "{}", said[0]);
    assert!(!said[0].contains("InstanceId."), "{}", said[0]);
}

#[tokio::test]
async fn what_ec2_leaves_out_is_unknown_and_not_absent() {
    let nameless = "<item><instanceType>g5.xlarge</instanceType></item>".to_owned();
    let odd = instance_xml("i-2", "dreaming", &[], "");
    let (looked, _) = looked_at(&["i-1", "i-2"], move |_| instances_page(&[nameless.clone(), odd.clone()], None)).await;
    let looked = looked.unwrap();
    assert_eq!(looked[0], absent("i-1", MachineSight::Unknown));
    assert_eq!(looked[1].sight, MachineSight::Unknown);
}

#[tokio::test]
async fn an_attempt_that_is_no_number_is_none() {
    let one = instance_xml("i-1", "running", &[("curfew:attempt", "third")], "");
    let (looked, _) = looked_at(&["i-1"], move |_| instances_page(std::slice::from_ref(&one), None)).await;
    assert_eq!(looked.unwrap()[0].attempt, None);
}

#[tokio::test]
async fn many_are_looked_at_200_a_call_and_none_in_none() {
    let many: Vec<String> = (0..201).map(|number| format!("i-{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let (looked, calls) = looked_at(&many, |_| instances_page(&[], None)).await;
    assert_eq!((looked.unwrap().len(), calls.recorded().len()), (201, 2));
    let (looked, calls) = looked_at(&[], |_| instances_page(&[], None)).await;
    assert_eq!((looked.unwrap(), calls.recorded().len()), (Vec::new(), 0));
}

#[tokio::test]
async fn what_is_half_seen_is_an_error() {
    let many: Vec<String> = (0..201).map(|number| format!("i-{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let (looked, _) = looked_at(&many, |call| {
        if call.parameters.contains(&"Filter.1.Value.1=i-0".to_owned()) {
            instances_page(&[], None)
        } else {
            ReplayAnswer::error("RequestLimitExceeded", "said")
        }
    })
    .await;
    assert_eq!(looked.unwrap_err().kind, CallErrorKind::Throttled);
}

fn placed() -> JobMachine {
    let at = "2026-09-01T12:00:00Z".parse().unwrap();
    JobMachine {
        instance: "i-1".into(),
        members: Vec::new(),
        launch: String::new(),
        region: "us-east-1".into(),
        zone: "us-east-1a".to_owned(),
        instance_type: "g5.xlarge".into(),
        lifecycle: Lifecycle::Spot,
        rate_max: Rate::ZERO,
        rate: Rate::ZERO,
        transfer: None,
        attempt: 3,
        candidate: 0,
        launched_at: at,
        ends_at: at,
    }
}

/// Ends the machine, which is so; and what was called.
async fn ended(
    state: &str,
    tags: &[(&str, &str)],
    answer: fn() -> ReplayAnswer,
) -> (Result<(), CallError>, Vec<String>) {
    let one = instance_xml("i-1", state, tags, "");
    let (aws, calls) = aws(move |call| match call.name.as_str() {
        "TerminateInstances" => answer(),
        _ => instances_page(std::slice::from_ref(&one), None),
    });
    let ended = terminate(&aws, &JobId::read("vision/a-0123abcd").unwrap(), &placed(), now()).await;
    (ended, calls.said())
}

#[tokio::test]
async fn a_machine_of_the_job_is_ended_after_another_look() {
    for state in ["pending", "running", "stopping", "stopped"] {
        let (ended, said) = ended(state, &OURS, || ReplayAnswer::ok("")).await;
        assert_eq!(ended, Ok(()), "{state}");
        assert_eq!(said, ["DescribeInstances InstanceId.1=i-1", "TerminateInstances InstanceId.1=i-1"]);
    }
}

#[tokio::test]
async fn one_that_ends_already_is_not_ended_again() {
    for state in ["shutting-down", "terminated"] {
        let (ended, said) = ended(state, &[], || ReplayAnswer::ok("")).await;
        assert_eq!((ended, said.len()), (Ok(()), 1), "{state}");
    }
}

#[tokio::test]
async fn what_is_not_the_jobs_or_protected_is_left() {
    let table: [(&[(&str, &str)], &str); 8] = [
        (&[], "has no tag curfew:job"),
        (&[("curfew:job", "vision/b-0123abcd")], "names vision/b-0123abcd, not vision/a-0123abcd"),
        (&[("curfew:job", "vision/a-0123abcd"), ("curfew:protected", "")], "has the tag curfew:protected"),
        (&[("curfew:job", "vision/a-0123abcd"), ("Curfew:Protected ", "x")], "has the tag Curfew:Protected"),
        (&[("Curfew:Job", "vision/a-0123abcd")], "has no tag curfew:job"),
        (&[OURS[0], ("curfew:keep-until", "2026-09-02")], "carries the tag curfew:keep-until"),
        (&[OURS[0], ("curfew:mode", "observe")], "carries the tag curfew:mode=observe"),
        (&[OURS[0], ("curfew:hours", "often")], "which cannot be read"),
    ];
    for (tags, why) in table {
        let (ended, said) = ended("running", tags, || ReplayAnswer::ok("")).await;
        assert!(ended.unwrap_err().message.contains(why), "{why}");
        assert_eq!(said.len(), 1, "{why}");
    }
}

#[tokio::test]
async fn what_ec2_does_not_know_or_refuses_is_not_ended() {
    let job = JobId::read("vision/a-0123abcd").unwrap();
    let (aws, _) = aws(|_| ReplayAnswer::error("InvalidInstanceID.NotFound", "said"));
    assert_eq!(terminate(&aws, &job, &placed(), now()).await.unwrap_err().kind, CallErrorKind::NotFound);
    let (aws, _) = crate::replay::aws(|_| instances_page(&[], None));
    assert_eq!(terminate(&aws, &job, &placed(), now()).await.unwrap_err().kind, CallErrorKind::Other);
    let (ended, said) = ended("running", &OURS, || ReplayAnswer::error("OperationNotPermitted", "said")).await;
    assert!(ended.unwrap_err().to_string().starts_with("ec2:TerminateInstances failed in us-east-1"));
    assert_eq!(said.len(), 2);
}
