mod sources;

use std::sync::Mutex;

use super::*;
use crate::replay::{
    ReplayAnswer, ReplayedCall, ReplayedCalls, attached_xml, aws, instance_xml, instances_page, page_of, snapshot_xml,
    volume_xml,
};

async fn seen(
    script: impl Fn(&ReplayedCall) -> ReplayAnswer + Send + Sync + 'static,
) -> (ObservedStorage, ReplayedCalls) {
    let (aws, calls) = aws(script);
    let regions = [Region::from("us-east-1"), Region::from("eu-west-1")];
    let of_no_team = |volume: &Volume| !volume.tags.contains_key("Team");
    (storage(&aws, &regions, Duration::from_mins(1), |_, _| true, of_no_team).await, calls)
}

fn nothing(call: &ReplayedCall) -> ReplayAnswer {
    match call.name.as_str() {
        "DescribeVolumes" => page_of("volumeSet", &[], None),
        "DescribeSnapshots" => page_of("snapshotSet", &[], None),
        _ => instances_page(&[], None),
    }
}

/// Home answers like that; the other region has nothing.
async fn seen_at_home(
    script: impl Fn(&ReplayedCall) -> ReplayAnswer + Send + Sync + 'static,
) -> (ObservedStorage, ReplayedCalls) {
    seen(move |call| if call.region == "eu-west-1" { nothing(call) } else { script(call) }).await
}

/// One that is attached to nothing, and came from that snapshot.
fn available(id: &str, tags: &[(&str, &str)], from_snapshot: &str) -> String {
    let item = volume_xml(id, "available", tags, "");
    item.replace("<snapshotId/>", &format!("<snapshotId>{from_snapshot}</snapshotId>"))
}

fn asks_for(call: &ReplayedCall, filter: &str) -> bool {
    call.parameters.iter().any(|parameter| parameter == &format!("Filter.1.Name={filter}"))
}

#[tokio::test]
async fn volumes_are_seen_with_all_that_belongs_to_them() {
    let (seen, calls) = seen_at_home(|call| match call.name.as_str() {
        "DescribeVolumes" => {
            let attached = volume_xml("vol-1", "in-use", &[], &attached_xml("i-1"));
            let ours = available("vol-2", &[("Team", "vision")], "snap-5");
            page_of("volumeSet", &[attached, ours, available("vol-3", &[], "snap-6")], None)
        }
        "DescribeSnapshots" if asks_for(call, "snapshot-id") => {
            page_of("snapshotSet", &[snapshot_xml("snap-6", "vol-9", "completed", &[("Team", "audio")])], None)
        }
        "DescribeSnapshots" => {
            let of = |id: &str| snapshot_xml(id, "vol-2", "completed", &[("curfew:snapshot-of", "vol-2")]);
            page_of("snapshotSet", &[of("snap-1")], None)
        }
        _ => {
            let stopped = "<reason>User initiated (2026-01-01 12:00:00 GMT)</reason>";
            let other = instance_xml("i-2", "running", &[], "");
            instances_page(&[instance_xml("i-1", "stopped", &[("Team", "text")], stopped), other], None)
        }
    })
    .await;
    let ids: Vec<&str> = seen.volumes.items.iter().map(|volume| volume.id.as_str()).collect();
    assert_eq!((ids, seen.volumes.gaps), (vec!["vol-1", "vol-2", "vol-3"], vec![]));
    assert_eq!((seen.snapshots.len(), seen.snapshots[0].id.as_str()), (1, "snap-1"));
    let host = VolumeHost {
        id: "i-1".into(),
        region: "us-east-1".into(),
        tags: BTreeMap::from([("Team".to_owned(), "text".to_owned())]),
        stopped: true,
        stopped_at: Some("2026-01-01T12:00:00Z".parse().unwrap()),
    };
    assert_eq!(seen.hosts, [host]);
    let of_audio = BTreeMap::from([("Team".to_owned(), "audio".to_owned())]);
    assert_eq!(seen.sources, BTreeMap::from([("snap-6".into(), of_audio)]));
    let at_home: Vec<String> =
        calls.recorded().into_iter().filter(|call| call.region == "us-east-1").map(said).collect();
    assert_eq!(
        at_home,
        [
            "DescribeSnapshots Filter.1.Name=description Filter.1.Value.1=Curfew: * MaxResults=1000 Owner.1=self",
            "DescribeVolumes MaxResults=1000",
            "DescribeInstances Filter.1.Name=instance-state-name Filter.1.Value.1=pending Filter.1.Value.2=running \
             Filter.1.Value.3=stopping Filter.1.Value.4=stopped Filter.1.Value.5=shutting-down MaxResults=1000",
            "DescribeSnapshots Filter.1.Name=snapshot-id Filter.1.Value.1=snap-6 MaxResults=1000 Owner.1=self",
        ]
    );
}

fn said(call: ReplayedCall) -> String {
    let without = |parameter: &&String| !parameter.starts_with("Action=") && !parameter.starts_with("Version=");
    let parameters: Vec<&str> = call.parameters.iter().filter(without).map(String::as_str).collect();
    format!("{} {}", call.name, parameters.join(" "))
}

#[tokio::test]
async fn an_empty_region_costs_two_calls() {
    let (seen, calls) = seen(nothing).await;
    assert_eq!(seen, ObservedStorage::default());
    assert_eq!(calls.names().len(), 4, "{:?}", calls.names());
}

#[tokio::test]
async fn instances_are_looked_at_only_where_a_volume_is_attached() {
    let (seen, calls) = seen_at_home(|call| match call.name.as_str() {
        "DescribeVolumes" => page_of("volumeSet", &[volume_xml("vol-1", "available", &[], "")], None),
        _ => nothing(call),
    })
    .await;
    assert_eq!((seen.volumes.items.len(), seen.hosts.len()), (1, 0));
    assert_eq!(calls.names().iter().filter(|name| *name == "DescribeInstances").count(), 0);
}

#[tokio::test]
async fn a_host_that_runs_or_that_ec2_does_not_show_is_not_a_stopped_one() {
    let (seen, _) = seen_at_home(|call| match call.name.as_str() {
        "DescribeVolumes" => {
            let on = |id: &str, host: &str| volume_xml(id, "in-use", &[], &attached_xml(host));
            page_of("volumeSet", &[on("vol-1", "i-1"), on("vol-2", "i-hidden"), on("vol-3", "i-1")], None)
        }
        "DescribeInstances" => instances_page(&[instance_xml("i-1", "running", &[], "")], None),
        _ => nothing(call),
    })
    .await;
    let hosts: Vec<_> = seen.hosts.iter().map(|host| (host.id.as_str(), host.stopped, host.stopped_at)).collect();
    assert_eq!(hosts, [("i-1", false, None)]);
    assert_eq!((seen.volumes.items.len(), seen.volumes.gaps.len()), (3, 0));
}

/// A home with something in every list; what the second page of this call is answered like.
async fn with_second_page(
    of: &'static str,
    second: impl Fn() -> ReplayAnswer + Send + Sync + 'static,
) -> (ObservedStorage, ReplayedCalls) {
    seen(move |call| {
        if call.name == of && call.parameters.contains(&"NextToken=two".to_owned()) {
            return second();
        }
        let next = (call.region == "us-east-1" && call.name == of && !asks_for(call, "snapshot-id")).then_some("two");
        let id = |kind: &str| format!("{kind}-{}", &call.region[..2]);
        match call.name.as_str() {
            "DescribeVolumes" => {
                page_of("volumeSet", &[volume_xml(&id("vol"), "in-use", &[], &attached_xml(&id("i")))], next)
            }
            "DescribeSnapshots" => {
                let item = snapshot_xml(&id("snap"), &id("vol"), "pending", &[]);
                page_of("snapshotSet", &[item], next)
            }
            _ => instances_page(&[instance_xml(&id("i"), "stopped", &[], "")], next),
        }
    })
    .await
}

fn names(seen: &ObservedStorage) -> [Vec<&str>; 3] {
    [
        seen.volumes.items.iter().map(|volume| volume.id.as_str()).collect(),
        seen.snapshots.iter().map(|snapshot| snapshot.id.as_str()).collect(),
        seen.hosts.iter().map(|host| host.id.as_str()).collect(),
    ]
}

#[tokio::test]
async fn all_pages_are_read() {
    let more = || page_of("volumeSet", &[volume_xml("vol-2", "in-use", &[], &attached_xml("i-us"))], None);
    let (seen, _) = with_second_page("DescribeVolumes", more).await;
    assert_eq!(names(&seen), [vec!["vol-us", "vol-2", "vol-eu"], vec!["snap-us", "snap-eu"], vec!["i-us", "i-eu"]]);
    let more = || page_of("snapshotSet", &[snapshot_xml("snap-2", "vol-9", "completed", &[])], None);
    let (seen, _) = with_second_page("DescribeSnapshots", more).await;
    assert_eq!(names(&seen), [vec!["vol-us", "vol-eu"], vec!["snap-us", "snap-2", "snap-eu"], vec!["i-us", "i-eu"]]);
    let more = || instances_page(&[instance_xml("i-2", "running", &[], "")], None);
    let (seen, _) = with_second_page("DescribeInstances", more).await;
    assert_eq!(names(&seen), [vec!["vol-us", "vol-eu"], vec!["snap-us", "snap-eu"], vec!["i-us", "i-eu"]]);
}

const LISTS: [(&str, &str); 3] = [
    ("DescribeVolumes", "<volumeSet>"),
    ("DescribeSnapshots", "<snapshotSet>"),
    ("DescribeInstances", "<reservationSet>"),
];

/// Only the other region was seen, and there is one gap of this kind, for this call, that says this.
fn check_unseen(seen: &ObservedStorage, kind: GapKind, call: &str, says: &str) {
    assert_eq!(names(seen), [vec!["vol-eu"], vec!["snap-eu"], vec!["i-eu"]], "{call}");
    let [gap] = &seen.volumes.gaps[..] else { panic!("{:?}", seen.volumes.gaps) };
    assert_eq!((gap.region.as_str(), gap.kind, gap.call.as_str()), ("us-east-1", kind, &*format!("ec2:{call}")));
    assert!(gap.error.contains(says), "{}", gap.error);
}

#[tokio::test]
async fn a_half_seen_region_is_not_seen() {
    for (call, _) in LISTS {
        let (seen, _) = with_second_page(call, || ReplayAnswer::error("InternalError", "Oops")).await;
        check_unseen(&seen, GapKind::Region, call, "InternalError: Oops");
    }
}

#[tokio::test]
async fn a_page_that_is_cut_off_is_not_a_shorter_page() {
    for (call, set) in LISTS {
        let (seen, _) =
            with_second_page(call, move || ReplayAnswer::Raw(200, format!("<{call}Response>{set}").into())).await;
        check_unseen(&seen, GapKind::Region, call, "the answer ends within an element");
    }
}

#[tokio::test]
async fn a_missing_permission_is_named_and_a_forbidden_region_told_apart() {
    for (call, _) in LISTS {
        let (seen, _) = with_second_page(call, || ReplayAnswer::error("UnauthorizedOperation", "No")).await;
        check_unseen(&seen, GapKind::Region, call, &format!("grant ec2:{call} to the role that asked"));
        let denied = || ReplayAnswer::error("UnauthorizedOperation", "an explicit deny in a service control policy");
        let (seen, _) = with_second_page(call, denied).await;
        check_unseen(&seen, GapKind::ForbiddenRegion, call, "a policy of the organisation forbids it");
    }
}

#[tokio::test]
async fn pages_that_never_end_are_given_up() {
    for (call, set) in LISTS {
        let set = set.trim_matches(['<', '>']);
        let (seen, _) = with_second_page(call, move || page_of(set, &[], Some("two"))).await;
        check_unseen(&seen, GapKind::Region, call, "the token of this one");
    }
}

#[tokio::test]
async fn there_is_a_limit_to_pages() {
    let pages = Mutex::new(0);
    let (seen, calls) = seen_at_home(move |call| match call.name.as_str() {
        "DescribeVolumes" => {
            let mut page = pages.lock().unwrap();
            *page += 1;
            page_of("volumeSet", &[volume_xml("vol-1", "available", &[], "")], Some(&page.to_string()))
        }
        _ => nothing(call),
    })
    .await;
    assert!(seen.volumes.gaps[0].error.contains("more than 200 pages"), "{:?}", seen.volumes.gaps);
    assert_eq!(seen.volumes.items.len(), 0);
    assert_eq!(
        calls.names().iter().filter(|name| *name == "DescribeVolumes").count(),
        201,
        "200, and one of the other"
    );
}

#[tokio::test]
async fn a_region_that_does_not_answer_is_a_gap() {
    for (silent, _) in LISTS {
        let (aws, _) = aws(move |call| match call.name.as_str() {
            name if name == silent && call.region == "us-east-1" => ReplayAnswer::Silence,
            "DescribeVolumes" => {
                page_of("volumeSet", &[volume_xml("vol-1", "in-use", &[], &attached_xml("i-1"))], None)
            }
            _ => nothing(call),
        });
        let regions = ["us-east-1".into(), "eu-west-1".into()];
        let seen = storage(&aws, &regions, Duration::from_secs(1), |_, _| true, |_| true).await;
        let [gap] = &seen.volumes.gaps[..] else { panic!("{:?}", seen.volumes.gaps) };
        assert_eq!((gap.kind, gap.call.as_str()), (GapKind::Region, "ec2:DescribeVolumes"));
        assert!(gap.error.contains("no complete answer within 1 s"), "{}", gap.error);
        assert_eq!(seen.volumes.items.iter().map(|one| one.region.as_str()).collect::<Vec<_>>(), ["eu-west-1"]);
    }
}

/// A home with these volumes, and these snapshots that Curfew took.
async fn at_home(volumes: Vec<String>, snapshots: Vec<String>) -> ObservedStorage {
    let (seen, _) = seen_at_home(move |call| match call.name.as_str() {
        "DescribeVolumes" => page_of("volumeSet", &volumes, None),
        "DescribeSnapshots" => page_of("snapshotSet", &snapshots, None),
        _ => instances_page(&[], None),
    })
    .await;
    seen
}

#[tokio::test]
async fn a_volume_that_cannot_be_judged_is_a_gap_and_not_one_that_is_gone() {
    let whole = |id: &str| volume_xml(id, "available", &[], "");
    let half = |id: &str| whole(id).replace("<volumeType>gp3</volumeType>", "");
    let of = |id: &str, volume: &str| snapshot_xml(id, volume, "completed", &[]);
    let snapshots = vec![of("snap-1", "vol-1"), of("snap-2", "vol-2"), of("snap-4", "vol-3"), of("snap-5", "vol-gone")];
    let seen = at_home(vec![half("vol-3"), whole("vol-1"), half("vol-2")], snapshots).await;
    assert_eq!(names(&seen), [vec!["vol-1"], vec!["snap-1", "snap-5"], vec![]]);
    let [gap] = &seen.volumes.gaps[..] else { panic!("{:?}", seen.volumes.gaps) };
    assert_eq!((gap.kind, gap.call.as_str()), (GapKind::Listing, "ec2:DescribeVolumes"));
    assert!(gap.error.starts_with("2 volume(s), vol-2 among them, came without zone, type, "), "{}", gap.error);
}

#[tokio::test]
async fn what_could_be_any_volume_or_snapshot_makes_the_region_unseen() {
    let (volume, snapshot) =
        (volume_xml("vol-1", "available", &[], ""), snapshot_xml("snap-1", "vol-1", "pending", &[]));
    let nameless = volume.replace("<volumeId>vol-1</volumeId>", "");
    let seen = at_home(vec![volume.clone(), nameless], vec![snapshot.clone()]).await;
    assert_eq!((names(&seen), seen.volumes.gaps[0].kind), ([vec![], vec![], vec![]], GapKind::Region));
    assert!(seen.volumes.gaps[0].error.contains("one without volumeId"), "{:?}", seen.volumes.gaps);
    let half = snapshot.replace("<volumeSize>100</volumeSize>", "");
    let seen = at_home(vec![volume], vec![snapshot, half]).await;
    assert_eq!((names(&seen), seen.volumes.gaps[0].kind), ([vec![], vec![], vec![]], GapKind::Region));
    assert!(
        seen.volumes.gaps[0].error.contains("EC2 left out what must be known of snap-1"),
        "{:?}",
        seen.volumes.gaps
    );
}

#[tokio::test]
async fn details_that_tell_nothing_are_not_kept() {
    let (aws, _) = aws(|call| match call.name.as_str() {
        "DescribeVolumes" if call.parameters.contains(&"NextToken=two".to_owned()) => {
            let on = |id: &str, host: &str| volume_xml(id, "in-use", &[("Name", id)], &attached_xml(host));
            page_of("volumeSet", &[on("vol-3", "i-2"), on("vol-4", "i-1")], None)
        }
        "DescribeVolumes" => {
            let on = volume_xml("vol-1", "in-use", &[("Name", "vol-1")], &attached_xml("i-1"));
            page_of("volumeSet", &[on, available("vol-2", &[("Name", "vol-2")], "")], Some("two"))
        }
        "DescribeInstances" => {
            instances_page(&[instance_xml("i-1", "running", &[], ""), instance_xml("i-2", "stopped", &[], "")], None)
        }
        _ => nothing(call),
    });
    let runs = |id: &ResourceId, hosts: &Hosts| hosts.get(id).is_some_and(|host| !host.stopped);
    let on_what_runs = |volume: &Volume, hosts: &Hosts| volume.attached_to.iter().any(|id| runs(id, hosts));
    let tags = |volume: &Volume, hosts: &Hosts| !on_what_runs(volume, hosts);
    let seen = storage(&aws, &["us-east-1".into()], Duration::from_mins(1), tags, |_| true).await;
    let tags: Vec<_> = seen.volumes.items.iter().map(|volume| volume.tags.get("Name").map(String::as_str)).collect();
    assert_eq!(tags, [None, Some("vol-2"), Some("vol-3"), None]);
    let attached: Vec<usize> = seen.volumes.items.iter().map(|volume| volume.attached_to.len()).collect();
    assert_eq!(attached, [0, 0, 1, 0]);
    assert_eq!(seen.hosts.iter().map(|host| host.id.as_str()).collect::<Vec<_>>(), ["i-2"]);
}

#[tokio::test]
async fn instances_are_looked_at_once_however_many_pages_of_volumes_there_are() {
    let (seen, calls) = seen_at_home(|call| {
        let page = call.parameters.iter().find_map(|parameter| parameter.strip_prefix("NextToken=")).unwrap_or("0");
        match (call.name.as_str(), page) {
            ("DescribeVolumes", "0") => page_of("volumeSet", &[available("vol-0", &[], "")], Some("1")),
            ("DescribeVolumes", page) => {
                let next = (page != "3").then(|| (page.parse::<u8>().unwrap() + 1).to_string());
                let item = volume_xml(&format!("vol-{page}"), "in-use", &[], &attached_xml(&format!("i-{page}")));
                page_of("volumeSet", &[item], next.as_deref())
            }
            ("DescribeInstances", _) => {
                let instances = ["i-1", "i-2", "i-3", "i-4"].map(|id| instance_xml(id, "running", &[], ""));
                instances_page(&instances, None)
            }
            _ => nothing(call),
        }
    })
    .await;
    assert_eq!(names(&seen), [vec!["vol-0", "vol-1", "vol-2", "vol-3"], vec![], vec!["i-1", "i-2", "i-3"]]);
    assert_eq!(calls.names().iter().filter(|name| *name == "DescribeInstances").count(), 1);
}
