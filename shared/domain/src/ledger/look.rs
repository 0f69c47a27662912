//! A look at a region, and the beat that it is.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::run::{Facts, Kind, Terms};
use super::sighting::{Beat, Life, Sighting};
use super::{Tariff, whole_second};
use crate::config::{Config, Prices};
use crate::id::{Region, ResourceId};
use crate::instance::{Instance, Prepaid, Purchase, State, Tags};
use crate::money::Rate;
use crate::policy::{owner_of, team_of, value_of};
use crate::price::discount_percent;
use crate::vocabulary::JOB;
use crate::volume::Volume;

/// EC2 took a Spot instance back: terminated it, or stopped it (EC2 API reference, `StateReason`).
const RECLAIMED: [&str; 2] = ["Server.SpotInstanceTermination", "Server.SpotInstanceShutdown"];

const DAY: SignedDuration = SignedDuration::from_hours(24);

/// The accelerated instances of a region in every state, those that are terminated included, and the volumes on them.
#[derive(Debug, Clone, PartialEq)]
pub struct Look {
    /// Where.
    pub region: Region,
    /// Whether all was seen, and could be read.
    pub whole: bool,
    /// The instances.
    pub instances: Vec<Inspected>,
    /// The volumes that hang on one that is not terminated.
    pub volumes: Vec<Attached>,
}

/// An instance, with what only the ledger reads of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Inspected {
    /// The instance.
    pub instance: Instance,
    /// When it was stopped or terminated, where EC2 says so in words that can be read.
    pub ended_at: Option<Timestamp>,
}

/// A volume that hangs on an accelerated instance.
#[derive(Debug, Clone, PartialEq)]
pub struct Attached {
    /// The volume.
    pub volume: Volume,
    /// The instance; of several, the one that it was attached to first.
    pub on: ResourceId,
    /// Since when.
    pub since: Timestamp,
}

/// What is known of prices, each with the moment from which it holds: of a list or a table the moment that it is of, not that of
/// the launch nor of the beat; of Spot that of the change. Empty where nobody knows.
pub type Known = Vec<(Timestamp, Rate)>;

impl Look {
    /// The beat that this look is, begun at that moment.
    #[must_use]
    pub fn beat(
        &self,
        at: Timestamp,
        config: &Config,
        of_instance: impl Fn(&Inspected) -> Known,
        of_volume: impl Fn(&Volume) -> Known,
    ) -> Beat {
        let hosts: BTreeMap<&ResourceId, &Tags> =
            self.instances.iter().map(|one| (&one.instance.id, &one.instance.tags)).collect();
        let instances = self.instances.iter().filter_map(|one| one.sighting(config, of_instance(one)));
        let volumes = self.volumes.iter().map(|one| one.sighting(&hosts, config, of_volume(&one.volume)));
        Beat {
            at,
            region: self.region.clone(),
            whole: self.whole && self.instances.iter().all(|one| one.instance.state != State::Unknown),
            items: instances.chain(volumes).collect(),
        }
    }
}

impl Inspected {
    /// `None` where nobody can say whether it runs.
    fn sighting(&self, config: &Config, known: Known) -> Option<Sighting> {
        let Instance { id, launched_at, tags, .. } = &self.instance;
        let terms = terms(&self.instance);
        let prices = match terms {
            Terms::Spot => known,
            // Once a day is enough: the ledger keeps each moment.
            Terms::OnDemand | Terms::Reserved | Terms::Prepaid => {
                known.into_iter().map(|(from, rate)| (day_of(from), rate)).collect()
            }
        };
        Some(Sighting {
            resource: id.clone(),
            began: *launched_at,
            facts: Facts {
                kind: Kind::Instance,
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
            prices,
        })
    }

    /// `shutting-down` and `stopping` are not billed any more (EC2 user guide, "Amazon EC2 instance state changes").
    fn life(&self) -> Option<Life> {
        let terminated = match self.instance.state {
            State::Pending | State::Running => return Some(Life::Live),
            State::Stopping | State::Stopped => false,
            State::ShuttingDown | State::Terminated => true,
            State::Unknown => return None,
        };
        let reclaimed = self.instance.state_reason.as_deref().is_some_and(|code| RECLAIMED.contains(&code));
        Some(Life::Ended { at: self.ended_at, terminated, reclaimed })
    }

    /// What this account pays less is part of it: the rates of a tariff are the list's, and a discount that people change has no
    /// moment from which it is in force. So a run costs throughout what the newest configuration makes of its price.
    fn tariff(&self, terms: Terms, prices: &Prices) -> Tariff {
        let Instance { instance_type, plain_linux, prepaid, zone, .. } = &self.instance;
        let how = match (terms, zone) {
            (Terms::OnDemand | Terms::Reserved, Some(zone)) if is_local(zone) => format!("on demand in {zone}"),
            (Terms::OnDemand | Terms::Reserved, _) => "on demand".to_owned(),
            (Terms::Spot, Some(zone)) => format!("on Spot in {zone}"),
            (Terms::Spot, None) => "on Spot, nobody knows where".to_owned(),
            (Terms::Prepaid, _) if *prepaid == Some(Prepaid::DedicatedHost) => "on a dedicated host".to_owned(),
            (Terms::Prepaid, _) => "in a capacity block".to_owned(),
        };
        let software = if *plain_linux { "" } else { ", not plain Linux" };
        let discount = discount_percent(prices, instance_type).filter(|_| terms == Terms::OnDemand);
        let discount = discount.map(|percent| format!(", {percent} % less")).unwrap_or_default();
        Tariff::new(format!("{instance_type} {how}{software}{discount}"))
    }
}

impl Attached {
    fn sighting(&self, hosts: &BTreeMap<&ResourceId, &Tags>, config: &Config, known: Known) -> Sighting {
        let Volume { id, tags, size_gib, volume_type, iops, throughput_mibps, zone, .. } = &self.volume;
        let none = Tags::new();
        let host = hosts.get(&self.on).copied().unwrap_or(&none);
        let number = |number: &Option<u64>| number.map_or_else(|| "?".to_owned(), |number| number.to_string());
        Sighting {
            resource: id.clone(),
            began: self.since,
            facts: Facts {
                kind: Kind::Volume,
                team: team_of(tags, config).or_else(|| team_of(host, config)),
                owner: owner_of(tags, config).or_else(|| owner_of(host, config)),
                name: value_of(tags, "Name").map(str::to_owned),
                what: format!("{size_gib} GiB {volume_type}"),
                terms: Terms::OnDemand,
                job: value_of(tags, JOB).or_else(|| value_of(host, JOB)).map(str::to_owned),
                attached_to: Some(self.on.clone()),
                tariff: Tariff::new(format!(
                    "{size_gib} GiB {volume_type}, {} IOPS, {} MiB/s, in {zone}",
                    number(iops),
                    number(throughput_mibps)
                )),
            },
            life: Life::Live,
            prices: known.into_iter().map(|(from, rate)| (day_of(from), rate)).collect(),
        }
    }
}

fn terms(instance: &Instance) -> Terms {
    match instance.purchase {
        _ if instance.prepaid == Some(Prepaid::DedicatedHost) => Terms::Prepaid,
        Purchase::OnDemand if instance.prepaid == Some(Prepaid::CapacityReservation) => Terms::Reserved,
        Purchase::CapacityBlock => Terms::Prepaid,
        Purchase::OnDemand => Terms::OnDemand,
        Purchase::SpotOneTime | Purchase::SpotPersistent | Purchase::SpotUnknown => Terms::Spot,
    }
}

/// Local Zones and Wavelength Zones (`us-east-1-bos-1a`) have prices of their own (EC2 user guide, "Regions and Zones").
fn is_local(zone: &str) -> bool {
    zone.bytes().filter(|byte| *byte == b'-').count() > 2
}

/// The beginning of the day in UTC.
fn day_of(at: Timestamp) -> Timestamp {
    let seconds = at.as_second();
    Timestamp::from_second(seconds - seconds.rem_euclid(DAY.as_secs())).unwrap_or_else(|_| whole_second(at))
}

#[cfg(test)]
mod tests;
