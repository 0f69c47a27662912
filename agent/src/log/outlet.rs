//! The agent's own output. A thread writes it, because a full pipe without a reader blocks its writer for ever (Linux manual, `pipe(7)`,
//! "I/O on pipes and FIFOs"). The outlet drops what it has no room for, and says so as soon as there is room.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::Duration;

use super::{line_of, size};

/// The most pending bytes, beside as many that are being written: some seconds of a verbose command.
const WAITING_BYTES: usize = 1024 * 1024;

/// The destination of the log besides the bucket.
#[derive(Debug, Clone)]
pub(super) struct LogOutput(Arc<OutputState>);

#[derive(Debug, Default)]
struct OutputState {
    waiting: Mutex<PendingOutput>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct PendingOutput {
    bytes: Vec<u8>,
    /// Dropped bytes after them.
    left_out: u64,
    is_writing: bool,
}

impl LogOutput {
    #[expect(clippy::disallowed_methods, reason = "the journal gets what the command prints")]
    pub(super) fn to_stdout() -> Self {
        // Without the buffer of the standard library, whose flush at the end of the process would block.
        Self::to(std::io::stdout().as_fd().try_clone_to_owned().map(File::from))
    }

    /// Creates an output to a file. Without a file it accepts everything and writes nothing: the bucket has the log.
    pub(super) fn to(file: std::io::Result<impl Write + Send + 'static>) -> Self {
        let shared = Arc::<OutputState>::default();
        if let Ok(file) = file {
            let of_thread = Arc::clone(&shared);
            // A machine without a thread for it has its log in the bucket.
            let _ = Builder::new().spawn(move || of_thread.write_all_to(file));
        }
        Self(shared)
    }

    pub(super) fn write(&self, bytes: &[u8]) {
        self.0.locked().append(bytes);
        self.0.changed.notify_all();
    }

    /// Returns once everything is written, or after `timeout`.
    pub(super) fn emptied_within(&self, at_most: Duration) {
        let OutputState { changed, .. } = &*self.0;
        // The rest is in the bucket.
        let _ = changed.wait_timeout_while(self.0.locked(), at_most, |waiting| !waiting.is_empty());
    }
}

impl OutputState {
    fn write_all_to(&self, mut file: impl Write) {
        loop {
            let bytes = self.next();
            let written = file.write_all(&bytes);
            let mut waiting = self.locked();
            waiting.is_writing = false;
            if written.is_err() {
                // The reader is gone, or pauses.
                waiting.left_out = waiting.left_out.saturating_add(size(bytes.len()));
            }
            drop(waiting);
            self.changed.notify_all();
        }
    }

    /// The next bytes to write, as soon as there are any.
    fn next(&self) -> Vec<u8> {
        let waiting = self.changed.wait_while(self.locked(), |waiting| waiting.bytes.is_empty());
        let mut waiting = waiting.unwrap_or_else(PoisonError::into_inner);
        waiting.is_writing = true;
        waiting.drain()
    }

    fn locked(&self) -> MutexGuard<'_, PendingOutput> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PendingOutput {
    /// Appends the bytes, or drops them if there is no room. After dropped bytes everything is dropped, until there is room to say so.
    fn append(&mut self, bytes: &[u8]) {
        let is_full = self.left_out > 0 || self.bytes.len() + bytes.len() > WAITING_BYTES;
        if is_full && !self.bytes.is_empty() {
            self.left_out = self.left_out.saturating_add(size(bytes.len()));
        } else {
            self.bytes.extend(bytes);
        }
    }

    fn drain(&mut self) -> Vec<u8> {
        let mut bytes = std::mem::take(&mut self.bytes);
        let left_out = std::mem::take(&mut self.left_out);
        if left_out > 0 {
            if !bytes.ends_with(b"\n") {
                bytes.push(b'\n');
            }
            let kib = left_out.div_ceil(1024);
            let words = format!(
                "{kib} KiB of the log are missing here, because the journal was too slow; the bucket has its end"
            );
            bytes.extend(line_of(&words).bytes());
        }
        bytes
    }

    fn is_empty(&self) -> bool {
        self.bytes.is_empty() && !self.is_writing
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};

    use super::*;

    const SOON: Duration = Duration::from_millis(1);
    const LATE: Duration = Duration::from_mins(1);

    #[test]
    fn a_stopped_reader_blocks_nothing_and_dropped_bytes_are_named() {
        let (reader, writer) = std::io::pipe().unwrap();
        let outlet = LogOutput::to(Ok(writer));
        let (line, lines) = ([b"x".repeat(1023), b"\n".to_vec()].concat(), 3 * WAITING_BYTES / 1024);
        for _ in 0..lines {
            outlet.write(&line);
        }
        outlet.emptied_within(SOON);
        assert!(!outlet.0.locked().is_empty());

        let read = std::thread::spawn(|| {
            let lines = BufReader::new(reader).lines().map(Result::unwrap);
            lines.take_while(|line| line != "after it").partition::<Vec<_>, _>(|line| line.starts_with('x'))
        });
        outlet.emptied_within(LATE);
        outlet.write(b"after it\n");
        outlet.emptied_within(LATE);
        assert!(outlet.0.locked().is_empty());
        let (written, said) = read.join().unwrap();
        // Once or twice, as the thread took its first before or after there was no more room.
        let missing = said.iter().map(|line| {
            let (before, _) = line.split_once(" KiB of the log are missing here").unwrap();
            before.rsplit_once("] ").unwrap().1.parse::<usize>().unwrap()
        });
        assert_eq!(missing.sum::<usize>(), lines - written.len(), "{said:?}");
        assert!(matches!(said.len(), 1 | 2), "{said:?}");
    }

    #[test]
    fn a_closed_reader_blocks_nothing() {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let outlet = LogOutput::to(Ok(writer));
        for _ in 0..3 {
            outlet.write(b"for nobody\n");
            outlet.emptied_within(LATE);
            assert!(outlet.0.locked().is_empty());
        }
    }

    #[test]
    fn a_cut_line_ends_before_the_note_about_it() {
        let mut waiting = PendingOutput::default();
        waiting.append(b"half of a li");
        waiting.append(&vec![0; WAITING_BYTES]);
        waiting.append(b"ne\n");
        let given = String::from_utf8(waiting.drain()).unwrap();
        assert!(given.starts_with("half of a li\n[curfew "), "{given}");
        assert!(given.contains("] 1025 KiB of the log are missing"), "{given}");
        assert_eq!(waiting.drain(), b"");
    }
}
