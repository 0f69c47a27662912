//! What a beat says and holds: one step for each budget of which so much is spent that people are to hear of it.

use std::collections::BTreeMap;

use super::{Budget, Holder, Limit, OverBudgetBecause, Period, Verdict, explain};
use crate::config::{Config, OverBudget};
use crate::id::{Region, ResourceId};
use crate::instance::Tags;
use crate::mode::Mode;
use crate::notices::{Memory, Notices, Topic, told_of_budget};
use crate::plan::{Action, Because, Memo, Plan, Seen, Spared, SparedBecause, Step, Target};

/// From this share on a budget is spent.
pub const SPENT_PERCENT: u16 = 100;

/// Decides about each budget. `home` is the region with which it is remembered what was told; without that memory nothing is
/// told, for it would be told in every beat.
#[must_use]
pub fn decide(
    documents: &BTreeMap<Holder, Budget>,
    config: &Config,
    ceiling: Mode,
    memory: &Memory,
    home: &Region,
) -> Plan {
    let mut plan = Plan { seen: documents.len(), steps: Vec::new(), spared: Vec::new(), gaps: Vec::new() };
    for (holder, document) in documents {
        let limit = Limit::of(holder, config, ceiling);
        // One that could not be made anew is of what was set before.
        let document = &limit.map_or_else(|| document.clone(), |limit| document.under(&limit));
        let case = Case { holder, document, config, memory, home };
        match limit {
            None => plan.spared.push(case.spared(SparedBecause::WithoutBudget)),
            Some(limit) => match case.step(&limit) {
                Ok(step) => plan.steps.push(step),
                Err(because) => plan.spared.push(case.spared(because)),
            },
        }
    }
    plan
}

/// By what name a budget goes in plans, reports and notices: the team's, or `account`. No two share one.
#[must_use]
pub fn resource_of(holder: &Holder) -> ResourceId {
    match holder {
        Holder::Account => "account".into(),
        // Not to be taken for the account, nor for a team of the name that it has instead.
        Holder::Team(team) if team.as_str().trim_start_matches("team ") == "account" => {
            format!("team {team}").as_str().into()
        }
        Holder::Team(team) => team.as_str().into(),
    }
}

#[derive(Clone, Copy)]
struct Case<'a> {
    holder: &'a Holder,
    document: &'a Budget,
    config: &'a Config,
    memory: &'a Memory,
    home: &'a Region,
}

impl Case<'_> {
    /// The shares at which people hear of it. Whoever is held hears of that, whatever the configuration lists.
    fn thresholds(self) -> Vec<u16> {
        let of_team = match self.holder {
            Holder::Account => None,
            Holder::Team(name) => self.config.team(name).and_then(|team| team.notify_at_percent.clone()),
        };
        let mut thresholds = of_team.unwrap_or_else(|| self.config.account.notify_at_percent.clone());
        if self.document.over_budget.is_some_and(|action| action != OverBudget::Notify) {
            thresholds.push(SPENT_PERCENT);
        }
        thresholds.sort_unstable();
        thresholds.dedup();
        thresholds
    }

    fn step(self, limit: &Limit) -> Result<Step, SparedBecause> {
        let document = self.document;
        let Some(as_of) = document.as_of else { return Err(SparedBecause::BudgetUnknown) };
        // Of a budget of nothing everything is over.
        let of_nothing = if document.verdict == Verdict::Ok { 0 } else { u64::from(SPENT_PERCENT) };
        let percent = document.spent_usd.percent_of(limit.budget).unwrap_or(of_nothing);
        let reached = self.thresholds().into_iter().rfind(|share| u64::from(*share) <= percent);
        let Some(threshold_percent) = reached else { return Err(SparedBecause::WithinBudget) };
        let holds = matches!(document.verdict, Verdict::Hold | Verdict::Stop);
        let resource = resource_of(self.holder);
        let told_before = self.memory.get(self.home).is_none_or(|told| self.was_told(told, limit, threshold_percent));
        if told_before && !holds {
            return Err(SparedBecause::Told);
        }
        let because = OverBudgetBecause {
            month: document.month.clone(),
            month_began: Period::of(as_of, self.config).from,
            of: match self.holder {
                Holder::Account => "account",
                Holder::Team(_) => "team",
            },
            budget_usd: limit.budget,
            spent_usd: document.spent_usd,
            reserved_usd: document.reserved_usd,
            percent,
            threshold_percent,
            over_budget: limit.over_budget,
            as_of,
            told: explain::told(self.holder, document, percent),
        };
        let action = if holds { Action::Hold } else { Action::Notify };
        let seen = Seen::Budget { region: self.home.clone(), holder: resource, as_of, tags: Tags::new() };
        let step = Step::bare(self.target(), action, Because::OverBudget(because), document.mode, seen);
        Ok(Step { told_before, memo: self.memo(), ..step })
    }

    /// Of this share, or of a higher one: where the spend recedes, people have heard of more.
    fn was_told(self, notices: &Notices, limit: &Limit, threshold_percent: u16) -> bool {
        let resource = resource_of(self.holder);
        self.thresholds().into_iter().filter(|share| *share >= threshold_percent).any(|share| {
            notices.was_told(&resource, &Topic::budget(share), &told_of_budget(&self.document.month, limit, share))
        })
    }

    fn spared(self, because: SparedBecause) -> Spared {
        Spared { target: self.target(), because, finding: None, memo: self.memo() }
    }

    /// What was told of any share stays remembered: another month or another budget is told anew by its fingerprint.
    fn memo(self) -> Memo {
        Memo { standing: self.thresholds().into_iter().map(Topic::budget).collect(), ..Memo::default() }
    }

    fn target(self) -> Target {
        Target {
            region: self.home.clone(),
            resource: resource_of(self.holder),
            team: match self.holder {
                Holder::Account => None,
                Holder::Team(name) => Some(name.clone()),
            },
            owner: None,
            name: None,
            what: "budget".to_owned(),
        }
    }
}
