//! The evidence of a record in a few words, for a line of a table.

use serde_json::Value;

use super::RecordedEvidence;
use crate::{Evidence, NotifyOnlyReason, Step};

impl RecordedEvidence {
    /// As the record of a step will have it.
    #[must_use]
    pub fn from_step(step: &Step) -> Self {
        Self { deadline: step.deadline, ..Self::from_evidence(&step.evidence) }
    }

    /// The same without a deadline.
    #[must_use]
    pub fn from_evidence(evidence: &Evidence) -> Self {
        let rule = evidence.rule().to_string();
        let evidence = serde_json::to_value(evidence).ok();
        let evidence = evidence.and_then(|evidence| serde_json::from_value(evidence).ok());
        evidence.unwrap_or(Self { rule, deadline: None, details: serde_json::Map::new() })
    }

    /// The evidence in a few words: `GPU at 0 % since 2026-09-01T10:50`.
    #[must_use]
    pub fn describe(&self, action: &str) -> String {
        if self.details.get("resolved") == Some(&Value::Bool(true)) {
            return "called off".to_owned();
        }
        if self.details.get("not_queried_again") == Some(&Value::Bool(true)) {
            return "announced before, not queried again".to_owned();
        }
        self.describe_known_rule(action).unwrap_or_else(|| self.describe_unknown_rule())
    }

    /// Why the step only notified; `None` if it did more, or if this version does not know the reason.
    #[must_use]
    pub fn notify_only(&self) -> Option<NotifyOnlyReason> {
        serde_json::from_value(self.details.get("notify_only")?.clone()).ok()
    }

    fn describe_known_rule(&self, action: &str) -> Option<String> {
        let text = |key: &str| self.details.get(key)?.as_str();
        let number = |key: &str| self.details.get(key)?.as_f64();
        let minute = |key: &str| text(key).map(|at| at.get(..16).unwrap_or(at));
        Some(match self.rule.as_str() {
            "idle" if self.details.contains_key("shown_by") => match text("shown_by")? {
                "user-activity" => format!("not used since {}", minute("from")?),
                "requests" => format!("no request since {}", minute("from")?),
                _ => format!("GPUs at {:.0} % since {}", number("gpu_max_percent")?, minute("from")?),
            },
            "idle" => {
                let (gpu, cpu, from) = (number("gpu_max_percent")?, number("cpu_max_vcpus")?, minute("from")?);
                format!("GPU at {gpu:.0} %, CPU {cpu:.1} vCPUs since {from}")
            }
            "job" => format!("attempt {:.0}: {}", number("attempt")?, text("why")?),
            "untagged" => {
                let missing = self.details.get("missing")?.as_array()?.iter();
                format!("lacks {}", missing.filter_map(Value::as_str).collect::<Vec<_>>().join(", "))
            }
            "lifetime" => format!("runs since {}", minute("launched_at")?),
            "hours" => match action {
                "start" => format!("within {}", text("hours")?),
                "mark" => format!("{} end at {} UTC", text("hours")?, text("at")?.get(11..16)?),
                _ => format!("outside {}", text("hours")?),
            },
            "orphaned" => {
                let (gib, kind, since) = (number("size_gib")?, text("volume_type")?, minute("unattached_since")?);
                format!("{gib:.0} GiB {kind} unused since {since}")
            }
            "expired" => match text("volume") {
                Some(volume) => format!("of {volume}, kept until {}", minute("expires_at")?),
                None => format!("expired {}", minute("expires_at")?),
            },
            _ => return None,
        })
    }

    /// For a rule, or for evidence, that this version does not know.
    fn describe_unknown_rule(&self) -> String {
        let pairs = self.details.iter().map(|(key, value)| match value {
            Value::String(text) => format!("{key} {text}"),
            other => format!("{key} {other}"),
        });
        pairs.collect::<Vec<_>>().join(", ")
    }
}
