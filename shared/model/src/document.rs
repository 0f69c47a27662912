//! TOML documents that people write: the place of a mistake, the problem, and what is legal, for the author.

mod deserializer;
mod every;
mod words;

use std::ops::Range;

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::fault::shortened;

use deserializer::{MeaningError, MeaningProblem, PathSegment, ValueDeserializer};
pub use every::{ParsedDocument, WRONG_MAX, read_all};
pub(crate) use words::{SLIPS_MAX, slips};

/// The most characters of a document in a message: SNS would refuse a message that repeats all of it.
pub const KEY_CHARACTERS_MAX: usize = 200;
/// The most characters of a sentence about a document in a message.
pub const PROBLEM_CHARACTERS_MAX: usize = 1_000;

/// A key that the author chooses, such as the name of a team.
pub(crate) const ANY_KEY: &str = "NAME";

/// The key of what is wrong with no key in particular.
const WHOLE: &str = "the whole document";

/// The key of a team that only the configuration of an organization's hub has.
pub(crate) const HUB_BUDGET_KEY: &str = "budget_accounts";

#[derive(Clone, Copy)]
pub struct DocumentKind {
    /// The largest that is read.
    pub bytes_max: usize,
    /// Every key that there is, by its full name: a name that stands in the wrong place is shown where it belongs.
    pub every_key: fn() -> Vec<String>,
}

/// A mistake in a document, with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentError {
    /// Line of the mistake, from 1.
    pub line: usize,
    /// Column of the mistake in characters, from 1.
    pub column: usize,
    /// The full key; of the section where the key itself is unknown.
    pub key: String,
    /// The mistake, and the legal values.
    pub problem: String,
}

impl DocumentKind {
    /// Reads a document, to the first that is wrong with it.
    ///
    /// # Errors
    /// What is wrong, and where.
    pub fn read<T: DeserializeOwned>(self, text: &str) -> Result<T, DocumentError> {
        let tree = self.parse(text)?;
        deserialize(tree).map_err(|wrong| self.meaning_error(text, &wrong))
    }

    /// Parses a document, without looking for its meaning.
    ///
    /// # Errors
    /// If it is too large, or no TOML.
    pub(crate) fn parse(self, text: &str) -> Result<DeTable<'_>, DocumentError> {
        self.check_size(text)?;
        let tree = DeTable::parse(text).map_err(|error| syntax_error(text, &error))?;
        Ok(tree.into_inner())
    }

    /// Reads a table of a document. `outside` leads from it outwards to the top, with the place of each key.
    ///
    /// # Errors
    /// What is wrong, and where.
    pub(crate) fn read_table<T: DeserializeOwned>(
        self,
        text: &str,
        table: &DeTable<'_>,
        outside: &[(&str, Range<usize>)],
    ) -> Result<T, DocumentError> {
        deserialize(table.clone()).map_err(|error| {
            let within = |error: MeaningError, (key, at): &(&str, Range<usize>)| {
                error.within(PathSegment::Key((*key).to_owned()), at.clone())
            };
            self.meaning_error(text, &outside.iter().fold(error, within))
        })
    }

    fn check_size(self, text: &str) -> Result<(), DocumentError> {
        if text.len() <= self.bytes_max {
            return Ok(());
        }
        let problem = format!("the document has {} bytes; {} are the most", text.len(), self.bytes_max);
        Err(DocumentError { line: 1, column: 1, key: WHOLE.to_owned(), problem })
    }

    fn meaning_error(self, text: &str, error: &MeaningError) -> DocumentError {
        let problem = match &error.problem {
            MeaningProblem::UnknownKey { unknown, legal } => words::no_key(unknown, legal, self.every_key),
            MeaningProblem::Value(problem) => problem.clone(),
        };
        located(text, error.at.start, &error.key(), &problem)
    }
}

/// Locates a syntax error. The parser's own words stay, except about an amount.
fn syntax_error(text: &str, error: &toml::de::Error) -> DocumentError {
    let byte = error.span().map_or(0, |span| span.start);
    let line = text.lines().nth(position(text, byte).0 - 1).unwrap_or_default();
    // What a reader would call the key, where the parser gives none.
    let key = line.split('=').next().unwrap_or_default().trim();
    let problem = words::amount(line).unwrap_or_else(|| error.message().trim().to_owned());
    located(text, byte, key, &problem)
}

fn deserialize<T: DeserializeOwned>(tree: DeTable<'_>) -> Result<T, MeaningError> {
    T::deserialize(ValueDeserializer(&DeValue::Table(tree)))
}

/// Lists the keys of the section at this path, in the order of their declaration: the legal keys that reading names where it meets an
/// unknown one. [`ANY_KEY`] stands for keys that the author chooses. `None`: a value is there, or nothing can be.
pub(crate) fn section_keys<T: DeserializeOwned>(path: &[&str]) -> Option<&'static [&'static str]> {
    let text = format!("{} = 0", dotted(path.iter().copied().chain(["?"])));
    match deserialize::<T>(DeTable::parse(&text).ok()?.into_inner()) {
        Err(error) if error.path().count() <= path.len() => None,
        Err(MeaningError { problem: MeaningProblem::UnknownKey { legal, .. }, .. }) => Some(legal),
        _ => Some(&[ANY_KEY]),
    }
}

pub(crate) fn located(text: &str, byte: usize, key: &str, problem: &str) -> DocumentError {
    let (line, column) = position(text, byte);
    let (key, problem) = (shortened(key, KEY_CHARACTERS_MAX), shortened(problem, PROBLEM_CHARACTERS_MAX));
    DocumentError { line, column, key, problem }
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

/// Returns the byte at which the document names this key.
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

/// Returns the byte at which an item of this key's list begins.
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

/// A text as TOML. JSON's escapes are TOML's, which escapes one more character (TOML 1.0, "String").
#[must_use]
pub fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}
