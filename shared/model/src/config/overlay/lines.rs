//! The lines of a document: every value by its path, with its place.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::super::Config;
use crate::document::{ANY_KEY, position, section_keys};

/// Values by their paths.
#[derive(Debug, Clone, Default)]
pub(super) struct Lines<'t> {
    pub(super) values: BTreeMap<Vec<String>, Line<'t>>,
    /// The sections without a value, each with its line: that of a team names it.
    pub(super) empty: BTreeMap<Vec<String>, usize>,
}

/// A value, and the number of its line, from 1.
#[derive(Debug, Clone)]
pub(super) struct Line<'t> {
    pub(super) value: DeValue<'t>,
    pub(super) number: usize,
}

impl<'t> Lines<'t> {
    pub(super) fn new(text: &str, tree: &DeTable<'t>) -> Self {
        let mut lines = Self::default();
        lines.add(text, &mut Vec::new(), tree);
        lines
    }

    fn add(&mut self, text: &str, path: &mut Vec<String>, table: &DeTable<'t>) {
        for (key, value) in table {
            path.push(key.get_ref().to_string());
            let number = || position(text, key.span().start).0;
            match value.get_ref() {
                DeValue::Table(table) if table.is_empty() => drop(self.empty.insert(path.clone(), number())),
                DeValue::Table(table) => self.add(text, path, table),
                value => {
                    let line = Line { value: value.clone(), number: number() };
                    self.values.insert(path.clone(), line);
                }
            }
            path.pop();
        }
    }

    /// These lines, and over them the others.
    pub(super) fn with(mut self, others: Self) -> Self {
        self.values.extend(others.values);
        self.empty.extend(others.empty);
        self
    }

    /// The line of the value at this path.
    pub(super) fn number(&self, path: &[String]) -> Option<usize> {
        self.values.get(path).map(|line| line.number)
    }

    /// The first line of a section.
    pub(super) fn section(&self, path: &[String]) -> Option<usize> {
        let within = self.values.iter().filter(|(key, _)| key.starts_with(path)).map(|(_, line)| line.number);
        within.chain(self.empty.get(path).copied()).min()
    }

    /// The document that has these lines.
    pub(super) fn into_tree(self) -> DeTable<'t> {
        let mut tree = DeTable::new();
        let empty: BTreeSet<Vec<String>> = self.empty.into_keys().collect();
        for path in empty {
            insert(&mut tree, &path, DeValue::Table(DeTable::new()));
        }
        for (path, line) in self.values {
            insert(&mut tree, &path, line.value);
        }
        tree
    }
}

fn insert<'t>(table: &mut DeTable<'t>, path: &[String], value: DeValue<'t>) {
    let Some((first, rest)) = path.split_first() else { return };
    let key = || Spanned::new(0..0, Cow::Owned(first.clone()));
    if rest.is_empty() {
        table.insert(key(), Spanned::new(0..0, value));
        return;
    }
    if !table.contains_key(first.as_str()) {
        table.insert(key(), Spanned::new(0..0, DeValue::Table(DeTable::new())));
    }
    if let Some(DeValue::Table(within)) = table.get_mut(first.as_str()).map(Spanned::get_mut) {
        insert(within, rest, value);
    }
}

/// The path of a key or section, as people write it; `None` if there is none of that name.
pub(super) fn is_key(name: &str) -> Option<Vec<String>> {
    if name.contains(['=', '\n', '\r', '#']) {
        return None;
    }
    let text = format!("{name} = 0");
    let tree = DeTable::parse(&text).ok()?.into_inner();
    let lines = Lines::new(&text, &tree);
    let path = lines.values.into_keys().next()?;
    let is_legal = |depth: usize| {
        let (within, [key, ..]) = path.split_at(depth) else { return false };
        let within: Vec<&str> = within.iter().map(String::as_str).collect();
        section_keys::<Config>(&within).is_some_and(|keys| keys == [ANY_KEY] || keys.contains(&key.as_str()))
    };
    (0..path.len()).all(is_legal).then_some(path)
}
