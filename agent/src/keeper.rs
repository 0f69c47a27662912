//! Keeps checkpoints: looks at the directory, uploads what is complete, has head name it, and deletes what is old.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use domain::job::checkpoints::{QUIET, Step, Watch, Writer, to_keep, to_prune, to_upload};
use domain::job::warning::Measured;
use domain::job::{Checkpoint, CheckpointSpec, Head};
use jiff::SignedDuration;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::agent::{Agent, Cause};
use crate::directory;
use crate::fence::Shut;
use crate::world::now;

/// How often the directory is looked at.
const LOOK_EVERY: SignedDuration = SignedDuration::from_secs(10);

/// After so many failures in a row, when the command has ended, what is left is given up.
const LAST_TRIES: u32 = 5;

/// The part of it that the rest of the agent holds.
pub(crate) struct Keeper {
    writer: watch::Sender<Writer>,
    task: JoinHandle<()>,
    measured: Arc<Mutex<Option<Measured>>>,
}

struct Work {
    agent: Arc<Agent>,
    directory: PathBuf,
    /// Unknown: nothing is deleted.
    keep: Option<u32>,
    /// What head named, newest last.
    counting: Vec<Checkpoint>,
    seen: Watch,
    measured: Arc<Mutex<Option<Measured>>>,
    said: String,
    first: Option<(Instant, u64)>,
}

/// What came of one look.
#[derive(Debug, PartialEq, Eq)]
enum Kept {
    /// There was nothing to keep.
    Nothing,
    /// A checkpoint.
    One,
    /// It was tried in vain.
    Failed,
    /// Nothing counts any more.
    Fenced,
}

impl Keeper {
    /// Begins. `counting` is what head named so far.
    pub(crate) fn begin(
        agent: &Arc<Agent>,
        spec: &CheckpointSpec,
        keep: Option<u32>,
        counting: Vec<Checkpoint>,
    ) -> Self {
        let (writer, measured) = (watch::Sender::new(Writer::Running), Arc::default());
        let work = Work {
            agent: Arc::clone(agent),
            directory: PathBuf::from(&spec.dir),
            keep,
            counting,
            seen: Watch::default(),
            measured: Arc::clone(&measured),
            said: String::new(),
            first: None,
        };
        let task = tokio::task::spawn_local(work.go(writer.subscribe()));
        Self { writer, task, measured }
    }

    /// How long a checkpoint takes, as far as it was measured.
    pub(crate) fn measured(&self) -> Option<Measured> {
        *self.measured.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps what is left after the command has ended, and then ends.
    pub(crate) async fn finish(mut self, writer: Writer) {
        self.writer.send_replace(writer);
        // A keeper that panicked has nothing more to keep.
        let _ = (&mut self.task).await;
    }
}

/// Nothing is written any more once nobody waits for it: after the exit record comes nothing.
impl Drop for Keeper {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Work {
    async fn go(mut self, mut writer: watch::Receiver<Writer>) {
        let mut tries = 0..LAST_TRIES;
        loop {
            let stands = *writer.borrow_and_update();
            let kept = self.once(stands).await;
            match (stands, kept) {
                (_, Kept::Fenced) => return,
                // There may be a newer one by now.
                (_, Kept::One) => {}
                (Writer::Running, _) => {
                    tokio::select! {
                        () = self.agent.pace.sleep(LOOK_EVERY) => {}
                        _ = writer.changed() => {}
                    }
                }
                (_, Kept::Nothing) => return,
                (_, Kept::Failed) => {
                    if tries.next().is_none() {
                        return;
                    }
                    self.agent.pace.sleep(SignedDuration::from_secs(3)).await;
                }
            }
        }
    }

    /// One look, and what follows from it.
    async fn once(&mut self, writer: Writer) -> Kept {
        let directory = self.directory.clone();
        let looked = tokio::task::spawn_blocking(move || directory::look(&directory)).await;
        match looked.map_err(std::io::Error::other).flatten() {
            Ok(entries) => self.seen.look(entries, now()),
            Err(error) => {
                self.say(format!("the checkpoints in {} cannot be looked at: {error}", self.directory.display()));
                return Kept::Failed;
            }
        }
        let steps = self.seen.steps(writer, now(), self.agent.pace.of(QUIET));
        self.tell_progress(&steps);
        let kept = self.counting.last().map(|checkpoint| checkpoint.step);
        match to_upload(&steps, kept) {
            Some(step) => self.keep(step).await,
            None => Kept::Nothing,
        }
    }

    async fn keep(&mut self, step: &Step) -> Kept {
        let begun = Instant::now();
        let checkpoint = Checkpoint { attempt: self.agent.identity.attempt, step: step.step };
        let files = match directory::files(&self.directory, &step.entries) {
            Ok(files) => files,
            Err(error) => return self.failed(step, &error.to_string()),
        };
        let job = &self.agent.identity.job;
        match self.agent.store.upload_checkpoint(job, checkpoint, files, now()).await {
            Ok(_) => {}
            Err(error) => return self.failed(step, &error.to_string()),
        }
        let kept = to_keep(&self.counting, checkpoint, self.keep);
        let name = |head: &mut Head| (head.checkpoint, head.kept) = (Some(checkpoint), kept.clone());
        match self.agent.fence.swap(name).await {
            Ok(_) => {}
            Err(Shut::Fenced(why)) => {
                self.agent.end(Cause::fenced(why));
                return Kept::Fenced;
            }
            Err(Shut::Store(error)) => return self.failed(step, &error.to_string()),
        }
        self.counting.clone_from(&kept);
        self.counting.reverse();
        self.counting.push(checkpoint);
        self.measure(step, begun);
        if self.keep.is_some() {
            self.prune(checkpoint, &kept).await;
        }
        Kept::One
    }

    fn measure(&mut self, step: &Step, begun: Instant) {
        let took = SignedDuration::try_from(begun.elapsed()).unwrap_or(SignedDuration::MAX);
        let measured = Measured { bytes: step.bytes, took };
        let (number, mib, seconds) = (step.step, step.bytes.div_ceil(1024 * 1024), took.as_secs_f64());
        self.agent.log.say(&format!("step {number} is kept ({mib} MiB in {seconds:.1} s)"));
        let unhurried = Measured { took: self.agent.pace.unhurried(took), ..measured };
        if let Some(words) = unhurried.too_large() {
            self.say(words);
        }
        *self.measured.lock().unwrap_or_else(PoisonError::into_inner) = Some(measured);
    }

    /// Deletes all but what head names. What cannot be deleted costs a little, and is tried again with the next one.
    async fn prune(&mut self, newest: Checkpoint, kept: &[Checkpoint]) {
        let (store, job) = (&self.agent.store, &self.agent.identity.job);
        let listed = match store.list_checkpoints(job).await {
            Ok(listed) => listed,
            Err(error) => return self.say(format!("old checkpoints are not deleted: {error}")),
        };
        for old in to_prune(&listed, newest, kept, self.agent.identity.attempt) {
            if let Err(error) = store.delete_checkpoint(job, old).await {
                return self.say(format!("the checkpoint of step {} is not deleted: {error}", old.step));
            }
        }
    }

    /// How far the job is, and how fast. A rate is that of this attempt.
    fn tell_progress(&mut self, steps: &[Step]) {
        let Some(newest) = steps.iter().find(|step| step.complete).map(|step| step.step) else { return };
        let (since, from) = *self.first.get_or_insert((Instant::now(), newest));
        let hours = since.elapsed().as_secs_f64() / 3600.0;
        let done = u32::try_from(newest.saturating_sub(from)).ok().filter(|done| *done > 0);
        self.agent.set_status(|status| {
            status.step = Some(newest);
            status.steps_per_hour = done.map(|done| (f64::from(done) / hours * 10.0).round() / 10.0);
        });
    }

    fn failed(&mut self, step: &Step, words: &str) -> Kept {
        self.say(format!("the checkpoint of step {} is not kept: {words}", step.step));
        Kept::Failed
    }

    /// Says it, but not again and again.
    fn say(&mut self, words: String) {
        if self.said != words {
            self.agent.log.say(&words);
            self.said = words;
        }
    }
}
