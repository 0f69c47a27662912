//! An audit record, read for the report alone: what was done, and what the run took. Most of a record are ids of skipped resources, and
//! these are only passed over. `plan::report::RunRecord` is the same document, read in full.

use std::borrow::Cow;

use jiff::Timestamp;
use model::id::RunId;
use model::money::Rate;
use plan::report::{APPLIED, OutcomeKind, RunUsage, key_of};
use serde::de::value;
use serde::{Deserialize, Deserializer};

/// One audit record. Texts without an escape are those of the document.
#[derive(Debug, Deserialize)]
pub struct RunOutline<'a> {
    pub schema: Option<u32>,
    #[serde(borrow)]
    pub function: Cow<'a, str>,
    pub run: RunId,
    pub at: Timestamp,
    #[serde(borrow)]
    pub(crate) steps: Vec<StepOutline<'a>>,
    pub(crate) usage: Option<RunUsage>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct StepOutline<'a> {
    #[serde(borrow)]
    pub(crate) region: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) resource: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) what: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) name: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) team: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) action: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) evidence: EvidenceOutline<'a>,
    #[serde(default, deserialize_with = "rate")]
    pub(crate) saves_usd_per_hour: Option<Rate>,
    pub(crate) outcome: OutcomeKind,
}

#[derive(Debug, Deserialize)]
pub(crate) struct EvidenceOutline<'a> {
    #[serde(borrow)]
    pub(crate) rule: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) hours: Option<Text<'a>>,
    pub(crate) size_gib: Option<u64>,
}

/// serde borrows a `Cow` only where no `Option` is around it.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(crate) struct Text<'a>(#[serde(borrow)] pub(crate) Cow<'a, str>);

impl RunOutline<'_> {
    /// Returns the key of the record in the state bucket.
    #[must_use]
    pub fn key(&self) -> String {
        key_of(self.at, &self.function, &self.run)
    }

    /// Returns `true` for the record of a `curfew apply`.
    pub(crate) fn is_of_apply(&self) -> bool {
        self.run.as_str().starts_with(APPLIED)
    }
}

/// `None` for a value that is no price.
fn rate<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Rate>, D::Error> {
    let usd = Option::<f64>::deserialize(deserializer)?;
    Ok(usd.and_then(|usd| Rate::deserialize(value::F64Deserializer::<value::Error>::new(usd)).ok()))
}

#[cfg(test)]
mod tests {
    use plan::report::RunRecord;
    use serde_json::json;

    use super::*;

    #[test]
    fn it_says_the_same_as_the_whole_record() {
        let document = json!({
            "schema": 1, "function": "reap-volumes", "run": "apply-1", "at": "2026-11-10T12:00:00Z", "mode": "enforce",
            "regions": ["us-east-1"], "seen": 3, "skipped": { "kept": ["vol-2", "vol-3"] }, "gaps": [], "usage": { "runs": 1 },
            "steps": [{ "region": "us-east-1", "resource": "vol-1", "what": "gp3", "name": "a \"quoted\" name", "team": null,
                        "action": "delete", "evidence": { "rule": "orphaned", "size_gib": 500, "since": "2026-11-01T00:00:00Z" },
                        "saves_usd_per_hour": 0.055, "outcome": "done", "error": null, "held": true }],
        })
        .to_string();
        let (outline, whole): (RunOutline<'_>, RunRecord) =
            (serde_json::from_str(&document).unwrap(), serde_json::from_str(&document).unwrap());
        assert_eq!((outline.schema, outline.key(), outline.usage), (Some(1), whole.key(), whole.usage));
        assert!(outline.is_of_apply() && whole.is_of_apply());
        let ([step], [of_whole]) = (&outline.steps[..], &whole.steps[..]) else { panic!() };
        let name = step.name.as_ref().unwrap();
        assert_eq!(Some(name.0.as_ref()), of_whole.name.as_deref());
        assert!(matches!(name.0, Cow::Owned(_)) && matches!(step.what.as_ref().unwrap().0, Cow::Borrowed("gp3")));
        assert_eq!(
            (step.team.is_none(), step.saves_usd_per_hour, step.outcome),
            (true, of_whole.saves_usd_per_hour, of_whole.outcome)
        );
        assert_eq!((step.evidence.rule.as_ref(), step.evidence.size_gib), ("orphaned", Some(500)));
    }

    #[test]
    fn what_is_no_price_is_unknown_and_what_is_no_record_an_error() {
        let read = |usd: &str| {
            let step = format!(
                r#"{{"region":"r","resource":"i-1","action":"stop","evidence":{{"rule":"idle"}},"saves_usd_per_hour":{usd},"outcome":"done"}}"#
            );
            serde_json::from_str::<StepOutline<'_>>(&step).map(|step| step.saves_usd_per_hour).ok()
        };
        assert_eq!(read("1.5"), Some(Some(Rate::from_usd_micros_per_hour(1_500_000))));
        assert_eq!((read("-1"), read("1e300"), read("null")), (Some(None), Some(None), Some(None)));
        assert_eq!(read("\"dear\""), None);
    }
}
