//! The home of a box, as EC2 knows it. `jobs::boxes` decides.

use std::time::Duration;

use aws_sdk_ec2::error::ProvideErrorMetadata as _;
use aws_sdk_ec2::types::{ResourceType, VolumeType};
use futures::future::join;
use jiff::{SignedDuration, Timestamp};
use jobs::boxes::{GpuBox, HomeEffect, HomeSight, HomeSnapshot, HomeVolume, VolumeSight};
use model::curfew_tags::{KEEP_UNTIL, read_keep_until};
use model::id::ResourceId;
use model::instance::Tags;
use model::volume::{Snapshot, SnapshotState, VolumeState};
use ports::{Cloud, Ec2Write};

use super::launch::tagged;
use crate::aws::Aws;
use crate::describe::{DESCRIBE_SNAPSHOTS, snapshots_page};
use crate::error::{CallError, CallErrorKind, call_error};
use crate::observe::filter;
use crate::observe::pages::all_pages;

const CREATE_VOLUME: &str = "ec2:CreateVolume";
const ATTACH_VOLUME: &str = "ec2:AttachVolume";

/// The name by which EC2 knows the disk, the last of those for volumes, which images use least (EC2 user guide, "Device names for volumes"). Linux
/// names it by the id of the volume (EBS user guide, "Map Amazon EBS volumes to NVMe device names").
const DEVICE: &str = "/dev/sdp";

/// EC2 shows what it made after some minutes at worst (EC2 API reference, "Eventual consistency").
const SHOWN_AFTER: SignedDuration = SignedDuration::from_mins(15);

const AGAIN_AFTER: Duration = Duration::from_secs(2);

pub(super) async fn observe_home(aws: &Aws, gpu_box: &GpuBox, now: Timestamp) -> Result<HomeSight, CallError> {
    let Some(volume) = &gpu_box.home.volume else { return Ok(HomeSight::default()) };
    let Some(id) = &volume.id else { return Ok(HomeSight::default()) };
    let (volume, snapshots) = join(sight(aws, gpu_box, volume, id, now), snapshots(aws, gpu_box, id)).await;
    Ok(HomeSight { volume: volume?, snapshots: Some(snapshots?) })
}

/// `None` where EC2 does not say, which it may not do at first of a volume that was just made.
async fn sight(
    aws: &Aws,
    gpu_box: &GpuBox,
    volume: &HomeVolume,
    id: &ResourceId,
    now: Timestamp,
) -> Result<Option<VolumeSight>, CallError> {
    let found = match aws.describe_volume(&gpu_box.region, id).await {
        Ok(found) => found,
        Err(error) if error.kind == CallErrorKind::NotFound => {
            let is_old = volume.made_at.is_none_or(|made_at| now.duration_since(made_at) >= SHOWN_AFTER);
            if !is_old {
                return Ok(None);
            }
            // Of a home one answer is not enough.
            tokio::time::sleep(AGAIN_AFTER).await;
            let again = aws.describe_volume(&gpu_box.region, id).await;
            let is_gone = again.is_err_and(|error| error.kind == CallErrorKind::NotFound);
            return Ok(is_gone.then_some(VolumeSight::Lost));
        }
        Err(error) => return Err(error),
    };
    Ok(match (found.state, found.attached_to.into_iter().next()) {
        (VolumeState::Creating, _) => Some(VolumeSight::Creating),
        (VolumeState::Deleting | VolumeState::Deleted | VolumeState::Error, _) => Some(VolumeSight::Lost),
        (VolumeState::Available | VolumeState::InUse, Some(instance)) => Some(VolumeSight::InUse(instance)),
        (VolumeState::Available, None) => Some(VolumeSight::Available),
        (VolumeState::InUse | VolumeState::Unknown, _) => None,
    })
}

/// The snapshots that the home names, unless EC2 leaves one out twice, and those of its volume whose description says which state they hold.
async fn snapshots(aws: &Aws, gpu_box: &GpuBox, volume: &ResourceId) -> Result<Vec<HomeSnapshot>, CallError> {
    let region = &gpu_box.region;
    let of_volume = Some(filter("volume-id", [volume.as_str()]));
    let named = gpu_box.home.snapshots.iter().map(|one| one.id.as_str());
    let named = (!gpu_box.home.snapshots.is_empty()).then(|| filter("snapshot-id", named));
    let mut found: Vec<Snapshot> = Vec::new();
    for which in [of_volume, named].into_iter().flatten() {
        all_pages(DESCRIBE_SNAPSHOTS, region, async |token| {
            let call = aws.ec2(region).describe_snapshots().owner_ids("self").filters(which.clone());
            let page = snapshots_page(call.set_next_token(token), region).await?;
            if !page.incomplete.is_empty() {
                let message = "the answer about the snapshots of a home is incomplete";
                return Err(CallError::new(DESCRIBE_SNAPSHOTS, region, CallErrorKind::Incomplete, message));
            }
            found.extend(page.snapshots);
            Ok(page.next_token)
        })
        .await?;
    }
    let is_missing = |one: &&HomeSnapshot| found.iter().all(|snapshot| snapshot.id != one.id);
    let missing: Vec<&HomeSnapshot> = gpu_box.home.snapshots.iter().filter(is_missing).collect();
    if !missing.is_empty() {
        // As of a volume, one answer is not enough: nothing would lead to the snapshot of an earlier volume again.
        tokio::time::sleep(AGAIN_AFTER).await;
    }
    for one in missing {
        match aws.describe_snapshot(region, &one.id).await {
            Ok(snapshot) => found.push(snapshot),
            Err(error) if error.kind == CallErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    let mut homes: Vec<HomeSnapshot> = Vec::new();
    for snapshot in found {
        let of = gpu_box.read_description(&snapshot.description);
        let is_usable = matches!(snapshot.state, SnapshotState::Pending | SnapshotState::Completed);
        let is_new = homes.iter().all(|one| one.id != snapshot.id);
        if let Some(of) = of.filter(|_| is_usable && is_new) {
            let completed = snapshot.state == SnapshotState::Completed;
            homes.push(HomeSnapshot { id: snapshot.id, of, at: snapshot.started_at, completed });
        }
    }
    Ok(homes)
}

pub(super) async fn change_home(
    aws: &Aws,
    gpu_box: &GpuBox,
    effect: &HomeEffect,
    tags: &Tags,
) -> Result<Option<ResourceId>, CallError> {
    let region = &gpu_box.region;
    let done = match effect {
        HomeEffect::CreateVolume => return create_volume(aws, gpu_box, tags).await.map(Some),
        HomeEffect::Attach { volume, instance } => {
            let call = aws.ec2(region).attach_volume().volume_id(volume.as_str()).instance_id(instance.as_str());
            return match call.device(DEVICE).send().await {
                Ok(_) => Ok(None),
                // Another run was faster; the next look tells to which instance.
                Err(error) if error.code() == Some("VolumeInUse") => Ok(None),
                Err(error) => Err(call_error(ATTACH_VOLUME, region, &error)),
            };
        }
        HomeEffect::CreateSnapshot { volume, of } => {
            let description = &gpu_box.describe_snapshot(*of);
            aws.write(region, Ec2Write::CreateSnapshot { volume, description, tags }).await
        }
        HomeEffect::DeleteVolume(volume) => aws.write(region, Ec2Write::DeleteVolume(volume)).await,
        HomeEffect::DeleteSnapshot(snapshot) => aws.write(region, Ec2Write::DeleteSnapshot(snapshot)).await,
    };
    match done {
        // What is to be deleted was found a moment ago, or was deleted before.
        Err(error) if error.kind == CallErrorKind::NotFound => Ok(None),
        done => done.map(|()| None),
    }
}

async fn create_volume(aws: &Aws, gpu_box: &GpuBox, tags: &Tags) -> Result<ResourceId, CallError> {
    let region = &gpu_box.region;
    let missing = |message| CallError::new(CREATE_VOLUME, region, CallErrorKind::Other, message);
    let volume = gpu_box.home.volume.as_ref().ok_or_else(|| missing("the home names no volume to make"))?;
    let call = aws
        .ec2(region)
        .create_volume()
        .availability_zone(&volume.zone)
        .volume_type(VolumeType::Gp3)
        .size(i32::try_from(gpu_box.home.size_gib).unwrap_or(i32::MAX))
        .encrypted(true)
        .set_snapshot_id(volume.from.as_ref().map(|snapshot| snapshot.as_str().to_owned()))
        .tag_specifications(tagged(ResourceType::Volume, tags))
        .client_token(gpu_box.volume_token(volume.number));
    let answer = call.send().await.map_err(|error| call_error(CREATE_VOLUME, region, &error))?;
    answer.volume_id.filter(|id| !id.is_empty()).map(ResourceId::new).ok_or_else(|| {
        CallError::new(CREATE_VOLUME, region, CallErrorKind::Unanswered, "EC2 answered without the new volume's id")
    })
}

pub(super) async fn keep_home(aws: &Aws, gpu_box: &GpuBox, until: Timestamp) -> Result<(), CallError> {
    let Some(id) = gpu_box.home.volume.as_ref().and_then(|volume| volume.id.as_ref()) else { return Ok(()) };
    let seen = match aws.describe_volume(&gpu_box.region, id).await {
        Ok(seen) => seen,
        Err(error) if error.kind == CallErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    // A person may have kept it for longer; what cannot be read keeps it, too.
    let is_kept = |kept: &String| read_keep_until(kept).map_or(true, |kept| kept >= until);
    if seen.tags.get(KEEP_UNTIL).is_some_and(is_kept) {
        return Ok(());
    }
    let (resources, tags) = (std::slice::from_ref(id), [(KEEP_UNTIL, until.to_string())]);
    aws.write(&gpu_box.region, Ec2Write::CreateTags { resources, tags: &tags }).await
}

#[cfg(test)]
mod tests;
