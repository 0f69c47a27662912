//! Reduction of the runs of one region, after its ledger is read: the runs that matter stay single, the others become sums.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use model::id::TeamName;
use model::money::Amount;

use super::Spend;
use super::books::{TOP, UNPRICED_MAX};
use crate::price::PriceSource;

/// Spends of one team's finished runs.
#[derive(Default)]
struct FinishedSpends {
    dearest: Vec<Spend>,
    /// Spends with the longest running time at an unknown price.
    unpriced: Vec<Spend>,
    /// The sums of all others, by the table of their prices.
    sums: BTreeMap<Option<&'static str>, Spend>,
}

/// Every run of a region, by resource, becomes: what still runs, and what money was reserved for, as it is; of what is over, for each team,
/// the dearest resources, those without a price, and a sum of all others.
pub(super) fn condense(spends: impl Iterator<Item = Spend>) -> Vec<Spend> {
    let (mut kept, mut over) = (Vec::new(), BTreeMap::<Option<TeamName>, FinishedSpends>::new());
    let mut spends = spends.peekable();
    while let Some(first) = spends.next() {
        let mut resource_spends = vec![first];
        while let Some(next) = spends.next_if(|next| next.resource == resource_spends[0].resource) {
            resource_spends.push(next);
        }
        if resource_spends.iter().any(is_kept) {
            kept.append(&mut resource_spends);
        }
        for one in merged(resource_spends) {
            over.entry(one.team.clone()).or_default().add(one);
        }
    }
    kept.extend(over.into_values().flat_map(FinishedSpends::into_spends));
    kept
}

/// Returns `true` for a spend that is kept single. All spends of its resource are then kept, because people are shown their sum.
fn is_kept(one: &Spend) -> bool {
    one.is_running || !one.since.is_empty()
}

/// Merges the finished spends of one resource that have the same team and the same price table.
fn merged(resource_spends: Vec<Spend>) -> Vec<Spend> {
    let mut found: Vec<Spend> = Vec::new();
    for one in resource_spends {
        match found.iter_mut().find(|other| other.team == one.team && other.table == one.table) {
            Some(other) => *other = sum(other, &one),
            None => found.push(one),
        }
    }
    found
}

/// The later one, with the figures of both.
fn sum(one: &Spend, later: &Spend) -> Spend {
    Spend {
        spent: one.spent + later.spent,
        uncertain: one.uncertain + later.uncertain,
        unpriced_seconds: one.unpriced_seconds.saturating_add(later.unpriced_seconds),
        lately: one.lately + later.lately,
        ..later.clone()
    }
}

impl FinishedSpends {
    fn add(&mut self, one: Spend) {
        if one.unpriced_seconds > 0 {
            self.unpriced.push(one);
            for gone in without_largest(&mut self.unpriced, UNPRICED_MAX, |one| one.unpriced_seconds) {
                self.sum_up(gone);
            }
        } else {
            self.dearest.push(one);
            for gone in without_largest(&mut self.dearest, TOP, |one| one.spent) {
                self.sum_up(gone);
            }
        }
    }

    fn sum_up(&mut self, one: Spend) {
        let named = usize::from(one.spent.is_a_cent());
        let key = one.table.map(|table| match table {
            PriceSource::Table { of } => of,
            _ => "",
        });
        let sum_of = self.sums.entry(key).or_insert_with(|| Spend {
            spent: Amount::ZERO,
            uncertain: Amount::ZERO,
            unpriced_seconds: 0,
            lately: Amount::ZERO,
            folded: Some(0),
            ..one.clone()
        });
        let count = sum_of.folded.unwrap_or_default() + named;
        *sum_of = Spend { folded: Some(count), resource: "earlier runs".into(), ..sum(sum_of, &one) };
    }

    fn into_spends(self) -> impl Iterator<Item = Spend> {
        self.dearest.into_iter().chain(self.unpriced).chain(self.sums.into_values())
    }
}

/// Leaves the largest, and gives the others. Sorted only once in a while.
fn without_largest<K: Ord>(all: &mut Vec<Spend>, count: usize, key: impl Fn(&Spend) -> K) -> Vec<Spend> {
    if all.len() < 2 * count {
        return Vec::new();
    }
    all.sort_by_key(|one| Reverse(key(one)));
    all.split_off(count)
}
