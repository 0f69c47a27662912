use super::*;
use crate::replay::{
    ReplayAnswer, ReplayedCall, ReplayedCalls, aws, instance_xml, instances_page, page_of, volume_xml,
};

fn types() -> ReplayAnswer {
    let gpu = "<gpuInfo><gpus><item><manufacturer>NVIDIA</manufacturer><count>1</count></item></gpus></gpuInfo>";
    let of = |name: &str, more: &str| format!("<item><instanceType>{name}</instanceType>{more}</item>");
    ReplayAnswer::ok(format!("<instanceTypeSet>{}{}</instanceTypeSet>", of("g5.xlarge", gpu), of("m5.large", "")))
}

const NO_GPU: &str = "<instanceType>m5.large</instanceType>";

fn attached(volume: &str, to: &[(&str, &str)]) -> String {
    let item = |(host, since): &(&str, &str)| {
        format!("<item><instanceId>{host}</instanceId><status>attached</status><attachTime>{since}</attachTime></item>")
    };
    let set = format!("<attachmentSet>{}</attachmentSet>", to.iter().map(item).collect::<String>());
    volume_xml(volume, "in-use", &[], &set)
}

/// Home, of which EC2 says that.
async fn seen(
    instances: Vec<String>,
    volumes: impl Fn(&ReplayedCall) -> ReplayAnswer + Send + Sync + 'static,
) -> (Observation<RegionObservation>, ReplayedCalls) {
    let (aws, calls) = aws(move |call| match call.name.as_str() {
        "DescribeInstances" => instances_page(&instances, None),
        "DescribeVolumes" => volumes(call),
        _ => types(),
    });
    (aws.looks(&["us-east-1".into()], Duration::from_mins(1)).await, calls)
}

fn no_volumes(_: &ReplayedCall) -> ReplayAnswer {
    page_of("volumeSet", &[], None)
}

async fn observe_region(instances: Vec<String>, volumes: Vec<String>) -> RegionObservation {
    let (mut seen, _) = seen(instances, move |_| page_of("volumeSet", &volumes, None)).await;
    assert_eq!((seen.items.len(), &seen.gaps), (1, &vec![]));
    seen.items.remove(0)
}

#[tokio::test]
async fn what_is_terminated_is_seen_with_its_end() {
    let reason = "<reason>User initiated (2026-09-01 11:59:07 GMT)</reason>";
    let item = |id: &str, state: &str| instance_xml(id, state, &[], reason);
    let states = ["running", "stopping", "stopped", "shutting-down", "terminated"];
    let instances = states.iter().enumerate().map(|(number, state)| item(&format!("i-{number}"), state)).collect();
    let (seen, calls) = seen(instances, no_volumes).await;
    let look = &seen.items[0];
    assert!(look.whole);
    let ended: Vec<bool> = look.instances.iter().map(|one| one.ended_at.is_some()).collect();
    assert_eq!(ended, [false, true, true, true, true]);
    assert_eq!(look.instances[4].ended_at, Some("2026-09-01T11:59:07Z".parse().unwrap()));
    let asked = calls.said();
    assert_eq!(asked[0], "DescribeInstances MaxResults=1000");
    assert!(
        asked[2].ends_with(
            "Filter.1.Value.1=i-0 Filter.1.Value.2=i-1 Filter.1.Value.3=i-2 Filter.1.Value.4=i-3 MaxResults=1000"
        ),
        "{}",
        asked[2]
    );
}

#[tokio::test]
async fn an_end_that_ec2_does_not_date_has_none() {
    let reason = "<reason/><stateReason><code>Server.SpotInstanceTermination</code></stateReason>";
    let look = observe_region(vec![instance_xml("i-1", "terminated", &[], reason)], vec![]).await;
    let seen = &look.instances[0];
    assert_eq!((seen.ended_at, seen.instance.state_reason.as_deref()), (None, Some("Server.SpotInstanceTermination")));
}

#[tokio::test]
async fn a_region_without_accelerators_is_whole_and_asked_for_no_volume() {
    let (seen, calls) = seen(vec![instance_xml("i-1", "running", &[], NO_GPU)], no_volumes).await;
    assert_eq!((seen.items[0].whole, seen.items[0].instances.len()), (true, 0));
    assert_eq!(calls.names(), ["DescribeInstances", "DescribeInstanceTypes"]);
}

#[tokio::test]
async fn a_volume_counts_once_on_its_first_accelerated_host() {
    let hosts = vec![
        instance_xml("i-0", "running", &[], NO_GPU),
        instance_xml("i-1", "running", &[], ""),
        instance_xml("i-2", "stopped", &[], ""),
    ];
    let (early, late) = ("2026-08-01T00:00:00.000Z", "2026-08-02T00:00:00.000Z");
    let shared = attached("vol-1", &[("i-1", late), ("i-2", early), ("i-0", "2026-07-01T00:00:00.000Z")]);
    let foreign = attached("vol-2", &[("i-0", early)]);
    let look = observe_region(hosts, vec![shared.clone(), shared, foreign]).await;
    let found: Vec<(&str, &str)> = look.volumes.iter().map(|one| (one.volume.id.as_str(), one.on.as_str())).collect();
    assert_eq!((found, look.whole), (vec![("vol-1", "i-2")], true));
    assert_eq!(look.volumes[0].since, early.parse().unwrap());
}

#[tokio::test]
async fn what_lacks_something_makes_a_look_that_is_not_whole() {
    let untimed = volume_xml(
        "vol-1",
        "in-use",
        &[],
        "<attachmentSet><item><instanceId>i-1</instanceId><status>attached</status></item></attachmentSet>",
    );
    let instances =
        vec![instance_xml("i-1", "running", &[], ""), "<item><instanceId>i-2</instanceId></item>".to_owned()];
    let (seen, _) = seen(instances, move |_| page_of("volumeSet", std::slice::from_ref(&untimed), None)).await;
    assert_eq!((seen.items[0].whole, seen.items[0].instances.len(), seen.items[0].volumes.len()), (false, 1, 0));
    let gaps: Vec<&str> = seen.gaps.iter().map(|gap| gap.error.as_str()).collect();
    assert_eq!(
        gaps,
        [
            "1 instance(s) came without id, type or launch time, and are not in the ledger",
            "1 volume(s) came without zone, type, size or since when they are attached, and are not in the ledger",
        ]
    );
}

#[tokio::test]
async fn a_region_that_fails_half_way_has_no_look() {
    let (seen, _) =
        seen(vec![instance_xml("i-1", "running", &[], "")], |_| ReplayAnswer::error("InternalError", "Oops")).await;
    assert_eq!((seen.items.len(), seen.gaps.len()), (0, 1));
    assert_eq!((seen.gaps[0].kind, seen.gaps[0].call.as_str()), (GapKind::Region, "ec2:DescribeVolumes"));
}

#[tokio::test]
async fn a_region_that_hangs_is_a_gap() {
    let (aws, _) = aws(|_| ReplayAnswer::Silence);
    let seen = aws.looks(&["us-east-1".into()], Duration::from_millis(1)).await;
    assert_eq!((seen.items.len(), seen.gaps[0].kind), (0, GapKind::Region));
}

#[tokio::test]
async fn many_hosts_are_asked_about_two_hundred_at_a_time() {
    let instances = (0..201).map(|number| instance_xml(&format!("i-{number}"), "running", &[], "")).collect();
    let (seen, calls) = seen(instances, no_volumes).await;
    assert_eq!((seen.items[0].instances.len(), seen.gaps.len()), (201, 0));
    assert_eq!(calls.names().iter().filter(|name| *name == "DescribeVolumes").count(), 2);
}
