//! The log of an attempt: the output of the command and the agent's own lines, in one stream. All of it goes to the agent's own output, the
//! machine's journal, without waiting for its reader. The agent keeps in memory what the bucket lacks, and uploads it: the tail again and again,
//! and all before it in parts. It needs no disk.

mod lines;
mod outlet;
mod watch;

use std::collections::VecDeque;
use std::io::{PipeReader, Read};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lines::LineOrder;
use outlet::LogOutput;
use store::{LOG_PARTS_MAX, LogPart, LogTail};
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};
use watch::TextWatch;

use crate::world::now;

const TAIL_BYTES: usize = 256 * 1024;

/// Less is no part yet: the tail still has it.
const PART_BYTES_MIN: usize = TAIL_BYTES / 2;

/// The largest part, and the most that waits for an upload; of what a command writes faster than S3 takes it the oldest is missing.
const WAITING_BYTES_MAX: usize = 8 * 1024 * 1024;

/// So much is uploaded at once, half of the most that may wait: the other half has room for what is written meanwhile.
const UPLOAD_BYTES: u64 = 4 * 1024 * 1024;

/// The most bytes in parts: an hour of a verbose command, and cents at S3. Of a longer log only the tail is uploaded.
pub(crate) const PARTS_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// The longest time that a line of the agent waits for the end of the command's.
const LINE_HELD_FOR: Duration = Duration::from_secs(15);

/// A longer line is cut as it arrives.
const LINE_BYTES: usize = 4 * 1024;

#[derive(Debug, Clone)]
pub(crate) struct Log {
    buffer: Arc<Mutex<LogBuffer>>,
    has_grown: Arc<Notify>,
    output: LogOutput,
    last_output: Arc<Mutex<Option<Instant>>>,
}

/// Positions count the bytes of the whole log.
#[derive(Debug, Default)]
struct LogBuffer {
    bytes: VecDeque<u8>,
    /// The position after the last byte.
    written: u64,
    /// The position after the last part.
    stored: u64,
    parts: u32,
    /// The position of the first line that this process has.
    begin: u64,
    /// `true` if the log of an earlier start of this attempt was read.
    resumes: bool,
    lines: LineOrder,
    watch: Option<TextWatch>,
}

impl Log {
    /// An empty log that also goes to the agent's own output.
    pub(crate) fn new() -> Self {
        let (buffer, has_grown, last_output) = (Arc::default(), Arc::default(), Arc::default());
        Self { buffer, has_grown, output: LogOutput::to_stdout(), last_output }
    }

    /// Waits until the agent's own output has all of it, up to `timeout`.
    pub(crate) fn written_within(&self, at_most: Duration) {
        self.release_lines();
        self.output.emptied_within(at_most);
    }

    /// Writes a line of the agent, after that of the command if it is within one.
    pub(crate) fn write_line(&self, words: &str) {
        let line = line_of(words);
        let mut buffer = self.locked();
        match buffer.lines.add_line(line.as_bytes()) {
            Ok(now) => self.append(&mut buffer, &now),
            Err(None) => {}
            Err(Some(wait)) => {
                let log = self.clone();
                let release = async move {
                    tokio::time::sleep(LINE_HELD_FOR).await;
                    log.write_lines(|lines| lines.release_wait(wait));
                };
                if let Ok(runtime) = Handle::try_current() {
                    runtime.spawn(release);
                } else {
                    let lines = buffer.lines.release();
                    self.append(&mut buffer, &lines);
                }
            }
        }
    }

    /// Writes the agent's lines that wait.
    pub(crate) fn release_lines(&self) {
        self.write_lines(LineOrder::release);
    }

    fn write_lines(&self, take: impl FnOnce(&mut LineOrder) -> Vec<u8>) {
        let mut buffer = self.locked();
        let lines = take(&mut buffer.lines);
        self.append(&mut buffer, &lines);
    }

    /// Copies the command's output until the last writer closes the pipe, and signals that.
    pub(crate) fn follow(&self, mut from: PipeReader) -> oneshot::Receiver<()> {
        let (log, (drained, has_drained)) = (self.clone(), oneshot::channel());
        std::thread::spawn(move || {
            let mut some = vec![0; 64 * 1024];
            while let Ok(read @ 1..) = from.read(&mut some) {
                log.write(&some[..read]);
                *log.last_output.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
            }
            log.write_lines(LineOrder::end_output);
            // The receiver may be gone.
            let _ = drained.send(());
        });
        has_drained
    }

    /// The last time that a command, or `setup`, wrote output.
    pub(crate) fn last_output(&self) -> Option<Instant> {
        *self.last_output.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn resumes(&self) -> bool {
        self.locked().resumes
    }

    /// Continues after the log that an earlier start of this attempt left in the bucket.
    pub(crate) fn continue_after(&self, earlier: LogTail) {
        self.locked().continue_after(earlier);
    }

    /// Its tail, from the beginning of a line if one is near.
    pub(crate) fn tail(&self) -> LogTail {
        self.locked().tail()
    }

    /// The next part and its number, once there is enough for one.
    pub(crate) fn next_part(&self) -> Option<(u32, LogPart)> {
        self.locked().next_part()
    }

    /// The bucket has the log up to `end`. Returns whether that is as much as it gets.
    pub(crate) fn set_stored(&self, end: u64) -> bool {
        let mut buffer = self.locked();
        let is_full = buffer.set_stored(end);
        if buffer.waiting() >= UPLOAD_BYTES {
            self.has_grown.notify_one();
        }
        is_full
    }

    /// The bucket has another part of the next number, which stays.
    pub(crate) fn skip_number(&self) {
        self.locked().parts += 1;
    }

    /// Returns when [`UPLOAD_BYTES`] begin to wait, or still wait after a part. A failed upload is not repeated at once.
    pub(crate) async fn wait_for_growth(&self) {
        self.has_grown.notified().await;
    }

    /// Looks for a text in what the command writes from now on.
    pub(crate) fn watch_for(&self, text: &'static str) {
        self.locked().watch = Some(TextWatch::new(text));
    }

    /// Returns `true` once, if the command has written that text.
    pub(crate) fn take_watched_text(&self) -> bool {
        self.locked().watch.take_if(|watch| watch.is_found).is_some()
    }

    /// Writes output of the command.
    fn write(&self, bytes: &[u8]) {
        let mut buffer = self.locked();
        if let Some(watch) = &mut buffer.watch {
            watch.look_at(bytes);
        }
        let bytes = buffer.lines.add_output(bytes);
        self.append(&mut buffer, &bytes);
    }

    /// Writes to the bucket's and the agent's own output under the same lock, so that they have the same order.
    fn append(&self, buffer: &mut LogBuffer, bytes: &[u8]) {
        let before = buffer.waiting();
        buffer.append(bytes);
        if before < UPLOAD_BYTES && buffer.waiting() >= UPLOAD_BYTES {
            self.has_grown.notify_one();
        }
        self.output.write(bytes);
    }

    fn locked(&self) -> MutexGuard<'_, LogBuffer> {
        self.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn line_of(words: &str) -> String {
    format!("[curfew {:.0}] {words}\n", now())
}

impl LogBuffer {
    fn append(&mut self, bytes: &[u8]) {
        self.written = self.written.saturating_add(size(bytes.len()));
        self.bytes.extend(&bytes[bytes.len().saturating_sub(WAITING_BYTES_MAX)..]);
        self.trim();
    }

    /// Drops what is in a part, except for the tail.
    fn trim(&mut self) {
        let waiting = usize::try_from(self.waiting()).unwrap_or(usize::MAX);
        let surplus = self.bytes.len().saturating_sub(waiting.clamp(TAIL_BYTES, WAITING_BYTES_MAX));
        self.bytes.drain(..surplus);
    }

    /// Returns the number of bytes that are yet to be in a part.
    fn waiting(&self) -> u64 {
        if self.is_full() { 0 } else { self.written.saturating_sub(self.stored) }
    }

    fn is_full(&self) -> bool {
        self.stored >= PARTS_BYTES_MAX || self.parts >= LOG_PARTS_MAX
    }

    /// The position of the first byte.
    fn start(&self) -> u64 {
        self.written.saturating_sub(size(self.bytes.len()))
    }

    fn next_part(&self) -> Option<(u32, LogPart)> {
        let start = self.stored.max(self.start());
        let skipped = usize::try_from(start.saturating_sub(self.start())).unwrap_or(usize::MAX);
        let bytes: Vec<u8> = self.bytes.iter().skip(skipped).copied().collect();
        (!self.is_full() && bytes.len() >= PART_BYTES_MIN).then_some((self.parts, LogPart { bytes, start }))
    }

    fn set_stored(&mut self, end: u64) -> bool {
        (self.stored, self.parts) = (end, self.parts.saturating_add(1));
        self.trim();
        self.is_full()
    }

    fn continue_after(&mut self, earlier: LogTail) {
        let (lines, watch) = (std::mem::take(&mut self.lines), self.watch.take());
        let own = std::mem::replace(self, Self { resumes: true, lines, watch, ..Self::default() });
        // As far as its metadata can be true.
        self.begin = earlier.start.min(PARTS_BYTES_MAX * 1024);
        self.written = self.begin;
        self.append(&earlier.bytes);
        (self.stored, self.parts) = (earlier.stored.min(self.written), earlier.parts);
        if !earlier.bytes.is_empty() && !earlier.bytes.ends_with(b"\n") {
            self.append(b"\n");
        }
        self.append(&Vec::from(own.bytes));
    }

    /// A cut may fall in the middle of a line, even of a character.
    fn tail(&self) -> LogTail {
        let cut = self.bytes.len().saturating_sub(TAIL_BYTES);
        let near = self.bytes.iter().skip(cut).take(LINE_BYTES);
        let begins = match near.clone().position(|byte| *byte == b'\n') {
            _ if cut == 0 && self.start() == self.begin => 0,
            Some(end) => end + 1,
            // The bytes of a character after its first (RFC 3629, section 3).
            None => near.take_while(|byte| **byte & 0b1100_0000 == 0b1000_0000).count(),
        };
        let bytes: Vec<u8> = self.bytes.iter().skip(cut + begins).copied().collect();
        LogTail { start: self.written.saturating_sub(size(bytes.len())), bytes, stored: self.stored, parts: self.parts }
    }
}

fn size(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    fn text(buffer: &LogBuffer) -> String {
        String::from_utf8(buffer.tail().bytes).unwrap()
    }

    #[test]
    fn only_the_command_s_output_is_watched() {
        let output = LogOutput::to(Err::<File, _>(std::io::ErrorKind::NotFound.into()));
        let log = Log { output, ..Log::new() };
        log.write(b"NET/Socket\n");
        log.watch_for("NET/Socket");
        log.write_line("NET/Socket");
        assert!(!log.take_watched_text());
        log.write(b"NCCL INFO NET/So");
        log.continue_after(LogTail { start: 0, bytes: b"NET/Socket".to_vec(), stored: 0, parts: 0 });
        assert!(!log.take_watched_text());
        log.write(b"cket : Using [0]ens5\n");
        assert!(log.take_watched_text() && !log.take_watched_text());
    }

    #[test]
    fn the_log_keeps_what_no_part_has_and_its_end() {
        let mut log = LogBuffer::default();
        let mut whole = Vec::new();
        for part in 0..40_u8 {
            let bytes = vec![part; 100 * 1024];
            log.append(&bytes);
            whole.extend(bytes);
            if let Some((number, part)) = log.next_part() {
                assert_eq!(number, log.parts);
                let (start, end) = (part.start, part.start + size(part.bytes.len()));
                assert_eq!(start, log.stored);
                assert_eq!(part.bytes, whole[usize::try_from(start).unwrap()..usize::try_from(end).unwrap()]);
                assert!(!log.set_stored(end));
            }
            assert!(log.bytes.len() <= 2 * TAIL_BYTES, "{}", log.bytes.len());
            let tail = log.tail();
            assert!(tail.start <= log.stored, "what no part has is in the tail");
            assert_eq!(whole[usize::try_from(tail.start).unwrap()..], tail.bytes);
        }
        assert_eq!((log.parts, log.written), (20, 4_096_000));
    }

    #[test]
    fn a_log_that_no_part_takes_loses_its_beginning() {
        let mut log = LogBuffer::default();
        for part in 0..10_u8 {
            log.append(&vec![part; WAITING_BYTES_MAX / 4]);
        }
        let (_, part) = log.next_part().unwrap();
        assert_eq!((part.bytes.len(), part.bytes.first(), part.start), (WAITING_BYTES_MAX, Some(&6), 12 * 1024 * 1024));
    }

    async fn check_growth(log: &Log, expect: bool) {
        let grown = tokio::time::timeout(Duration::from_millis(1), log.wait_for_growth()).await;
        assert_eq!(grown.is_ok(), expect);
    }

    #[tokio::test]
    async fn a_log_that_grows_fast_is_uploaded_at_once_and_after_a_failure_later() {
        let output = LogOutput::to(Err::<File, _>(std::io::ErrorKind::NotFound.into()));
        let (log, mib) = (Log { output, ..Log::new() }, 1024 * 1024);
        log.write(&vec![b'x'; 4 * mib - 1]);
        check_growth(&log, false).await;
        log.write(b"x");
        check_growth(&log, true).await;
        // The upload failed.
        log.write(&vec![b'x'; mib]);
        check_growth(&log, false).await;
        log.set_stored(UPLOAD_BYTES / 4);
        check_growth(&log, true).await;
        log.set_stored(UPLOAD_BYTES);
        check_growth(&log, false).await;
        log.set_stored(PARTS_BYTES_MAX);
        log.write(&vec![b'x'; 5 * mib]);
        check_growth(&log, false).await;
    }

    #[test]
    fn of_a_log_beyond_the_limit_only_the_end_is_kept() {
        let mut log = LogBuffer::default();
        log.append(&vec![1; TAIL_BYTES]);
        assert!(log.set_stored(PARTS_BYTES_MAX));
        log.append(&vec![2; 2 * TAIL_BYTES]);
        assert_eq!((log.next_part(), log.bytes.len()), (None, TAIL_BYTES));
    }

    fn check_continue(earlier: &[u8], own: &[u8], expect: &str) {
        let mut log = LogBuffer::default();
        log.append(own);
        let start = 1_000;
        log.continue_after(LogTail { bytes: earlier.to_vec(), start, stored: start, parts: 3 });
        let whole = text(&log);
        assert!(whole.starts_with(expect) && log.resumes, "{}", &whole[..whole.len().min(60)]);
        assert!(log.written >= start + size(earlier.len() + own.len()) && log.parts == 3);
    }

    #[test]
    fn the_log_continues_that_of_an_earlier_start() {
        check_continue(b"", b"anew\n", "anew\n");
        check_continue(b"the reason\n", b"anew\n", "the reason\nanew\n");
        check_continue(b"the rea", b"anew\n", "the rea\nanew\n");
        check_continue(&b"the reason\n".repeat(TAIL_BYTES), b"anew\n", "the reason\nthe");
        check_continue(b"the reason\n", &b"anew\n".repeat(TAIL_BYTES), "anew\nanew\n");
    }

    #[test]
    fn positions_that_cannot_be_break_nothing() {
        let mut log = LogBuffer::default();
        log.continue_after(LogTail { bytes: b"x".to_vec(), start: u64::MAX, stored: u64::MAX, parts: u32::MAX });
        log.append(&vec![1; WAITING_BYTES_MAX]);
        assert_eq!(log.next_part(), None);
        assert_eq!(log.tail().bytes.len(), TAIL_BYTES);
    }

    fn check_begin(end: &str, expect: &str) {
        let mut log = LogBuffer::default();
        log.append(&[b"the beginning\n".repeat(TAIL_BYTES / 10), end.as_bytes().to_vec()].concat());
        assert!(text(&log).starts_with(expect), "{}", &text(&log)[..40]);
    }

    #[test]
    fn the_log_begins_with_a_line_or_a_character() {
        check_begin("", "the beginning\n");
        check_begin(&"x".repeat(TAIL_BYTES - 3), "x");
        check_begin(&format!("{}x", "é".repeat(TAIL_BYTES / 2)), "éé");
        let mut log = LogBuffer::default();
        log.append("é\nall of it".as_bytes());
        assert_eq!(log.tail().bytes, "é\nall of it".as_bytes());
    }
}
