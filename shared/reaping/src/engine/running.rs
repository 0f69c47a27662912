//! The kinds that run: instances, and the resources of `SageMaker`. The same rules judge them, as a [`Subject`].

use jiff::Timestamp;
use model::curfew_tags::CurfewTags;
use model::mark::Mark;
use model::mode::Mode;
use model::notification_log::NotificationKey;
use model::rule::{ResourceAction, Rule};
use plan::{Announcement, Evidence, Step};

use super::{PlanDecision, ResourceCase, ResourceFacts};
use crate::engine::announcements::{AnnouncedResource, start_keys};
use crate::explain::EffectiveMode;
use crate::policy::Verdict;
use crate::rules;
use crate::rules::hours::evidence_of_start;
use crate::subject::Subject;

/// One resource of a kind that runs.
pub(crate) trait RunningCase<'a>: ResourceCase<'a> {
    type Action: From<Announcement>;
    fn subject<'s>(self, curfew_tags: &'s CurfewTags) -> Subject<'s>
    where
        'a: 's;
    /// A step with these values alone.
    fn step(self, mode: Mode, action: Self::Action, evidence: Evidence) -> Step;
    /// The action that carries an announced one out, with the mark that must be written first.
    fn end(self, ending: ResourceAction, rule: Rule, mark: Option<Mark>) -> Option<Self::Action>;

    fn verdicts(self, curfew_tags: &CurfewTags) -> Vec<(Rule, Verdict)> {
        let subject = self.subject(curfew_tags);
        Rule::RUNNING.into_iter().map(|rule| (rule, rules::judge(rule, subject))).collect()
    }

    fn effective_mode(self, curfew_tags: &CurfewTags, rule: Rule) -> EffectiveMode {
        let ceiling = self.facts().ceiling(self.facts().tags, rule);
        EffectiveMode::under(ceiling, self.subject(curfew_tags).mode_and_its_source(rule))
    }

    fn mode(self, curfew_tags: &CurfewTags, rule: Rule) -> Mode {
        self.effective_mode(curfew_tags, rule).mode
    }

    /// The start of a stopped resource, whose hours began then.
    fn start(self, curfew_tags: &CurfewTags, action: Self::Action, began: Timestamp) -> PlanDecision {
        // A start takes nothing from anybody, and needs no announcement.
        let mode = self.subject(curfew_tags).mode(Rule::Hours).min(self.facts().policy.ceiling.of_deployment());
        let would = NotificationKey::would(Rule::Hours);
        let already_notified = mode == Mode::Observe && self.facts().was_notified(&would, &began.to_string());
        let step = self.step(mode, action, evidence_of_start(curfew_tags, began));
        Step { deadline: Some(began), already_notified, memory: self.unjudged(start_keys()), ..step }.into()
    }

    /// `true` if Curfew has started it for the hours that began then.
    fn was_started_for(self, began: Timestamp) -> bool {
        self.facts().was_notified(&NotificationKey::started(), &began.to_string())
    }
}

/// A running resource whose tags can be read.
#[derive(Clone, Copy)]
pub(crate) struct Running<'t, C> {
    pub(crate) case: C,
    pub(crate) curfew_tags: &'t CurfewTags,
}

impl<'a, C: RunningCase<'a>> AnnouncedResource<'a> for Running<'_, C> {
    type Action = C::Action;

    fn facts(self) -> ResourceFacts<'a> {
        self.case.facts()
    }

    fn curfew_tags(&self) -> &CurfewTags {
        self.curfew_tags
    }

    fn mode(self, rule: Rule) -> Mode {
        self.case.mode(self.curfew_tags, rule)
    }

    fn step(self, mode: Mode, action: C::Action, evidence: Evidence) -> Step {
        self.case.step(mode, action, evidence)
    }

    fn end(self, ending: ResourceAction, rule: Rule, mark: Option<Mark>) -> Option<C::Action> {
        self.case.end(ending, rule, mark)
    }
}
