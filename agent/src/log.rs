//! The log of an attempt: the output of the command and the agent's own lines, in one stream. All of it goes to the agent's own output, the
//! machine's journal, without waiting for its reader. The agent keeps the tail in memory and uploads it. It needs no disk.

mod outlet;

use std::collections::VecDeque;
use std::io::{PipeReader, Read};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use outlet::LogOutput;
use tokio::sync::oneshot;

use crate::world::now;

/// The bytes of the tail.
const TAIL_BYTES: usize = 256 * 1024;

/// A longer line is cut as it arrives.
const LINE_BYTES: usize = 4 * 1024;

#[derive(Debug, Clone)]
pub(crate) struct Log {
    tail: Arc<Mutex<LogTail>>,
    output: LogOutput,
}

#[derive(Debug, Default)]
struct LogTail {
    bytes: VecDeque<u8>,
    written: u64,
    /// Whether the log of an earlier start of this attempt was read.
    resumes: bool,
}

impl Log {
    /// An empty log that also goes to the agent's own output.
    pub(crate) fn new() -> Self {
        Self { tail: Arc::default(), output: LogOutput::to_stdout() }
    }

    /// Waits until the agent's own output has all of it, up to `timeout`.
    pub(crate) fn written_within(&self, at_most: Duration) {
        self.output.emptied_within(at_most);
    }

    /// Writes a line of the agent.
    pub(crate) fn write_line(&self, words: &str) {
        self.write(line_of(words).as_bytes());
    }

    /// Copies the command's output until the last writer closes the pipe, and signals that.
    pub(crate) fn follow(&self, mut from: PipeReader) -> oneshot::Receiver<()> {
        let (log, (drained, has_drained)) = (self.clone(), oneshot::channel());
        std::thread::spawn(move || {
            let mut some = vec![0; 64 * 1024];
            while let Ok(read @ 1..) = from.read(&mut some) {
                log.write(&some[..read]);
            }
            // The receiver may be gone.
            let _ = drained.send(());
        });
        has_drained
    }

    pub(crate) fn resumes(&self) -> bool {
        self.locked().resumes
    }

    /// Continues after the log that an earlier start of this attempt left in the bucket.
    pub(crate) fn go_on_from(&self, earlier: &[u8]) {
        self.locked().go_on_from(earlier);
    }

    /// Its tail, from the beginning of a line if one is near, and the number of bytes ever written.
    pub(crate) fn tail(&self) -> (Vec<u8>, u64) {
        let tail = self.locked();
        (tail.whole_lines(), tail.written)
    }

    fn write(&self, bytes: &[u8]) {
        // Both under the same lock, so that they have the same order.
        let mut tail = self.locked();
        tail.append(bytes);
        self.output.write(bytes);
    }

    fn locked(&self) -> MutexGuard<'_, LogTail> {
        self.tail.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn line_of(words: &str) -> String {
    format!("[curfew {:.0}] {words}\n", now())
}

impl LogTail {
    fn append(&mut self, bytes: &[u8]) {
        self.written += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        self.bytes.extend(&bytes[bytes.len().saturating_sub(TAIL_BYTES)..]);
        let surplus = self.bytes.len().saturating_sub(TAIL_BYTES);
        self.bytes.drain(..surplus);
    }

    fn go_on_from(&mut self, earlier: &[u8]) {
        let own = std::mem::replace(self, Self { resumes: true, ..Self::default() });
        self.append(earlier);
        if !earlier.is_empty() && !earlier.ends_with(b"\n") {
            self.append(b"\n");
        }
        let before = self.written;
        self.append(&Vec::from(own.bytes));
        self.written = before + own.written;
    }

    /// A cut may fall in the middle of a line, even of a character.
    fn whole_lines(&self) -> Vec<u8> {
        let is_cut_off = self.written > u64::try_from(self.bytes.len()).unwrap_or(u64::MAX);
        let near = self.bytes.iter().take(LINE_BYTES);
        let begins = match near.clone().position(|byte| *byte == b'\n') {
            _ if !is_cut_off => 0,
            Some(end) => end + 1,
            // The bytes of a character after its first (RFC 3629, section 3).
            None => near.take_while(|byte| **byte & 0b1100_0000 == 0b1000_0000).count(),
        };
        self.bytes.iter().skip(begins).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_keeps_its_end() {
        let mut tail = LogTail::default();
        for part in 0..10_u8 {
            tail.append(&vec![part; 100 * 1024]);
        }
        assert_eq!((tail.bytes.len(), tail.written), (TAIL_BYTES, 1_024_000));
        assert_eq!((tail.bytes.front(), tail.bytes.back()), (Some(&7), Some(&9)));
    }

    fn check_go_on(earlier: &[u8], own: &[u8], expect: &str) {
        let mut tail = LogTail::default();
        tail.append(own);
        tail.go_on_from(earlier);
        let whole = String::from_utf8(tail.whole_lines()).unwrap();
        assert!(whole.starts_with(expect) && tail.resumes, "{}", &whole[..whole.len().min(60)]);
        assert!(tail.bytes.len() <= TAIL_BYTES && tail.written >= u64::try_from(earlier.len() + own.len()).unwrap());
    }

    #[test]
    fn the_log_continues_that_of_an_earlier_start() {
        check_go_on(b"", b"anew\n", "anew\n");
        check_go_on(b"the reason\n", b"anew\n", "the reason\nanew\n");
        check_go_on(b"the rea", b"anew\n", "the rea\nanew\n");
        check_go_on(&b"the reason\n".repeat(TAIL_BYTES), b"anew\n", "the reason\nthe");
        check_go_on(b"the reason\n", &b"anew\n".repeat(TAIL_BYTES), "anew\nanew\n");
    }

    fn check_begin(end: &str, expect: &str) {
        let mut tail = LogTail::default();
        tail.append(&[b"the beginning\n".repeat(TAIL_BYTES / 10), end.as_bytes().to_vec()].concat());
        let whole = String::from_utf8(tail.whole_lines()).unwrap();
        assert!(whole.starts_with(expect), "{}", &whole[..40]);
    }

    #[test]
    fn the_log_begins_with_a_line_or_a_character() {
        check_begin("", "the beginning\n");
        check_begin(&"x".repeat(TAIL_BYTES - 3), "x");
        check_begin(&format!("{}x", "é".repeat(TAIL_BYTES / 2)), "éé");
        let mut tail = LogTail::default();
        tail.append("é\nall of it".as_bytes());
        assert_eq!(tail.whole_lines(), "é\nall of it".as_bytes());
    }

    #[test]
    fn a_write_beyond_the_limit_keeps_its_end() {
        let mut tail = LogTail::default();
        tail.append(&vec![1; TAIL_BYTES]);
        tail.append(&[vec![2; TAIL_BYTES], vec![3]].concat());
        assert_eq!((tail.bytes.len(), tail.bytes.back()), (TAIL_BYTES, Some(&3)));
        assert!(!tail.bytes.contains(&1));
    }
}
