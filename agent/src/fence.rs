//! `head.json`: only the checkpoints and results that it names count, and only the launch of the attempt that it names may write it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jobs::{Head, HeadResult, JobId, MachineIdentity};
use store::{Store, StoreError, Versioned};
use tokio::sync::Mutex;

use crate::buckets::StateBuckets;

/// Limit of lost swaps without another attempt in head. More of them have another cause.
const TRIES_MAX: u32 = 5;

/// The reason why the fence was not written.
#[derive(Debug)]
pub(crate) enum FenceError {
    /// Another attempt has the fence, or the job has a result; in words.
    Fenced(String),
    /// S3 refused, or did not answer.
    Store(StoreError),
}

impl From<StoreError> for FenceError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// The writer of an attempt's exit record.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ResultOwner {
    ThisProcess,
    /// Another machine of the same attempt.
    AnotherMachine,
    /// An earlier start on this machine wrote it: the command has ended.
    EarlierStart(HeadResult),
}

impl ResultOwner {
    fn from_head(head: Head, attempt: u32, launch: &str) -> Self {
        match head.result {
            _ if head.attempt != attempt => Self::ThisProcess,
            _ if head.launch != launch => Self::AnotherMachine,
            Some(result) => Self::EarlierStart(result),
            None => Self::ThisProcess,
        }
    }
}

/// The fence, as this attempt last read or wrote it.
#[derive(Debug)]
pub(crate) struct Fence {
    buckets: Arc<StateBuckets>,
    job: JobId,
    attempt: u32,
    retry_of: u32,
    launch: String,
    last: Mutex<Versioned<Head>>,
    held: AtomicBool,
}

impl Fence {
    pub(crate) fn new(buckets: Arc<StateBuckets>, identity: &MachineIdentity) -> Self {
        let last = Mutex::new(Versioned { value: Head::default(), etag: None });
        let MachineIdentity { job, attempt, retry_of, launch, .. } = identity.clone();
        Self { buckets, job, attempt, retry_of, launch, last, held: AtomicBool::new(false) }
    }

    fn store(&self) -> &Store {
        self.buckets.current()
    }

    fn refusal(&self, head: &Head) -> Option<String> {
        refusal(head, self.attempt, &self.launch, self.retry_of)
    }

    /// The fence as it is now. A later attempt, or a result that is not retried, is an error.
    pub(crate) async fn read(&self) -> Result<Head, FenceError> {
        let mut last = self.last.lock().await;
        let read = Box::pin(self.store().read_fence(&self.job)).await?;
        if let Some(why) = self.refusal(&read.value) {
            return Err(FenceError::Fenced(why));
        }
        *last = read;
        Ok(last.value.clone())
    }

    /// Checks that this attempt may still write. Does not change the version for the next swap.
    pub(crate) async fn check(&self) -> Result<(), FenceError> {
        let read = Box::pin(self.store().read_fence(&self.job)).await?;
        // Its own result is no reason to end: the attempt is about to.
        let own = read.value.attempt == self.attempt && read.value.launch == self.launch;
        match self.refusal(&read.value).filter(|_| !own) {
            Some(why) => Err(FenceError::Fenced(why)),
            None => Ok(()),
        }
    }

    /// Finds the writer of this attempt's exit record. After this process has held the fence, only a later attempt can take it.
    pub(crate) async fn find_result_owner(&self) -> Result<ResultOwner, StoreError> {
        if self.held.load(Ordering::Relaxed) {
            return Ok(ResultOwner::ThisProcess);
        }
        let head = Box::pin(self.store().read_fence(&self.job)).await?.value;
        Ok(ResultOwner::from_head(head, self.attempt, &self.launch))
    }

    /// The fence as it was last read or written.
    pub(crate) async fn last(&self) -> Head {
        self.last.lock().await.value.clone()
    }

    /// The fence as it is now, whoever has it.
    pub(crate) async fn read_any(&self) -> Result<Head, StoreError> {
        let mut last = self.last.lock().await;
        *last = Box::pin(self.store().read_fence(&self.job)).await?;
        Ok(last.value.clone())
    }

    /// Changes the fence as this attempt. After a lost swap `change` is applied again to the newer content.
    pub(crate) async fn swap(&self, change: impl Fn(&mut Head)) -> Result<Head, FenceError> {
        Ok(self.swap_if(|before| Some(self.changed(before, &change))).await?.unwrap_or_default())
    }

    /// Swaps in the bucket that has what the change names; `None`, and nothing is written, if the attempt has moved since `had_moved` was read.
    pub(crate) async fn swap_unless_moved(
        &self,
        had_moved: bool,
        change: impl Fn(&mut Head),
    ) -> Result<Option<Head>, FenceError> {
        let is_there = || self.buckets.has_moved() == had_moved;
        self.swap_if(|before| is_there().then(|| self.changed(before, &change))).await
    }

    fn changed(&self, before: &Head, change: impl Fn(&mut Head)) -> Head {
        let mut head = before.clone();
        head.claim(self.attempt, &self.launch);
        change(&mut head);
        head
    }

    /// Moves to the copy, with the fence if this attempt has it: from then on everything is written there. The lock keeps every swap in one bucket.
    ///
    /// # Errors
    /// [`FenceError::Fenced`] if a later attempt has the fence of the copy, or the job a result there: nothing was written. [`FenceError::Store`] if
    /// the copy did not answer: the attempt has not moved.
    pub(crate) async fn move_to_copy(&self) -> Result<(), FenceError> {
        let mut last = self.last.lock().await;
        let Some(copy) = self.buckets.copy().filter(|_| !self.buckets.has_moved()) else { return Ok(()) };
        let mut tries = 1..TRIES_MAX;
        loop {
            let there = Box::pin(copy.read_fence(&self.job)).await?;
            let head = head_in_copy(&there.value, &last.value, self.attempt, &self.launch, self.retry_of);
            let head = head.map_err(FenceError::Fenced)?;
            // An attempt that still waits for the fence takes it there.
            if head == there.value || !self.held.load(Ordering::Relaxed) {
                *last = there;
                break;
            }
            match Box::pin(copy.write_fence(&self.job, &head, there.etag.as_deref())).await {
                Ok(etag) => {
                    *last = Versioned { value: head, etag };
                    break;
                }
                Err(StoreError::Lost { .. }) if tries.next().is_some() => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.buckets.note_move();
        Ok(())
    }

    /// Replaces the fence by what `change` makes of it; where that is `None`, nothing is written.
    pub(crate) async fn swap_if(&self, change: impl Fn(&Head) -> Option<Head>) -> Result<Option<Head>, FenceError> {
        let mut last = self.last.lock().await;
        let mut tries = 1..TRIES_MAX;
        loop {
            let Some(head) = change(&last.value) else { return Ok(None) };
            match Box::pin(self.store().write_fence(&self.job, &head, last.etag.as_deref())).await {
                Ok(etag) => {
                    *last = Versioned { value: head.clone(), etag };
                    self.held.store(true, Ordering::Relaxed);
                    return Ok(Some(head));
                }
                Err(StoreError::Lost { .. }) if tries.next().is_some() => {
                    let read = Box::pin(self.store().read_fence(&self.job)).await?;
                    if has_landed(&read.value, &head) {
                        *last = read;
                        return Ok(Some(head));
                    }
                    if let Some(why) = self.refusal(&read.value) {
                        return Err(FenceError::Fenced(why));
                    }
                    *last = read;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Returns the fence to write over that of the copy: it names the checkpoints that the copy's names, and no others. `own`: the last of the bucket
/// that is left.
///
/// # Errors
/// Another attempt has the fence of the copy, or the job has a result there; in words.
fn head_in_copy(copy: &Head, own: &Head, attempt: u32, launch: &str, retry_of: u32) -> Result<Head, String> {
    let is_mine = |head: &Head| (head.attempt, head.launch.as_str()) == (attempt, launch);
    if let Some(why) = refusal(copy, attempt, launch, retry_of).filter(|_| !is_mine(copy)) {
        return Err(why);
    }
    let mut head = copy.clone();
    head.claim(attempt, launch);
    if let Some(result) = own.result.as_ref().filter(|_| is_mine(own)) {
        head.result = Some(result.clone());
    }
    Ok(head)
}

/// Returns `true` if the result in head is the one that this process wrote: only the response was lost.
fn has_landed(there: &Head, written: &Head) -> bool {
    let whose = |head: &Head| (head.attempt, head.launch.clone());
    written.result.is_some() && there.result == written.result && whose(there) == whose(written)
}

/// Returns the reason why that launch of that attempt may not write; `None` if it may.
fn refusal(head: &Head, attempt: u32, launch: &str, retry_of: u32) -> Option<String> {
    if head.admits(attempt, launch, retry_of) {
        return None;
    }
    if let Some(result) = &head.result {
        let how = if result.succeeded { "succeeded" } else { "failed" };
        return Some(format!("the job has {how} already, in attempt {}", head.attempt));
    }
    let who = if head.attempt == attempt { "another machine of it" } else { &format!("attempt {}", head.attempt) };
    Some(format!("{who} has taken over, and nothing that this machine of attempt {attempt} writes counts"))
}

#[cfg(test)]
mod tests {
    use jobs::Checkpoint;

    use super::*;

    fn check(head_attempt: u32, succeeded: Option<bool>, attempt: u32, expect: Option<&str>) {
        let at = "2026-09-01T12:00:00Z".parse().unwrap();
        let result =
            succeeded.map(|succeeded| HeadResult { succeeded, code: None, why: String::new(), at, is_final: false });
        let head = Head { attempt: head_attempt, launch: "0a".to_owned(), result, ..Head::default() };
        let why = refusal(&head, attempt, "0a", 0);
        match (&why, expect) {
            (Some(why), Some(expect)) => assert!(why.contains(expect), "{why}"),
            _ => assert_eq!(why.as_deref(), expect),
        }
    }

    #[test]
    fn an_attempt_may_write_until_a_later_one_takes_the_fence() {
        check(0, None, 2, None);
        check(1, None, 2, None);
        check(2, None, 2, None);
        check(3, None, 2, Some("attempt 3 has taken over"));
    }

    #[test]
    fn the_second_machine_of_an_attempt_is_fenced() {
        let head = Head { attempt: 2, launch: "0a".to_owned(), ..Head::default() };
        assert_eq!(refusal(&head, 2, "0a", 0), None);
        assert!(refusal(&head, 2, "0b", 0).is_some_and(|why| why.starts_with("another machine of it has taken over")));
        assert_eq!(refusal(&head, 3, "0b", 0), None);
    }

    fn check_landed(change: impl Fn(&mut Head), expect: bool) {
        let at = "2026-09-01T12:00:00Z".parse().unwrap();
        let result = Some(HeadResult { succeeded: true, code: Some(0), why: String::new(), at, is_final: false });
        let written = Head { attempt: 2, launch: "0a".to_owned(), result, ..Head::default() };
        let mut there = written.clone();
        change(&mut there);
        assert_eq!(has_landed(&there, &written), expect, "{there:?}");
    }

    #[test]
    fn its_own_result_does_not_fence_it() {
        check_landed(|_| {}, true);
        check_landed(|there| there.launch = "0b".to_owned(), false);
        check_landed(|there| there.attempt = 3, false);
        check_landed(|there| there.result = None, false);
        check_landed(|there| there.result.as_mut().unwrap().code = Some(1), false);
        assert!(!has_landed(&Head::default(), &Head::default()));
    }

    #[test]
    fn the_fence_of_a_copy_is_taken_over_an_earlier_attempt_alone() {
        let named = |step| Some(Checkpoint { attempt: 1, step, rewrite: 0 });
        let at = "2026-09-01T12:00:00Z".parse().unwrap();
        let result = |succeeded| {
            let why = String::new();
            Some(HeadResult { succeeded, code: None, why, at, is_final: false })
        };
        let head = |attempt, launch: &str, step, result: Option<HeadResult>| Head {
            attempt,
            launch: launch.to_owned(),
            checkpoint: named(step),
            result,
            ..Head::default()
        };
        let own = head(2, "0a", 90, None);
        let check = |copy: &Head, own: &Head, expect: Result<&Head, &str>| match (
            head_in_copy(copy, own, 2, "0a", 0),
            expect,
        ) {
            (Ok(found), Ok(expect)) => assert_eq!(&found, expect),
            (Err(why), Err(expect)) => assert!(why.contains(expect), "{why}"),
            (found, expect) => panic!("{found:?}, not {expect:?}"),
        };
        // What the own bucket alone names, is not there.
        check(&head(1, "09", 50, None), &own, Ok(&head(2, "0a", 50, None)));
        check(&head(2, "0a", 80, None), &own, Ok(&head(2, "0a", 80, None)));
        check(&Head::default(), &own, Ok(&Head { checkpoint: None, ..own.clone() }));
        check(&head(3, "0c", 95, None), &own, Err("attempt 3 has taken over"));
        check(&head(2, "0b", 95, None), &own, Err("another machine of it has taken over"));
        check(&head(1, "09", 50, result(true)), &own, Err("has succeeded already"));
        // Its own result is no reason to end, and goes along.
        let ended = head(2, "0a", 90, result(true));
        check(&head(2, "0a", 80, None), &ended, Ok(&head(2, "0a", 80, result(true))));
        check(&head(2, "0a", 80, result(true)), &ended, Ok(&head(2, "0a", 80, result(true))));
        // A result of another launch does not.
        check(&head(1, "09", 50, None), &head(1, "09", 50, result(false)), Ok(&head(2, "0a", 50, None)));
    }

    #[test]
    fn one_machine_writes_the_exit_record_once() {
        let at = "2026-09-01T12:00:00Z".parse().unwrap();
        let result = HeadResult { succeeded: true, code: Some(0), why: String::new(), at, is_final: false };
        let word = |attempt, launch: &str, result: Option<&HeadResult>| {
            let head = Head { attempt, launch: launch.to_owned(), result: result.cloned(), ..Head::default() };
            ResultOwner::from_head(head, 2, "0a")
        };
        assert_eq!(word(2, "0a", None), ResultOwner::ThisProcess);
        assert_eq!(word(2, "0a", Some(&result)), ResultOwner::EarlierStart(result.clone()));
        for result in [None, Some(&result)] {
            assert_eq!(word(2, "0b", result), ResultOwner::AnotherMachine);
            assert_eq!(word(1, "0b", result), ResultOwner::ThisProcess);
            assert_eq!(word(3, "0a", result), ResultOwner::ThisProcess);
        }
    }

    #[test]
    fn a_result_fences_every_other_attempt() {
        check(1, Some(true), 2, Some("has succeeded already, in attempt 1"));
        check(2, Some(false), 2, Some("has failed already"));
    }
}
