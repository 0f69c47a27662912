//! The evidence of a record in the fewest words, for a line of a table.

use serde_json::Value;

use super::RecordedBecause;
use crate::plan::{OnlyTold, Step};

impl RecordedBecause {
    /// As a record will say it of a step.
    #[must_use]
    pub fn of(step: &Step) -> Self {
        let rule = step.because.rule().to_string();
        let because = serde_json::to_value(&step.because).ok();
        let because = because.and_then(|because| serde_json::from_value(because).ok());
        let because = because.unwrap_or(Self { rule, deadline: None, evidence: serde_json::Map::new() });
        Self { deadline: step.deadline, ..because }
    }

    /// What was found, and made it do this: `GPU at 0 % since 2026-09-01T10:50`.
    #[must_use]
    pub fn in_words(&self, action: &str) -> String {
        if self.evidence.get("mended") == Some(&Value::Bool(true)) {
            return "called off".to_owned();
        }
        self.of_known_rule(action).unwrap_or_else(|| self.as_it_is())
    }

    /// Why it was only told; `None` where it was not, or where a later version had another reason.
    #[must_use]
    pub fn only_told(&self) -> Option<OnlyTold> {
        serde_json::from_value(self.evidence.get("only_told")?.clone()).ok()
    }

    fn of_known_rule(&self, action: &str) -> Option<String> {
        let text = |key: &str| self.evidence.get(key)?.as_str();
        let number = |key: &str| self.evidence.get(key)?.as_f64();
        let minute = |key: &str| text(key).map(|at| at.get(..16).unwrap_or(at));
        Some(match self.rule.as_str() {
            "idle" => {
                let (gpu, cpu, from) = (number("gpu_max_percent")?, number("cpu_max_vcpus")?, minute("from")?);
                format!("GPU at {gpu:.0} %, CPU {cpu:.1} vCPUs since {from}")
            }
            "job" => format!("attempt {:.0}: {}", number("attempt")?, text("why")?),
            "untagged" => {
                let missing = self.evidence.get("missing")?.as_array()?.iter();
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

    /// Of a rule that is not known here, or with other evidence.
    fn as_it_is(&self) -> String {
        let pairs = self.evidence.iter().map(|(key, value)| match value {
            Value::String(text) => format!("{key} {text}"),
            other => format!("{key} {other}"),
        });
        pairs.collect::<Vec<_>>().join(", ")
    }
}
