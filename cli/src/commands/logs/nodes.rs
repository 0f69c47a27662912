//! The logs of the nodes of a gang: which are shown, and the number of the node before each line.

use jobs::node_gang::{GangLaunch, GangListing, Node, describe_node_exit, first_failed_node, gang_result};
use jobs::{Job, Phase};
use store::{LogTail, MachineDocuments as _, Store, StoreError};

use crate::screen;

/// The longest line that is held back until its end comes, in bytes.
const LINE_BYTES_MAX: usize = 16 * 1024;

/// The logs of an attempt that are shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ShownLogs {
    /// The nodes, in the order of their logs; `None`: the one machine of the attempt.
    pub(super) nodes: Vec<Option<Node>>,
    /// `true` if each line has the number of its node.
    pub(super) are_numbered: bool,
}

impl ShownLogs {
    pub(super) fn of_job(job: &Job, node: Option<Node>) -> Self {
        match node {
            _ if !job.terms.is_gang() => Self { nodes: vec![None], are_numbered: false },
            Some(node) => Self { nodes: vec![Some(node)], are_numbered: false },
            None => Self { nodes: (0..job.terms.gpu.nodes).map(Some).collect(), are_numbered: true },
        }
    }

    /// The printer of a log.
    pub(super) fn printer(&self, node: Option<Node>) -> LinePrinter {
        LinePrinter { node: node.filter(|_| self.are_numbered), ..LinePrinter::default() }
    }

    /// Joins the ends of logs, in their order.
    pub(super) fn join(&self, tails: &[(Option<Node>, LogTail)]) -> Vec<u8> {
        let mut joined = Vec::new();
        for (node, tail) in tails {
            let mut printer = self.printer(*node);
            joined.append(&mut printer.add(&tail.bytes));
            joined.append(&mut printer.end());
        }
        joined
    }

    /// Puts a node's log last, where a terminal shows it.
    fn end_with(&mut self, last: Node) {
        self.nodes.sort_by_key(|node| *node == Some(last));
    }

    /// Puts the log of the node that failed first at the end, once the gang has ended.
    pub(super) async fn end_with_failure(&mut self, store: &Store, job: &Job) -> Result<(), StoreError> {
        if !self.are_numbered || matches!(job.phase, Phase::Running(_)) {
            return Ok(());
        }
        if let Some(gang) = newest_gang(job) {
            let listing = store.read_gang(&gang, &GangListing::default()).await?;
            if let Some(node) = first_failed_node(&listing) {
                self.end_with(node);
            }
        }
        Ok(())
    }
}

/// The gang of the newest machines.
pub(super) fn newest_gang(job: &Job) -> Option<GangLaunch> {
    job.machine().or(job.last_machine.as_ref())?.gang(&job.job)
}

/// Describes the end of a gang in one line for each fact; none where its members wrote nothing.
pub(super) async fn describe_gang_end(store: &Store, gang: &GangLaunch) -> Result<Vec<String>, StoreError> {
    let listing = store.read_gang(gang, &GangListing::default()).await?;
    let stop = listing.stop.as_ref().and_then(|stop| stop.content.read());
    if let Some(result) = gang_result(gang, &listing.exits, stop.map(|stop| stop.cause)) {
        return Ok(vec![result.why]);
    }
    let nodes = listing
        .exits
        .iter()
        .filter_map(|(node, exit)| Some(format!("node {node}: {}", describe_node_exit(exit.content.read()?))));
    Ok(stop.map(|stop| stop.why.clone()).into_iter().chain(nodes).filter(|line| !line.is_empty()).collect())
}

/// Prints the bytes of a log, each line with the number of its node if there is one.
#[derive(Debug, Default)]
pub(super) struct LinePrinter {
    node: Option<Node>,
    /// The beginning of a line whose end has not come.
    begun: Vec<u8>,
    /// `true` if the last byte was a carriage return.
    ended_by_return: bool,
}

impl LinePrinter {
    pub(super) fn print(&mut self, bytes: &[u8]) {
        screen::print_log(&self.add(bytes));
    }

    /// Prints a line whose end never came.
    pub(super) fn finish(&mut self) {
        screen::print_log(&self.end());
    }

    fn end(&mut self) -> Vec<u8> {
        if self.begun.is_empty() { Vec::new() } else { self.add(b"\n") }
    }

    /// Takes in bytes, and returns what is to be printed: whole lines, of which a progress bar ends many by a carriage return.
    fn add(&mut self, bytes: &[u8]) -> Vec<u8> {
        let Some(node) = self.node else { return bytes.to_vec() };
        let mut shown = Vec::new();
        for byte in bytes {
            let is_end = matches!(byte, b'\n' | b'\r');
            // The end of a line may be a carriage return and a line feed.
            if is_end && self.begun.is_empty() && *byte == b'\n' && self.ended_by_return {
                self.ended_by_return = false;
                continue;
            }
            self.ended_by_return = *byte == b'\r';
            if !is_end {
                self.begun.push(*byte);
            }
            if is_end || self.begun.len() >= LINE_BYTES_MAX {
                shown.extend_from_slice(format!("{node}| ").as_bytes());
                shown.append(&mut self.begun);
                shown.push(b'\n');
            }
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(node: Option<Node>, parts: &[&str], expect: &[&str]) {
        let mut printer = LinePrinter { node, ..LinePrinter::default() };
        let shown: Vec<String> =
            parts.iter().map(|part| String::from_utf8(printer.add(part.as_bytes())).unwrap()).collect();
        assert_eq!(shown, expect);
    }

    #[test]
    fn each_line_has_the_number_of_its_node() {
        check(Some(3), &["one\ntwo\n"], &["3| one\n3| two\n"]);
        check(Some(12), &["on", "e\ntw", "o\n\n"], &["", "12| one\n", "12| two\n12| \n"]);
        check(Some(0), &["10 %\r20 %\r\n", "a\r", "\nb\n"], &["0| 10 %\n0| 20 %\n", "0| a\n", "0| b\n"]);
        check(None, &["on", "e\r\n"], &["on", "e\r\n"]);
        let long = "x".repeat(LINE_BYTES_MAX);
        check(Some(1), &[&long, "y\n"], &[&format!("1| {long}\n"), "1| y\n"]);
    }

    #[test]
    fn the_log_of_the_failed_node_comes_last() {
        let mut shown = ShownLogs { nodes: (0..4).map(Some).collect(), are_numbered: true };
        shown.end_with(1);
        assert_eq!(shown.nodes, [Some(0), Some(2), Some(3), Some(1)]);
    }
}
