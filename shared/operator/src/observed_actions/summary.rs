//! The totals of the rows, and their words.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use jiff::Timestamp;
use model::known_sum::{self, KnownSum};
use model::money::{Amount, Rate};
use serde::Serialize;

use super::{DueState, ObservedActionRow, ObservedActions};

/// What enforce mode would have done in a period.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ObservedSummary {
    /// The most expensive first; those at an unknown price last.
    pub rows: Vec<ObservedActionRow>,
    /// Sum of the savings.
    #[serde(rename = "would_have_saved_usd", serialize_with = "known_sum::serialize_known")]
    pub saved: KnownSum<Amount>,
    /// Number of rows at an unknown price, which the sum lacks.
    pub unknown_prices: u64,
    /// Number of rows whose resource was used again since.
    pub used_again: usize,
    /// Number of actions that are announced, and not due yet.
    pub not_due_yet: usize,
    /// Machines that only notify because a stop would lose their NVMe scratch.
    pub scratch: ScratchTotal,
    /// `true` if resources are left out, because there are too many.
    pub is_truncated: bool,
}

/// Machines that only notify because a stop would lose their NVMe scratch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct ScratchTotal {
    pub machines: usize,
    #[serde(flatten)]
    pub costs: KnownSum<Rate>,
}

impl ObservedActions {
    /// The rows and their totals.
    #[must_use]
    pub fn finish(self) -> ObservedSummary {
        let mut rows: Vec<ObservedActionRow> = self.resources.into_values().flatten().map(|one| one.row).collect();
        rows.sort_by_key(|row| (Reverse(row.saved), row.due_since));
        let saved = KnownSum::from_parts(rows.iter().map(|row| row.saved));
        ObservedSummary {
            saved,
            unknown_prices: saved.unpriced(),
            used_again: rows.iter().filter(|row| row.used_again_at.is_some()).count(),
            not_due_yet: self.not_due_yet.values().sum(),
            scratch: ScratchTotal {
                machines: self.scratch.len(),
                costs: KnownSum::from_parts(self.scratch.values().copied()),
            },
            is_truncated: self.is_truncated,
            rows,
        }
    }
}

impl ObservedSummary {
    /// The totals for people, one line each. `period`: `7d`.
    #[must_use]
    pub fn describe(&self, period: &str) -> Vec<String> {
        let mut lines = vec![self.describe_total(period)];
        if !self.rows.is_empty() {
            lines.push(
                "Saved is the price in the time in which runs found the action due, up to the last run that did."
                    .to_owned(),
            );
        }
        match self.not_due_yet {
            0 => {}
            1 => lines.push("1 action is announced, and not due yet.".to_owned()),
            actions => lines.push(format!("{actions} actions are announced, and not due yet.")),
        }
        lines.extend(self.scratch.describe());
        if self.is_truncated {
            lines.push(format!("There are more than {} resources: the rest is left out.", super::RESOURCES_MAX));
        }
        lines
    }

    /// `Enforce mode would have stopped 11 machines in the last 7d, $4,310.00; 3 of them were used again since.`
    fn describe_total(&self, period: &str) -> String {
        if self.rows.is_empty() {
            return format!("Nothing was due in observe mode in the last {period}.");
        }
        let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for row in &self.rows {
            *counts.entry((past_tense(&row.action), row.noun())).or_default() += 1;
        }
        let parts: Vec<String> = counts
            .into_iter()
            .map(|((verb, noun), count)| format!("{verb} {count} {noun}{}", if count == 1 { "" } else { "s" }))
            .collect();
        let saved = match self.saved.known() {
            None => ", at unknown prices".to_owned(),
            Some(_) if self.saved.is_complete() => format!(", {}", self.saved.describe(|usd| usd.to_string())),
            Some(_) => format!(" ({})", self.saved.describe(|usd| usd.to_string())),
        };
        let used = match self.used_again {
            0 => "none of them was".to_owned(),
            1 => "1 of them was".to_owned(),
            used => format!("{used} of them were"),
        };
        let actions = parts.join(" and ");
        format!("Enforce mode would have {actions} in the last {period}{saved}; {used} used again since.")
    }
}

impl ScratchTotal {
    fn describe(self) -> Option<String> {
        let Self { machines, costs } = self;
        let (machines, verb, whose) = match machines {
            0 => return None,
            1 => ("1 machine".to_owned(), "notifies", "its"),
            several => (format!("{several} machines"), "notify", "their"),
        };
        let rate = costs.describe(|rate| rate.to_string());
        let rate = if costs.known().is_none() { "price unknown".to_owned() } else { rate };
        Some(format!(
            "{machines} ({rate}) only {verb}, because a stop would lose {whose} NVMe scratch: [idle] local_disk decides that."
        ))
    }
}

impl ObservedActionRow {
    /// `machine`, `volume` or `SageMaker resource`.
    #[must_use]
    pub fn noun(&self) -> &'static str {
        match self.resource.as_str() {
            id if id.starts_with("i-") => "machine",
            id if id.starts_with("vol-") => "volume",
            _ => "SageMaker resource",
        }
    }

    /// The action in words: `snapshot and delete`.
    #[must_use]
    pub fn action_in_words(&self) -> &str {
        if self.action == "snapshot" { "snapshot and delete" } else { &self.action }
    }

    /// The events since the action was due: `used again 2026-09-02 08:10, due again`.
    #[must_use]
    pub fn since_then(&self) -> String {
        let minute = |at: Timestamp| at.strftime("%Y-%m-%d %H:%M");
        let state = match self.state {
            DueState::StillDue if self.used_again_at.is_some() => "due again".to_owned(),
            DueState::StillDue => "still due".to_owned(),
            DueState::UsedAgain => String::new(),
            DueState::Complies => format!("complies since {}", minute(self.state_at)),
            DueState::Kept => format!("kept since {}", minute(self.state_at)),
            DueState::Stopped => format!("stopped by {}", minute(self.state_at)),
            DueState::Gone => format!("gone by {}", minute(self.state_at)),
            DueState::CarriedOut => format!("carried out {}", minute(self.state_at)),
        };
        let used = self.used_again_at.map(|at| format!("used again {}", minute(at)));
        used.into_iter().chain(Some(state).filter(|state| !state.is_empty())).collect::<Vec<_>>().join(", ")
    }
}

fn past_tense(action: &str) -> &'static str {
    match action {
        "stop" => "stopped",
        "terminate" => "terminated",
        _ => "deleted",
    }
}
