//! `[gpu] count = 0`: what it needs, and what it excludes.

use super::*;

const NONE: &str = "[gpu]\ncount = 0\n";

#[test]
fn a_job_without_gpus_says_how_large_its_machine_is() {
    let spec = read(&format!("{LEAST}{NONE}[machine]\nvcpus = 8\nmemory_gib = 32\n"));
    assert!(spec.terms.is_cpu_job() && !spec.work.has_gpus);
    assert_eq!((spec.terms.machine.vcpus, spec.terms.machine.memory_gib), (8, 32));
    let named = read(&format!("{LEAST}{NONE}[machine]\ntypes = [\"m7i.large\", \"c8g.2xlarge\"]\n"));
    assert_eq!(named.terms.types().0.len(), 2);
    let missing = "without GPUs the job has to say how large its machine is: write `vcpus = 8` and `memory_gib = 32` under [machine], \
                   or `types = [\"m7i.2xlarge\"]`";
    check(NONE, &[&format!("4 gpu.count: {missing}")]);
    check(
        &format!("{NONE}[machine]\nvcpus = 0\n"),
        &["6 machine.vcpus: 0 is out of range; write a whole number from 1 to 1920"],
    );
}

#[test]
fn keys_of_gpus_mean_nothing_without_one() {
    let nothing = "it means nothing with `count = 0`; leave one of them out";
    check(
        "[gpu]\ncount = 0\nname = \"A10G\"\nmemory_gib_min = 24\ntypes = [\"g5.xlarge\"]\nmodel = { params = \"7b\", task = \"lora\" }\n[machine]\nvcpus = 4\n",
        &[
            &format!("5 gpu.name: {nothing}"),
            "5 gpu.name: `gpu.types` says which machines; leave one of them out",
            &format!("6 gpu.memory_gib_min: {nothing}"),
            "6 gpu.memory_gib_min: `gpu.model` says how much memory is needed; leave one of them out",
            &format!("7 gpu.types: {nothing}"),
            &format!("8 gpu.model: {nothing}"),
        ],
    );
    let for_cpu =
        "it is for jobs without GPUs: write `count = 0` under [gpu], or name machines with GPUs in `gpu.types`";
    check("[machine]\nvcpus = 4\n", &[&format!("4 machine.vcpus: {for_cpu}")]);
    check(
        &format!("{NONE}[machine]\ntypes = [\"g5.xlarge\", \"m7i\"]\n"),
        &[
            "6 machine.types[0]: g5 has accelerators; write a type without, such as `m7i.2xlarge`, or the GPUs under [gpu]",
            "6 machine.types[1]: \"m7i\" is no instance type; write one as `m7i.2xlarge`",
        ],
    );
    let image = format!("container = \"ubuntu@sha256:{}\"\n{NONE}[machine]\nvcpus = 4\n", "0".repeat(64));
    check(
        &image,
        &[
            "3 container: the image of machines without GPUs, Amazon Linux, has no Docker; name one that has it in `machine.ami`",
        ],
    );
}
