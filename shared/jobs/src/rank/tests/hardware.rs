//! Which CPUs and GPUs a job may get.

use super::*;

/// One of each architecture, the arm64 one the cheapest.
fn both() -> [CapacityPool; 2] {
    [pool("us-east-1a", "g5g.xlarge"), pool("us-east-1a", "g5.xlarge")]
}

fn check_both(architecture: Option<&str>, types: &[&str]) -> String {
    let machine = MachineSpec { architecture: architecture.map(str::to_owned), ..MachineSpec::default() };
    let terms = JobTerms { machine, gpu: asking(1, 0, types).gpu, ..on_spot(Some(300_000), None) };
    check(&terms, &both(), &[("us-east-1a", "g5g.xlarge", 100_000), ("us-east-1a", "g5.xlarge", 200_000)])
}

#[test]
fn it_runs_on_x86_64_unless_the_key_or_its_types_say_otherwise() {
    let (g5, g5g) = (
        "us-east-1a g5.xlarge spot 200000/300000 L-3819A6DF ami-us-east-1-x86_64",
        "us-east-1a g5g.xlarge spot 100000/300000 L-3819A6DF ami-us-east-1-arm64",
    );
    let named = ["g5.xlarge", "g5g.xlarge"];
    for (architecture, types, expect) in [
        (None, &[][..], g5.to_owned()),
        (Some("x86_64"), &[], g5.to_owned()),
        (Some("arm64"), &[], g5g.to_owned()),
        (None, &named, format!("{g5g}\n{g5}")),
        (None, &["g5g.xlarge"], g5g.to_owned()),
        (Some("x86_64"), &named, g5.to_owned()),
        (Some("arm64"), &named, g5g.to_owned()),
    ] {
        assert_eq!(check_both(architecture, types), expect, "{architecture:?} {types:?}");
    }
}

#[test]
fn it_is_said_which_architecture_is_missing() {
    assert_snapshot!(check_both(Some("arm64"), &["g5.xlarge"]), @"none: `machine.architecture` is arm64, and g5.xlarge is x86_64; change or remove the key");
    assert_snapshot!(check_both(Some("x86_64"), &["g5g.xlarge"]), @"none: `machine.architecture` is x86_64, and g5g.xlarge is arm64; change or remove the key");
    let arm64 = [pool("us-east-1a", "g5g.xlarge")];
    assert_snapshot!(check(&terms(), &arm64, &[]), @r#"none: the job runs on x86_64, and g5g.xlarge is arm64; set `machine.architecture = "arm64"`, or name types in `gpu.types`"#);
}

/// Whether a job gets GPUs of that name.
fn is_taken(gpu_name: &str, types: &[&str], ami: Option<&str>) -> bool {
    let machine = MachineSpec { ami: ami.map(ResourceId::from), ..MachineSpec::default() };
    let pools = [CapacityPool { gpu_name: gpu_name.to_owned(), ..pool("us-east-1a", "g5.xlarge") }];
    ranked(&JobTerms { machine, ..asking(1, 0, types) }, &pools, PriceDocument::default(), None).is_ok()
}

#[test]
fn a_gpu_that_the_default_image_cannot_drive_needs_an_image_of_its_own() {
    for old in ["K80", "M60", "P4", "P100", "V100", "Tesla V100-SXM2"] {
        assert!(!is_taken(old, &[], None) && !is_taken(old, &["g5.xlarge"], None), "{old}");
        assert!(is_taken(old, &[], Some("ami-1")), "{old}");
    }
    for driven in ["T4", "T4g", "A10G", "L40S", "H100", "B200", "RTX PRO 4500", "X9000", ""] {
        assert!(is_taken(driven, &[], None), "{driven}");
    }
    let old = [CapacityPool { gpu_name: "V100".to_owned(), ..pool("us-east-1a", "g5.xlarge") }];
    assert_snapshot!(check(&terms(), &old, &[]), @"none: a job that names no image gets no GPU older than NVIDIA Turing, as g5.xlarge has: the driver of the Deep Learning AMI drives none; name one in `machine.ami`");
}

/// An image that all teams get by default is most often built on the built-in one, and has its driver.
#[test]
fn the_image_of_the_configuration_opens_no_other_gpus() {
    let config = Config::read("[jobs]\nimage = \"/curfew/images/gpu\"").unwrap();
    let old = [CapacityPool { gpu_name: "V100".to_owned(), ..pool("us-east-1a", "g5.xlarge") }];
    let ranked = rank(&terms(), &old, images(), &book(PriceDocument::default()), None, policy(&config), time(NOW));
    assert!(ranked.is_err_and(|why| why.to_string().contains("NVIDIA Turing")));
}
