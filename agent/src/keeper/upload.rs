//! The upload of one checkpoint, from the look to its entry in head.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use jiff::SignedDuration;
use jobs::checkpoints::{
    CheckpointProgress, CheckpointStep, Precedence, StepNumber, best_named, kept_by_framework, place_of, step_of,
    to_keep, to_put_beside,
};
use jobs::warning::{PendingUpload, UploadMeasurement};
use jobs::{AgentWarningKind, Checkpoint, Head};
use model::moment::after;

use super::part::upload_content;
use super::words::describe;
use super::{KeepError, KeeperTask, LOOK_EVERY};
use crate::directory::{self, KeptStep, StepSnapshot};
use crate::world::{now, time_since};

/// The bytes read of a `trainer_state.json`: the best checkpoint is named at its beginning.
const STATE_BYTES: u64 = 4096;

impl KeeperTask {
    pub(super) async fn keep(&mut self, step: &CheckpointStep, all: &[CheckpointStep]) -> Result<(), KeepError> {
        let (begun, agent) = (Instant::now(), Arc::clone(&self.agent));
        let checkpoint = if let Some(seat) = agent.seat() {
            self.place_of_part(seat, step.number).await?
        } else {
            let named: Vec<Checkpoint> = agent.fence.last().await.named().collect();
            place_of(&named, agent.identity.attempt, step.number.place(self.kept))
        };
        let place = checkpoint.step;
        let own = |error: io::Error| KeepError::Own(directory::describe_io_error(&error));
        let (mut snapshot, best) = self.snapshot(step, all).await.map_err(own)?;
        if !snapshot.is_all_of(step) {
            return Err(KeepError::Own("it was changed, or some of it deleted, since it was looked at".to_owned()));
        }
        let beside = self.beside(checkpoint, best);
        let mut content = std::mem::take(&mut snapshot.content);
        content.beside.clone_from(&beside);
        content.counts_again = self.order.counts_again_with(step);
        let owner = self.owner.clone();
        let part = agent.seat().map(|seat| seat.part(step.unverified, self.trackers.clone()));
        let mut upload = Box::pin(upload_content(&agent, part, checkpoint, content, &owner));
        let uploaded = loop {
            tokio::select! {
                done = &mut upload => break done,
                // It may take long, and files written meanwhile become quiet. A look may take long as well, so the upload continues beside it.
                () = async {
                    agent.pace.sleep(LOOK_EVERY).await;
                    let writer = *self.writer.borrow();
                    self.scan_steps(writer).await;
                } => {}
                () = agent.buckets.wait_for_move(), if !self.has_moved => {}
            }
            let has_moved = agent.buckets.has_moved() != self.has_moved;
            // The open files of an upload keep their room on the disk.
            let lacks_room =
                self.held.has_given_up(&step.entries) || (self.room.missing() > 0 && snapshot.has_copies());
            if has_moved || lacks_room {
                drop(upload);
                let thaw = move || {
                    snapshot.thaw();
                    Ok(())
                };
                self.disk.run(thaw).await.map_err(own)?;
                let needs_room = "the command needs its room on the disk: set `root_volume_gib`";
                return Err(if has_moved { KeepError::Moved } else { KeepError::Own(needs_room.to_owned()) });
            }
        };
        let looked = self.disk.run(move || {
            snapshot.thaw();
            Ok(snapshot.changed())
        });
        let changed = looked.await.map_err(own)?;
        let manifest = uploaded?;
        if let Some(path) = changed {
            return Err(KeepError::Own(format!("{} was changed while it was uploaded", path.display())));
        }
        let kept = match agent.seat() {
            Some(seat) => self.put_part(seat, checkpoint, step),
            None => self.name(checkpoint, step.unverified, &beside).await?,
        };
        self.note_kept(step, all, place, KeptStep { step: step.clone(), manifest: Arc::new(manifest) });
        self.measure(step, begun);
        agent.set_status(|status| status.unsaved.save(step.changed_at.min(now())));
        self.finished.unverified_note = None;
        if step.unverified {
            self.note_unverified(step);
        }
        // Of a gang whoever names the step does it.
        if self.keep.is_some() && agent.seat().is_none() {
            self.prune(checkpoint, &kept).await;
        }
        Ok(())
    }

    fn note_unverified(&mut self, step: &CheckpointStep) {
        let words = format!(
            "the checkpoint of {} may be incomplete: it was written in the last minute, without a marker, by a command that did not end \
             with success, or that is still writing",
            describe(step.number)
        );
        self.log_once(words.clone());
        self.finished.unverified_note = Some(words);
    }

    /// The checkpoint as it is now, and the step that it names as the best.
    async fn snapshot(
        &mut self,
        step: &CheckpointStep,
        all: &[CheckpointStep],
    ) -> io::Result<(StepSnapshot, Option<u64>)> {
        let (directory, step, links) = (self.directory.clone(), step.clone(), self.links.clone());
        let is_other = |other: &&CheckpointStep| other.number.named().is_some() && other.entries != step.entries;
        let others: Vec<String> = all.iter().filter(is_other).flat_map(|other| other.entries.clone()).collect();
        let taken = self.disk.run(move || {
            let mut taken = StepSnapshot::capture(&directory, &step, &others, &links)?;
            taken.freeze()?;
            Ok((taken, best_in(&directory.path, &step.entries)))
        });
        taken.await
    }

    /// The step that a checkpoint names as the best.
    pub(super) async fn best_of(&mut self, step: &CheckpointStep) -> Option<u64> {
        let (path, entries) = (self.directory.path.clone(), step.entries.clone());
        self.disk.run(move || Ok(best_in(&path, &entries))).await.ok().flatten()
    }

    /// The checkpoints that the framework retains beside that one.
    fn beside(&self, newest: Checkpoint, best: Option<u64>) -> Vec<Checkpoint> {
        let steps: BTreeSet<u64> = kept_by_framework(&self.there, self.framework_deletes, best);
        to_put_beside(&self.counting, newest, &steps)
    }

    /// Names it in head, and returns the other checkpoints that head names.
    async fn name(
        &mut self,
        newest: Checkpoint,
        is_unverified: bool,
        beside: &[Checkpoint],
    ) -> Result<Vec<Checkpoint>, KeepError> {
        // A checkpoint from which a command resumed and came this far was whole. An unverified one does not prove that it came so far.
        let others = self.unverified.iter().copied().filter(|other| is_unverified || Some(*other) != self.from);
        let mut unverified: Vec<Checkpoint> = others.chain(is_unverified.then_some(newest)).collect();
        // Its owner may mend the command, and go on from there.
        let not_resumed_from = self.from.filter(|_| self.finished.not_resumed.is_some());
        let retained: Vec<Checkpoint> = beside.iter().copied().chain(not_resumed_from).collect();
        let kept = to_keep(&self.counting, newest, self.keep, &unverified, &retained);
        unverified.retain(|other| *other == newest || kept.contains(other));
        let has_begun_again = not_resumed_from.is_some();
        let name = |head: &mut Head| {
            (head.checkpoint, head.kept, head.unverified) = (Some(newest), kept.clone(), unverified.clone());
            if has_begun_again {
                head.began_again = Some(newest.attempt);
            }
        };
        let named = self.agent.fence.swap_unless_moved(self.has_moved, name).await?;
        named.ok_or(KeepError::Moved)?;
        self.finished.has_kept |= !is_unverified;
        self.counting = kept.iter().rev().copied().chain([newest]).collect();
        self.unverified = unverified;
        Ok(kept)
    }

    fn note_kept(&mut self, step: &CheckpointStep, all: &[CheckpointStep], place: u64, kept: KeptStep) {
        self.lost = 0;
        *self.originals.slot(step.number) = Some(kept);
        match step.number {
            StepNumber::Snapshot => self.seen.snapshot_was_kept(after(self.begun_at, time_since(self.begun))),
            StepNumber::Named(_) | StepNumber::Ambiguous(_) => {
                if self.order.precedence(step) == Precedence::CountsAgain {
                    self.progress = CheckpointProgress::since(step.number.named());
                }
                self.order.keep(step, all);
                self.kept = Some(place);
            }
        }
    }

    fn measure(&mut self, step: &CheckpointStep, begun: Instant) {
        let took = SignedDuration::try_from(begun.elapsed()).unwrap_or(SignedDuration::MAX);
        let measured = UploadMeasurement { bytes: step.bytes, took };
        let (mib, seconds) = (step.bytes.div_ceil(1024 * 1024), took.as_secs_f64());
        let (what, are) = (describe(step.number), if step.number.named().is_some() { "is" } else { "are" });
        self.agent.log.write_line(&format!("{what} {are} kept ({mib} MiB in {seconds:.1} s)"));
        let unhurried = UploadMeasurement { took: self.agent.pace.unhurried(took), ..measured };
        if let Some(words) = unhurried.too_large() {
            self.agent.warn_owner(AgentWarningKind::TooLarge, &words);
            self.log_once(words);
        }
        *self.load.lock().unwrap_or_else(PoisonError::into_inner) = PendingUpload { bytes: 0, last: Some(measured) };
    }
}

/// The step that the entries of a checkpoint name as the best.
fn best_in(directory: &Path, entries: &[String]) -> Option<u64> {
    let states = entries.iter().map(|entry| directory.join(entry).join("trainer_state.json"));
    let name = states.filter_map(|state| beginning_of(&state)).find_map(|text| Some(best_named(&text)?.to_owned()))?;
    step_of(&name).map(|named| named.step)
}

fn beginning_of(path: &Path) -> Option<String> {
    let mut text = Vec::new();
    fs::File::open(path).ok()?.take(STATE_BYTES).read_to_end(&mut text).ok()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}
