//! The bound on the lines of an export.

use std::collections::BTreeMap;

use billing::ledger::TimeSpan;
use jiff::civil::Date;

use super::Charge;

/// Lines of an export. Once there are too many, each is a sum, so that the same ledgers always make the same lines.
pub(super) struct ChargeList {
    lines_max: usize,
    lines: Vec<Charge>,
    sums: BTreeMap<SumKey, ChargeSum>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SumKey {
    day: Date,
    region: String,
    team: String,
    kind: &'static str,
    what: String,
    terms: &'static str,
}

struct ChargeSum {
    total: Charge,
    charges: usize,
}

impl ChargeList {
    pub(super) fn new(lines_max: Option<usize>) -> Self {
        Self { lines_max: lines_max.unwrap_or(usize::MAX), lines: Vec::new(), sums: BTreeMap::new() }
    }

    pub(super) fn add(&mut self, charge: Charge) {
        if self.sums.is_empty() && self.lines.len() < self.lines_max {
            self.lines.push(charge);
            return;
        }
        for line in std::mem::take(&mut self.lines).into_iter().chain([charge]) {
            self.add_to_sum(line);
        }
    }

    fn add_to_sum(&mut self, charge: Charge) {
        let key = SumKey {
            day: charge.day,
            region: charge.region.clone(),
            team: charge.team.clone(),
            kind: charge.service.kind,
            what: charge.what.clone(),
            terms: charge.terms,
        };
        let Some(sum) = self.sums.get_mut(&key) else {
            self.sums.insert(key, ChargeSum { total: charge, charges: 1 });
            return;
        };
        let total = &mut sum.total;
        [&mut total.resource, &mut total.owner, &mut total.job].into_iter().for_each(String::clear);
        sum.charges = sum.charges.saturating_add(1);
        total.span = TimeSpan { from: total.span.from.min(charge.span.from), to: total.span.to.max(charge.span.to) };
        total.seconds = total.seconds.zip(charge.seconds).map(|(sum, seconds)| sum.saturating_add(seconds));
        total.cost = total.cost + charge.cost;
    }

    pub(super) fn finish(self) -> Vec<Charge> {
        let summed = self.sums.into_values().map(|ChargeSum { total, charges }| {
            let name = if charges == 1 { total.name } else { format!("{charges} charges, too many to list") };
            Charge { name, ..total }
        });
        self.lines.into_iter().chain(summed).collect()
    }
}
