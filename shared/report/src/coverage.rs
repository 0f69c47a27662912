//! How much of a month was observed: what ran unseen is in no sum.

use std::collections::BTreeSet;

use billing::ledger::{Ledger, TimeSpan};
use jiff::Timestamp;
use model::id::Region;

use crate::MonthFacts;

/// Name of the function whose records find waste of instances.
const INSTANCE_REAPER: &str = "reap-instances";

/// Beginning of the calls without which a region is not judged.
const DESCRIBE: &str = "ec2:Describe";

/// Observation of a month, by the ledgers and the newest runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MonthCoverage {
    /// The newest whole look at any region; `None` without one.
    pub known_until: Option<Timestamp>,
    /// `true` if the month is over, and a look after its end is in the ledger.
    pub is_final: bool,
    /// Number of regions and times in which something may have run unseen: the spend lacks it.
    pub unseen: u64,
    /// Number of regions in which the newest runs may have missed waste; 1 without any run.
    pub unjudged: u64,
}

impl MonthCoverage {
    /// Coverage of the part of the month until now, which `span` is.
    pub(crate) fn from_facts(facts: &MonthFacts, span: TimeSpan) -> Self {
        let month = facts.month.span();
        let is_over = facts.now >= month.to;
        let ledgers = &facts.ledgers;
        let known_until = ledgers.iter().filter_map(Ledger::as_of).max();
        let began = ledgers.iter().filter_map(Ledger::since).min().unwrap_or(span.to);
        let knows_end = |ledger: &Ledger| ledger.as_of().is_some_and(|as_of| as_of >= month.to);
        let blind_times = |ledger: &Ledger| {
            let times = ledger.blind(facts.now).iter().filter(|time| time.to > began).count();
            times.max((is_over && !knows_end(ledger)).into())
        };
        let with_ledger: BTreeSet<&Region> =
            ledgers.iter().filter(|ledger| ledger.as_of().is_some()).filter_map(Ledger::region).collect();
        let observed: BTreeSet<&Region> = facts.newest.iter().flat_map(|record| &record.regions).collect();
        // What cannot be read counts as such.
        let missing = observed.difference(&with_ledger).count().saturating_sub(facts.unread_ledgers);
        let unseen = ledgers.iter().map(blind_times).sum::<usize>().saturating_add(missing);
        let judged = facts.newest.iter().find(|record| record.function == INSTANCE_REAPER);
        let unjudged = judged.map_or(1, |record| {
            let failed: BTreeSet<&Region> =
                record.gaps.iter().filter(|gap| gap.call.starts_with(DESCRIBE)).map(|gap| &gap.region).collect();
            record.regions.iter().filter(|region| failed.contains(region)).count()
        });
        Self {
            known_until,
            is_final: is_over && known_until.is_some_and(|known| known >= month.to),
            unseen: u64::try_from(unseen).unwrap_or(u64::MAX),
            unjudged: u64::try_from(unjudged).unwrap_or(u64::MAX),
        }
    }
}
