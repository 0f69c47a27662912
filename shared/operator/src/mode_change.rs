//! The effect of another mode of the deployment, for the person who sets it.

use std::collections::BTreeSet;

use model::config::Config;
use model::mode::Mode;

/// The most teams that are named.
const TEAMS_SHOWN_MAX: usize = 10;

/// The change in one line.
#[must_use]
pub fn describe(from: Option<&str>, to: Mode) -> String {
    let from = from.unwrap_or("unknown");
    let effect = match to {
        Mode::Observe => "no action from the next run on, and no launch of a job; messages continue",
        Mode::Enforce => "runs act where tags and configuration say so",
    };
    format!("Mode: {from} -> {}: {effect}", to.as_str())
}

/// The resources on which runs act in enforce mode, by the configuration.
#[must_use]
pub fn describe_enforced(config: &Config) -> String {
    let own = |wanted: Mode| {
        let teams = config.teams.iter().filter(move |(_, team)| team.mode == Some(wanted));
        let names: BTreeSet<&str> = teams.map(|(name, _)| name.as_str()).collect();
        names_of(&names)
    };
    let (enforced, observed) = (own(Mode::Enforce), own(Mode::Observe));
    let teams = match (config.mode, enforced, observed) {
        (Mode::Enforce, _, None) => "every team".to_owned(),
        (Mode::Enforce, _, Some(observed)) => format!("every team but {observed}"),
        (Mode::Observe, Some(enforced), _) => enforced,
        (Mode::Observe, None, _) => "no team".to_owned(),
    };
    let untagged_too = match config.untagged.mode {
        Mode::Enforce => "; resources without a required tag",
        Mode::Observe => "",
    };
    format!("By the configuration they act on: {teams}{untagged_too}; and on what owners opted in by tags")
}

fn names_of(names: &BTreeSet<&str>) -> Option<String> {
    let shown: Vec<&str> = names.iter().copied().take(TEAMS_SHOWN_MAX).collect();
    let more = names.len().saturating_sub(shown.len());
    let text = shown.join(", ");
    (!names.is_empty()).then(|| if more == 0 { text } else { format!("{text} and {more} more") })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(config: &str, expect: &str) {
        let described = describe_enforced(&Config::read(config).unwrap());
        assert_eq!(
            described,
            format!("By the configuration they act on: {expect}; and on what owners opted in by tags")
        );
    }

    #[test]
    fn each_team_counts_by_its_own_mode_first() {
        check("", "no team");
        check("[teams.vision]\nmode = \"enforce\"\n[teams.nlp]", "vision");
        check("mode = \"enforce\"", "every team");
        check("mode = \"enforce\"\n[teams.nlp]\nmode = \"observe\"", "every team but nlp");
        check("[untagged]\nmode = \"enforce\"", "no team; resources without a required tag");
        let many: Vec<String> = (10..25).map(|team| format!("[teams.t{team}]\nmode = \"enforce\"\n")).collect();
        check(&many.concat(), "t10, t11, t12, t13, t14, t15, t16, t17, t18, t19 and 5 more");
    }

    #[test]
    fn the_brake_is_said_as_such() {
        assert_eq!(
            describe(Some("enforce"), Mode::Observe),
            "Mode: enforce -> observe: no action from the next run on, and no launch of a job; messages continue"
        );
        assert!(describe(None, Mode::Enforce).starts_with("Mode: unknown -> enforce: runs act where"));
    }
}
