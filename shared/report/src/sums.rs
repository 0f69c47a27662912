//! Sums in words: the page, the mail and the digest say beside each what it leaves out.

use jiff::{SignedDuration, Timestamp};
use model::duration::format_duration;
use model::fault::{one_line, shortened};
use model::foreign_text::{quoted, quoted_unless_word};
use model::id::TeamName;
use model::money::Amount;

use crate::spend::describe_team;
use crate::{Headline, MonthReport, TeamRow};

/// What a sum leaves out, in words; empty if it is complete.
pub(crate) fn omissions(uncertain: Amount, unpriced_seconds: u64) -> Vec<String> {
    let uncertain = uncertain.is_a_cent().then(|| format!("up to {uncertain} more, where no end was seen"));
    let unpriced = (unpriced_seconds > 0)
        .then(|| format!("not counted: {} of running time at an unknown price", length(unpriced_seconds)));
    uncertain.into_iter().chain(unpriced).collect()
}

/// A sentence names types and regions.
const GAP_CHARACTERS_MAX: usize = 300;

/// Said in place of a saving.
pub(crate) const NO_AUDIT_RECORDS: &str =
    "What Curfew saved is unknown: no audit record of the month is left, or Curfew was not deployed in it.";

pub(crate) fn describe_late_ledger(since: Timestamp) -> String {
    let since = since.strftime("%Y-%m-%d %H:%M UTC");
    format!("The ledger was kept since {since}: what ended before that is in no sum.")
}

pub(crate) fn length(seconds: u64) -> String {
    format_duration(SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX)))
}

/// ` (up to $3.00 more, where no end was seen)`, or nothing.
pub(crate) fn in_parentheses(omissions: &[String]) -> String {
    if omissions.is_empty() { String::new() } else { format!(" ({})", omissions.join("; ")) }
}

/// The part of a sum above its budget.
pub(crate) fn above_budget(sum: Amount, budget: Option<Amount>) -> Option<Amount> {
    budget.map(|budget| sum.saturating_sub(budget)).filter(|above| above.is_a_cent())
}

impl Headline {
    pub(crate) fn spent_omissions(&self) -> Vec<String> {
        let regions = if self.unread_ledgers == 1 { "region" } else { "regions" };
        let unread = (self.unread_ledgers > 0)
            .then(|| format!("not counted: {} {regions} whose ledger could not be read", self.unread_ledgers));
        omissions(self.uncertain, self.unpriced_seconds).into_iter().chain(unread).collect()
    }

    /// A figure of the same machines: with an unknown price, or without a region, it is a lower bound.
    pub(crate) fn at_least(&self) -> &'static str {
        if self.spent.is_complete() { "" } else { "at least " }
    }

    /// What the savings leave out.
    pub(crate) fn saved_omissions(&self) -> Vec<String> {
        unpriced_savings(self.unpriced_savings)
    }

    /// Gaps of the figures of energy and carbon.
    pub(crate) fn footprint_omissions(&self) -> Vec<String> {
        self.footprint.describe_gaps().iter().map(|gap| one_line(gap, GAP_CHARACTERS_MAX)).collect()
    }

    pub(crate) fn describe_spot_saved(&self) -> String {
        format!("{}{}", if self.spot_saved_at_least { "at least " } else { "" }, self.spot_saved)
    }
}

pub(crate) fn unpriced_savings(count: u64) -> Vec<String> {
    let actions = if count == 1 { "action" } else { "actions" };
    (count > 0).then(|| format!("not counted: {count} {actions} at an unknown price")).into_iter().collect()
}

impl MonthReport {
    /// `research (123456789012)`: the account's name and number, as far as they are known.
    pub(crate) fn describe_account(&self) -> Option<String> {
        let name = self.account_name.as_ref().map(|name| quoted_unless_word(&shortened(name, 50)));
        match (name, &self.account) {
            (Some(name), Some(account)) => Some(format!("{name} ({account})")),
            (name, account) => name.or_else(|| account.clone()),
        }
    }

    /// `$36.00 spent by nlp on GPUs in 2026-11 in account research (123456789012)`, for the subject of a message and the first line of a digest.
    #[must_use]
    pub fn title(&self) -> String {
        let whose = self.team.as_ref().map(|team| format!(" by {}", quoted_unless_word(&shortened(team, 60))));
        let whose = whose.unwrap_or_default();
        let place = self.describe_account().map(|account| format!(" in account {account}")).unwrap_or_default();
        let spent = self.headline.spent;
        if spent.known().is_some() {
            format!("{spent} spent{whose} on GPUs in {}{place}", self.month)
        } else {
            format!("what was spent{whose} on GPUs in {}{place} is unknown", self.month)
        }
    }

    /// What the figure of the team leaves out.
    pub(crate) fn team_omissions(&self, row: &TeamRow) -> Vec<String> {
        if self.has_ledger { omissions(row.uncertain, row.unpriced_seconds) } else { Vec::new() }
    }
}

/// A resource as people know it.
pub(crate) struct KnownResource<'a> {
    pub(crate) id: &'a str,
    pub(crate) what: &'a str,
    pub(crate) name: Option<&'a str>,
    pub(crate) owner: Option<&'a str>,
    pub(crate) team: Option<&'a TeamName>,
}

impl KnownResource<'_> {
    /// `"llama" (i-3, g5.xlarge), team vision, owner "ada"`.
    pub(crate) fn describe(&self) -> String {
        let (id, what) = (one_line(self.id, 60), one_line(self.what, 40));
        let resource = match self.name {
            Some(name) => format!("{} ({id}, {what})", quoted(&shortened(name, 60))),
            None => format!("{id} ({what})"),
        };
        let team = self.team.map_or_else(|| "no team".to_owned(), |team| format!("team {}", describe_team(Some(team))));
        let owner = self.owner.map(|owner| format!(", owner {}", quoted(&shortened(owner, 60))));
        format!("{resource}, {team}{}", owner.unwrap_or_default())
    }
}
