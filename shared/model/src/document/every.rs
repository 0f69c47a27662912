//! Everything that is wrong with a document, where reading stops at the first.
//!
//! There is one word on what is legal, that of reading. So the document is read again and again, each time without what was
//! wrong the last time, until nothing is.

use std::collections::BTreeSet;

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::deserializer::PathSegment;
use super::{DocumentError, DocumentKind, deserialize, syntax_error};

/// The most findings: a longer list would not help.
pub const WRONG_MAX: usize = 100;

/// The meaning of a document, and every mistake in it.
pub struct ParsedDocument<'t, T> {
    /// The meaning of the document without its mistakes; `None` if nothing is left.
    pub meaning: Option<T>,
    /// The mistakes, in the order of the document.
    pub wrong: Vec<DocumentError>,
    /// Keys that were removed as wrong: the full key, or the key of the section that was wrong as a whole.
    pub taken_out: Vec<Vec<String>>,
    /// `true` if the whole document could be parsed.
    pub is_whole: bool,
    /// The document, for the places of its keys.
    pub tree: Spanned<DeTable<'t>>,
}

/// Reads all of it.
///
/// What is only wrong because something else is (a broken heading makes the keys below it unknown) may be found as well. Beyond
/// [`WRONG_MAX`] nothing is looked for.
///
/// # Errors
/// The document is too large to be read at all.
pub fn read_all<T: DeserializeOwned>(kind: DocumentKind, text: &str) -> Result<ParsedDocument<'_, T>, DocumentError> {
    kind.check_size(text)?;
    let (whole, broken) = DeTable::parse_recoverable(text);
    let mut tree = whole.clone();
    let mut found: Vec<DocumentError> = broken.iter().take(WRONG_MAX).map(|error| syntax_error(text, error)).collect();
    let broken_lines = lost(text, &found);
    let mut taken_out: Vec<Vec<String>> = Vec::new();
    let mut meaning = None;
    while found.len() < WRONG_MAX {
        let error = match deserialize(tree.get_ref().clone()) {
            Ok(left) => {
                meaning = Some(left);
                break;
            }
            Err(error) => error,
        };
        let wrong = kind.meaning_error(text, &error);
        let Some(out) = take_out(tree.get_mut(), error.path()) else {
            found.extend(Some(wrong).filter(|_| found.is_empty()));
            break;
        };
        // A section that is wrong as a whole, or a line that could not be parsed, is wrong for what was found there already.
        let follows = taken_out.iter().any(|before| before.starts_with(&out)) || broken_lines.contains(&wrong.line);
        if !follows {
            found.push(wrong);
        }
        taken_out.push(out);
    }
    found.sort_by_key(|wrong| (wrong.line, wrong.column));
    found.dedup();
    Ok(ParsedDocument { meaning, wrong: found, taken_out, is_whole: broken.is_empty(), tree: whole })
}

/// Lines that are not judged: unparsed ones, and those below an unparsed heading, whose section is unknown.
fn lost(text: &str, broken: &[DocumentError]) -> BTreeSet<usize> {
    let is_heading = |line: &str| line.trim_start().starts_with('[');
    let mut lost: BTreeSet<usize> = broken.iter().map(|error| error.line).collect();
    let mut below_a_broken_one = false;
    for (number, line) in (1..).zip(text.lines()) {
        if is_heading(line) {
            below_a_broken_one = lost.contains(&number);
        } else if below_a_broken_one {
            lost.insert(number);
        }
    }
    lost
}

/// Takes the entry out that this path leads to; the full key of what is gone.
fn take_out<'a>(root: &mut DeTable<'_>, path: impl Iterator<Item = &'a PathSegment>) -> Option<Vec<String>> {
    let keys: Vec<String> = path
        .map_while(|segment| match segment {
            PathSegment::Key(key) => Some(key.clone()),
            PathSegment::Index(_) => None,
        })
        .collect();
    let is_there = depth_of(root, &keys);
    let keys = keys.get(..is_there).filter(|keys| !keys.is_empty())?;
    remove(root, keys);
    Some(keys.to_vec())
}

/// Counts the keys that lead somewhere, each within the previous one.
fn depth_of(root: &DeTable<'_>, keys: &[String]) -> usize {
    let Some((first, rest)) = keys.split_first() else { return 0 };
    match root.get(first.as_str()).map(Spanned::get_ref) {
        Some(DeValue::Table(table)) => 1 + depth_of(table, rest),
        Some(_) => 1,
        None => 0,
    }
}

fn remove(root: &mut DeTable<'_>, keys: &[String]) {
    match keys {
        [] => {}
        [last] => drop(root.remove(last.as_str())),
        [first, rest @ ..] => {
            if let Some(DeValue::Table(table)) = root.get_mut(first.as_str()).map(Spanned::get_mut) {
                remove(table, rest);
            }
        }
    }
}
