//! Differences between two configurations, and those that make Curfew act sooner, harder or on more.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use jiff::SignedDuration;
use serde_json::Value;

use super::{Config, DiskPolicy, Settings};
use crate::duration;
use crate::id::TeamName;

/// A value that differs. Of a key without a default, such as a team's, one side may be absent.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfigChange {
    /// The full key.
    pub key: String,
    pub from: Option<Value>,
    /// The new value.
    pub to: Option<Value>,
    /// A reason to look at the change twice: something that Curfew does by it and did not do before.
    pub beware: Option<&'static str>,
}

/// Every difference, in the order of `docs/configuration.md`.
#[must_use]
pub fn changes(from: &Config, to: &Config) -> Vec<ConfigChange> {
    let (old, new) = (Settings::from_config(from), Settings::from_config(to));
    let (before, after) = (by_key(&old), by_key(&new));
    let gone = old.values().filter(|setting| !after.contains_key(&setting.key));
    let keys = new.values().chain(gone).map(|setting| setting.key);
    let different = keys.filter(|key| before.get(key) != after.get(key));
    different
        .map(|key| {
            let (from, to) = (before.get(&key).cloned(), after.get(&key).cloned());
            let in_force = (from.as_ref().or(unsaid(&key, &before)), to.as_ref().or(unsaid(&key, &after)));
            let beware = in_force.0.zip(in_force.1).and_then(|(from, to)| beware(&key, from, to));
            let beware = beware.or_else(|| newly_limited(&key, (from.as_ref(), to.as_ref()), &after));
            let beware = beware.or_else(|| no_longer_limited(&key, to.as_ref()));
            ConfigChange { key, from, to, beware }
        })
        .collect()
}

/// The teams that the one says something of, and the other nothing: what they set for themselves is gone, also where that was
/// an entry without a value.
#[must_use]
pub fn teams_lost(from: &Config, to: &Config) -> Vec<TeamName> {
    from.teams.keys().filter(|team| !to.teams.contains_key(*team)).cloned().collect()
}

fn by_key(settings: &Settings) -> BTreeMap<String, Value> {
    settings.values().map(|setting| (setting.key, setting.value)).collect()
}

/// The action over a team's budget, by default.
static NOTIFY: LazyLock<Value> = LazyLock::new(|| "notify".into());

/// The keys of what a team's jobs and triggers may use of the account.
const ALLOW_LISTS: [&str; 5] = ["instance_profiles", "subnets", "security_groups", "images", "buckets"];

/// The value in force for a team without a list: it may use nothing.
static NONE: LazyLock<Value> = LazyLock::new(|| Value::Array(Vec::new()));

/// A team without a budget gets one. If the action is only to notify, that needs no warning.
fn newly_limited(
    key: &str,
    (from, to): (Option<&Value>, Option<&Value>),
    after: &BTreeMap<String, Value>,
) -> Option<&'static str> {
    let section = key.strip_suffix(".monthly_budget_usd")?;
    let action = after.get(&format!("{section}.over_budget")).unwrap_or(&NOTIFY);
    (from.is_none() && to.is_some() && *action != *NOTIFY).then_some("there was no budget to be over")
}

const DEARER_MACHINES: &str = "machines of jobs may be larger, or dearer";
const LARGER_BOXES: &str = "boxes may be more, last longer, or have larger homes";

/// The keys of a team that limit its boxes.
const BOX_CEILINGS: [&str; 4] = ["boxes_per_owner_max", "box_runtime_max", "box_idle_max", "box_home_gib_max"];

/// A ceiling of the machines of jobs is gone.
fn no_longer_limited(key: &str, to: Option<&Value>) -> Option<&'static str> {
    let is_gone = |keys: &[&str]| to.is_none() && keys.iter().any(|name| key.ends_with(&format!(".{name}")));
    if is_gone(&["gpus_max", "usd_per_hour_max"]) {
        return Some(DEARER_MACHINES);
    }
    is_gone(&BOX_CEILINGS).then_some(LARGER_BOXES)
}

/// Returns the value in force for a team that does not set this key itself.
fn unsaid<'a>(key: &str, all: &'a BTreeMap<String, Value>) -> Option<&'a Value> {
    match key.strip_prefix("teams.")?.rsplit_once('.')?.1 {
        "mode" => all.get("mode"),
        "local_disk" => all.get("idle.local_disk"),
        "over_budget" => Some(&NOTIFY),
        list if ALLOW_LISTS.contains(&list) => Some(&NONE),
        _ => None,
    }
}

fn beware(key: &str, from: &Value, to: &Value) -> Option<&'static str> {
    let (rises, falls) = (from.as_f64() < to.as_f64(), from.as_f64() > to.as_f64());
    let length = |value: &Value| value.as_str().and_then(|text| duration::parse(text).ok());
    let becomes = |value: Value| *to == value && *from != value;
    let (is_so, why) = match key.rsplit('.').next()? {
        "mode" => (becomes("enforce".into()), "it acts where it only observed"),
        "settle" | "boot_grace" | "window" | "app_window" | "endpoint_window" | "job_window" | "max"
        | "orphaned_after" => (length(to) < length(from), "it acts sooner"),
        "over_budget_grace" => (length(to) < length(from), "the grace before a stop over budget is shorter"),
        "over_budget" => (strictness(to) > strictness(from), "a spent budget does more than it did"),
        "monthly_budget_usd" => (falls, "the budget is spent sooner"),
        "grace" => (length(to) < length(from), "people have less time after the announcement"),
        "keep_snapshots" => (length(to) < length(from), "deleted volumes can be restored for a shorter time"),
        "action" | "app_action" | "endpoint_action" | "component_action" => {
            (harshness(to) > harshness(from), "it stops more, or in a harsher way")
        }
        "local_disk" => (scratch_grace(to) < scratch_grace(from), "NVMe storage may be lost, or sooner"),
        "spare_busy" => (becomes(false.into()), "instances that work may be stopped"),
        "power" => (becomes("enforce".into()), "power alone is enough to stop an instance"),
        "gpu_below_percent"
        | "power_below_percent"
        | "cpu_below_vcpus"
        | "network_below_mbps"
        | "disk_below_mbps"
        | "gpu_memory_held_mib" => (rises, "more counts as idle"),
        "coverage_min_percent" => (falls, "less evidence is enough for idle"),
        "actions_max" | "fleet_share_max_percent" => (rises, "one run may stop more"),
        "required" => (has_more(from, to), "more counts as untagged"),
        "allowed" if key == "projects.allowed" => {
            (allows_fewer(from, to), "projects that may run now will count as unlisted")
        }
        "tag" if key == "gangs.tag" => (from != to, "instances that work together are known by another tag"),
        "tag" if key == "projects.tag" => (from != to, "projects are read from another tag"),
        "placement_groups" => (becomes(false.into()), "an instance of a placement group may be stopped alone"),
        "tag_keys" => (has_more(to, from), "fewer resources count as managed by others"),
        list if ALLOW_LISTS.contains(&list) => {
            (has_more(from, to), "jobs and triggers of the team may use more of the account")
        }
        "gpus_max" | "usd_per_hour_max" => (rises, DEARER_MACHINES),
        "per_owner_max" | "boxes_per_owner_max" | "home_gib_max" | "box_home_gib_max" => (rises, LARGER_BOXES),
        "runtime_max" | "box_runtime_max" | "idle_max" | "box_idle_max" => (length(to) > length(from), LARGER_BOXES),
        "idle_min" => (length(to) < length(from), "boxes may end sooner"),
        "confirm_above_usd" => (rises, "dearer jobs are submitted without a question"),
        "teams" => {
            (becomes("any".into()), "every folder of the inbox makes jobs, not only those of the teams named here")
        }
        "regions" => (looks_further(from, to), "it looks at more regions"),
        _ => return None,
    };
    is_so.then_some(why)
}

fn harshness(action: &Value) -> u8 {
    match action.as_str() {
        Some("stop" | "snapshot-and-delete" | "scale-to-zero") => 1,
        Some("terminate" | "delete") => 2,
        _ => 0,
    }
}

fn strictness(over_budget: &Value) -> u8 {
    match over_budget.as_str() {
        Some("hold") => 1,
        Some("stop") => 2,
        _ => 0,
    }
}

/// The time for which NVMe storage stays for sure.
fn scratch_grace(policy: &Value) -> SignedDuration {
    let policy = policy.as_str().and_then(|text| DiskPolicy::read(text).ok());
    policy.and_then(DiskPolicy::grace_min).unwrap_or(SignedDuration::MAX)
}

fn items(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], Vec::as_slice)
}

/// `true` if `to` has an item that `from` lacks.
fn has_more(from: &Value, to: &Value) -> bool {
    items(to).iter().any(|item| !items(from).contains(item))
}

/// An empty list is every project.
fn allows_fewer(from: &Value, to: &Value) -> bool {
    !items(to).is_empty() && (items(from).is_empty() || has_more(to, from))
}

/// An empty list is every region.
fn looks_further(from: &Value, to: &Value) -> bool {
    !items(from).is_empty() && (items(to).is_empty() || has_more(from, to))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::as_toml;

    /// `key: from -> to`, and `!` where one is to beware.
    fn check(from: &str, to: &str, expect: &[&str]) {
        let changes = changes(&Config::read(from).unwrap(), &Config::read(to).unwrap());
        let show = |value: &Option<Value>| value.as_ref().map_or("-".to_owned(), as_toml);
        let shown: Vec<String> = changes
            .iter()
            .map(|ConfigChange { key, from, to, beware }| {
                format!("{key}: {} -> {}{}", show(from), show(to), if beware.is_some() { " !" } else { "" })
            })
            .collect();
        assert_eq!(shown, expect);
    }

    #[test]
    fn equal_values_are_no_change() {
        check("", "", &[]);
        check("", "mode = \"observe\"\n[idle]\nwindow = \"60m\"", &[]);
    }

    #[test]
    fn in_the_order_of_the_reference() {
        check(
            "[teams.a]\nemail = \"a@example.com\"",
            "[teams.b]\nmonthly_budget_usd = 5\n[idle]\ngrace = \"2h\"\n[tags]\nteam = \"squad\"",
            &[
                "tags.team: \"Team\" -> \"squad\"",
                "idle.grace: \"1h\" -> \"2h\"",
                "teams.b.monthly_budget_usd: - -> 5",
                "teams.a.email: \"a@example.com\" -> -",
            ],
        );
    }

    #[test]
    fn beware_of_what_acts_sooner_or_harder() {
        let harsher = "mode = \"enforce\"\n[idle]\ngrace = \"0s\"\naction = \"terminate\"\n[volumes]\naction = \"delete\"\n\
                       [limits]\nactions_max = 99";
        check(
            "",
            harsher,
            &[
                "mode: \"observe\" -> \"enforce\" !",
                "idle.grace: \"1h\" -> \"0s\" !",
                "idle.action: \"stop\" -> \"terminate\" !",
                "limits.actions_max: 10 -> 99 !",
                "volumes.action: \"snapshot-and-delete\" -> \"delete\" !",
            ],
        );
        let milder = changes(&Config::read(harsher).unwrap(), &Config::default());
        assert!(milder.len() == 5 && milder.iter().all(|change| change.beware.is_none()), "{milder:?}");
    }

    #[test]
    fn beware_of_budgets_that_are_spent_sooner_or_do_more() {
        let mild =
            "[account]\nmonthly_budget_usd = 9000\n[teams.vision]\nmonthly_budget_usd = 5000\nover_budget = \"hold\"";
        let harsh = "[account]\nmonthly_budget_usd = 900\nover_budget = \"stop\"\nover_budget_grace = \"0s\"\n\
                     [teams.vision]\nmonthly_budget_usd = 50.5\nover_budget = \"stop\"";
        check(
            mild,
            harsh,
            &[
                "account.monthly_budget_usd: 9000 -> 900 !",
                "account.over_budget: \"notify\" -> \"stop\" !",
                "account.over_budget_grace: \"1h\" -> \"0s\" !",
                "teams.vision.monthly_budget_usd: 5000 -> 50.5 !",
                "teams.vision.over_budget: \"hold\" -> \"stop\" !",
            ],
        );
        let milder = changes(&Config::read(harsh).unwrap(), &Config::read(mild).unwrap());
        assert!(milder.len() == 5 && milder.iter().all(|change| change.beware.is_none()), "{milder:?}");
    }

    #[test]
    fn a_team_without_an_action_is_notify_only() {
        check("[teams.a]", "[teams.a]\nover_budget = \"hold\"", &["teams.a.over_budget: - -> \"hold\" !"]);
        check("[teams.a]", "[teams.a]\nover_budget = \"notify\"", &["teams.a.over_budget: - -> \"notify\""]);
        check("[teams.a]\nover_budget = \"stop\"", "[teams.a]", &["teams.a.over_budget: \"stop\" -> -"]);
    }

    #[test]
    fn a_budget_where_there_was_none() {
        let budget = |said: &str| format!("[teams.\"a.b\"]\n{said}monthly_budget_usd = 5");
        check("", &budget(""), &["teams.\"a.b\".monthly_budget_usd: - -> 5"]);
        let stops = "over_budget = \"stop\"\n";
        check(&format!("[teams.\"a.b\"]\n{stops}"), &budget(stops), &["teams.\"a.b\".monthly_budget_usd: - -> 5 !"]);
        check(&budget(stops), &format!("[teams.\"a.b\"]\n{stops}"), &["teams.\"a.b\".monthly_budget_usd: 5 -> -"]);
    }

    #[test]
    fn beware_of_lists_by_what_they_mean() {
        check("regions = [\"a\", \"b\"]", "regions = [\"a\"]", &["regions: [\"a\", \"b\"] -> [\"a\"]"]);
        check("regions = [\"a\"]", "", &["regions: [\"a\"] -> [] !"]);
        check("", "regions = [\"a\"]", &["regions: [] -> [\"a\"]"]);
        check("[managed]\ntag_keys = [\"x\"]", "", &["managed.tag_keys: [\"x\"] -> [] !"]);
        let projects = |list: &str| format!("[projects]\nallowed = {list}");
        check("", &projects(r#"["a"]"#), &[r#"projects.allowed: [] -> ["a"] !"#]);
        check(&projects(r#"["a", "b"]"#), &projects(r#"["b"]"#), &[r#"projects.allowed: ["a", "b"] -> ["b"] !"#]);
        check(&projects(r#"["a"]"#), &projects(r#"["a", "b"]"#), &[r#"projects.allowed: ["a"] -> ["a", "b"]"#]);
        check(&projects(r#"["a"]"#), "", &[r#"projects.allowed: ["a"] -> []"#]);
        check("", "[gangs]\ntag = \"Cluster\"", &[r#"gangs.tag: "" -> "Cluster" !"#]);
        check("", "[gangs]\nplacement_groups = false", &["gangs.placement_groups: true -> false !"]);
        check("", "[projects]\ntag = \"CostCenter\"", &[r#"projects.tag: "Project" -> "CostCenter" !"#]);
        check("[tags]\nrequired = []", "[tags]\nrequired = [\"a\"]", &["tags.required: [] -> [\"a\"] !"]);
    }

    #[test]
    fn beware_of_what_jobs_may_use() {
        let (one, two) = ("[teams.a]\nsubnets = [\"subnet-0123abcd\"]", "[teams.a]\nbuckets = [\"data/a\"]");
        check("[teams.a]", one, &["teams.a.subnets: - -> [\"subnet-0123abcd\"] !"]);
        check(one, two, &["teams.a.buckets: - -> [\"s3://data/a\"] !", "teams.a.subnets: [\"subnet-0123abcd\"] -> -"]);
        check("", "[jobs]\nteams = \"any\"", &["jobs.teams: \"configured\" -> \"any\" !"]);
        let (gpus, usd) = ("[jobs]\ngpus_max = 1", "[teams.a]\nusd_per_hour_max = 2.5");
        check("", gpus, &["jobs.gpus_max: - -> 1"]);
        check(gpus, "[jobs]\ngpus_max = 8", &["jobs.gpus_max: 1 -> 8 !"]);
        check(gpus, "", &["jobs.gpus_max: 1 -> - !"]);
        check(usd, "[teams.a]", &["teams.a.usd_per_hour_max: 2.5 -> - !"]);
        check("", "[jobs]\nconfirm_above_usd = 500", &["jobs.confirm_above_usd: 100 -> 500 !"]);
        let boxes = "[boxes]\nper_owner_max = 3\nruntime_max = \"12h\"\nidle_min = \"5m\"";
        check(
            "",
            boxes,
            &[
                "boxes.per_owner_max: 2 -> 3 !",
                "boxes.runtime_max: \"1d\" -> \"12h\"",
                "boxes.idle_min: \"15m\" -> \"5m\" !",
            ],
        );
        check("[teams.a]\nbox_idle_max = \"1h\"", "[teams.a]", &["teams.a.box_idle_max: \"1h\" -> - !"]);
    }

    #[test]
    fn teams_that_lose_their_entry() {
        let read = |text| Config::read(text).unwrap();
        let (before, after) = ("[teams.nlp]\n[teams.a]\nmode = \"enforce\"\n[teams.b]", "[teams.a]\n[teams.c]");
        let lost: Vec<String> = teams_lost(&read(before), &read(after)).iter().map(ToString::to_string).collect();
        assert_eq!(lost, ["b", "nlp"]);
    }

    #[test]
    fn a_team_that_does_not_say_it_gets_the_accounts() {
        check("", "[teams.a]\nmode = \"enforce\"", &["teams.a.mode: - -> \"enforce\" !"]);
        check(
            "mode = \"enforce\"",
            "mode = \"enforce\"\n[teams.a]\nmode = \"enforce\"",
            &["teams.a.mode: - -> \"enforce\""],
        );
        check("", "[teams.a]\nlocal_disk = \"expendable\"", &["teams.a.local_disk: - -> \"expendable\" !"]);
        let day = "[idle]\nlocal_disk = \"24h\"";
        check("", day, &["idle.local_disk: \"keep\" -> \"1d\" !"]);
        check(day, "[idle]\nlocal_disk = \"expendable\"", &["idle.local_disk: \"1d\" -> \"expendable\" !"]);
        check(day, "[idle]\nlocal_disk = \"25h\"", &["idle.local_disk: \"1d\" -> \"1d1h\""]);
        check(day, "", &["idle.local_disk: \"1d\" -> \"keep\""]);
        let opted_out = "mode = \"enforce\"\n[teams.a]\nmode = \"observe\"";
        check(opted_out, "mode = \"enforce\"", &["teams.a.mode: \"observe\" -> - !"]);
    }
}
