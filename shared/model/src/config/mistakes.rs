//! Every mistake of a document, where [`Config::read`] stops at the first.

use super::{Config, ConfigError, DOCUMENT};
use crate::document::{WRONG_MAX, read_all, utf8};

/// The most mistakes: a longer list would not help.
pub const MISTAKES_MAX: usize = WRONG_MAX;

/// Every mistake, in the order of the document; none if [`Config::read_bytes`] takes it.
///
/// What is only wrong because something else is (a broken heading makes the keys below it unknown) may be found as well. Beyond
/// [`MISTAKES_MAX`] nothing is looked for.
#[must_use]
pub fn mistakes(document: &[u8]) -> Vec<ConfigError> {
    let read = utf8(document).and_then(|text| read_all::<Config>(DOCUMENT, text));
    let wrong = read.map_or_else(|wrong| vec![wrong], |read| read.wrong);
    wrong.into_iter().map(ConfigError::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    /// `line:column key` of each.
    fn check(text: &str, expect: &[&str]) {
        let found = mistakes(text.as_bytes());
        let shown: Vec<String> =
            found.iter().map(|error| format!("{}:{} {}", error.line, error.column, error.key)).collect();
        assert_eq!(shown, expect, "{text}\n{found:#?}");
        match Config::read(text) {
            Ok(_) => assert!(found.is_empty()),
            Err(first) => assert!(found.contains(&first), "{first} is not among {found:#?}"),
        }
    }

    #[test]
    fn a_legal_document_has_none() {
        check("", &[]);
        check("mode = \"enforce\"\n[teams.\"computer vision\"]\nmode = \"enforce\"", &[]);
    }

    #[test]
    fn all_are_found_with_their_places() {
        check(
            "mode = \"destroy\"\nregons = []\n[idle]\nwindw = \"1h\"\nwindow = \"soon\"\ngrace = 3\n[limits]\nactions_max = -1\n\
             [teams.vision]\nemail = \"vision\"\nmode = \"on\"\n[tags]\nrequired = [\"\", \"x\"]\n",
            &[
                "1:8 mode",
                "2:1 regons",
                "4:1 idle.windw",
                "5:10 idle.window",
                "6:9 idle.grace",
                "8:15 limits.actions_max",
                "10:9 teams.vision.email",
                "11:8 teams.vision.mode",
                "13:12 tags.required",
            ],
        );
    }

    #[test]
    fn within_one_line_too() {
        check(
            "idle = { window = \"sööner\", grace = \"later\", windw = 1 }",
            &["1:19 idle.window", "1:37 idle.grace", "1:46 idle.windw"],
        );
        check("teams.\"a.b\".mode = 1\nteams.\"a.b\".email = 2", &["1:20 teams.a.b.mode", "2:21 teams.a.b.email"]);
    }

    #[test]
    fn an_unparsed_line_hides_no_other_mistake() {
        check("mode = \nregons = []\n[idle]\nwindow = \"soon\"\n", &["1:8 mode", "2:1 regons", "4:10 idle.window"]);
        check("mode = \"observe\"\nmode = \"enforce\"\nx = 1\n", &["2:1 mode", "3:1 x"]);
    }

    #[test]
    fn a_consequence_of_a_mistake_is_no_mistake() {
        check("[metrics.neuron]\nutilization = 3\n", &["2:15 metrics.neuron.utilization"]);
        check("[metrics.neuron]\nutilisation = \"x\"\n", &["2:1 metrics.neuron.utilisation"]);
        check("[metrics.neuron]\nnamespace = \"Neuron\"\n[idle]\nx = 1", &["1:1 metrics.neuron", "4:1 idle.x"]);
    }

    #[test]
    fn below_a_heading_that_is_broken_nothing_is_judged() {
        check("[idle\nwindow = \"1h\"\ngrace = \"1h\"\n[limits]\nx = 1\n", &["1:6 [idle", "5:1 limits.x"]);
        check("[teams.a b]\nmode = \"enforce\"\nemail = \"x\"", &["1:9 [teams.a b]"]);
    }

    #[test]
    fn a_section_that_is_none() {
        check("limits = [1000, 100]\nidle = 3\n[jobs]\nx = 1", &["1:10 limits", "2:8 idle", "4:1 jobs.x"]);
        check("[[teams.vision]]\nmode = true\n", &["1:1 teams.vision"]);
    }

    #[test]
    fn no_more_than_anybody_reads() {
        let lines: Vec<String> = (0..500).map(|number| format!("x{number} = 1")).collect();
        assert_eq!(mistakes(lines.join("\n").as_bytes()).len(), MISTAKES_MAX);
        assert_eq!(mistakes("mode = 1\n".repeat(25_000).as_bytes()).len(), MISTAKES_MAX);
    }

    #[test]
    fn bytes_that_are_no_text() {
        let found = mistakes(b"mode = \"observe\"\n# gr\xff");
        assert_eq!(found.iter().map(|error| (error.line, error.column)).collect::<Vec<_>>(), [(2, 5)]);
    }
}
