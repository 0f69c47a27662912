//! An audit record as it is read back, for people who review what a run did and what awaits approval.
//!
//! No run decides by it; enforce-budgets and send-report read it for their figures. Fields that a later version of Curfew adds are ignored; those that this version needs must exist.

mod evidence;

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use billing::price;
use jiff::Timestamp;
use model::id::{Region, ResourceId, RunId};
use model::known_sum::{self, KnownSum};
use model::mode::Mode;
use model::money::Rate;
use model::rule::Rule;
use model::sagemaker::EndpointOrigin;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::{ApprovalStatus, OutcomeKind, RunUsage};
use crate::{LeftCost, NotifyOnlyReason, Skipped, Target};

/// The prefix of the run ids of `curfew apply`. Other ids are Lambda's, of hexadecimal digits.
pub const APPLIED: &str = "apply-";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    pub function: String,
    pub run: RunId,
    /// Time of the observation.
    pub at: Timestamp,
    /// `CURFEW_MODE`, as the function had it.
    pub mode: Mode,
    #[serde(default)]
    pub regions: Vec<Region>,
    #[serde(default)]
    pub seen: usize,
    pub steps: Vec<RecordedStep>,
    #[serde(default)]
    pub skipped: BTreeMap<String, Vec<ResourceId>>,
    /// Costs of skipped resources that belong to another controller.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub skipped_costs: BTreeMap<ResourceId, SkippedCost>,
    /// Failed reads, and messages that could not be sent.
    #[serde(default)]
    pub gaps: Vec<RecordedGap>,
    /// AWS usage of the run itself. Older records do not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<RunUsage>,
}

/// Cost of a resource that Curfew leaves to another controller, or to its owner.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SkippedCost {
    /// Description for people: `500 GiB gp3`.
    pub what: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team: Option<String>,
    /// `None` if unknown.
    #[serde(default, deserialize_with = "rate")]
    pub usd_per_hour: Option<Rate>,
    /// The reason that it is paid for without use; `None` if it may be needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waste: Option<String>,
}

impl SkippedCost {
    pub(super) fn from_skipped(skipped: &Skipped) -> Option<Self> {
        let Target { what, name, team, .. } = &skipped.target;
        let LeftCost { price, waste } = skipped.left_cost.as_ref()?;
        let usd_per_hour = price::cost(*price);
        let team = team.as_ref().map(|team| team.as_str().to_owned());
        Some(Self { what: what.clone(), name: name.clone(), team, usd_per_hour, waste: waste.clone() })
    }
}

/// One action on one resource, with its outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordedStep {
    pub region: Region,
    pub resource: ResourceId,
    /// Description for people: `g5.xlarge`. Older records do not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub what: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default)]
    pub team: Option<String>,
    /// Name of the action, as in responses: `stop`.
    pub action: String,
    pub evidence: RecordedEvidence,
    /// `None` if unknown.
    #[serde(default, deserialize_with = "rate")]
    pub saves_usd_per_hour: Option<Rate>,
    pub outcome: OutcomeKind,
    /// Failure of the step, or the reason that it was not reached.
    #[serde(default)]
    pub error: Option<String>,
    /// `true` if the step was above `[limits]`: it awaits approval.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub held: bool,
    /// Origin from which the deleted endpoint can be made again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restore: Option<EndpointOrigin>,
    /// Number of copies of an inference component that was scaled to zero.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copies: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordedEvidence {
    pub rule: String,
    /// The time from which on the action was due.
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
    /// Answer of AWS.
    pub error: String,
}

/// A run in figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct RunTally {
    /// Steps that were carried out.
    pub done: usize,
    /// Steps that were carried out and stopped, terminated or deleted something.
    pub ended: usize,
    /// Steps that were only observed.
    pub observed: usize,
    /// Steps whose resource had changed, or was gone.
    pub overtaken: usize,
    /// Steps that failed.
    pub failed: usize,
    /// Steps that were not reached and do not await approval: the next run repeats them.
    pub not_reached: usize,
    /// Actions that await approval.
    pub waiting: usize,
    /// Saving by the actions that were carried out.
    #[serde(rename = "saved_usd_per_hour", serialize_with = "known_sum::serialize_known")]
    pub saved: KnownSum<Rate>,
    /// Saving that the actions in observe mode would bring.
    #[serde(rename = "would_save_usd_per_hour", serialize_with = "known_sum::serialize_known")]
    pub would_save: KnownSum<Rate>,
    /// Saving that the actions that await approval would bring.
    #[serde(rename = "at_stake_usd_per_hour", serialize_with = "known_sum::serialize_known")]
    pub at_stake: KnownSum<Rate>,
    /// Number of these actions whose saving is unknown, which the sums lack; absent if they lack none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown_prices: Option<NonZeroU64>,
}

impl RunRecord {
    /// Returns the key of the record in the state bucket.
    #[must_use]
    pub fn key(&self) -> String {
        super::record::key_of(self.at, &self.function, &self.run)
    }

    /// Returns `true` for the record of a `curfew apply`.
    #[must_use]
    pub fn is_of_apply(&self) -> bool {
        self.run.as_str().starts_with(APPLIED)
    }

    /// Returns `true` if the run found nothing at all.
    #[must_use]
    pub const fn is_quiet(&self) -> bool {
        self.steps.is_empty() && self.gaps.is_empty()
    }

    /// The actions that await approval. What an apply did not reach awaits it in the plan that the apply carries out; in observe mode
    /// nothing does.
    pub fn waiting(&self) -> impl Iterator<Item = &RecordedStep> {
        self.steps.iter().filter(|step| self.waits(step))
    }

    /// Returns `true` if this step of the run awaits approval.
    #[must_use]
    pub fn waits(&self, step: &RecordedStep) -> bool {
        self.mode == Mode::Enforce && !self.is_of_apply() && step.is_unreached_policy_action()
    }

    /// Gives the actions that await approval the outcome that they have by now.
    pub fn settle(&mut self, outcome: impl Fn(&RecordedStep) -> Option<OutcomeKind>) {
        let has_waiting = self.mode == Mode::Enforce && !self.is_of_apply();
        for step in self.steps.iter_mut().filter(|step| has_waiting && step.is_unreached_policy_action()) {
            if let Some(settled) = outcome(step) {
                (step.outcome, step.held, step.error) = (settled, false, None);
            }
        }
    }

    /// The steps that only notified about idleness, because `local_disk` keeps NVMe storage.
    pub fn withheld_by_local_disk(&self) -> impl Iterator<Item = &RecordedStep> {
        let is_withheld = |step: &&RecordedStep| {
            step.evidence.rule == Rule::Idle.as_str()
                && step.evidence.notify_only() == Some(NotifyOnlyReason::LocalDisk)
        };
        self.steps.iter().filter(is_withheld)
    }

    #[must_use]
    pub fn tally(&self) -> RunTally {
        let mut tally = RunTally::default();
        for step in &self.steps {
            let saves = step.saving();
            match step.outcome {
                OutcomeKind::Done => {
                    tally.done += 1;
                    tally.ended += usize::from(step.stops_or_deletes());
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
        tally.count_unknown_prices()
    }
}

impl RunTally {
    /// The tally after later runs: only what still awaits approval counts as waiting.
    #[must_use]
    pub fn after_approval(self, approval: &ApprovalStatus) -> Self {
        Self { waiting: approval.waiting, at_stake: approval.at_stake, ..self }.count_unknown_prices()
    }

    fn count_unknown_prices(self) -> Self {
        Self { unknown_prices: NonZeroU64::new((self.saved + self.would_save + self.at_stake).unpriced()), ..self }
    }
}

impl RecordedStep {
    /// Returns `true` if the step stops, terminates or deletes something.
    #[must_use]
    pub fn stops_or_deletes(&self) -> bool {
        matches!(self.action.as_str(), "stop" | "terminate" | "delete")
    }

    /// Returns the saving by the step, which is nothing where it stops or deletes nothing.
    #[must_use]
    pub fn saving(&self) -> KnownSum<Rate> {
        if self.stops_or_deletes() { KnownSum::from_parts([self.saves_usd_per_hour]) } else { KnownSum::default() }
    }

    /// A scheduled action that was not reached needs no approval: the next run repeats it.
    fn is_unreached_policy_action(&self) -> bool {
        let is_scheduled = Rule::read(&self.evidence.rule).is_none_or(Rule::is_owners_own);
        let first_seen_past = self.evidence.details.contains_key("first_seen_past");
        let is_of_snapshot = self.evidence.details.contains_key("volume");
        self.outcome == OutcomeKind::NotReached
            && self.stops_or_deletes()
            && (!is_scheduled || first_seen_past || is_of_snapshot)
    }
}

/// USD per hour, as [`Rate`] writes itself; `None` for a value that is no price.
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
