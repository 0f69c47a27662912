//! A text that the agent looks for in the output of the command.

use memchr::memmem;

/// Only so much output is looked at: what is looked for is written when processes connect, soon after the command begins.
const LOOKED_AT_MAX: u64 = 64 * 1024 * 1024;

#[derive(Debug)]
pub(super) struct TextWatch {
    text: &'static str,
    /// The last bytes: the text may have begun in them.
    end: Vec<u8>,
    looked_at: u64,
    pub(super) is_found: bool,
}

impl TextWatch {
    pub(super) const fn new(text: &'static str) -> Self {
        Self { text, end: Vec::new(), looked_at: 0, is_found: false }
    }

    pub(super) fn look_at(&mut self, bytes: &[u8]) {
        if self.is_found || self.looked_at >= LOOKED_AT_MAX {
            return;
        }
        self.looked_at = self.looked_at.saturating_add(super::size(bytes.len()));
        let (text, kept) = (self.text.as_bytes(), self.text.len().saturating_sub(1));
        let mut joint = std::mem::take(&mut self.end);
        joint.extend_from_slice(bytes.get(..kept).unwrap_or(bytes));
        self.is_found = [joint.as_slice(), bytes].into_iter().any(|part| memmem::find(part, text).is_some());
        let last = if bytes.len() >= kept { bytes } else { joint.as_slice() };
        self.end = last[last.len().saturating_sub(kept)..].to_vec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(parts: &[&str], expect: bool) {
        let mut watch = TextWatch::new("NET/Socket");
        for part in parts {
            watch.look_at(part.as_bytes());
        }
        assert_eq!(watch.is_found, expect, "{parts:?}");
        assert!(watch.end.len() < watch.text.len());
    }

    #[test]
    fn a_text_is_found_wherever_the_output_was_cut() {
        let line = "node:1:2 [0] NCCL INFO NET/Socket : Using [0]ens5:10.0.1.11<0>\n";
        for at in 0..line.len() {
            let (before, after) = line.split_at(at);
            check(&["a line\n", before, after, "more\n"], true);
        }
        check(&line.split("").collect::<Vec<_>>(), true);
        check(&["NCCL INFO NET/OFI Selected provider is efa\n", "NET/", "\nSocket"], false);
        check(&[], false);
    }

    #[test]
    fn a_long_output_is_not_looked_at_for_ever() {
        let mut watch = TextWatch::new("NET/Socket");
        let mib = vec![b'x'; 1024 * 1024];
        for _ in 0..64 {
            watch.look_at(&mib);
        }
        watch.look_at(b"NET/Socket");
        assert!(!watch.is_found);
    }
}
