//! The log of an attempt: what the command writes and what the agent says, in one stream. All of it goes to the agent's own
//! output, which is the journal of the machine; the end of it is kept in memory and uploaded. It needs no disk.

use std::collections::VecDeque;
use std::io::{PipeReader, Read, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::world::now;

/// So much of its end is kept and uploaded, in bytes.
const TAIL_BYTES: usize = 256 * 1024;

/// The log.
#[derive(Debug, Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Tail>>);

#[derive(Debug, Default)]
struct Tail {
    bytes: VecDeque<u8>,
    written: u64,
}

impl Log {
    /// Says something of the agent's own.
    pub(crate) fn say(&self, words: &str) {
        self.write(format!("[curfew {:.0}] {words}\n", now()).as_bytes());
    }

    /// Takes what the command writes, until nobody holds the other end any more.
    pub(crate) fn follow(&self, mut from: PipeReader) {
        let log = self.clone();
        std::thread::spawn(move || {
            let mut some = vec![0; 64 * 1024];
            while let Ok(read @ 1..) = from.read(&mut some) {
                log.write(&some[..read]);
            }
        });
    }

    /// The end of it, and how much was written in all.
    pub(crate) fn tail(&self) -> (Vec<u8>, u64) {
        let tail = self.locked();
        (tail.bytes.iter().copied().collect(), tail.written)
    }

    fn write(&self, bytes: &[u8]) {
        self.locked().take(bytes);
        // Nobody may be listening, and the log is uploaded all the same.
        let _ = std::io::stdout().lock().write_all(bytes);
    }

    fn locked(&self) -> MutexGuard<'_, Tail> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tail {
    fn take(&mut self, bytes: &[u8]) {
        self.written += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        self.bytes.extend(&bytes[bytes.len().saturating_sub(TAIL_BYTES)..]);
        let surplus = self.bytes.len().saturating_sub(TAIL_BYTES);
        self.bytes.drain(..surplus);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_end_is_kept() {
        let mut tail = Tail::default();
        for part in 0..10_u8 {
            tail.take(&vec![part; 100 * 1024]);
        }
        assert_eq!((tail.bytes.len(), tail.written), (TAIL_BYTES, 1_024_000));
        assert_eq!((tail.bytes.front(), tail.bytes.back()), (Some(&7), Some(&9)));
    }

    #[test]
    fn a_write_larger_than_that_leaves_its_end() {
        let mut tail = Tail::default();
        tail.take(&vec![1; TAIL_BYTES]);
        tail.take(&[vec![2; TAIL_BYTES], vec![3]].concat());
        assert_eq!((tail.bytes.len(), tail.bytes.back()), (TAIL_BYTES, Some(&3)));
        assert!(!tail.bytes.contains(&1));
    }
}
