mod any;
mod cpu_job;
mod gpu_box;
mod nodes;
mod refused;
mod refused_places;
mod sized_model;
mod sweep;

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use model::config::Config;

use super::*;
use crate::SpecMistake;

const LEAST: &str = "owner = \"ada@example.com\"\ncommand = \"python train.py\"\n";

fn now() -> Timestamp {
    "2026-11-22T05:00:00Z".parse().unwrap()
}

fn read_by(config: &str, text: &str) -> Result<JobSpec, Vec<SpecMistake>> {
    JobSpec::read(
        text,
        "inbox/vision/llama-ft.toml",
        Some(&"vision".into()),
        &Config::read(config).unwrap(),
        &"us-east-1".into(),
        now(),
    )
}

fn read(text: &str) -> JobSpec {
    read_by("", text).unwrap_or_else(|mistakes| panic!("{text}\n{mistakes:#?}"))
}

/// `line key: problem` of each mistake.
fn refusals(config: &str, text: &str) -> Vec<String> {
    let mistakes = read_by(config, text).map_or_else(|mistakes| mistakes, |spec| panic!("{text}\naccepted: {spec:#?}"));
    mistakes.into_iter().map(|SpecMistake { line, key, problem }| format!("{line} {key}: {problem}")).collect()
}

fn check_by(config: &str, text: &str, expect: &[&str]) {
    assert_eq!(refusals(config, text), expect, "{text}");
}

/// Of what follows a spec that lacks nothing, in its third line and below.
fn check(rest: &str, expect: &[&str]) {
    check_by("", &format!("{LEAST}{rest}"), expect);
}

/// Of one key, that it is refused in its place, with these words.
fn check_key(key: &str, value: &str, words: &str) {
    let (section, name) = key.rsplit_once('.').unwrap_or(("", key));
    let heading = if section.is_empty() { "\n".to_owned() } else { format!("[{section}]\n") };
    let found = refusals("", &format!("{LEAST}{heading}{name} = {value}\n"));
    assert!(found.len() == 1 && found[0].starts_with(&format!("4 {key}")) && found[0].contains(words), "{found:#?}");
}

#[test]
fn a_document_that_was_accepted_is_the_same_job_whatever_is_refused_today() {
    let check = |text: &str, expect: Option<&str>| {
        let name = JobSpec::read_name(text.as_bytes(), "inbox/vision/llama-ft.toml");
        assert_eq!(name.as_ref().map(JobName::as_str), expect, "{text}");
    };
    for text in [LEAST, "", "colour = 1\n[gpu]\ncount = -1"] {
        check(text, Some("llama-ft"));
        check(&format!("name = \"other\"\n{text}"), Some("other"));
    }
    // None of these was ever accepted.
    for text in ["name = 1", "name = \"a b\"", "name = \"a", "="] {
        check(text, None);
    }
    assert_eq!(JobSpec::read_name(b"command = \"\xff\"", "x.toml"), None);
    assert_eq!(JobSpec::read_name(LEAST.as_bytes(), "inbox/vision/x y.toml"), None);
}

#[test]
fn only_the_command_and_what_the_account_requires_are_mandatory() {
    let spec = read(LEAST);
    assert_eq!(spec.name.as_str(), "llama-ft");
    assert_eq!(spec.owner.as_deref(), Some("ada@example.com"));
    assert_eq!(
        spec.work,
        Workload {
            command: "python train.py".to_owned(),
            setup: None,
            shell: None,
            container: None,
            workdir: None,
            inputs: Vec::new(),
            env: BTreeMap::new(),
            secrets: BTreeMap::new(),
            user: None,
            outputs: Vec::new(),
            has_gpus: true,
            metadata: false,
            after: Vec::new(),
            idle_max: None,
            is_box: false,
        }
    );
    let terms = JobTerms {
        tags: BTreeMap::new(),
        gpu: GpuSpec { count: 1, nodes: 1, name: None, memory_gib_min: 0, types: Vec::new() },
        network: None,
        spot: Some(SpotSpec { max_rate: None, fallback_to_on_demand_after_seconds: None }),
        max_runtime_seconds: 7 * 86_400,
        finish_by: None,
        estimated_runtime_seconds: None,
        max_usd: None,
        max_rate: None,
        gpu_box: None,
        retries: 0,
        bucket_region: Some("us-east-1".into()),
        checkpoint: None,
        machine: MachineSpec::default(),
    };
    assert_eq!(spec.terms, terms);
}

const EVERY_KEY: &str = r#"
name = "llama-ft.2"
owner = "ada@example.com"
command = "python train.py"
setup = "pip install -r requirements.txt"
shell = "zsh"
retries = 2
after = ["prepare-0123abcd"]
resume_from = "llama-1a2b3c4d"
tags = { "cost center" = "42" }
env = { WANDB_MODE = "offline" }
secrets = { HF_TOKEN = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:hf-AbCdEf" }
[gpu]
count = 2
memory_gib_min = 20
types = ["g5.12xlarge", "p6-b200.48xlarge"]
[spot]
enabled = true
max_usd_per_hour = 3.5
fallback_to_on_demand_after = "2h"
[limits]
max_runtime = "8h"
finish_by = 2026-12-24T18:00:00+01:00
max_usd = 120
[checkpoint]
dir = "/mnt/ckpt"
every = "10m"
keep = 5
size_gb = 20
include = ["tokenizer"]
exclude = ["wandb", "**/*.csv"]
signal = "SIGUSR1"
[machine]
regions = ["us-west-2"]
ami = "ami-0123456789abcdef0"
architecture = "arm64"
subnets = ["subnet-0123abcd"]
security_groups = ["sg-0123456789abcdef0"]
instance_profile = "training"
root_volume_gib = 200
user = "ubuntu"
outputs = ["/home/ubuntu/out"]
metadata = true
"#;

#[test]
fn every_key_is_read() {
    let spec = JobSpec::read(
        EVERY_KEY,
        "x.toml",
        Some(&"vision".into()),
        &Config::read(
            "[teams.vision]\ninstance_profiles = [\"training\"]\nsubnets = [\"subnet-0123abcd\"]\n\
             security_groups = [\"sg-0123456789abcdef0\"]",
        )
        .unwrap(),
        &"us-east-1".into(),
        now(),
    );
    let JobSpec { name, terms, work, .. } = spec.unwrap();
    assert_eq!((name.as_str(), terms.tags["cost center"].as_str()), ("llama-ft.2", "42"));
    assert_eq!((work.user.as_deref(), work.outputs.as_slice()), (Some("ubuntu"), &["/home/ubuntu/out".to_owned()][..]));
    assert!(work.metadata);
    assert_eq!(work.setup.as_deref(), Some("pip install -r requirements.txt"));
    assert_eq!(work.shell, Some(Shell::Zsh));
    assert_eq!((work.env.len(), work.secrets.len(), terms.retries), (1, 1, 2));
    assert_eq!(work.after, ["prepare-0123abcd"]);
    assert_eq!((terms.gpu.count, terms.gpu.memory_gib_min, terms.gpu.types.len()), (2, 20, 2));
    let spot = terms.spot.unwrap();
    assert_eq!(spot.max_rate.map(model::money::Rate::usd_micros_per_hour), Some(3_500_000));
    assert_eq!(spot.fallback_to_on_demand_after_seconds, Some(7_200));
    assert_eq!(terms.max_runtime_seconds, 8 * 3_600);
    assert_eq!(terms.finish_by.map(|at| at.to_string()).as_deref(), Some("2026-12-24T17:00:00Z"));
    assert_eq!(terms.max_usd, Some(model::money::Amount::from_usd(120.0)));
    let checkpoint = CheckpointSpec {
        dir: "/mnt/ckpt".to_owned(),
        every_seconds: 600,
        keep: 5,
        size_gb: Some(20),
        total_steps: None,
        include: vec!["tokenizer".to_owned()],
        exclude: vec!["wandb".to_owned(), "**/*.csv".to_owned()],
        resume_from: Some("llama-1a2b3c4d".to_owned()),
        signal: "SIGUSR1".to_owned(),
    };
    assert_eq!(terms.checkpoint, Some(checkpoint));
    let machine = MachineSpec {
        regions: vec!["us-west-2".into()],
        ami: Some("ami-0123456789abcdef0".into()),
        architecture: Some("arm64".to_owned()),
        subnets: vec!["subnet-0123abcd".into()],
        security_groups: vec!["sg-0123456789abcdef0".into()],
        instance_profile: Some("training".to_owned()),
        root_volume_gib: Some(200),
        vcpus: 0,
        memory_gib: 0,
        types: Vec::new(),
        metadata: true,
    };
    assert_eq!(terms.machine, machine);
}

#[test]
fn a_section_of_checkpoints_has_defaults_of_its_own() {
    let checkpoint_spec =
        |config: &str| read_by(config, &format!("{LEAST}[checkpoint]\n")).unwrap().terms.checkpoint.unwrap();
    let dir = "/var/curfew/checkpoints".to_owned();
    let (include, exclude, signal) = (Vec::new(), Vec::new(), "SIGTERM".to_owned());
    let expect = CheckpointSpec {
        dir,
        every_seconds: 900,
        keep: 3,
        size_gb: None,
        total_steps: None,
        include,
        exclude,
        signal,
        resume_from: None,
    };
    assert_eq!(checkpoint_spec(""), expect);
    assert_eq!(checkpoint_spec("[jobs]\ncheckpoint_keep = 7").keep, 7);
    assert_eq!(checkpoint_spec("[jobs]\ncheckpoint_keep = 0").keep, 1);
}

#[test]
fn on_demand_only_is_said_by_a_word() {
    assert_eq!(read(&format!("{LEAST}[spot]\nenabled = false\nmax_usd_per_hour = 2")).terms.spot, None);
    assert!(read(&format!("{LEAST}[spot]\nenabled = true")).terms.spot.is_some());
}

#[test]
fn an_accepted_spec_is_read_later_and_elsewhere() {
    let config = Config::read("[teams.vision]\ninstance_profiles = [\"training\"]").unwrap();
    let text = format!(
        "{LEAST}[limits]\nfinish_by = 2026-11-23T00:00:00Z\n[checkpoint]\nkeep = 4\n[machine]\ninstance_profile = \"training\""
    );
    let spec = JobSpec::read(&text, "x", Some(&"vision".into()), &config, &"us-east-1".into(), now()).unwrap();
    let later = now() + SignedDuration::from_hours(240);
    assert!(JobSpec::read(&text, "x", None, &Config::default(), &"us-east-1".into(), later).is_err());
    assert_eq!(JobSpec::accepted(&text, &Config::default()), Ok((spec.work, spec.terms.checkpoint)));
    assert!(JobSpec::accepted("command = 1", &Config::default()).is_err());
}
