//! The terminal: errors, progress and questions on stderr, results on stdout. No colours if `NO_COLOR` is set, or the output is no terminal
//! (<https://no-color.org>).

mod table;

use std::fmt::{self, Display};
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use anstyle::{AnsiColor, Style};
use rustix::termios::{QueueSelector, tcflush};
use serde::Serialize;

use crate::command_error::CommandError;
use crate::world;

pub(crate) use table::{ColumnAlignment, Table};

pub(crate) const ERROR: Style = AnsiColor::Red.on_default().bold();
pub(crate) const WARNING: Style = AnsiColor::Yellow.on_default().bold();
pub(crate) const DIM: Style = Style::new().dimmed();
/// Headings.
pub(crate) const BOLD: Style = Style::new().bold();

/// Why a command failed.
pub(crate) fn complain(CommandError { problem, advice }: &CommandError) {
    aside(format_args!("{ERROR}error:{ERROR:#} {}", plain_lines(problem)));
    if let Some(advice) = advice {
        aside(format_args!("       {}", plain_lines(advice)));
    }
}

/// A warning besides the result.
pub(crate) fn warn(text: impl Display) {
    aside(format_args!("{WARNING}warning:{WARNING:#} {}", plain_lines(&text.to_string())));
}

/// Progress.
pub(crate) fn progress(text: impl Display) {
    aside(format_args!("{DIM}{text}{DIM:#}"));
}

/// Ignores a closed stderr: anstream's macros would panic, and interrupt the work.
fn aside(line: fmt::Arguments<'_>) {
    let _ = writeln!(anstream::stderr(), "{line}");
}

/// `1 action`, `2 actions`.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

/// One line of the result. A reader that has enough (`curfew … | head`) closes the pipe, which is no error.
pub(crate) fn print_line(text: impl Display) {
    let mut out = anstream::stdout();
    if let Err(error) = writeln!(out, "{text}").and_then(|()| out.flush())
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        aside(format_args!("{ERROR}error:{ERROR:#} the result could not be written: {error}"));
    }
}

/// Empties the terminal (ECMA-48: CUP, ED).
pub(crate) fn clear() {
    print_line("\u{1b}[H\u{1b}[2J");
}

/// The schema of every result in JSON: fields are added, and existing ones keep their name and meaning.
pub(crate) const SCHEMA: u32 = 1;

/// The result as JSON.
pub(crate) fn json(value: &impl Serialize) -> Result<(), CommandError> {
    let text = serde_json::to_string_pretty(value).map_err(CommandError::new)?;
    print_line(escaped(text));
    Ok(())
}

/// JSON leaves U+007F to U+009F as they are, and some terminals take them for commands; characters that change the direction of writing disguise a
/// text. Outside of its texts the only such character is the end of a line.
fn escaped(json: String) -> String {
    let is_command = |letter: char| is_command(letter) && letter != '\n';
    if !json.contains(is_command) {
        return json;
    }
    let each = |letter: char| match letter {
        _ if is_command(letter) => {
            let units =
                letter.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect::<Vec<_>>();
            units.concat()
        }
        _ => letter.to_string(),
    };
    json.chars().map(each).collect()
}

/// Foreign text, such as tags, on one line: each blank as a plain one, and `?` for characters that would move the cursor, turn the direction of
/// writing or show nothing.
pub(crate) fn plain(text: &str) -> String {
    let shown = |letter: char| match letter {
        _ if letter.is_whitespace() => ' ',
        _ if is_command(letter) => '?',
        _ => letter,
    };
    text.chars().map(shown).collect()
}

/// The same for text with several lines.
pub(crate) fn plain_lines(text: &str) -> String {
    text.lines().map(plain).collect::<Vec<_>>().join("\n")
}

/// Control characters, and those for formatting (Unicode Standard Annex 44, "General Category Values", Cc and Cf), except for the few of Cf that
/// are visible, such as U+0600.
fn is_command(letter: char) -> bool {
    letter.is_control()
        || matches!(
            letter,
            '\u{ad}'
                | '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{1bca0}'..='\u{1bca3}'
                | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

/// The width of the result: by `COLUMNS`, else of the terminal; `None` if it goes elsewhere.
pub(crate) fn columns() -> Option<usize> {
    let said = world::variable("COLUMNS").and_then(|columns| columns.parse().ok()).filter(|columns| *columns > 0);
    said.or_else(|| terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| usize::from(width.0)))
}

/// The subject of a question: it is shown, or the question is not asked.
pub(crate) fn propose(text: impl Display) {
    aside(format_args!("{text}"));
}

/// Asks before an action that costs money or cannot be undone. Without a terminal it is an error that names `--yes`.
pub(crate) fn confirm(question: impl Display, yes: bool) -> Result<bool, CommandError> {
    if yes {
        return Ok(true);
    }
    // A person cannot see a question that goes to a file.
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(CommandError::with(
            "there is no terminal to confirm at",
            "pass --yes to do it without being asked",
        ));
    }
    // Input from before the question is no answer to it.
    tcflush(io::stdin(), QueueSelector::IFlush).map_err(CommandError::new)?;
    write!(anstream::stderr(), "{question} [y/N] ").map_err(CommandError::new)?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).map_err(CommandError::new)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_stays_on_its_line_and_in_its_direction() {
        assert_eq!(plain("a\tb\r\nc\u{2028}d\u{a0}e"), "a b  c d e");
        assert_eq!(plain("\u{202e}gpj\u{2066}\u{200b}\u{ad}\u{e0041}\u{1b}[31m\u{9b}\u{7f}"), "?gpj?????[31m??");
        assert_eq!(plain_lines("a\u{202e}b\nc\td\n"), "a?b\nc d");
        assert_eq!(plain("zürich 東京 \u{600}"), "zürich 東京 \u{600}");
    }

    #[test]
    fn json_keeps_what_turns_the_direction_of_writing() {
        let text = "\u{202e}a\u{e0041}";
        let shown = escaped(serde_json::to_string(&[text]).unwrap());
        assert_eq!(shown, r#"["\u202ea\udb40\udc41"]"#);
        assert_eq!(serde_json::from_str::<Vec<String>>(&shown).unwrap(), [text]);
    }

    #[test]
    fn json_is_the_same_without_control_characters() {
        let text = "a\u{9b}31m\u{1b}\u{7f}\n\"ü";
        let shown = escaped(serde_json::to_string_pretty(&[text]).unwrap());
        assert_eq!(shown, "[\n  \"a\\u009b31m\\u001b\\u007f\\n\\\"ü\"\n]");
        assert_eq!(serde_json::from_str::<Vec<String>>(&shown).unwrap(), [text]);
    }
}
