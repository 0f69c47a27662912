//! The account's configuration by its structure: `model` reads the document that is made of it, the oracle the structure itself.

use std::fmt::Write as _;

use jiff::SignedDuration;
use model::config::{DiskPolicy, OverBudget, PowerEvidence, RuleAction};
use model::mode::Mode;
use model::rule::Rule;

use crate::chance::{DAY, HOUR, MINUTE, RandomStream};
use crate::tags::PROJECTS;

pub(crate) const TEAMS: [&str; 3] = ["vision", "speech", "robotics"];
/// The tag key of `[managed]`.
pub(crate) const MANAGED_TAG: &str = "spacelift";

#[derive(Clone)]
pub(crate) struct SimulatedConfig {
    pub(crate) mode: Mode,
    pub(crate) owner_required: bool,
    pub(crate) untagged: SimulatedUntagged,
    pub(crate) projects: SimulatedProjects,
    pub(crate) idle: SimulatedIdle,
    pub(crate) lifetime: SimulatedLifetime,
    /// From mark to stop of a machine over a budget.
    pub(crate) over_budget_grace: i64,
    /// The action above the account's budget, if it has one.
    pub(crate) account_over_budget: Option<OverBudget>,
    pub(crate) actions_max: i64,
    pub(crate) fleet_share_max_percent: i64,
    pub(crate) teams: [SimulatedTeam; 3],
}

#[derive(Clone)]
pub(crate) struct SimulatedUntagged {
    pub(crate) mode: Mode,
    pub(crate) settle: i64,
    pub(crate) grace: i64,
    pub(crate) action: RuleAction,
    pub(crate) spare_busy: bool,
}

#[derive(Clone)]
pub(crate) struct SimulatedProjects {
    /// `true` if the account has a list, of the first of [`PROJECTS`].
    pub(crate) is_listed: bool,
    pub(crate) grace: i64,
    pub(crate) action: RuleAction,
}

#[derive(Clone)]
pub(crate) struct SimulatedIdle {
    pub(crate) gpu_below_percent: f64,
    pub(crate) power: PowerEvidence,
    /// The threshold for GPUs of every model.
    pub(crate) power_below_percent: Option<f64>,
    pub(crate) window: i64,
    pub(crate) coverage_min_percent: i64,
    pub(crate) cpu_below_vcpus: f64,
    pub(crate) network_below_mbps: f64,
    pub(crate) disk_below_mbps: f64,
    pub(crate) held_mib: f64,
    pub(crate) boot_grace: i64,
    pub(crate) grace: i64,
    pub(crate) action: RuleAction,
    pub(crate) local_disk: DiskPolicy,
}

impl SimulatedIdle {
    /// Its section of the document.
    fn write_toml(&self, text: &mut String) {
        let _ = writeln!(
            text,
            "[idle]\ngpu_below_percent = {:?}\nwindow = \"{}s\"\ncoverage_min_percent = {}\ncpu_below_vcpus = {:?}",
            self.gpu_below_percent, self.window, self.coverage_min_percent, self.cpu_below_vcpus
        );
        let power = match self.power {
            PowerEvidence::Notify => "notify",
            PowerEvidence::Enforce => "enforce",
            PowerEvidence::Off => "off",
        };
        let _ = writeln!(text, "power = \"{power}\"");
        if let Some(percent) = self.power_below_percent {
            let _ = writeln!(text, "power_below_percent = {percent:?}");
        }
        let _ = writeln!(
            text,
            "network_below_mbps = {:?}\ndisk_below_mbps = {:?}\ngpu_memory_held_mib = {:?}\nboot_grace = \"{}s\"",
            self.network_below_mbps, self.disk_below_mbps, self.held_mib, self.boot_grace
        );
        let _ = writeln!(
            text,
            "grace = \"{}s\"\naction = \"{}\"\nlocal_disk = \"{}\"",
            self.grace,
            action(self.action),
            self.local_disk
        );
    }
}

#[derive(Clone)]
pub(crate) struct SimulatedLifetime {
    pub(crate) max: i64,
    pub(crate) grace: i64,
    pub(crate) action: RuleAction,
}

#[derive(Clone)]
pub(crate) struct SimulatedTeam {
    pub(crate) mode: Option<Mode>,
    pub(crate) local_disk: Option<DiskPolicy>,
    /// The action above its budget, if it has one.
    pub(crate) over_budget: Option<OverBudget>,
}

const OVER_BUDGET: [Option<OverBudget>; 6] =
    [None, None, Some(OverBudget::Notify), Some(OverBudget::Hold), Some(OverBudget::Stop), Some(OverBudget::Stop)];

const ENFORCE_MOSTLY: [Mode; 4] = [Mode::Enforce, Mode::Enforce, Mode::Enforce, Mode::Observe];
const STOP_MOSTLY: [RuleAction; 6] =
    [RuleAction::Stop, RuleAction::Stop, RuleAction::Stop, RuleAction::Stop, RuleAction::Terminate, RuleAction::Notify];
/// The policies of accounts, teams and owners for NVMe storage.
pub(crate) const DISKS: [DiskPolicy; 3] =
    [DiskPolicy::Keep, DiskPolicy::Expendable, DiskPolicy::ExpendableAfter(SignedDuration::from_hours(3))];

impl SimulatedConfig {
    pub(crate) fn draw(chance: &mut RandomStream) -> Self {
        Self {
            mode: chance.pick(&ENFORCE_MOSTLY),
            owner_required: !chance.one_in(4),
            untagged: SimulatedUntagged {
                mode: chance.pick(&[Mode::Enforce, Mode::Observe]),
                settle: chance.pick(&[0, 10 * MINUTE, HOUR]),
                grace: chance.pick(&[0, HOUR, 6 * HOUR, DAY]),
                action: chance.pick(&STOP_MOSTLY),
                spare_busy: !chance.one_in(3),
            },
            projects: SimulatedProjects {
                is_listed: chance.one_in(2),
                grace: chance.pick(&[0, HOUR, DAY]),
                action: chance.pick(&STOP_MOSTLY),
            },
            idle: SimulatedIdle {
                gpu_below_percent: chance.pick(&[5.0, 10.0]),
                power: chance.pick(&[PowerEvidence::Notify, PowerEvidence::Enforce, PowerEvidence::Off]),
                power_below_percent: chance.pick(&[None, None, Some(1.0), Some(30.0)]),
                window: chance.pick(&[20 * MINUTE, HOUR, HOUR, 2 * HOUR]),
                coverage_min_percent: chance.pick(&[80, 90, 90, 100]),
                cpu_below_vcpus: chance.pick(&[1.0, 1.5]),
                network_below_mbps: chance.pick(&[5.0, 10.0]),
                disk_below_mbps: chance.pick(&[5.0, 10.0]),
                held_mib: chance.pick(&[1024.0, 4096.0]),
                boot_grace: chance.pick(&[0, 10 * MINUTE, 30 * MINUTE]),
                grace: chance.pick(&[0, 20 * MINUTE, HOUR, 2 * HOUR]),
                action: chance.pick(&STOP_MOSTLY),
                local_disk: chance.pick(&DISKS),
            },
            over_budget_grace: chance.pick(&[0, HOUR, HOUR, 6 * HOUR]),
            account_over_budget: if chance.one_in(4) { chance.pick(&OVER_BUDGET) } else { None },
            lifetime: SimulatedLifetime {
                max: chance.pick(&[2 * DAY, 7 * DAY, 30 * DAY]),
                grace: chance.pick(&[0, HOUR, DAY]),
                action: chance.pick(&[RuleAction::Notify, RuleAction::Stop, RuleAction::Terminate]),
            },
            actions_max: chance.pick(&[0, 1, 2, 10, 10, 10, 10, 10]),
            fleet_share_max_percent: chance.pick(&[10, 20, 50, 100]),
            teams: std::array::from_fn(|_| SimulatedTeam {
                mode: chance.pick(&[None, Some(Mode::Enforce), Some(Mode::Enforce), Some(Mode::Observe)]),
                local_disk: if chance.one_in(2) { Some(chance.pick(&DISKS)) } else { None },
                over_budget: chance.pick(&OVER_BUDGET),
            }),
        }
    }

    /// The time from mark to action of a rule, unless the machine has NVMe storage.
    pub(crate) const fn grace(&self, rule: Rule) -> i64 {
        match rule {
            Rule::Idle => self.idle.grace,
            Rule::Untagged => self.untagged.grace,
            Rule::UnlistedProject => self.projects.grace,
            Rule::Lifetime => self.lifetime.grace,
            Rule::OverBudget => self.over_budget_grace,
            Rule::Expired => 15 * MINUTE,
            Rule::Hours | Rule::Orphaned => 0,
        }
    }

    /// A person edits a section.
    pub(crate) fn edit(&mut self, chance: &mut RandomStream) {
        let other = Self::draw(chance);
        match chance.below(9) {
            0 => self.mode = other.mode,
            1 => self.untagged = other.untagged,
            2 => self.idle = other.idle,
            3 => self.lifetime = other.lifetime,
            4 => {
                self.actions_max = other.actions_max;
                self.fleet_share_max_percent = other.fleet_share_max_percent;
            }
            5 => self.teams = other.teams,
            6 => {
                self.over_budget_grace = other.over_budget_grace;
                self.account_over_budget = other.account_over_budget;
            }
            7 => self.projects = other.projects,
            _ => self.owner_required = other.owner_required,
        }
    }

    /// The action above the budget of a team, or of the account, by its place; none without a budget.
    pub(crate) fn over_budget(&self, holder: usize) -> Option<OverBudget> {
        self.teams.get(holder).map_or(self.account_over_budget, |team| team.over_budget)
    }

    /// The mode of the budget's holder.
    pub(crate) fn mode_of(&self, holder: usize) -> Mode {
        self.teams.get(holder).and_then(|team| team.mode).unwrap_or(self.mode)
    }

    /// The document.
    pub(crate) fn toml(&self) -> String {
        let Self { untagged, projects, idle, lifetime, .. } = self;
        let required = if self.owner_required { "\"Team\", \"Owner\"" } else { "\"Team\"" };
        let mut text = format!("mode = \"{}\"\n[tags]\nrequired = [{required}]\n", mode(self.mode));
        let _ = writeln!(text, "[managed]\ntag_keys = [\"{MANAGED_TAG}\"]");
        let _ = writeln!(
            text,
            "[untagged]\nmode = \"{}\"\nsettle = \"{}s\"\ngrace = \"{}s\"\naction = \"{}\"\nspare_busy = {}",
            mode(untagged.mode),
            untagged.settle,
            untagged.grace,
            action(untagged.action),
            untagged.spare_busy
        );
        let allowed = if projects.is_listed { format!("\"{}\"", PROJECTS[0].to_uppercase()) } else { String::new() };
        let _ = writeln!(
            text,
            "[projects]\nallowed = [{allowed}]\ngrace = \"{}s\"\naction = \"{}\"",
            projects.grace,
            action(projects.action)
        );
        idle.write_toml(&mut text);
        let _ = writeln!(
            text,
            "[lifetime]\nmax = \"{}s\"\ngrace = \"{}s\"\naction = \"{}\"",
            lifetime.max,
            lifetime.grace,
            action(lifetime.action)
        );
        let _ = writeln!(
            text,
            "[limits]\nactions_max = {}\nfleet_share_max_percent = {}",
            self.actions_max, self.fleet_share_max_percent
        );
        let _ = writeln!(text, "[account]\nover_budget_grace = \"{}s\"", self.over_budget_grace);
        if let Some(action) = self.account_over_budget {
            let _ = writeln!(text, "monthly_budget_usd = 100\nover_budget = \"{}\"", over_budget(action));
        }
        for (name, team) in TEAMS.iter().zip(&self.teams) {
            let _ = writeln!(text, "[teams.{name}]");
            if let Some(own) = team.mode {
                let _ = writeln!(text, "mode = \"{}\"", mode(own));
            }
            if let Some(own) = team.local_disk {
                let _ = writeln!(text, "local_disk = \"{own}\"");
            }
            if let Some(own) = team.over_budget {
                let _ = writeln!(text, "monthly_budget_usd = 100\nover_budget = \"{}\"", over_budget(own));
            }
        }
        text
    }
}

pub(crate) use crate::jobs::name as job_name;

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

pub(crate) const fn over_budget(action: OverBudget) -> &'static str {
    match action {
        OverBudget::Notify => "notify",
        OverBudget::Hold => "hold",
        OverBudget::Stop => "stop",
    }
}
