//! The evidence of a record in a few words, for a line of a table.

use serde_json::Value;

use super::RecordedEvidence;
use crate::{Evidence, NotifyOnlyReason, Step};

impl RecordedEvidence {
    /// The evidence as the record of a step will have it.
    #[must_use]
    pub fn from_step(step: &Step) -> Self {
        Self { deadline: step.deadline, ..Self::from_evidence(&step.evidence) }
    }

    /// The evidence of a record, without a deadline.
    #[must_use]
    pub fn from_evidence(evidence: &Evidence) -> Self {
        let rule = evidence.rule().to_string();
        let evidence = serde_json::to_value(evidence).ok();
        let evidence = evidence.and_then(|evidence| serde_json::from_value(evidence).ok());
        evidence.unwrap_or(Self { rule, deadline: None, details: serde_json::Map::new() })
    }

    /// The evidence in a few words. `by_rule` has those of its rule: `reaping::rules::summarize` is the way in.
    #[must_use]
    pub fn describe(&self, by_rule: impl FnOnce(&Self) -> Option<String>) -> String {
        if self.details.get("resolved") == Some(&Value::Bool(true)) {
            return "called off".to_owned();
        }
        if self.details.get("not_queried_again") == Some(&Value::Bool(true)) {
            return "announced before, not queried again".to_owned();
        }
        self.describe_attempt().or_else(|| by_rule(self)).unwrap_or_else(|| self.describe_unknown_rule())
    }

    /// A fact that is text.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<&str> {
        self.details.get(key)?.as_str()
    }

    /// A fact that is a number.
    #[must_use]
    pub fn number(&self, key: &str) -> Option<f64> {
        self.details.get(key)?.as_f64()
    }

    /// A fact that is a time, to the minute.
    #[must_use]
    pub fn minute(&self, key: &str) -> Option<&str> {
        self.text(key).map(|at| at.get(..16).unwrap_or(at))
    }

    /// A fact that is a list of texts; `None` for anything else.
    #[must_use]
    pub fn texts(&self, key: &str) -> Option<Vec<&str>> {
        Some(self.details.get(key)?.as_array()?.iter().filter_map(Value::as_str).collect())
    }

    /// The reason why the step only notified; `None` if it did more, or if this version does not know the reason.
    #[must_use]
    pub fn notify_only(&self) -> Option<NotifyOnlyReason> {
        serde_json::from_value(self.details.get("notify_only")?.clone()).ok()
    }

    /// A step of `run-jobs`, which follows from no rule.
    fn describe_attempt(&self) -> Option<String> {
        if self.rule != "job" {
            return None;
        }
        Some(format!("attempt {:.0}: {}", self.number("attempt")?, self.text("why")?))
    }

    /// The facts of a rule, or of evidence, that this version does not know.
    fn describe_unknown_rule(&self) -> String {
        let pairs = self.details.iter().map(|(key, value)| match value {
            Value::String(text) => format!("{key} {text}"),
            other => format!("{key} {other}"),
        });
        pairs.collect::<Vec<_>>().join(", ")
    }
}
