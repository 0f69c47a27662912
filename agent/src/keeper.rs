//! Uploads checkpoints: reads the directory, uploads complete ones, names them in head, and deletes old ones.

mod look;
mod prune;
mod upload;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use jiff::{SignedDuration, Timestamp};
use jobs::checkpoints::{
    CheckpointProgress, CheckpointStep, DirectoryWatch, QUIET, StepNumber, WriterState, put_best_first, rewritten,
    to_upload,
};
use jobs::warning::PendingUpload;
use jobs::{Checkpoint, CheckpointSpec};
use store::{CheckpointError, FileOwner, StoreError};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::agent::{Agent, EndCause};
use crate::directory::{CheckpointDirectory, HeldSteps, KeptStep, StepSnapshot};
use crate::disk::Disk;
use crate::fence::FenceError;
use crate::restore::RestoredCheckpoint;
use crate::retry_timeout::RetryTimeout;
use crate::world::now;

/// How often the keeper reads the directory.
const LOOK_EVERY: SignedDuration = SignedDuration::from_secs(10);

/// After the command has ended, the keeper gives up after so many permanent failures in a row.
const LAST_TRIES: u32 = 5;

/// The rest of the agent holds this part of the keeper.
pub(crate) struct CheckpointKeeper {
    writer: watch::Sender<WriterState>,
    task: JoinHandle<KeeperSummary>,
    load: Arc<Mutex<PendingUpload>>,
}

/// The checkpoints of a command that has ended, for people.
#[derive(Debug, Default)]
pub(crate) struct KeeperSummary {
    /// The entry that is newer than everything kept, and why it is not kept.
    pub(crate) left: Option<String>,
    /// A note that the newest uploaded checkpoint is unverified.
    pub(crate) unverified_note: Option<String>,
    /// Whether a verified checkpoint was uploaded since the command began.
    pub(crate) has_kept: bool,
}

struct KeeperTask {
    agent: Arc<Agent>,
    directory: CheckpointDirectory,
    owner: FileOwner,
    disk: Disk,
    writer: watch::Receiver<WriterState>,
    /// `None`: unknown, so nothing is deleted.
    keep: Option<u32>,
    /// The expected interval of checkpoints.
    every: SignedDuration,
    /// Those that head names, the newest last.
    counting: Vec<Checkpoint>,
    /// Those of them that are unverified.
    unverified: Vec<Checkpoint>,
    /// The one that the command resumed from.
    from: Option<Checkpoint>,
    /// The highest step that is kept.
    kept: Option<u64>,
    originals: KeptOriginals,
    seen: DirectoryWatch,
    held: HeldSteps,
    /// The names of links to entries of the directory.
    links: Vec<String>,
    /// The steps in the directory when the newest was uploaded.
    known: Option<BTreeSet<u64>>,
    /// The steps that the framework has not deleted, and whether it deletes any.
    there: BTreeSet<u64>,
    framework_deletes: bool,
    /// How many failed since the last upload: deleted before they were held, or changed during the upload.
    lost: u32,
    lost_why: String,
    progress: CheckpointProgress,
    load: Arc<Mutex<PendingUpload>>,
    said: BTreeMap<String, Instant>,
    begun: Instant,
    begun_at: Timestamp,
    finished: KeeperSummary,
}

/// The content of the last uploads or restores.
#[derive(Debug, Default)]
struct KeptOriginals {
    step: Option<KeptStep>,
    /// The files without a number.
    snapshot: Option<KeptStep>,
}

impl KeptOriginals {
    const fn slot(&mut self, number: StepNumber) -> &mut Option<KeptStep> {
        if matches!(number, StepNumber::Snapshot) { &mut self.snapshot } else { &mut self.step }
    }
}

enum KeepOutcome {
    Nothing,
    Kept,
    /// The next try may succeed.
    Failed(StoreError),
    /// The next try will fail as well.
    Refused,
    /// This attempt has lost the fence.
    Fenced,
}

/// Why a checkpoint was not kept.
enum KeepError {
    Own(String),
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
    /// Starts with what was restored.
    pub(crate) fn begin(
        agent: &Arc<Agent>,
        spec: &CheckpointSpec,
        keep: Option<u32>,
        owner: FileOwner,
        restored: RestoredCheckpoint,
    ) -> Self {
        let (writer, load) = (watch::Sender::new(WriterState::Running), Arc::default());
        let mut originals = KeptOriginals::default();
        let is_snapshot = restored.original.as_ref().is_some_and(|kept| kept.manifest.snapshot);
        if let Some(kept) = restored.original {
            let slot = originals.slot(kept.step.number);
            *slot = Some(kept);
        }
        let step = restored.checkpoint.map(|checkpoint| checkpoint.step);
        let work = KeeperTask {
            agent: Arc::clone(agent),
            directory: CheckpointDirectory::from_spec(spec),
            disk: Disk::with_rights_of(owner.clone()),
            owner,
            writer: writer.subscribe(),
            keep,
            every: SignedDuration::from_secs(spec.every_seconds),
            counting: restored.counting,
            unverified: restored.unverified,
            from: restored.checkpoint,
            // Before any step there may have been snapshots.
            kept: step.filter(|step| *step > 0 || !is_snapshot),
            originals,
            seen: DirectoryWatch::new(agent.pace.scale(QUIET)),
            held: HeldSteps::default(),
            links: Vec::new(),
            known: None,
            there: BTreeSet::new(),
            framework_deletes: restored.has_others,
            lost: 0,
            lost_why: String::new(),
            progress: CheckpointProgress::since(step),
            load: Arc::clone(&load),
            said: BTreeMap::new(),
            begun: Instant::now(),
            begun_at: now(),
            finished: KeeperSummary::default(),
        };
        let task = tokio::task::spawn_local(work.run());
        Self { writer, task, load }
    }

    /// The bytes that are not uploaded yet, by the last look.
    pub(crate) fn load(&self) -> PendingUpload {
        *self.load.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the rest after the command has ended, and then ends.
    pub(crate) async fn finish(mut self, writer: WriterState) -> KeeperSummary {
        self.writer.send_replace(writer);
        (&mut self.task).await.unwrap_or_else(|error| KeeperSummary {
            left: Some(format!("its checkpoints are no longer kept: {error}")),
            has_kept: true,
            ..KeeperSummary::default()
        })
    }
}

/// It stops writing as soon as its caller stops waiting: the exit record must be the last write.
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
                self.warn_of_failures();
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
                // The caller may have less time.
                (_, KeepOutcome::Refused | KeepOutcome::Failed(_)) => {
                    self.agent.pace.sleep(SignedDuration::from_secs(3)).await;
                }
            }
        }
    }

    /// Reads the directory once and uploads the newest complete entry, or else the previous one, or else a rewritten entry that is complete again,
    /// or else the files without a number.
    async fn keep_newest(&mut self) -> KeepOutcome {
        let writer = *self.writer.borrow();
        let Some(steps) = self.scan_steps(writer).await else { return KeepOutcome::Refused };
        let is_over = |step: &&CheckpointStep| step.complete && (step.settled || step.unverified);
        let changed = [
            self.changed_since_kept(&steps, StepNumber::Named(0)).await,
            self.changed_since_kept(&steps, StepNumber::Snapshot).await,
        ];
        let is_torn = |step: &&CheckpointStep| !is_over(step) && writer != WriterState::Running;
        let torn = changed.iter().flatten().copied().find(is_torn);
        self.finished.left = self.warn_of_problems(&steps, torn);
        let again = changed.into_iter().flatten().filter(is_over);
        let mut next: Vec<&CheckpointStep> = to_upload(&steps, self.kept, self.kept_at()).chain(again).collect();
        if let Some(newest) = next.first() {
            let best = self.best_of(newest).await;
            put_best_first(&mut next, best);
        }
        let mut came = KeepOutcome::Nothing;
        for step in next {
            self.report_number(step);
            match self.keep(step, &steps).await {
                Ok(()) => {
                    self.known = Some(steps.iter().filter_map(|step| step.number.named()).collect());
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
                Err(KeepError::Own(words)) => {
                    self.not_kept(step, &words);
                    self.lost = self.lost.saturating_add(1);
                    self.lost_why = words;
                }
            }
            came = KeepOutcome::Refused;
        }
        came
    }

    /// When the highest uploaded step last changed.
    fn kept_at(&self) -> Option<Timestamp> {
        self.originals.step.as_ref().map(|kept| kept.step.changed_at)
    }

    /// The rewritten entry, compared by its bytes, unless a newer one comes first. Files without a number may not exist yet.
    async fn changed_since_kept<'a>(
        &mut self,
        steps: &'a [CheckpointStep],
        number: StepNumber,
    ) -> Option<&'a CheckpointStep> {
        let Some(original) = self.originals.slot(number).clone() else {
            let is_new = |step: &&CheckpointStep| step.number == StepNumber::Snapshot && number == step.number;
            return steps.iter().find(is_new);
        };
        let step = rewritten(steps, &original.step)?;
        let is_next = to_upload(steps, self.kept, self.kept_at()).next().is_none();
        let is_as_kept =
            if (step.still || step.settled) && is_next { self.is_as_kept(step, &original).await? } else { false };
        if let Some(original) = self.originals.slot(number).as_mut().filter(|_| is_as_kept) {
            // It was only touched: remember that.
            original.step = step.clone();
        }
        (!is_as_kept).then_some(step)
    }

    /// Whether a step still has the uploaded bytes. It may take as long as reading the step, so it stops when the command ends: then there may be a
    /// newer step.
    async fn is_as_kept(&mut self, step: &CheckpointStep, original: &KeptStep) -> Option<bool> {
        let manifest = Arc::clone(&original.manifest);
        let (directory, step, given_up) = (self.directory.clone(), step.clone(), Arc::<AtomicBool>::default());
        let flag = Arc::clone(&given_up);
        // A separate flag, so that the task that waits for the end of the command sees it as well.
        let mut writer = self.writer.clone();
        let compared =
            self.disk.run(move || StepSnapshot::capture(&directory, &step, &[], &[])?.is_still(&manifest, &given_up));
        tokio::select! {
            // An unreadable file is not uploaded either, and the upload reports why.
            compared = compared => Some(compared.unwrap_or(false)),
            Ok(()) = writer.changed() => {
                flag.store(true, Ordering::Relaxed);
                None
            }
        }
    }
}
