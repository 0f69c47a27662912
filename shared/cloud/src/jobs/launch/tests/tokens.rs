use super::*;

/// EC2 does not name the instance, so `launch` finds it by its token.
#[tokio::test]
async fn a_token_of_a_terminated_instance_launched_it() {
    let gone = |call: &ReplayedCall, page: ReplayAnswer| match call.name.as_str() {
        "RunInstances" => ReplayAnswer::error("IdempotentInstanceTerminated", "said"),
        _ => page,
    };
    let (answered, calls) =
        check(move |call| gone(call, instances_page(&[instance_xml(ID, "terminated", &[], "")], None))).await;
    let launched_at = "2026-08-31T12:00:00Z".parse().unwrap();
    assert_eq!(answered, LaunchResult::Launched { instance: ID.into(), members: Vec::new(), launched_at });
    assert_eq!(calls.said()[1], "DescribeInstances Filter.1.Name=client-token Filter.1.Value.1=a-token");

    let (answered, _) = check(move |call| gone(call, instances_page(&[], None))).await;
    assert!(matches!(answered, LaunchResult::NoCapacity(_)), "{answered:?}");
    let (answered, _) = check(move |call| gone(call, ReplayAnswer::error("RequestLimitExceeded", "said"))).await;
    assert!(matches!(answered, LaunchResult::Unknown(_)), "{answered:?}");
    let nameless = "<item><instanceType>g5.xlarge</instanceType></item>".to_owned();
    let (answered, _) = check(move |call| gone(call, instances_page(std::slice::from_ref(&nameless), None))).await;
    assert!(matches!(answered, LaunchResult::Unknown(_)), "{answered:?}");
}

/// As after a change of the configured tags between two tries.
#[tokio::test]
async fn a_token_of_another_request_is_resolved() {
    let mismatch = |call: &ReplayedCall, page: ReplayAnswer| match call.name.as_str() {
        "RunInstances" => ReplayAnswer::error("IdempotentParameterMismatch", "said"),
        _ => page,
    };
    let (answered, _) =
        check(move |call| mismatch(call, instances_page(&[instance_xml(ID, "running", &[], "")], None))).await;
    assert!(matches!(&answered, LaunchResult::Launched { instance, .. } if instance.as_str() == ID), "{answered:?}");
    let (answered, _) = check(move |call| mismatch(call, instances_page(&[], None))).await;
    assert!(matches!(&answered, LaunchResult::Mismatch(why) if why.contains("IdempotentParameterMismatch")));
    let (answered, _) = check(move |call| mismatch(call, ReplayAnswer::error("InternalError", "said"))).await;
    assert!(matches!(answered, LaunchResult::Unknown(_)), "{answered:?}");
}

/// EC2 may have forgotten an old token, and would launch a second instance.
#[tokio::test]
async fn an_old_token_is_only_looked_up() {
    let look = |answer: fn() -> ReplayAnswer| async move {
        let (aws, calls) = repeating(Duration::from_secs(5), move |_| answer());
        let launch = LaunchRequest { only_find: true, ..spot() };
        let answered = ordered(&launch, MachineSpec::default(), "", &aws).await;
        assert!(calls.recorded().iter().all(|call| call.name == "DescribeInstances"), "nothing is launched");
        answered
    };
    let answered = look(|| instances_page(&[instance_xml(ID, "terminated", &[], "")], None)).await;
    assert!(matches!(&answered, LaunchResult::Launched { instance, .. } if instance.as_str() == ID), "{answered:?}");
    let answered = look(|| instances_page(&[], None)).await;
    assert!(matches!(answered, LaunchResult::NoCapacity(_)), "{answered:?}");
    let answered = look(|| ReplayAnswer::error("UnauthorizedOperation", "said")).await;
    assert!(matches!(answered, LaunchResult::Unknown(_)), "{answered:?}");
}
