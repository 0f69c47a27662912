//! The words.

use jiff::SignedDuration;

use super::{Overview, Row, State, is_nobody};
use crate::budget::{Budget, Verdict, unseen};
use crate::duration;
use crate::mode::Mode;
use crate::money::Amount;

/// One line about a budget: what it is of, the figure, and what is to be said of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    /// Of what.
    pub label: &'static str,
    /// The figure; empty where there is none.
    pub figure: String,
    /// The rest.
    pub words: String,
}

impl Row {
    /// Whose it is.
    #[must_use]
    pub fn name(&self) -> String {
        match &self.team {
            None => "(account)".to_owned(),
            Some(team) if is_nobody(team) => "(no team)".to_owned(),
            Some(team) => team.to_string(),
        }
    }

    /// What follows from where it stands, in a few words.
    #[must_use]
    pub fn follows(&self) -> &'static str {
        let Some(budget) = self.standing.as_ref().filter(|_| self.state != State::Absent) else {
            return "nobody can say";
        };
        let is_enforced = budget.mode == Mode::Enforce;
        match budget.verdict {
            Verdict::Ok if budget.budget_usd.is_none() => "no budget",
            Verdict::Ok if self.over => "over",
            Verdict::Ok if self.forecast_percent.is_some_and(|percent| percent >= 100) => "ok; the forecast is over",
            Verdict::Ok => "ok",
            Verdict::Notify => "over: people are told",
            Verdict::Hold if is_enforced => "over: no new jobs",
            Verdict::Hold => "over: no new jobs, if it were enforced",
            Verdict::Stop if is_enforced => "over: instances end",
            Verdict::Stop => "over: instances would end, if it were enforced",
        }
    }

    /// Every figure of the budget, in the order in which they explain each other; nothing where there are none.
    #[must_use]
    pub fn facts(&self) -> Vec<Fact> {
        let Some(budget) = self.standing.as_ref().filter(|_| self.state != State::Absent) else { return Vec::new() };
        let fact = |label, amount: Option<Amount>, words: String| Fact {
            label,
            figure: amount.map_or_else(|| "-".to_owned(), |amount| amount.to_string()),
            words,
        };
        let mut facts = Vec::new();
        let whose =
            if self.team.is_some() { "monthly_budget_usd in its section" } else { "[account] monthly_budget_usd" };
        let none = || format!("none; the configuration sets it: {whose}");
        facts.push(fact("budget", budget.budget_usd, if budget.budget_usd.is_some() { String::new() } else { none() }));
        facts.push(fact("spent", Some(budget.spent_usd), spent(budget, self.percent)));
        if let Some(words) = unseen::in_words(&budget.unseen) {
            facts.push(Fact { label: "unseen", figure: String::new(), words });
        }
        facts.push(fact("reserved", Some(budget.reserved_usd), reserved(budget)));
        if budget.budget_usd.is_some() {
            facts.push(fact("left", budget.remaining_usd, String::new()));
        }
        if self.state != State::Final {
            facts.push(fact("forecast", budget.forecast_usd, forecast(budget, self.forecast_percent)));
            let rate = format!("{}", budget.burn());
            facts.push(Fact { label: "burns now", figure: rate, words: "as far as prices are known".to_owned() });
        }
        facts.push(Fact { label: "verdict", figure: String::new(), words: self.follows().to_owned() });
        if let Some(billed) = &budget.billed {
            facts.push(fact("billed", Some(billed.usd), billed.in_words()));
        }
        facts
    }
}

/// What has no known price: these, those that ran the longest first, and how many more.
const UNPRICED_NAMED_MAX: usize = 5;

impl Row {
    /// What is in no figure, as nobody knows its price; a line each, and one for all that there are besides.
    #[must_use]
    pub fn unpriced(&self) -> Vec<String> {
        let Some(budget) = &self.standing else { return Vec::new() };
        let named = budget.unpriced.iter().take(UNPRICED_NAMED_MAX).map(|one| {
            let ran = duration::show(SignedDuration::from_secs(i64::try_from(one.seconds).unwrap_or(i64::MAX)));
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

fn of_budget(percent: Option<u64>) -> String {
    percent.map(|percent| format!("{percent} % of the budget")).unwrap_or_default()
}

fn joined<const PARTS: usize>(parts: [String; PARTS]) -> String {
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
}

fn spent(budget: &Budget, percent: Option<u64>) -> String {
    let uncertain = match budget.uncertain_usd {
        Amount::ZERO => String::new(),
        uncertain => format!("up to {uncertain} more, as nobody saw when some of it ended"),
    };
    let unseen = budget
        .blind_since
        .map(|since| format!("and what ran after {} is not in it", since.strftime("%Y-%m-%d %H:%M UTC")));
    joined([of_budget(percent), uncertain, unseen.unwrap_or_default()])
}

fn reserved(budget: &Budget) -> String {
    match budget.reservations.len() {
        0 => String::new(),
        1 => "for 1 job".to_owned(),
        jobs => format!("for {jobs} jobs"),
    }
}

fn forecast(budget: &Budget, percent: Option<u64>) -> String {
    joined([of_budget(percent), budget.forecast_method.clone()])
}

impl Overview {
    /// How old the figures of a budget are.
    #[must_use]
    pub fn how_old(&self, row: &Row) -> String {
        let age = self.age(row).map(|age| format!("{} ago", duration::show(age)));
        match (row.state, age) {
            (State::Absent, _) | (_, None) => "never".to_owned(),
            (State::Final, Some(_)) => "final".to_owned(),
            (State::Fresh, Some(age)) => age,
            (State::Stale, Some(age)) => format!("{age}: stale"),
        }
    }

    /// Why nobody can say of some of them, and what to do: one sentence a reason.
    #[must_use]
    pub fn troubles(&self) -> Vec<String> {
        let is_over = self.period.to <= self.now;
        let month = &self.period.month;
        let of = |state: State| {
            let names: Vec<String> = self.rows.iter().filter(|row| row.state == state).map(Row::name).collect();
            (!names.is_empty()).then(|| names.join(", "))
        };
        let mut troubles = Vec::new();
        if let Some(names) = of(State::Stale) {
            troubles.push(if is_over {
                format!(
                    "of {names}: the last figures are of more than {} before {month} ended, and what was spent after them is \
                     not in them; the ledger of that month may have it: s3://<state bucket>/ledger/{month}/",
                    duration::show(crate::budget::STALE_AFTER)
                )
            } else {
                format!(
                    "of {names}: the figures are older than {}; nothing ends and no job is launched on them. \
                     enforce-budgets should run every 15 minutes: curfew doctor says whether it does",
                    duration::show(crate::budget::STALE_AFTER)
                )
            });
        }
        if let Some(names) = of(State::Absent) {
            troubles.push(if is_over {
                format!("of {names}: nothing is known of {month}; no ledger was kept then, or its documents are gone")
            } else {
                format!(
                    "of {names}: nothing is known of {month} yet; enforce-budgets writes it every 15 minutes: curfew \
                     doctor says whether it runs"
                )
            });
        }
        troubles
    }
}
