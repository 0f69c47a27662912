//! Documents that people write in TOML: where a mistake is, what is wrong, and what is legal, in words for whoever wrote it.

mod every;
mod table;
mod words;

use std::ops::Range;

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::fault::shortened;

pub use every::{ParsedDocument, WRONG_MAX, read_all};
pub use table::{some_table, table, tables};

/// The most that is repeated of a document, in characters: SNS would refuse a message that repeats it all, and nobody would hear of it.
pub const KEY_CHARACTERS_MAX: usize = 200;
/// The same of a sentence about it.
pub const PROBLEM_CHARACTERS_MAX: usize = 1_000;

/// The key of what is wrong with no key in particular.
const WHOLE: &str = "the whole document";

/// A kind of document.
#[derive(Clone, Copy)]
pub struct DocumentKind {
    /// The largest that is read.
    pub bytes_max: usize,
    /// Every key that there is, by its full name: a name that stands in the wrong place is shown where it belongs.
    pub every_key: fn() -> Vec<String>,
}

/// What is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentError {
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    /// The full key; of the section where the key itself is unknown.
    pub key: String,
    /// What is wrong, and what is legal.
    pub problem: String,
}

/// A refusal, and where in the tree of the document its reason lies.
struct LocatedError {
    wrong: DocumentError,
    path: serde_path_to_error::Path,
    at: Range<usize>,
}

impl DocumentKind {
    /// Reads a document, to the first that is wrong with it.
    ///
    /// # Errors
    /// What is wrong, and where.
    pub fn read<T: DeserializeOwned>(self, text: &str) -> Result<T, DocumentError> {
        self.check_size(text)?;
        let tree = DeTable::parse(text).map_err(|error| self.syntax(text, &error))?;
        self.deserialize(text, tree).map_err(|refused| refused.wrong)
    }

    fn check_size(self, text: &str) -> Result<(), DocumentError> {
        if text.len() <= self.bytes_max {
            return Ok(());
        }
        let problem = format!("the document has {} bytes; {} are the most", text.len(), self.bytes_max);
        Err(DocumentError { line: 1, column: 1, key: WHOLE.to_owned(), problem })
    }

    /// What a parsed document means.
    fn deserialize<T: DeserializeOwned>(self, text: &str, tree: Spanned<DeTable<'_>>) -> Result<T, LocatedError> {
        serde_path_to_error::deserialize(toml::Deserializer::from(tree)).map_err(|error| {
            let named = error.path().to_string();
            let key = if named == "." { key_on_line(text, error.inner()) } else { named };
            let at = error.inner().span().unwrap_or_default();
            LocatedError { wrong: self.wrong(text, &key, error.inner()), path: error.path().clone(), at }
        })
    }

    fn syntax(self, text: &str, error: &toml::de::Error) -> DocumentError {
        let mut wrong = self.wrong(text, &key_on_line(text, error), error);
        let line = text.lines().nth(wrong.line - 1).unwrap_or_default();
        if let Some(amount) = words::amount(line) {
            wrong.problem = shortened(&amount, PROBLEM_CHARACTERS_MAX);
        }
        wrong
    }

    fn wrong(self, text: &str, key: &str, error: &toml::de::Error) -> DocumentError {
        let (line, column) = position(text, error.span().map_or(0, |span| span.start));
        let problem = words::describe_error(key, error.message().trim(), self.every_key);
        let key = shortened(key, KEY_CHARACTERS_MAX);
        DocumentError { line, column, key, problem: shortened(&problem, PROBLEM_CHARACTERS_MAX) }
    }
}

/// The text of a document, which is UTF-8.
///
/// # Errors
/// The first byte that is not UTF-8.
pub fn utf8(document: &[u8]) -> Result<&str, DocumentError> {
    std::str::from_utf8(document).map_err(|error| {
        let before = String::from_utf8_lossy(document.get(..error.valid_up_to()).unwrap_or_default());
        let (line, column) = position(&before, before.len());
        let problem = "here is a byte that is no UTF-8; save the document as UTF-8".to_owned();
        DocumentError { line, column, key: WHOLE.to_owned(), problem }
    })
}

/// Line and column of a byte, from 1.
#[must_use]
pub fn position(text: &str, byte: usize) -> (usize, usize) {
    let before = text.get(..byte).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

/// The text before `=` on the line of the error: what a reader would call the key, where the parser gives none.
fn key_on_line(text: &str, error: &toml::de::Error) -> String {
    let (line, _) = position(text, error.span().map_or(0, |span| span.start));
    let line = text.lines().nth(line - 1).unwrap_or_default();
    line.split('=').next().unwrap_or_default().trim().to_owned()
}

/// At which byte the document names this key.
#[must_use]
pub fn written_at(table: &DeTable<'_>, path: &[&str]) -> Option<usize> {
    let (first, rest) = path.split_first()?;
    let (key, value) = table.get_key_value(*first)?;
    match value.get_ref() {
        _ if rest.is_empty() => Some(Spanned::span(key).start),
        DeValue::Table(table) => written_at(table, rest),
        _ => None,
    }
}

/// At which byte an item of the list of that key stands.
#[must_use]
pub fn item_written_at(table: &DeTable<'_>, path: &[&str], index: usize) -> Option<usize> {
    let (first, rest) = path.split_first()?;
    match (table.get(*first)?.get_ref(), rest) {
        (DeValue::Array(items), []) => Some(items.get(index)?.span().start),
        (DeValue::Table(table), _) => item_written_at(table, rest, index),
        _ => None,
    }
}

/// A full key, quoted where TOML wants it.
pub fn dotted<'a>(path: impl Iterator<Item = &'a str>) -> String {
    let is_bare = |key: &str| {
        !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    path.map(|key| if is_bare(key) { key.to_owned() } else { quoted(key) }).collect::<Vec<_>>().join(".")
}

/// A text as TOML. JSON's escapes are TOML's, who wants one more character escaped (TOML 1.0, "String").
#[must_use]
pub fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}
