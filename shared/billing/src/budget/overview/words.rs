//! The words.

use std::collections::BTreeSet;

use jiff::SignedDuration;
use model::duration;
use model::id::TeamName;
use model::known_sum::KnownSum;
use model::mode::Mode;
use model::money::Amount;
use model::notification_log::{NO_TEAM, NO_TEAM_LABEL};

use super::{BudgetDataState, BudgetOverview, BudgetRow, has_uncertain, has_unpriced, is_no_team};
use crate::budget::{Budget, BudgetRemainder, BudgetVerdict, CountedSpend, SharedBudget, observation_gap};

/// The account in the table.
pub(super) const ACCOUNT: &str = "(account)";
/// The most existing teams in an error about an unknown one.
const KNOWN_NAMED_MAX: usize = 20;

/// One line about a budget: its holder, the figure, and a remark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetFigure {
    pub label: &'static str,
    /// The figure; empty if there is none.
    pub figure: String,
    /// The rest.
    pub words: String,
}

impl BudgetRow {
    #[must_use]
    pub fn name(&self) -> String {
        match &self.team {
            None => ACCOUNT.to_owned(),
            Some(team) => shown(team.as_str()),
        }
    }

    /// Describes the consequence of the spend in a few words.
    #[must_use]
    pub fn consequence(&self) -> &'static str {
        let Some(budget) = self.budget.as_ref().filter(|_| self.state != BudgetDataState::Absent) else {
            return "unknown";
        };
        if self.state == BudgetDataState::Gone {
            return "not configured any more";
        }
        let is_enforced = budget.mode == Mode::Enforce;
        match budget.verdict {
            BudgetVerdict::Ok if budget.budget_usd.is_none() => "no budget",
            BudgetVerdict::Ok if self.over => "over",
            BudgetVerdict::Ok if self.forecast_percent.is_some_and(|percent| percent >= 100) => {
                "ok; the forecast exceeds it"
            }
            BudgetVerdict::Ok => "ok",
            BudgetVerdict::Notify => "over: notify only",
            BudgetVerdict::Hold if is_enforced => "over: no new jobs",
            BudgetVerdict::Hold => "over: no new jobs in enforce mode",
            BudgetVerdict::Stop if is_enforced => "over: instances are stopped",
            BudgetVerdict::Stop => "over: instances would be stopped in enforce mode",
        }
    }

    /// Every figure of the budget, in the order in which they explain each other; nothing where there are none.
    #[must_use]
    pub fn facts(&self) -> Vec<BudgetFigure> {
        let Some(budget) = self.budget.as_ref().filter(|_| self.state != BudgetDataState::Absent) else {
            return Vec::new();
        };
        let fact = |label, amount: Option<Amount>, words: String| BudgetFigure {
            label,
            figure: amount.map_or_else(|| "-".to_owned(), |amount| amount.to_string()),
            words,
        };
        let mut facts = Vec::new();
        let unset = if budget.budget_usd.is_some() { String::new() } else { self.unset() };
        facts.push(fact("budget", budget.budget_usd, unset));
        let figure = budget.spent().known().map_or_else(|| "unknown".to_owned(), |usd| usd.to_string());
        facts.push(BudgetFigure { label: "spent", figure, words: spent(budget, self.percent) });
        if let Some(shared) = &budget.shared {
            facts.push(BudgetFigure { label: "shared", figure: describe_others(shared), words: shared.describe() });
        }
        if let Some(since) = budget.ledger_since {
            let words = format!(
                "the ledger starts at {}: what stopped before is not in it",
                since.strftime("%Y-%m-%d %H:%M UTC")
            );
            facts.push(BudgetFigure { label: "since", figure: String::new(), words });
        }
        if let Some(words) = observation_gap::describe_gaps(&budget.observation_gaps) {
            facts.push(BudgetFigure { label: "unseen", figure: String::new(), words });
        }
        facts.push(fact("reserved", Some(budget.reserved_usd), reserved(budget)));
        if budget.budget_usd.is_some() {
            facts.push(match over_by(budget) {
                None => {
                    let BudgetRemainder { amount, bound } = budget.remainder();
                    fact("left", Some(amount), bound.unwrap_or_default().to_owned())
                }
                over => fact("over by", over, String::new()),
            });
        }
        if matches!(self.state, BudgetDataState::Fresh | BudgetDataState::Stale) {
            facts.push(fact("forecast", budget.forecast_usd, forecast(budget, self.forecast_percent)));
            facts.push(BudgetFigure {
                label: "burn rate",
                figure: describe_burn(budget),
                words: "as far as prices are known".to_owned(),
            });
        }
        facts.push(BudgetFigure { label: "verdict", figure: String::new(), words: self.consequence().to_owned() });
        if let Some(billed) = &budget.billed {
            facts.push(fact("billed", Some(billed.usd), billed.describe()));
        }
        facts
    }
}

/// Spend of the other accounts that counts for a shared budget.
fn describe_others(shared: &SharedBudget) -> String {
    match shared.counts {
        CountedSpend::Sum => shared.others.known().map_or_else(|| "unknown".to_owned(), |usd| usd.to_string()),
        CountedSpend::Own => "-".to_owned(),
    }
}

/// A team as people are shown it.
#[must_use]
pub fn shown(team: &str) -> String {
    if team == NO_TEAM { NO_TEAM_LABEL.to_owned() } else { team.to_owned() }
}

impl BudgetRow {
    /// Returns the heading of the remedy.
    #[must_use]
    pub fn remedy_is(&self) -> &'static str {
        if self.over { "What would bring it back under its budget" } else { "What would keep it under its budget" }
    }

    /// The spend, for a table: with a plus if it may be more, and unknown if nothing has a price.
    #[must_use]
    pub fn spent(&self) -> Option<String> {
        let budget = self.budget.as_ref().filter(|_| self.state != BudgetDataState::Absent)?;
        let spent = budget.spent().known();
        Some(spent.map_or_else(|| "unknown".to_owned(), |usd| format!("{usd}{}", if self.at_least { "+" } else { "" })))
    }

    /// Describes the setting that would give the holder a budget.
    fn unset(&self) -> String {
        let section = match &self.team {
            None => "[account]".to_owned(),
            Some(team) if is_no_team(team) => return "none: what has no team can have no budget".to_owned(),
            Some(team) => format!("[teams.{}]", key(team.as_str())),
        };
        format!("none; the configuration sets it: monthly_budget_usd in {section}")
    }
}

/// Describes the burn rate, which is unknown rather than zero where something has no price.
fn describe_burn(budget: &Budget) -> String {
    let unpriced = u64::try_from(budget.unpriced.len()).unwrap_or(u64::MAX);
    KnownSum::new(budget.burn(), unpriced).known().map_or_else(|| "unknown".to_owned(), |rate| rate.to_string())
}

fn over_by(budget: &Budget) -> Option<Amount> {
    let over = budget.counted_usd().saturating_sub(budget.budget_usd?);
    (over > Amount::ZERO).then_some(over)
}

/// A name as TOML takes it (TOML 1.0, "Keys").
fn key(name: &str) -> String {
    let is_bare = name.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_".contains(letter));
    if is_bare && !name.is_empty() { name.to_owned() } else { format!("{name:?}") }
}

/// There is no such team; these there are.
pub(super) fn describe_unknown_team(team: &TeamName, known: BTreeSet<String>, month: &str) -> String {
    if is_no_team(team) {
        return format!("{NO_TEAM_LABEL}: all that the ledger of {month} has belongs to a team");
    }
    let others = known.len().saturating_sub(KNOWN_NAMED_MAX);
    let mut names: Vec<String> = known.into_iter().take(KNOWN_NAMED_MAX).collect();
    if others > 0 {
        names.push(format!("{others} more"));
    }
    let known =
        if names.is_empty() { "there is none yet".to_owned() } else { format!("there are {}", names.join(", ")) };
    format!("no team {team}: neither in the configuration nor in the ledger of {month}; {known}")
}

/// The most resources without a known price that are listed. The list begins with the longest running time, and ends with the number of
/// others.
const UNPRICED_NAMED_MAX: usize = 5;

impl BudgetRow {
    /// Returns the resources that are in no figure because their price is unknown; one line each, and one for the rest.
    #[must_use]
    pub fn describe_unpriced(&self) -> Vec<String> {
        let Some(budget) = &self.budget else { return Vec::new() };
        let named = budget.unpriced.iter().take(UNPRICED_NAMED_MAX).map(|one| {
            let ran =
                duration::format_duration(SignedDuration::from_secs(i64::try_from(one.seconds).unwrap_or(i64::MAX)));
            format!("{} ({}, {}) for {ran}", one.resource, one.what, one.region)
        });
        let more = match budget.unpriced.len().saturating_sub(UNPRICED_NAMED_MAX) {
            0 => None,
            1 => Some("1 other".to_owned()),
            others => Some(format!("{others} others")),
        };
        named.chain(more).collect()
    }
}

fn percent_of_budget(percent: Option<u64>) -> String {
    percent.map(|percent| format!("{percent} % of the budget")).unwrap_or_default()
}

fn joined<const PARTS: usize>(parts: [String; PARTS]) -> String {
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
}

fn spent(budget: &Budget, percent: Option<u64>) -> String {
    let uncertain = match budget.uncertain_usd {
        Amount::ZERO => String::new(),
        uncertain => format!("up to {uncertain} more, because some stops were not observed"),
    };
    let blind = budget
        .blind_since
        .map(|since| format!("and what ran after {} is not in it", since.strftime("%Y-%m-%d %H:%M UTC")));
    let with_others = if budget.counted_others() == Amount::ZERO { "" } else { "with the other accounts " };
    joined([format!("{with_others}{}", percent_of_budget(percent)), uncertain, blind.unwrap_or_default()])
}

fn reserved(budget: &Budget) -> String {
    match budget.reservations.len() {
        0 => String::new(),
        1 => "for 1 job".to_owned(),
        jobs => format!("for {jobs} jobs"),
    }
}

fn forecast(budget: &Budget, percent: Option<u64>) -> String {
    joined([percent_of_budget(percent), budget.forecast_method.clone()])
}

impl BudgetOverview {
    /// Describes the age of a budget's figures.
    #[must_use]
    pub fn how_old(&self, row: &BudgetRow) -> String {
        let age = self.age(row).map(|age| format!("{} ago", duration::format_duration(age)));
        match (row.state, age) {
            (BudgetDataState::Absent, _) | (_, None) => "never".to_owned(),
            (BudgetDataState::Final, Some(_)) => "final".to_owned(),
            (BudgetDataState::Fresh | BudgetDataState::Gone, Some(age)) => age,
            (BudgetDataState::Stale, Some(age)) => format!("{age}: stale"),
        }
    }

    /// Explains the plus after a spend; `None` if no spend has one.
    #[must_use]
    pub fn footnote(&self) -> Option<String> {
        let name_rows = |is: &dyn Fn(&Budget) -> bool, why: &str| {
            let has = |row: &&BudgetRow| row.at_least && row.budget.as_ref().is_some_and(is);
            let names: Vec<String> = self.rows.iter().filter(has).map(BudgetRow::name).collect();
            (!names.is_empty()).then(|| format!("{why} ({})", names.join(", ")))
        };
        let reasons = [
            name_rows(&has_unpriced, "something has no known price, and is in no figure"),
            name_rows(&has_uncertain, "a stop was not observed"),
            name_rows(&|budget| budget.blind_since.is_some(), "something that runs was not seen lately"),
        ];
        let reasons: Vec<String> = reasons.into_iter().flatten().collect();
        (!reasons.is_empty()).then(|| format!("+ at least this much: {}", reasons.join("; ")))
    }

    /// Explains each budget that accounts share: its percentage is not of the spend beside it alone.
    #[must_use]
    pub fn shared_notes(&self) -> Vec<String> {
        let shared = self.rows.iter().filter_map(|row| Some((row, row.budget.as_ref()?.shared.as_ref()?)));
        shared.map(|(row, shared)| format!("{}: {}", row.name(), shared.describe())).collect()
    }

    /// Explains the unknown budgets, and the next step: one sentence for each reason.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        let is_over = self.period.to <= self.now;
        let month = &self.period.month;
        let names_in_state = |state: BudgetDataState| {
            let names: Vec<String> = self.rows.iter().filter(|row| row.state == state).map(BudgetRow::name).collect();
            (!names.is_empty()).then(|| names.join(", "))
        };
        let mut troubles = Vec::new();
        if let Some(names) = names_in_state(BudgetDataState::Stale) {
            troubles.push(if is_over {
                format!(
                    "{names}: the last figures are of more than {} before {month} ended, and what was spent after them is \
                     not in them; the ledger of that month may have it: s3://<state bucket>/ledger/{month}/",
                    duration::format_duration(crate::budget::STALE_AFTER)
                )
            } else {
                format!(
                    "{names}: the figures are older than {}; nothing is stopped and no job is launched by them. \
                     enforce-budgets should run every 15 minutes: curfew doctor says whether it does",
                    duration::format_duration(crate::budget::STALE_AFTER)
                )
            });
        }
        if let Some(names) = names_in_state(BudgetDataState::Absent) {
            troubles.push(if is_over {
                format!("{names}: nothing is known of {month}; no ledger was kept then, or its documents are gone")
            } else {
                format!(
                    "{names}: nothing is known of {month} yet; enforce-budgets writes it every 15 minutes: curfew \
                     doctor says whether it runs"
                )
            });
        }
        troubles
    }
}
