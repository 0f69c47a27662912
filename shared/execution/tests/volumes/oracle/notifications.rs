//! Notifications: announcements, repetitions, and how to undo a deletion.

use std::hash::{DefaultHasher, Hash, Hasher};

use jiff::Timestamp;
use model::instance::Tags;
use model::rule::ResourceAction;
use model::volume::Volume;
use notify::Message;
use serde_json::Value;

use super::{InvariantOracle, PromisedAction};
use crate::chance::{HOUR, stamp};
use crate::session::Facts;
use crate::world::SimulatedWorld;

/// A condition is notified once a day.
const REPEATED_WITHIN: i64 = 22 * HOUR;
/// Without faults, a deletion must be notified within this time.
const TOLD_WITHIN: i64 = 4 * HOUR;
/// The longest delay until an event before an observation becomes visible.
const MARGIN: i64 = 3 * HOUR;

/// How a message restores a volume.
pub(crate) struct UndoCommand {
    pub(crate) disk: usize,
    pub(crate) snapshot: String,
    /// The restored volume, except for its id and its creation.
    pub(crate) volume: Volume,
}

/// A volume or a snapshot.
#[derive(Clone, Copy)]
enum MessageSubject {
    Disk(usize),
    Snap(usize),
}

impl InvariantOracle {
    fn record(&mut self, about: MessageSubject) -> &mut super::ResourceRecord {
        match about {
            MessageSubject::Disk(place) => self.disk(place),
            MessageSubject::Snap(place) => self.snap(place),
        }
    }

    /// A message was delivered. Returns the deletions with a way to undo them.
    pub(crate) fn check_message(
        &mut self,
        message: &Message,
        world: &SimulatedWorld,
        facts: &Facts,
    ) -> Vec<UndoCommand> {
        let mut undos = Vec::new();
        for paragraph in message.body.split("\n\n") {
            let Some((id, _)) = paragraph.split_once(" (") else { continue };
            let about = world.disk(id).map(MessageSubject::Disk).or_else(|| world.snap(id).map(MessageSubject::Snap));
            let Some(about) = about else { continue };
            if let MessageSubject::Disk(place) = about {
                self.check_volume_paragraph(paragraph, place, message, world, facts);
                if paragraph.contains("It was deleted") {
                    self.announce_expiry(paragraph, place, world, facts);
                    undos.extend(self.undo(paragraph, place, world, facts));
                }
            }
            if let (MessageSubject::Snap(place), Some((ending, deadline))) = (about, announcement(paragraph)) {
                let announced = PromisedAction::told(facts, ending, deadline, facts.settings.grace);
                self.snap(place).announced.push(announced);
            }
            if paragraph.contains("It was deleted") {
                self.record(about).untold_end = None;
            }
            self.is_no_repetition(paragraph, about, world, facts);
        }
        undos
    }

    fn check_volume_paragraph(
        &mut self,
        paragraph: &str,
        place: usize,
        message: &Message,
        world: &SimulatedWorld,
        facts: &Facts,
    ) {
        let now = facts.now;
        if let Some((ending, deadline)) = announcement(paragraph) {
            let teams = world.teams(place);
            if !teams.contains(&message.team.as_str()) && world.changed_at(place, now) < now - MARGIN {
                let what = format!("{}: its end is announced to {}", world.disks[place].id(), message.team);
                self.violated(now, what);
            }
            let announced = PromisedAction::told(facts, ending, deadline, facts.settings.grace);
            self.disk(place).announced.push(announced);
        }
        if let Some(deadline) = called_off(paragraph) {
            let these = self.disk(place).announced.iter_mut().filter(|one| one.deadline == deadline);
            these.for_each(|one| one.called_off_by = Some(facts.id));
        }
        if paragraph.contains(", which has been stopped since ") {
            self.disk(place).idle_host_told_at = now;
        }
        if paragraph.contains(" cannot be read: ") {
            self.disk(place).unreadable_told_at = now;
        }
    }

    /// The message of a deletion announces the expiry of the volume's snapshots, whenever that is.
    fn announce_expiry(&mut self, paragraph: &str, disk: usize, world: &SimulatedWorld, facts: &Facts) {
        let until = ["Undo until ", "Its earlier snapshots are kept until "];
        let Some((_, after)) = until.iter().find_map(|words| paragraph.split_once(words)) else { return };
        let until = after.split_whitespace().next().map(|word| word.trim_end_matches([':', '.']));
        let Some(until) = until.and_then(|word| word.parse::<Timestamp>().ok()) else { return };
        for place in (0..world.snaps.len()).filter(|place| world.snaps[*place].disk == disk) {
            let announced = PromisedAction::told(facts, ResourceAction::Delete, until.as_second(), 0);
            self.snap(place).announced.push(announced);
        }
    }

    /// The command restores the whole volume with its own tags, from a snapshot that has its data and exists as long as promised.
    fn undo(&mut self, paragraph: &str, place: usize, world: &SimulatedWorld, facts: &Facts) -> Option<UndoCommand> {
        let disk = &world.disks[place];
        let id = disk.id();
        let Some((_, undo)) = paragraph.split_once("\nUndo until ") else {
            // Without a snapshot there is no way back; the configuration may have changed since.
            let lost = self.configured_at < facts.now - MARGIN && self.last_fault < facts.now - MARGIN;
            if facts.settings.action == crate::settings::OrphanAction::SnapshotAndDelete && lost {
                self.violated(facts.now, format!("{id}: deleted, without a way to undo that: {paragraph}"));
            }
            return None;
        };
        let (until, command) = undo.split_once(": ")?;
        let Some((snapshot, volume)) = parse(command) else {
            self.violated(facts.now, format!("{id}: this is no command: {command}"));
            return None;
        };
        let own = |key: &String| !key.starts_with("aws:") && !super::deletions::is_label(key);
        let tags: Tags = disk.ec2.tags.clone().into_iter().filter(|(key, _)| own(key)).collect();
        let provisioned = matches!(disk.ec2.volume_type.as_str(), "gp3" | "io2");
        let expected = Volume {
            id: volume.id.clone(),
            created_at: volume.created_at,
            state: volume.state,
            iops: disk.ec2.iops.filter(|_| provisioned),
            tags,
            from_snapshot: None,
            operator: None,
            multi_attach: false,
            ..disk.ec2.clone()
        };
        let volume = Volume { region: volume.region.clone(), ..volume };
        if volume != expected && disk.gone_at.is_some() {
            self.violated(facts.now, format!("{id}: its undo makes {volume:?}, and it was {expected:?}"));
        }
        let until: i64 = until.parse::<Timestamp>().ok()?.as_second();
        let snap = world.snap(&snapshot).map(|place| &world.snaps[place]);
        let whole = snap.is_some_and(|snap| snap.disk == place && (snap.is_whole() || snap.changed_at > 0));
        if facts.now < until && !whole {
            self.violated(facts.now, format!("{id}: cannot be restored from {snapshot}"));
        }
        Some(UndoCommand { disk: place, snapshot, volume: Volume { iops: disk.ec2.iops, ..volume } })
    }

    /// The same words, except for figures, within a day, without a change and without a lost log.
    fn is_no_repetition(&mut self, paragraph: &str, about: MessageSubject, world: &SimulatedWorld, facts: &Facts) {
        let fingerprint = fingerprint(paragraph);
        let record = self.record(about);
        let before = record.told.iter().find(|(words, _)| *words == fingerprint).map(|(_, at)| *at);
        record.told.retain(|(words, at)| *words != fingerprint && facts.now - at < REPEATED_WITHIN);
        record.told.push((fingerprint, facts.now));
        let Some(before) = before.filter(|before| facts.now - before < REPEATED_WITHIN) else { return };
        let changed = match about {
            MessageSubject::Disk(place) => world.changed_at(place, facts.now),
            MessageSubject::Snap(place) => {
                let kept = world.snaps[place].says.kept_until.filter(|until| *until <= facts.now).unwrap_or(0);
                kept.max(world.snaps[place].changed_at).max(world.changed_at(world.snaps[place].disk, facts.now))
            }
        };
        let excused_at = changed.max(self.configured_at).max(self.last_fault);
        if excused_at < before - MARGIN {
            self.violated(
                facts.now,
                format!("notified again although nothing changed since {}: {paragraph}", stamp(before)),
            );
        }
    }

    /// Every deletion is notified in the end.
    pub(super) fn is_every_end_told(&mut self, place: usize, is_disk: bool, now: i64) {
        let about = if is_disk { MessageSubject::Disk(place) } else { MessageSubject::Snap(place) };
        let Some(ended_at) = self.record(about).untold_end else { return };
        // A run that is cut off between a deletion and its message does not notify it: its audit record, written ahead, is the trace. The same
        // holds for a run whose log of pending notifications was lost, and for a deletion that the run saw fail.
        if self.last_forgotten >= ended_at - HOUR {
            self.record(about).untold_end = None;
        } else if now - ended_at.max(self.last_fault) > TOLD_WITHIN {
            self.record(about).untold_end = None;
            let kind = if is_disk { "volume" } else { "snapshot" };
            self.violated(now, format!("{kind} {place}: was deleted, and was not notified"));
        }
    }
}

impl PromisedAction {
    /// It was just announced.
    const fn told(facts: &Facts, ending: ResourceAction, deadline: i64, grace: i64) -> Self {
        Self { ending, deadline, told_at: facts.now, grace, void: false, called_off_by: None }
    }
}

impl SimulatedWorld {
    /// When a volume last changed, by people or by time alone.
    pub(crate) fn changed_at(&self, place: usize, now: i64) -> i64 {
        let disk = &self.disks[place];
        let source = disk.source.map_or(0, |source| {
            let snap = &self.snaps[source];
            snap.changed_at.max(snap.gone_at.unwrap_or(0))
        });
        let passed = [disk.says.kept_until, disk.says.job.map(|job| self.jobs[job])];
        let passed = passed.into_iter().flatten().filter(|at| *at <= now).max().unwrap_or(0);
        let hosts = disk.host.map_or(0, |host| self.hosts[host].stopped_at.unwrap_or(0));
        let snaps = self.snaps.iter().filter(|snap| snap.disk == place).map(|snap| snap.changed_at).max().unwrap_or(0);
        disk.changed_at.max(disk.last_use(now)).max(source).max(passed).max(hosts).max(snaps)
    }
}

/// The action of an announcement, and its deadline.
fn announcement(paragraph: &str) -> Option<(ResourceAction, i64)> {
    let (_, after) = paragraph.split_once(" It will be ")?;
    let (ending, after) = match after.strip_prefix("snapshotted and deleted at ") {
        Some(after) => (ResourceAction::SnapshotAndDelete, after),
        None => (ResourceAction::Delete, after.strip_prefix("deleted at ")?),
    };
    let deadline = after.split_whitespace().next()?.trim_end_matches(['.', ';']);
    Some((ending, deadline.parse::<Timestamp>().ok()?.as_second()))
}

/// The deadline of an announcement that a paragraph withdraws.
fn called_off(paragraph: &str) -> Option<i64> {
    let (_, announced) =
        paragraph.strip_suffix(" (orphaned) is called off.")?.split_once("the action announced for ")?;
    Some(announced.parse::<Timestamp>().ok()?.as_second())
}

fn fingerprint(paragraph: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    paragraph.bytes().filter(|byte| !byte.is_ascii_digit()).for_each(|byte| byte.hash(&mut hasher));
    hasher.finish()
}

/// The snapshot of a `create-volume`, and the new volume.
fn parse(command: &str) -> Option<(String, Volume)> {
    let command = command.strip_prefix("aws ec2 create-volume ")?;
    let (flags, tags) = match command.split_once(" --tag-specifications ") {
        Some((flags, quoted)) => (flags, quoted.strip_prefix('\'')?.strip_suffix('\'')?.replace("'\\''", "'")),
        None => (command, "[{\"Tags\": []}]".to_owned()),
    };
    let words: Vec<&str> = flags.split(' ').collect();
    let flag = |name: &str| words.iter().position(|word| *word == name).and_then(|place| words.get(place + 1)).copied();
    let number = |name: &str| flag(name).and_then(|text| text.parse::<u64>().ok());
    let specification: Value = serde_json::from_str(&tags).ok()?;
    let pairs = specification.get(0)?.get("Tags")?.as_array()?;
    let pair = |pair: &Value| Some((pair.get("Key")?.as_str()?.to_owned(), pair.get("Value")?.as_str()?.to_owned()));
    let volume = Volume {
        id: "vol-new".into(),
        region: flag("--region")?.into(),
        zone: flag("--availability-zone")?.to_owned(),
        volume_type: flag("--volume-type")?.to_owned(),
        size_gib: number("--size")?,
        iops: number("--iops"),
        throughput_mibps: number("--throughput"),
        state: model::volume::VolumeState::Creating,
        attached_to: Vec::new(),
        multi_attach: false,
        created_at: Timestamp::UNIX_EPOCH,
        tags: pairs.iter().map(pair).collect::<Option<Tags>>()?,
        from_snapshot: None,
        operator: None,
    };
    Some((flag("--snapshot-id")?.to_owned(), volume))
}
