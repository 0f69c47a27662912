//! Mark, wait, look again, act: what follows for one resource from what its rules find and what was announced before.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{Broken, Due, Verdict};
use crate::mark::Announced;
use crate::plan::OnlyTold;
use crate::rule::Rule;

/// What was announced, by rule.
pub(super) type Entries = BTreeMap<Rule, Announced>;

/// What follows.
#[derive(Debug, PartialEq)]
pub(super) struct Settled {
    /// The broken rule whose deadline has passed, the earliest first announced.
    pub(super) due: Option<(Broken, Announced)>,
    /// Everything that is announced from now on.
    pub(super) entries: Entries,
    /// Those of them that nobody has heard of.
    pub(super) news: Vec<(Broken, Announced)>,
    /// Broken rules that are only told.
    pub(super) only_told: Vec<(Broken, OnlyTold)>,
}

/// Settles the verdicts of rules that share a mode.
///
/// `before` is what was announced and still binds. An entry stays while its rule is broken or unknown; an entry that
/// announces something milder than is due now is replaced and told anew; one whose rule is mended goes.
pub(super) fn settle<'a>(
    verdicts: impl Iterator<Item = &'a (Rule, Verdict)>,
    before: &Entries,
    now: Timestamp,
) -> Settled {
    let mut settled = Settled { due: None, entries: Entries::new(), news: Vec::new(), only_told: Vec::new() };
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
            // Work defers an announced end, and does not take it back: the reason for it still stands.
            Due::Tell(OnlyTold::Busy) if announced.is_some() => {
                self.entries.extend(announced.map(|announced| (rule, announced)));
            }
            Due::Tell(why) => self.only_told.push((broken.clone(), why)),
            Due::Now(ending, deadline) => self.becomes_due(rule, broken, Announced { ending, deadline }),
            Due::From(ending, first_deadline) => match announced.filter(|announced| announced.ending >= ending) {
                Some(announced) if announced.deadline <= now => {
                    self.becomes_due(rule, broken, Announced { ending, ..announced });
                }
                Some(announced) => {
                    self.entries.insert(rule, announced);
                }
                None => {
                    let announced = Announced { ending, deadline: whole_seconds_up(first_deadline) };
                    self.entries.insert(rule, announced);
                    self.news.push((broken.clone(), announced));
                }
            },
        }
    }

    fn becomes_due(&mut self, rule: Rule, broken: &Broken, announced: Announced) {
        self.entries.insert(rule, announced);
        if self.due.as_ref().is_none_or(|(_, earliest)| announced.deadline < earliest.deadline) {
            self.due = Some((broken.clone(), announced));
        }
    }
}

/// Never earlier than was computed.
fn whole_seconds_up(at: Timestamp) -> Timestamp {
    let seconds = at.as_second() + i64::from(at.subsec_nanosecond() > 0);
    Timestamp::from_second(seconds).unwrap_or(at)
}
