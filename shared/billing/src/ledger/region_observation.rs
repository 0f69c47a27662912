//! A look at a region, and the beat that it is.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use model::config::{Config, PricesConfig};
use model::curfew_tags::JOB;
use model::id::{Region, ResourceId};
use model::instance::{Instance, InstanceState, PrepaidCapacity, PurchaseOption, Tags};
use model::money::Rate;
use model::ownership::{owner_of, team_of, value_of};
use model::volume::Volume;

use super::Tariff;
use super::observe::{BillingState, LedgerBeat, Sighting};
use super::run::{PurchaseTerms, RunFacts, RunKind};
use crate::price::discount_percent;

/// EC2 took a Spot instance back: terminated it, or stopped it (EC2 API reference, `StateReason`).
const RECLAIMED: [&str; 2] = ["Server.SpotInstanceTermination", "Server.SpotInstanceShutdown"];

/// The accelerated instances of a region in every state, those that are terminated included, and the volumes on them.
#[derive(Debug, Clone, PartialEq)]
pub struct RegionObservation {
    pub region: Region,
    /// `true` if everything was seen and could be read.
    pub whole: bool,
    pub instances: Vec<InspectedInstance>,
    /// The volumes that hang on one that is not terminated.
    pub volumes: Vec<AttachedVolume>,
}

/// An instance, with what only the ledger reads of it.
#[derive(Debug, Clone, PartialEq)]
pub struct InspectedInstance {
    pub instance: Instance,
    /// Time of the stop or termination, if EC2 gives it in a text that can be parsed.
    pub ended_at: Option<Timestamp>,
}

/// A volume that hangs on an accelerated instance.
#[derive(Debug, Clone, PartialEq)]
pub struct AttachedVolume {
    pub volume: Volume,
    /// The instance; of several, the one that it was attached to first.
    pub on: ResourceId,
    pub since: Timestamp,
}

/// Known prices, each with the moment from which it holds: the date of a list or a table, not that of the launch or the beat; for Spot the
/// time of the change. Empty if unknown.
pub type KnownPrices = Vec<(Timestamp, Rate)>;

impl RegionObservation {
    /// The beat that this look is, begun at that moment.
    #[must_use]
    pub fn to_beat(
        &self,
        at: Timestamp,
        config: &Config,
        instance_prices: impl Fn(&InspectedInstance) -> KnownPrices,
        volume_prices: impl Fn(&Volume) -> KnownPrices,
    ) -> LedgerBeat {
        let hosts: BTreeMap<&ResourceId, &Tags> =
            self.instances.iter().map(|one| (&one.instance.id, &one.instance.tags)).collect();
        let instances = self.instances.iter().filter_map(|one| one.sighting(config, instance_prices(one)));
        let volumes = self.volumes.iter().map(|one| one.sighting(&hosts, config, volume_prices(&one.volume)));
        LedgerBeat {
            at,
            region: self.region.clone(),
            whole: self.whole && self.instances.iter().all(|one| one.instance.state != InstanceState::Unknown),
            items: instances.chain(volumes).collect(),
            unread: BTreeSet::new(),
        }
    }
}

impl InspectedInstance {
    /// `None` if unknown whether it runs.
    fn sighting(&self, config: &Config, known: KnownPrices) -> Option<Sighting> {
        let Instance { id, launched_at, tags, .. } = &self.instance;
        let terms = terms(&self.instance);
        Some(Sighting {
            resource: id.clone(),
            began: *launched_at,
            facts: RunFacts {
                kind: RunKind::Instance,
                team: team_of(tags, config),
                owner: owner_of(tags, config),
                name: value_of(tags, "Name").map(str::to_owned),
                what: self.instance.instance_type.to_string(),
                terms,
                job: value_of(tags, JOB).map(str::to_owned),
                attached_to: None,
                tariff: self.tariff(terms, &config.prices),
            },
            life: self.life()?,
            prices: known,
        })
    }

    /// `shutting-down` and `stopping` are not billed any more (EC2 user guide, "Amazon EC2 instance state changes").
    fn life(&self) -> Option<BillingState> {
        let terminated = match self.instance.state {
            InstanceState::Pending | InstanceState::Running => return Some(BillingState::Live),
            InstanceState::Stopping | InstanceState::Stopped => false,
            InstanceState::ShuttingDown | InstanceState::Terminated => true,
            InstanceState::Unknown => return None,
        };
        let reclaimed = self.instance.state_reason.as_deref().is_some_and(|code| RECLAIMED.contains(&code));
        Some(BillingState::Ended { at: self.ended_at, terminated, reclaimed })
    }

    /// Returns the tariff, including this account's discount: AWS does not say from when a discount holds, and people change it. It counts
    /// from the beat that found it in the configuration.
    fn tariff(&self, terms: PurchaseTerms, prices: &PricesConfig) -> Tariff {
        let Instance { instance_type, plain_linux, prepaid, purchase, zone, .. } = &self.instance;
        let how = match (terms, zone) {
            (PurchaseTerms::OnDemand | PurchaseTerms::Reserved, Some(zone)) if is_local(zone) => {
                format!("on demand in {zone}")
            }
            (PurchaseTerms::OnDemand | PurchaseTerms::Reserved, _) => "on demand".to_owned(),
            (PurchaseTerms::Spot, Some(zone)) => format!("on Spot in {zone}"),
            (PurchaseTerms::Spot, None) => "on Spot, nobody knows where".to_owned(),
            (PurchaseTerms::Prepaid, _) if *prepaid == Some(PrepaidCapacity::DedicatedHost) => {
                "on a dedicated host".to_owned()
            }
            (PurchaseTerms::Prepaid, _) if *purchase == PurchaseOption::InterruptibleReservation => {
                "in an interruptible reservation".to_owned()
            }
            // Managed Spot is of SageMaker alone.
            (PurchaseTerms::Prepaid | PurchaseTerms::ManagedSpot, _) => "in a capacity block".to_owned(),
        };
        let software = if *plain_linux { "" } else { ", not plain Linux" };
        let discount = discount_percent(prices, instance_type).filter(|_| terms == PurchaseTerms::OnDemand);
        let discount = discount.map(|percent| format!(", {percent} % less")).unwrap_or_default();
        Tariff::new(format!("{instance_type} {how}{software}{discount}"))
    }
}

impl AttachedVolume {
    fn sighting(&self, hosts: &BTreeMap<&ResourceId, &Tags>, config: &Config, known: KnownPrices) -> Sighting {
        let Volume { id, tags, size_gib, volume_type, iops, throughput_mibps, zone, .. } = &self.volume;
        let none = Tags::new();
        let host = hosts.get(&self.on).copied().unwrap_or(&none);
        let number = |number: &Option<u64>| number.map_or_else(|| "?".to_owned(), |number| number.to_string());
        Sighting {
            resource: id.clone(),
            began: self.since,
            facts: RunFacts {
                kind: RunKind::Volume,
                team: team_of(tags, config).or_else(|| team_of(host, config)),
                owner: owner_of(tags, config).or_else(|| owner_of(host, config)),
                name: value_of(tags, "Name").map(str::to_owned),
                what: format!("{size_gib} GiB {volume_type}"),
                terms: PurchaseTerms::OnDemand,
                job: value_of(tags, JOB).or_else(|| value_of(host, JOB)).map(str::to_owned),
                attached_to: Some(self.on.clone()),
                tariff: Tariff::new(format!(
                    "{size_gib} GiB {volume_type}, {} IOPS, {} MiB/s, in {zone}",
                    number(iops),
                    number(throughput_mibps)
                )),
            },
            life: BillingState::Live,
            prices: known,
        }
    }
}

fn terms(instance: &Instance) -> PurchaseTerms {
    match instance.purchase {
        _ if instance.prepaid == Some(PrepaidCapacity::DedicatedHost) => PurchaseTerms::Prepaid,
        PurchaseOption::OnDemand if instance.prepaid == Some(PrepaidCapacity::CapacityReservation) => {
            PurchaseTerms::Reserved
        }
        PurchaseOption::CapacityBlock | PurchaseOption::InterruptibleReservation => PurchaseTerms::Prepaid,
        PurchaseOption::OnDemand => PurchaseTerms::OnDemand,
        PurchaseOption::SpotOneTime | PurchaseOption::SpotPersistent | PurchaseOption::SpotUnknown => {
            PurchaseTerms::Spot
        }
    }
}

/// Local Zones and Wavelength Zones (`us-east-1-bos-1a`) have prices of their own (EC2 user guide, "Regions and Zones").
fn is_local(zone: &str) -> bool {
    zone.bytes().filter(|byte| *byte == b'-').count() > 2
}

#[cfg(test)]
mod tests;
