//! Logs, and the part of each that was printed.

use std::collections::BTreeMap;

use futures::{StreamExt as _, stream};
use jobs::JobId;
use jobs::node_gang::Node;
use store::{LOG_PARTS_MAX, LogName, LogTail, Store, StoreError};

use super::LogTails;
use super::nodes::{LinePrinter, ShownLogs};

/// Limit of parts that are read at once, of up to 8 MiB each.
const PARTS_AT_ONCE: usize = 4;

/// A log, and how much of it was printed.
#[derive(Default)]
pub(super) struct PrintedLog {
    position: LogPosition,
    parts: u32,
    printer: LinePrinter,
}

/// The logs of an attempt that were printed.
#[derive(Default)]
pub(super) struct PrintedAttempt {
    pub(super) attempt: u32,
    logs: BTreeMap<Option<Node>, PrintedLog>,
}

impl PrintedLog {
    /// A log of which nothing was printed.
    pub(super) fn whole(printer: LinePrinter) -> Self {
        Self { printer, ..Self::default() }
    }

    /// Prints a line whose end never came.
    pub(super) fn finish(&mut self) {
        self.printer.finish();
    }

    /// Prints what is new, with the parts before the tail.
    pub(super) async fn print_new(
        &mut self,
        store: &Store,
        log: LogName<'_>,
        tail: &LogTail,
    ) -> Result<(), StoreError> {
        if self.position.is_before(tail.start) {
            let numbers = self.parts..tail.parts.min(LOG_PARTS_MAX);
            let mut parts =
                stream::iter(numbers).map(|number| store.read_log_part(log, number)).buffered(PARTS_AT_ONCE);
            while let Some(part) = parts.next().await {
                let Some(part) = part? else { break };
                self.print(part.start, &part.bytes);
            }
        }
        self.parts = tail.parts;
        self.print(tail.start, &tail.bytes);
        Ok(())
    }

    fn print(&mut self, start: u64, bytes: &[u8]) {
        let found = self.position.advance(start, bytes);
        if found.missing > 0 {
            // In the output, because only there `here` is still true in a file.
            let note = format!("\n[curfew] {} bytes of the log are missing here\n", found.missing);
            self.printer.print(note.as_bytes());
        }
        self.printer.print(found.bytes);
    }
}

impl PrintedAttempt {
    pub(super) fn new(attempt: u32) -> Self {
        Self { attempt, logs: BTreeMap::new() }
    }

    /// Prints what is new of each log.
    pub(super) async fn print_new(
        &mut self,
        store: &Store,
        job: &JobId,
        tails: &LogTails,
        shown: &ShownLogs,
    ) -> Result<(), StoreError> {
        for (node, tail) in tails {
            // Of a log whose first lines were not shown, the rest is.
            let log = self.logs.entry(*node).or_insert_with(|| PrintedLog {
                position: LogPosition::at(tail.start),
                parts: tail.parts,
                printer: shown.printer(*node),
            });
            log.print_new(store, LogName { job, attempt: self.attempt, node: *node }, tail).await?;
        }
        Ok(())
    }

    pub(super) fn finish(&mut self) {
        self.logs.values_mut().for_each(PrintedLog::finish);
    }
}

/// The number of bytes of a log that were printed or are missing.
#[derive(Debug, Default)]
struct LogPosition(u64);

/// Bytes that were not printed yet.
#[derive(Debug, PartialEq)]
struct NewLogBytes<'a> {
    bytes: &'a [u8],
    /// The number of bytes that are missing before them.
    missing: u64,
}

impl LogPosition {
    const fn at(position: u64) -> Self {
        Self(position)
    }

    const fn is_before(&self, position: u64) -> bool {
        self.0 < position
    }

    /// The new part of bytes that begin at `start`. The machine said where, so any position may be wrong.
    fn advance<'a>(&mut self, start: u64, bytes: &'a [u8]) -> NewLogBytes<'a> {
        let printed = usize::try_from(self.0.saturating_sub(start)).unwrap_or(usize::MAX);
        let missing = start.saturating_sub(self.0);
        self.0 = self.0.max(start.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX)));
        NewLogBytes { bytes: bytes.get(printed..).unwrap_or_default(), missing }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_is_new_once_and_missing_ones_are_counted() {
        let mut position = LogPosition::at(0);
        let mut check = |start, bytes: &'static str, expect: &str, missing| {
            let found = position.advance(start, bytes.as_bytes());
            assert_eq!(found, NewLogBytes { bytes: expect.as_bytes(), missing });
        };
        check(0, "one\n", "one\n", 0);
        check(0, "one\n", "", 0);
        check(0, "one\ntwo\n", "two\n", 0);
        check(4, "two\nthree\n", "three\n", 0);
        check(20, "five\n", "five\n", 6);
        check(0, "", "", 0);
        check(u64::MAX, "lie\n", "lie\n", u64::MAX - 25);
        check(0, "more\n", "", 0);
    }
}
