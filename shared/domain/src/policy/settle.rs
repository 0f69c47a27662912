//! Mark, wait, look again, act: what follows for one resource from what its rules find and what was announced before.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{Broken, Due, Verdict};
use crate::mark::{Announced, whole_second};
use crate::plan::{Because, OnlyTold};
use crate::rule::{Ending, Rule};

/// What was announced, by rule.
pub(super) type Entries = BTreeMap<Rule, Announced>;

/// What follows.
#[derive(Debug, PartialEq)]
pub(super) struct Settled {
    /// The broken rule whose deadline has passed: what its owner wrote down before what was inferred, the earliest first.
    pub(super) due: Option<(Broken, Announced)>,
    /// Everything that is announced from now on.
    pub(super) entries: Entries,
    /// Those of them that nobody has heard of.
    pub(super) news: Vec<(Broken, Announced)>,
    /// Those of them that are broken and were announced before.
    pub(super) known: Vec<(Broken, Announced)>,
    /// Broken rules that are only told.
    pub(super) only_told: Vec<(Broken, OnlyTold)>,
}

/// Settles the verdicts of rules that share a mode.
///
/// `before` is what was announced and still binds. An entry stays while its rule is broken or unknown; an entry that
/// announces something milder than is due now, or an end of other hours, is replaced and told anew; one whose rule is
/// mended goes.
pub(super) fn settle<'a>(
    verdicts: impl Iterator<Item = &'a (Rule, Verdict)>,
    before: &Entries,
    now: Timestamp,
) -> Settled {
    let mut settled =
        Settled { due: None, entries: Entries::new(), news: Vec::new(), known: Vec::new(), only_told: Vec::new() };
    for (rule, verdict) in verdicts {
        let announced = before.get(rule).copied();
        match verdict {
            Verdict::Kept => {}
            Verdict::Unknown => settled.entries.extend(announced.map(|announced| (*rule, announced))),
            Verdict::Broken(broken) => settled.take(*rule, broken, announced, now),
        }
    }
    settled
}

impl Settled {
    fn take(&mut self, rule: Rule, broken: &Broken, announced: Option<Announced>, now: Timestamp) {
        match broken.due {
            // Work defers an announced end, and so does a Spot request that could not be read; neither takes it back: the
            // reason for it still stands.
            Due::Tell(OnlyTold::Busy | OnlyTold::SpotRequestUnknown) if announced.is_some() => {
                if let Some(announced) = announced {
                    self.stays(rule, broken, announced);
                }
            }
            Due::Tell(why) => self.only_told.push((broken.clone(), why)),
            Due::Now(ending, deadline) => self.becomes_due(rule, broken, Announced { ending, deadline }),
            Due::From(ending, first_deadline) => match announced.filter(|announced| announced.covers(broken, ending)) {
                Some(announced) if announced.deadline <= now => {
                    self.becomes_due(rule, broken, Announced { ending, ..announced });
                }
                Some(announced) => self.stays(rule, broken, announced),
                None => {
                    let announced = Announced { ending, deadline: whole_second(first_deadline) };
                    self.entries.insert(rule, announced);
                    self.news.push((broken.clone(), announced));
                }
            },
        }
    }

    fn stays(&mut self, rule: Rule, broken: &Broken, announced: Announced) {
        self.entries.insert(rule, announced);
        self.known.push((broken.clone(), announced));
    }

    fn becomes_due(&mut self, rule: Rule, broken: &Broken, announced: Announced) {
        self.stays(rule, broken, announced);
        // What its owner wrote down comes first: the limits hold only what was inferred, and that must not hide it.
        let order = |rule: Rule, announced: &Announced| (!rule.is_owners_own(), announced.deadline);
        let is_first =
            |(first, earliest): &(Broken, Announced)| order(rule, &announced) < order(first.because.rule(), earliest);
        if self.due.as_ref().is_none_or(is_first) {
            self.due = Some((broken.clone(), announced));
        }
    }
}

impl Announced {
    /// Whether nobody needs to hear of this end: neither is it harsher than was announced, nor is it a later end of its hours,
    /// nor of the budget of a later month.
    fn covers(self, broken: &Broken, ending: Ending) -> bool {
        let of_this_end = match broken.because {
            Because::Hours { at, .. } => self.deadline >= at,
            Because::OverBudget(ref over) => self.deadline >= over.month_began,
            _ => true,
        };
        of_this_end && self.ending >= ending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::OverBudgetBecause;
    use crate::config::OverBudget;
    use crate::fixture::time;
    use crate::money::Amount;

    fn over_budget(first_deadline: &str) -> (Rule, Verdict) {
        let because = Because::OverBudget(OverBudgetBecause {
            month: "2026-09".to_owned(),
            month_began: time("2026-08-31T22:00:00Z"),
            of: "team",
            budget_usd: Amount::from_usd(100.0),
            spent_usd: Amount::from_usd(120.0),
            reserved_usd: Amount::ZERO,
            percent: 120,
            threshold_percent: 100,
            over_budget: OverBudget::Stop,
            as_of: time("2026-09-03T11:45:00Z"),
            told: String::new(),
        });
        (Rule::OverBudget, Verdict::Broken(Broken { because, due: Due::From(Ending::Stop, time(first_deadline)) }))
    }

    #[test]
    fn what_was_announced_of_last_months_budget_ends_nothing_in_this_one() {
        let verdict = [over_budget("2026-09-03T13:00:00Z")];
        let settled = |deadline: &str| {
            let before =
                Entries::from([(Rule::OverBudget, Announced { ending: Ending::Stop, deadline: time(deadline) })]);
            settle(verdict.iter(), &before, time("2026-09-03T12:00:00Z"))
        };
        let of_last = settled("2026-08-31T21:59:59Z");
        assert_eq!(of_last.due, None);
        assert_eq!(of_last.news[0].1.deadline, time("2026-09-03T13:00:00Z"));
        let of_this = settled("2026-08-31T22:00:00Z");
        assert!(of_this.due.is_some() && of_this.news.is_empty());
    }
}
