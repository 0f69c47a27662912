//! The response of a function in a few lines.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The most gaps that are shown.
const GAPS_SHOWN_MAX: usize = 10;

/// The counts of a response. What the response leaves out is absent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RunSummary {
    /// The id of the run, by which `curfew plans` shows it.
    pub run: Option<String>,
    pub mode: Option<String>,
    pub seen: Option<u64>,
    /// Number of steps by action and outcome, such as `mark done`.
    pub steps: BTreeMap<String, u64>,
    /// Number of skipped resources by reason.
    pub skipped: BTreeMap<String, u64>,
    /// Failed reads.
    pub gaps: Vec<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Response {
    run: Option<String>,
    mode: Option<String>,
    seen: Option<u64>,
    steps: Vec<Value>,
    skipped: BTreeMap<String, u64>,
    gaps: Vec<Value>,
}

impl RunSummary {
    /// Reads a response; `None` if it is not one of Curfew's.
    #[must_use]
    pub fn from_response(response: &Value) -> Option<Self> {
        // A structure is also read from an array, by the order of its fields.
        response.as_object()?;
        let Response { run, mode, seen, steps, skipped, gaps } = Response::deserialize(response).ok()?;
        run.as_ref()?;
        let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or("unknown").to_owned();
        let mut counts = BTreeMap::new();
        for step in &steps {
            let count: &mut u64 =
                counts.entry(format!("{} {}", text(step, "action"), text(step, "outcome"))).or_default();
            *count = count.saturating_add(1);
        }
        let gap = |gap: &Value| format!("{} in {}: {}", text(gap, "call"), text(gap, "region"), text(gap, "error"));
        Some(Self { run, mode, seen, steps: counts, skipped, gaps: gaps.iter().map(gap).collect() })
    }

    /// True if a step failed or something could not be read.
    #[must_use]
    pub fn is_incomplete(&self) -> bool {
        !self.gaps.is_empty() || self.steps.keys().any(|step| step.ends_with(" failed"))
    }

    /// Formats the summary for people.
    #[must_use]
    pub fn to_lines(&self) -> Vec<String> {
        let counted = |counts: &BTreeMap<String, u64>| {
            let parts: Vec<String> = counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
            if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }
        };
        let seen = self.seen.map(|seen| format!("seen: {seen}"));
        let mut lines: Vec<String> = seen.into_iter().collect();
        lines.push(format!("steps: {}", counted(&self.steps)));
        lines.push(format!("skipped: {}", counted(&self.skipped)));
        lines.extend(self.gaps.iter().take(GAPS_SHOWN_MAX).map(|gap| format!("could not be read: {gap}")));
        let more = self.gaps.len().saturating_sub(GAPS_SHOWN_MAX);
        lines.extend((more > 0).then(|| format!("could not be read: {more} more")));
        lines
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn steps_are_counted_by_action_and_outcome() {
        let step = |action: &str, outcome: &str| json!({ "action": action, "outcome": outcome });
        let response = json!({
            "function": "reap-instances", "run": "r1", "mode": "enforce", "seen": 24,
            "steps": [step("mark", "done"), step("stop", "failed"), step("mark", "done")],
            "skipped": { "protected": 3 },
            "gaps": [{ "region": "eu-west-1", "call": "ec2:DescribeInstances", "error": "no" }],
        });
        let summary = RunSummary::from_response(&response).unwrap();
        assert_eq!(
            summary.to_lines(),
            [
                "seen: 24",
                "steps: mark done 2, stop failed 1",
                "skipped: protected 3",
                "could not be read: ec2:DescribeInstances in eu-west-1: no",
            ]
        );
        assert!(summary.is_incomplete());
    }

    #[test]
    fn a_response_with_less_says_less() {
        let summary = RunSummary::from_response(&json!({ "run": "r1" })).unwrap();
        assert_eq!(summary.to_lines(), ["steps: none", "skipped: none"]);
        assert!(!summary.is_incomplete());
    }

    #[test]
    fn a_stranger_is_no_run() {
        for stranger in
            [json!(null), json!([]), json!(["r"]), json!({}), json!({ "run": 1 }), json!({ "run": "r", "steps": 7 })]
        {
            assert_eq!(RunSummary::from_response(&stranger), None, "{stranger}");
        }
    }
}
