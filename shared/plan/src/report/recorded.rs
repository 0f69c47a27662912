//! An audit record as it is read back, for whoever reviews what a run did and what waits for a person.
//!
//! No run reads it. What a later version of Curfew adds to a record is passed over; what this one needs must be there.

mod evidence;

use std::collections::BTreeMap;

use jiff::Timestamp;
use model::id::{Region, ResourceId, RunId};
use model::mode::Mode;
use model::money::Rate;
use model::rule::Rule;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::OutcomeKind;

/// Begins the id of a run by which a person carried out what another run left to them. Other ids are Lambda's, of
/// hexadecimal digits.
pub const APPLIED: &str = "apply-";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    pub function: String,
    pub run: RunId,
    /// When it looked.
    pub at: Timestamp,
    /// `CURFEW_MODE`, as the function had it.
    pub mode: Mode,
    #[serde(default)]
    pub regions: Vec<Region>,
    #[serde(default)]
    pub seen: usize,
    pub steps: Vec<RecordedStep>,
    /// Whom it left alone, by the reason.
    #[serde(default)]
    pub skipped: BTreeMap<String, Vec<ResourceId>>,
    /// What it could not see, or could not say.
    #[serde(default)]
    pub gaps: Vec<RecordedGap>,
}

/// One thing that was done to one resource, or was to be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordedStep {
    pub region: Region,
    pub resource: ResourceId,
    /// What it is, for people: `g5.xlarge`. Older records do not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub what: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default)]
    pub team: Option<String>,
    /// What, as in responses: `stop`.
    pub action: String,
    pub evidence: RecordedEvidence,
    /// What it saves, where that is known.
    #[serde(default, deserialize_with = "rate")]
    pub saves_usd_per_hour: Option<Rate>,
    pub outcome: OutcomeKind,
    /// What went wrong, or why it was not reached.
    #[serde(default)]
    pub error: Option<String>,
    /// It was above `[limits]`: a person decides.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub held: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordedEvidence {
    pub rule: String,
    /// From when on the end was due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// The evidence, each rule's own.
    #[serde(flatten)]
    pub details: Map<String, Value>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordedGap {
    pub region: Region,
    /// The call by its IAM action.
    pub call: String,
    /// What AWS answered.
    pub error: String,
}

/// A run in figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct RunTally {
    /// Steps that were carried out.
    pub done: usize,
    /// Of those, how many ended something.
    pub ended: usize,
    /// Steps that were only observed.
    pub observed: usize,
    /// Steps whose resource had changed, or was gone.
    pub overtaken: usize,
    /// Steps that failed.
    pub failed: usize,
    /// Steps that were not reached, and wait for no person: another run takes them up.
    pub not_reached: usize,
    /// Ends that wait for a person.
    pub waiting: usize,
    /// What the ends that were carried out save, as far as that is known.
    #[serde(rename = "saved_usd_per_hour")]
    pub saved: Rate,
    /// What the ends that were only observed would save, as far as that is known.
    #[serde(rename = "would_save_usd_per_hour")]
    pub would_save: Rate,
    /// What the ends that wait would save, as far as that is known.
    #[serde(rename = "at_stake_usd_per_hour")]
    pub at_stake: Rate,
}

impl RunRecord {
    /// Where it lies in the state bucket.
    #[must_use]
    pub fn key(&self) -> String {
        super::record::key_of(self.at, &self.function, &self.run)
    }

    /// Whether it is of a run by which a person carried another one's list out.
    #[must_use]
    pub fn is_of_apply(&self) -> bool {
        self.run.as_str().starts_with(APPLIED)
    }

    /// Whether it found nothing at all.
    #[must_use]
    pub const fn is_quiet(&self) -> bool {
        self.steps.is_empty() && self.gaps.is_empty()
    }

    /// The ends that wait for a person. What an apply did not reach waits in the plan that it carries out, and what was
    /// planned in observe mode for nobody.
    pub fn waiting(&self) -> impl Iterator<Item = &RecordedStep> {
        self.steps.iter().filter(|step| self.waits(step))
    }

    /// Whether this step of it does.
    #[must_use]
    pub fn waits(&self, step: &RecordedStep) -> bool {
        self.mode == Mode::Enforce && !self.is_of_apply() && step.is_inferred_end_not_reached()
    }

    /// In figures.
    #[must_use]
    pub fn tally(&self) -> RunTally {
        let mut tally = RunTally::default();
        for step in &self.steps {
            let saves = step.saves_usd_per_hour.filter(|_| step.is_end()).unwrap_or_default();
            match step.outcome {
                OutcomeKind::Done => {
                    tally.done += 1;
                    tally.ended += usize::from(step.is_end());
                    tally.saved = tally.saved + saves;
                }
                OutcomeKind::Observed => {
                    tally.observed += 1;
                    tally.would_save = tally.would_save + saves;
                }
                OutcomeKind::AlreadyGone | OutcomeKind::Changed => tally.overtaken += 1,
                OutcomeKind::Failed => tally.failed += 1,
                OutcomeKind::NotReached if self.waits(step) => {
                    tally.waiting += 1;
                    tally.at_stake = tally.at_stake + saves;
                }
                OutcomeKind::NotReached => tally.not_reached += 1,
            }
        }
        tally
    }
}

impl RecordedStep {
    /// Whether it ends something.
    #[must_use]
    pub fn is_end(&self) -> bool {
        matches!(self.action.as_str(), "stop" | "terminate" | "delete")
    }

    /// An owner's own end that was not reached needs nobody's review: the next run takes it up.
    fn is_inferred_end_not_reached(&self) -> bool {
        let inferred = Rule::read(&self.evidence.rule).is_some_and(|rule| !rule.is_owners_own());
        self.outcome == OutcomeKind::NotReached && self.is_end() && inferred
    }
}

/// USD per hour, as [`Rate`] writes itself. What is no price is not known.
fn rate<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Rate>, D::Error> {
    /// Beyond any account; below it a float holds micro-USD exactly.
    const USD_PER_HOUR_MAX: f64 = 1e9;
    let usd = Option::<f64>::deserialize(deserializer)?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be within the range")]
    let micros = |usd: f64| (usd * 1e6).round() as u64;
    let usd = usd.filter(|usd| (0.0..=USD_PER_HOUR_MAX).contains(usd));
    Ok(usd.map(|usd| Rate::from_usd_micros_per_hour(micros(usd))))
}

#[cfg(test)]
mod tests;
