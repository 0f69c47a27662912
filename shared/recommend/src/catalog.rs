//! Instance types with GPUs, by region: as EC2 describes them, or by the table that comes with Curfew.
//!
//! The table, `data/gpu_types.csv`, has the types with whole NVIDIA GPUs that are sold by the second, and whose image has a GPU driver: none of
//! Neuron, with a part of a GPU, of bare metal, retired (P3), or sold only in Capacity Blocks (P6e-GB200). A region offers those of which the
//! table of prices has a price there. Without one it is unknown whether it does, and whether a type is sold on Spot: only EC2 knows.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use billing::energy::{MachineHardware, hardware};
use billing::price::PriceBook;
use jobs::check_size;
use model::fault::{InvalidValue, one_line};
use model::id::{Region, TypeName};
use model::instance_family::{ACCELERATED_FAMILIES, AcceleratedFamily};
use model::table::{TableError, TableRow, embedded_table};
use serde::Serialize;

const BYTES_PER_MIB: u64 = 1 << 20;

/// A type in a region.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GpuOffer {
    pub region: Region,
    #[serde(rename = "type")]
    pub instance_type: TypeName,
    /// `x86_64` or `arm64`.
    pub architecture: String,
    /// Whole GPUs of NVIDIA.
    pub gpus: u32,
    /// Such as `A10G`.
    pub gpu_name: String,
    /// Memory of each GPU, in MiB.
    pub gpu_memory_mib: u32,
    /// `None` if unknown.
    pub vcpus: Option<u32>,
    /// Memory of the machine, in MiB; `None` if unknown.
    pub memory_mib: Option<u32>,
    /// `true` if the type is sold on Spot; `None` if unknown.
    pub spot: Option<bool>,
}

impl GpuOffer {
    /// A type of which nothing but its name counts, to ask for its price.
    #[must_use]
    pub fn named(region: &Region, instance_type: &TypeName) -> Self {
        Self {
            region: region.clone(),
            instance_type: instance_type.clone(),
            architecture: String::new(),
            gpus: 0,
            gpu_name: String::new(),
            gpu_memory_mib: 0,
            vcpus: None,
            memory_mib: None,
            spot: None,
        }
    }

    /// Returns what decides whether a model fits.
    #[must_use]
    pub const fn shape(&self) -> MachineShape {
        MachineShape { gpus: self.gpus, gpu_memory_bytes: self.gpu_memory_bytes(), memory_mib: self.memory_mib }
    }

    /// Returns the memory of one GPU, in bytes.
    #[must_use]
    pub const fn gpu_memory_bytes(&self) -> u64 {
        (self.gpu_memory_mib as u64).saturating_mul(BYTES_PER_MIB)
    }
}

/// GPUs and memory of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct MachineShape {
    pub gpus: u32,
    pub gpu_memory_bytes: u64,
    /// Memory of the machine; `None` if unknown.
    pub memory_mib: Option<u32>,
}

impl MachineShape {
    /// Returns `false` if the machine is known to have less memory than so many GiB.
    #[must_use]
    pub fn has_memory(&self, gib: u64) -> bool {
        self.memory_mib.is_none_or(|memory_mib| u64::from(memory_mib) / 1_024 >= gib)
    }
}

/// A type that a job may have.
struct GpuType {
    name: &'static str,
    /// Its parts, by another table.
    hardware: MachineHardware,
    architecture: &'static str,
    /// The most that it reaches.
    network_gbps: u32,
    /// The day of the row, `yyyy-mm-dd`.
    as_of: &'static str,
}

static GPU_TYPES: LazyLock<Vec<GpuType>> =
    LazyLock::new(|| embedded_table("gpu_types.csv", include_str!("../../../data/gpu_types.csv"), GpuType::from_row));

impl GpuType {
    fn from_row(row: &TableRow<'_>) -> Result<Self, TableError> {
        Ok(Self {
            name: row.text("type")?,
            hardware: row.value_by("type", |name| hardware(&name.into()))?,
            architecture: row.text("architecture")?,
            network_gbps: row.value("network_gbps")?,
            as_of: row.text("as_of")?,
        })
    }

    fn to_offer(&self) -> GpuOffer {
        let accelerator = self.hardware.accelerator;
        GpuOffer {
            region: Region::new(""),
            instance_type: self.name.into(),
            architecture: self.architecture.to_owned(),
            gpus: u32::from(self.hardware.accelerator_eighths) / 8,
            gpu_name: accelerator.nvidia_name().unwrap_or(accelerator.name).to_owned(),
            gpu_memory_mib: self.hardware.accelerator_memory_mib.unwrap_or_default(),
            vcpus: Some(u32::from(self.hardware.vcpus)),
            memory_mib: Some(u32::from(self.hardware.memory_gib).saturating_mul(1_024)),
            spot: None,
        }
    }
}

/// The newest day of the table of types.
#[must_use]
pub fn table_date() -> &'static str {
    GPU_TYPES.iter().map(|gpu_type| gpu_type.as_of).max().unwrap_or_default()
}

/// Every type of the table, in no region.
#[must_use]
pub fn tabled_types() -> Vec<GpuOffer> {
    GPU_TYPES.iter().map(GpuType::to_offer).collect()
}

/// The types of the table in each of these regions, as far as the table of prices has them there.
#[must_use]
pub fn tabled_offers(regions: &[Region]) -> Vec<GpuOffer> {
    let (types, prices) = (tabled_types(), PriceBook::dated());
    let offered = |region: &Region| {
        let is_priced = |offer: &&GpuOffer| prices.on_demand(region, &offer.instance_type).is_some();
        let types = types.iter().filter(is_priced);
        types.map(|offer| GpuOffer { region: region.clone(), ..offer.clone() }).collect::<Vec<_>>()
    };
    regions.iter().flat_map(offered).collect()
}

/// The types of the table that the table of prices has in none of these regions: whether one offers them is unknown.
#[must_use]
pub fn untabled_types(regions: &[Region]) -> Vec<TypeName> {
    let offered: BTreeSet<TypeName> = tabled_offers(regions).into_iter().map(|offer| offer.instance_type).collect();
    let names = GPU_TYPES.iter().map(|gpu_type| TypeName::from(gpu_type.name));
    names.filter(|name| !offered.contains(name)).collect()
}

/// Refuses a type of no family with accelerators, and an unknown size of a family in the table of machines. `offers` is what EC2 has.
///
/// # Errors
/// It names the sizes of the family, or else all families.
pub fn check_type(instance_type: &TypeName, offers: &[GpuOffer]) -> Result<(), InvalidValue> {
    let name = instance_type.as_str();
    if offers.iter().any(|offer| offer.instance_type == *instance_type) {
        return Ok(());
    }
    let (family, size) = name.split_once('.').unwrap_or((name, ""));
    let is_known = !size.is_empty() && AcceleratedFamily::find(family).is_some();
    check_size(family, size).or_else(|| is_known.then_some(Ok(()))).unwrap_or_else(|| {
        let families: Vec<&str> = ACCELERATED_FAMILIES.iter().map(|family| family.name).collect();
        Err(InvalidValue::new(format!(
            "{:?} is of no family with accelerators; write one such as g6.xlarge, of the families {}",
            one_line(name, 40),
            families.join(", ")
        )))
    })
}

/// The network of a type in Gbit/s, the most that it reaches; `None` if the table does not have it.
#[must_use]
pub fn network_gbps(instance_type: &TypeName) -> Option<u32> {
    GPU_TYPES.iter().find(|gpu_type| gpu_type.name == instance_type.as_str()).map(|gpu_type| gpu_type.network_gbps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_whole_gpus_that_are_sold_by_the_second() {
        let offers = tabled_types();
        let of = |name: &str| offers.iter().find(|offer| offer.instance_type.as_str() == name);
        let g7 = of("g7.12xlarge").unwrap();
        assert_eq!((g7.gpus, g7.gpu_name.as_str(), g7.gpu_memory_mib, g7.vcpus), (2, "RTX PRO 4500", 32_768, Some(48)));
        assert_eq!(network_gbps(&g7.instance_type), Some(175));
        let p4d = of("p4d.24xlarge").unwrap();
        assert_eq!((p4d.gpus, p4d.gpu_name.as_str(), p4d.gpu_memory_mib), (8, "A100", 40_960));
        assert_eq!(of("g5g.xlarge").unwrap().architecture, "arm64");
        for left_out in ["p3.2xlarge", "g6f.large", "trn1.2xlarge", "g4dn.metal", "p6e-gb200.36xlarge"] {
            assert_eq!(of(left_out), None);
        }
        assert!(offers.iter().all(|offer| offer.gpus > 0 && offer.vcpus.is_some()));
    }

    #[test]
    fn a_region_offers_what_has_a_price_there_and_the_rest_is_unknown() {
        let regions: [Region; 2] = ["eu-west-3".into(), "ap-east-2".into()];
        let offers = tabled_offers(&regions);
        let names: BTreeSet<&str> = offers.iter().map(|offer| offer.instance_type.as_str()).collect();
        assert!(names.contains("g4dn.xlarge") && !names.contains("p6-b300.48xlarge"), "{names:?}");
        assert!(offers.iter().all(|offer| offer.region == regions[0]));
        let unknown = untabled_types(&regions);
        assert_eq!(names.len() + unknown.len(), tabled_types().len());
        assert!(unknown.contains(&"p6-b300.48xlarge".into()));
        assert_eq!(untabled_types(&regions[1..]).len(), tabled_types().len());
    }

    #[test]
    fn a_type_is_one_of_the_table_or_of_ec2() {
        let refusal =
            |name: &str, offers: &[GpuOffer]| check_type(&name.into(), offers).err().map(|refusal| refusal.to_string());
        assert_eq!((refusal("g6.xlarge", &[]), refusal("trn1.32xlarge", &[])), (None, None));
        for known in ["g7.2xlarge", "g4ad.xlarge", "p2.xlarge", "g3.4xlarge"] {
            assert_eq!(refusal(known, &[]), None, "{known}");
        }
        assert!(refusal("g4ad", &[]).is_some());
        assert_eq!(refusal("p5.9xlarge", &[]).as_deref(), Some("p5 has no size \"9xlarge\"; it has 4xlarge, 48xlarge"));
        assert_eq!(refusal("p5", &[]).as_deref(), Some("p5 has no size \"\"; it has 4xlarge, 48xlarge"));
        let nonsense = refusal("non\nsense", &[]).unwrap();
        assert!(
            nonsense.starts_with("\"non sense\" is of no family with accelerators; ") && nonsense.contains("g4dn, g5"),
            "{nonsense}"
        );
        let of_tomorrow = GpuOffer::named(&"us-east-1".into(), &"g9.xlarge".into());
        assert_eq!(refusal("g9.xlarge", &[of_tomorrow]), None);
    }

    #[test]
    fn the_types_of_the_table_are_in_the_order_of_their_parts_and_have_usual_figures() {
        let place = |gpu_type: &GpuType| {
            billing::energy::MACHINES.iter().position(|machine| *machine == gpu_type.hardware).unwrap()
        };
        assert!(GPU_TYPES.is_sorted_by(|one, next| place(one) < place(next)));
        for GpuType { name, hardware, architecture, network_gbps, as_of } in GPU_TYPES.iter() {
            assert!(hardware.accelerator_eighths % 8 == 0 && hardware.accelerator.nvidia_name().is_some(), "{name}");
            assert!(["x86_64", "arm64"].contains(architecture), "{name}");
            let has_memory = hardware.accelerator_memory_mib.is_some_and(|mib| (8_192..524_288).contains(&mib));
            assert!(has_memory && (10..=6_400).contains(network_gbps), "{name}");
            assert!(as_of.parse::<jiff::civil::Date>().is_ok(), "{name}");
        }
        assert_eq!(table_date(), "2026-11-24");
        assert_eq!(network_gbps(&"x1.large".into()), None);
    }
}
