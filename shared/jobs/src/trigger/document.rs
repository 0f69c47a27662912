//! The document that a trigger or a schedule makes: its own without `[trigger]` or `[schedule]`, and with variables in `env`.

use std::ops::Range;

use model::document::quoted;
use toml::de::{DeTable, DeValue};

/// Returns the range of a section such as `[trigger]`, in whole lines; `None` if it is not written as a section of its own.
pub(crate) fn section_range(text: &str, root: &DeTable<'_>, section: &str) -> Option<Range<usize>> {
    let (key, value) = root.get_key_value(section)?;
    let DeValue::Table(table) = value.get_ref() else { return None };
    let (before, after) = (text.get(..key.span().start)?, text.get(key.span().end..)?);
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let is_section = before.get(start..)?.trim() == "[" && after.trim_start_matches([' ', '\t']).starts_with(']');
    let last = table.iter().map(|(_, value)| value.span().end).chain([key.span().end]).max()?;
    let end = text.get(last..)?.find('\n').map_or(text.len(), |newline| last + newline);
    is_section.then_some(start..end)
}

/// The document without these lines; all others keep their numbers.
pub(crate) fn blank(text: &str, lines: Range<usize>) -> Option<String> {
    let newlines: String = text.get(lines.clone())?.chars().filter(|one| *one == '\n').collect();
    Some([text.get(..lines.start)?, &newlines, text.get(lines.end..)?].concat())
}

/// The document with these variables in `env`, and with a name; `None` if they cannot be added to it.
pub(crate) fn with_variables(text: &str, name: &str, variables: &[(&'static str, String)]) -> Option<String> {
    let tree = DeTable::parse(text).ok()?;
    let lines: Vec<String> = variables.iter().map(|(key, value)| format!("{key} = {}", quoted(value))).collect();
    let mut made = match tree.get_ref().get_key_value("env") {
        None => format!("{text}\n[env]\n{}\n", lines.join("\n")),
        Some((key, _)) => {
            let (before, after) = text.split_at_checked(key.span().end)?;
            match after.trim_start_matches([' ', '\t', '"', '\'']).chars().next()? {
                ']' => {
                    let (heading, rest) = after.split_at_checked(after.find('\n').unwrap_or(after.len()))?;
                    format!("{before}{heading}\n{}{rest}", lines.join("\n"))
                }
                '=' => {
                    let (opening, rest) = after.split_at_checked(after.find('{')? + 1)?;
                    let comma = if rest.trim_start().starts_with('}') { "" } else { ", " };
                    format!("{before}{opening}{}{comma}{rest}", lines.join(", "))
                }
                _ => lines.iter().map(|line| format!("env.{line}\n")).chain([text.to_owned()]).collect(),
            }
        }
    };
    if !tree.get_ref().contains_key("name") {
        made = format!("name = {}\n{made}", quoted(name));
    }
    let mut expect: toml::Table = toml::from_str(text).ok()?;
    expect.entry("name").or_insert_with(|| name.into());
    let env = expect.entry("env").or_insert_with(|| toml::Table::new().into()).as_table_mut()?;
    for (key, value) in variables {
        if env.insert((*key).to_owned(), value.as_str().into()).is_some() {
            return None;
        }
    }
    // Whatever way it was written in: no job runs with another document than that.
    (toml::from_str::<toml::Table>(&made).ok()? == expect).then_some(made)
}
