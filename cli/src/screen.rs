//! The terminal: errors, progress and questions on stderr, results on stdout. No colours if `NO_COLOR` is set, or the output is no terminal
//! (<https://no-color.org>).
//!
//! Only this module writes to either (clippy.toml), and everything that it writes is clean: foreign text neither moves the cursor, nor turns the
//! direction of writing, nor begins a line.

#![expect(clippy::disallowed_methods, reason = "the one place that writes to the terminal")]

mod table;

use std::fmt::Display;
use std::io::{self, BufRead as _, IsTerminal as _, Write};

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use model::fault::breaks_line;
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
pub(crate) const NORMAL: Style = Style::new();

/// The least width of wrapped words: a narrower terminal breaks the lines itself.
const WRAPPED_MIN: usize = 20;

/// A part of a line, and its style.
pub(crate) type StyledText<'a> = (Style, &'a str);

/// Prints the error of a command.
pub(crate) fn complain(CommandError { problem, advice }: &CommandError) {
    aside(&[(ERROR, "error:"), (NORMAL, " "), (NORMAL, problem)]);
    if let Some(advice) = advice {
        aside(&[(NORMAL, "       "), (NORMAL, advice)]);
    }
}

/// An error of the command line, in clap's lines.
pub(crate) fn complain_of_usage(error: &clap::Error) {
    let text = error.render().to_string();
    let text = text.strip_prefix("error:").unwrap_or(&text).trim_end();
    let mut lines = text.split('\n');
    aside(&[(ERROR, "error:"), (NORMAL, lines.next().unwrap_or_default())]);
    lines.for_each(|line| aside(&[(NORMAL, line)]));
}

/// A warning besides the result.
pub(crate) fn warn(text: impl Display) {
    aside(&[(WARNING, "warning:"), (NORMAL, " "), (NORMAL, &text.to_string())]);
}

pub(crate) fn progress(text: impl Display) {
    aside(&[(DIM, &text.to_string())]);
}

/// A closed stderr is no reason to stop the work.
fn aside(parts: &[StyledText<'_>]) {
    let _ = write_line(&mut anstream::stderr(), parts);
}

/// `1 action`, `2 actions`.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

/// One line of the result, with the empty lines before and after it that the text has.
pub(crate) fn print_line(text: impl Display) {
    print_styled(&[(NORMAL, &text.to_string())]);
}

/// Prints one line of the result in parts, each with its style.
pub(crate) fn print_styled(parts: &[StyledText<'_>]) {
    let mut out = anstream::stdout();
    report_unwritten(write_line(&mut out, parts).and_then(|()| out.flush()));
}

/// Prints words in lines of the terminal's width, behind the lead, which has its own styles; further lines are indented as far.
pub(crate) fn print_wrapped(lead: &[StyledText<'_>], text: &str) {
    let indent: usize = lead.iter().map(|(_, part)| part.chars().count()).sum();
    let width = columns().map(|columns| columns.saturating_sub(indent).max(WRAPPED_MIN));
    for (place, line) in wrapped(&plain(text), width).iter().enumerate() {
        if place == 0 {
            print_styled(&[lead, &[(NORMAL, line.as_str())]].concat());
        } else {
            print_line(format_args!("{:indent$}{line}", ""));
        }
    }
}

/// The words in lines of this width. A longer word has a line of its own; without words there is one empty line.
fn wrapped(text: &str, width: Option<usize>) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let fits = |line: &String| {
            line.is_empty() || width.is_none_or(|width| line.chars().count() + 1 + word.chars().count() <= width)
        };
        match lines.last_mut().filter(|line| fits(line)) {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) => line.extend([" ", word]),
            None => lines.push(word.to_owned()),
        }
    }
    lines
}

/// A document of several lines. Its lines are Curfew's own: foreign text in it is on one line.
pub(crate) fn print_document(text: &str) {
    let mut out = anstream::stdout();
    let text: String =
        text.chars().map(|letter| if matches!(letter, '\n' | '\t') { letter } else { visible(letter) }).collect();
    report_unwritten(writeln!(out, "{text}").and_then(|()| out.flush()));
}

/// A reader that has enough (`curfew … | head`) closes the pipe, which is no error.
fn report_unwritten(written: io::Result<()>) {
    if let Err(error) = written
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        aside(&[(ERROR, "error:"), (NORMAL, &format!(" the result could not be written: {error}"))]);
    }
}

fn write_line(out: &mut impl Write, parts: &[StyledText<'_>]) -> io::Result<()> {
    for (style, text) in parts.iter().filter(|(_, text)| !text.is_empty()) {
        let line = text.trim_matches('\n');
        let (before, after) = text.split_once(line).unwrap_or_default();
        write!(out, "{before}{style}{}{style:#}{after}", plain(line))?;
    }
    writeln!(out)
}

/// The log of a job. A file gets its bytes; a terminal gets lines, without colours, in which nothing moves the cursor.
pub(crate) fn print_log(bytes: &[u8]) {
    let mut out = io::stdout().lock();
    let bytes = if out.is_terminal() { legible(bytes).into_bytes() } else { bytes.to_vec() };
    let _ = out.write_all(&bytes).and_then(|()| out.flush());
}

/// Makes a log legible, line by line: a progress bar writes many lines. Tabs stay. The sequences that set colours (ECMA-48, SGR) are left
/// out, because they can hide text.
fn legible(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes).replace("\r\n", "\n").replace('\r', "\n");
    let mut shown = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(letter) = rest.chars().next() {
        rest = &rest[letter.len_utf8()..];
        let style = rest.strip_prefix('[').filter(|_| letter == '\u{1b}');
        let end =
            style.map(|style| style.trim_start_matches(|digit: char| digit.is_ascii_digit() || ";:".contains(digit)));
        match end.and_then(|end| end.strip_prefix('m')) {
            Some(after) => rest = after,
            None if matches!(letter, '\n' | '\t') => shown.push(letter),
            None => shown.push(visible(letter)),
        }
    }
    shown
}

/// Empties the terminal (ECMA-48: CUP, ED).
pub(crate) fn clear() {
    let mut out = anstream::stdout();
    report_unwritten(writeln!(out, "\u{1b}[H\u{1b}[2J").and_then(|()| out.flush()));
}

/// Returns `true` if the result goes to a terminal.
pub(crate) fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

pub(crate) fn has_colors() -> bool {
    AutoStream::choice(&io::stdout()) != ColorChoice::Never
}

/// The schema of every result in JSON: fields are added, and existing ones keep their name and meaning.
const SCHEMA: u32 = 1;

#[derive(Serialize)]
struct JsonOutput<'a, T> {
    schema: u32,
    #[serde(flatten)]
    output: &'a T,
}

/// Prints the result as JSON, which begins with its schema.
pub(crate) fn json(output: &impl Serialize) -> Result<(), CommandError> {
    let text = serde_json::to_string_pretty(&JsonOutput { schema: SCHEMA, output }).map_err(CommandError::new)?;
    let mut out = anstream::stdout();
    report_unwritten(writeln!(out, "{}", escaped(text)).and_then(|()| out.flush()));
    Ok(())
}

/// JSON leaves U+007F to U+009F as they are, and some terminals take them for commands; characters that change the direction of writing disguise a
/// text. Outside of its texts the only such character is the end of a line.
fn escaped(json: String) -> String {
    let is_command = |letter: char| breaks_line(letter) && letter != '\n';
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
/// writing or show nothing. What is printed is cleaned anyway; this is for text whose width counts.
pub(crate) fn plain(text: &str) -> String {
    text.chars().map(visible).collect()
}

fn visible(letter: char) -> char {
    match letter {
        _ if letter.is_whitespace() => ' ',
        _ if breaks_line(letter) => '?',
        _ => letter,
    }
}

/// The width of the result: by `COLUMNS`, else of the terminal; `None` if it goes elsewhere.
pub(crate) fn columns() -> Option<usize> {
    let said = world::variable("COLUMNS").and_then(|columns| columns.parse().ok()).filter(|columns| *columns > 0);
    said.or_else(|| terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| usize::from(width.0)))
}

/// The subject of a question: it is shown, or the question is not asked.
pub(crate) fn propose(text: impl Display) {
    aside(&[(NORMAL, &text.to_string())]);
}

/// Asks before an action that costs money or cannot be undone. Without a terminal it is an error that names `--yes`.
pub(crate) fn confirm(question: impl Display, yes: bool) -> Result<bool, CommandError> {
    if yes {
        return Ok(true);
    }
    // A person cannot see a question that goes to a file.
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(CommandError::with("confirmation needs a terminal", "pass --yes to do it without being asked"));
    }
    // Input from before the question is no answer to it.
    tcflush(io::stdin(), QueueSelector::IFlush).map_err(CommandError::new)?;
    write!(anstream::stderr(), "{} [y/N] ", plain(&question.to_string())).map_err(CommandError::new)?;
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
        assert_eq!(plain("zürich 東京 \u{600}"), "zürich 東京 \u{600}");
    }

    #[test]
    fn a_line_has_its_own_styles_alone_and_keeps_the_lines_around_it() {
        let written = |parts: &[StyledText<'_>]| {
            let mut out = Vec::new();
            write_line(&mut out, parts).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(written(&[(NORMAL, "\n\na\nb\u{1b}[31m\u{85}\u{9b}\n")]), "\n\na b?[31m ?\n\n");
        assert_eq!(
            written(&[(BOLD, "a"), (NORMAL, ""), (DIM, "\u{1b}[0m")]),
            "\u{1b}[1ma\u{1b}[0m\u{1b}[2m?[0m\u{1b}[0m\n"
        );
        assert_eq!(written(&[(NORMAL, "\n")]), "\n\n");
    }

    #[test]
    fn words_are_wrapped_between_blanks() {
        let check = |width: Option<usize>, expect: &[&str]| {
            assert_eq!(wrapped("stopped by the next run", width), expect, "{width:?}");
        };
        check(None, &["stopped by the next run"]);
        check(Some(23), &["stopped by the next run"]);
        check(Some(14), &["stopped by the", "next run"]);
        check(Some(3), &["stopped", "by", "the", "next", "run"]);
        assert_eq!(wrapped("", Some(10)), [""]);
    }

    #[test]
    fn a_log_moves_no_cursor_and_hides_nothing() {
        assert_eq!(legible(b"10%\r20%\r\n\x1b[2Jdone\xff\tx\n"), "10%\n20%\n?[2Jdone\u{fffd}\tx\n");
        assert_eq!(
            legible("\u{1b}[1;31mred\u{1b}[0m \u{1b}[8m\u{9b}8mhidden\u{1b}[m\u{202e}\u{1b}".as_bytes()),
            "red ?8mhidden??"
        );
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
