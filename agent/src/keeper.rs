//! Keeps checkpoints: looks at the directory, uploads what is complete, has head name it, and deletes what is old.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use jiff::{SignedDuration, Timestamp};
use jobs::checkpoints::{
    CheckpointProgress, CheckpointStep, DirectoryWatch, QUIET, WriterState, overtaken, place_of, rewritten, to_keep,
    to_prune, to_upload,
};
use jobs::warning::{PendingUpload, UploadMeasurement};
use jobs::{AgentWarningKind, Checkpoint, CheckpointSpec, Head, STANDS_AFTER};
use store::{CheckpointError, FileOwner, StoreError};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::agent::{Agent, EndCause};
use crate::directory::{self, DirectoryScan, KeptStep, StepSnapshot};
use crate::disk::Disk;
use crate::fence::FenceError;
use crate::restore::RestoredCheckpoint;
use crate::retry_timeout::RetryTimeout;
use crate::world::{left_until, now};

/// How often the directory is looked at.
const LOOK_EVERY: SignedDuration = SignedDuration::from_secs(10);

/// After so many failures in a row that do not pass, when the command has ended, what is left is given up.
const LAST_TRIES: u32 = 5;

/// The same is said again after so long.
const SAID_FOR: SignedDuration = SignedDuration::from_hours(1);

/// So many different things are said in that time.
const SAID_MAX: usize = 100;

/// The part of it that the rest of the agent holds.
pub(crate) struct CheckpointKeeper {
    writer: watch::Sender<WriterState>,
    task: JoinHandle<KeeperSummary>,
    load: Arc<Mutex<PendingUpload>>,
}

/// What there is to say of the checkpoints of a command that has ended.
#[derive(Debug, Default)]
pub(crate) struct KeeperSummary {
    /// What is newer than all that is kept, and why it is not.
    pub(crate) left: Option<String>,
    /// That the newest that is kept is doubtful.
    pub(crate) unverified_note: Option<String>,
    /// Whether any was kept since the command began that is certain.
    pub(crate) has_kept: bool,
}

struct KeeperTask {
    agent: Arc<Agent>,
    directory: PathBuf,
    owner: FileOwner,
    disk: Disk,
    writer: watch::Receiver<WriterState>,
    /// Unknown: nothing is deleted.
    keep: Option<u32>,
    /// How often the command is expected to write one.
    every: SignedDuration,
    /// What head named, newest last.
    counting: Vec<Checkpoint>,
    /// Those of them that may be cut off.
    unverified: Vec<Checkpoint>,
    /// The one that the command went on from.
    from: Option<Checkpoint>,
    /// The newest step that was kept, or the one that was put back, as it was then.
    original: Option<KeptStep>,
    seen: DirectoryWatch,
    /// The steps that were there when the newest was kept.
    known: Option<BTreeSet<u64>>,
    progress: CheckpointProgress,
    load: Arc<Mutex<PendingUpload>>,
    said: BTreeMap<String, Instant>,
    begun: Instant,
    begun_at: Timestamp,
    /// The first that was seen of what is no checkpoint by its name.
    record: Option<String>,
    /// So of what has no number, and of links.
    numberless: Option<String>,
    link: Option<String>,
    /// Whether checkpoints are deleted while they are uploaded.
    hold: bool,
    finished: KeeperSummary,
}

/// What came of one look.
enum KeepOutcome {
    /// There was nothing to keep.
    Nothing,
    /// A checkpoint.
    Kept,
    /// It was tried in vain, and may come out otherwise the next time.
    Failed(StoreError),
    /// It was tried in vain, and nothing that passes was the reason.
    Refused,
    /// Nothing counts any more.
    Fenced,
}

/// Why a checkpoint was not kept.
enum KeepError {
    /// Another one may be kept.
    Own(String),
    /// None can be.
    Store(StoreError),
    Fenced(String),
}

impl From<CheckpointError> for KeepError {
    fn from(error: CheckpointError) -> Self {
        match error {
            CheckpointError::Store(error) => Self::Store(error),
            other => Self::Own(other.to_string()),
        }
    }
}

impl From<FenceError> for KeepError {
    fn from(shut: FenceError) -> Self {
        match shut {
            FenceError::Fenced(why) => Self::Fenced(why),
            FenceError::Store(error) => Self::Store(error),
        }
    }
}

impl CheckpointKeeper {
    /// Begins, where an attempt goes on from what was restored.
    pub(crate) fn begin(
        agent: &Arc<Agent>,
        spec: &CheckpointSpec,
        keep: Option<u32>,
        owner: FileOwner,
        restored: RestoredCheckpoint,
    ) -> Self {
        let (writer, load) = (watch::Sender::new(WriterState::Running), Arc::default());
        let work = KeeperTask {
            agent: Arc::clone(agent),
            directory: PathBuf::from(&spec.dir),
            disk: Disk::with_rights_of(owner.clone()),
            owner,
            writer: writer.subscribe(),
            keep,
            every: SignedDuration::from_secs(spec.every_seconds),
            counting: restored.counting,
            unverified: restored.unverified,
            from: restored.checkpoint,
            original: restored.original,
            seen: DirectoryWatch::default(),
            known: None,
            progress: CheckpointProgress::since(restored.checkpoint.map(|checkpoint| checkpoint.step)),
            load: Arc::clone(&load),
            said: BTreeMap::new(),
            begun: Instant::now(),
            begun_at: now(),
            record: None,
            numberless: None,
            link: None,
            hold: false,
            finished: KeeperSummary::default(),
        };
        let task = tokio::task::spawn_local(work.run());
        Self { writer, task, load }
    }

    /// What there is to bring away, as it was at the last look.
    pub(crate) fn load(&self) -> PendingUpload {
        *self.load.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps what is left after the command has ended, and then ends.
    pub(crate) async fn finish(mut self, writer: WriterState) -> KeeperSummary {
        self.writer.send_replace(writer);
        (&mut self.task).await.unwrap_or_else(|error| KeeperSummary {
            left: Some(format!("its checkpoints are not kept any more: {error}")),
            // Nobody knows.
            has_kept: true,
            ..KeeperSummary::default()
        })
    }
}

/// Nothing is written any more once nobody waits for it: after the exit record comes nothing.
impl Drop for CheckpointKeeper {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl KeeperTask {
    async fn run(mut self) -> KeeperSummary {
        let (mut tries, mut timeout) = (0..LAST_TRIES, RetryTimeout::default());
        loop {
            let stands = *self.writer.borrow_and_update();
            let kept = self.keep_newest().await;
            if matches!(kept, KeepOutcome::Nothing | KeepOutcome::Kept) && self.finished.left.is_none() {
                self.agent.clear_warning(AgentWarningKind::NotKept);
            }
            match (stands, kept) {
                (_, KeepOutcome::Fenced) => return KeeperSummary::default(),
                // There may be a newer one by now.
                (_, KeepOutcome::Kept) => (tries, timeout) = (0..LAST_TRIES, RetryTimeout::default()),
                (WriterState::Running, _) => {
                    tokio::select! {
                        () = self.agent.pace.sleep(LOOK_EVERY) => {}
                        _ = self.writer.changed() => {}
                    }
                }
                (_, KeepOutcome::Nothing) => return self.finished,
                (_, KeepOutcome::Refused) if tries.next().is_none() => return self.finished,
                (_, KeepOutcome::Failed(error)) if !timeout.should_retry(&self.agent, &error) => return self.finished,
                // Who waits for it may have less time.
                (_, KeepOutcome::Refused | KeepOutcome::Failed(_)) => {
                    self.agent.pace.sleep(SignedDuration::from_secs(3)).await;
                }
            }
        }
    }

    /// One look, and what follows from it: the newest is kept, or else the one before, or else what was kept is once more where it was
    /// written to since, as soon as that has come to its end.
    async fn keep_newest(&mut self) -> KeepOutcome {
        let writer = *self.writer.borrow();
        let Some(steps) = self.scan_steps(writer).await else { return KeepOutcome::Refused };
        let kept = self.kept();
        let again = self.again(&steps).await;
        let is_over = |step: &&CheckpointStep| step.complete && (step.settled || step.unverified);
        let torn = again.filter(|step| !is_over(step)).filter(|_| writer != WriterState::Running);
        let again = again.filter(is_over);
        self.finished.left = self.tell_problems(&steps, torn);
        let mut came = KeepOutcome::Nothing;
        if let Some(step) = again {
            self.log_once(format!("step {} was changed after it was kept, and is uploaded again", step.step));
        }
        for step in to_upload(&steps, kept).chain(again) {
            match self.keep(step).await {
                Ok(()) => {
                    self.known = Some(steps.iter().map(|step| step.step).collect());
                    return KeepOutcome::Kept;
                }
                Err(KeepError::Fenced(why)) => {
                    self.agent.end(EndCause::fenced(why));
                    return KeepOutcome::Fenced;
                }
                Err(KeepError::Store(error)) => {
                    self.not_kept(step, &error.to_string());
                    return if error.lasts() { KeepOutcome::Refused } else { KeepOutcome::Failed(error) };
                }
                Err(KeepError::Own(words)) => drop(self.not_kept(step, &words)),
            }
            came = KeepOutcome::Refused;
        }
        came
    }

    /// The step that was kept or put back, where it is something else by now: by its bytes, unless something newer is to be kept first.
    async fn again<'a>(&mut self, steps: &'a [CheckpointStep]) -> Option<&'a CheckpointStep> {
        let step = rewritten(steps, &self.original.as_ref()?.step)?;
        let is_next = to_upload(steps, self.kept()).next().is_none();
        let is_as_kept = if (step.still || step.settled) && is_next { self.is_as_kept(step).await? } else { false };
        if let Some(original) = self.original.as_mut().filter(|_| is_as_kept) {
            // It was only touched, which need not be found out again.
            original.step = step.clone();
        }
        (!is_as_kept).then_some(step)
    }

    /// Whether a step has the bytes that were kept. That may take as long as reading it, and is given up where the command ends: then there may
    /// be something newer.
    async fn is_as_kept(&mut self, step: &CheckpointStep) -> Option<bool> {
        let manifest = Arc::clone(&self.original.as_ref()?.manifest);
        let (directory, entries, given_up) =
            (self.directory.clone(), step.entries.clone(), Arc::<AtomicBool>::default());
        let flag = Arc::clone(&given_up);
        // Of its own, so that whoever waits for the end of the command hears of it as well.
        let mut writer = self.writer.clone();
        let compared =
            self.disk.run(move || StepSnapshot::capture(&directory, &entries)?.is_still(&manifest, &given_up));
        tokio::select! {
            // What cannot be read is not uploaded either, which says why.
            compared = compared => Some(compared.unwrap_or(false)),
            Ok(()) = writer.changed() => {
                flag.store(true, Ordering::Relaxed);
                None
            }
        }
    }

    fn kept(&self) -> Option<u64> {
        self.counting.last().map(|checkpoint| checkpoint.step)
    }

    /// What is in the directory now, the newest step first, where the command stands so.
    async fn scan_steps(&mut self, writer: WriterState) -> Option<Vec<CheckpointStep>> {
        let directory = self.directory.clone();
        let looked = self.disk.run(move || directory::scan_directory(&directory)).await;
        let DirectoryScan { entries, numberless, record, link } = match looked {
            Ok(seen) => {
                self.agent.clear_warning(AgentWarningKind::Directory);
                seen
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let words = format!("the checkpoint directory {} is not there any more", self.directory.display());
                self.warn_if_lasting(AgentWarningKind::Directory, words);
                DirectoryScan::default()
            }
            Err(error) => {
                let (place, words) = (self.directory.display(), directory::describe_io_error(&error));
                let words = format!("the checkpoints in {place} cannot be looked at: {words}");
                self.finished.left = Some(words.clone());
                self.warn_if_lasting(AgentWarningKind::Directory, words);
                return None;
            }
        };
        // Not the machine's clock, which may be set: what is quiet for a minute is so for a minute.
        let now = self.begun_at - left_until(self.begun);
        self.seen.observe(entries, now);
        let quiet = self.agent.pace.scale(QUIET);
        let steps = self.seen.steps(writer, now, quiet);
        self.known.get_or_insert_with(|| steps.iter().map(|step| step.step).collect());
        self.tell_progress(&steps);
        self.tell_nothing_kept(&steps, numberless.as_ref().or(link.as_ref()).or(record.as_ref()));
        let unkept = steps.iter().find(|step| self.kept().is_none_or(|kept| step.step > kept));
        self.load.lock().unwrap_or_else(PoisonError::into_inner).bytes = unkept.map_or(0, |step| step.bytes);
        // One that is being renamed is not there for long.
        let settled = now.duration_since(self.begun_at) >= quiet;
        if let Some(name) = numberless.filter(|_| settled && self.numberless.is_none()) {
            self.log_once(format!(
                "`{name}` is no checkpoint: its name has no number, which would be its step; it does not come back, and a command goes \
                 on from CURFEW_RESUME_FROM"
            ));
            self.numberless = Some(name);
        }
        if let Some(name) = link.filter(|_| settled && self.link.is_none()) {
            self.log_once(format!("`{name}` is no checkpoint: it is a link, and does not come back; what is kept lies in the directory itself"));
            self.link = Some(name);
        }
        if let Some(name) = record.filter(|_| self.record.is_none()) {
            let others =
                "is no checkpoint by its name, nor is any log, core dump, event file, table or configuration by itself";
            self.log_once(format!("`{name}` {others}"));
            self.record = Some(name);
        }
        match directory::full(&self.directory) {
            Some(free) => {
                let (place, mib) = (self.directory.display(), free / (1024 * 1024));
                let words = format!("the disk of {place} is nearly full ({mib} MiB are left): set `root_volume_gib`");
                self.warn_if_lasting(AgentWarningKind::Disk, words);
            }
            None => self.agent.clear_warning(AgentWarningKind::Disk),
        }
        Some(steps)
    }

    /// What is no checkpoint by its name loses no work where there are others: a pointer, or a log. Where there are none for twice as long as
    /// the spec expects one to take, its owner has to hear.
    fn tell_nothing_kept(&self, steps: &[CheckpointStep], name: Option<&String>) {
        let Some(name) = name.filter(|_| steps.is_empty() && self.kept().is_none()) else {
            return self.agent.clear_warning(AgentWarningKind::NoCheckpoint);
        };
        let words = format!(
            "`{name}` is no checkpoint by its name, nor is anything else in {}, and an interruption loses all that was done: a name has to \
             have its step as a number, and what is kept is no link, and no log or table by itself",
            self.directory.display()
        );
        self.agent.warn_owner_after((self.every * 2).max(STANDS_AFTER), AgentWarningKind::NoCheckpoint, &words);
    }

    async fn keep(&mut self, step: &CheckpointStep) -> Result<(), KeepError> {
        let (begun, agent) = (Instant::now(), Arc::clone(&self.agent));
        let checkpoint = place_of(&agent.fence.named().await, agent.identity.attempt, step.step);
        let own = |error: io::Error| KeepError::Own(directory::describe_io_error(&error));
        let (mut snapshot, unheld) =
            snapshot(&mut self.disk, &self.directory, &step.entries, self.hold).await.map_err(own)?;
        if let Some(error) = unheld {
            let words = directory::describe_io_error(&error);
            self.log_once(format!(
                "checkpoints cannot be held while they are uploaded, and are uploaded unheld: {words}"
            ));
        }
        if !snapshot.is_all_of(step) {
            return Err(KeepError::Own("it was changed, or some of it deleted, since it was looked at".to_owned()));
        }
        let content = std::mem::take(&mut snapshot.content);
        let owner = self.owner.clone();
        let upload = agent.store.upload_checkpoint(&agent.identity.job, checkpoint, content, &owner, now());
        let mut upload = Box::pin(upload);
        let uploaded = loop {
            tokio::select! {
                done = &mut upload => break done,
                // It may take long, and what is written meanwhile is as quiet as it is. A look may take long as well, and the upload
                // goes on beside it.
                () = async {
                    agent.pace.sleep(LOOK_EVERY).await;
                    let writer = *self.writer.borrow();
                    self.scan_steps(writer).await;
                } => {}
            }
        };
        let directory = self.directory.clone();
        let looked = self.disk.run(move || {
            directory::let_go(&directory);
            Ok((snapshot.changed(), snapshot.is_deleted()))
        });
        let (changed, deleted) = looked.await.map_err(own)?;
        if uploaded.is_err() && deleted && !self.hold {
            self.hold = true;
            self.log_once(
                "checkpoints are deleted while they are uploaded; from now on they are held until then".to_owned(),
            );
        }
        let manifest = uploaded?;
        if let Some(path) = changed {
            return Err(KeepError::Own(format!("{} was changed while it was uploaded", path.display())));
        }
        let kept = self.name(checkpoint, step.unverified).await?;
        self.original = Some(KeptStep { step: step.clone(), manifest: Arc::new(manifest) });
        self.measure(step, begun);
        if step.unverified {
            let words = format!(
                "the checkpoint of step {} may be cut off: it was written in the last minute, without a marker, by a command that did \
                 not end with success, or left processes behind that were writing",
                step.step
            );
            self.log_once(words.clone());
            self.finished.unverified_note = Some(words);
        }
        if self.keep.is_some() {
            self.prune(checkpoint, &kept).await;
        }
        Ok(())
    }

    /// Has head name it, and gives what head names beside it.
    async fn name(&mut self, newest: Checkpoint, is_doubtful: bool) -> Result<Vec<Checkpoint>, FenceError> {
        // What a command has gone on from, and come so far, was whole. Of what may be cut off nobody knows that it came so far.
        let others = self.unverified.iter().copied().filter(|other| is_doubtful || Some(*other) != self.from);
        let mut unverified: Vec<Checkpoint> = others.chain(is_doubtful.then_some(newest)).collect();
        let kept = to_keep(&self.counting, newest, self.keep, &unverified);
        unverified.retain(|other| *other == newest || kept.contains(other));
        let name = |head: &mut Head| {
            (head.checkpoint, head.kept, head.unverified) = (Some(newest), kept.clone(), unverified.clone());
        };
        self.agent.fence.swap(name).await?;
        self.finished.has_kept |= !is_doubtful;
        self.counting = kept.iter().rev().copied().chain([newest]).collect();
        self.unverified = unverified;
        Ok(kept)
    }

    fn measure(&mut self, step: &CheckpointStep, begun: Instant) {
        let took = SignedDuration::try_from(begun.elapsed()).unwrap_or(SignedDuration::MAX);
        let measured = UploadMeasurement { bytes: step.bytes, took };
        let (number, mib, seconds) = (step.step, step.bytes.div_ceil(1024 * 1024), took.as_secs_f64());
        self.agent.log.write_line(&format!("step {number} is kept ({mib} MiB in {seconds:.1} s)"));
        let unhurried = UploadMeasurement { took: self.agent.pace.unhurried(took), ..measured };
        if let Some(words) = unhurried.too_large() {
            self.agent.warn_owner(AgentWarningKind::TooLarge, &words);
            self.log_once(words);
        }
        *self.load.lock().unwrap_or_else(PoisonError::into_inner) = PendingUpload { bytes: 0, last: Some(measured) };
    }

    /// Deletes all but what head names. What cannot be deleted goes on to cost, is tried again with the next one, and is told: at once, for
    /// there may be no next one.
    async fn prune(&mut self, newest: Checkpoint, kept: &[Checkpoint]) {
        let Some(words) = self.delete_all_but(newest, kept).await else {
            return self.agent.clear_warning(AgentWarningKind::NotPruned);
        };
        self.agent.warn_owner(AgentWarningKind::NotPruned, &words);
        self.log_once(words);
    }

    /// Each that can be deleted is. Which could not be, and why the first of them.
    async fn delete_all_but(&self, newest: Checkpoint, kept: &[Checkpoint]) -> Option<String> {
        let (store, job) = (&self.agent.store, &self.agent.identity.job);
        let listed = match store.list_checkpoints(job).await {
            Ok(listed) => listed,
            Err(error) => return Some(format!("old checkpoints are not deleted, and cost on: {error}")),
        };
        let mut left: Vec<(u64, StoreError)> = Vec::new();
        for old in to_prune(&listed, newest, kept, self.agent.identity.attempt) {
            left.extend(store.delete_checkpoint(job, old).await.err().map(|error| (old.step, error)));
        }
        let (step, error) = left.first()?;
        let others = left.len() - 1;
        let more = if others > 0 {
            format!(", and {others} more, are not deleted, and cost on")
        } else {
            " is not deleted, and costs on".to_owned()
        };
        Some(format!("the checkpoint of step {step}{more}: {error}"))
    }

    /// How far the job is, and how fast.
    fn tell_progress(&mut self, steps: &[CheckpointStep]) {
        let Some(newest) = steps.iter().find(|step| step.complete).map(|step| step.step) else { return };
        self.progress.saw(newest, -left_until(self.begun));
        let steps_per_hour = self.progress.steps_per_hour();
        self.agent.set_status(|status| (status.step, status.steps_per_hour) = (Some(newest), steps_per_hour));
    }

    /// Says of what is newer than all that is kept why it cannot be, and of what is older and came later that it is not. The newest
    /// of what is not, once the command has ended.
    fn tell_problems(&mut self, steps: &[CheckpointStep], torn: Option<&CheckpointStep>) -> Option<String> {
        let (kept, mut left) = (self.kept(), None);
        for step in steps.iter().filter(|step| !step.complete && kept.is_none_or(|kept| step.step > kept)) {
            if let Some(why) = &step.problem {
                left = left.or(Some(self.not_kept(step, why)));
            }
        }
        if let Some(step) = torn {
            let why = step.problem.clone().unwrap_or_else(|| "it carries no marker of that".to_owned());
            let words =
                format!("step {} was changed after it was kept, and as it is now it is not kept: {why}", step.step);
            self.log_once(words.clone());
            left = left.or(Some(words));
        }
        if let (Some(kept), Some(known)) = (kept, &self.known)
            && let Some(late) = overtaken(steps, kept, known)
        {
            let words = format!(
                "step {} was written after step {kept} was kept, and is not kept, for its number is lower: a command goes on from \
                 CURFEW_RESUME_FROM, and what is no checkpoint belongs elsewhere",
                late.step
            );
            self.warn_if_lasting(AgentWarningKind::Overtaken, words);
        } else {
            self.agent.clear_warning(AgentWarningKind::Overtaken);
        }
        left
    }

    fn not_kept(&mut self, step: &CheckpointStep, words: &str) -> String {
        let words = format!("the checkpoint of step {} is not kept: {words}", step.step);
        self.warn_if_lasting(AgentWarningKind::NotKept, words.clone());
        self.finished.left = Some(words.clone());
        words
    }

    /// Says it, and the owner hears it where it stays so.
    fn warn_if_lasting(&mut self, kind: AgentWarningKind, words: String) {
        self.agent.warn_owner_if_lasting(kind, &words);
        self.log_once(words);
    }

    /// Says it, but not again and again.
    fn log_once(&mut self, words: String) {
        let for_so_long = self.agent.pace.wait(SAID_FOR);
        self.said.retain(|_, at| at.elapsed() < for_so_long);
        if self.said.len() < SAID_MAX && !self.said.contains_key(&words) {
            self.agent.log.write_line(&words);
            self.said.insert(words, Instant::now());
        }
    }
}

/// With why it is not held where it should be.
async fn snapshot(
    disk: &mut Disk,
    directory: &Path,
    entries: &[String],
    hold: bool,
) -> io::Result<(StepSnapshot, Option<io::Error>)> {
    let (directory, entries) = (directory.to_owned(), entries.to_vec());
    let taken = disk.run(move || {
        let mut taken = StepSnapshot::capture(&directory, &entries)?;
        let unheld = if hold { taken.hold().err() } else { None };
        Ok((taken, unheld))
    });
    taken.await
}
