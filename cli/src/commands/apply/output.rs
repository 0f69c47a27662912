//! The outcome of each item of the list.

use model::id::{Region, ResourceId, RunId};
use model::known_sum::{self, KnownSum};
use model::money::Rate;
use plan::report::{OutcomeKind, RecordedStep, RunRecord, StepOutcome};
use serde::Serialize;

use super::ItemOutcomes;
use crate::command_error::CommandError;
use crate::command_status::CommandStatus;
use crate::commands::plans::worth;
use crate::screen;

#[derive(Serialize)]
pub(super) struct ApplyOutput<'a> {
    /// The record's key.
    plan: String,
    function: &'a str,
    /// The run that carried it out, where there was anything to do.
    run: Option<RunId>,
    steps: Vec<AppliedItem<'a>>,
    done: usize,
    already_gone: usize,
    changed: usize,
    not_reached: usize,
    failed: usize,
    #[serde(rename = "saved_usd_per_hour", serialize_with = "known_sum::serialize_known")]
    saved: KnownSum<Rate>,
    /// The number of actions whose saving is unknown, which the sum lacks.
    unknown_prices: u64,
    #[serde(skip)]
    reviewed: &'a RunId,
}

#[derive(Serialize)]
struct AppliedItem<'a> {
    region: &'a Region,
    resource: &'a ResourceId,
    action: &'a str,
    rule: &'a str,
    outcome: OutcomeKind,
    error: Option<&'a str>,
}

impl<'a> AppliedItem<'a> {
    fn from_outcome((item, outcome): &'a (RecordedStep, StepOutcome)) -> Self {
        Self {
            region: &item.region,
            resource: &item.resource,
            action: &item.action,
            rule: &item.evidence.rule,
            outcome: outcome.kind,
            error: outcome.error.as_deref(),
        }
    }

    /// Returns `true` if nothing is left to do about the item.
    const fn is_settled(&self) -> bool {
        matches!(self.outcome, OutcomeKind::Done | OutcomeKind::AlreadyGone)
    }
}

impl<'a> ApplyOutput<'a> {
    pub(super) fn from_outcomes(record: &'a RunRecord, run: Option<RunId>, outcomes: &'a ItemOutcomes) -> Self {
        let count = |kind| outcomes.iter().filter(|(_, outcome)| outcome.kind == kind).count();
        let done = outcomes.iter().filter(|(_, outcome)| outcome.kind == OutcomeKind::Done);
        let saved: KnownSum<Rate> = done.map(|(item, _)| item.saving()).sum();
        let mut steps: Vec<AppliedItem<'_>> = outcomes.iter().map(AppliedItem::from_outcome).collect();
        steps.sort_by_key(|item| (item.region, item.resource));
        Self {
            plan: record.key(),
            function: &record.function,
            run,
            steps,
            done: count(OutcomeKind::Done),
            already_gone: count(OutcomeKind::AlreadyGone),
            changed: count(OutcomeKind::Changed),
            not_reached: count(OutcomeKind::NotReached),
            failed: count(OutcomeKind::Failed),
            saved,
            unknown_prices: saved.unpriced(),
            reviewed: &record.run,
        }
    }

    pub(super) fn show(&self, json: bool) -> Result<CommandStatus, CommandError> {
        if json {
            screen::json(self)?;
        } else {
            self.print();
        }
        if self.not_reached + self.failed > 0 {
            screen::progress(format!("The same command continues: curfew apply {}", self.reviewed));
        }
        Ok(if self.steps.iter().all(AppliedItem::is_settled) {
            CommandStatus::Success
        } else {
            CommandStatus::Findings
        })
    }

    fn print(&self) {
        let counts = [
            (self.done, "done"),
            (self.already_gone, "ended before"),
            (self.changed, "changed since, and skipped"),
            (self.not_reached, "not reached"),
            (self.failed, "failed"),
        ];
        let counts: Vec<String> =
            counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
        let saved = if self.saved.is_zero() {
            String::new()
        } else {
            format!("; that saves {}", worth(self.function, self.saved))
        };
        screen::print_line(format!("{}{saved}", counts.join(", ")));
        for item in self.steps.iter().filter(|item| !item.is_settled()) {
            let AppliedItem { resource, region, action, outcome, error, .. } = item;
            let error = error.unwrap_or("no reason was given");
            screen::print_line(format!("{resource} ({region}): {action} {}: {error}", outcome.as_str()));
        }
    }
}
