//! The rule of each key: the lines of an account that count beside those of its hub.
//!
//! A key protects one of two things. *Spend*: more is stopped, sooner, or less may be bought; there an account may be stricter. *Care*: people
//! have time, work is recognised, and a stop can be undone; there neither direction is stricter. Less care is dangerous, and more care can switch
//! a rule off, such as a grace of years. So the hub's line counts, and without one an account may only be more careful than the default.

use serde_json::Value;

use super::super::DiskPolicy;
use crate::duration;
use jiff::SignedDuration;

/// The rule of one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyRule {
    /// Spend: the account's line counts where it is at least as strict as the hub's, or the hub has none.
    Stricter(Order),
    /// Care: the hub's line counts. Without one, the account's counts where it is at least as careful as the default.
    Careful(Order),
    /// Spend and care: actions from the mildest on. As `Stricter`, but the last one cannot be undone, so that it takes a line of the hub, or the default.
    Action([&'static str; 3]),
    /// Facts by which all rules and sums work, and which could switch them off: the hub's line counts, or without one the default.
    HubOnly,
    /// No order: the hub's line counts, or without one the account's.
    Hub,
    /// Facts about the account, and its people: its own line counts, or without one the hub's.
    Account,
}

/// An order of values, by its end that is strict or careful.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    Shorter,
    /// Zero switches it off.
    ShorterAboveZero,
    /// `off` is the end of the other side.
    ShorterThanOff,
    Longer,
    Lower,
    Higher,
    True,
    False,
    /// Words, the last one is the strictest or most careful.
    Words(&'static [&'static str]),
    MoreItems,
    FewerItems,
    /// An empty list is every project.
    FewerProjects,
    /// An empty list is every region.
    MoreRegions,
    /// NVMe storage that stays for longer.
    LongerScratch,
}

use KeyRule::{Account, Action, Careful, Hub, HubOnly, Stricter};
use Order::{
    False, FewerItems, FewerProjects, Higher, Longer, LongerScratch, Lower, MoreItems, MoreRegions, Shorter,
    ShorterAboveZero, ShorterThanOff, True, Words,
};

const MODE: KeyRule = Stricter(Words(&["observe", "enforce"]));
const OVER_BUDGET: KeyRule = Stricter(Words(&["notify", "hold", "stop"]));
const RULE_ACTION: KeyRule = Action(["notify", "stop", "terminate"]);
/// A deleted app or endpoint can be made again from what stays.
const SAGEMAKER_ACTION: KeyRule = Stricter(Words(&["notify", "delete"]));

/// Every key but those of `[metrics]`, in the order of `docs/configuration.md`; `NAME` is any name.
const RULES: &[(&str, KeyRule)] = &[
    ("mode", MODE),
    ("regions", Stricter(MoreRegions)),
    ("tags.team", HubOnly),
    ("tags.owner", HubOnly),
    ("tags.required", Stricter(MoreItems)),
    // More keys protect machines of other controllers, and could exempt all.
    ("managed.tag_keys", HubOnly),
    ("untagged.mode", MODE),
    ("untagged.settle", Careful(Longer)),
    ("untagged.grace", Careful(Longer)),
    ("untagged.action", RULE_ACTION),
    ("untagged.spare_busy", Careful(True)),
    ("projects.tag", HubOnly),
    ("projects.allowed", Stricter(FewerProjects)),
    ("projects.grace", Careful(Longer)),
    ("projects.action", RULE_ACTION),
    ("idle.gpu_below_percent", Careful(Lower)),
    // `off` drops evidence of work, and `enforce` stops by power alone.
    ("idle.power", Careful(Words(&["enforce", "off", "notify"]))),
    ("idle.power_below_percent", Careful(Lower)),
    ("idle.window", Stricter(Shorter)),
    ("idle.coverage_min_percent", Careful(Higher)),
    ("idle.cpu_below_vcpus", Careful(Lower)),
    ("idle.network_below_mbps", Careful(Lower)),
    ("idle.disk_below_mbps", Careful(Lower)),
    ("idle.gpu_memory_held_mib", Careful(Lower)),
    ("idle.boot_grace", Careful(Longer)),
    ("idle.grace", Careful(Longer)),
    ("idle.action", RULE_ACTION),
    ("idle.local_disk", Careful(LongerScratch)),
    ("gangs.tag", HubOnly),
    ("gangs.placement_groups", Careful(True)),
    ("lifetime.max", Stricter(Shorter)),
    ("lifetime.grace", Careful(Longer)),
    ("lifetime.action", RULE_ACTION),
    // Zero would hold every action, which is no more than to observe.
    ("limits.actions_max", Careful(Lower)),
    ("limits.fleet_share_max_percent", Careful(Lower)),
    ("volumes.orphaned_after", Stricter(Shorter)),
    ("volumes.grace", Careful(Longer)),
    ("volumes.action", Action(["notify", "snapshot-and-delete", "delete"])),
    ("volumes.keep_snapshots", Careful(Longer)),
    ("reservations.empty_after", Stricter(Shorter)),
    ("file_systems.idle_after", Stricter(ShorterAboveZero)),
    ("sagemaker.mode", MODE),
    ("sagemaker.app_window", Stricter(Shorter)),
    ("sagemaker.app_action", SAGEMAKER_ACTION),
    ("sagemaker.endpoint_window", Stricter(Shorter)),
    ("sagemaker.endpoint_action", SAGEMAKER_ACTION),
    ("sagemaker.component_action", Stricter(Words(&["notify", "scale-to-zero"]))),
    ("sagemaker.job_window", Stricter(Shorter)),
    ("sagemaker.on_demand_training", Stricter(True)),
    ("sagemaker.low_use_requests_per_day", Stricter(Higher)),
    ("sagemaker.low_use_window", Hub),
    ("sagemaker.grace", Careful(Longer)),
    ("jobs.checkpoint_keep", Hub),
    ("jobs.no_progress_attempts_max", Stricter(Lower)),
    ("jobs.image", Hub),
    ("jobs.shared_role", Stricter(Words(&["allow", "deny"]))),
    ("jobs.teams", Stricter(Words(&["any", "configured"]))),
    ("jobs.ssh", Stricter(False)),
    ("jobs.idle_after", Stricter(ShorterThanOff)),
    ("jobs.gpus_max", Stricter(Lower)),
    ("jobs.usd_per_hour_max", Stricter(Lower)),
    ("jobs.confirm_above_usd", Stricter(Lower)),
    ("boxes.per_owner_max", Stricter(Lower)),
    ("boxes.runtime_max", Stricter(Shorter)),
    ("boxes.idle_min", Careful(Longer)),
    ("boxes.idle_max", Stricter(Shorter)),
    ("boxes.home_gib_max", Stricter(Lower)),
    ("account.name", Account),
    ("account.monthly_budget_usd", Stricter(Lower)),
    ("account.notify_at_percent", Stricter(MoreItems)),
    ("account.over_budget", OVER_BUDGET),
    ("account.over_budget_grace", Careful(Longer)),
    ("account.time_zone", Account),
    ("account.cost_explorer", Account),
    ("report.sender", Account),
    ("report.email", Account),
    ("notify.owners", Account),
    // A larger discount makes everything cheaper, and no budget is ever spent.
    ("prices.discount_percent.NAME", HubOnly),
    ("teams.NAME.mode", MODE),
    ("teams.NAME.local_disk", Careful(LongerScratch)),
    ("teams.NAME.email", Account),
    ("teams.NAME.monthly_budget_usd", Stricter(Lower)),
    ("teams.NAME.notify_at_percent", Stricter(MoreItems)),
    ("teams.NAME.over_budget", OVER_BUDGET),
    ("teams.NAME.gpus_max", Stricter(Lower)),
    ("teams.NAME.usd_per_hour_max", Stricter(Lower)),
    ("teams.NAME.boxes_per_owner_max", Stricter(Lower)),
    ("teams.NAME.box_runtime_max", Stricter(Shorter)),
    ("teams.NAME.box_idle_max", Stricter(Shorter)),
    ("teams.NAME.box_home_gib_max", Stricter(Lower)),
    ("teams.NAME.instance_profiles", Stricter(FewerItems)),
    ("teams.NAME.subnets", Stricter(FewerItems)),
    ("teams.NAME.security_groups", Stricter(FewerItems)),
    ("teams.NAME.images", Stricter(FewerItems)),
    ("teams.NAME.buckets", Stricter(FewerItems)),
    ("teams.NAME.idle_after", Stricter(ShorterThanOff)),
];

/// The rule of the key at this path.
pub(super) fn key_rule(path: &[String]) -> KeyRule {
    let pattern: Vec<&str> = match path {
        [teams, _, key] if teams == "teams" => vec![teams, "NAME", key],
        [prices, discounts, _] if prices == "prices" => vec![prices, discounts, "NAME"],
        path => path.iter().map(String::as_str).collect(),
    };
    let pattern = pattern.join(".");
    // Names of metrics have no order.
    RULES.iter().find(|(key, _)| *key == pattern).map_or(Hub, |(_, rule)| *rule)
}

/// The rules of all keys but those of `[metrics]`, in the order of `docs/configuration.md`; `NAME` is any name.
pub fn key_rules() -> impl Iterator<Item = (&'static str, KeyRule)> {
    RULES.iter().copied()
}

/// The key that holds for a team which does not set this one.
pub(super) fn key_of_all_teams(path: &[String]) -> Option<Vec<String>> {
    let [teams, _, key] = path else { return None };
    let all: &[&str] = match key.as_str() {
        "mode" => &["mode"],
        "local_disk" => &["idle", "local_disk"],
        "notify_at_percent" => &["account", "notify_at_percent"],
        "idle_after" => &["jobs", "idle_after"],
        _ => return None,
    };
    (teams == "teams").then(|| all.iter().map(|&key| key.to_owned()).collect())
}

impl Order {
    /// `true` if `own` is at least as strict, or as careful, as `other`.
    pub(super) fn is_at_least(self, own: &Value, other: &Value) -> bool {
        let lengths = || Some((length(own)?, length(other)?));
        let numbers = || Some((own.as_f64()?, other.as_f64()?));
        match self {
            Shorter => lengths().is_some_and(|(own, other)| own <= other),
            ShorterAboveZero => lengths()
                .is_some_and(|(own, other)| other.is_zero() || own.is_zero() == other.is_zero() && own <= other),
            ShorterThanOff => length_or_off(own) <= length_or_off(other),
            Longer => lengths().is_some_and(|(own, other)| own >= other),
            Lower => numbers().is_some_and(|(own, other)| own <= other),
            Higher => numbers().is_some_and(|(own, other)| own >= other),
            True => *own == Value::Bool(true) || *other == Value::Bool(false),
            False => *own == Value::Bool(false) || *other == Value::Bool(true),
            Words(words) => rank(words, own) >= rank(words, other),
            MoreItems => has_all(own, other),
            FewerItems => has_all(other, own),
            FewerProjects => items(other).is_empty() || !items(own).is_empty() && allows_no_more(own, other),
            MoreRegions => items(own).is_empty() || !items(other).is_empty() && has_all(own, other),
            LongerScratch => scratch_grace(own) >= scratch_grace(other),
        }
    }
}

/// The place of a word; an unknown one comes before all.
pub(super) fn rank(words: &[&str], value: &Value) -> Option<usize> {
    words.iter().position(|word| value == word)
}

fn length(value: &Value) -> Option<SignedDuration> {
    value.as_str().and_then(|text| duration::parse(text).ok())
}

fn length_or_off(value: &Value) -> SignedDuration {
    length(value).unwrap_or(SignedDuration::MAX)
}

fn items(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], Vec::as_slice)
}

/// `true` if `list` has every item of the other one.
fn has_all(list: &Value, other: &Value) -> bool {
    items(other).iter().all(|item| items(list).contains(item))
}

/// `true` if every project of `own` is one of `other`, as projects are compared.
fn allows_no_more(own: &Value, other: &Value) -> bool {
    let names = |list: &Value| -> Vec<String> {
        items(list).iter().filter_map(|name| Some(name.as_str()?.trim().to_lowercase())).collect()
    };
    let others = names(other);
    names(own).iter().all(|name| others.contains(name))
}

/// The time for which NVMe storage stays for sure.
fn scratch_grace(policy: &Value) -> SignedDuration {
    let policy = policy.as_str().and_then(|text| DiskPolicy::read(text).ok());
    policy.and_then(DiskPolicy::grace_min).unwrap_or(SignedDuration::MAX)
}
