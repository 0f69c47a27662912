//! What a legal document says without effect, so that nobody relies on it.
//!
//! Of a key that merely repeats its default nothing is said: `curfew config show` writes them all.

use toml::de::DeTable;

use super::{Config, OverBudget, Team};
use crate::document::{KEY_CHARACTERS_MAX, PROBLEM_CHARACTERS_MAX, dotted, position, written_at};
use crate::fault::shortened;
use crate::mode::Mode;
use crate::news::NO_TEAM;

/// Something that has no effect, or less than it seems.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    /// The full key.
    pub key: String,
    /// What it does not do, and why.
    pub note: String,
}

const NO_BUDGET: &str = "without effect: there is no `monthly_budget_usd` beside it";
const NO_TEAMS_BUDGET: &str = "without effect: what belongs to no team has no budget; it counts for that of [account]";
const ACCOUNT_LAUNCHES: &str = "`mode` at the top is `observe`: jobs are launched all the same, and only told of";
const TEAM_LAUNCHES: &str = "this team only observes: its jobs are launched all the same, and only told of";
const ACCOUNT_OBSERVES: &str =
    "`mode` at the top is `observe`: nothing is stopped but what enforces by its team or by itself";
const TEAM_OBSERVES: &str = "this team only observes: nothing is stopped but what enforces by itself";

/// Families with accelerators, as of 2026-11 (EC2 instance types, "Accelerated computing").
const FAMILIES: [&str; 39] = [
    "dl1",
    "dl2q",
    "f1",
    "f2",
    "g2",
    "g3",
    "g3s",
    "g4ad",
    "g4dn",
    "g5",
    "g5g",
    "g6",
    "g6e",
    "g6f",
    "g7",
    "g7e",
    "gr6",
    "gr6f",
    "inf1",
    "inf2",
    "p2",
    "p3",
    "p3dn",
    "p4d",
    "p4de",
    "p5",
    "p5e",
    "p5en",
    "p6-b200",
    "p6-b300",
    "p6e-gb200",
    "p6e-gb300",
    "trn1",
    "trn1n",
    "trn2",
    "trn2u",
    "trn3",
    "trn3u",
    "vt1",
];

/// Everything in this document, from which `config` was read, that has no effect, or less than it seems; in its order.
#[must_use]
pub fn notes(config: &Config, document: &str) -> Vec<Note> {
    let (tree, _) = DeTable::parse_recoverable(document);
    let said = of_account(config).into_iter().chain(of_teams(config)).chain(of_discounts(config));
    let place = |(path, note): (Vec<&str>, String)| {
        let (line, column) = position(document, written_at(tree.get_ref(), &path)?);
        let key = shortened(&dotted(path.into_iter()), KEY_CHARACTERS_MAX);
        Some(Note { line, column, key, note: shortened(&note, PROBLEM_CHARACTERS_MAX) })
    };
    let mut notes: Vec<Note> = said.filter_map(place).collect();
    notes.sort_by_key(|note| (note.line, note.column));
    notes
}

type Said<'a> = (Vec<&'a str>, String);

fn of_account(config: &Config) -> Option<Said<'_>> {
    let account = &config.account;
    let has_budget = account.monthly_budget_usd.is_some();
    let note = of_action(account.over_budget, has_budget, config.mode, [ACCOUNT_LAUNCHES, ACCOUNT_OBSERVES])?;
    Some((vec!["account", "over_budget"], note.to_owned()))
}

fn of_teams(config: &Config) -> impl Iterator<Item = Said<'_>> {
    config.teams.iter().flat_map(|(name, team)| {
        let mode = team.mode.unwrap_or(config.mode);
        let notes = if name.as_str() == NO_TEAM { of_no_team(team) } else { of_team(team, mode) };
        let with_path = |(key, note): (&'static str, &str)| (vec!["teams", name.as_str(), key], note.to_owned());
        notes.into_iter().map(with_path).collect::<Vec<_>>()
    })
}

fn of_team(team: &Team, mode: Mode) -> Vec<(&'static str, &'static str)> {
    let has_budget = team.monthly_budget_usd.is_some();
    let action =
        team.over_budget.and_then(|action| of_action(action, has_budget, mode, [TEAM_LAUNCHES, TEAM_OBSERVES]));
    let shares = team.notify_at_percent.is_some() && !has_budget;
    let action = action.map(|note| ("over_budget", note));
    action.into_iter().chain(shares.then_some(("notify_at_percent", NO_BUDGET))).collect()
}

fn of_no_team(team: &Team) -> Vec<(&'static str, &'static str)> {
    let said = [
        ("monthly_budget_usd", team.monthly_budget_usd.is_some()),
        ("notify_at_percent", team.notify_at_percent.is_some()),
        ("over_budget", team.over_budget.is_some()),
    ];
    said.into_iter().filter(|(_, is_said)| *is_said).map(|(key, _)| (key, NO_TEAMS_BUDGET)).collect()
}

/// `observed`: what holding, and what stopping, come to where they are not enforced.
fn of_action(action: OverBudget, has_budget: bool, mode: Mode, observed: [&'static str; 2]) -> Option<&'static str> {
    let [hold, stop] = observed;
    match action {
        OverBudget::Notify => None,
        _ if !has_budget => Some(NO_BUDGET),
        OverBudget::Hold => (mode == Mode::Observe).then_some(hold),
        OverBudget::Stop => (mode == Mode::Observe).then_some(stop),
    }
}

fn of_discounts(config: &Config) -> impl Iterator<Item = Said<'_>> {
    let families = config.prices.discount_percent.keys();
    families.filter_map(|name| Some((vec!["prices", "discount_percent", name], of_family(name)?)))
}

fn of_family(name: &str) -> Option<String> {
    if FAMILIES.contains(&name) {
        return None;
    }
    let family = name.split('.').next().unwrap_or_default().to_ascii_lowercase();
    if family != name && FAMILIES.contains(&family.as_str()) {
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
        let shown: Vec<String> =
            found.iter().map(|Note { line, column, key, note }| format!("{line}:{column} {key}: {note}")).collect();
        assert_eq!(shown, expect, "{document}");
    }

    #[test]
    fn what_has_its_effect_is_not_noted() {
        check("", &[]);
        check("[teams.a]\nmonthly_budget_usd = 5\nnotify_at_percent = [50]\nover_budget = \"notify\"", &[]);
        check("[teams.a]\nmode = \"enforce\"\nmonthly_budget_usd = 5\nover_budget = \"stop\"", &[]);
        check("mode = \"enforce\"\n[account]\nmonthly_budget_usd = 5\nover_budget = \"stop\"", &[]);
        check("[prices.discount_percent]\np5 = 10\np6-b200 = 3", &[]);
    }

    #[test]
    fn defaults_that_are_written_out_are_not_noted() {
        let written = crate::config::Settings::of(&Config::default()).to_string();
        check(&written, &[]);
    }

    #[test]
    fn without_a_budget() {
        check(
            "mode = \"enforce\"\n[account]\nover_budget = \"hold\"\n[teams.\"a b\"]\nnotify_at_percent = [50]\n\
             over_budget = \"stop\"",
            &[
                "3:1 account.over_budget: without effect: there is no `monthly_budget_usd` beside it",
                "5:1 teams.\"a b\".notify_at_percent: without effect: there is no `monthly_budget_usd` beside it",
                "6:1 teams.\"a b\".over_budget: without effect: there is no `monthly_budget_usd` beside it",
            ],
        );
    }

    #[test]
    fn of_what_belongs_to_no_team() {
        let note = "without effect: what belongs to no team has no budget; it counts for that of [account]";
        check(
            "[teams.untagged]\nmonthly_budget_usd = 1\nover_budget = \"stop\"\nmode = \"enforce\"",
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
            &format!("mode = \"enforce\"\n[teams.a]\nmode = \"observe\"\n{stops}"),
            &[&format!("5:1 teams.a.over_budget: {team}")],
        );
        check(
            &format!("[account]\n{stops}[teams.a]\nmode = \"enforce\""),
            &[
                "3:1 account.over_budget: `mode` at the top is `observe`: nothing is stopped but what enforces by its team or \
               by itself",
            ],
        );
    }

    #[test]
    fn of_hold_where_it_is_only_observed() {
        let budget = "monthly_budget_usd = 5\nover_budget = \"hold\"\n";
        check(&format!("mode = \"enforce\"\n[account]\n{budget}[teams.a]\n{budget}"), &[]);
        check(
            &format!("[account]\n{budget}[teams.a]\n{budget}[teams.b]\nmode = \"enforce\"\n{budget}"),
            &[
                &format!("3:1 account.over_budget: {ACCOUNT_LAUNCHES}"),
                &format!("6:1 teams.a.over_budget: {TEAM_LAUNCHES}"),
            ],
        );
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
