//! **Unlisted project**, if and only if
//! - `[projects].allowed` is not empty,
//! - the resource carries the tag `[projects].tag` with a value that is not on that list, in any spelling of capitals; a blank value is none,
//! - and it was launched longer than `[untagged].settle` ago, so that a tag which arrives late counts.
//!
//! A resource without that tag is not judged here: `[tags].required` can name it, for the rule `untagged`.
//!
//! A job of `SageMaker` that runs is notify only, and so is what serves in `SageMaker` while it is used.

use jiff::Timestamp;
use model::foreign_text::quoted_unless_word;
use model::ownership::value_of;
use model::rule::Rule;
use plan::report::RecordedEvidence;
use plan::{Evidence, Facts};

use super::{RunningRule, untagged};
use crate::policy::{Verdict, Violation};
use crate::subject::Subject;

pub(crate) struct UnlistedProject;

impl RunningRule for UnlistedProject {
    fn rule(&self) -> Rule {
        Rule::UnlistedProject
    }

    fn judge(&self, subject: Subject<'_>) -> Verdict {
        let rule = &subject.config.projects;
        match unlisted(subject) {
            Some(project) if untagged::settled_at(subject) <= subject.now => {
                let due = subject.due_after(Rule::UnlistedProject, rule.action, rule.grace);
                subject.unless_serving(Violation::new(evidence(&rule.tag, project), due))
            }
            _ => Verdict::Compliant,
        }
    }

    fn compliant_because(&self, subject: Subject<'_>, verdict: &Verdict) -> String {
        let rule = &subject.config.projects;
        let tag = quoted_unless_word(&rule.tag);
        match (unlisted(subject).map(quoted_unless_word), value_of(subject.tags, &rule.tag)) {
            _ if rule.allowed.is_empty() => "[projects] allows every project".to_owned(),
            (Some(project), _) if *verdict == Verdict::Unknown => {
                format!("its {tag} {project} is not on the list of projects, and its usage is unknown")
            }
            (Some(project), _) => format!("its {tag} {project} is not on the list of projects, and may still change"),
            (None, Some(project)) => format!("its {tag} {} is on the list of projects", quoted_unless_word(project)),
            (None, None) => format!("it carries no {tag}"),
        }
    }

    fn violated_from(&self, subject: Subject<'_>) -> Option<Timestamp> {
        unlisted(subject).map(|_| untagged::settled_at(subject))
    }

    fn summarize(&self, evidence: &RecordedEvidence, _: &str) -> Option<String> {
        let [tag, project] = [evidence.text("tag")?, evidence.text("project")?].map(quoted_unless_word);
        Some(format!("{tag} {project} is not listed"))
    }
}

/// The project that a resource names, if the account has a list and the project is not on it.
fn unlisted(subject: Subject<'_>) -> Option<&str> {
    let rule = &subject.config.projects;
    let project = value_of(subject.tags, &rule.tag)?;
    (!rule.allowed.is_empty() && !rule.allows(project)).then_some(project)
}

fn evidence(tag: &str, project: &str) -> Evidence {
    let facts = [("tag", tag.into()), ("project", project.into())];
    let (tag, project) = (quoted_unless_word(tag), quoted_unless_word(project));
    let sentence = format!("its {tag} {project} is not on the list of projects");
    let remedy =
        format!("Set {tag} to a project on the list, or have {project} added to it ([projects] in the configuration).");
    Evidence::new(Rule::UnlistedProject, Facts::named(facts), sentence).with_remedy(remedy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{InstanceBuilder, RuleInput, instance};
    use crate::policy::DueAction;
    use model::rule::ResourceAction;
    use plan::NotifyOnlyReason;

    const LISTED: &str = "[projects]\nallowed = [\"atlas\", \"Zephyr 2\"]\naction = \"stop\"";

    fn check(builder: InstanceBuilder, config: &str, expect: Option<DueAction>) {
        let due = match RuleInput::from(builder).config(config).judge(|subject| UnlistedProject.judge(subject)) {
            Verdict::Violated(violation) => Some(violation.due),
            _ => None,
        };
        assert_eq!(due, expect, "{config}");
    }

    fn stop_tomorrow() -> DueAction {
        DueAction::After(ResourceAction::Stop, "2026-09-02T12:00:00Z".parse().unwrap())
    }

    fn on_project(project: &str) -> InstanceBuilder {
        instance().tag("Project", project)
    }

    #[test]
    fn only_a_project_that_is_not_on_the_list() {
        check(on_project("doom"), LISTED, Some(stop_tomorrow()));
        check(on_project("atlas"), LISTED, None);
        check(on_project("ATLAS"), LISTED, None);
        check(on_project(" zephyr 2 "), LISTED, None);
        check(on_project("atla"), LISTED, Some(stop_tomorrow()));
        check(on_project(""), LISTED, None);
        check(on_project(" "), LISTED, None);
        check(instance(), LISTED, None);
        check(instance().tag("project", "doom"), LISTED, None);
    }

    #[test]
    fn without_a_list_every_project_is_allowed() {
        check(on_project("doom"), "", None);
        check(on_project("doom"), "[projects]\nallowed = []\naction = \"stop\"", None);
    }

    #[test]
    fn the_configuration_sets_the_tag_and_the_action() {
        let config = "[projects]\ntag = \"CostCenter\"\nallowed = [\"4711\"]\ngrace = \"1h\"\naction = \"terminate\"";
        let terminate = DueAction::After(ResourceAction::Terminate, "2026-09-01T13:00:00Z".parse().unwrap());
        check(instance().tag("CostCenter", "4712"), config, Some(terminate));
        check(on_project("doom"), config, None);
        let notified = Some(DueAction::NotifyOnly(NotifyOnlyReason::Configured));
        check(on_project("doom"), "[projects]\nallowed = [\"atlas\"]", notified);
    }

    #[test]
    fn tags_may_arrive_late() {
        check(on_project("doom").launched("2026-09-01T11:50:01Z"), LISTED, None);
        check(on_project("doom").launched("2026-09-01T11:50:00Z"), LISTED, Some(stop_tomorrow()));
    }

    #[test]
    fn a_value_is_quoted_and_bounded() {
        let hostile = format!("doom; run <https://example.com> @here\n\u{202e}{}", "x".repeat(300));
        let input = RuleInput::from(on_project(&hostile)).config(LISTED);
        let Verdict::Violated(violation) = input.judge(|subject| UnlistedProject.judge(subject)) else {
            panic!("{hostile}")
        };
        let Evidence { sentence, remedy, .. } = &violation.evidence;
        for text in
            [sentence, remedy, &crate::rules::summarize(&RecordedEvidence::from_evidence(&violation.evidence), "stop")]
        {
            assert!(text.contains("\"doom") && !text.contains(['\n', '\u{202e}']), "{text}");
            assert!(text.chars().count() < 600, "{text}");
        }
    }
}
