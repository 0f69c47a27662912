//! Uploads checkpoints: reads the directory, uploads complete ones, names them in head, and deletes old ones.

mod look;
mod part;
mod prune;
mod upload;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use jiff::{SignedDuration, Timestamp};
use jobs::checkpoints::{
    CheckpointProgress, CheckpointStep, DirectoryEntry, DirectoryWatch, QUIET, StepNumber, Tracker, UploadOrder,
    WriterState, put_best_first, rewritten,
};
use jobs::warning::PendingUpload;
use jobs::{Checkpoint, CheckpointSpec};
use store::{CheckpointError, FileOwner, StoreError};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::agent::{Agent, EndCause};
use crate::directory::{CheckpointDirectory, DiskRoom, HeldSteps, KeptStep, StepSnapshot};
use crate::disk::Disk;
use crate::fence::FenceError;
use crate::restore::RestoredCheckpoint;
use crate::retry_timeout::RetryTimeout;
use crate::world::now;

pub(crate) use self::prune::delete_all_but;

/// Interval at which the keeper reads the directory.
const LOOK_EVERY: SignedDuration = SignedDuration::from_secs(10);

/// Limit of permanent failures in a row, after which the keeper gives up if the command has ended.
const LAST_TRIES: u32 = 5;

/// The rest of the agent holds this part of the keeper.
pub(crate) struct CheckpointKeeper {
    writer: watch::Sender<WriterState>,
    task: JoinHandle<KeeperSummary>,
    pub(crate) load: Arc<Mutex<PendingUpload>>,
    not_resumed: watch::Receiver<Option<u64>>,
}

/// The checkpoint directory before the command began.
#[derive(Debug, Default)]
pub(crate) struct DirectoryBefore {
    /// The entries that the agent restored.
    pub(crate) restored: Vec<DirectoryEntry>,
    /// The remaining entries, such as what `setup` wrote.
    pub(crate) others: Vec<DirectoryEntry>,
}

/// The checkpoints of a command that has ended, for people.
#[derive(Debug, Default)]
pub(crate) struct KeeperSummary {
    /// The entry that is newer than everything kept, and why it is not kept.
    pub(crate) left: Option<String>,
    /// A note that the newest uploaded checkpoint is unverified.
    pub(crate) unverified_note: Option<String>,
    /// `true` if a verified checkpoint was uploaded since the command began.
    pub(crate) has_kept: bool,
    /// A note that the command did not resume from its checkpoint.
    pub(crate) not_resumed: Option<String>,
}

struct KeeperTask {
    agent: Arc<Agent>,
    directory: CheckpointDirectory,
    owner: FileOwner,
    disk: Disk,
    writer: watch::Receiver<WriterState>,
    /// `None`: unknown, so nothing is deleted.
    keep: Option<u32>,
    /// `true` if the attempt had moved to another bucket at the last look.
    has_moved: bool,
    /// The expected interval of checkpoints.
    every: SignedDuration,
    /// The checkpoints that head names, the newest last.
    counting: Vec<Checkpoint>,
    /// The unverified ones of `counting`.
    unverified: Vec<Checkpoint>,
    /// The one that the command resumed from.
    from: Option<Checkpoint>,
    /// The highest number under which a step is kept.
    kept: Option<u64>,
    order: UploadOrder,
    /// Gets the lower step of a command that did not resume, where an older checkpoint is left to resume from.
    not_resumed: Option<watch::Sender<Option<u64>>>,
    originals: KeptOriginals,
    seen: DirectoryWatch,
    held: HeldSteps,
    room: DiskRoom,
    /// The names of links to entries of the directory.
    links: Vec<String>,
    trackers: Vec<Tracker>,
    /// The steps that the framework has not deleted, those of them that were not decided at the last look, and whether it deletes any.
    there: BTreeSet<u64>,
    undecided: BTreeSet<u64>,
    framework_deletes: bool,
    /// The number of checkpoints that failed since the last upload: deleted before they were held, or changed during the upload.
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

/// The reason why a checkpoint was not kept.
enum KeepError {
    Own(String),
    Store(StoreError),
    Fenced(String),
    /// The attempt has moved to another bucket meanwhile.
    Moved,
}

impl From<CheckpointError> for KeepError {
    fn from(error: CheckpointError) -> Self {
        match error {
            CheckpointError::Store(error) => Self::Store(error),
            other => Self::Own(other.to_string()),
        }
    }
}

impl From<StoreError> for KeepError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
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
    /// Starts with what was restored. `can_go_back`: another checkpoint is left for a command that does not resume from this one.
    pub(crate) fn begin(
        agent: &Arc<Agent>,
        spec: &CheckpointSpec,
        keep: Option<u32>,
        owner: FileOwner,
        restored: RestoredCheckpoint,
        before: DirectoryBefore,
        can_go_back: bool,
    ) -> Self {
        let (writer, load) = (watch::Sender::new(WriterState::Running), Arc::default());
        let (send_not_resumed, not_resumed) = watch::channel(None);
        let quiet = agent.pace.scale(QUIET);
        let order = order_after_restore(&restored, before.restored, quiet);
        let mut originals = KeptOriginals::default();
        let is_snapshot = restored.original.as_ref().is_some_and(|kept| kept.manifest.snapshot);
        if let Some(kept) = restored.original {
            let slot = originals.slot(kept.step.number);
            *slot = Some(kept);
        }
        let step = restored.checkpoint.map(|checkpoint| checkpoint.step);
        let every = SignedDuration::from_secs(spec.every_seconds);
        agent.with_work(|work, _| work.expect_steps(every, restored.checkpoint.is_some(), restored.step));
        let work = KeeperTask {
            agent: Arc::clone(agent),
            directory: CheckpointDirectory::from_spec(spec),
            disk: Disk::with_rights_of(owner.clone()),
            owner,
            writer: writer.subscribe(),
            keep,
            has_moved: agent.buckets.has_moved(),
            every,
            counting: restored.counting,
            unverified: restored.unverified,
            from: restored.checkpoint,
            // Before any step there may have been snapshots.
            kept: step.filter(|step| *step > 0 || !is_snapshot),
            order,
            not_resumed: can_go_back.then_some(send_not_resumed),
            originals,
            seen: DirectoryWatch::new(quiet, before.others),
            held: HeldSteps::default(),
            room: DiskRoom::default(),
            links: Vec::new(),
            trackers: Vec::new(),
            there: BTreeSet::new(),
            undecided: BTreeSet::new(),
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
        Self { writer, task, load, not_resumed }
    }

    /// The bytes that are not uploaded yet, by the last look.
    pub(crate) fn load(&self) -> PendingUpload {
        *self.load.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the step that says that the command did not resume, and has to do so from an older checkpoint.
    pub(crate) async fn not_resumed(&mut self) -> u64 {
        loop {
            if let Some(step) = *self.not_resumed.borrow_and_update() {
                return step;
            }
            if self.not_resumed.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
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

fn order_after_restore(
    restored: &RestoredCheckpoint,
    there: Vec<DirectoryEntry>,
    quiet: SignedDuration,
) -> UploadOrder {
    let original = restored.original.as_ref().filter(|kept| kept.step.number != StepNumber::Snapshot);
    let Some(KeptStep { step: newest, manifest }) = original else { return UploadOrder::default() };
    let mut watch = DirectoryWatch::new(quiet, Vec::new());
    watch.observe(there, now());
    let mut others = watch.steps(WriterState::Ended, now());
    others.retain(|other| !other.entries.iter().any(|name| newest.entries.contains(name)));
    UploadOrder::resumed(newest.clone(), &others, manifest.counts_again)
}

/// Dropping the keeper stops its writes as soon as its caller stops waiting: the exit record must be the last write.
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
        if self.agent.buckets.has_moved() != self.has_moved {
            self.follow_move().await;
        }
        let Some(steps) = self.scan_steps(writer).await else { return KeepOutcome::Refused };
        self.check_resumption(&steps);
        let order = self.order.clone();
        let is_over = |step: &&CheckpointStep| step.complete && (step.settled || step.unverified);
        let changed = [
            self.changed_since_kept(&steps, StepNumber::Named(0)).await,
            self.changed_since_kept(&steps, StepNumber::Snapshot).await,
        ];
        let is_torn = |step: &&CheckpointStep| !is_over(step) && writer != WriterState::Running;
        let torn = changed.iter().flatten().copied().find(is_torn);
        self.finished.left = self.warn_of_problems(&steps, torn);
        let again = changed.into_iter().flatten().filter(is_over);
        let mut next: Vec<&CheckpointStep> = order.to_upload(&steps).chain(again).collect();
        if let Some(newest) = next.first() {
            let best = self.best_of(newest).await;
            put_best_first(&mut next, best);
        }
        self.put_peers_step_first(&mut next);
        let mut came = KeepOutcome::Nothing;
        for step in next {
            self.report_number(step);
            match self.keep(step, &steps).await {
                // After a move the next look begins anew in the other bucket.
                Ok(()) | Err(KeepError::Moved) => return KeepOutcome::Kept,
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

    /// The attempt has moved: only what head names there counts. What this attempt has kept may be missing or half there, so its newest step and
    /// files without a number are uploaded again.
    async fn follow_move(&mut self) {
        self.has_moved = true;
        if self.counting.last().is_some_and(|newest| newest.attempt == self.agent.identity.attempt) {
            self.order.repeat_newest();
            self.originals.snapshot = None;
        }
        let head = self.agent.fence.last().await;
        self.counting = head.kept.iter().rev().chain(&head.checkpoint).copied().collect();
        self.unverified = head.unverified;
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
        let is_next = self.order.to_upload(steps).next().is_none();
        let is_as_kept =
            if (step.still || step.settled) && is_next { self.is_as_kept(step, &original).await? } else { false };
        if let Some(original) = self.originals.slot(number).as_mut().filter(|_| is_as_kept) {
            // It was only touched: remember that.
            original.step = step.clone();
        }
        (!is_as_kept).then_some(step)
    }

    /// Returns `true` if a step still has the uploaded bytes. The comparison may take as long as reading the step, so it stops when the
    /// command ends: then there may be a newer step.
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
