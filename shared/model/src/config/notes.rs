//! Legal parts of a document without effect, so that people do not rely on them.
//!
//! A key that repeats its default gets no note: `curfew config show` writes them all.

use toml::de::DeTable;

use super::{Config, OverBudget, RuleAction, SharedRole, TeamConfig};
use crate::document::{KEY_CHARACTERS_MAX, PROBLEM_CHARACTERS_MAX, dotted, position, written_at};
use crate::fault::shortened;
use crate::id::TeamName;
use crate::image_source::ImageSource;
use crate::instance_family::AcceleratedFamily;
use crate::mode::Mode;
use crate::notification_log::NO_TEAM;
use crate::team_role::{TEAM_ROLE_PREFIX, team_role};

/// Something that has no effect, or less than it seems.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigNote {
    /// Line of the key, from 1.
    pub line: usize,
    /// Column of the key in characters, from 1.
    pub column: usize,
    /// The full key.
    pub key: String,
    /// The effect that the key does not have, and why.
    pub note: String,
}

const NO_BUDGET: &str = "without effect: there is no `monthly_budget_usd` beside it";
const NO_TEAMS_BUDGET: &str = "without effect: what belongs to no team has no budget, and counts for that of [account]";
const ACCOUNT_LAUNCHES: &str =
    "`mode` at the top is `observe`: jobs are launched all the same, and budgets only notify";
const TEAM_LAUNCHES: &str = "this team only observes: its jobs are launched all the same, and budgets only notify";
const ACCOUNT_OBSERVES: &str =
    "`mode` at the top is `observe`: nothing is stopped but what enforces by its team or by itself";
const MOVED_PROFILES: &str = "without effect: each team has its own list, `instance_profiles` under [teams.<name>]";
const SHARED_ROLE: &str =
    "the machines of all teams get one role: a job of one team can read, and spoil, the checkpoints of another";
const NO_SENDER: &str = "without effect: there is no `sender` under [report]";
const BORROWED_ROLE: &str = "one of these reaches what another team keeps in the state bucket";
const ONE_IMAGE: &str =
    "an image has one region and one architecture, and jobs find none elsewhere; a parameter can have one for each";
const UNDECLARED_UNIT: &str = "its unit is not declared: an instance is never idle while its samples may be ratios; set `utilization_unit` to \
                               `percent` or `ratio`";
const SCRATCH_KEPT: &str = "no `local_disk` is set, so by default an idle machine with NVMe storage, which almost every current GPU type has, is \
                            notify only; write `keep`, `expendable` or a grace such as `24h`";
/// The stack's name for the role that is common to all teams.
const SHARED_PROFILE: &str = "curfew-job";
const TEAM_OBSERVES: &str = "this team only observes: nothing is stopped but what enforces by itself";

/// Everything in this document, from which `config` was read, that has no effect, or less than it seems; in its order.
#[must_use]
pub fn notes(config: &Config, document: &str) -> Vec<ConfigNote> {
    let (tree, _) = DeTable::parse_recoverable(document);
    let said = account_notes(config)
        .into_iter()
        .chain(jobs_notes(config))
        .chain(report_notes(config))
        .chain(teams_notes(config))
        .chain(discount_notes(config))
        .chain(metrics_notes(config))
        .chain(local_disk_notes(config, tree.get_ref()));
    let place = |(path, note): (Vec<&str>, String)| {
        let (line, column) = position(document, written_at(tree.get_ref(), &path)?);
        let key = shortened(&dotted(path.into_iter()), KEY_CHARACTERS_MAX);
        Some(ConfigNote { line, column, key, note: shortened(&note, PROBLEM_CHARACTERS_MAX) })
    };
    let mut notes: Vec<ConfigNote> = said.filter_map(place).collect();
    notes.sort_by_key(|note| (note.line, note.column));
    notes
}

type KeyedNote<'a> = (Vec<&'a str>, String);

fn account_notes(config: &Config) -> Option<KeyedNote<'_>> {
    let account = &config.account;
    let has_budget = account.monthly_budget_usd.is_some();
    let note = action_note(account.over_budget, has_budget, config.mode, [ACCOUNT_LAUNCHES, ACCOUNT_OBSERVES])?;
    Some((vec!["account", "over_budget"], note.to_owned()))
}

fn jobs_notes(config: &Config) -> Vec<KeyedNote<'_>> {
    let mut said = vec![(vec!["jobs", "instance_profiles"], MOVED_PROFILES.to_owned())];
    if config.jobs.shared_role == SharedRole::Allow {
        said.push((vec!["jobs", "shared_role"], SHARED_ROLE.to_owned()));
    }
    if matches!(config.jobs.image, ImageSource::Image(_)) {
        said.push((vec!["jobs", "image"], ONE_IMAGE.to_owned()));
    }
    let borrowed = |name: &TeamName, profile: &str| {
        profile == SHARED_PROFILE
            || profile.starts_with(TEAM_ROLE_PREFIX) && team_role(name).is_ok_and(|own| own != profile)
    };
    let of_team =
        |(name, team): (&TeamName, &TeamConfig)| team.instance_profiles.iter().any(|profile| borrowed(name, profile));
    let borrowing = config.teams.iter().filter(|one| of_team(*one)).map(|(name, _)| name);
    said.extend(borrowing.map(|name| (vec!["teams", name.as_str(), "instance_profiles"], BORROWED_ROLE.to_owned())));
    said
}

fn metrics_notes(config: &Config) -> impl Iterator<Item = KeyedNote<'_>> {
    let lacking = config.metrics.without_unit();
    lacking.map(|kind| (vec!["metrics", kind, "utilization"], UNDECLARED_UNIT.to_owned()))
}

fn report_notes(config: &Config) -> impl Iterator<Item = KeyedNote<'_>> {
    let needing = [(config.report.email.is_some(), ["report", "email"]), (config.notify.owners, ["notify", "owners"])];
    let vain = needing.into_iter().filter(|(is_set, _)| *is_set && config.report.sender.is_none());
    vain.map(|(_, key)| (key.to_vec(), NO_SENDER.to_owned()))
}

/// The places that enforce without saying what that means for the NVMe storage of idle machines.
fn local_disk_notes<'a>(config: &'a Config, document: &DeTable<'_>) -> Vec<KeyedNote<'a>> {
    if config.idle.action == RuleAction::Notify || written_at(document, &["idle", "local_disk"]).is_some() {
        return Vec::new();
    }
    if config.mode == Mode::Enforce {
        return vec![(vec!["mode"], SCRATCH_KEPT.to_owned())];
    }
    let is_unsaid = |team: &TeamConfig| team.mode == Some(Mode::Enforce) && team.local_disk.is_none();
    let teams = config.teams.iter().filter(|(_, team)| is_unsaid(team));
    teams.map(|(name, _)| (vec!["teams", name.as_str(), "mode"], SCRATCH_KEPT.to_owned())).collect()
}

fn teams_notes(config: &Config) -> impl Iterator<Item = KeyedNote<'_>> {
    config.teams.iter().flat_map(|(name, team)| {
        let mode = team.mode.unwrap_or(config.mode);
        let mut notes = if name.as_str() == NO_TEAM { no_team_notes(team) } else { team_notes(team, mode) };
        notes.extend((team.email.is_some() && config.report.sender.is_none()).then_some(("email", NO_SENDER)));
        let with_path = |(key, note): (&'static str, &str)| (vec!["teams", name.as_str(), key], note.to_owned());
        notes.into_iter().map(with_path).collect::<Vec<_>>()
    })
}

fn team_notes(team: &TeamConfig, mode: Mode) -> Vec<(&'static str, &'static str)> {
    let has_budget = team.monthly_budget_usd.is_some();
    let action =
        team.over_budget.and_then(|action| action_note(action, has_budget, mode, [TEAM_LAUNCHES, TEAM_OBSERVES]));
    let shares = team.notify_at_percent.is_some() && !has_budget;
    let action = action.map(|note| ("over_budget", note));
    action.into_iter().chain(shares.then_some(("notify_at_percent", NO_BUDGET))).collect()
}

fn no_team_notes(team: &TeamConfig) -> Vec<(&'static str, &'static str)> {
    let said = [
        ("monthly_budget_usd", team.monthly_budget_usd.is_some()),
        ("notify_at_percent", team.notify_at_percent.is_some()),
        ("over_budget", team.over_budget.is_some()),
    ];
    said.into_iter().filter(|(_, is_said)| *is_said).map(|(key, _)| (key, NO_TEAMS_BUDGET)).collect()
}

/// `observed`: what holding, and what stopping, come to where they are not enforced.
fn action_note(action: OverBudget, has_budget: bool, mode: Mode, observed: [&'static str; 2]) -> Option<&'static str> {
    let [hold, stop] = observed;
    match action {
        OverBudget::Notify => None,
        _ if !has_budget => Some(NO_BUDGET),
        OverBudget::Hold => (mode == Mode::Observe).then_some(hold),
        OverBudget::Stop => (mode == Mode::Observe).then_some(stop),
    }
}

fn discount_notes(config: &Config) -> impl Iterator<Item = KeyedNote<'_>> {
    let families = config.prices.discount_percent.keys();
    families.filter_map(|name| Some((vec!["prices", "discount_percent", name], family_problem(name)?)))
}

fn family_problem(name: &str) -> Option<String> {
    if AcceleratedFamily::find(name).is_some() {
        return None;
    }
    let family = name.split('.').next().unwrap_or_default().to_ascii_lowercase();
    if family != name && AcceleratedFamily::find(&family).is_some() {
        let why = if name.contains('.') { "types cannot be discounted singly" } else { "names are case-sensitive" };
        return Some(format!("without effect: {why}; name the family, `{family}`"));
    }
    Some(format!("no family with accelerators is known as `{name}`; one that is new has its discount all the same"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `line:column key: note` of each.
    fn check(document: &str, expect: &[&str]) {
        let found = notes(&Config::read(document).unwrap(), document);
        let shown: Vec<String> = found
            .iter()
            .map(|ConfigNote { line, column, key, note }| format!("{line}:{column} {key}: {note}"))
            .collect();
        assert_eq!(shown, expect, "{document}");
    }

    #[test]
    fn an_effective_key_gets_no_note() {
        check("", &[]);
        check("[teams.a]\nmonthly_budget_usd = 5\nnotify_at_percent = [50]\nover_budget = \"notify\"", &[]);
        let kept = "[idle]\nlocal_disk = \"keep\"\n";
        check(&format!("{kept}[teams.a]\nmode = \"enforce\"\nmonthly_budget_usd = 5\nover_budget = \"stop\""), &[]);
        check(&format!("mode = \"enforce\"\n{kept}[account]\nmonthly_budget_usd = 5\nover_budget = \"stop\""), &[]);
        check("[prices.discount_percent]\np5 = 10\np6-b200 = 3", &[]);
    }

    #[test]
    fn defaults_that_are_written_out_are_not_noted() {
        let written = crate::config::Settings::from_config(&Config::default()).to_string();
        check(&written, &[]);
    }

    #[test]
    fn without_a_budget() {
        check(
            "mode = \"enforce\"\nidle.local_disk = \"24h\"\n[account]\nover_budget = \"hold\"\n[teams.\"a b\"]\nnotify_at_percent = [50]\n\
             over_budget = \"stop\"",
            &[
                "4:1 account.over_budget: without effect: there is no `monthly_budget_usd` beside it",
                "6:1 teams.\"a b\".notify_at_percent: without effect: there is no `monthly_budget_usd` beside it",
                "7:1 teams.\"a b\".over_budget: without effect: there is no `monthly_budget_usd` beside it",
            ],
        );
    }

    #[test]
    fn of_addresses_that_nothing_is_mailed_to() {
        let addresses = "[report]\nemail = \"all@example.com\"\n[teams.a]\nemail = \"a@example.com\"\n";
        check(addresses, &[&format!("2:1 report.email: {NO_SENDER}"), &format!("4:1 teams.a.email: {NO_SENDER}")]);
        check(&addresses.replace("[report]", "[report]\nsender = \"curfew@example.com\""), &[]);
    }

    #[test]
    fn of_what_belongs_to_no_team() {
        let note = "without effect: what belongs to no team has no budget, and counts for that of [account]";
        check(
            "[teams.untagged]\nmonthly_budget_usd = 1\nover_budget = \"stop\"\nmode = \"enforce\"\nlocal_disk = \"keep\"",
            &[
                &format!("2:1 teams.untagged.monthly_budget_usd: {note}"),
                &format!("3:1 teams.untagged.over_budget: {note}"),
            ],
        );
    }

    #[test]
    fn where_it_is_only_observed() {
        let team = "this team only observes: nothing is stopped but what enforces by itself";
        let stops = "monthly_budget_usd = 5\nover_budget = \"stop\"\n";
        check(&format!("[teams.a]\n{stops}"), &[&format!("3:1 teams.a.over_budget: {team}")]);
        check(
            &format!("mode = \"enforce\"\nidle.local_disk = \"keep\"\n[teams.a]\nmode = \"observe\"\n{stops}"),
            &[&format!("6:1 teams.a.over_budget: {team}")],
        );
        check(
            &format!("[account]\n{stops}[teams.a]\nmode = \"enforce\"\nlocal_disk = \"keep\""),
            &[
                "3:1 account.over_budget: `mode` at the top is `observe`: nothing is stopped but what enforces by its team or \
               by itself",
            ],
        );
    }

    #[test]
    fn hold_in_observe_mode() {
        let budget = "monthly_budget_usd = 5\nover_budget = \"hold\"\n";
        let kept = "local_disk = \"keep\"\n";
        check(&format!("mode = \"enforce\"\nidle.{kept}[account]\n{budget}[teams.a]\n{budget}"), &[]);
        check(
            &format!("[account]\n{budget}[teams.a]\n{budget}[teams.b]\nmode = \"enforce\"\n{kept}{budget}"),
            &[
                &format!("3:1 account.over_budget: {ACCOUNT_LAUNCHES}"),
                &format!("6:1 teams.a.over_budget: {TEAM_LAUNCHES}"),
            ],
        );
    }

    #[test]
    fn of_enforcing_without_a_word_on_local_disks() {
        let enforces = "mode = \"enforce\"\n";
        check(enforces, &[&format!("1:1 mode: {SCRATCH_KEPT}")]);
        check(&format!("{enforces}[teams.a]\n{enforces}"), &[&format!("1:1 mode: {SCRATCH_KEPT}")]);
        check(
            &format!("[teams.a]\n{enforces}[teams.b]\n{enforces}local_disk = \"keep\""),
            &[&format!("2:1 teams.a.mode: {SCRATCH_KEPT}")],
        );
        check(&format!("{enforces}[idle]\nlocal_disk = \"keep\""), &[]);
        check(&format!("{enforces}[idle]\naction = \"notify\""), &[]);
    }

    #[test]
    fn of_roles_that_reach_further_than_a_team() {
        check("[jobs]\nshared_role = \"deny\"\n[teams.a]\ninstance_profiles = [\"training\", \"curfew-job-a\"]", &[]);
        check(
            "[jobs]\ninstance_profiles = []\nshared_role = \"allow\"\n[teams.a]\ninstance_profiles = [\"curfew-job-b\"]\n[teams.b]\n\
             instance_profiles = [\"curfew-job\"]",
            &[
                &format!("2:1 jobs.instance_profiles: {MOVED_PROFILES}"),
                &format!("3:1 jobs.shared_role: {SHARED_ROLE}"),
                &format!("5:1 teams.a.instance_profiles: {BORROWED_ROLE}"),
                &format!("7:1 teams.b.instance_profiles: {BORROWED_ROLE}"),
            ],
        );
    }

    #[test]
    fn of_an_image_that_only_one_region_has() {
        check("[jobs]\nimage = \"/curfew/images/{architecture}\"", &[]);
        check("[jobs]\nimage = \"ami-0123456789abcdef0\"", &[&format!("2:1 jobs.image: {ONE_IMAGE}")]);
    }

    #[test]
    fn of_a_metric_of_the_accounts_own_without_a_unit() {
        let own = "[metrics.neuron]\nutilization = \"neuroncore_utilization\"\n";
        check(own, &[&format!("2:1 metrics.neuron.utilization: {UNDECLARED_UNIT}")]);
        check(&format!("{own}utilization_unit = \"percent\""), &[]);
        check(
            "[metrics.nvidia]\nutilization = \"DCGM_FI_DEV_GPU_UTIL\"",
            &[&format!("2:1 metrics.nvidia.utilization: {UNDECLARED_UNIT}")],
        );
        check("[metrics.nvidia]\nutilization = \"nvidia_smi_utilization_gpu\"", &[]);
    }

    #[test]
    fn of_discounts_that_meet_nothing() {
        check(
            "[prices.discount_percent]\ng9x = 3\nP5 = 10\n\"p5.48xlarge\" = 10",
            &[
                "2:1 prices.discount_percent.g9x: no family with accelerators is known as `g9x`; one that is new has its \
                 discount all the same",
                "3:1 prices.discount_percent.P5: without effect: names are case-sensitive; name the family, `p5`",
                "4:1 prices.discount_percent.\"p5.48xlarge\": without effect: types cannot be discounted singly; name the \
                 family, `p5`",
            ],
        );
        check(
            "prices.discount_percent = { P5 = 10 }",
            &["1:29 prices.discount_percent.P5: without effect: names are case-sensitive; name the family, `p5`"],
        );
    }
}
