//! EC2 as a run writes to it: the second look, then one call about one resource, as in the product.

use domain::id::ResourceId;
use domain::instance::Tags;
use domain::mode::Mode;
use domain::plan::{Action, Because, NoLonger, Safety, Seen, Step, is_safe, may_become_safe, still_holds};
use domain::report::{Outcome, OutcomeKind};
use domain::vocabulary::{DELETED_AT, MARKED, UNATTACHED_SINCE};
use domain::volume::{SnapshotState, Volume, VolumeState};
use jiff::Timestamp;

use crate::account::Account;
use crate::fault::Fault;
use crate::reaper::{Cut, Facts, Pulse};
use crate::world::Maker;

/// Why a call came to nothing, as far as the run knows.
enum Halt {
    Cut,
    Refused(&'static str),
    /// It was carried out, and nobody answered.
    Unheard,
    /// Somebody has attached it since the look.
    InUse,
    /// It is gone.
    Gone,
    /// Done, but for what comes after it.
    Half,
}

impl From<Cut> for Halt {
    fn from(_: Cut) -> Self {
        Self::Cut
    }
}

/// What a step is about.
#[derive(Clone, Copy)]
enum Place {
    Disk(usize),
    Snap(usize),
}

struct Writer<'a> {
    account: &'a mut Account,
    facts: &'a Facts,
    pulse: &'a mut Pulse,
    step: &'a Step,
    place: Place,
    /// When it writes.
    now: i64,
}

pub(crate) fn carry_out(account: &mut Account, facts: &Facts, pulse: &mut Pulse, step: &Step) -> Result<Outcome, Cut> {
    let id = step.target.resource.as_str();
    let place = account.world.disk(id).map(Place::Disk).or_else(|| account.world.snap(id).map(Place::Snap));
    let Some(place) = place else { return Ok(Outcome::of(OutcomeKind::AlreadyGone)) };
    let now = account.clock.max(facts.now + 1);
    let mut resource = Writer { account, facts, pulse, step, place, now };
    let repeats_itself = step.mode == Mode::Observe && step.told_before;
    if step.action != Action::Notify
        && !repeats_itself
        && let Err(outcome) = resource.still_holds()
    {
        return Ok(outcome);
    }
    if step.mode == Mode::Observe {
        return Ok(Outcome::of(OutcomeKind::Observed));
    }
    match resource.write() {
        Ok(()) => Ok(Outcome::of(OutcomeKind::Done)),
        Err(Halt::Cut) => Err(Cut),
        Err(Halt::Refused(why)) => Ok(Outcome::with(OutcomeKind::Failed, why)),
        Err(Halt::Unheard) => Ok(Outcome::with(OutcomeKind::Failed, "dispatch failure: no answer")),
        Err(Halt::InUse) => Ok(Outcome::with(OutcomeKind::Changed, "VolumeInUse")),
        Err(Halt::Gone) => Ok(Outcome::with(OutcomeKind::Failed, "NotFound")),
        Err(Halt::Half) => Ok(Outcome::with(OutcomeKind::Done, "deleted, but its snapshots carry no date yet")),
    }
}

impl Writer<'_> {
    fn look_fails(&mut self) -> bool {
        self.account.faults.strikes(Fault::SecondLookFailed, self.facts.now)
    }

    /// The resource as it is now.
    fn read_again(&self) -> Option<Seen> {
        let world = &self.account.world;
        match self.place {
            Place::Disk(place) => {
                let disk = &world.disks[place];
                (disk.ec2.state != VolumeState::Deleted).then(|| Seen::Volume(disk.ec2.clone()))
            }
            Place::Snap(place) => {
                let snap = &world.snaps[place];
                snap.exists().then(|| Seen::Snapshot(snap.ec2.clone()))
            }
        }
    }

    fn still_holds(&mut self) -> Result<(), Outcome> {
        if self.look_fails() {
            return Err(Outcome::with(OutcomeKind::Failed, "the second look failed"));
        }
        let Some(fresh) = self.read_again() else { return Err(Outcome::of(OutcomeKind::AlreadyGone)) };
        match still_holds(self.step, &fresh) {
            Ok(()) => {}
            Err(NoLonger::AlreadyGone) => return Err(Outcome::of(OutcomeKind::AlreadyGone)),
            Err(NoLonger::Changed) => return Err(Outcome::of(OutcomeKind::Changed)),
        }
        match (&self.step.seen, &self.step.action) {
            (Seen::Volume(volume), Action::Delete { safety: Some(safety), .. }) => self.is_safe(volume, safety),
            (Seen::Snapshot(snapshot), _) => self.is_outlived(&snapshot.of_volume),
            _ => Ok(()),
        }
    }

    fn since(&self) -> Timestamp {
        match &self.step.because {
            Because::Orphaned(orphaned) => orphaned.unattached_since,
            _ => Timestamp::MAX,
        }
    }

    fn is_safe(&mut self, volume: &Volume, safety: &Safety) -> Result<(), Outcome> {
        if self.look_fails() {
            return Err(Outcome::with(OutcomeKind::Failed, "the look at the snapshot failed"));
        }
        let world = &self.account.world;
        let snap = world.snap(safety.snapshot.as_str()).map(|place| &world.snaps[place]).filter(|snap| snap.exists());
        match snap {
            Some(snap) if is_safe(&snap.ec2, volume, self.since()) => Ok(()),
            _ => Err(Outcome::with(OutcomeKind::Changed, "it is no longer what it can be restored from")),
        }
    }

    fn is_outlived(&mut self, volume: &ResourceId) -> Result<(), Outcome> {
        if self.look_fails() {
            return Err(Outcome::with(OutcomeKind::Failed, "the look at the volume failed"));
        }
        let world = &self.account.world;
        let exists = world.disk(volume.as_str()).is_some_and(|place| world.disks[place].is_listed());
        if exists { Err(Outcome::with(OutcomeKind::Changed, "it exists")) } else { Ok(()) }
    }

    fn write(&mut self) -> Result<(), Halt> {
        let seen = self.step.seen.tags();
        match &self.step.action {
            Action::Notify | Action::Hold => Ok(()),
            Action::Mark(mark) => {
                let since = self.since().to_string();
                let first_sight = (seen.get(UNATTACHED_SINCE) != Some(&since)).then_some((UNATTACHED_SINCE, since));
                self.tag([(MARKED, mark.to_string())].into_iter().chain(first_sight).collect())
            }
            Action::Date { key, at } => self.tag(vec![(key, at.to_string())]),
            Action::Unmark { remaining, also } => {
                if let Some(mark) = remaining {
                    self.tag(vec![(MARKED, mark.to_string())])?;
                }
                let gone = remaining.is_none().then_some(MARKED).into_iter().chain(*also);
                self.untag(gone.filter(|key| seen.contains_key(*key)).collect())
            }
            Action::Snapshot { tags } => self.snapshot(tags),
            Action::Delete { expiring, at, .. } => match self.place {
                Place::Disk(place) => self.delete_volume(place, expiring, *at),
                Place::Snap(place) => self.delete_snapshot(place),
            },
            Action::Stop { .. } | Action::Terminate { .. } | Action::Start => {
                Err(Halt::Refused("a volume takes none of these"))
            }
        }
    }

    /// A call is carried out unless it is refused; and then its answer may be lost.
    fn call(&mut self, carry_out: impl FnOnce(&mut Self) -> Result<(), Halt>) -> Result<(), Halt> {
        self.pulse.beat()?;
        if self.account.faults.strikes(Fault::WriteRefused, self.facts.now) {
            return Err(Halt::Refused("RequestLimitExceeded"));
        }
        carry_out(self)?;
        if self.account.faults.strikes(Fault::WriteUnheard, self.facts.now) {
            return Err(Halt::Unheard);
        }
        Ok(())
    }

    /// What was done and not answered is done, if it can be seen.
    fn or_so_it_is(&mut self, answer: Result<(), Halt>) -> Result<(), Halt> {
        let Err(Halt::Unheard) = answer else { return answer };
        if self.look_fails() {
            self.account.faults.forgotten_at = self.facts.now;
            return Err(Halt::Unheard);
        }
        Ok(())
    }

    fn tags_of(&mut self) -> Result<&mut Tags, Halt> {
        let world = &mut self.account.world;
        match self.place {
            Place::Disk(place) if world.disks[place].is_listed() => Ok(&mut world.disks[place].ec2.tags),
            Place::Snap(place) if world.snaps[place].exists() => Ok(&mut world.snaps[place].ec2.tags),
            _ => Err(Halt::Gone),
        }
    }

    fn oracle_sees(&mut self, tags: &[(&'static str, String)], gone: &[&'static str]) {
        let Account { world, oracle, .. } = &mut *self.account;
        match self.place {
            Place::Disk(place) => oracle.tagged(world, place, tags, gone, self.facts),
            Place::Snap(place) => oracle.snapshot_tagged(world, place, false, self.facts),
        }
    }

    fn tag(&mut self, tags: Vec<(&'static str, String)>) -> Result<(), Halt> {
        self.call(|writer| {
            writer.oracle_sees(&tags, &[]);
            writer.tags_of()?.extend(tags.into_iter().map(|(key, value)| (key.to_owned(), value)));
            Ok(())
        })
    }

    fn untag(&mut self, keys: Vec<&'static str>) -> Result<(), Halt> {
        if keys.is_empty() {
            return Ok(());
        }
        let answer = self.call(|writer| {
            writer.oracle_sees(&[], &keys);
            let tags = writer.tags_of()?;
            for key in keys {
                tags.remove(key);
            }
            Ok(())
        });
        self.or_so_it_is(answer)
    }

    fn snapshot(&mut self, tags: &Tags) -> Result<(), Halt> {
        let Place::Disk(place) = self.place else { return Err(Halt::Refused("a snapshot of a snapshot")) };
        let answer = self.call(|writer| {
            let (facts, now) = (writer.facts, writer.now);
            let fails = writer.account.faults.strikes(Fault::SnapshotFailed, now);
            let Account { world, oracle, faults, .. } = &mut *writer.account;
            if !world.disks[place].exists() {
                return Err(Halt::Gone);
            }
            let doubling = [Fault::RunDoubled, Fault::RunSlow, Fault::SnapshotsStale, Fault::WriteUnheard];
            oracle.doublings = doubling.iter().map(|fault| faults.counts()[*fault as usize]).sum();
            oracle.last_fault = faults.last_at;
            oracle.snapshot_begun(world, place, tags, facts);
            world.begin_snapshot(place, Maker::Curfew, tags.clone(), fails, now);
            Ok(())
        });
        let Err(Halt::Unheard) = answer else { return answer };
        if !self.look_fails() && self.has_a_new_snapshot() { Ok(()) } else { Err(Halt::Unheard) }
    }

    fn has_a_new_snapshot(&self) -> bool {
        let Seen::Volume(volume) = &self.step.seen else { return false };
        let is_new = |state| matches!(state, SnapshotState::Pending | SnapshotState::Completed);
        let snaps = self.account.world.snaps.iter().filter(|snap| snap.exists()).map(|snap| &snap.ec2);
        snaps.into_iter().any(|snap| is_new(snap.state) && may_become_safe(snap, volume, self.since()))
    }

    fn delete_volume(&mut self, place: usize, expiring: &[ResourceId], at: Timestamp) -> Result<(), Halt> {
        let now = self.now;
        self.account.attach_at_the_call(place, now);
        let answer = self.call(|writer| {
            let Account { world, oracle, .. } = &mut *writer.account;
            oracle.volume_deleted(world, place, now, writer.facts);
            let disk = &mut world.disks[place];
            match disk.ec2.state {
                VolumeState::Available | VolumeState::Error => disk.delete(now),
                VolumeState::InUse => return Err(Halt::InUse),
                _ => return Err(Halt::Gone),
            }
            Ok(())
        });
        match self.or_so_it_is(answer) {
            Ok(()) | Err(Halt::Gone) => {}
            Err(halt) => return Err(halt),
        }
        if expiring.is_empty() {
            return Ok(());
        }
        self.pulse.beat()?;
        let world = &self.account.world;
        let places: Vec<Option<usize>> = expiring.iter().map(|id| world.snap(id.as_str())).collect();
        let all: Option<Vec<usize>> = places.into_iter().collect();
        let all = all.filter(|all| all.iter().all(|place| world.snaps[*place].exists()));
        let refused = self.account.faults.strikes(Fault::DateRefused, self.facts.now);
        // One that is unknown, and none of them is tagged.
        let Some(all) = all.filter(|_| !refused) else { return Err(Halt::Half) };
        for place in all {
            let Account { world, oracle, .. } = &mut *self.account;
            oracle.snapshot_tagged(world, place, true, self.facts);
            world.snaps[place].ec2.tags.insert(DELETED_AT.to_owned(), at.to_string());
        }
        Ok(())
    }

    fn delete_snapshot(&mut self, place: usize) -> Result<(), Halt> {
        let now = self.now;
        let answer = self.call(|writer| {
            let Account { world, oracle, .. } = &mut *writer.account;
            if !world.snaps[place].exists() {
                return Err(Halt::Gone);
            }
            if world.snaps[place].of_image {
                return Err(Halt::Refused("InvalidSnapshot.InUse"));
            }
            oracle.snapshot_deleted(world, place, now, writer.facts);
            world.snaps[place].gone_at = Some(now);
            Ok(())
        });
        match self.or_so_it_is(answer) {
            Err(Halt::Gone) => Ok(()),
            answer => answer,
        }
    }
}
