use super::*;

/// The snapshots that are asked for by name, call by call, where home has these volumes.
async fn sources_asked(volumes: Vec<String>) -> (BTreeMap<ResourceId, Tags>, Vec<Vec<String>>) {
    let (seen, calls) = seen_at_home(move |call| match call.name.as_str() {
        "DescribeVolumes" => page_of("volumeSet", &volumes, None),
        "DescribeSnapshots" if asks_for(call, "snapshot-id") => {
            let found: Vec<String> =
                asked(call).map(|id| snapshot_xml(id, "vol-9", "completed", &[("Team", "audio")])).collect();
            page_of("snapshotSet", &found, None)
        }
        _ => nothing(call),
    })
    .await;
    assert_eq!(seen.volumes.gaps, []);
    let calls = calls.recorded().into_iter().filter(|call| asks_for(call, "snapshot-id"));
    (seen.sources, calls.map(|call| asked(&call).map(str::to_owned).collect()).collect())
}

fn asked(call: &ReplayedCall) -> impl Iterator<Item = &str> {
    call.parameters.iter().filter_map(|parameter| parameter.strip_prefix("Filter.1.Value.")?.split('=').nth(1))
}

#[tokio::test]
async fn sources_are_read_only_of_what_is_wanted_and_hangs_on_nothing() {
    let from = |id: &str, state: &str, more: &str, source: &str| {
        volume_xml(id, state, &[], more).replace("<snapshotId/>", &format!("<snapshotId>{source}</snapshotId>"))
    };
    let volumes = vec![
        available("vol-1", &[], "snap-1"),
        available("vol-2", &[("Team", "vision")], "snap-2"),
        available("vol-3", &[], ""),
        available("vol-4", &[], "snap-1"),
        from("vol-5", "in-use", &attached_xml("i-1"), "snap-5"),
        from("vol-6", "available", &attached_xml("i-1"), "snap-6"),
        from("vol-7", "creating", "", "snap-7"),
        from("vol-8", "error", "", "snap-8"),
    ];
    let (sources, calls) = sources_asked(volumes).await;
    assert_eq!(calls, [["snap-1"]]);
    assert_eq!(sources.len(), 1);
}

#[tokio::test]
async fn many_sources_are_asked_for_in_several_calls() {
    let volumes = (0..450).map(|number| available(&format!("vol-{number}"), &[], &format!("snap-{number}"))).collect();
    let (sources, calls) = sources_asked(volumes).await;
    assert_eq!(calls.iter().map(Vec::len).collect::<Vec<_>>(), [200, 200, 50]);
    assert_eq!(sources.len(), 450);
}

#[tokio::test]
async fn sources_that_cannot_be_read_make_the_region_unseen() {
    let (seen, _) = seen_at_home(|call| match call.name.as_str() {
        "DescribeVolumes" => page_of("volumeSet", &[available("vol-1", &[], "snap-1")], None),
        "DescribeSnapshots" if asks_for(call, "snapshot-id") => ReplayAnswer::error("InternalError", "Oops"),
        _ => nothing(call),
    })
    .await;
    assert_eq!((names(&seen), seen.volumes.gaps[0].kind), ([vec![], vec![], vec![]], GapKind::Region));
}

#[tokio::test]
async fn a_source_that_is_gone_or_anothers_has_no_tags() {
    let (seen, _) = seen_at_home(|call| match call.name.as_str() {
        "DescribeVolumes" => page_of("volumeSet", &[available("vol-1", &[], "snap-1")], None),
        _ => nothing(call),
    })
    .await;
    assert_eq!((seen.sources.len(), seen.volumes.items.len(), seen.volumes.gaps.len()), (0, 1, 0));
}
