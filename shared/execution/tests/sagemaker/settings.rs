//! The account's configuration by its structure: `model` reads the document that is made of it, the oracle the structure itself.

use std::fmt::Write as _;

use model::config::{OverBudget, RuleAction};
use model::mode::Mode;

use crate::budgets::{HOLDERS, OF_ACCOUNT};
use crate::chance::{DAY, HOUR, MINUTE, RandomStream};

pub(crate) const TEAMS: [&str; 3] = ["vision", "speech", "robotics"];
/// The tag key of `[managed]`.
pub(crate) const MANAGED_TAG: &str = "spacelift";

#[derive(Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of its own")]
pub(crate) struct SimulatedConfig {
    pub(crate) mode: Mode,
    pub(crate) teams: [Option<Mode>; 3],
    /// The action above the budget of each team and of the account; none without a budget.
    over_budget: [Option<OverBudget>; HOLDERS],
    pub(crate) over_budget_grace: i64,
    /// `[sagemaker] mode`.
    pub(crate) at_most: Mode,
    pub(crate) deletes_apps: bool,
    pub(crate) deletes_endpoints: bool,
    pub(crate) scales_components: bool,
    pub(crate) app_window: i64,
    pub(crate) endpoint_window: i64,
    pub(crate) job_window: i64,
    pub(crate) grace: i64,
    pub(crate) coverage_min_percent: i64,
    pub(crate) untagged: SimulatedRule,
    /// How long tags may still arrive, and how old a resource may become.
    pub(crate) settle: i64,
    pub(crate) age_max: i64,
    pub(crate) untagged_mode: Mode,
    pub(crate) spare_busy: bool,
    pub(crate) lifetime: SimulatedRule,
    pub(crate) actions_max: i64,
    pub(crate) fleet_share_max_percent: i64,
}

/// What a rule does, and how long after it announced that.
#[derive(Clone, Copy)]
pub(crate) struct SimulatedRule {
    pub(crate) action: RuleAction,
    pub(crate) grace: i64,
}

const MODES: [Mode; 4] = [Mode::Enforce, Mode::Enforce, Mode::Enforce, Mode::Observe];
const OVER_BUDGET: [Option<OverBudget>; 6] =
    [None, None, None, Some(OverBudget::Notify), Some(OverBudget::Hold), Some(OverBudget::Stop)];
const ACTIONS: [RuleAction; 4] = [RuleAction::Stop, RuleAction::Stop, RuleAction::Terminate, RuleAction::Notify];

impl SimulatedConfig {
    pub(crate) fn draw(chance: &mut RandomStream) -> Self {
        let rule = |chance: &mut RandomStream| SimulatedRule {
            action: chance.pick(&ACTIONS),
            grace: chance.pick(&[0, 4 * HOUR, DAY]),
        };
        Self {
            mode: chance.pick(&MODES),
            teams: std::array::from_fn(|_| chance.pick(&[None, None, Some(Mode::Enforce), Some(Mode::Observe)])),
            over_budget: std::array::from_fn(|_| chance.pick(&OVER_BUDGET)),
            over_budget_grace: chance.pick(&[0, HOUR, HOUR, 6 * HOUR]),
            at_most: chance.pick(&MODES),
            deletes_apps: !chance.one_in(5),
            deletes_endpoints: !chance.one_in(4),
            scales_components: !chance.one_in(4),
            app_window: chance.pick(&[HOUR, 4 * HOUR, 12 * HOUR]),
            endpoint_window: chance.pick(&[2 * HOUR, DAY, DAY, 3 * DAY]),
            job_window: chance.pick(&[HOUR, 2 * HOUR, 8 * HOUR]),
            grace: chance.pick(&[0, HOUR, 4 * HOUR, DAY]),
            coverage_min_percent: chance.pick(&[50, 90, 90, 100]),
            untagged: rule(chance),
            settle: chance.pick(&[10 * MINUTE, 6 * HOUR]),
            age_max: chance.pick(&[2 * DAY, 7 * DAY, 20 * DAY]),
            untagged_mode: chance.pick(&[Mode::Enforce, Mode::Observe]),
            spare_busy: !chance.one_in(4),
            lifetime: rule(chance),
            actions_max: chance.pick(&[0, 1, 2, 10, 10, 10, 10, 10]),
            fleet_share_max_percent: chance.pick(&[10, 20, 50, 100]),
        }
    }

    /// A person edits a part of it, or all.
    pub(crate) fn edit(&mut self, chance: &mut RandomStream) {
        let other = Self::draw(chance);
        match chance.below(8) {
            0 => self.mode = other.mode,
            1 => self.teams = other.teams,
            2 => self.at_most = other.at_most,
            3 => *self = other,
            4 => (self.untagged, self.settle, self.untagged_mode) = (other.untagged, other.settle, other.untagged_mode),
            6 => (self.over_budget, self.over_budget_grace) = (other.over_budget, other.over_budget_grace),
            5 => (self.lifetime, self.age_max) = (other.lifetime, other.age_max),
            _ => (self.actions_max, self.fleet_share_max_percent) = (other.actions_max, other.fleet_share_max_percent),
        }
    }

    /// The action above the budget of a team, or of the account, by its place.
    pub(crate) const fn over_budget(&self, holder: usize) -> Option<OverBudget> {
        self.over_budget[holder]
    }

    /// The mode of the budget's holder.
    pub(crate) fn mode_of(&self, holder: usize) -> Mode {
        self.teams.get(holder).copied().flatten().unwrap_or(self.mode)
    }

    /// The document.
    pub(crate) fn toml(&self) -> String {
        let configured = |deletes| if deletes { "delete" } else { "notify" };
        let mut text = format!("mode = \"{}\"\n[managed]\ntag_keys = [\"{MANAGED_TAG}\"]\n", mode(self.mode));
        let _ = writeln!(
            text,
            "[sagemaker]\nmode = \"{}\"\napp_action = \"{}\"\nendpoint_action = \"{}\"\ncomponent_action = \"{}\"\ngrace = \"{}s\"\napp_window = \"{}s\"\n\
             endpoint_window = \"{}s\"\njob_window = \"{}s\"",
            mode(self.at_most),
            configured(self.deletes_apps),
            configured(self.deletes_endpoints),
            if self.scales_components { "scale-to-zero" } else { "notify" },
            self.grace,
            self.app_window,
            self.endpoint_window,
            self.job_window
        );
        let _ = writeln!(text, "[idle]\ncoverage_min_percent = {}", self.coverage_min_percent);
        for (section, rule) in [("untagged", self.untagged), ("lifetime", self.lifetime)] {
            let _ = writeln!(text, "[{section}]\naction = \"{}\"\ngrace = \"{}s\"", action(rule.action), rule.grace);
            let _ = match section {
                "lifetime" => writeln!(text, "max = \"{}s\"", self.age_max),
                _ => writeln!(
                    text,
                    "mode = \"{}\"\nsettle = \"{}s\"\nspare_busy = {}",
                    mode(self.untagged_mode),
                    self.settle,
                    self.spare_busy
                ),
            };
        }
        let _ = writeln!(
            text,
            "[limits]\nactions_max = {}\nfleet_share_max_percent = {}",
            self.actions_max, self.fleet_share_max_percent
        );
        let _ = writeln!(
            text,
            "[account]\nover_budget_grace = \"{}s\"\n{}",
            self.over_budget_grace,
            self.budget(OF_ACCOUNT)
        );
        for (holder, (name, own)) in TEAMS.iter().zip(self.teams).enumerate() {
            let own = own.map(|own| format!("mode = \"{}\"\n", mode(own)));
            let _ = writeln!(text, "[teams.{name}]\n{}{}", own.unwrap_or_default(), self.budget(holder));
        }
        text
    }

    fn budget(&self, holder: usize) -> String {
        let action = match self.over_budget[holder] {
            None => return String::new(),
            Some(OverBudget::Notify) => "notify",
            Some(OverBudget::Hold) => "hold",
            Some(OverBudget::Stop) => "stop",
        };
        format!("monthly_budget_usd = 100\nover_budget = \"{action}\"")
    }
}

/// A tag for instances, which says nothing of what runs in `SageMaker`.
pub(crate) fn job_name(job: u32) -> String {
    format!("vision/train-{job}")
}

pub(crate) const fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Enforce => "enforce",
        Mode::Observe => "observe",
    }
}

pub(crate) const fn action(action: RuleAction) -> &'static str {
    match action {
        RuleAction::Stop => "stop",
        RuleAction::Terminate => "terminate",
        RuleAction::Notify => "notify",
    }
}
