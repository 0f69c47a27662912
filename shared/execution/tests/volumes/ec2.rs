//! EC2 for one volume or snapshot: a run reads it again and changes it, one call about one resource.

use model::curfew_tags::DELETED_AT;
use model::id::ResourceId;
use model::instance::Tags;
use model::volume::{SNAPSHOT_DESCRIPTION_BEGINS, Snapshot, Volume, VolumeState};
use ports::{CallError, CallErrorKind, Ec2Write};

use crate::account::SimulatedAccount;
use crate::chance::{DAY, MINUTE};
use crate::fault::Fault;
use crate::session::{OneResource, Session};
use crate::world::SnapshotMaker;

/// Why a call failed.
type Refusal = (CallErrorKind, &'static str);

const NOT_FOUND: Refusal = (CallErrorKind::NotFound, "NotFound");

impl OneResource for Session {
    fn find_snapshots_of(&self, volume: &ResourceId) -> Result<Vec<Snapshot>, CallError> {
        if self.occurs(Fault::SecondReadFailed) {
            return Err(failed(self, "ec2:DescribeSnapshots", (CallErrorKind::Other, "the look failed")));
        }
        let account = self.account();
        let existing = account.world.snaps.iter().filter(|snap| snap.exists() && snap.ec2.of_volume == *volume);
        let described = existing.filter(|snap| snap.ec2.description.starts_with(SNAPSHOT_DESCRIPTION_BEGINS));
        Ok(described.map(|snap| snap.ec2.clone()).collect())
    }

    fn find_volume(&self, id: &ResourceId) -> Result<Volume, CallError> {
        let account = self.account();
        let disk = account.world.disk(id.as_str()).map(|place| &account.world.disks[place]);
        let found = disk.filter(|disk| disk.is_listed()).map(|disk| disk.ec2.clone());
        found.ok_or_else(|| failed(self, "ec2:DescribeVolumes", NOT_FOUND))
    }

    fn find_snapshot(&self, id: &ResourceId) -> Result<Snapshot, CallError> {
        let account = self.account();
        let snap = account.world.snap(id.as_str()).map(|place| &account.world.snaps[place]);
        let found = snap.filter(|snap| snap.exists()).map(|snap| snap.ec2.clone());
        found.ok_or_else(|| failed(self, "ec2:DescribeSnapshots", NOT_FOUND))
    }

    fn change_ec2(&self, call: &'static str, write: &Ec2Write<'_>) -> Result<(), CallError> {
        self::write(self, call, write)
    }
}

fn failed(session: &Session, call: &'static str, (kind, message): Refusal) -> CallError {
    let code = (kind == CallErrorKind::InUse).then(|| message.to_owned());
    CallError { code, ..session.failed(call, kind, message) }
}

fn write(session: &Session, call: &'static str, write: &Ec2Write<'_>) -> Result<(), CallError> {
    let mut account = session.account();
    let now = account.clock.max(session.now() + 1);
    let done = match write {
        Ec2Write::CreateTags { resources, tags } => create_tags(&mut account, session, resources, tags),
        Ec2Write::DeleteTags { resource, keys } => delete_tags(&mut account, session, resource, keys),
        Ec2Write::CreateSnapshot { volume, description, tags } => {
            create_snapshot(&mut account, session, volume, (description, tags), now)
        }
        Ec2Write::DeleteVolume(id) => delete_volume(&mut account, session, id, now),
        Ec2Write::DeleteSnapshot(id) => delete_snapshot(&mut account, session, id, now),
        Ec2Write::StopInstance(_) | Ec2Write::TerminateInstance(_) | Ec2Write::StartInstance(_) => {
            unreachable!("no run about volumes asks for {write:?}")
        }
    };
    drop(account);
    done.map_err(|refusal| failed(session, call, refusal))
}

/// If one resource is unknown, none of them is tagged.
fn create_tags(
    account: &mut SimulatedAccount,
    session: &Session,
    resources: &[ResourceId],
    tags: &[(&str, String)],
) -> Result<(), Refusal> {
    let SimulatedAccount { world, oracle, faults, .. } = account;
    let facts = &session.facts();
    let is_date = tags.iter().all(|(key, _)| *key == DELETED_AT);
    let has_own_step = |id: &ResourceId| session.steps.borrow().get(id).is_some_and(|(_, only_labels)| *only_labels);
    let after_its_volume = is_date && !resources.iter().any(has_own_step);
    if after_its_volume && faults.occurs(Fault::DateRefused, facts.now) {
        return Err((CallErrorKind::Throttled, "RequestLimitExceeded"));
    }
    let exists = |id: &ResourceId| {
        let disk = world.disk(id.as_str()).is_some_and(|place| world.disks[place].is_listed());
        disk || world.snap(id.as_str()).is_some_and(|place| world.snaps[place].exists())
    };
    if !resources.iter().all(exists) {
        return Err(NOT_FOUND);
    }
    for id in resources {
        let written = tags.iter().map(|(key, value)| ((*key).to_owned(), value.clone()));
        if let Some(place) = world.disk(id.as_str()) {
            oracle.tagged(world, place, tags, &[], facts);
            world.disks[place].ec2.tags.extend(written);
        } else if let Some(place) = world.snap(id.as_str()) {
            oracle.snapshot_tagged(world, place, after_its_volume, facts);
            world.snaps[place].ec2.tags.extend(written);
        }
    }
    Ok(())
}

fn delete_tags(
    account: &mut SimulatedAccount,
    session: &Session,
    id: &ResourceId,
    keys: &[&str],
) -> Result<(), Refusal> {
    let SimulatedAccount { world, oracle, .. } = account;
    let facts = &session.facts();
    let tags = if let Some(place) = world.disk(id.as_str()) {
        oracle.tagged(world, place, &[], keys, facts);
        Some(&mut world.disks[place]).filter(|disk| disk.is_listed()).map(|disk| &mut disk.ec2.tags)
    } else if let Some(place) = world.snap(id.as_str()) {
        oracle.snapshot_tagged(world, place, false, facts);
        Some(&mut world.snaps[place]).filter(|snap| snap.exists()).map(|snap| &mut snap.ec2.tags)
    } else {
        None
    };
    tags.ok_or(NOT_FOUND)?.retain(|key, _| !keys.contains(&key.as_str()));
    Ok(())
}

fn create_snapshot(
    account: &mut SimulatedAccount,
    session: &Session,
    id: &ResourceId,
    (description, tags): (&str, &Tags),
    now: i64,
) -> Result<(), Refusal> {
    let fails = account.faults.occurs(Fault::SnapshotFailed, now);
    let SimulatedAccount { world, oracle, faults, .. } = account;
    let place = world.disk(id.as_str()).filter(|place| world.disks[*place].exists()).ok_or(NOT_FOUND)?;
    let doubling =
        [Fault::RunDoubled, Fault::RunSlow, Fault::SnapshotsStale, Fault::VolumeUnlisted, Fault::WriteResponseLost];
    oracle.doublings = doubling.iter().map(|fault| faults.counts()[*fault as usize]).sum();
    oracle.last_fault = faults.last_at;
    oracle.snapshot_begun(world, place, (description, tags), &session.facts());
    world.begin_snapshot(place, SnapshotMaker::Curfew, (description, tags.clone()), fails, now);
    Ok(())
}

fn delete_volume(account: &mut SimulatedAccount, session: &Session, id: &ResourceId, now: i64) -> Result<(), Refusal> {
    let place = account.world.disk(id.as_str()).ok_or(NOT_FOUND)?;
    // Two runs at once may both have read it before either request.
    if account.world.disks[place].gone_at.is_some_and(|at| now - at < MINUTE) {
        return Err(NOT_FOUND);
    }
    account.attach_at_the_call(place, now);
    let SimulatedAccount { world, oracle, .. } = account;
    oracle.volume_deleted(world, place, now, &session.facts());
    let disk = &mut world.disks[place];
    match disk.ec2.state {
        VolumeState::Available | VolumeState::Error => disk.delete(now),
        VolumeState::InUse => return Err((CallErrorKind::InUse, "VolumeInUse")),
        _ => return Err(NOT_FOUND),
    }
    Ok(())
}

fn delete_snapshot(
    account: &mut SimulatedAccount,
    session: &Session,
    id: &ResourceId,
    now: i64,
) -> Result<(), Refusal> {
    let SimulatedAccount { world, oracle, .. } = account;
    let place = world.snap(id.as_str()).filter(|place| world.snaps[*place].exists()).ok_or(NOT_FOUND)?;
    if world.snaps[place].of_image {
        world.snaps[place].refused_until = now + DAY;
        return Err((CallErrorKind::InUse, "InvalidSnapshot.InUse"));
    }
    oracle.snapshot_deleted(world, place, now, &session.facts());
    world.snaps[place].gone_at = Some(now);
    Ok(())
}
