//! Power of accelerators, and emissions from making them.

/// The accelerators of EC2 with a published power.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcceleratorName {
    V100,
    T4,
    T4g,
    A100,
    A10g,
    L4,
    L40s,
    RtxPro6000,
    H100,
    H200,
    B200,
    B300,
    Gb200,
    Trainium,
    Trainium2,
    Inferentia2,
}

/// One accelerator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AcceleratorModel {
    pub name: AcceleratorName,
    /// Name for people, as NVIDIA and AWS write it.
    pub text: &'static str,
    /// Power when idle, the lowest and the highest.
    pub idle_milliwatts: (u64, u64),
    /// Highest power.
    pub full_milliwatts: u64,
    /// The source of that, with its year.
    pub source: &'static str,
    /// Emissions from making it, in kg of CO2, the lowest and the highest; `None` if nothing is published.
    pub embodied_kg: Option<(u32, u32)>,
}

const fn watts(watts: u64) -> u64 {
    watts.saturating_mul(1_000)
}

/// The idle power of an accelerator without a measurement: 5 to 15 % of full. Measured ones draw 11 or 12 %.
const fn unmeasured(
    name: AcceleratorName,
    text: &'static str,
    full_watts: u64,
    source: &'static str,
    embodied_kg: Option<(u32, u32)>,
) -> AcceleratorModel {
    let idle_milliwatts = (full_watts.saturating_mul(50), full_watts.saturating_mul(150));
    AcceleratorModel { name, text, idle_milliwatts, full_milliwatts: watts(full_watts), source, embodied_kg }
}

const fn measured(idle_watts: u64, model: AcceleratorModel) -> AcceleratorModel {
    AcceleratorModel { idle_milliwatts: (watts(idle_watts), watts(idle_watts)), ..model }
}

/// Making a card emits 60 kg by `EcoDiag` (CNRS, 2022), and 150 kg by Teads (2021).
const CARD_KG: Option<(u32, u32)> = Some((60, 150));

/// 127.6 kg by Falk et al. (2025), 150 kg by Teads (2021).
const A100_KG: Option<(u32, u32)> = Some((127, 150));

/// One eighth of the 1,312 kg of a board (NVIDIA, "HGX H100 Product Carbon Footprint Summary", 2025).
const H100_KG: u32 = 164;

/// The H100 by NVIDIA's ratio: 0.50 instead of 0.66 g an exaflop, at 2.3 times the throughput (NVIDIA, "HGX B200 Reduces Embodied Carbon
/// Emissions Intensity", 2025).
const B200_KG: u32 = 286;

/// The B200 by its memory: 288 instead of 180 GB.
const B300_KG: u32 = 458;

/// Models of all accelerators, in the order of [`AcceleratorName`].
pub const ACCELERATORS: [AcceleratorModel; 16] = {
    use AcceleratorName as Name;
    [
        measured(35, unmeasured(Name::V100, "NVIDIA V100", 300, "NVIDIA data sheet, 2020; idle: Teads, 2021", CARD_KG)),
        measured(8, unmeasured(Name::T4, "NVIDIA T4", 70, "NVIDIA data sheet, 2019; idle: Teads, 2021", CARD_KG)),
        unmeasured(Name::T4g, "NVIDIA T4G", 70, "as the T4", CARD_KG),
        measured(46, unmeasured(Name::A100, "NVIDIA A100", 400, "NVIDIA data sheet, 2021; idle: Teads, 2021", A100_KG)),
        unmeasured(Name::A10g, "NVIDIA A10G", 300, "its power limit, as nvidia-smi shows it on G5, 2022", CARD_KG),
        unmeasured(Name::L4, "NVIDIA L4", 72, "NVIDIA data sheet, 2023", CARD_KG),
        unmeasured(Name::L40s, "NVIDIA L40S", 350, "NVIDIA data sheet, 2023", CARD_KG),
        unmeasured(Name::RtxPro6000, "NVIDIA RTX PRO 6000", 600, "NVIDIA data sheet, 2025", CARD_KG),
        unmeasured(Name::H100, "NVIDIA H100", 700, "NVIDIA data sheet, 2023", Some((H100_KG, H100_KG))),
        measured(
            80,
            unmeasured(
                Name::H200,
                "NVIDIA H200",
                700,
                "NVIDIA data sheet, 2024; idle: Serial Alice, 2026",
                Some((H100_KG, B200_KG)),
            ),
        ),
        unmeasured(Name::B200, "NVIDIA B200", 1_000, "NVIDIA data sheet, 2025", Some((B200_KG, B200_KG))),
        unmeasured(Name::B300, "NVIDIA B300", 1_400, "NVIDIA data sheet, 2025", Some((B200_KG, B300_KG))),
        unmeasured(Name::Gb200, "NVIDIA GB200", 1_200, "NVIDIA data sheet, 2024", Some((B200_KG, B200_KG))),
        unmeasured(
            Name::Trainium,
            "AWS Trainium",
            250,
            "half of a Trainium2, by AWS's ratios of speed and efficiency, 2024",
            None,
        ),
        unmeasured(Name::Trainium2, "AWS Trainium2", 500, "NAND Research, 2024", None),
        unmeasured(Name::Inferentia2, "AWS Inferentia2", 250, "as Trainium, of whose cores it is made", None),
    ]
};

impl AcceleratorName {
    /// Returns the model of the accelerator.
    #[must_use]
    pub const fn model(self) -> &'static AcceleratorModel {
        &ACCELERATORS[self as usize]
    }
}
