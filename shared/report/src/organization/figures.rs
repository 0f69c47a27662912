//! Figures that an account publishes about a month: `accounts/<account>/figures/…` in the hub's bucket.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use billing::budget::{Budget, BudgetHolder};
use billing::ledger::CalendarMonth;
use jiff::{SignedDuration, Timestamp};
use model::account::AccountId;
use model::fault::shortened;
use model::foreign_text::quoted;
use model::id::TeamName;
use model::known_sum::KnownSum;
use model::mode::Mode;
use model::moment::{after, before};
use model::money::{Amount, Rate, USD_MAX, USD_PER_HOUR_MAX};
use serde::{Deserialize, Serialize};

use crate::past::BLIND_MAX;
use crate::{MonthReport, NO_TEAM, PastSpend, TeamRow};

/// Teams of a document with figures of their own, the dearest. The others are one sum, so that a tag that differs on every machine fills neither
/// the bucket nor the hub's memory.
pub const TEAMS_MAX: usize = 100;

/// The largest document that is read: four times one with the longest names.
pub const FIGURES_BYTES_MAX: usize = 1024 * 1024;

/// Characters of a name: a tag has 256 at most.
const NAME_CHARACTERS_MAX: usize = 256;

/// Longest name that is published: a longer one is cut, and ends in `…`.
const PUBLISHED_CHARACTERS_MAX: usize = NAME_CHARACTERS_MAX - 1;

/// Difference of clocks between two accounts that is no lie.
const CLOCK_SKEW: SignedDuration = SignedDuration::from_mins(15);

/// Longest time by which a month begins earlier in another account's time zone.
const ZONES_APART: SignedDuration = SignedDuration::from_hours(26);

/// A function that publishes. Each has an object of its own: an account cannot read the hub, so none could write the other's figures again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Publisher {
    /// Every quarter of an hour: spend, budgets and forecasts.
    EnforceBudgets,
    /// Every morning: these, and savings, waste and earlier spend.
    SendReport,
}

impl Publisher {
    /// The key in the hub's bucket.
    #[must_use]
    pub fn key(self, account: &AccountId, month: &str) -> String {
        let kind = match self {
            Self::EnforceBudgets => "",
            Self::SendReport => ".report",
        };
        format!("accounts/{account}/figures/{month}{kind}.json")
    }
}

/// The account of a folder directly below `accounts/`; `None` for a folder that no account can write.
#[must_use]
pub fn account_of_folder(folder: &str) -> Option<AccountId> {
    AccountId::parse(folder.strip_prefix("accounts/")?.strip_suffix('/')?).ok()
}

/// The figures of one account and month. It names no account: the key does, and IAM lets only that account write it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AccountFigures {
    /// `[account] name` of its configuration.
    #[serde(default)]
    pub account_name: Option<String>,
    /// `yyyy-mm`, in the account's time zone.
    pub month: String,
    /// Time up to which the figures are known.
    pub as_of: Timestamp,
    /// Start of the ledger, if more than a day later than that of the month: what ended before is in no figure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known_since: Option<Timestamp>,
    /// `true` if the month is over where the account is, and its end is known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_final: bool,
    /// `CURFEW_MODE` of the account.
    #[serde(default)]
    pub mode: Option<Mode>,
    /// Budget of the account.
    #[serde(default)]
    pub budget_usd: Option<Amount>,
    /// Expected spend of the account at the end of the month.
    #[serde(default)]
    pub forecast_usd: Option<Amount>,
    /// The dearest first, at most [`TEAMS_MAX`].
    pub teams: Vec<TeamFigures>,
    /// Sum of the other teams.
    #[serde(default)]
    pub other_teams: Option<OtherTeams>,
}

/// One team in one account.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TeamFigures {
    /// The value of its tag, or [`NO_TEAM`].
    pub team: String,
    #[serde(flatten)]
    pub figures: Figures,
}

/// The teams without figures of their own.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct OtherTeams {
    /// Number of these teams, as far as it is known.
    pub teams: u64,
    #[serde(flatten)]
    pub figures: Figures,
}

/// A beat of `enforce-budgets`, as it is published.
#[derive(Debug, Clone, Copy)]
pub struct PublishedBeat<'a> {
    pub month: &'a CalendarMonth,
    /// Documents of that month.
    pub budgets: &'a BTreeMap<BudgetHolder, Budget>,
    pub account_name: Option<&'a str>,
    pub mode: Mode,
    /// `true` if the beat closed the month.
    pub is_final: bool,
    /// Number of regions that it saw, completely or in part. Without any, the earlier figures stay.
    pub seen_regions: usize,
    /// Number of regions that it did not see completely, in which something may run that no figure has.
    pub unseen_regions: usize,
}

/// Figures of a team. What is absent is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Figures {
    pub spent: KnownSum<Amount>,
    /// Possible spend beyond `spent`.
    #[serde(default)]
    pub uncertain_usd: Amount,
    #[serde(default)]
    pub budget_usd: Option<Amount>,
    #[serde(default)]
    pub forecast_usd: Option<Amount>,
    /// Spend of the month before until the same time of it.
    #[serde(default)]
    pub previous_month: Option<KnownSum<Amount>>,
    /// Spend of the last seven days.
    #[serde(default)]
    pub last_week: Option<KnownSum<Amount>>,
    /// Spend of the seven days before these.
    #[serde(default)]
    pub previous_week: Option<KnownSum<Amount>>,
    #[serde(default)]
    pub saved: Option<KnownSum<Amount>>,
    /// Present cost of the found waste.
    #[serde(default)]
    pub waste: Option<KnownSum<Rate>>,
}

impl Figures {
    fn from_budget(budget: &Budget) -> Self {
        let blind = KnownSum::new(Amount::ZERO, budget.blind_since.is_some().into());
        Self {
            spent: budget.spent() + blind,
            uncertain_usd: budget.uncertain_usd,
            budget_usd: budget.budget_usd,
            forecast_usd: budget.forecast_usd,
            ..Self::default()
        }
    }

    fn from_row(row: &TeamRow, report: &MonthReport) -> Self {
        Self {
            spent: row.spent,
            uncertain_usd: row.uncertain,
            budget_usd: row.budget,
            forecast_usd: row.forecast,
            previous_month: row.past.previous_month.map(|spend| spend.amount),
            last_week: row.past.last_week.map(|spend| spend.amount),
            previous_week: row.past.previous_week.map(|spend| spend.amount),
            saved: report.has_audit_records.then_some(row.saved),
            waste: (!report.is_over).then(|| row.waste + KnownSum::new(Rate::ZERO, report.coverage.unjudged)),
        }
    }

    /// Figures of the account beyond those of its teams: of teams that have spent nothing this month, and what no team's figures can say, because
    /// there are none; `None` if there is nothing beyond them.
    fn remainder(teams: &[TeamFigures], report: &MonthReport) -> Option<Self> {
        let beyond = |account: Option<PastSpend>, of_team: fn(&Self) -> Option<KnownSum<Amount>>| {
            let account = account?.amount;
            let named: KnownSum<Amount> = teams.iter().filter_map(|team| of_team(&team.figures)).sum();
            let known = account.known().unwrap_or_default().saturating_sub(named.known().unwrap_or_default());
            Some(KnownSum::new(known, account.unpriced().saturating_sub(named.unpriced())))
        };
        let past = report.headline.past;
        let remainder = Self {
            spent: KnownSum::new(Amount::ZERO, (!report.has_ledger).into()),
            previous_month: beyond(past.previous_month, |team| team.previous_month),
            last_week: beyond(past.last_week, |team| team.last_week),
            previous_week: beyond(past.previous_week, |team| team.previous_week),
            saved: report.has_audit_records.then(KnownSum::default),
            waste: (!report.is_over).then(|| KnownSum::new(Rate::ZERO, report.coverage.unjudged)),
            ..Self::default()
        };
        let past = [remainder.previous_month, remainder.last_week, remainder.previous_week];
        let has_past = past.into_iter().flatten().any(|sum| !sum.is_zero());
        let is_needed = teams.is_empty() || !remainder.spent.is_zero() || report.coverage.unseen > 0 || has_past;
        is_needed.then_some(remainder)
    }

    /// The amounts with their names in the document.
    fn amounts(&self) -> [(&'static str, Option<Amount>); 8] {
        let known = |sum: Option<KnownSum<Amount>>| sum.and_then(KnownSum::known);
        [
            ("spent", self.spent.known()),
            ("uncertain_usd", Some(self.uncertain_usd)),
            ("budget_usd", self.budget_usd),
            ("forecast_usd", self.forecast_usd),
            ("previous_month", known(self.previous_month)),
            ("last_week", known(self.last_week)),
            ("previous_week", known(self.previous_week)),
            ("saved", known(self.saved)),
        ]
    }

    /// The first amount that no account has, by name.
    fn impossible_amount(&self) -> Option<&'static str> {
        let is_beyond = |amount: &Option<Amount>| amount.is_some_and(|amount| amount > Amount::from_usd(USD_MAX));
        let amount = self.amounts().into_iter().find(|(_, amount)| is_beyond(amount)).map(|(name, _)| name);
        let rate = self.waste.and_then(KnownSum::known);
        amount.or_else(|| rate.filter(|rate| *rate > Rate::from_usd_per_hour(USD_PER_HOUR_MAX)).map(|_| "waste"))
    }

    /// Sum of two. A figure that one of them does not know, the sum does not know either.
    fn plus(self, other: Self) -> Self {
        fn both<T: Copy + Default + PartialEq + std::ops::Add<Output = T>>(
            one: Option<KnownSum<T>>,
            other: Option<KnownSum<T>>,
        ) -> Option<KnownSum<T>> {
            one.zip(other).map(|(one, other)| one + other)
        }
        Self {
            spent: self.spent + other.spent,
            uncertain_usd: self.uncertain_usd + other.uncertain_usd,
            budget_usd: self.budget_usd.zip(other.budget_usd).map(|(one, other)| one + other),
            forecast_usd: self.forecast_usd.zip(other.forecast_usd).map(|(one, other)| one + other),
            previous_month: both(self.previous_month, other.previous_month),
            last_week: both(self.last_week, other.last_week),
            previous_week: both(self.previous_week, other.previous_week),
            saved: both(self.saved, other.saved),
            waste: both(self.waste, other.waste),
        }
    }
}

/// Reason why figures of an account do not count.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FiguresRefusal {
    #[error("they say that they are of {}", quoted(&shortened(.0, 20)))]
    OtherMonth(String),
    #[error("they are of the future: as of {0}")]
    Future(Timestamp),
    #[error("they are older than their month: as of {0}")]
    BeforeMonth(Timestamp),
    #[error("they have {0} teams, and {TEAMS_MAX} are the most")]
    TooManyTeams(usize),
    #[error("they have the team {} twice", quoted(&shortened(.0, 60)))]
    TeamTwice(String),
    #[error("they have a name with more than {NAME_CHARACTERS_MAX} characters")]
    LongName,
    #[error("{amount} of {} is no amount of money of one month", quoted(&shortened(.team, 60)))]
    ImpossibleAmount { amount: &'static str, team: String },
}

impl AccountFigures {
    /// The figures of `enforce-budgets`, from the documents of budgets; `None` if the account has none of this month, or the beat saw nothing.
    #[must_use]
    pub fn from_beat(beat: &PublishedBeat<'_>) -> Option<Self> {
        let PublishedBeat { budgets, account_name, mode, is_final, .. } = *beat;
        let month = beat.month.to_string();
        let account = budgets.get(&BudgetHolder::Account).filter(|budget| budget.month == month)?;
        if beat.seen_regions == 0 {
            return None;
        }
        let label = |team: &str| if team == model::notification_log::NO_TEAM { NO_TEAM } else { team }.to_owned();
        let document = |team: &str| budgets.get(&BudgetHolder::Team(TeamName::new(team)));
        let is_current = |budget: &&Budget| budget.month == month && budget.as_of == account.as_of;
        // A team whose document is older, or that has none, is known by its spend alone.
        let spent = |spent: Amount| Figures { spent: KnownSum::new(spent, 1), ..Figures::default() };
        let team_figures = |team: &str, known: Amount| {
            document(team).filter(is_current).map_or_else(|| spent(known), Figures::from_budget)
        };
        let mut teams: Vec<TeamFigures> = account
            .teams
            .iter()
            .map(|(team, known)| TeamFigures { team: label(team), figures: team_figures(team, *known) })
            .collect();
        // A team with a budget that has spent nothing yet.
        let idle = budgets.iter().filter_map(|(holder, budget)| Some((holder.team()?, budget)));
        let idle = idle.filter(|(team, budget)| !account.teams.contains_key(team.as_str()) && is_current(budget));
        teams.extend(
            idle.map(|(team, budget)| TeamFigures {
                team: label(team.as_str()),
                figures: Figures::from_budget(budget),
            }),
        );
        let shared = |row: &TeamFigures| document(&row.team).is_some_and(|budget| budget.shared.is_some());
        let shared: BTreeSet<String> = teams.iter().filter(|row| shared(row)).map(|row| row.team.clone()).collect();
        // The account's document names a limited number of teams.
        let unnamed = account.spent_usd.saturating_sub(account.teams.values().copied().sum());
        let others = unnamed.is_a_cent().then(|| OtherTeams { teams: 0, figures: spent(unnamed) });
        let mut figures = Self {
            account_name: account_name.map(str::to_owned),
            month,
            as_of: account.as_of?,
            known_since: account.ledger_since.filter(|since| *since > after(beat.month.span().from, BLIND_MAX)),
            is_final,
            mode: Some(mode),
            budget_usd: account.budget_usd,
            forecast_usd: account.forecast_usd,
            teams,
            other_teams: others,
        };
        let unseen = beat.unseen_regions.saturating_add(account.observation_gaps.len());
        figures.add_unseen(u64::try_from(unseen).unwrap_or(u64::MAX));
        Some(figures.bounded(&shared))
    }

    /// The figures of `send-report`, from the account's report.
    #[must_use]
    pub fn from_report(report: &MonthReport) -> Self {
        let teams = report.teams.iter();
        let teams = teams.map(|row| TeamFigures { team: row.team.clone(), figures: Figures::from_row(row, report) });
        let teams: Vec<TeamFigures> = teams.collect();
        let coverage = report.coverage;
        let mut figures = Self {
            account_name: report.account_name.clone(),
            month: report.month.clone(),
            // A ledger that is no longer kept makes old figures, whenever the report is made.
            as_of: coverage.known_until.filter(|_| !coverage.is_final).unwrap_or(report.at).min(report.at),
            known_since: report.ledger_since,
            is_final: coverage.is_final,
            mode: report.mode,
            budget_usd: report.headline.budget,
            forecast_usd: report.headline.forecast,
            other_teams: Figures::remainder(&teams, report).map(|figures| OtherTeams { teams: 0, figures }),
            teams,
        };
        figures.add_unseen(coverage.unseen);
        figures.bounded(&BTreeSet::new())
    }

    /// Makes each spend a lower bound: in so many regions or times any team may have spent more, also one without figures.
    pub(super) fn add_unseen(&mut self, unseen: u64) {
        if unseen == 0 {
            return;
        }
        let others = self.other_teams.get_or_insert_default();
        let teams = self.teams.iter_mut().map(|team| &mut team.figures);
        for figures in teams.chain([&mut others.figures]) {
            figures.spent = figures.spent + KnownSum::new(Amount::ZERO, unseen);
        }
    }

    /// Document with the dearest teams by name, and all others as one sum. Teams that share a budget with other accounts are named first: those
    /// could not know their spend otherwise.
    fn bounded(mut self, shared: &BTreeSet<String>) -> Self {
        self.account_name = self.account_name.map(|name| shortened(&name, PUBLISHED_CHARACTERS_MAX));
        for team in &mut self.teams {
            team.team = shortened(&team.team, PUBLISHED_CHARACTERS_MAX);
        }
        let place = |row: &TeamFigures| (Reverse(row.figures.spent), row.team.clone());
        self.teams.sort_by_cached_key(|row| (!shared.contains(&row.team), place(row)));
        // Names that only differ beyond the limit.
        let mut seen = BTreeSet::new();
        let (named, twice): (Vec<_>, Vec<_>) =
            self.teams.into_iter().partition(|team| seen.len() < TEAMS_MAX && seen.insert(team.team.clone()));
        self.teams = named;
        self.teams.sort_by_cached_key(place);
        let number = u64::try_from(twice.len()).unwrap_or(u64::MAX);
        let sum = twice.into_iter().map(|team| team.figures).reduce(Figures::plus);
        self.other_teams = match (self.other_teams, sum) {
            (Some(others), Some(sum)) => Some(OtherTeams { teams: number, figures: others.figures.plus(sum) }),
            (None, Some(figures)) => Some(OtherTeams { teams: number, figures }),
            (others, None) => others,
        };
        self
    }

    /// Checks what an account has published about a month.
    ///
    /// # Errors
    /// If it cannot be what it claims to be: nothing of it counts then.
    pub fn checked(self, month: &CalendarMonth, now: Timestamp) -> Result<Self, FiguresRefusal> {
        if self.month != month.to_string() {
            return Err(FiguresRefusal::OtherMonth(self.month));
        }
        if self.as_of > after(now, CLOCK_SKEW) {
            return Err(FiguresRefusal::Future(self.as_of));
        }
        if self.as_of < before(month.span().from, ZONES_APART) {
            return Err(FiguresRefusal::BeforeMonth(self.as_of));
        }
        if self.teams.len() > TEAMS_MAX {
            return Err(FiguresRefusal::TooManyTeams(self.teams.len()));
        }
        let is_long = |name: &str| name.chars().count() > NAME_CHARACTERS_MAX;
        if self.account_name.as_deref().is_some_and(is_long) || self.teams.iter().any(|team| is_long(&team.team)) {
            return Err(FiguresRefusal::LongName);
        }
        let mut names = BTreeSet::new();
        if let Some(twice) = self.teams.iter().find(|team| !names.insert(team.team.as_str())) {
            return Err(FiguresRefusal::TeamTwice(twice.team.clone()));
        }
        let account_figures =
            Figures { budget_usd: self.budget_usd, forecast_usd: self.forecast_usd, ..Figures::default() };
        let others = self.other_teams.as_ref().map(|others| ("other teams", others.figures));
        let teams = self.teams.iter().map(|team| (team.team.as_str(), team.figures));
        for (team, figures) in teams.chain(others).chain([("the account", account_figures)]) {
            if let Some(amount) = figures.impossible_amount() {
                return Err(FiguresRefusal::ImpossibleAmount { amount, team: team.to_owned() });
            }
        }
        Ok(self)
    }

    /// `true` if the figures are of the whole month: known until its end, wherever the account is.
    pub(crate) fn covers(&self, month: &CalendarMonth) -> bool {
        let end = month.span().to;
        self.as_of >= end || (self.is_final && self.as_of >= before(end, ZONES_APART))
    }

    /// The newer spend of one document, with savings, waste and earlier spend of the other.
    #[must_use]
    pub(crate) fn with_daily(mut self, daily: &Self) -> Self {
        let mut rest: Option<Figures> = None;
        let mut add_to_rest = |figures: Figures| {
            let figures = Figures { spent: KnownSum::default(), uncertain_usd: Amount::ZERO, ..figures };
            rest = Some(rest.map_or(figures, |sum| sum.plus(figures)));
        };
        for team in &daily.teams {
            let known = self.teams.iter_mut().find(|known| known.team == team.team).map(|known| &mut known.figures);
            if let Some(known) = known {
                *known = known.with_daily(team.figures);
                continue;
            }
            // It has spent nothing, or is among the other teams.
            if self.other_teams.is_none() && self.teams.len() < TEAMS_MAX {
                let spent = Figures { budget_usd: team.figures.budget_usd, ..Figures::default() };
                let figures = spent.with_daily(team.figures);
                self.teams.push(TeamFigures { team: team.team.clone(), figures });
            } else {
                add_to_rest(team.figures);
            }
        }
        if let Some(others) = &daily.other_teams {
            add_to_rest(others.figures);
        }
        if let Some(figures) = rest {
            let others = self.other_teams.get_or_insert_default();
            others.figures = others.figures.with_daily(figures);
        }
        self
    }
}

impl Figures {
    fn with_daily(self, daily: Self) -> Self {
        let Self { previous_month, last_week, previous_week, saved, waste, .. } = daily;
        Self { previous_month, last_week, previous_week, saved, waste, ..self }
    }
}

#[cfg(test)]
mod tests;
