//! Instance types with GPUs, by region: as EC2 describes them, or by the table that comes with Curfew.
//!
//! The table has the types with whole NVIDIA GPUs that are sold by the second. It knows neither which region offers one, nor whether it is
//! sold on Spot: only EC2 does.

use billing::energy::{AcceleratorName, MACHINES};
use jobs::check_size;
use model::fault::{InvalidValue, one_line};
use model::id::{Region, TypeName};
use serde::Serialize;

/// The day of this file's tables.
pub const TABLE_DATE: &str = "2026-11-24";

/// Source of the tables.
pub const TABLE_SOURCE: &str = "AWS, \"Amazon EC2 accelerated computing instances\"";

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
            spot: None,
        }
    }

    /// Returns the memory of one GPU, in bytes.
    #[must_use]
    pub const fn gpu_memory_bytes(&self) -> u64 {
        (self.gpu_memory_mib as u64).saturating_mul(BYTES_PER_MIB)
    }
}

/// Families that are no choice for CUDA by the second: of Neuron, with a part of a GPU, retired (P3), or sold only in Capacity
/// Blocks (P6e-GB200).
const LEFT_OUT: [&str; 10] = ["p3", "p3dn", "p6e-gb200", "g6f", "gr6f", "trn1", "trn1n", "trn2", "trn2u", "inf2"];

/// Types without a GPU driver of their own image, or that boot too long for a job.
const BARE_METAL: &str = "metal";

/// MiB of memory of each GPU by family. Each is what `DescribeInstanceTypes` said under `GpuInfo`, as moto 5.2.5 recorded it
/// (`moto/ec2/resources/instance_types.json.gz`, 2026-11-24).
const MEMORY_MIB: [(&str, u32); 14] = [
    ("g4dn", 16_384),
    ("g5", 22_888),
    ("g5g", 16_384),
    ("g6", 22_888),
    ("gr6", 22_888),
    ("g6e", 45_776),
    ("g7e", 98_304),
    ("p4d", 40_960),
    ("p4de", 81_920),
    ("p5", 81_920),
    ("p5e", 144_384),
    ("p5en", 144_384),
    ("p6-b200", 183_359),
    ("p6-b300", 275_040),
];

/// The network of each type in Gbit/s, the most that it reaches. Each is what `DescribeInstanceTypes` said under `NetworkPerformance`,
/// as moto 5.2.5 recorded it (`moto/ec2/resources/instance_types.json.gz`); all were compared on 2026-11-24.
const NETWORK_GBPS: [(&str, &[(&str, u32)]); 14] = [
    ("g4dn", &[("xlarge", 25), ("2xlarge", 25), ("4xlarge", 25), ("8xlarge", 50), ("12xlarge", 50), ("16xlarge", 50)]),
    ("g5", G5_GBPS),
    ("g5g", &[("xlarge", 10), ("2xlarge", 10), ("4xlarge", 10), ("8xlarge", 12), ("16xlarge", 25)]),
    ("g6", G5_GBPS),
    ("gr6", &[("4xlarge", 25), ("8xlarge", 25)]),
    (
        "g6e",
        &[
            ("xlarge", 20),
            ("2xlarge", 20),
            ("4xlarge", 20),
            ("8xlarge", 25),
            ("12xlarge", 100),
            ("16xlarge", 35),
            ("24xlarge", 200),
            ("48xlarge", 400),
        ],
    ),
    (
        "g7e",
        &[
            ("2xlarge", 50),
            ("4xlarge", 50),
            ("8xlarge", 100),
            ("12xlarge", 400),
            ("24xlarge", 800),
            ("48xlarge", 1_600),
        ],
    ),
    ("p4d", &[("24xlarge", 400)]),
    ("p4de", &[("24xlarge", 400)]),
    ("p5", &[("4xlarge", 100), ("48xlarge", 3_200)]),
    ("p5e", &[("48xlarge", 3_200)]),
    ("p5en", &[("48xlarge", 3_200)]),
    ("p6-b200", &[("48xlarge", 3_200)]),
    ("p6-b300", &[("48xlarge", 6_400)]),
];

const G5_GBPS: &[(&str, u32)] = &[
    ("xlarge", 10),
    ("2xlarge", 10),
    ("4xlarge", 25),
    ("8xlarge", 25),
    ("12xlarge", 40),
    ("16xlarge", 25),
    ("24xlarge", 50),
    ("48xlarge", 100),
];

/// Every type of the table in each of these regions.
#[must_use]
pub fn tabled_offers(regions: &[Region]) -> Vec<GpuOffer> {
    let types: Vec<GpuOffer> = tabled_types().collect();
    let in_region = |region: &Region| {
        let region = region.clone();
        types.iter().map(move |offer| GpuOffer { region: region.clone(), ..offer.clone() }).collect::<Vec<_>>()
    };
    regions.iter().flat_map(in_region).collect()
}

fn tabled_types() -> impl Iterator<Item = GpuOffer> {
    MACHINES.into_iter().filter(|(family, ..)| !LEFT_OUT.contains(family)).flat_map(
        |(family, accelerator, _, sizes)| {
            sizes.iter().filter(|(size, ..)| *size != BARE_METAL).filter_map(move |(size, eighths, vcpus, _)| {
                Some(GpuOffer {
                    region: Region::new(""),
                    instance_type: TypeName::new(format!("{family}.{size}")),
                    architecture: if accelerator == AcceleratorName::T4g { "arm64" } else { "x86_64" }.to_owned(),
                    gpus: u32::from(*eighths) / 8,
                    gpu_name: accelerator.model().text.trim_start_matches("NVIDIA ").to_owned(),
                    gpu_memory_mib: memory_mib(family)?,
                    vcpus: Some(u32::from(*vcpus)),
                    spot: None,
                })
            })
        },
    )
}

/// Refuses a type that neither the tables nor `offers`, what EC2 has, know.
///
/// # Errors
/// It names the sizes of the family, or else all families.
pub fn check_type(instance_type: &TypeName, offers: &[GpuOffer]) -> Result<(), InvalidValue> {
    let name = instance_type.as_str();
    if offers.iter().any(|offer| offer.instance_type == *instance_type) {
        return Ok(());
    }
    let (family, size) = name.split_once('.').unwrap_or((name, ""));
    check_size(family, size).unwrap_or_else(|| {
        let families: Vec<&str> = MACHINES.into_iter().map(|(family, ..)| family).collect();
        Err(InvalidValue::new(format!(
            "{:?} is of no family with GPUs; write one such as g6.xlarge, of the families {}",
            one_line(name, 40),
            families.join(", ")
        )))
    })
}

fn memory_mib(family: &str) -> Option<u32> {
    MEMORY_MIB.into_iter().find(|(name, _)| *name == family).map(|(_, mib)| mib)
}

/// The network of a type in Gbit/s, the most that it reaches; `None` if the table does not have it.
#[must_use]
pub fn network_gbps(instance_type: &TypeName) -> Option<u32> {
    let (family, size) = instance_type.as_str().split_once('.')?;
    let (_, sizes) = NETWORK_GBPS.into_iter().find(|(name, _)| *name == family)?;
    sizes.iter().find(|(name, _)| *name == size).map(|(_, gbps)| *gbps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_whole_gpus_that_are_sold_by_the_second() {
        let offers = tabled_offers(&["us-east-1".into(), "eu-west-1".into()]);
        assert_eq!(offers.len() % 2, 0);
        let of = |name: &str| offers.iter().find(|offer| offer.instance_type.as_str() == name);
        let p4d = of("p4d.24xlarge").unwrap();
        assert_eq!((p4d.gpus, p4d.gpu_name.as_str(), p4d.gpu_memory_mib), (8, "A100", 40_960));
        assert_eq!(of("g5g.xlarge").unwrap().architecture, "arm64");
        for left_out in ["p3.2xlarge", "g6f.large", "trn1.2xlarge", "g4dn.metal", "p6e-gb200.36xlarge"] {
            assert_eq!(of(left_out), None);
        }
        assert!(offers.iter().all(|offer| offer.gpus > 0 && offer.vcpus.is_some()));
    }

    #[test]
    fn a_type_is_one_of_the_table_or_of_ec2() {
        let refusal =
            |name: &str, offers: &[GpuOffer]| check_type(&name.into(), offers).err().map(|refusal| refusal.to_string());
        assert_eq!((refusal("g6.xlarge", &[]), refusal("trn1.32xlarge", &[])), (None, None));
        assert_eq!(refusal("p5.9xlarge", &[]).as_deref(), Some("p5 has no size \"9xlarge\"; it has 4xlarge, 48xlarge"));
        assert_eq!(refusal("p5", &[]).as_deref(), Some("p5 has no size \"\"; it has 4xlarge, 48xlarge"));
        let nonsense = refusal("non\nsense", &[]).unwrap();
        assert!(
            nonsense.starts_with("\"non sense\" is of no family with GPUs; ") && nonsense.contains("g4dn, g5"),
            "{nonsense}"
        );
        let of_tomorrow = GpuOffer::named(&"us-east-1".into(), &"g9.xlarge".into());
        assert_eq!(refusal("g9.xlarge", &[of_tomorrow]), None);
    }

    #[test]
    fn every_type_of_the_table_has_a_network() {
        for offer in tabled_types() {
            assert!(network_gbps(&offer.instance_type).is_some(), "{}", offer.instance_type);
        }
        assert_eq!(network_gbps(&"x1.large".into()), None);
    }
}
