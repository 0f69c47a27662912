//! Which machines a job without GPUs gets.

use super::*;

/// Type, architecture, vCPUs, GiB, micro-USD per hour on demand.
const SOLD: [(&str, &str, u32, u32, u64); 6] = [
    ("c7i.2xlarge", "x86_64", 8, 16, 357_000),
    ("m7i.2xlarge", "x86_64", 8, 32, 403_200),
    ("r7i.2xlarge", "x86_64", 8, 64, 529_200),
    ("m7g.2xlarge", "arm64", 8, 32, 326_400),
    ("m7i.4xlarge", "x86_64", 16, 64, 806_400),
    ("m7i.16xlarge", "x86_64", 64, 256, 3_225_600),
];

fn terms_of(vcpus: u32, memory_gib: u32, types: &[&str]) -> JobTerms {
    let types = types.iter().map(|name| TypeName::from(*name)).collect();
    let machine = MachineSpec { vcpus, memory_gib, types, ..MachineSpec::default() };
    JobTerms { gpu: asking(0, 0, &[]).gpu, machine, ..on_spot(None, None) }
}

fn check(config: &str, terms: &JobTerms) -> String {
    let mut document = PriceDocument::default();
    let mut pools = Vec::new();
    for (name, architecture, vcpus, gib, usd_micros) in SOLD {
        document.learn_listed("us-east-1".into(), name.into(), Some(usd_micros), time(NOW));
        pools.push(CapacityPool {
            instance_type: name.into(),
            architecture: architecture.to_owned(),
            gpus: 0,
            gpu_memory_mib: 0,
            vcpus,
            memory_mib: gib * 1_024,
            ..pool("us-east-1a", "g5.xlarge")
        });
    }
    let config = Config::read(config).unwrap();
    match rank(terms, &pools, images(), &book(document), None, policy(&config), time(NOW)) {
        Ok(ranking) => shown(&ranking),
        Err(words) => format!("none: {words}"),
    }
}

#[test]
fn a_job_without_gpus_gets_a_machine_of_its_size() {
    assert_snapshot!(check("", &terms_of(8, 0, &[])), @r"
    us-east-1a c7i.2xlarge spot 357000/357000 L-34B43A08 ami-us-east-1-x86_64
    us-east-1a m7i.2xlarge spot 403200/403200 L-34B43A08 ami-us-east-1-x86_64
    us-east-1a r7i.2xlarge spot 529200/529200 L-34B43A08 ami-us-east-1-x86_64
    us-east-1a m7i.4xlarge spot 806400/806400 L-34B43A08 ami-us-east-1-x86_64
    ");
    assert_snapshot!(check("", &terms_of(8, 32, &[])), @r"
    us-east-1a m7i.2xlarge spot 403200/403200 L-34B43A08 ami-us-east-1-x86_64
    us-east-1a r7i.2xlarge spot 529200/529200 L-34B43A08 ami-us-east-1-x86_64
    us-east-1a m7i.4xlarge spot 806400/806400 L-34B43A08 ami-us-east-1-x86_64
    ");
    assert_snapshot!(check("", &terms_of(0, 200, &[])), @"us-east-1a m7i.16xlarge spot 3225600/3225600 L-34B43A08 ami-us-east-1-x86_64");
    assert_snapshot!(check("", &terms_of(128, 32, &[])), @"none: no type that fits has 128 vCPUs and 32 GiB of memory; the largest is m7i.16xlarge, with 64 vCPUs and 256 GiB");
}

#[test]
fn its_types_and_its_ceiling_hold_as_those_of_gpus() {
    assert_snapshot!(check("", &terms_of(0, 0, &["m7g.2xlarge", "m7i.16xlarge"])), @r"
    us-east-1a m7g.2xlarge spot 326400/326400 L-34B43A08 ami-us-east-1-arm64
    us-east-1a m7i.16xlarge spot 3225600/3225600 L-34B43A08 ami-us-east-1-x86_64
    ");
    assert_snapshot!(check("[jobs]\ngpus_max = 0\nusd_per_hour_max = 0.4", &terms_of(8, 0, &[])), @r"
    us-east-1a c7i.2xlarge spot 357000/357000 L-34B43A08 ami-us-east-1-x86_64
    us-east-1a m7i.2xlarge spot 400000/400000 L-34B43A08 ami-us-east-1-x86_64
    us-east-1a m7i.4xlarge spot 400000/400000 L-34B43A08 ami-us-east-1-x86_64
    us-east-1a r7i.2xlarge spot 400000/400000 L-34B43A08 ami-us-east-1-x86_64
    ");
}
