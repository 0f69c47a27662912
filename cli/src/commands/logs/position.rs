//! The part of a log that was printed.

/// The number of bytes of a log that were printed or are missing.
#[derive(Debug, Default)]
pub(super) struct LogPosition(u64);

/// Bytes that were not printed yet.
#[derive(Debug, PartialEq)]
pub(super) struct NewLogBytes<'a> {
    pub(super) bytes: &'a [u8],
    /// The number of bytes that are missing before them.
    pub(super) missing: u64,
}

impl LogPosition {
    pub(super) const fn at(position: u64) -> Self {
        Self(position)
    }

    pub(super) const fn is_before(&self, position: u64) -> bool {
        self.0 < position
    }

    /// The new part of bytes that begin at `start`. The machine said where, so any position may be wrong.
    pub(super) fn advance<'a>(&mut self, start: u64, bytes: &'a [u8]) -> NewLogBytes<'a> {
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
