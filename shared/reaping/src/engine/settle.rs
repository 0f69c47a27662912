//! Mark, wait, observe again, act: what follows for one resource from the verdicts of its rules and from earlier announcements.

use std::collections::BTreeMap;

use jiff::Timestamp;
use model::mark::{AnnouncedAction, whole_second};
use model::mode::Mode;
use model::refusal::Refusal;
use model::rule::{ResourceAction, Rule};
use plan::{AnnouncedActions, NotifyOnlyReason};

use crate::policy::{DueAction, Verdict, Violation};

/// The consequences of the verdicts of rules that share a mode.
#[derive(Debug, PartialEq)]
pub(crate) struct SettledVerdicts {
    refused: BTreeMap<ResourceAction, Refusal>,
    mode: Mode,
    now: Timestamp,
    /// The violated rule whose deadline has passed: scheduled actions before policy actions, then the earliest.
    pub(crate) due: Option<(Violation, AnnouncedAction)>,
    /// The rules whose deadline has passed, and whose action AWS refused: it is not tried now.
    pub(crate) refused_rules: BTreeMap<Rule, Refusal>,
    /// Everything that is announced from now on.
    pub(crate) entries: AnnouncedActions,
    /// Announcements that the owner was not notified of yet.
    pub(crate) newly_announced: Vec<(Violation, AnnouncedAction)>,
    /// Announcements of earlier runs whose rules are violated.
    pub(crate) announced_before: Vec<(Violation, AnnouncedAction)>,
    /// Violated rules that only notify.
    pub(crate) notify_only: Vec<(Violation, NotifyOnlyReason)>,
}

/// Settles the verdicts of rules that share a mode.
///
/// `before` is what was announced and still holds. An entry stays while its rule is violated or unknown. An entry that announces a milder
/// action than is due now, or other hours, is replaced and announced again. An entry whose rule complies is removed.
///
/// `refused`: what AWS refused when it was tried last. While such a refusal holds, its action is not due, and hides no other.
pub(crate) fn settle<'a>(
    verdicts: impl Iterator<Item = &'a (Rule, Verdict)>,
    before: &AnnouncedActions,
    refused: BTreeMap<ResourceAction, Refusal>,
    mode: Mode,
    now: Timestamp,
) -> SettledVerdicts {
    let mut settled = SettledVerdicts {
        refused,
        refused_rules: BTreeMap::new(),
        mode,
        now,
        due: None,
        entries: AnnouncedActions::new(),
        newly_announced: Vec::new(),
        announced_before: Vec::new(),
        notify_only: Vec::new(),
    };
    for (rule, verdict) in verdicts {
        let announced = before.get(rule).copied();
        match verdict {
            Verdict::Compliant => {}
            Verdict::Unknown => settled.entries.extend(announced.map(|announced| (*rule, announced))),
            Verdict::Violated(violation) => settled.settle_rule(*rule, violation, announced),
        }
    }
    settled
}

impl SettledVerdicts {
    fn settle_rule(&mut self, rule: Rule, violation: &Violation, announced: Option<AnnouncedAction>) {
        match violation.due {
            // Work and an unreadable Spot request defer an announced action; neither calls it off, because its reason still
            // holds.
            DueAction::NotifyOnly(NotifyOnlyReason::Busy | NotifyOnlyReason::SpotRequestUnknown)
                if announced.is_some() =>
            {
                if let Some(announced) = announced {
                    self.stays(rule, violation, announced);
                }
            }
            DueAction::NotifyOnly(why) => self.notify_only.push((violation.clone(), why)),
            DueAction::AtOnce(ending, deadline) => {
                let earlier =
                    announced.filter(|announced| announced.deadline == deadline && announced.ending == ending);
                self.becomes_due(rule, violation, earlier.unwrap_or_else(|| self.announce(ending, deadline)));
            }
            DueAction::After(ending, first_deadline) => {
                match announced.filter(|announced| covers(*announced, violation, ending)) {
                    Some(announced) if announced.deadline <= self.now => {
                        self.becomes_due(rule, violation, AnnouncedAction { ending, ..announced });
                    }
                    Some(announced) => self.stays(rule, violation, announced),
                    None => {
                        let announced = self.announce(ending, whole_second(first_deadline));
                        self.entries.insert(rule, announced);
                        self.newly_announced.push((violation.clone(), announced));
                    }
                }
            }
        }
    }

    /// The refusal of this very action: one from before its announcement was of another.
    pub(crate) fn refusal_for(&self, announced: AnnouncedAction) -> Option<Refusal> {
        self.refused.get(&announced.ending).copied().filter(|refusal| refusal.at >= whole_second(announced.at))
    }

    /// The refusals of what is still announced.
    pub(crate) fn standing_refusals(&self) -> impl Iterator<Item = (ResourceAction, Refusal)> {
        self.entries.values().filter_map(|announced| Some((announced.ending, self.refusal_for(*announced)?)))
    }

    const fn announce(&self, ending: ResourceAction, deadline: Timestamp) -> AnnouncedAction {
        AnnouncedAction { ending, mode: self.mode, at: self.now, deadline }
    }

    fn stays(&mut self, rule: Rule, violation: &Violation, announced: AnnouncedAction) {
        self.entries.insert(rule, announced);
        self.announced_before.push((violation.clone(), announced));
    }

    fn becomes_due(&mut self, rule: Rule, violation: &Violation, announced: AnnouncedAction) {
        self.stays(rule, violation, announced);
        if let Some(refusal) = self.refusal_for(announced).filter(|refusal| refusal.holds(self.now)) {
            self.refused_rules.insert(rule, refusal);
            return;
        }
        // Scheduled actions come first: the limits hold only policy actions, which must not hide them.
        let order = |violation: &Violation, announced: &AnnouncedAction| {
            (!violation.evidence.is_scheduled(), announced.deadline)
        };
        let is_first =
            |(first, earliest): &(Violation, AnnouncedAction)| order(violation, &announced) < order(first, earliest);
        if self.due.as_ref().is_none_or(is_first) {
            self.due = Some((violation.clone(), announced));
        }
    }
}

/// `true` if the announcement covers this action: it is not harsher than announced, and belongs to the same hours or to the same month of a budget.
fn covers(announced: AnnouncedAction, violation: &Violation, ending: ResourceAction) -> bool {
    let is_of_this_occurrence = violation.since.is_none_or(|since| announced.deadline >= since);
    is_of_this_occurrence && announced.ending >= ending
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::time;
    use crate::rules::over_budget;
    use billing::budget::OverBudgetEvidence;
    use model::config::OverBudget;
    use model::money::Amount;

    fn spent_budget(first_deadline: &str) -> (Rule, Verdict) {
        let evidence = over_budget::evidence(OverBudgetEvidence {
            month: "2026-09".to_owned(),
            holder_kind: "team",
            budget_usd: Amount::from_usd(100.0),
            spent_usd: Amount::from_usd(120.0),
            others_usd: Amount::ZERO,
            reserved_usd: Amount::ZERO,
            percent: 120,
            threshold_percent: 100,
            over_budget: OverBudget::Stop,
            as_of: time("2026-09-03T11:45:00Z"),
            text: String::new(),
        });
        (
            Rule::OverBudget,
            Verdict::Violated(Violation {
                evidence,
                due: DueAction::After(ResourceAction::Stop, time(first_deadline)),
                since: Some(time("2026-08-31T22:00:00Z")),
            }),
        )
    }

    #[test]
    fn an_announcement_about_last_months_budget_ends_nothing_in_this_month() {
        let verdict = [spent_budget("2026-09-03T13:00:00Z")];
        let settled = |deadline: &str| {
            let before =
                AnnouncedActions::from([(Rule::OverBudget, crate::fixture::announced(ResourceAction::Stop, deadline))]);
            settle(verdict.iter(), &before, BTreeMap::new(), Mode::Enforce, time("2026-09-03T12:00:00Z"))
        };
        let last_month = settled("2026-08-31T21:59:59Z");
        assert_eq!(last_month.due, None);
        assert_eq!(last_month.newly_announced[0].1.deadline, time("2026-09-03T13:00:00Z"));
        let this_month = settled("2026-08-31T22:00:00Z");
        assert!(this_month.due.is_some() && this_month.newly_announced.is_empty());
    }
}
