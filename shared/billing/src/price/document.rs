//! `prices/current.json`: live prices as they were last asked for. A cache, and safe to lose.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use model::id::{Region, TypeName};
use model::instance::{Instance, PurchaseOption};
use model::moment::before;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use super::list::{InstanceFamily, is_believable};
use super::sagemaker::SageMakerPrices;
use super::storage::StoragePrices;
use crate::ledger::is_sane;

/// The Price List is asked again after this.
const LISTED_FOR: SignedDuration = SignedDuration::from_hours(24);

/// Longest time that the last answer counts if there is no new one.
const LISTED_MAX: SignedDuration = SignedDuration::from_hours(7 * 24);

/// Spot prices are asked for again after this.
const SPOT_FOR: SignedDuration = SignedDuration::from_mins(10);

/// No older Spot price counts.
pub(super) const SPOT_MAX: SignedDuration = SignedDuration::from_hours(1);

/// Longest time for which missed changes are requested: after a while without an answer, all changes since the last one.
const SPOT_ASKED_MAX: SignedDuration = SignedDuration::from_hours(7 * 24);

/// Largest difference between two clocks: a price with a later time than this from now is of the future, and ignored.
const AHEAD_MAX: SignedDuration = SignedDuration::from_hours(1);

/// Time for which changes of a Spot price are kept, for resources that were not observed for a while.
const SPOT_KEPT: SignedDuration = SignedDuration::from_hours(6);

/// Entries of a cache: AWS has some 1,500 prices of accelerated types.
const CACHED_MAX: usize = 20_000;

/// Questions to the Price List of one run; the rest wait for the next one, a quarter of an hour later.
const QUESTIONS_MAX: usize = 50;

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PriceDocument {
    #[serde(default)]
    pub on_demand: BTreeMap<Region, BTreeMap<TypeName, ListedPrice>>,
    /// Spot prices by region, type and zone.
    #[serde(default)]
    pub spot: BTreeMap<Region, BTreeMap<TypeName, SpotPrices>>,
    #[serde(default)]
    pub storage: BTreeMap<Region, ListedStoragePrices>,
    /// Prices of `SageMaker` by region and type, as EC2 names it.
    #[serde(default)]
    pub sagemaker: BTreeMap<Region, BTreeMap<TypeName, ListedSageMakerPrices>>,
}

/// The Price List's answer about a type in a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedPrice {
    /// Micro-USD per hour; null if it did not say one price.
    pub usd_micros_per_hour: Option<u64>,
    /// Time of the query.
    #[serde(deserialize_with = "sane")]
    pub as_of: Timestamp,
    /// Time since which the answer is the same.
    #[serde(deserialize_with = "sane")]
    pub from: Timestamp,
}

/// The Price List's answer about the storage of a region.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedStoragePrices {
    #[serde(flatten)]
    pub prices: StoragePrices,
    /// Time of the query.
    #[serde(deserialize_with = "sane")]
    pub as_of: Timestamp,
    /// Time since which the answer is the same.
    #[serde(deserialize_with = "sane")]
    pub from: Timestamp,
}

/// The Price List's answer about a type of `SageMaker` in a region.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedSageMakerPrices {
    /// Micro-USD per hour, of each component that said one price.
    pub usd_micros_per_hour: SageMakerPrices,
    /// Time of the query.
    #[serde(deserialize_with = "sane")]
    pub as_of: Timestamp,
    /// Time since which the answer is the same.
    #[serde(deserialize_with = "sane")]
    pub from: Timestamp,
}

/// The Spot prices of a type in a region.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpotPrices {
    /// Time of the query.
    #[serde(deserialize_with = "sane")]
    pub as_of: Timestamp,
    /// Prices by zone, each in micro-USD per hour by the moment from which it was in force.
    pub zones: BTreeMap<String, BTreeMap<Timestamp, u64>>,
}

/// A change of a Spot price, as `DescribeSpotPriceHistory` returns it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpotPrice {
    pub instance_type: TypeName,
    /// The zone, by name.
    pub zone: String,
    pub from: Timestamp,
    pub usd_micros_per_hour: u64,
}

/// A question to the Price List.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum PriceQuery {
    /// Price of a type on demand.
    Instance(Region, TypeName),
    /// Prices of all types of a family on demand.
    Family(Region, InstanceFamily),
    /// Storage prices of a region.
    Storage(Region),
    /// Prices of a type under `SageMaker`, one for each of its components.
    SageMaker(Region, TypeName),
}

/// Queries for prices that are missing or too old.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PriceQueries {
    /// Queries to the Price List, instances first.
    pub listed: Vec<PriceQuery>,
    /// Queries to the history of Spot prices: the types of each region, and the time since which changes are missing.
    pub spot: BTreeMap<Region, (BTreeSet<TypeName>, Timestamp)>,
}

impl PriceQueries {
    /// Returns `true` if there is no query.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.listed.is_empty() && self.spot.is_empty()
    }

    /// Removes the queries that the other one has as well.
    #[must_use]
    pub fn without(mut self, other: &Self) -> Self {
        self.listed.retain(|question| !other.listed.contains(question));
        for (region, (types, _)) in &mut self.spot {
            let others = other.spot.get(region);
            types.retain(|name| others.is_none_or(|(others, _)| !others.contains(name)));
        }
        self.spot.retain(|_, (types, _)| !types.is_empty());
        self
    }

    /// Adds the queries of the other one.
    pub fn extend(&mut self, other: Self) {
        self.listed.extend(other.listed);
        for (region, (types, since)) in other.spot {
            let own = self.spot.entry(region).or_insert_with(|| (BTreeSet::new(), since));
            own.0.extend(types);
            own.1 = own.1.min(since);
        }
    }
}

impl PriceDocument {
    /// Returns the queries that give these instances, storage in these regions, and these types under `SageMaker` prices of today. An ended
    /// instance counts as well: the ledger still has to learn its cost.
    #[must_use]
    pub fn wanted(
        &self,
        instances: &[Instance],
        regions: &[Region],
        sagemaker: &BTreeSet<(Region, TypeName)>,
        now: Timestamp,
    ) -> PriceQueries {
        let (mut on_demand, mut on_spot) = (BTreeSet::new(), BTreeSet::new());
        for Instance { region, instance_type, purchase, .. } in instances.iter().filter(|one| one.plain_linux) {
            let of_purchase = match purchase {
                PurchaseOption::OnDemand => &mut on_demand,
                PurchaseOption::SpotOneTime | PurchaseOption::SpotPersistent | PurchaseOption::SpotUnknown => {
                    &mut on_spot
                }
                PurchaseOption::CapacityBlock | PurchaseOption::InterruptibleReservation => continue,
            };
            of_purchase.insert((region.clone(), instance_type.clone()));
        }
        let storage_queries =
            regions.iter().filter(|region| !self.has_storage(region, now)).cloned().map(PriceQuery::Storage);
        let PriceQueries { mut listed, spot } = self.wanted_of_types(&on_demand, &on_spot, now);
        listed.extend(storage_queries);
        let is_missing = |(region, name): &&(Region, TypeName)| {
            let listed = self.sagemaker.get(region).and_then(|types| types.get(name));
            listed.is_none_or(|listed| is_old(listed.as_of, LISTED_FOR, now))
        };
        let sagemaker_queries = sagemaker.iter().filter(is_missing).cloned();
        listed.extend(sagemaker_queries.map(|(region, name)| PriceQuery::SageMaker(region, name)));
        listed.truncate(QUESTIONS_MAX);
        PriceQueries { listed, spot }
    }

    /// Returns the queries that give these types prices of today: list prices for `on_demand`, and for `on_spot` those of every zone of
    /// their region. One run sends at most `QUESTIONS_MAX` queries to the list; the next run requests the missing prices again.
    #[must_use]
    pub fn wanted_of_types(
        &self,
        on_demand: &BTreeSet<(Region, TypeName)>,
        on_spot: &BTreeSet<(Region, TypeName)>,
        now: Timestamp,
    ) -> PriceQueries {
        let missing = on_demand.iter().filter(|(region, name)| !self.is_listed(region, name, now));
        let question = |(region, name): &(Region, TypeName)| PriceQuery::Instance(region.clone(), name.clone());
        let listed = missing.map(question).take(QUESTIONS_MAX).collect();
        let mut spot = BTreeMap::new();
        for (region, name) in on_spot {
            let known = self.spot.get(region).and_then(|types| types.get(name)).map(|of| of.as_of);
            if known.is_none_or(|as_of| is_old(as_of, SPOT_FOR, now)) {
                // AWS may publish a change a little late: a while is asked for twice.
                let since = known
                    .map_or(before(now, SPOT_MAX), |as_of| before(as_of, SPOT_FOR).max(before(now, SPOT_ASKED_MAX)));
                let (types, from) = spot.entry(region.clone()).or_insert_with(|| (BTreeSet::new(), since));
                types.insert(name.clone());
                *from = since.min(*from);
            }
        }
        PriceQueries { listed, spot }
    }

    /// Returns the queries that give these types on demand, and storage in these regions, prices of today: one for each family of a region. What
    /// its answer lacks, [`PriceDocument::wanted_of_types`] asks for.
    #[must_use]
    pub fn wanted_of_families(
        &self,
        on_demand: &BTreeSet<(Region, TypeName)>,
        storage: &BTreeSet<Region>,
        now: Timestamp,
    ) -> PriceQueries {
        let missing = on_demand.iter().filter(|(region, name)| !self.is_listed(region, name, now));
        let families: BTreeSet<PriceQuery> =
            missing.map(|(region, name)| PriceQuery::Family(region.clone(), InstanceFamily::from_type(name))).collect();
        let storage = storage.iter().filter(|region| !self.has_storage(region, now));
        let listed = families.into_iter().chain(storage.cloned().map(PriceQuery::Storage)).collect();
        PriceQueries { listed, spot: BTreeMap::new() }
    }

    fn has_storage(&self, region: &Region, now: Timestamp) -> bool {
        self.storage.get(region).is_some_and(|listed| !is_old(listed.as_of, LISTED_FOR, now))
    }

    fn is_listed(&self, region: &Region, instance_type: &TypeName, now: Timestamp) -> bool {
        let listed = self.on_demand.get(region).and_then(|types| types.get(instance_type));
        listed.is_some_and(|listed| !is_old(listed.as_of, LISTED_FOR, now))
    }

    /// Adds the Price List's answer about a type.
    pub fn learn_listed(&mut self, region: Region, instance_type: TypeName, price: Option<u64>, now: Timestamp) {
        let types = self.on_demand.entry(region).or_default();
        let before = types.get(&instance_type).filter(|before| before.usd_micros_per_hour == price);
        let from = before.map_or(now, |before| before.from.min(now));
        types.insert(instance_type, ListedPrice { usd_micros_per_hour: price, as_of: now, from });
    }

    /// Adds the Price List's answer about a family. A price of today stays as it is.
    pub fn learn_family(&mut self, region: &Region, prices: BTreeMap<TypeName, Option<u64>>, now: Timestamp) {
        for (name, price) in prices {
            if !self.is_listed(region, &name, now) {
                self.learn_listed(region.clone(), name, price, now);
            }
        }
    }

    /// Adds the Price List's answer about storage.
    pub fn learn_storage(&mut self, region: Region, prices: StoragePrices, now: Timestamp) {
        let before = self.storage.get(&region).filter(|before| before.prices == prices);
        let from = before.map_or(now, |before| before.from.min(now));
        self.storage.insert(region, ListedStoragePrices { prices, as_of: now, from });
    }

    /// Adds the Price List's answer about a type of `SageMaker`.
    pub fn learn_sagemaker(&mut self, region: Region, name: TypeName, prices: SageMakerPrices, now: Timestamp) {
        let types = self.sagemaker.entry(region).or_default();
        let before = types.get(&name).filter(|before| before.usd_micros_per_hour == prices);
        let from = before.map_or(now, |before| before.from.min(now));
        types.insert(name, ListedSageMakerPrices { usd_micros_per_hour: prices, as_of: now, from });
    }

    /// Takes in the changes of Spot prices of these types. A zone that is not among them has no change: what was in force
    /// there still is.
    pub fn learn_spot(&mut self, region: &Region, types: &BTreeSet<TypeName>, changes: Vec<SpotPrice>, now: Timestamp) {
        let of_region = self.spot.entry(region.clone()).or_default();
        for name in types {
            let first = || SpotPrices { as_of: now, zones: BTreeMap::new() };
            of_region.entry(name.clone()).or_insert_with(first).as_of = now;
        }
        for SpotPrice { instance_type, zone, from, usd_micros_per_hour } in changes {
            if let Some(of_type) = of_region.get_mut(&instance_type) {
                of_type.zones.entry(zone).or_default().insert(from, usd_micros_per_hour);
            }
        }
    }

    /// Takes over the list prices of another document that are younger.
    pub fn merge(&mut self, other: Self) {
        for (region, types) in other.on_demand {
            let own = self.on_demand.entry(region).or_default();
            merge_younger(own, types, |listed| listed.as_of);
        }
        merge_younger(&mut self.storage, other.storage, |listed| listed.as_of);
        for (region, types) in other.sagemaker {
            let own = self.sagemaker.entry(region).or_default();
            merge_younger(own, types, |listed| listed.as_of);
        }
    }

    /// The list prices of the last day, for a cache that anybody may have written: nothing of the future, no price that cannot be true, and at most
    /// `CACHED_MAX` entries. List prices are the same for every account; Spot prices change too often.
    #[must_use]
    pub fn cacheable(mut self, now: Timestamp) -> Self {
        self.spot.clear();
        let is_fresh = |as_of: Timestamp, from: Timestamp| from <= as_of && !is_old(as_of, LISTED_FOR, now);
        for types in self.on_demand.values_mut() {
            types.retain(|_, listed| {
                is_fresh(listed.as_of, listed.from) && listed.usd_micros_per_hour.is_none_or(is_believable)
            });
        }
        let are_believable = |prices: &BTreeMap<String, u64>| prices.values().copied().all(is_believable);
        self.storage.retain(|_, listed| {
            let StoragePrices { gib_month, iops_month, gibps_month } = &listed.prices;
            let is_true = are_believable(gib_month) && are_believable(iops_month);
            is_fresh(listed.as_of, listed.from) && is_true && gibps_month.is_none_or(is_believable)
        });
        for types in self.sagemaker.values_mut() {
            types.retain(|_, listed| {
                is_fresh(listed.as_of, listed.from) && listed.usd_micros_per_hour.values().copied().all(is_believable)
            });
        }
        self.on_demand.retain(|_, types| !types.is_empty());
        self.sagemaker.retain(|_, types| !types.is_empty());
        let types = self.on_demand.values().map(BTreeMap::len).chain(self.sagemaker.values().map(BTreeMap::len));
        if types.sum::<usize>() + self.storage.len() > CACHED_MAX { Self::default() } else { self }
    }

    /// Removes everything that no longer counts, so that the document does not grow.
    pub fn prune(&mut self, now: Timestamp) {
        for types in self.on_demand.values_mut() {
            types.retain(|_, listed| counts(listed.as_of, LISTED_MAX, now));
        }
        self.on_demand.retain(|_, types| !types.is_empty());
        self.storage.retain(|_, listed| counts(listed.as_of, LISTED_MAX, now));
        for types in self.sagemaker.values_mut() {
            types.retain(|_, listed| counts(listed.as_of, LISTED_MAX, now));
        }
        self.sagemaker.retain(|_, types| !types.is_empty());
        for types in self.spot.values_mut() {
            types.retain(|_, of_type| counts(of_type.as_of, SPOT_ASKED_MAX, now));
            for changes in types.values_mut().flat_map(|of_type| of_type.zones.values_mut()) {
                // What was in force at the beginning of what is kept is kept too.
                let begin = before(now, SPOT_KEPT);
                let in_force = changes.range(..=begin).next_back().map(|(from, _)| *from);
                changes.retain(|from, _| in_force.is_none_or(|in_force| *from >= in_force));
            }
        }
        self.spot.retain(|_, types| !types.is_empty());
    }
}

fn merge_younger<K: Ord, V>(own: &mut BTreeMap<K, V>, other: BTreeMap<K, V>, as_of: impl Fn(&V) -> Timestamp) {
    for (key, value) in other {
        if own.get(&key).is_none_or(|known| as_of(known) < as_of(&value)) {
            own.insert(key, value);
        }
    }
}

/// Returns `true` if a price is so old that it is requested again. A time in the future is as wrong as an old one.
fn is_old(as_of: Timestamp, after: SignedDuration, now: Timestamp) -> bool {
    as_of > now || now.duration_since(as_of) >= after
}

/// Returns `true` if a price is young enough to be used, and not of the future.
pub(super) fn counts(as_of: Timestamp, max: SignedDuration, now: Timestamp) -> bool {
    let age = now.duration_since(as_of);
    -AHEAD_MAX <= age && age <= max
}

/// A moment at which a list can have been asked: a document that names another one is damaged, and as good as lost.
fn sane<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
    let at = Timestamp::deserialize(deserializer)?;
    let message = || D::Error::custom(format!("{at} is no moment at which a price was asked for"));
    is_sane(at).then_some(at).ok_or_else(message)
}

/// Returns `true` for a list price of today, and `false` for one of a day when the list last answered; `None` if it no longer counts.
pub(super) fn is_of_today(as_of: Timestamp, now: Timestamp) -> Option<bool> {
    counts(as_of, LISTED_MAX, now).then(|| counts(as_of, LISTED_FOR.saturating_add(SPOT_MAX), now))
}
