//! Parts of a machine, by its type: AWS, "Amazon EC2 accelerated computing instances", 2026. The ledger keeps only the type's name.

use model::id::TypeName;

use super::AcceleratorName;

/// The parts of one type that draw power.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MachineHardware {
    pub accelerator: AcceleratorName,
    /// Number of accelerators, in eighths: some types have a fraction of a GPU.
    pub accelerator_eighths: u16,
    pub vcpus: u16,
    pub memory_gib: u16,
    /// The vCPUs of the whole server: those of the largest type of its family.
    pub server_vcpus: u16,
}

/// A family: its name, its accelerator, the vCPUs of its server, and by size the accelerators in eighths, vCPUs and GiB of memory.
pub type MachineFamily = (&'static str, AcceleratorName, u16, &'static [(&'static str, u16, u16, u16)]);

use AcceleratorName as Name;

/// The sizes of G4dn to G6e with one GPU have 4 to 64 vCPUs, and 4 GiB for each.
const G4DN: &[(&str, u16, u16, u16)] = &[
    ("xlarge", 8, 4, 16),
    ("2xlarge", 8, 8, 32),
    ("4xlarge", 8, 16, 64),
    ("8xlarge", 8, 32, 128),
    ("12xlarge", 32, 48, 192),
    ("16xlarge", 8, 64, 256),
    ("metal", 64, 96, 384),
];

const G5: &[(&str, u16, u16, u16)] = &[
    ("xlarge", 8, 4, 16),
    ("2xlarge", 8, 8, 32),
    ("4xlarge", 8, 16, 64),
    ("8xlarge", 8, 32, 128),
    ("12xlarge", 32, 48, 192),
    ("16xlarge", 8, 64, 256),
    ("24xlarge", 32, 96, 384),
    ("48xlarge", 64, 192, 768),
];

/// Every machine family, with its sizes.
pub const MACHINES: [MachineFamily; 24] = [
    ("p3", Name::V100, 64, &[("2xlarge", 8, 8, 61), ("8xlarge", 32, 32, 244), ("16xlarge", 64, 64, 488)]),
    ("p3dn", Name::V100, 96, &[("24xlarge", 64, 96, 768)]),
    ("p4d", Name::A100, 96, &[("24xlarge", 64, 96, 1_152)]),
    ("p4de", Name::A100, 96, &[("24xlarge", 64, 96, 1_152)]),
    ("p5", Name::H100, 192, &[("4xlarge", 8, 16, 256), ("48xlarge", 64, 192, 2_048)]),
    ("p5e", Name::H200, 192, &[("48xlarge", 64, 192, 2_048)]),
    ("p5en", Name::H200, 192, &[("48xlarge", 64, 192, 2_048)]),
    ("p6-b200", Name::B200, 192, &[("48xlarge", 64, 192, 2_048)]),
    ("p6-b300", Name::B300, 192, &[("48xlarge", 64, 192, 4_096)]),
    ("p6e-gb200", Name::Gb200, 144, &[("36xlarge", 32, 144, 960)]),
    ("g4dn", Name::T4, 96, G4DN),
    ("g5", Name::A10g, 192, G5),
    (
        "g5g",
        Name::T4g,
        64,
        &[
            ("xlarge", 8, 4, 8),
            ("2xlarge", 8, 8, 16),
            ("4xlarge", 8, 16, 32),
            ("8xlarge", 8, 32, 64),
            ("16xlarge", 16, 64, 128),
            ("metal", 16, 64, 128),
        ],
    ),
    ("g6", Name::L4, 192, G5),
    ("gr6", Name::L4, 192, &[("4xlarge", 8, 16, 128), ("8xlarge", 8, 32, 256)]),
    ("g6f", Name::L4, 192, &[("large", 1, 2, 8), ("xlarge", 1, 4, 16), ("2xlarge", 2, 8, 32), ("4xlarge", 4, 16, 64)]),
    ("gr6f", Name::L4, 192, &[("4xlarge", 4, 16, 128)]),
    (
        "g6e",
        Name::L40s,
        192,
        &[
            ("xlarge", 8, 4, 32),
            ("2xlarge", 8, 8, 64),
            ("4xlarge", 8, 16, 128),
            ("8xlarge", 8, 32, 256),
            ("12xlarge", 32, 48, 384),
            ("16xlarge", 8, 64, 512),
            ("24xlarge", 32, 96, 768),
            ("48xlarge", 64, 192, 1_536),
        ],
    ),
    (
        "g7e",
        Name::RtxPro6000,
        192,
        &[
            ("2xlarge", 8, 8, 64),
            ("4xlarge", 8, 16, 128),
            ("8xlarge", 8, 32, 256),
            ("12xlarge", 16, 48, 512),
            ("24xlarge", 32, 96, 1_024),
            ("48xlarge", 64, 192, 2_048),
        ],
    ),
    ("trn1", Name::Trainium, 128, &[("2xlarge", 8, 8, 32), ("32xlarge", 128, 128, 512)]),
    ("trn1n", Name::Trainium, 128, &[("32xlarge", 128, 128, 512)]),
    ("trn2", Name::Trainium2, 192, &[("3xlarge", 8, 12, 128), ("48xlarge", 128, 192, 2_048)]),
    ("trn2u", Name::Trainium2, 192, &[("48xlarge", 128, 192, 2_048)]),
    (
        "inf2",
        Name::Inferentia2,
        192,
        &[("xlarge", 8, 4, 16), ("8xlarge", 8, 32, 128), ("24xlarge", 48, 96, 384), ("48xlarge", 96, 192, 768)],
    ),
];

/// Returns the parts of a machine of that type; `None` if they, or the power of its accelerator, are unknown.
#[must_use]
pub fn hardware(instance_type: &TypeName) -> Option<MachineHardware> {
    let (family, size) = instance_type.as_str().split_once('.')?;
    let (_, accelerator, server_vcpus, sizes) = MACHINES.into_iter().find(|(name, ..)| *name == family)?;
    let (_, accelerator_eighths, vcpus, memory_gib) = *sizes.iter().find(|(name, ..)| *name == size)?;
    Some(MachineHardware { accelerator, accelerator_eighths, vcpus, memory_gib, server_vcpus })
}
