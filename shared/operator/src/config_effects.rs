//! The effects of a changed configuration: one line for each team, one for resources without a required tag, one for everybody.

use std::collections::{BTreeMap, BTreeSet};

use model::config::{Config, ConfigChange};
use model::foreign_text::quoted_unless_word;
use model::id::TeamName;
use model::mode::Mode;

/// The most lines that are shown.
const LINES_MAX: usize = 30;

/// One line for each that the changes concern, those that Curfew begins to act on first.
#[must_use]
pub fn describe_by_team(from: &Config, to: &Config, changes: &[ConfigChange]) -> Vec<String> {
    let mut keys_of_teams: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    let (mut keys_of_untagged, mut keys_of_all) = (Vec::new(), Vec::new());
    for ConfigChange { key, .. } in changes {
        match (key.strip_prefix("teams.").and_then(|rest| rest.rsplit_once('.')), key.strip_prefix("untagged.")) {
            (Some((_, "mode")), _) | (_, Some("mode")) => {}
            (Some((team, field)), _) => keys_of_teams.entry(team.to_owned()).or_default().push(field),
            (_, Some(field)) => keys_of_untagged.push(field),
            _ if key == "mode" => {}
            _ => keys_of_all.push(key.as_str()),
        }
    }
    let mut lines = Vec::new();
    let teams: BTreeSet<&TeamName> = from.teams.keys().chain(to.teams.keys()).collect();
    for team in teams {
        let name = quoted_unless_word(team.as_str());
        let keys = keys_of_teams.remove(&name).unwrap_or_default();
        let modes = ModeChange { from: mode_of(from, team), to: mode_of(to, team) };
        lines.extend(line(&format!("team {name}"), modes, &keys));
    }
    let others = ModeChange { from: from.mode, to: to.mode };
    lines.extend(line("every other team", others, &[]));
    let untagged = ModeChange { from: from.untagged.mode, to: to.untagged.mode };
    lines.extend(line("resources without a required tag", untagged, &keys_of_untagged));
    // A name that TOML quotes in another way.
    let others = keys_of_teams.into_iter().filter_map(|(team, keys)| line(&format!("team {team}"), UNCHANGED, &keys));
    lines.extend(others);
    lines.extend(line("everybody", UNCHANGED, &keys_of_all));
    lines.sort_by_key(|(rank, _)| *rank);
    let more = lines.len().saturating_sub(LINES_MAX);
    let mut lines: Vec<String> = lines.into_iter().take(LINES_MAX).map(|(_, line)| line).collect();
    if more > 0 {
        lines.push(format!("and {more} more"));
    }
    lines
}

#[derive(Clone, Copy)]
struct ModeChange {
    from: Mode,
    to: Mode,
}

const UNCHANGED: ModeChange = ModeChange { from: Mode::Observe, to: Mode::Observe };

fn mode_of(config: &Config, team: &TeamName) -> Mode {
    config.teams.get(team).and_then(|team| team.mode).unwrap_or(config.mode)
}

/// A line and its rank.
fn line(whom: &str, modes: ModeChange, keys: &[&str]) -> Option<(u8, String)> {
    let (rank, effect) = match (modes.from, modes.to) {
        (Mode::Observe, Mode::Enforce) => (0, "observe -> enforce: Curfew acts on what it only observed"),
        (Mode::Enforce, Mode::Observe) => {
            (1, "enforce -> observe: Curfew no longer acts, but for scheduled actions of owners")
        }
        _ if keys.is_empty() => return None,
        _ => (2, ""),
    };
    let settings = (!keys.is_empty()).then(|| keys.join(", "));
    let effect = Some(effect.to_owned()).filter(|effect| !effect.is_empty());
    let text: Vec<String> = effect.into_iter().chain(settings).collect();
    Some((rank, format!("{whom}: {}", text.join("; "))))
}

#[cfg(test)]
mod tests {
    use model::config::changes;

    use super::*;

    fn check(from: &str, to: &str, expect: &[&str]) {
        let (from, to) = (Config::read(from).unwrap(), Config::read(to).unwrap());
        assert_eq!(describe_by_team(&from, &to, &changes(&from, &to)), expect);
    }

    const ACTS: &str = "observe -> enforce: Curfew acts on what it only observed";

    #[test]
    fn nothing_changed_concerns_nobody() {
        check("", "mode = \"observe\"", &[]);
    }

    #[test]
    fn a_team_is_concerned_by_its_own_keys_and_by_its_mode() {
        check(
            "[teams.nlp]\nmode = \"enforce\"\n[teams.vision]\nemail = \"a@example.com\"",
            "[teams.nlp]\n[teams.vision]\nmode = \"enforce\"\nmonthly_budget_usd = 5",
            &[
                &format!("team vision: {ACTS}; monthly_budget_usd, email"),
                "team nlp: enforce -> observe: Curfew no longer acts, but for scheduled actions of owners",
            ],
        );
    }

    #[test]
    fn the_mode_of_the_account_concerns_those_who_say_nothing() {
        check(
            "[teams.nlp]\nmode = \"observe\"\n[teams.\"a b\"]\nemail = \"a@example.com\"",
            "mode = \"enforce\"\n[teams.nlp]\nmode = \"observe\"\n[teams.\"a b\"]\nemail = \"b@example.com\"",
            &[&format!("team \"a b\": {ACTS}; email"), &format!("every other team: {ACTS}")],
        );
    }

    #[test]
    fn what_is_of_all_and_of_the_untagged_is_said_as_such() {
        check(
            "",
            "[untagged]\nmode = \"enforce\"\ngrace = \"2h\"\n[idle]\ngrace = \"2h\"",
            &[&format!("resources without a required tag: {ACTS}; grace"), "everybody: idle.grace"],
        );
    }

    #[test]
    fn a_long_list_is_cut() {
        let many: Vec<String> = (0..40).map(|team| format!("[teams.t{team}]\nemail = \"a@example.com\"\n")).collect();
        let config = Config::read(&many.concat()).unwrap();
        let lines = describe_by_team(&Config::default(), &config, &changes(&Config::default(), &config));
        assert_eq!((lines.len(), lines.last().map(String::as_str)), (LINES_MAX + 1, Some("and 10 more")));
    }
}
