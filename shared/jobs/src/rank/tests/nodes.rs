//! A job on several machines: its prices are of all of them.

use super::*;

const PRICES: [(&str, &str, u64); 2] = [("us-east-1a", "g5.xlarge", 500_000), ("us-east-1b", "g5.xlarge", 400_000)];

fn four(terms: JobTerms) -> JobTerms {
    JobTerms { gpu: GpuSpec { nodes: 4, ..terms.gpu.clone() }, ..terms }
}

#[test]
fn a_price_is_of_all_machines_and_the_order_that_of_one() {
    assert_snapshot!(check(&four(on_spot(None, None)), &two_zones(), &PRICES), @r"
    us-east-1b g5.xlarge spot 1600000/4024000 L-3819A6DF ami-us-east-1-x86_64
    us-east-1a g5.xlarge spot 2000000/4024000 L-3819A6DF ami-us-east-1-x86_64
    us-east-1b g6.xlarge spot 3219200/3219200 L-3819A6DF ami-us-east-1-x86_64
    ");
    assert_snapshot!(check(&four(terms()), &two_zones()[..2], &[]), @r"
    us-east-1a g5.xlarge on-demand 4024000/4024000 L-DB2E81BA ami-us-east-1-x86_64
    us-east-1b g5.xlarge on-demand 4024000/4024000 L-DB2E81BA ami-us-east-1-x86_64
    ");
}

#[test]
fn a_limit_of_spot_is_of_each_machine_and_one_of_the_job_of_all() {
    // $0.45 for each machine; then $1.80 for all, which is the same.
    let of_each = check(&four(on_spot(Some(450_000), None)), &two_zones()[..2], &PRICES);
    assert_snapshot!(of_each, @"us-east-1b g5.xlarge spot 1600000/1800000 L-3819A6DF ami-us-east-1-x86_64");
    let max_rate = Some(Rate::from_usd_micros_per_hour(1_800_000));
    assert_eq!(check(&four(JobTerms { max_rate, ..on_spot(None, None) }), &two_zones()[..2], &PRICES), of_each);
    let config = "[jobs]\nusd_per_hour_max = 1.8";
    assert_snapshot!(check_config(config, &four(on_spot(None, None)), &two_zones()[..2], &PRICES), @r"
    us-east-1b g5.xlarge spot 1600000/1800000 L-3819A6DF ami-us-east-1-x86_64
    left out: g5.xlarge at $1.01/h: above `[jobs] usd_per_hour_max` for each of 4 machines, $0.45/h
    ");
    let too_low = Some(Rate::from_usd_micros_per_hour(1_000_000));
    assert_snapshot!(check(&four(JobTerms { max_rate: too_low, ..on_spot(None, None) }), &two_zones()[..2], &PRICES), @"none: every Spot price that is known is above its limit: the cheapest is g5.xlarge in us-east-1b at $0.40/h, above `limits.max_usd_per_hour` for each of 4 machines, $0.25/h");
    assert_snapshot!(check(&four(JobTerms { max_rate: too_low, ..terms() }), &two_zones()[..2], &[]), @"none: every price that is known is above its limit: the cheapest is g5.xlarge on demand in us-east-1a at $1.006/h, above `limits.max_usd_per_hour` for each of 4 machines, $0.25/h");
}

#[test]
fn the_ceiling_of_gpus_counts_all_machines() {
    let wanted = JobTerms { gpu: asking(1, 0, &["g5.12xlarge"]).gpu, ..terms() };
    let pools = [pool("us-east-1a", "g5.12xlarge")];
    assert_snapshot!(check_config("[jobs]\ngpus_max = 15", &four(wanted.clone()), &pools, &[]), @"none: `[jobs] gpus_max` of the configuration lets all machines of a job have 15 at most, and 4 × g5.12xlarge have 16 GPUs");
    assert!(check_config("[jobs]\ngpus_max = 16", &four(wanted), &pools, &[]).starts_with("us-east-1a g5.12xlarge"));
}
