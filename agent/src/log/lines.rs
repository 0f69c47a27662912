//! Whole lines: a line of the agent waits while the command is within one of its own.

use std::borrow::Cow;

/// More of the agent's lines do not wait.
const HELD_BYTES_MAX: usize = 64 * 1024;

/// The order of the lines of the command and of the agent.
#[derive(Debug, Default)]
pub(super) struct LineOrder {
    is_within_line: bool,
    held: Vec<u8>,
    /// The number of times that lines began to wait.
    holds: u64,
}

impl LineOrder {
    /// Takes a line of the agent. What is to be written now, or else the number of the wait that has begun.
    pub(super) fn add_line<'a>(&mut self, line: &'a [u8]) -> Result<Cow<'a, [u8]>, Option<u64>> {
        if !self.is_within_line {
            return Ok(Cow::Borrowed(line));
        }
        let is_first = self.held.is_empty();
        self.held.extend(line);
        if self.held.len() > HELD_BYTES_MAX {
            return Ok(Cow::Owned(self.release()));
        }
        self.holds = self.holds.saturating_add(u64::from(is_first));
        Err(is_first.then_some(self.holds))
    }

    /// Takes output of the command, and adds what waits at the end of the first line in it. A progress bar begins each of its lines by `\r`.
    pub(super) fn add_output<'a>(&mut self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let at = find_break(bytes).filter(|_| !self.held.is_empty());
        let Some(at) = at else {
            self.is_within_line = bytes.last().map_or(self.is_within_line, |last| *last != b'\n');
            return Cow::Borrowed(bytes);
        };
        let (before, rest) = bytes.split_at(at);
        self.is_within_line = before.last() != Some(&b'\n');
        let held = self.release();
        self.is_within_line = rest.last().is_some_and(|last| *last != b'\n');
        Cow::Owned([before, &held, rest].concat())
    }

    /// Returns everything that waits, on lines of its own. The command goes on in a new line.
    pub(super) fn release(&mut self) -> Vec<u8> {
        let mut bytes = if self.is_within_line && !self.held.is_empty() { b"\n".to_vec() } else { Vec::new() };
        self.is_within_line &= self.held.is_empty();
        bytes.append(&mut self.held);
        bytes
    }

    /// Returns everything that waits, if the wait of this number lasts.
    pub(super) fn release_wait(&mut self, number: u64) -> Vec<u8> {
        if self.holds == number { self.release() } else { Vec::new() }
    }

    /// The command has ended, and its last line with it.
    pub(super) fn end_output(&mut self) -> Vec<u8> {
        let end = if std::mem::take(&mut self.is_within_line) { b"\n".to_vec() } else { Vec::new() };
        [end, self.release()].concat()
    }
}

fn find_break(bytes: &[u8]) -> Option<usize> {
    let newline = bytes.iter().position(|byte| *byte == b'\n').and_then(|at| at.checked_add(1));
    // `\r\n` ends a line as `\n` does.
    let bar = bytes.windows(2).position(|pair| pair.first() == Some(&b'\r') && pair.last() != Some(&b'\n'));
    newline.into_iter().chain(bar).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Output of the command, and lines of the agent, which begin by `!`; what is in the log, before and after the end.
    #[track_caller]
    fn check(written: &[&str], expect: &str, at_end: &str) {
        let (mut order, mut log) = (LineOrder::default(), Vec::new());
        for text in written {
            if text.starts_with('!') {
                log.extend(order.add_line(format!("{text}\n").as_bytes()).map(Cow::into_owned).unwrap_or_default());
            } else {
                log.extend(order.add_output(text.as_bytes()).into_owned());
            }
        }
        assert_eq!(String::from_utf8_lossy(&log), expect, "{written:?}");
        log.extend(order.end_output());
        assert_eq!(String::from_utf8_lossy(&log), format!("{expect}{at_end}"), "{written:?}");
    }

    #[test]
    fn a_line_of_the_agent_waits_for_the_end_of_a_line() {
        check(&["!a", "one\n", "!b"], "!a\none\n!b\n", "");
        check(&["{\"step\": 1, ", "!a", "!b", "\"loss\": 0.5}\n2"], "{\"step\": 1, \"loss\": 0.5}\n!a\n!b\n2", "\n");
        check(&["on", "!a", "e", "\n", "!b"], "one\n!a\n!b\n", "");
        check(&["on", "!a", "e\r\ntwo\r\n"], "one\r\n!a\ntwo\r\n", "");
        check(&["on", "!a"], "on", "\n!a\n");
        check(&["", "!a"], "!a\n", "");
    }

    #[test]
    fn a_progress_bar_is_not_waited_for() {
        check(&["\r10 %", "!a", "\r20 %", "\r30 %"], "\r10 %\n!a\n\r20 %\r30 %", "\n");
        check(&["10 %\r", "!a", "20 %\r", "30 %\r"], "10 %\r20 %\r30 %\r", "\n!a\n");
        check(&["10 %\r", "!a", "20 %\r30 %\r"], "10 %\r20 %\n!a\n\r30 %\r", "\n");
    }

    #[test]
    fn a_line_does_not_wait_for_ever() {
        let mut order = LineOrder::default();
        order.add_output(b"on");
        assert_eq!(order.add_line(b"!a\n"), Err(Some(1)));
        assert_eq!(order.add_line(b"!b\n"), Err(None));
        assert_eq!(order.release_wait(1), b"\n!a\n!b\n");
        assert_eq!(order.add_output(b"e"), b"e".as_slice());
        assert_eq!(order.add_line(b"!c\n"), Err(Some(2)));
        assert_eq!(order.release_wait(1), b"", "that of another wait");
        let long = vec![b'x'; HELD_BYTES_MAX];
        assert!(order.add_line(&long).is_ok_and(|now| now.starts_with(b"\n!c\nxx")));
        assert_eq!(order.release_wait(2), b"");
    }
}
