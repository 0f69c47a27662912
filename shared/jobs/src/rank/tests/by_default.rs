//! What a job gets that names neither types nor a price, and what is left out.

use super::*;

/// One of each type, in one zone.
fn all() -> Vec<CapacityPool> {
    TYPES.iter().map(|(name, ..)| pool("us-east-1a", name)).collect()
}

/// A machine as it is sold with more of all but GPUs; the table knows its price.
fn bigger(name: &str) -> CapacityPool {
    CapacityPool { instance_type: name.into(), ..pool("us-east-1a", "g5.xlarge") }
}

fn limited(max_usd_per_hour: f64, terms: JobTerms) -> JobTerms {
    JobTerms { max_rate: Some(Rate::from_usd_per_hour(max_usd_per_hour)), ..terms }
}

fn sized(count: u32, memory_gib_min: u32, terms: JobTerms) -> JobTerms {
    JobTerms { gpu: asking(count, memory_gib_min, &[]).gpu, ..terms }
}

#[test]
fn a_job_gets_the_fewest_gpus_that_are_enough() {
    assert_snapshot!(check_config("", &on_spot(None, None), &all(), &[]), @r"
    us-east-1a g4dn.xlarge spot 526000/526000 L-3819A6DF ami-us-east-1-x86_64
    us-east-1a g6.xlarge spot 804800/804800 L-3819A6DF ami-us-east-1-x86_64
    us-east-1a g5.xlarge spot 1006000/1006000 L-3819A6DF ami-us-east-1-x86_64
    left out: g5.12xlarge with 4 GPUs at $5.67/h, p4d.24xlarge with 8 GPUs at $21.96/h, p5.48xlarge with 8 GPUs at $55.04/h: more than 1 GPU; to allow one, name it in `gpu.types`
    ");
    assert_snapshot!(check_config("", &sized(2, 0, terms()), &all(), &[]), @r"
    us-east-1a g5.12xlarge on-demand 5672000/5672000 L-DB2E81BA ami-us-east-1-x86_64
    left out: p4d.24xlarge with 8 GPUs at $21.96/h, p5.48xlarge with 8 GPUs at $55.04/h: more than 2 GPUs; to allow one, name it in `gpu.types`
    ");
    assert_snapshot!(check_config("", &sized(1, 40, terms()), &all(), &[]), @r"
    us-east-1a p4d.24xlarge on-demand 21957642/21957642 L-417A185B ami-us-east-1-x86_64
    us-east-1a p5.48xlarge on-demand 55040000/55040000 L-417A185B ami-us-east-1-x86_64
    ");
    assert_snapshot!(check_config("", &sized(8, 0, terms()), &all(), &[]), @r"
    us-east-1a p4d.24xlarge on-demand 21957642/21957642 L-417A185B ami-us-east-1-x86_64
    us-east-1a p5.48xlarge on-demand 55040000/55040000 L-417A185B ami-us-east-1-x86_64
    ");
}

#[test]
fn a_job_gets_nothing_above_three_times_the_cheapest() {
    let pools = [pool("us-east-1a", "g4dn.xlarge"), pool("us-east-1a", "g5.xlarge"), bigger("g5.12xlarge")];
    assert_snapshot!(check_config("", &terms(), &pools, &[]), @r"
    us-east-1a g4dn.xlarge on-demand 526000/526000 L-DB2E81BA ami-us-east-1-x86_64
    us-east-1a g5.xlarge on-demand 1006000/1006000 L-DB2E81BA ami-us-east-1-x86_64
    left out: g5.12xlarge at $5.67/h: above $1.58/h, 3 times the cheapest on demand; to allow one, name it in `gpu.types`, or its price in `limits.max_usd_per_hour`
    ");
    // That it is cheap on Spot at the moment changes nothing: it can cost what it costs on demand.
    assert_snapshot!(check_config("", &on_spot(None, None), &pools, &[("us-east-1a", "g5.12xlarge", 1)]), @r"
    us-east-1a g4dn.xlarge spot 526000/526000 L-3819A6DF ami-us-east-1-x86_64
    us-east-1a g5.xlarge spot 1006000/1006000 L-3819A6DF ami-us-east-1-x86_64
    left out: g5.12xlarge at $5.67/h: above $1.58/h, 3 times the cheapest on demand; to allow one, name it in `gpu.types`, or its price in `limits.max_usd_per_hour`
    ");
    assert_snapshot!(check_config("", &limited(6.0, terms()), &pools, &[]), @r"
    us-east-1a g4dn.xlarge on-demand 526000/526000 L-DB2E81BA ami-us-east-1-x86_64
    us-east-1a g5.xlarge on-demand 1006000/1006000 L-DB2E81BA ami-us-east-1-x86_64
    us-east-1a g5.12xlarge on-demand 5672000/5672000 L-DB2E81BA ami-us-east-1-x86_64
    ");
    assert_snapshot!(check_config("", &on_spot(Some(6_000_000), None), &pools, &[]), @r"
    us-east-1a g4dn.xlarge spot 526000/526000 L-3819A6DF ami-us-east-1-x86_64
    us-east-1a g5.xlarge spot 1006000/1006000 L-3819A6DF ami-us-east-1-x86_64
    us-east-1a g5.12xlarge spot 5672000/5672000 L-3819A6DF ami-us-east-1-x86_64
    ");
    assert_snapshot!(check_config("", &limited(0.6, on_spot(Some(9_000_000), None)), &pools, &[]), @r"
    us-east-1a g4dn.xlarge spot 526000/526000 L-3819A6DF ami-us-east-1-x86_64
    us-east-1a g5.12xlarge spot 600000/600000 L-3819A6DF ami-us-east-1-x86_64
    us-east-1a g5.xlarge spot 600000/600000 L-3819A6DF ami-us-east-1-x86_64
    ");
}

/// A bound that rested on what is to be had would rise exactly when the cheap machines are gone.
#[test]
fn the_bound_rests_on_every_machine_that_fits() {
    let no_spot = CapacityPool { spot: false, ..pool("us-east-1a", "g4dn.xlarge") };
    assert_snapshot!(check_config("", &on_spot(None, None), &[no_spot.clone(), bigger("g5.12xlarge")], &[]), @"none: no machine that the job gets by default can be bought as it asks; left out: g5.12xlarge at $5.67/h: above $1.58/h, 3 times the cheapest on demand; to allow one, name it in `gpu.types`, or its price in `limits.max_usd_per_hour`");
    let dear_now = [("us-east-1a", "g4dn.xlarge", 600_000)];
    assert_snapshot!(check_config("", &on_spot(None, None), &[pool("us-east-1a", "g4dn.xlarge"), bigger("g5.12xlarge")], &dear_now), @"none: every Spot price that is known is above its limit: the cheapest is g4dn.xlarge in us-east-1a at $0.60/h, above what it costs on demand, $0.526/h; left out: g5.12xlarge at $5.67/h: above $1.58/h, 3 times the cheapest on demand; to allow one, name it in `gpu.types`, or its price in `limits.max_usd_per_hour`");
    let elsewhere = [pool("ap-east-2a", "g5.xlarge"), bigger("g5.12xlarge")];
    assert_snapshot!(check_config("", &terms(), &elsewhere, &[]), @"none: no price is known of g5.xlarge in ap-east-2, and none is guessed: it is asked for again; left out: g5.12xlarge at $5.67/h: above $3.02/h, 3 times the cheapest on demand; to allow one, name it in `gpu.types`, or its price in `limits.max_usd_per_hour`");
    // A price that nobody knows of any region is left out, and named.
    let unknown = bigger("g9.xlarge");
    assert_snapshot!(check_config("", &terms(), &[unknown, pool("us-east-1a", "g5.xlarge")], &[]), @r"
    us-east-1a g5.xlarge on-demand 1006000/1006000 L-DB2E81BA ami-us-east-1-x86_64
    left out: g9.xlarge: no price is known
    ");
}

#[test]
fn named_types_are_the_owners_word() {
    let named = JobTerms { gpu: asking(1, 0, &["g4dn.xlarge", "p4d.24xlarge"]).gpu, ..terms() };
    assert_snapshot!(check_config("", &named, &all(), &[]), @r"
    us-east-1a g4dn.xlarge on-demand 526000/526000 L-DB2E81BA ami-us-east-1-x86_64
    us-east-1a p4d.24xlarge on-demand 21957642/21957642 L-417A185B ami-us-east-1-x86_64
    ");
}

#[test]
fn the_configuration_has_the_last_word() {
    let named = JobTerms { gpu: asking(1, 0, &["g5.xlarge", "g5.12xlarge", "p4d.24xlarge"]).gpu, ..terms() };
    assert_snapshot!(check_config("[jobs]\ngpus_max = 4", &named, &all(), &[]), @r"
    us-east-1a g5.xlarge on-demand 1006000/1006000 L-DB2E81BA ami-us-east-1-x86_64
    us-east-1a g5.12xlarge on-demand 5672000/5672000 L-DB2E81BA ami-us-east-1-x86_64
    ");
    assert_snapshot!(check_config("[jobs]\ngpus_max = 8\n[teams.vision]\ngpus_max = 1", &named, &all(), &[]), @"us-east-1a g5.xlarge on-demand 1006000/1006000 L-DB2E81BA ami-us-east-1-x86_64");
    assert_snapshot!(check_config("[jobs]\ngpus_max = 1\n[teams.vision]\ngpus_max = 8", &sized(4, 0, terms()), &all(), &[]), @"none: `[jobs] gpus_max` of the configuration lets a machine have 1 at most, and g5.12xlarge has 4 GPUs");
    let usd = "[jobs]\nusd_per_hour_max = 2\n[teams.vision]\nusd_per_hour_max = 30";
    assert_snapshot!(check_config(usd, &named, &all(), &[]), @r"
    us-east-1a g5.xlarge on-demand 1006000/1006000 L-DB2E81BA ami-us-east-1-x86_64
    left out: g5.12xlarge at $5.67/h, p4d.24xlarge at $21.96/h: above `[jobs] usd_per_hour_max`, $2.00/h
    ");
    assert_snapshot!(check_config(usd, &JobTerms { spot: on_spot(None, None).spot, ..named.clone() }, &all(), &[("us-east-1a", "p4d.24xlarge", 1_900_000)]), @r"
    us-east-1a g5.xlarge spot 1006000/1006000 L-3819A6DF ami-us-east-1-x86_64
    us-east-1a p4d.24xlarge spot 1900000/2000000 L-7212CCBC ami-us-east-1-x86_64
    us-east-1a g5.12xlarge spot 2000000/2000000 L-3819A6DF ami-us-east-1-x86_64
    ");
    assert_snapshot!(check_config("[teams.vision]\nusd_per_hour_max = 0.5", &limited(90.0, named), &all(), &[]), @"none: every price that is known is above its limit: the cheapest is g5.xlarge on demand in us-east-1a at $1.006/h, above `[teams.vision] usd_per_hour_max`, $0.50/h");
    // A ceiling is no price, and allows nothing by itself.
    let elsewhere = [pool("ap-east-2a", "g5.xlarge")];
    assert_snapshot!(check_config("[jobs]\nusd_per_hour_max = 2", &on_spot(None, None), &elsewhere, &[("ap-east-2a", "g5.xlarge", 1)]), @"none: no price is known of g5.xlarge in ap-east-2, and none is guessed: it is asked for again");
}
