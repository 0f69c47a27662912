//! The name of a machine, and which tags end it.

use std::collections::BTreeMap;

use model::curfew_tags::CurfewTags;
use model::fixture::time;
use model::money::Rate;

use super::*;
use crate::{Candidate, GpuSpec, JobId, JobTerms, Lifecycle, MachineImage, MachineSpec};

fn job(owner: Option<&str>, tags: &[(&str, &str)]) -> Job {
    let terms = JobTerms {
        tags: tags.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
        gpu: GpuSpec { count: 1, nodes: 1, name: None, memory_gib_min: 0, types: Vec::new() },
        network: None,
        spot: None,
        max_runtime_seconds: 3_600,
        finish_by: None,
        estimated_runtime_seconds: None,
        max_usd: None,
        max_rate: None,
        gpu_box: None,
        retries: 0,
        bucket_region: None,
        checkpoint: None,
        machine: MachineSpec::default(),
    };
    let id = JobId::read("vision/llama-0123abcd").unwrap();
    Job::submitted(id, owner.map(str::to_owned), terms, time("2026-09-01T12:00:00Z"))
}

fn launch() -> LaunchRequest {
    LaunchRequest {
        attempt: 3,
        retry_of: 0,
        placement_group: None,
        token: "a".repeat(64),
        candidate: Candidate {
            region: "eu-west-1".into(),
            zone: "eu-west-1a".to_owned(),
            subnet: "subnet-1".into(),
            instance_type: "g5.xlarge".into(),
            lifecycle: Lifecycle::Spot,
            rate: Rate::from_usd_micros_per_hour(1),
            rate_max: Rate::from_usd_micros_per_hour(2),
            quota: None,
            image: 0,
            transfer: None,
            vcpus: 0,
            network: None,
        },
        image: MachineImage {
            ami: "ami-1".into(),
            architecture: "x86_64".to_owned(),
            agent_sha256: "0".repeat(64),
            root_device: "/dev/xvda".to_owned(),
            root_gib: 65,
            is_for_all: true,
            other_devices: Vec::new(),
        },
        ends_at: time("2026-09-01T20:00:00Z"),
        only_find: false,
    }
}

fn check(job: &Job, config: &str, expect: &[(&str, &str)]) {
    let tags = launch_tags(job, &launch(), &Config::read(config).unwrap());
    let own = [
        ("curfew:attempt", "3"),
        ("curfew:expires-at", "2026-09-01T20:10:00Z"),
        ("curfew:job", "vision/llama-0123abcd"),
        ("curfew:mode", "enforce"),
    ];
    let expect: BTreeMap<String, String> =
        own.iter().chain(expect).map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    assert_eq!(tags, expect);
}

const NAMED: (&str, &str) = ("Name", "llama-0123abcd");

#[test]
fn the_tags_of_a_machine_have_its_owner_and_its_deadline() {
    check(&job(None, &[]), "", &[NAMED, ("Team", "vision")]);
    check(&job(Some("ada"), &[]), "", &[NAMED, ("Owner", "ada"), ("Team", "vision")]);
    let config = "[tags]\nteam = \"squad\"\nowner = \"who\"";
    check(&job(Some("ada"), &[]), config, &[NAMED, ("squad", "vision"), ("who", "ada")]);
}

#[test]
fn a_spec_adds_tags_and_may_name_the_machine() {
    check(&job(None, &[("cost/centre", "7")]), "", &[NAMED, ("Team", "vision"), ("cost/centre", "7")]);
    check(&job(None, &[("Name", "mine")]), "", &[("Name", "mine"), ("Team", "vision")]);
    check(&job(None, &[("Owner", "ada")]), "", &[NAMED, ("Owner", "ada"), ("Team", "vision")]);
}

#[test]
fn a_spec_changes_nothing_that_is_curfews_or_the_teams() {
    let theirs = [
        ("Team", "other"),
        ("Owner", "eve"),
        ("curfew:job", "other/x"),
        ("curfew:mode", "observe"),
        ("curfew:protected", ""),
        ("Curfew:Keep-Until", "9999-12-31"),
        ("curfew:expires-at", "9999-12-31T00:00:00Z"),
    ];
    check(&job(Some("ada"), &theirs), "", &[NAMED, ("Owner", "ada"), ("Team", "vision")]);
    check(&job(None, &[]), "[tags]\nteam = \"curfew:mode\"", &[NAMED]);
}

#[test]
fn there_are_never_more_than_ec2_takes_and_what_is_required_stays() {
    let many: Vec<(String, String)> = (0..60).map(|number| (format!("a{number:02}"), String::new())).collect();
    let mut many: Vec<(&str, &str)> = many.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    many.push(("zone of cost", "7"));
    let config = Config::read("[tags]\nrequired = [\"zone of cost\"]").unwrap();
    let tags = launch_tags(&job(Some("ada"), &many), &launch(), &config);
    assert_eq!(tags.len(), 50);
    assert_eq!(tags.get("zone of cost").map(String::as_str), Some("7"));
    // Seven of its own, the required one, and 42 of the sixty.
    assert_eq!((tags.contains_key("a41"), tags.contains_key("a42"), tags.contains_key("Name")), (true, false, true));
}

#[test]
fn the_reaper_reads_them() {
    let tags = launch_tags(&job(Some("ada"), &[]), &launch(), &Config::default());
    let read = CurfewTags::read_instance(time("2026-09-01T12:00:00Z"), &tags).unwrap();
    assert_eq!(read.expires_at, Some(time("2026-09-01T20:10:00Z")));
    assert_eq!(read.job.as_deref(), Some("vision/llama-0123abcd"));
    assert!(CurfewTags::read_volume(&tags).is_ok());
}

#[test]
fn a_group_has_the_tags_of_its_machines_without_those_of_an_instance() {
    let job = job(Some("ada"), &[("Project", "llama")]);
    let tags = group_tags(&job, &Config::default());
    let of_machine = launch_tags(&job, &launch(), &Config::default());
    let lacking: Vec<&str> = of_machine.keys().filter(|key| !tags.contains_key(*key)).map(String::as_str).collect();
    assert_eq!(lacking, ["curfew:attempt", "curfew:expires-at", "curfew:mode"]);
    assert!(tags.iter().all(|(key, value)| of_machine.get(key) == Some(value)), "{tags:?}");
}
