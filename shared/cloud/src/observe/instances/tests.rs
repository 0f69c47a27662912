use std::sync::Mutex;

use model::instance::{Accelerator, InstanceTypeFacts};

use super::*;
use crate::replay::{ReplayAnswer, ReplayedCall, ReplayedCalls, aws, instance_xml, instances_page};

/// `g5.xlarge` has a GPU, `m5.large` has none, and other types are unknown.
fn types(call: &ReplayedCall) -> ReplayAnswer {
    let gpu = "<gpuInfo><gpus><item><manufacturer>NVIDIA</manufacturer><count>1</count></item></gpus></gpuInfo>";
    let of = |name: &str, more: &str| {
        let asked = call.parameters.iter().any(|parameter| parameter.ends_with(&format!("={name}")));
        let vcpus = "<vCpuInfo><defaultVCpus>4</defaultVCpus></vCpuInfo>";
        if asked { format!("<item><instanceType>{name}</instanceType>{vcpus}{more}</item>") } else { String::new() }
    };
    let items = of("g5.xlarge", gpu) + &of("m5.large", "");
    ReplayAnswer::ok(format!("<instanceTypeSet>{items}</instanceTypeSet>"))
}

async fn seen(
    script: impl Fn(&ReplayedCall) -> ReplayAnswer + Send + Sync + 'static,
) -> (Observation<Instance>, ReplayedCalls) {
    let (aws, calls) = aws(script);
    let regions = [Region::from("us-east-1"), Region::from("eu-west-1")];
    (instances(&aws, &regions, Duration::from_mins(1)).await, calls)
}

/// Home answers like that; the other region has nothing.
async fn seen_at_home(
    script: impl Fn(&ReplayedCall) -> ReplayAnswer + Send + Sync + 'static,
) -> (Observation<Instance>, ReplayedCalls) {
    seen(move |call| if call.region == "eu-west-1" { instances_page(&[], None) } else { script(call) }).await
}

fn ids(seen: &Observation<Instance>) -> Vec<&str> {
    seen.items.iter().map(|instance| instance.id.as_str()).collect()
}

fn running(id: &str, more: &str) -> String {
    instance_xml(id, "running", &[], more)
}

const NO_GPU: &str = "<instanceType>m5.large</instanceType>";

#[tokio::test]
async fn only_accelerated_ones_are_seen_with_the_facts_of_their_type() {
    let (seen, calls) = seen(|call| match call.name.as_str() {
        "DescribeInstances" if call.region == "us-east-1" => {
            let named = "<privateDnsName>ip-10-0-0-1.ec2.internal</privateDnsName>";
            instances_page(&[running("i-1", named), running("i-2", NO_GPU)], None)
        }
        "DescribeInstances" => instances_page(&[running("i-3", "")], None),
        _ => types(call),
    })
    .await;
    assert_eq!((ids(&seen), &seen.gaps), (vec!["i-1", "i-3"], &vec![]));
    let machine =
        InstanceTypeFacts { accelerator: Accelerator::Nvidia, accelerators: 1, vcpus: 4, ..InstanceTypeFacts::UNKNOWN };
    assert_eq!((&seen.items[0].machine, seen.items[0].host.as_deref()), (&machine, Some("ip-10-0-0-1")));
    assert_eq!(seen.items[1].region.as_str(), "eu-west-1");
    assert_eq!(calls.names().len(), 4, "{:?}", calls.names());
    let look = calls.recorded().into_iter().find(|call| call.name == "DescribeInstances").unwrap();
    assert!(look.parameters.contains(&"MaxResults=1000".to_owned()));
    assert!(look.parameters.contains(&"Filter.1.Name=instance-state-name".to_owned()));
}

#[tokio::test]
async fn an_empty_region_costs_one_call() {
    let (seen, calls) = seen_at_home(|_| instances_page(&[], None)).await;
    assert_eq!((seen.items.len(), seen.gaps.len(), calls.names().len()), (0, 0, 2));
}

/// Two pages at home, of which the second is answered like that.
async fn with_second_page(second: impl Fn() -> ReplayAnswer + Send + Sync + 'static) -> Observation<Instance> {
    let (seen, _) = seen(move |call| match call.name.as_str() {
        "DescribeInstances" if call.parameters.contains(&"NextToken=two".to_owned()) => second(),
        "DescribeInstances" if call.region == "us-east-1" => instances_page(&[running("i-1", "")], Some("two")),
        "DescribeInstances" => instances_page(&[running("i-3", "")], None),
        _ => types(call),
    })
    .await;
    seen
}

#[tokio::test]
async fn all_pages_are_read() {
    let seen = with_second_page(|| instances_page(&[running("i-2", "")], None)).await;
    assert_eq!((ids(&seen), seen.gaps.len()), (vec!["i-1", "i-2", "i-3"], 0));
}

#[tokio::test]
async fn a_half_seen_region_is_not_seen() {
    let seen = with_second_page(|| ReplayAnswer::error("InternalError", "Oops")).await;
    assert_eq!(ids(&seen), ["i-3"], "the other region is");
    assert_eq!(seen.gaps.len(), 1);
    assert_eq!((seen.gaps[0].region.as_str(), seen.gaps[0].kind), ("us-east-1", GapKind::Region));
}

#[tokio::test]
async fn a_page_that_is_cut_off_is_not_a_shorter_page() {
    let whole = format!("<reservationSet><item><instancesSet>{}</instancesSet></item>", running("i-2", ""));
    let seen =
        with_second_page(move || ReplayAnswer::Raw(200, format!("<DescribeInstancesResponse>{whole}").into())).await;
    assert_eq!((ids(&seen), seen.gaps.len()), (vec!["i-3"], 1));
    assert_eq!((seen.gaps[0].kind, seen.gaps[0].call.as_str()), (GapKind::Region, "ec2:DescribeInstances"));
}

#[tokio::test]
async fn pages_that_never_end_are_given_up() {
    let seen = with_second_page(|| instances_page(&[running("i-2", "")], Some("two"))).await;
    assert_eq!(ids(&seen), ["i-3"]);
    assert!(seen.gaps[0].error.contains("the token of this one"), "{:?}", seen.gaps);
    let pages = Mutex::new(0);
    let (seen, calls) = seen_at_home(move |_| {
        let mut page = pages.lock().unwrap();
        *page += 1;
        instances_page(&[], Some(&page.to_string()))
    })
    .await;
    assert!(seen.gaps[0].error.contains("more than 200 pages"), "{:?}", seen.gaps);
    assert_eq!(calls.names().len(), 201, "200, and one of the other region");
}

#[tokio::test]
async fn a_forbidden_region_is_told_apart() {
    let denied = "You are not authorized, with an explicit deny in a service control policy";
    let (seen, _) = seen_at_home(move |_| ReplayAnswer::error("UnauthorizedOperation", denied)).await;
    assert_eq!((seen.gaps[0].kind, seen.gaps[0].call.as_str()), (GapKind::ForbiddenRegion, "ec2:DescribeInstances"));
}

#[tokio::test]
async fn unknown_types_are_a_gap() {
    let (seen, _) = seen_at_home(|call| match call.name.as_str() {
        "DescribeInstances" => {
            instances_page(&[running("i-1", "<instanceType>g99.metal</instanceType>"), running("i-2", "")], None)
        }
        _ => types(call),
    })
    .await;
    assert_eq!((ids(&seen), seen.gaps.len()), (vec!["i-2"], 1));
    assert!(seen.gaps[0].error.contains("g99.metal"), "{:?}", seen.gaps);
}

#[tokio::test]
async fn types_that_may_not_be_described_are_one_gap() {
    let (seen, _) = seen_at_home(|call| match call.name.as_str() {
        "DescribeInstances" => instances_page(&[running("i-1", ""), running("i-2", NO_GPU)], None),
        _ => ReplayAnswer::error("UnauthorizedOperation", "No"),
    })
    .await;
    assert_eq!((seen.items.len(), seen.gaps.len()), (0, 1));
    assert!(seen.gaps[0].error.contains("grant ec2:DescribeInstanceTypes"), "{:?}", seen.gaps);
}

#[tokio::test]
async fn many_types_are_asked_for_in_several_calls() {
    let many = |call: &ReplayedCall| match call.name.as_str() {
        "DescribeInstances" => {
            let of = |number| running(&format!("i-{number}"), &format!("<instanceType>t{number}.large</instanceType>"));
            instances_page(&(0..150).map(of).collect::<Vec<_>>(), None)
        }
        _ => types(call),
    };
    let (seen, calls) = seen_at_home(many).await;
    assert_eq!(calls.names().iter().filter(|name| *name == "DescribeInstanceTypes").count(), 2);
    assert_eq!(seen.gaps.len(), 150);
}

fn spot(id: &str, request: &str) -> String {
    running(
        id,
        &format!("<instanceLifecycle>spot</instanceLifecycle><spotInstanceRequestId>{request}</spotInstanceRequestId>"),
    )
}

async fn with_spot_requests(
    answer: impl Fn() -> ReplayAnswer + Send + Sync + 'static,
) -> (Observation<Instance>, ReplayedCalls) {
    seen_at_home(move |call| match call.name.as_str() {
        "DescribeInstances" => {
            let of_no_gpu =
                spot("i-5", "sir-5").replace("<instanceLifecycle>", &format!("{NO_GPU}<instanceLifecycle>"));
            let unnamed = running("i-4", "<instanceLifecycle>spot</instanceLifecycle>");
            instances_page(&[spot("i-1", "sir-1"), spot("i-2", "sir-2"), running("i-3", ""), unnamed, of_no_gpu], None)
        }
        "DescribeSpotInstanceRequests" => answer(),
        _ => types(call),
    })
    .await
}

fn request(id: &str, kind: &str) -> String {
    format!("<item><spotInstanceRequestId>{id}</spotInstanceRequestId><type>{kind}</type><state>active</state></item>")
}

fn purchases(seen: &Observation<Instance>) -> Vec<PurchaseOption> {
    seen.items.iter().map(|instance| instance.purchase).collect()
}

#[tokio::test]
async fn spot_requests_are_read_where_accelerated_instances_name_them() {
    let (seen, calls) = with_spot_requests(|| {
        let requests = request("sir-1", "persistent") + &request("sir-2", "one-time");
        ReplayAnswer::ok(format!("<spotInstanceRequestSet>{requests}</spotInstanceRequestSet>"))
    })
    .await;
    let expected = [
        PurchaseOption::SpotPersistent,
        PurchaseOption::SpotOneTime,
        PurchaseOption::OnDemand,
        PurchaseOption::SpotOneTime,
    ];
    assert_eq!((purchases(&seen), seen.gaps.len()), (expected.to_vec(), 0));
    let asked = calls.said().into_iter().find(|said| said.starts_with("DescribeSpotInstanceRequests")).unwrap();
    assert!(asked.ends_with("Filter.1.Value.1=sir-1 Filter.1.Value.2=sir-2"), "{asked}");
}

#[tokio::test]
async fn spot_requests_that_cannot_be_read_stay_unknown() {
    let denied = with_spot_requests(|| ReplayAnswer::error("UnauthorizedOperation", "No")).await.0;
    let absent = with_spot_requests(|| ReplayAnswer::ok("<spotInstanceRequestSet/>")).await.0;
    for seen in [denied, absent] {
        let expected = [
            PurchaseOption::SpotUnknown,
            PurchaseOption::SpotUnknown,
            PurchaseOption::OnDemand,
            PurchaseOption::SpotOneTime,
        ];
        assert_eq!(purchases(&seen), expected);
        assert_eq!((seen.gaps.len(), seen.gaps[0].kind), (1, GapKind::Part));
        assert_eq!(seen.gaps[0].call, "ec2:DescribeSpotInstanceRequests");
    }
}

#[tokio::test]
async fn an_instance_without_a_launch_time_is_a_gap() {
    let (seen, _) = seen_at_home(|call| match call.name.as_str() {
        "DescribeInstances" => {
            let half = "<item><instanceId>i-2</instanceId><instanceType>g5.xlarge</instanceType></item>".to_owned();
            instances_page(&[running("i-1", ""), half], None)
        }
        _ => types(call),
    })
    .await;
    assert_eq!((ids(&seen), seen.gaps.len()), (vec!["i-1"], 1));
}
