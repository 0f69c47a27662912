//! The new part of a log.

use crate::screen::plain;

/// The bytes of the shown part by which it is found again in a log that has lost its beginning.
const ANCHOR_BYTES: usize = 4_096;

/// The new bytes.
pub(super) struct NewLogBytes<'a> {
    pub(super) bytes: &'a [u8],
    /// Whether bytes in between may be missing.
    pub(super) skipped: bool,
}

/// A log only holds its last bytes, so the shown part may have lost its beginning, or be gone.
pub(super) fn new_bytes<'a>(shown: &[u8], log: &'a [u8]) -> NewLogBytes<'a> {
    if let Some(bytes) = log.strip_prefix(shown) {
        return NewLogBytes { bytes, skipped: false };
    }
    let anchor = shown.get(shown.len().saturating_sub(ANCHOR_BYTES)..).unwrap_or_default();
    let found = log.windows(anchor.len().max(1)).rposition(|window| window == anchor);
    match found.and_then(|at| log.get(at + anchor.len()..)) {
        Some(bytes) => NewLogBytes { bytes, skipped: false },
        None => NewLogBytes { bytes: log, skipped: true },
    }
}

/// By line; a progress bar writes many.
pub(super) fn legible(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes).replace("\r\n", "\n").replace('\r', "\n");
    text.split('\n').map(plain).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(shown: &str, log: &str, expect: (&str, bool)) {
        let found = new_bytes(shown.as_bytes(), log.as_bytes());
        assert_eq!((String::from_utf8_lossy(found.bytes).as_ref(), found.skipped), expect);
    }

    #[test]
    fn only_what_is_new_is_shown_again() {
        check("", "", ("", false));
        check("", "one\n", ("one\n", false));
        check("one\n", "one\n", ("", false));
        check("one\n", "one\ntwo\n", ("two\n", false));
    }

    #[test]
    fn a_log_that_lost_its_beginning_resumes_where_it_was() {
        check("one\ntwo\nthree\n", "two\nthree\nfour\n", ("two\nthree\nfour\n", true));
        let shown: String = (0..2_000).map(|line| format!("line {line}\n")).collect::<Vec<_>>().concat();
        let log = format!("{}line 2000\n", &shown[shown.len() / 2..]);
        check(&shown, &log, ("line 2000\n", false));
    }

    #[test]
    fn a_lost_beginning_of_a_log_is_noted() {
        check("one\n", "nine\n", ("nine\n", true));
        check("one\n", "", ("", true));
    }

    #[test]
    fn nothing_moves_the_cursor() {
        assert_eq!(legible(b"10%\r20%\r\n\x1b[2Jdone\xff\n"), "10%\n20%\n?[2Jdone\u{fffd}\n");
    }
}
