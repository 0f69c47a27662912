//! A spec under judgement: what is wrong is collected, each with its place.

use std::collections::BTreeSet;
use std::ops::Range;

use jiff::SignedDuration;
use model::document::{
    DocumentError, KEY_CHARACTERS_MAX, PROBLEM_CHARACTERS_MAX, ParsedDocument, dotted, item_written_at, position,
    read_all, written_at,
};
use model::fault::{InvalidValue, shortened};
use model::money::Rate;

use toml::de::DeValue;

use super::written::{DOCUMENT, RawSpec};
use super::{checks, foreign_keys};
use crate::SpecMistake;

impl From<DocumentError> for SpecMistake {
    fn from(DocumentError { line, key, problem, .. }: DocumentError) -> Self {
        Self { line, key, problem }
    }
}

/// `[trigger]` and `[schedule]` are legal, but not here.
fn say_where_triggers_go(mut mistake: SpecMistake) -> SpecMistake {
    match mistake.key.as_str() {
        "trigger" => "the document is a trigger, not a job: submit it with `--trigger NAME`",
        "schedule" => "the document is a schedule, not a job: add it with `curfew schedule add NAME`",
        _ => return mistake,
    }
    .clone_into(&mut mistake.problem);
    mistake
}

/// A document under judgement.
pub(super) struct SpecValidator<'t> {
    text: &'t str,
    read: ParsedDocument<'t, ()>,
    found: Vec<(usize, SpecMistake)>,
}

impl<'t> SpecValidator<'t> {
    pub(super) fn parse(text: &'t str) -> Result<(Self, RawSpec), Vec<SpecMistake>> {
        if let Some(yaml) = foreign_keys::find_yaml(text) {
            return Err(vec![yaml]);
        }
        let ParsedDocument { meaning, wrong, taken_out, is_whole, tree } =
            read_all::<RawSpec>(DOCUMENT, text).map_err(|wrong| vec![wrong.into()])?;
        let found = wrong
            .into_iter()
            .map(|wrong| (wrong.column, foreign_keys::translate(say_where_triggers_go(wrong.into()))))
            .collect();
        let judge =
            Self { text, read: ParsedDocument { meaning: None, wrong: Vec::new(), taken_out, is_whole, tree }, found };
        match meaning {
            Some(written) => Ok((judge, written)),
            None => Err(judge.into_mistakes()),
        }
    }

    /// Returns the parts made whole, or the mistakes if there are any.
    pub(super) fn done<A, T>(self, parts: A, whole: impl FnOnce(A) -> Option<T>) -> Result<T, Vec<SpecMistake>> {
        match whole(parts) {
            Some(whole) if self.found.is_empty() => Ok(whole),
            _ => Err(self.into_mistakes()),
        }
    }

    fn into_mistakes(mut self) -> Vec<SpecMistake> {
        self.found.sort_by(|(column, one), (other_column, other)| {
            (one.line, column, &one.key).cmp(&(other.line, other_column, &other.key))
        });
        self.found.into_iter().map(|(_, mistake)| mistake).collect()
    }

    fn refuse_at(&mut self, byte: Option<usize>, key: &str, problem: &str) {
        let (line, column) = byte.map_or((0, 0), |byte| position(self.text, byte));
        let key = shortened(key, KEY_CHARACTERS_MAX);
        let problem = shortened(problem, PROBLEM_CHARACTERS_MAX);
        self.found.push((column, SpecMistake { line, key, problem }));
    }

    /// Adds a mistake at the key, or else at the section in which it is written.
    pub(super) fn refuse(&mut self, path: &[&str], problem: &str) {
        let root = self.read.tree.get_ref();
        let byte = (1..=path.len()).rev().find_map(|length| written_at(root, path.get(..length)?));
        self.refuse_at(byte, &dotted(path.iter().copied()), problem);
    }

    pub(super) fn refuse_item(&mut self, path: &[&str], index: usize, problem: &str) {
        let byte = item_written_at(self.read.tree.get_ref(), path, index);
        self.refuse_at(byte, &format!("{}[{index}]", dotted(path.iter().copied())), problem);
    }

    pub(super) fn written_value(&self, key: &str) -> Option<DeValue<'t>> {
        self.read.tree.get_ref().get(key).map(|value| value.get_ref().clone())
    }

    pub(super) const fn length_bytes(&self) -> usize {
        self.text.len()
    }

    pub(super) fn text_at(&self, bytes: Range<usize>) -> &'t str {
        self.text.get(bytes).unwrap_or_default()
    }

    /// The missing keys. A wrong value is not missing; and without a parsed document that is unknown.
    pub(super) fn report_missing(&mut self, path: &[&str], problem: &str) {
        let is_there = self.read.taken_out.iter().any(|out| path.starts_with(&as_path(out)));
        if self.read.is_whole && !is_there {
            self.refuse(path, problem);
        }
    }

    pub(super) fn check(&mut self, path: &[&str], legal: Result<(), InvalidValue>) {
        if let Err(problem) = legal {
            self.refuse(path, &problem.to_string());
        }
    }

    /// Every item, and that none is there twice.
    pub(super) fn list(&mut self, path: &[&str], items: &[String], legal: impl Fn(&str) -> Result<(), InvalidValue>) {
        if items.len() > checks::ITEMS_MAX {
            self.refuse(path, &format!("{} of them; write {} at most", items.len(), checks::ITEMS_MAX));
        }
        let mut before = BTreeSet::new();
        for (index, item) in items.iter().enumerate().take(checks::ITEMS_MAX) {
            match legal(item) {
                Err(problem) => self.refuse_item(path, index, &problem.to_string()),
                Ok(()) if !before.insert(item) => self.refuse_item(path, index, &format!("{item:?} stands here twice")),
                Ok(()) => {}
            }
        }
    }

    pub(super) fn some<T: PartialOrd + std::fmt::Display>(
        &mut self,
        path: &[&str],
        value: Option<T>,
        default: T,
        legal: [T; 2],
    ) -> T {
        let Some(number) = value else { return default };
        let [least, most] = legal;
        if number < least || number > most {
            self.refuse(path, &format!("{number} is out of range; write a whole number from {least} to {most}"));
        }
        number
    }

    /// A duration that is more than nothing.
    pub(super) fn length(
        &mut self,
        path: &[&str],
        value: Option<SignedDuration>,
        instead: &str,
    ) -> Option<SignedDuration> {
        if value.is_some_and(|length| length.is_zero()) {
            self.refuse(path, &format!("0s is too short; {instead}"));
        }
        value
    }

    pub(super) fn usd(&mut self, path: &[&str], value: Option<f64>) -> Option<f64> {
        self.check(path, value.map_or(Ok(()), checks::usd));
        value
    }

    pub(super) fn rate(&mut self, path: &[&str], usd_per_hour: Option<f64>) -> Option<Rate> {
        self.usd(path, usd_per_hour).map(Rate::from_usd_per_hour)
    }
}

fn as_path(keys: &[String]) -> Vec<&str> {
    keys.iter().map(String::as_str).collect()
}
