//! Energy and carbon of what ran: a range for each figure, with the source and the year of every value behind it.
//!
//! Energy is the power of a machine over its running time, times the PUE of its region. The power of the accelerators is measured, or else
//! estimated from their utilisation, or else between idle and full. Operational carbon is that energy times the grid factor of the region
//! (location-based, a yearly mean); embodied carbon is the share of making the machine that falls into the running time, and a figure of its own.
//! A figure that lacks a value of the tables is unknown, and [`FootprintGaps`] names the value. `docs/carbon.md` is the method for people.

mod accelerator;
mod figures;
mod grid;
mod hardware;
mod ledger;

use std::collections::BTreeSet;
use std::iter::Sum;
use std::ops::Add;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use model::id::{Region, TypeName};
use model::known_sum::{self, KnownSum};
use serde::Serialize;

pub use accelerator::{ACCELERATORS, AcceleratorModel};
pub use figures::{Carbon, Energy};
pub use grid::{GRID, GridFactor, Pue, REGIONAL_PUE, grid_factor, pue};
pub use hardware::{MACHINES, MachineHardware, hardware, machine_families};
pub use ledger::{FootprintKey, footprints};

use figures::Bounds;

/// Watts of one vCPU, idle and fully used (Cloud Carbon Footprint, "Methodology", AWS averages from `SPECpower`), in milliwatts.
pub const VCPU_MILLIWATTS: (u64, u64) = (740, 3_500);

/// Milliwatts of one GiB of memory (the same).
pub const MEMORY_MILLIWATTS_PER_GIB: u64 = 392;

/// Power of fans, network cards and power supplies, in percent of the other parts. An 8-GPU H100 node was measured at 8.4 kW where the
/// parts above add up to 7.1 kW (Latif et al., "Single-Node Power Demand During AI Training", IEEE Access 13, 2025).
pub const OTHER_PARTS_PERCENT: (u64, u64) = (0, 20);

/// Power of an accelerator at a reported utilisation of 100 %, in percent of its full power: utilisation says that a kernel ran, not how
/// much of the chip worked. H100s were measured between 267 and 680 W of 700 W, by batch size (Serial Alice, "GPU Energy Benchmark", 2026).
pub const AT_FULL_UTILIZATION_PERCENT: (u64, u64) = (38, 100);

/// Error of a GPU's power sensor, in percent (NVML API reference, `nvmlDeviceGetPowerUsage`, which gives it for old GPUs only).
pub const SENSOR_ERROR_PERCENT: u64 = 5;

/// Measured means up to this share of full power are believed: boards keep to their limit but for moments.
const MEASURED_MAX_PERCENT: u64 = 120;

/// Emissions from making a server without accelerators and memory, in kg of CO2 (Teads, "Building an AWS EC2 Carbon Emissions Dataset",
/// 2021).
pub const SERVER_KG: u64 = 1_000;

/// Emissions from making one GiB of memory, in g of CO2: 2.2 kg for a square centimetre, which holds 1.25 or 0.625 GB (Boavizta, "RAM",
/// 2023).
pub const MEMORY_G_PER_GIB: (u64, u64) = (1_760, 3_520);

/// Years of use of a server (Amazon, Form 10-K for 2024: six years, a subset five). The shorter time gives the larger share.
pub const SERVER_YEARS: (u64, u64) = (5, 6);

/// The age in years from which a value is called old.
pub const OLD_AFTER_YEARS: i16 = 2;

const SECONDS_PER_YEAR: u64 = 31_557_600;
const SECONDS_PER_HOUR: u64 = 3_600;

/// Load of the accelerators of a machine, as far as known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AcceleratorLoad {
    #[default]
    Unknown,
    /// Mean utilisation over the time and over all accelerators.
    Utilization { percent: u8 },
    /// Mean power over the time, of all accelerators together.
    Measured { milliwatts: u64 },
}

/// Running time of a machine; a range after a stop that no beat saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RunningTime {
    pub least_seconds: u64,
    pub most_seconds: u64,
}

impl RunningTime {
    #[must_use]
    pub const fn exactly(seconds: u64) -> Self {
        Self { least_seconds: seconds, most_seconds: seconds }
    }
}

/// One machine at work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MachineUse<'a> {
    pub instance_type: &'a TypeName,
    /// `None` if it is unknown.
    pub region: Option<&'a Region>,
    pub time: RunningTime,
    pub load: AcceleratorLoad,
}

/// Energy and emissions of one or several machines.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Footprint {
    /// Energy of the machines, including the overhead of their data center.
    #[serde(rename = "energy_kwh", serialize_with = "known_sum::serialize_known")]
    pub energy: KnownSum<Energy>,
    /// Emissions from generating that energy.
    #[serde(rename = "operational_kg_co2e", serialize_with = "known_sum::serialize_known")]
    pub operational: KnownSum<Carbon>,
    /// Emissions from making the machines.
    #[serde(rename = "embodied_kg_co2e", serialize_with = "known_sum::serialize_known")]
    pub embodied: KnownSum<Carbon>,
    /// Gaps of these figures.
    #[serde(skip_serializing_if = "FootprintGaps::is_empty")]
    pub gaps: FootprintGaps,
    /// Regions of the machines.
    #[serde(skip)]
    pub regions: BTreeSet<Region>,
}

/// Values that no table has, and that no figure counts.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct FootprintGaps {
    /// Types without a model: neither their energy nor their carbon is counted.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub types: BTreeSet<TypeName>,
    /// Types without a published figure for their making: their embodied carbon is not counted.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub types_without_embodied: BTreeSet<TypeName>,
    /// Regions without a grid factor: their operational carbon is not counted.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub regions: BTreeSet<Region>,
    /// `true` if machines of an unknown region lack operational carbon.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unknown_region: bool,
    /// Runs that the ledger keeps as sums of money alone.
    #[serde(skip_serializing_if = "is_zero")]
    pub folded_runs: u64,
    /// Ledgers of a month that are absent or could not be read.
    #[serde(skip_serializing_if = "is_zero")]
    pub ledgers: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl FootprintGaps {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Footprint {
    /// Figures that are unknown for that reason.
    #[must_use]
    pub fn unknown(gaps: FootprintGaps) -> Self {
        Self {
            energy: KnownSum::unknown(),
            operational: KnownSum::unknown(),
            embodied: KnownSum::unknown(),
            gaps,
            regions: BTreeSet::new(),
        }
    }

    /// Number of ledgers, by month and region, that nobody can read, so that what ran there is unknown.
    #[must_use]
    pub fn of_unread_ledgers(ledgers: u64) -> Self {
        if ledgers == 0 {
            Self::default()
        } else {
            Self::unknown(FootprintGaps { ledgers, ..FootprintGaps::default() })
        }
    }

    /// Computes the footprint of one machine. It is unknown if its type has no model.
    #[must_use]
    pub fn from_use(machine: &MachineUse<'_>) -> Self {
        let mut footprint = Self::unknown(FootprintGaps::default());
        let Some(hardware) = hardware(machine.instance_type) else {
            footprint.gaps.types.insert(machine.instance_type.clone());
            return footprint;
        };
        let at_machine = power(&hardware, machine.load).over(machine.time);
        let pue = machine.region.and_then(pue).map_or(grid::pue_of_all_regions(), |pue| (pue.percent, pue.percent));
        let energy = at_machine.times(pue, 100);
        footprint.energy = KnownSum::new(Energy::from_bounds(energy), 0);
        footprint.regions.extend(machine.region.cloned());
        match machine.region.map(|region| (region, grid_factor(region))) {
            Some((_, Some(factor))) => {
                let grams_per_kwh = u64::from(factor.grams_per_kwh);
                // Milliwatt-hours times g per kWh are millionths of a gram.
                let carbon = Carbon::from_bounds(energy.times((grams_per_kwh, grams_per_kwh), 1_000));
                footprint.operational = KnownSum::new(carbon, 0);
            }
            Some((region, None)) => {
                footprint.gaps.regions.insert(region.clone());
            }
            None => footprint.gaps.unknown_region = true,
        }
        match embodied_grams(&hardware) {
            Some(grams) => {
                footprint.embodied = KnownSum::new(Carbon::from_bounds(share_of_making(grams, machine.time)), 0);
            }
            None => {
                footprint.gaps.types_without_embodied.insert(machine.instance_type.clone());
            }
        }
        footprint
    }

    /// One of two machines; which one is unknown, and so is each figure that one of them lacks.
    #[must_use]
    pub fn spanning(self, other: Self) -> Self {
        let energy = spanning(self.energy, other.energy, Energy::spanning);
        let operational = spanning(self.operational, other.operational, Carbon::spanning);
        let embodied = spanning(self.embodied, other.embodied, Carbon::spanning);
        Self { energy, operational, embodied, ..self + other }
    }

    /// `true` if no machine used any energy.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.energy.is_zero()
    }

    /// The operational carbon for people: `0.4-0.7 kg CO2e`, `unknown CO2e`.
    #[must_use]
    pub fn describe_operational(&self) -> String {
        describe_carbon(self.operational)
    }

    /// The embodied carbon for people.
    #[must_use]
    pub fn describe_embodied(&self) -> String {
        describe_carbon(self.embodied)
    }

    /// Caveats of the figures: what they lack, and which values are old. One sentence without a full stop each.
    #[must_use]
    pub fn caveats(&self, now: Timestamp) -> Vec<String> {
        let year = now.to_zoned(TimeZone::UTC).year();
        let mut gaps = self.describe_gaps();
        let factors = self.regions.iter().filter_map(|region| Some((region, grid_factor(region)?)));
        for (region, factor) in factors.filter(|(_, factor)| factor.is_old(year)) {
            gaps.push(format!("the grid factor of {region} is of {}, older than {OLD_AFTER_YEARS} years", factor.year));
        }
        gaps
    }

    /// The gaps of the figures. One sentence without a full stop each.
    #[must_use]
    pub fn describe_gaps(&self) -> Vec<String> {
        let FootprintGaps { types, types_without_embodied, regions, unknown_region, folded_runs, ledgers } = &self.gaps;
        let mut gaps = Vec::new();
        if *ledgers > 0 {
            let what = if *ledgers == 1 { "what a ledger that" } else { "what ledgers that" };
            gaps.push(format!("not counted: {what} could not be read would have"));
        }
        if !types.is_empty() {
            gaps.push(format!("not counted, because no model of its power exists: {}", listed(types)));
        }
        if *folded_runs > 0 {
            gaps.push(format!("not counted: {folded_runs} runs of which the ledger keeps only what they cost"));
        }
        if !regions.is_empty() {
            gaps.push(format!("without operational carbon, because no grid factor is known: {}", listed(regions)));
        }
        if *unknown_region {
            gaps.push("without operational carbon: machines of an unknown region".to_owned());
        }
        if !types_without_embodied.is_empty() {
            gaps.push(format!(
                "without embodied carbon, of which nothing is published: {}",
                listed(types_without_embodied)
            ));
        }
        gaps
    }
}

fn spanning<T: Copy + Default + PartialEq + Add<Output = T>>(
    one: KnownSum<T>,
    other: KnownSum<T>,
    span: impl Fn(T, T) -> T,
) -> KnownSum<T> {
    let complete = |sum: KnownSum<T>| sum.known().filter(|_| sum.is_complete());
    complete(one).zip(complete(other)).map_or_else(KnownSum::unknown, |(one, other)| KnownSum::new(span(one, other), 0))
}

fn describe_carbon(carbon: KnownSum<Carbon>) -> String {
    carbon.known().map_or_else(|| "unknown CO2e".to_owned(), |_| carbon.to_string())
}

fn listed<T: ToString>(all: &BTreeSet<T>) -> String {
    all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

impl Add for Footprint {
    type Output = Self;
    fn add(mut self, other: Self) -> Self {
        self.energy = Add::add(self.energy, other.energy);
        self.operational = Add::add(self.operational, other.operational);
        self.embodied = Add::add(self.embodied, other.embodied);
        self.regions.extend(other.regions);
        self.gaps.types.extend(other.gaps.types);
        self.gaps.types_without_embodied.extend(other.gaps.types_without_embodied);
        self.gaps.regions.extend(other.gaps.regions);
        if other.gaps.unknown_region {
            self.gaps.unknown_region = true;
        }
        self.gaps.folded_runs = self.gaps.folded_runs.saturating_add(other.gaps.folded_runs);
        self.gaps.ledgers = self.gaps.ledgers.max(other.gaps.ledgers);
        self
    }
}

impl Sum for Footprint {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), Self::add)
    }
}

/// Returns the power of the machine in milliwatts, without its data center.
fn power(hardware: &MachineHardware, load: AcceleratorLoad) -> Bounds {
    let (idle_vcpu, full_vcpu) = VCPU_MILLIWATTS;
    let memory = u64::from(hardware.memory_gib).saturating_mul(MEMORY_MILLIWATTS_PER_GIB);
    let drawn = |of_vcpu: u64| u64::from(hardware.vcpus).saturating_mul(of_vcpu).saturating_add(memory);
    let rest = Bounds { low: drawn(idle_vcpu), high: drawn(full_vcpu) };
    let (low, high) = OTHER_PARTS_PERCENT;
    (accelerator_power(hardware, load) + rest).times((low.saturating_add(100), high.saturating_add(100)), 100)
}

fn accelerator_power(hardware: &MachineHardware, load: AcceleratorLoad) -> Bounds {
    let model = hardware.accelerator;
    let eighths = u64::from(hardware.accelerator_eighths);
    let all = |milliwatts: u64| milliwatts.saturating_mul(eighths) / 8;
    let (idle_low, idle_high) = (all(model.idle_milliwatts.0), all(model.idle_milliwatts.1));
    let full = all(model.full_milliwatts);
    match load {
        AcceleratorLoad::Measured { milliwatts } if milliwatts <= full.saturating_mul(MEASURED_MAX_PERCENT) / 100 => {
            Bounds { low: milliwatts, high: milliwatts }
                .times((100 - SENSOR_ERROR_PERCENT, 100 + SENSOR_ERROR_PERCENT), 100)
        }
        AcceleratorLoad::Utilization { percent } if percent <= 100 => {
            let percent = u64::from(percent);
            let at =
                |idle: u64, busy: u64| idle.saturating_add(busy.saturating_sub(idle).saturating_mul(percent) / 100);
            let (least, most) = AT_FULL_UTILIZATION_PERCENT;
            Bounds {
                low: at(idle_low, full.saturating_mul(least) / 100),
                high: at(idle_high, full.saturating_mul(most) / 100),
            }
        }
        // A program on the machine can write any figure. What cannot be says nothing.
        AcceleratorLoad::Unknown | AcceleratorLoad::Measured { .. } | AcceleratorLoad::Utilization { .. } => {
            Bounds { low: idle_low, high: full }
        }
    }
}

/// Returns the emissions from making the machine, in grams: its accelerators, its memory, and its share of a server by vCPUs.
fn embodied_grams(hardware: &MachineHardware) -> Option<Bounds> {
    let (low_kg, high_kg) = hardware.accelerator.embodied_kg?;
    let eighths = u64::from(hardware.accelerator_eighths);
    let accelerators =
        Bounds { low: low_kg.into(), high: high_kg.into() }.times((125, 125), 1).times((eighths, eighths), 1);
    let vcpus = u64::from(hardware.vcpus);
    let server = Bounds { low: SERVER_KG, high: SERVER_KG };
    let server = server.times((1_000, 1_000), 1).times((vcpus, vcpus), hardware.server_vcpus.into());
    let memory_gib = u64::from(hardware.memory_gib);
    let memory = Bounds { low: memory_gib, high: memory_gib }.times(MEMORY_G_PER_GIB, 1);
    Some(accelerators + memory + server)
}

/// The part of it, in milligrams, that falls into that time.
fn share_of_making(grams: Bounds, time: RunningTime) -> Bounds {
    let (shortest, longest) = SERVER_YEARS;
    let share = |grams: u64, seconds: u64, years: u64| {
        u128::from(grams) * 1_000 * u128::from(seconds) / u128::from(years.saturating_mul(SECONDS_PER_YEAR).max(1))
    };
    let whole = |milligrams: u128| u64::try_from(milligrams).unwrap_or(u64::MAX);
    Bounds {
        low: whole(share(grams.low, time.least_seconds, longest)),
        high: whole(share(grams.high, time.most_seconds, shortest)),
    }
}

#[cfg(test)]
mod tests;
