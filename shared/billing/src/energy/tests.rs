use jiff::tz::TimeZone;
use model::fixture::time;
use model::instance_family::{ACCELERATED_FAMILIES, AcceleratedFamily};

use super::*;
use crate::ledger::{
    BillingState, CalendarMonth, Ledger, LedgerBeat, PurchaseTerms, RunFacts, RunKind, Sighting, Tariff, TimeSpan,
};

const HOUR: RunningTime = RunningTime::exactly(3_600);

fn footprint(instance_type: &str, region: Option<&str>, time: RunningTime, load: AcceleratorLoad) -> Footprint {
    let region = region.map(Region::from);
    Footprint::from_use(&MachineUse { instance_type: &instance_type.into(), region: region.as_ref(), time, load })
}

/// `expect`: energy, operational and embodied carbon.
fn check(instance_type: &str, load: AcceleratorLoad, expect: [&str; 3]) {
    let found = footprint(instance_type, Some("us-east-1"), HOUR, load);
    assert_eq!([found.energy.to_string(), found.operational.to_string(), found.embodied.to_string()], expect);
}

#[test]
fn a_figure_spans_what_is_unknown_and_a_measurement_narrows_it() {
    check("g5.xlarge", AcceleratorLoad::Unknown, ["27-450 Wh", "7.5-120 g CO2e", "2-5.2 g CO2e"]);
    check("g5.xlarge", AcceleratorLoad::Utilization { percent: 90 }, ["130-410 Wh", "35-110 g CO2e", "2-5.2 g CO2e"]);
    check(
        "g5.xlarge",
        AcceleratorLoad::Measured { milliwatts: 200_000 },
        ["220-320 Wh", "61-86 g CO2e", "2-5.2 g CO2e"],
    );
    let unknown = ["27-450 Wh", "7.5-120 g CO2e", "2-5.2 g CO2e"];
    check("g5.xlarge", AcceleratorLoad::Measured { milliwatts: u64::MAX }, unknown);
    check("g5.xlarge", AcceleratorLoad::Utilization { percent: 255 }, unknown);
    check("p5.48xlarge", AcceleratorLoad::Unknown, ["1.4-9.8 kWh", "0.38-2.7 kg CO2e", "110-220 g CO2e"]);
    check("g6f.large", AcceleratorLoad::Unknown, ["5.8-27 Wh", "1.5-7.2 g CO2e", "0.6-1.4 g CO2e"]);
}

#[test]
fn the_model_covers_what_was_measured_on_a_node_of_eight_h100s() {
    let hardware = hardware(&"p5.48xlarge".into()).unwrap();
    let full = power(&hardware, AcceleratorLoad::Unknown);
    assert!((full.low..=full.high).contains(&8_400_000), "{full:?}");
}

#[test]
fn values_missing_in_the_tables_are_named_and_not_counted() {
    let unknown_type = footprint("m7i.large", Some("us-east-1"), HOUR, AcceleratorLoad::Unknown);
    assert_eq!((unknown_type.energy.known(), unknown_type.gaps.types.len()), (None, 1));
    let json = serde_json::to_value(&unknown_type).unwrap();
    assert_eq!(
        json,
        serde_json::json!({ "energy_kwh": null, "operational_kg_co2e": null, "embodied_kg_co2e": null, "gaps": { "types": ["m7i.large"] } })
    );
    let now = time("2026-11-23T00:00:00Z");
    let said = |of: &Footprint| of.caveats(now).join("; ");
    assert_eq!(said(&unknown_type), "not counted, because no model of its power exists: m7i.large");
    let unknown_region = footprint("g5.xlarge", Some("xx-north-9"), HOUR, AcceleratorLoad::Unknown);
    assert_eq!(
        (unknown_region.describe_operational().as_str(), unknown_region.energy.is_complete()),
        ("unknown CO2e", true)
    );
    assert_eq!(said(&unknown_region), "without operational carbon, because no grid factor is known: xx-north-9");
    let neuron = footprint("trn2.48xlarge", Some("eu-north-1"), HOUR, AcceleratorLoad::Unknown);
    assert_eq!(neuron.describe_embodied(), "unknown CO2e");
    assert_eq!(said(&neuron), "without embodied carbon, of which nothing is published: trn2.48xlarge");
    let nowhere = footprint("g5.xlarge", None, HOUR, AcceleratorLoad::Unknown);
    assert_eq!(said(&(nowhere.clone() + unknown_type)).split("; ").count(), 2);
    let whole = footprint("g5.xlarge", Some("us-east-1"), HOUR, AcceleratorLoad::Unknown);
    let sum = whole.clone() + unknown_region.clone();
    assert_eq!(sum.describe_operational(), format!("at least {}", whole.describe_operational()));
    assert_eq!(whole.clone().spanning(unknown_region.clone()).describe_operational(), "unknown CO2e");
    let month = Footprint::of_unread_ledgers(2);
    assert_eq!(
        (month.energy.to_string().as_str(), month.caveats(now).join("; ").as_str()),
        ("unknown", "not counted: what ledgers that could not be read would have")
    );
    let (nowhere, known) = (nowhere.energy.known().unwrap(), unknown_region.energy.known().unwrap());
    assert!(nowhere.low() < known.high());
}

#[test]
fn a_value_of_a_region_that_is_older_than_two_years_says_so() {
    let virginia = footprint("g5.xlarge", Some("us-east-1"), HOUR, AcceleratorLoad::Unknown);
    assert_eq!(virginia.caveats(time("2025-12-31T23:59:59Z")), [""; 0]);
    let old = "the grid factor of us-east-1 is of 2023, older than 2 years";
    assert_eq!(virginia.caveats(time("2026-01-01T00:00:00Z")), [old]);
}

#[test]
fn ranges_are_shown_with_two_significant_digits_and_never_narrower_than_they_are() {
    let shown = |low, high| Energy::from_bounds(Bounds { low, high }).to_string();
    assert_eq!(shown(0, 0), "0 Wh");
    assert_eq!(shown(12_345, 67_891), "12-68 Wh");
    assert_eq!(shown(1_234_567, 1_890_001), "1.2-1.9 kWh");
    assert_eq!(shown(12_345, 1_890_001), "0.012-1.9 kWh");
    assert_eq!(shown(1_234_567_890_123, 1_990_000_000_000), "1,200-2,000 MWh");
    assert_eq!(shown(999, 999), "0.99-1 Wh");
    let json = serde_json::to_string(&Carbon::from_bounds(Bounds { low: 1_234_567, high: 1_890_001 })).unwrap();
    assert_eq!(json, r#"{"low":1.2,"high":1.9}"#);
}

#[test]
fn accelerators_draw_less_when_idle_than_at_most_and_each_has_a_type() {
    for model in ACCELERATORS.iter() {
        let (idle_low, idle_high) = model.idle_milliwatts;
        assert!(0 < idle_low && idle_low <= idle_high && idle_high < model.full_milliwatts, "{}", model.name);
        assert!((50_000..=2_000_000).contains(&model.full_milliwatts), "{}", model.name);
        assert!(model.embodied_kg.is_none_or(|(low, high)| 0 < low && low <= high && high < 1_000), "{}", model.name);
        assert!((2015..).contains(&model.year), "{}", model.name);
        assert!(MACHINES.iter().any(|machine| machine.accelerator == model), "{}", model.name);
    }
    let names: BTreeSet<&str> = ACCELERATORS.iter().map(|model| model.name).collect();
    assert_eq!(names.len(), ACCELERATORS.len());
}

#[test]
fn every_known_region_with_a_grid_factor_has_a_pue() {
    let regions: Vec<&str> = GRID.iter().map(|factor| factor.region).collect();
    assert_eq!(regions, REGIONAL_PUE.iter().map(|pue| pue.region).collect::<Vec<_>>());
    assert_eq!(regions.iter().collect::<BTreeSet<_>>().len(), regions.len());
    assert!(regions.into_iter().all(|region| model::region::is_known(&region.into())));
    for GridFactor { region, grams_per_kwh, year, .. } in GRID.iter() {
        assert!((10..=1_200).contains(grams_per_kwh) && (2020..).contains(year), "{region}");
    }
    assert!(REGIONAL_PUE.iter().all(|pue| (100..200).contains(&pue.percent)));
}

#[test]
fn every_accelerated_family_has_machines_or_a_reason_why_not() {
    let families = machine_families(MACHINES.iter());
    for AcceleratedFamily { name, not_in_machines } in ACCELERATED_FAMILIES.iter() {
        assert_ne!(families.contains(name), not_in_machines.is_some(), "{name}");
    }
    assert!(families.iter().all(|family| AcceleratedFamily::find(family).is_some()));
}

#[test]
fn the_types_of_a_family_follow_one_another_and_are_no_larger_than_its_server() {
    let families = machine_families(MACHINES.iter());
    assert_eq!(families.iter().collect::<BTreeSet<_>>().len(), families.len(), "{families:?}");
    for family in families {
        let types: Vec<_> = MACHINES.iter().filter(|machine| machine.family == family).collect();
        assert_eq!(types.iter().map(|machine| machine.size).collect::<BTreeSet<_>>().len(), types.len(), "{family}");
        for MachineHardware { size, accelerator, accelerator_eighths, vcpus, memory_gib, server_vcpus, .. } in &types {
            assert!((1..=128).contains(accelerator_eighths) && (1..=4_096).contains(memory_gib), "{family}.{size}");
            assert!((1..=*server_vcpus).contains(vcpus), "{family}.{size}");
            assert_eq!((*accelerator, *server_vcpus), (types[0].accelerator, types[0].server_vcpus), "{family}.{size}");
        }
    }
}

#[test]
fn the_sum_of_two_halves_is_the_whole() {
    let half = footprint("g5.xlarge", Some("us-east-1"), RunningTime::exactly(1_800), AcceleratorLoad::Unknown);
    let whole = footprint("g5.xlarge", Some("us-east-1"), HOUR, AcceleratorLoad::Unknown);
    let high = |footprint: Footprint| footprint.energy.known().unwrap().high();
    assert!(high(whole) - high(half.clone() + half) <= 1);
}

#[test]
fn a_ledger_is_split_by_team_and_job_and_an_open_end_widens_the_range() {
    let month = CalendarMonth::read("2026-11", &TimeZone::UTC).unwrap();
    let mut ledger = Ledger::new(&month, &"us-east-1".into());
    let sighting = |resource: &str, job: Option<&str>, life| Sighting {
        resource: resource.into(),
        began: time("2026-11-10T10:00:00Z"),
        facts: RunFacts {
            kind: RunKind::Instance,
            team: Some("vision".into()),
            owner: None,
            name: None,
            what: "g5.xlarge".to_owned(),
            terms: PurchaseTerms::OnDemand,
            job: job.map(str::to_owned),
            attached_to: None,
            tariff: Tariff::new("g5.xlarge"),
        },
        life,
        prices: Vec::new(),
    };
    let stopped = BillingState::Ended { at: Some(time("2026-11-10T11:00:00Z")), terminated: false, reclaimed: false };
    let items =
        vec![sighting("i-1", None, stopped), sighting("i-2", Some("vision/llama-1a2b3c4d"), BillingState::Live)];
    let at = time("2026-11-10T11:00:00Z");
    ledger.observe(&LedgerBeat {
        at,
        region: "us-east-1".into(),
        whole: true,
        items,
        unread: std::collections::BTreeSet::new(),
    });
    let until = |to| footprints([&ledger], TimeSpan { to: time(to), ..month.span() }, |_, _| AcceleratorLoad::Unknown);
    let hour = footprint("g5.xlarge", Some("us-east-1"), HOUR, AcceleratorLoad::Unknown);
    let team = FootprintKey { team: Some("vision".into()), job: None };
    let job = FootprintKey { job: Some("vision/llama-1a2b3c4d".to_owned()), ..team.clone() };
    let now = until("2026-11-10T11:00:00Z");
    assert_eq!((now.len(), &now[&team], &now[&job]), (2, &hour, &hour));
    let later = until("2026-11-10T13:00:00Z");
    let open = RunningTime { least_seconds: 3_600, most_seconds: 3 * 3_600 };
    assert_eq!(later[&job], footprint("g5.xlarge", Some("us-east-1"), open, AcceleratorLoad::Unknown));
    assert_eq!(later[&team], hour);
}
