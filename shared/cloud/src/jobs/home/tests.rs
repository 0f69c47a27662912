use jobs::boxes::{Home, HomeState};

use super::*;
use crate::replay::{ReplayAnswer, ReplayedCall, attached_xml, aws, page_of, snapshot_xml, volume_xml};

fn now() -> Timestamp {
    "2026-09-01T12:00:00Z".parse().unwrap()
}

fn gpu_box(uses: u32) -> GpuBox {
    let volume = HomeVolume {
        number: 2,
        zone: "us-east-1a".to_owned(),
        from: Some("snap-1".into()),
        id: Some("vol-1".into()),
        attached_to: None,
        uses,
        made_at: Some(now()),
    };
    GpuBox {
        name: "vision/my-box".to_owned(),
        owner: None,
        region: "us-east-1".into(),
        made_at: now(),
        holder: None,
        last_job: None,
        down_since: None,
        home: Home { volume: Some(volume), ..Home::new(200) },
    }
}

async fn sight_of(gpu_box: &GpuBox, volumes: Vec<String>, minutes: i64) -> Option<VolumeSight> {
    let (aws, _) = aws(move |call: &ReplayedCall| match call.name.as_str() {
        "DescribeVolumes" if volumes.is_empty() => ReplayAnswer::error("InvalidVolume.NotFound", "No"),
        "DescribeVolumes" => page_of("volumeSet", &volumes, None),
        _ => page_of("snapshotSet", &[], None),
    });
    observe_home(&aws, gpu_box, now() + SignedDuration::from_mins(minutes)).await.unwrap().volume
}

#[tokio::test]
async fn a_volume_is_seen_as_ec2_has_it() {
    let used = gpu_box(3);
    let seen = async |state: &str, more: &str| sight_of(&used, vec![volume_xml("vol-1", state, &[], more)], 60).await;
    assert_eq!(seen("available", "").await, Some(VolumeSight::Available));
    assert_eq!(seen("creating", "").await, Some(VolumeSight::Creating));
    assert_eq!(seen("error", "").await, Some(VolumeSight::Lost));
    assert_eq!(seen("in-use", &attached_xml("i-1")).await, Some(VolumeSight::InUse("i-1".into())));
    assert_eq!(seen("in-use", "").await, None, "by whom is not said");
    assert_eq!(sight_of(&used, Vec::new(), 60).await, Some(VolumeSight::Lost));
    assert_eq!(sight_of(&gpu_box(0), Vec::new(), 15).await, Some(VolumeSight::Lost));
    assert_eq!(sight_of(&gpu_box(0), Vec::new(), 14).await, None, "EC2 may not show it yet");
}

#[tokio::test]
async fn a_snapshot_counts_by_its_description() {
    let home = gpu_box(3);
    let own = home.describe_snapshot(HomeState { volume: 2, uses: 3 });
    let said = move |id: &str, state: &str, description: &str| {
        let written = "Curfew: vol-1 before its deletion, by run-1";
        snapshot_xml(id, "vol-1", state, &[]).replace(written, description)
    };
    let items = [said("snap-3", "completed", &own), said("snap-4", "error", &own), said("snap-5", "completed", "mine")];
    let (aws, _) = aws(move |call: &ReplayedCall| match call.name.as_str() {
        "DescribeVolumes" => page_of("volumeSet", &[volume_xml("vol-1", "available", &[], "")], None),
        _ => page_of("snapshotSet", &items, None),
    });
    let found = observe_home(&aws, &home, now()).await.unwrap().snapshots.unwrap();
    let ids: Vec<(&str, bool)> = found.iter().map(|one| (one.id.as_str(), one.completed)).collect();
    assert_eq!(ids, [("snap-3", true)]);
}

/// EC2 leaves the named snapshot of an earlier volume out of its lists, and answers this about its id.
async fn snapshots_after_an_omission(by_id: fn() -> ReplayAnswer) -> Result<Option<Vec<String>>, CallErrorKind> {
    let mut home = gpu_box(3);
    let of = HomeState { volume: 1, uses: 4 };
    home.home.snapshots = vec![HomeSnapshot { id: "snap-1".into(), of, at: now(), completed: true }];
    let (aws, _) = aws(move |call: &ReplayedCall| match call.name.as_str() {
        "DescribeVolumes" => page_of("volumeSet", &[volume_xml("vol-1", "available", &[], "")], None),
        _ if call.parameters.iter().any(|parameter| parameter == "SnapshotId.1=snap-1") => by_id(),
        _ => page_of("snapshotSet", &[], None),
    });
    let seen = observe_home(&aws, &home, now()).await.map_err(|error| error.kind)?;
    Ok(seen.snapshots.map(|found| found.into_iter().map(|one| one.id.to_string()).collect()))
}

#[tokio::test]
async fn one_answer_makes_no_snapshot_forgotten() {
    let there = || {
        let own = gpu_box(3).describe_snapshot(HomeState { volume: 1, uses: 4 });
        let written = "Curfew: vol-1 before its deletion, by run-1";
        page_of("snapshotSet", &[snapshot_xml("snap-1", "vol-1", "completed", &[]).replace(written, &own)], None)
    };
    assert_eq!(snapshots_after_an_omission(there).await, Ok(Some(vec!["snap-1".to_owned()])));
    let gone = || ReplayAnswer::error("InvalidSnapshot.NotFound", "No");
    assert_eq!(snapshots_after_an_omission(gone).await, Ok(Some(Vec::new())));
    let empty = || page_of("snapshotSet", &[], None);
    assert!(snapshots_after_an_omission(empty).await.is_err(), "EC2 does not say that it is gone");
}

#[tokio::test]
async fn each_step_is_one_call() {
    let home = gpu_box(0);
    let said = async |effect: HomeEffect| {
        let (aws, calls) = aws(|_| ReplayAnswer::ok("<volumeId>vol-2</volumeId>"));
        let tags = Tags::from([("Team".to_owned(), "vision".to_owned())]);
        change_home(&aws, &home, &effect, &tags).await.unwrap();
        calls.said().concat()
    };
    let created = said(HomeEffect::CreateVolume).await;
    for part in ["AvailabilityZone=us-east-1a", "Encrypted=true", "Size=200", "SnapshotId=snap-1", "VolumeType=gp3"] {
        assert!(created.contains(part), "{created}");
    }
    assert!(created.contains(&format!("ClientToken={}", home.volume_token(2))), "{created}");
    let attached = said(HomeEffect::Attach { volume: "vol-1".into(), instance: "i-1".into() }).await;
    assert_eq!(attached, "AttachVolume Device=/dev/sdp InstanceId=i-1 VolumeId=vol-1");
    let of = HomeState { volume: 2, uses: 1 };
    let taken = said(HomeEffect::CreateSnapshot { volume: "vol-1".into(), of }).await;
    assert!(taken.starts_with("CreateSnapshot") && taken.contains("state 2.1"), "{taken}");
    assert_eq!(said(HomeEffect::DeleteSnapshot("snap-1".into())).await, "DeleteSnapshot SnapshotId=snap-1");
}

#[tokio::test]
async fn what_is_gone_needs_no_deletion() {
    let (aws, _) = aws(|_| ReplayAnswer::error("InvalidVolume.NotFound", "No"));
    let deleted = change_home(&aws, &gpu_box(1), &HomeEffect::DeleteVolume("vol-1".into()), &Tags::default()).await;
    assert_eq!(deleted, Ok(None));
    let (aws, _) = crate::replay::aws(|_| ReplayAnswer::error("IncorrectState", "No"));
    let attach = HomeEffect::Attach { volume: "vol-1".into(), instance: "i-1".into() };
    assert!(change_home(&aws, &gpu_box(1), &attach, &Tags::default()).await.is_err());
    let (aws, _) = crate::replay::aws(|_| ReplayAnswer::error("VolumeInUse", "Another run was faster"));
    assert_eq!(change_home(&aws, &gpu_box(1), &attach, &Tags::default()).await, Ok(None));
}

#[tokio::test]
async fn a_home_is_kept_unless_a_person_keeps_it_for_longer() {
    let said = async |tags: &'static [(&str, &str)]| {
        let (aws, calls) = aws(move |call: &ReplayedCall| match call.name.as_str() {
            "DescribeVolumes" => page_of("volumeSet", &[volume_xml("vol-1", "available", tags, "")], None),
            _ => ReplayAnswer::ok("<return>true</return>"),
        });
        keep_home(&aws, &gpu_box(1), now()).await.unwrap();
        calls.said().last().cloned().unwrap()
    };
    let written = said(&[]).await;
    assert!(written.contains("Tag.1.Key=curfew:keep-until Tag.1.Value=2026-09-01T12:00:00Z"), "{written}");
    assert!(said(&[("curfew:keep-until", "2026-08-01")]).await.starts_with("CreateTags"));
    for kept in [&[("curfew:keep-until", "2027-01-01")], &[("curfew:keep-until", "soon")]] {
        assert!(said(kept).await.starts_with("DescribeVolumes"));
    }
    let (aws, _) = aws(|_| ReplayAnswer::error("InvalidVolume.NotFound", "No"));
    assert_eq!(keep_home(&aws, &gpu_box(1), now()).await, Ok(()), "it is gone");
}
