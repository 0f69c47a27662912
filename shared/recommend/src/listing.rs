//! Types with accelerators, with their prices and quotas by region.

use std::collections::{BTreeMap, BTreeSet};

use billing::energy::{MACHINES, MachineHardware};
use billing::price::PriceBook;
use jobs::normalize_gpu_name;
use model::fault::{InvalidValue, one_line};
use model::id::{Region, TypeName};
use model::instance_family::RetiredFamily;
use model::instance_family::{ACCELERATED_FAMILIES, AcceleratedFamily};
use model::money::Rate;
use model::quota::{PurchaseMarket, code};
use serde::Serialize;

use crate::catalog::{GpuOffer, network_gbps};

/// A type, and where it is offered.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TypeListing {
    #[serde(rename = "type")]
    pub instance_type: TypeName,
    /// Name of its accelerator, such as `NVIDIA H100`.
    pub accelerator: String,
    /// Number of them; a fraction where a type has a part of one.
    pub accelerators: f64,
    /// Memory of each, or of its part, in MiB; `None` if unknown.
    pub accelerator_memory_mib: Option<u32>,
    pub vcpus: Option<u32>,
    pub memory_gib: Option<u32>,
    /// The most that its network reaches; `None` if unknown.
    pub network_gbps: Option<u32>,
    /// `true` if jobs can run on it.
    pub is_for_jobs: bool,
    /// `true` if AWS retires its family.
    pub is_retired: bool,
    /// Regions that are known to offer it, the cheapest on demand first.
    pub places: Vec<TypePlace>,
}

/// A region that offers a type.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TypePlace {
    pub region: Region,
    /// Price on demand; `None` if unknown.
    pub usd_per_hour: Option<Rate>,
    /// Source of that price, in words.
    pub price_source: Option<String>,
    /// The cheapest price on Spot; `None` if unknown.
    pub spot_usd_per_hour: Option<Rate>,
    /// Zone of that price.
    pub spot_zone: Option<String>,
    /// Quota on demand in vCPUs, of all types that it counts; `None` if unknown.
    pub quota_vcpus: Option<f64>,
    /// Quota on Spot.
    pub spot_quota_vcpus: Option<f64>,
}

/// Facts about prices and the account.
#[derive(Debug, Clone, Copy)]
pub struct ListingFacts<'a> {
    pub prices: &'a PriceBook,
    /// Offers of EC2; `None` without AWS.
    pub offers: Option<&'a [GpuOffer]>,
    /// Quotas of each region, by their code.
    pub quotas: &'a BTreeMap<Region, BTreeMap<String, f64>>,
}

/// A part of the listing: a GPU, a family or a type, by its name; everything without one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListingFilter(Option<String>);

impl ListingFilter {
    /// Reads a name.
    ///
    /// # Errors
    /// The reason why no table has it, or the names that there are.
    pub fn new(name: Option<&str>, offers: &[GpuOffer]) -> Result<Self, InvalidValue> {
        let Some(name) = name else { return Ok(Self(None)) };
        let filter = Self(Some(name.to_owned()));
        let is_tabled = MACHINES.iter().any(|machine| filter.has_machine(machine));
        if is_tabled || offers.iter().any(|offer| filter.has(offer.instance_type.as_str(), &offer.gpu_name)) {
            return Ok(filter);
        }
        let family = name.split('.').next().unwrap_or_default().to_ascii_lowercase();
        if let Some(AcceleratedFamily { name, not_in_machines: Some(why) }) = AcceleratedFamily::find(&family) {
            return Err(InvalidValue::new(format!("{name} is in no table: {why}")));
        }
        let gpus: BTreeSet<&str> = MACHINES.iter().map(|machine| short_name(machine)).collect();
        let gpus: Vec<&str> = gpus.into_iter().collect();
        let families = ACCELERATED_FAMILIES.iter().filter(|family| family.not_in_machines.is_none());
        let families: Vec<&str> = families.map(|family| family.name).collect();
        Err(InvalidValue::new(format!(
            "no accelerator, family or type is called {:?}; there are {}, and the families {}",
            one_line(name, 40),
            gpus.join(", "),
            families.join(", ")
        )))
    }

    /// `true` for a type that the filter keeps.
    #[must_use]
    pub fn has(&self, instance_type: &str, accelerator: &str) -> bool {
        let Some(name) = &self.0 else { return true };
        let family = instance_type.split('.').next().unwrap_or_default();
        let name = name.to_ascii_lowercase();
        let is_accelerator = normalize_gpu_name(accelerator) == normalize_gpu_name(&name);
        name == instance_type || name == family || is_accelerator
    }

    fn has_machine(&self, machine: &MachineHardware) -> bool {
        let name = type_name(machine);
        self.has(&name, short_name(machine)) || self.has(&name, machine.accelerator.name)
    }
}

/// The name of an accelerator without its maker: `H100`, `Trainium2`.
fn short_name(machine: &MachineHardware) -> &'static str {
    let name = machine.accelerator.name;
    name.split_once(' ').map_or(name, |(_, name)| name)
}

fn type_name(machine: &MachineHardware) -> String {
    format!("{}.{}", machine.family, machine.size)
}

/// Lists the types of the table of machines, and those that EC2 has beyond it. Retired families only by their name. Where EC2 answers, it says which region offers a type for jobs; for
/// all others, and without AWS, a region offers what has a price there.
#[must_use]
pub fn list_types(filter: &ListingFilter, regions: &[Region], facts: ListingFacts<'_>) -> Vec<TypeListing> {
    let tabled = MACHINES.iter().filter(|machine| filter.has_machine(machine));
    let tabled = tabled.map(|machine| from_machine(machine, regions, facts));
    let mut listings: Vec<TypeListing> = tabled.filter(|listing| !listing.is_retired || filter.0.is_some()).collect();
    let known: BTreeSet<TypeName> = listings.iter().map(|listing| listing.instance_type.clone()).collect();
    let newer = facts.offers.unwrap_or_default().iter().filter(|offer| {
        filter.has(offer.instance_type.as_str(), &offer.gpu_name) && !known.contains(&offer.instance_type)
    });
    let mut newer: Vec<&GpuOffer> = newer.collect();
    newer.sort_by_key(|offer| &offer.instance_type);
    newer.dedup_by_key(|offer| &offer.instance_type);
    listings.extend(newer.into_iter().map(|offer| from_offer(offer, regions, facts)));
    listings
}

fn from_machine(machine: &MachineHardware, regions: &[Region], facts: ListingFacts<'_>) -> TypeListing {
    let instance_type = TypeName::new(type_name(machine));
    let is_for_jobs = network_gbps(&instance_type).is_some();
    TypeListing {
        accelerator: machine.accelerator.name.to_owned(),
        accelerators: f64::from(machine.accelerator_eighths) / 8.0,
        accelerator_memory_mib: machine.accelerator_memory_mib,
        vcpus: Some(machine.vcpus.into()),
        memory_gib: Some(machine.memory_gib.into()),
        network_gbps: network_gbps(&instance_type),
        is_for_jobs,
        is_retired: RetiredFamily::of_type(&instance_type).is_some(),
        places: places(&instance_type, is_for_jobs, regions, facts),
        instance_type,
    }
}

fn from_offer(offer: &GpuOffer, regions: &[Region], facts: ListingFacts<'_>) -> TypeListing {
    TypeListing {
        instance_type: offer.instance_type.clone(),
        accelerator: format!("NVIDIA {}", offer.gpu_name),
        accelerators: f64::from(offer.gpus),
        accelerator_memory_mib: Some(offer.gpu_memory_mib),
        vcpus: offer.vcpus,
        memory_gib: None,
        network_gbps: None,
        is_for_jobs: true,
        is_retired: RetiredFamily::of_type(&offer.instance_type).is_some(),
        places: places(&offer.instance_type, true, regions, facts),
    }
}

fn places(instance_type: &TypeName, is_for_jobs: bool, regions: &[Region], facts: ListingFacts<'_>) -> Vec<TypePlace> {
    let place = |region: &Region| {
        let quote = facts.prices.on_demand(region, instance_type).filter(|quote| quote.rate > Rate::ZERO);
        let is_offered = match facts.offers {
            Some(offers) if is_for_jobs => {
                offers.iter().any(|offer| offer.region == *region && offer.instance_type == *instance_type)
            }
            _ => quote.is_some(),
        };
        is_offered.then_some(())?;
        let spot = facts.prices.cheapest_spot(region, instance_type).filter(|(_, quote)| quote.rate > Rate::ZERO);
        let granted = |market| facts.quotas.get(region)?.get(code(instance_type, market)?).copied();
        Some(TypePlace {
            region: region.clone(),
            usd_per_hour: quote.map(|quote| quote.rate),
            price_source: quote.map(|quote| quote.source.describe()),
            spot_usd_per_hour: spot.map(|(_, quote)| quote.rate),
            spot_zone: spot.map(|(zone, _)| zone.to_owned()),
            quota_vcpus: granted(PurchaseMarket::OnDemand),
            spot_quota_vcpus: granted(PurchaseMarket::Spot),
        })
    };
    let mut places: Vec<TypePlace> = regions.iter().filter_map(place).collect();
    places.sort_by(|one, other| {
        let order = |place: &TypePlace| (place.usd_per_hour.is_none(), place.usd_per_hour, place.region.clone());
        order(one).cmp(&order(other))
    });
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(name: &str, regions: &[&str]) -> Vec<TypeListing> {
        let (prices, quotas) = (PriceBook::dated(), BTreeMap::new());
        let regions: Vec<Region> = regions.iter().map(|region| Region::from(*region)).collect();
        let filter = ListingFilter::new(Some(name), &[]).unwrap();
        list_types(&filter, &regions, ListingFacts { prices: &prices, offers: None, quotas: &quotas })
    }

    #[test]
    fn a_gpu_a_family_and_a_type_are_found_by_their_names() {
        let names = |name: &str| -> Vec<String> {
            listed(name, &[]).iter().map(|listing| listing.instance_type.to_string()).collect()
        };
        assert_eq!(names("p5"), ["p5.4xlarge", "p5.48xlarge"]);
        assert_eq!(names("H100"), names("p5"));
        assert_eq!(names("rtx-pro-server-6000"), names("g7e"));
        assert_eq!(names("g6f.large"), ["g6f.large"]);
        assert_eq!(names("trainium2"), ["trn2.3xlarge", "trn2.48xlarge", "trn2u.48xlarge"]);
        assert_eq!(names("rtx-pro-4500").len(), 6);
    }

    #[test]
    fn a_name_without_types_is_explained() {
        let refusal = |name: &str| ListingFilter::new(Some(name), &[]).unwrap_err().to_string();
        assert_eq!(
            refusal("g4ad.xlarge"),
            "g4ad is in no table: AMD Radeon Pro V520: no published power; and jobs need NVIDIA"
        );
        let unknown = refusal("h\n900");
        assert!(unknown.starts_with("no accelerator, family or type is called \"h 900\"; there are A100"), "{unknown}");
    }

    #[test]
    fn a_region_has_the_type_only_if_it_is_known_to_offer_it() {
        let [listing] = listed("p6-b300.48xlarge", &["ap-east-2", "us-west-2", "us-east-1"]).try_into().unwrap();
        let regions: Vec<&str> = listing.places.iter().map(|place| place.region.as_str()).collect();
        assert_eq!(regions, ["us-east-1", "us-west-2"]);
        let place = &listing.places[0];
        assert_eq!(
            (place.usd_per_hour.map(|rate| rate.to_string()).as_deref(), place.quota_vcpus),
            (Some("$142.42/h"), None)
        );
        assert_eq!((listing.accelerators, listing.accelerator_memory_mib), (8.0, Some(275_040)));
    }

    #[test]
    fn ec2_says_which_region_offers_a_type_and_has_newer_ones() {
        let regions: [Region; 2] = ["us-east-1".into(), "us-west-2".into()];
        let offer =
            GpuOffer { gpus: 4, gpu_name: "X9000".to_owned(), ..GpuOffer::named(&regions[1], &"g99.xlarge".into()) };
        let offers = [GpuOffer::named(&regions[1], &"g5.xlarge".into()), offer];
        let quotas = BTreeMap::from([(regions[1].clone(), BTreeMap::from([("L-DB2E81BA".to_owned(), 64.0)]))]);
        let prices = PriceBook::dated();
        let facts = ListingFacts { prices: &prices, offers: Some(&offers), quotas: &quotas };
        let all = list_types(&ListingFilter::default(), &regions, facts);
        let of = |name: &str| all.iter().find(|listing| listing.instance_type.as_str() == name).unwrap();
        assert_eq!(of("g5.xlarge").places.len(), 1);
        assert_eq!(of("g5.xlarge").places[0].quota_vcpus, Some(64.0));
        assert_eq!((of("g99.xlarge").accelerators, of("g99.xlarge").places[0].usd_per_hour), (4.0, None));
        // No type for jobs: EC2 was not asked about it.
        assert_eq!(of("trn1.2xlarge").places.len(), 2);
        // Retired: nobody chooses it, but who names it finds it.
        assert!(!all.iter().any(|listing| listing.instance_type.as_str().starts_with("p3.")));
        assert!(listed("p3.2xlarge", &["us-east-1"])[0].is_retired && !listed("p3dn", &[])[0].is_retired);
    }
}
