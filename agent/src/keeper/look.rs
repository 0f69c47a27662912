//! One look at the checkpoint directory, and its warnings.

use model::moment::after;
use std::collections::BTreeSet;
use std::io;
use std::sync::PoisonError;

use jobs::checkpoints::{CheckpointStep, DirectoryEntry, DirectorySummary, StepNumber, WriterState, is_text};
use jobs::{AgentWarningKind, agent_warning};

use super::KeeperTask;
use crate::directory::{self, DirectoryScan, DiskRoom};
use crate::disk::DiskSpace;
use crate::world::{now, time_since};

impl KeeperTask {
    /// The entries of the directory now, the newest step first, for this state of the writer.
    pub(super) async fn scan_steps(&mut self, writer: WriterState) -> Option<Vec<CheckpointStep>> {
        let (directory, mut held, order) = (self.directory.clone(), std::mem::take(&mut self.held), self.order.clone());
        let looked = self.disk.run(move || {
            let mut scan = directory::scan_directory(&directory)?;
            let there: BTreeSet<u64> = scan.entries.iter().filter_map(step_of_data).collect();
            let is_undecided = |entry: &DirectoryEntry| step_of_data(entry).is_some() && order.is_undecided(entry);
            let undecided = scan.entries.iter().filter(|entry| is_undecided(entry)).filter_map(step_of_data).collect();
            let space = DiskSpace::read(&directory.path);
            let room = DiskRoom::of_scan(space.map(|space| space.free_bytes), &scan);
            let free = space.filter(|space| space.is_nearly_full).map(|space| space.free_bytes);
            held.update(&directory, &mut scan, is_undecided, room)?;
            Ok((scan, there, undecided, held, free, room))
        });
        let (DirectoryScan { entries, links, trackers, left_out }, there, undecided, free) = match looked.await {
            Ok((scan, there, undecided, held, free, room)) => {
                self.agent.clear_warning(AgentWarningKind::Directory);
                (self.held, self.room) = (held, room);
                (scan, there, undecided, free)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let words = format!("the checkpoint directory {} is gone", self.directory.path.display());
                self.warn_if_lasting(AgentWarningKind::Directory, words);
                (DirectoryScan::default(), BTreeSet::new(), BTreeSet::new(), None)
            }
            Err(error) => {
                let (place, words) = (self.directory.path.display(), directory::describe_io_error(&error));
                let words = format!("the checkpoints in {place} cannot be read: {words}");
                self.finished.left = Some(words.clone());
                self.warn_if_lasting(AgentWarningKind::Directory, words);
                return None;
            }
        };
        self.links = links;
        self.trackers.clone_from(&trackers);
        self.compare_with_last_look(there, undecided, &entries);
        // A monotonic time, because the machine's clock may be set: a quiet minute is a real minute.
        let now = after(self.begun_at, time_since(self.begun));
        self.seen.observe(entries, now);
        self.seen.observe_trackers(trackers);
        let DirectorySummary { steps, left_out: data_left_out } = self.seen.summarize(writer, now);
        self.report_progress(&steps);
        self.warn_of_no_checkpoint(&steps, left_out.as_deref());
        let is_unkept = |step: &&CheckpointStep| match step.number.named() {
            Some(_) => self.order.is_next(step),
            None => self.originals.snapshot.as_ref().is_none_or(|kept| kept.step.changed_at != step.changed_at),
        };
        let bytes = steps.iter().find(is_unkept).map_or(0, |step| step.bytes);
        if let Some(seat) = self.agent.seat() {
            seat.set_unkept(steps.iter().any(|step| is_unkept(&step)));
        }
        self.load.lock().unwrap_or_else(PoisonError::into_inner).bytes = bytes;
        if let Some(name) = left_out {
            self.log_once(format!(
                "`{name}` is part of no checkpoint: no log, picture, event file, core dump or link to elsewhere is"
            ));
        }
        self.warn_of_state(data_left_out);
        self.warn_of_disk(free);
        Some(steps)
    }

    /// Warns the owner while data without a number goes with no checkpoint.
    fn warn_of_state(&mut self, left_out: Option<String>) {
        match left_out {
            Some(name) => {
                let words = format!(
                    "`{name}` has no number, and goes with no checkpoint, because it changes all the time or is larger than each: name it in \
                     `include` or `exclude` of [checkpoint]"
                );
                self.warn_if_lasting(AgentWarningKind::LeftOut, words);
            }
            None => self.agent.clear_warning(AgentWarningKind::LeftOut),
        }
    }

    /// Warns the owner while few bytes are free.
    fn warn_of_disk(&mut self, free: Option<u64>) {
        match free {
            Some(free) => {
                let (place, mib) = (self.directory.path.display(), free / (1024 * 1024));
                let words = format!("the disk of {place} is nearly full ({mib} MiB are left): set `root_volume_gib`");
                self.warn_if_lasting(AgentWarningKind::Disk, words);
            }
            None => self.agent.clear_warning(AgentWarningKind::Disk),
        }
    }

    /// Finds the steps that the framework has deleted since, and whether one of them was neither uploaded nor held.
    fn compare_with_last_look(&mut self, there: BTreeSet<u64>, undecided: BTreeSet<u64>, entries: &[DirectoryEntry]) {
        let gone: BTreeSet<u64> = self.there.difference(&there).copied().collect();
        let held: BTreeSet<u64> = entries.iter().filter_map(step_of_data).collect();
        self.framework_deletes |= !gone.is_empty();
        let newest = self.order.newest();
        let is_lost = |step: &&u64| self.undecided.contains(step) && Some(**step) != newest;
        let lost = gone.difference(&held).filter(is_lost).count();
        self.lost = self.lost.saturating_add(u32::try_from(lost).unwrap_or(u32::MAX));
        if lost > 0 {
            let no_room = (self.room.missing() > 0).then_some("the disk has no room to hold it: set `root_volume_gib`");
            let why = self.held.unheld.as_deref().or(no_room).unwrap_or("it was there for less than ten seconds");
            self.lost_why = format!("it was deleted before the agent could keep it: {why}");
        }
        (self.there, self.undecided) = (there, undecided);
    }

    /// Warns the owner if no checkpoint exists, and no file can become one, for twice the expected interval.
    fn warn_of_no_checkpoint(&self, steps: &[CheckpointStep], left_out: Option<&str>) {
        if !steps.is_empty() || !self.counting.is_empty() || !self.agent.answers_for_steps() {
            return self.agent.clear_warning(AgentWarningKind::NoCheckpoint);
        }
        let place = self.directory.path.display();
        let what = left_out.map_or_else(
            || format!("no possible checkpoint is in {place}"),
            |name| format!("`{name}` is no checkpoint, nor is anything else in {place}"),
        );
        let words =
            format!("{what}, and an interruption loses all work: the command must write to CURFEW_CHECKPOINT_DIR");
        self.agent.warn_owner_after(
            self.every.saturating_mul(2).max(agent_warning::STANDS_AFTER),
            AgentWarningKind::NoCheckpoint,
            &words,
        );
    }

    /// Reports the progress and the speed of the job.
    fn report_progress(&mut self, steps: &[CheckpointStep]) {
        // A time in the future would hide all that comes after it.
        let complete = steps.iter().filter(|step| step.complete && step.changed_at <= now());
        let newest = complete.max_by_key(|step| (step.changed_at, step.number));
        let newest = newest.map(|step| (step.number.named(), step.changed_at));
        self.agent.with_work(|work, at| work.observe_steps(!steps.is_empty(), newest, at));
        let next = self.order.to_upload(steps).find_map(|step| step.number.named());
        let Some(newest) = next.or(self.order.newest()) else { return };
        self.progress.saw(newest, time_since(self.begun));
        let steps_per_hour = self.progress.steps_per_hour();
        self.agent.set_status(|status| (status.step, status.steps_per_hour) = (Some(newest), steps_per_hour));
    }

    /// Reports how a checkpoint is numbered if its name is ambiguous.
    pub(super) fn report_number(&mut self, step: &CheckpointStep) {
        let is_again = self.originals.slot(step.number).as_ref().is_some_and(|kept| kept.step.number == step.number);
        match step.number {
            StepNumber::Ambiguous(number) => {
                let name = step.entries.first().map_or("", String::as_str);
                let words = format!(
                    "`{name}` has several numbers, and {number} is taken as its step; the time decides which checkpoint is newer: write the step \
                     with its key, as in `step={number}`"
                );
                self.agent.warn_owner(AgentWarningKind::AmbiguousStep, &words);
                self.log_once(words);
            }
            StepNumber::Named(number) if is_again => {
                self.log_once(format!("step {number} changed after it was kept, and is uploaded again"));
            }
            StepNumber::Named(_) | StepNumber::Snapshot => {}
        }
    }
}

fn step_of_data(entry: &DirectoryEntry) -> Option<u64> {
    entry.step().filter(|_| entry.folder || !is_text(&entry.name)).map(|named| named.step)
}
