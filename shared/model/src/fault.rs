//! Errors for people.

use std::any::Any;
use std::error::Error;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A refused value: why, and what is legal, in a sentence for its author.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidValue(String);

impl InvalidValue {
    /// Makes the error with this sentence.
    pub fn new(problem: impl Display) -> Self {
        Self(problem.to_string())
    }
}

/// The most characters of a panic's text in a message.
const PANIC_CHARACTERS_MAX: usize = 200;

/// A bug of Curfew's own: what a panic said. The log has its place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a bug in Curfew: {0}; report it")]
pub struct Bug(String);

impl Bug {
    /// Makes the bug from the caught payload of a panic.
    #[must_use]
    pub fn from_panic(panic: &(dyn Any + Send)) -> Self {
        let words =
            panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        Self(one_line(words.unwrap_or("without a message"), PANIC_CHARACTERS_MAX))
    }

    /// Does work about one resource, whose panic must not keep the others from being looked at.
    ///
    /// # Errors
    /// The panic.
    pub fn catch<T>(work: impl FnOnce() -> T) -> Result<T, Self> {
        // What a panic leaves behind is dropped here.
        catch_unwind(AssertUnwindSafe(work)).map_err(|panic| Self::from_panic(panic.as_ref()))
    }
}

/// An error that passes by itself. The error's own text does not say so: the advice depends on its reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passing {
    /// A later try succeeds.
    Later,
    /// AWS was not reached: it may be the reader's network.
    Unreached,
}

impl Passing {
    /// Advice to the reader of a run's report: another run follows it.
    pub const IN_RUN: &str = "the next run tries again";

    /// Returns the advice to the caller of a command: no run follows it.
    #[must_use]
    pub const fn advice(self) -> &'static str {
        match self {
            Self::Later => "try again in a minute",
            Self::Unreached => "check the network or AWS_ENDPOINT_URL, then try again",
        }
    }
}

/// An error's words and those of its sources, each once: an error never repeats its source, and the SDK's own says only
/// "dispatch failure".
#[must_use]
pub fn error_sentence(error: &dyn Error) -> String {
    let mut sentence = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let words = error.to_string();
        if !sentence.ends_with(&words) {
            sentence.push_str(": ");
            sentence.push_str(&words);
        }
        source = error.source();
    }
    sentence
}

/// The beginning of a foreign text up to this number of characters, and `…` if there are more: a notification must fit a message.
#[must_use]
pub fn shortened(text: &str, characters_max: usize) -> String {
    match text.char_indices().nth(characters_max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The beginning of a foreign text on one line, with a space for each character that [`breaks_line`] it.
#[must_use]
pub fn one_line(text: &str, characters_max: usize) -> String {
    let line = |c| if breaks_line(c) { ' ' } else { c };
    shortened(text, characters_max).chars().map(line).collect()
}

/// `true` if a character ends a line, moves a cursor, turns the order in which a line is read, or shows nothing: the control characters,
/// those for formatting (Unicode Standard Annex 44, "General Category Values", Cc and Cf) except for the few of Cf that are visible, such
/// as U+0600, the separators of lines and paragraphs, and the fillers. Characters that only choose the shape of the letter before them do
/// not count.
#[must_use]
pub fn breaks_line(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}'
                | '\u{34f}'
                | '\u{61c}'
                | '\u{115f}'..='\u{1160}'
                | '\u{17b4}'..='\u{17b5}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{3164}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff0}'..='\u{fffb}'
                | '\u{1bca0}'..='\u{1bca3}'
                | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0000}'..='\u{e00ff}'
                | '\u{e01f0}'..='\u{e0fff}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Outer(&'static str, #[source] Inner);

    #[derive(Debug, thiserror::Error)]
    #[error("the account is closed")]
    struct Inner;

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(shortened("Grüße", 5), "Grüße");
        assert_eq!(shortened("Grüße", 3), "Grü…");
        assert_eq!(shortened("", 0), "");
    }

    #[test]
    fn a_foreign_text_is_one_line_that_moves_no_cursor() {
        assert_eq!(one_line("disk\n\nfull\u{1b}[2J\u{202e}", 100), "disk  full [2J ");
        assert_eq!(one_line("a\u{9b}b\u{200b}c\u{2029}d\u{e0041}e\u{3164}\u{ad}", 100), "a b c d e  ");
        assert_eq!(one_line("zürich 東京 \u{600} \u{2764}\u{fe0f}", 100), "zürich 東京 \u{600} \u{2764}\u{fe0f}");
        assert_eq!(one_line("\n\n\nGrüße", 5), "   Gr…");
    }

    #[test]
    fn a_panic_is_a_bug_with_a_short_text() {
        let check = |work: fn() -> u8, expect: &str| assert_eq!(Bug::catch(work).unwrap_err().to_string(), expect);
        check(|| panic!("no\nway"), "a bug in Curfew: no way; report it");
        check(|| panic!("{}", "x".repeat(300)), &format!("a bug in Curfew: {}…; report it", "x".repeat(200)));
        check(|| std::panic::panic_any(7), "a bug in Curfew: without a message; report it");
        assert_eq!(Bug::catch(|| 7), Ok(7));
    }

    #[test]
    fn each_is_said_once() {
        let full = "the run achieved nothing: the account is closed";
        assert_eq!(error_sentence(&Outer("the run achieved nothing", Inner)), full);
        assert_eq!(error_sentence(&Outer(full, Inner)), full);
    }
}
