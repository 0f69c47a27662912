//! The keys that Curfew adds to the document of a person, or takes out of it.

use model::document::quoted;
use toml::de::DeTable;

use crate::JobSpec;

/// Beginning of the last line of a document that was submitted again. The line makes each submission another object: one with the same
/// content may be the same job.
const NOTE: &str = "# Submitted again by curfew rerun, for ";

const RESUME_FROM: &str = "resume_from";

/// The document with a key before all others: TOML has no table there yet.
#[must_use]
pub fn with_first_key(document: &[u8], line: &str) -> Vec<u8> {
    let without_mark = document.strip_prefix("\u{feff}".as_bytes()).unwrap_or(document);
    [line.as_bytes(), b"\n", without_mark].concat()
}

/// The document of an earlier job, to submit it again. `name`: what its file was called. `resume_from`: the job with whose checkpoint it begins,
/// whatever the document says. `note`: which job it was, and when it is submitted again.
#[must_use]
pub fn rerun_document(text: &str, name: &str, resume_from: Option<&str>, note: &str) -> Vec<u8> {
    let text = with_name(&without_resume_from(text), name);
    let text = with_note(&text, &format!("{NOTE}{note}"));
    match resume_from {
        Some(job) => with_first_key(text.as_bytes(), &format!("{RESUME_FROM} = {}", quoted(job))),
        None => text.into_bytes(),
    }
}

fn without_resume_from(text: &str) -> String {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let parts = DeTable::parse(text).ok().and_then(|tree| {
        let (key, value) = tree.get_ref().get_key_value(RESUME_FROM)?;
        let (before, after) = (text.get(..key.span().start)?, text.get(value.span().end..)?);
        let before = before.get(..before.rfind('\n').map_or(0, |newline| newline + 1))?;
        Some((before, after.split_once('\n').map_or("", |(_, rest)| rest)))
    });
    parts.map_or_else(|| text.to_owned(), |(before, after)| format!("{before}{after}"))
}

/// Adds the name that the document's file gave it, unless the document names itself: the new object has another file name.
fn with_name(text: &str, name: &str) -> String {
    let named_by = |file: &str| JobSpec::read_name(text.as_bytes(), file);
    if named_by("a") == named_by("b") { text.to_owned() } else { format!("name = {}\n{text}", quoted(name)) }
}

fn with_note(text: &str, note: &str) -> String {
    let text = text.trim_end();
    let before = match text.rsplit_once('\n') {
        Some((before, last)) if last.starts_with(NOTE) => before,
        _ => text,
    };
    format!("{before}\n{note}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_document_is_another_one_and_none_grows() {
        let first = with_note("command = \"a\"\n\n", &format!("{NOTE}1"));
        assert_eq!(first, format!("command = \"a\"\n{NOTE}1\n"));
        assert_eq!(with_note(&first, &format!("{NOTE}2")), format!("command = \"a\"\n{NOTE}2\n"));
    }

    fn check(text: &str, resume_from: Option<&str>, expect: &str) {
        let again = rerun_document(text, "tune", resume_from, "x at noon");
        assert_eq!(String::from_utf8(again).unwrap(), format!("{expect}{NOTE}x at noon\n"), "{text}");
    }

    #[test]
    fn a_rerun_begins_where_the_command_says_and_keeps_its_name() {
        check("resume_from = \"x-1\"\nname = \"a\"\n", None, "name = \"a\"\n");
        let member = "member = 3\n  resume_from=\"x-1\" # as before\nname = \"a\"";
        check(member, None, "member = 3\nname = \"a\"\n");
        check(member, Some("x-2"), "resume_from = \"x-2\"\nmember = 3\nname = \"a\"\n");
        let variable = "name = \"a\"\nafter = [\n\"b\",\n]\n[env]\nresume_from = \"x\"\n";
        check(variable, None, variable);
        let list_before = "\u{feff}after = [\n[\n]]\nresume_from = \"x-1\"\nname = \"a\"\n";
        check(list_before, None, "after = [\n[\n]]\nname = \"a\"\n");
        check("member = 3\ncommand = \"a\"\n", None, "name = \"tune\"\nmember = 3\ncommand = \"a\"\n");
    }
}
