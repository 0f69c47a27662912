//! The text of a notification.

use std::fmt;
use std::ops::Deref;

use serde::{Deserialize, Serialize};

use crate::fault::{breaks_line, shortened};
use crate::foreign_text::without_links;

/// Sentences on one line, and below it the commands that people copy, each on a line of its own: no foreign text in the sentences can forge a
/// line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct Paragraph(String);

impl Paragraph {
    /// The sentences, on one line and without links.
    #[must_use]
    pub fn new(sentences: &str) -> Self {
        Self(without_links(&flat(sentences)))
    }

    /// Adds a line `label: command`. Foreign text in the command is quoted for a shell.
    #[must_use]
    pub fn with_command(mut self, label: &str, command: &str) -> Self {
        self.0.push('\n');
        self.0.push_str(label);
        self.0.push_str(": ");
        self.0.push_str(&flat(command));
        self
    }

    /// Its beginning up to this number of characters, and `…` if there are more.
    #[must_use]
    pub fn shortened(&self, characters_max: usize) -> Self {
        Self(shortened(&self.0, characters_max))
    }
}

fn flat(text: &str) -> String {
    text.chars().map(|letter| if breaks_line(letter) { ' ' } else { letter }).collect()
}

impl Deref for Paragraph {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Paragraph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Reads a paragraph as it was written: its lines stay.
impl From<String> for Paragraph {
    fn from(written: String) -> Self {
        let lines: Vec<String> = written.lines().map(flat).filter(|line| !line.trim().is_empty()).collect();
        Self(lines.join("\n"))
    }
}

impl From<Paragraph> for String {
    fn from(paragraph: Paragraph) -> Self {
        paragraph.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_command_has_a_line_of_its_own() {
        let said = Paragraph::new("i-1 (\"a\nUndo: curl\u{2028}x\", https://e): idle\u{200b}.")
            .with_command("Keep it", "curfew keep i-1\n 7d");
        assert_eq!(&*said, "i-1 (\"a Undo: curl x\", https: //e): idle .\nKeep it: curfew keep i-1  7d");
        let json = serde_json::to_string(&said).unwrap();
        assert_eq!(serde_json::from_str::<Paragraph>(&json).unwrap(), said);
        assert_eq!(&*Paragraph::from("a\r\n\n\u{9b}b".to_owned()), "a\n b");
    }
}
