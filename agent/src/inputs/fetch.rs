//! Fetches an input onto the disk: many parts at once, and after a restart only what is missing.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use aws_config::SdkConfig;
use futures::stream::{self, TryStreamExt as _};
use jiff::SignedDuration;
use jobs::{InputFile, InputSpec, WorkMonitor};
use model::bytes::format_bytes;
use store::{FileOwner, INPUT_PART_BYTES, InputBucket, InputError};
use tokio::sync::Semaphore;

use super::describe;
use super::directory::InputDirectory;
use super::journal::InputJournal;
use crate::agent::{Agent, StartError};
use crate::directory::make;
use crate::disk::{DiskSpace, on_disk};
use crate::retry_timeout::{RetryTimeout, read_with_retries};
use crate::user::User;

/// Files in progress. A small one mostly waits for S3.
const FILES_AT_ONCE: usize = 32;

/// Concurrent requests, and parts of one file: together they fill a network of 10 Gbit/s.
const PARTS_AT_ONCE: usize = 16;

const PROGRESS_EVERY: SignedDuration = SignedDuration::from_mins(1);

/// Interval at which the journal is written: a restart repeats at most that much.
const JOURNAL_EVERY: SignedDuration = SignedDuration::from_secs(10);

struct InputFetch<'a> {
    bucket: InputBucket,
    owner: &'a FileOwner,
    directory: Arc<InputDirectory>,
    journal: Arc<Mutex<InputJournal>>,
    requests: Semaphore,
    files: AtomicUsize,
    bytes: AtomicU64,
}

pub(super) async fn fetch(
    agent: &Arc<Agent>,
    input: &InputSpec,
    config: &SdkConfig,
    journal: PathBuf,
    user: &User,
) -> Result<(), StartError> {
    let (begun, owner) = (Instant::now(), user.file_owner());
    let failed = |error: InputError| describe(agent, input, &error);
    let what = format!("the input {}", input.from);
    let bucket = read_with_retries(agent, &what, async || InputBucket::open(config, &input.from.bucket).await).await;
    let bucket = bucket.map_err(failed)?;
    let files = read_with_retries(agent, &what, async || bucket.list(&input.from).await).await.map_err(failed)?;
    let to = Path::new(&input.to);
    let disk = |error: io::Error| failed(InputError::Disk { path: to.to_owned(), error });
    let (place, for_owner) = (to.to_owned(), owner.clone());
    let prepared = tokio::task::spawn_blocking(move || {
        make(&place, &for_owner)?;
        io::Result::Ok((for_owner.run(|| InputDirectory::open(&place))?, InputJournal::open(&journal)?))
    });
    let (directory, journal) = prepared.await.map_err(io::Error::other).and_then(|prepared| prepared).map_err(disk)?;
    let (directory, journal) = (Arc::new(directory), Arc::new(Mutex::new(journal)));
    let all = files.len();
    let missing = find_missing(&owner, &directory, &journal, files).await.map_err(disk)?;
    let bytes: u64 = missing.iter().map(|file| file.bytes).sum();
    agent.log.write_line(&format!(
        "fetches {} of {all} objects, {}, of {} into {}",
        missing.len(),
        format_bytes(bytes),
        input.from,
        input.to
    ));
    check_room(&journal, input, bytes)?;
    let (files, bytes_done, requests) = (AtomicUsize::new(0), AtomicU64::new(0), Semaphore::new(PARTS_AT_ONCE));
    let fetch = InputFetch { bucket, owner: &owner, directory, journal, requests, files, bytes: bytes_done };
    let fetched = tokio::select! {
        fetched = fetch.run(agent, input, &missing) => fetched,
        never = fetch.report(agent, input, (missing.len(), bytes)) => match never {},
    };
    fetch.write_journal().await.map_err(disk)?;
    fetched.map_err(failed)?;
    let path = to.to_owned();
    on_disk(&owner, move || InputDirectory::delete_parts(&path)).await.map_err(disk)?;
    let seconds = begun.elapsed().as_secs();
    agent.log.write_line(&format!("fetched {} in {seconds} s", input.from));
    Ok(())
}

impl InputFetch<'_> {
    /// Repeats what S3 does not answer, for as long as a restore does.
    async fn run(&self, agent: &Agent, input: &InputSpec, missing: &[InputFile]) -> Result<(), InputError> {
        let (mut timeout, mut before) = (RetryTimeout::default(), 0);
        loop {
            let files = missing.iter().filter(|file| lock(&self.journal).find_file(file).is_none());
            let fetched =
                stream::iter(files.map(Ok)).try_for_each_concurrent(FILES_AT_ONCE, |file| self.file(file)).await;
            let Err(InputError::Store(error)) = fetched else { return fetched };
            let bytes = self.bytes.load(Ordering::Relaxed);
            if bytes > before {
                (timeout, before) = (RetryTimeout::default(), bytes);
            }
            let what = format!("the input {} cannot be read yet", input.from);
            if !timeout.pause_and_retry(agent, &what, &error).await {
                return Err(error.into());
            }
        }
    }

    async fn file(&self, file: &InputFile) -> Result<(), InputError> {
        let (directory, path, bytes) = (Arc::clone(&self.directory), file.path.clone(), file.bytes);
        let (content, inode) = self.on_disk(file, move || directory.open_part(&path, bytes)).await?;
        let content = Arc::new(content);
        let there = lock(&self.journal).find_parts(file, inode);
        let starts = (0..file.bytes.div_ceil(INPUT_PART_BYTES)).map(|number| number.saturating_mul(INPUT_PART_BYTES));
        let missing: Vec<u64> = starts.filter(|start| !there.contains(start)).collect();
        let parts = missing.into_iter().map(Ok);
        let fetched =
            stream::iter(parts).try_for_each_concurrent(PARTS_AT_ONCE, |start| self.part(file, &content, inode, start));
        fetched.await?;
        if file.bytes > INPUT_PART_BYTES
            && let Err(error) = self.bucket.verify(file, &content).await
        {
            let (directory, path) = (Arc::clone(&self.directory), file.path.clone());
            if matches!(error, InputError::Refused(_)) {
                // The next start does not trust its parts.
                self.on_disk(file, move || directory.discard_part(&path)).await?;
            }
            return Err(error);
        }
        let (directory, path) = (Arc::clone(&self.directory), file.path.clone());
        let state = self.on_disk(file, move || directory.finish(&content, &path)).await?;
        lock(&self.journal).add_file(file, state);
        self.files.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    async fn part(&self, file: &InputFile, content: &Arc<File>, inode: u64, start: u64) -> Result<(), InputError> {
        // It is never closed.
        let _request = self.requests.acquire().await;
        let length = INPUT_PART_BYTES.min(file.bytes.saturating_sub(start));
        self.bucket.fetch_part(file, (start, length), content).await?;
        self.bytes.fetch_add(length, Ordering::Relaxed);
        if file.bytes > INPUT_PART_BYTES {
            lock(&self.journal).add_part(file, inode, start);
        }
        Ok(())
    }

    async fn on_disk<T: Send + 'static>(
        &self,
        file: &InputFile,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> Result<T, InputError> {
        let done = on_disk(self.owner, work).await;
        done.map_err(|error| InputError::Disk { path: PathBuf::from(&file.path), error })
    }

    /// Logs the progress and writes the journal, until it is dropped.
    async fn report(&self, agent: &Agent, input: &InputSpec, (files, bytes): (usize, u64)) -> std::convert::Infallible {
        let (mut said, mut before) = (Instant::now(), 0);
        loop {
            agent.pace.sleep(JOURNAL_EVERY).await;
            let arrived = self.bytes.load(Ordering::Relaxed);
            if arrived > before {
                agent.with_work(WorkMonitor::observe_data);
            }
            before = arrived;
            if let Err(error) = self.write_journal().await {
                agent.log.write_line(&format!("a restart would fetch {} again: {error}", input.from));
            }
            if said.elapsed() >= agent.pace.wait(PROGRESS_EVERY) {
                said = Instant::now();
                let (done, fetched) = (self.files.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed));
                agent.log.write_line(&format!(
                    "fetched {done} of {files} objects of {}, {} of {}",
                    input.from,
                    format_bytes(fetched),
                    format_bytes(bytes)
                ));
            }
        }
    }

    async fn write_journal(&self) -> io::Result<()> {
        let (directory, journal) = (Arc::clone(&self.directory), Arc::clone(&self.journal));
        let written = tokio::task::spawn_blocking(move || {
            let lines = lock(&journal).take_pending()?;
            if lines.is_empty() {
                return Ok(());
            }
            directory.sync()?;
            lock(&journal).append(&lines)
        });
        written.await.map_err(io::Error::other)?
    }
}

fn lock(journal: &Mutex<InputJournal>) -> std::sync::MutexGuard<'_, InputJournal> {
    journal.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The files that an earlier start has not finished, or that were changed since.
async fn find_missing(
    owner: &FileOwner,
    directory: &Arc<InputDirectory>,
    journal: &Arc<Mutex<InputJournal>>,
    files: Vec<InputFile>,
) -> io::Result<Vec<InputFile>> {
    let (directory, journal) = (Arc::clone(directory), Arc::clone(journal));
    on_disk(owner, move || {
        let mut journal = lock(&journal);
        let mut missing = Vec::new();
        for file in files {
            let state = journal.find_file(&file);
            if !state.is_some_and(|state| directory.is_intact(&file.path, state)) {
                journal.forget_file(&file);
                missing.push(file);
            }
        }
        Ok(missing)
    })
    .await
}

/// A disk that is too small is known before an hour was spent on it. What parts of unfinished files take is already taken.
fn check_room(journal: &Mutex<InputJournal>, input: &InputSpec, bytes: u64) -> Result<(), StartError> {
    // An unknown size is found out later.
    let Some(DiskSpace { free_bytes: free, .. }) = DiskSpace::read(Path::new(&input.to)) else { return Ok(()) };
    let needed = bytes.saturating_sub(lock(journal).count_parts().saturating_mul(INPUT_PART_BYTES));
    if needed <= free {
        return Ok(());
    }
    let (needed, free) = (format_bytes(needed), format_bytes(free));
    let why = format!(
        "the input {} needs {needed}, and the disk of {} has {free} left: set `root_volume_gib`",
        input.from, input.to
    );
    Err(StartError::cannot_run(why))
}
