//! Keeps `docs/jobs.md` equal to the code: what it says of a spec is what the parser says.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that fails may say so by panicking")]

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use jobs::{
    CapacityWait, HoldReason, Job, JobEnd, JobId, JobMachine, JobOverview, JobResult, JobSpec, LaunchHold,
    LaunchInProgress, Lifecycle, LossReason, MachineReplacement, Phase, RefusedCandidates, RetryWait, Shell,
    SpecMistake,
};
use model::config::Config;
use model::money::Rate;

const PAGE: &str = include_str!("../../../docs/jobs.md");

const BOX: &str = "owner = \"ada@example.com\"\n";

const LEAST: &str = "owner = \"ada@example.com\"\ncommand = \"python3 train.py\"\n";

fn now() -> Timestamp {
    "2026-11-22T05:00:00Z".parse().unwrap()
}

fn read(text: &str) -> Result<JobSpec, Vec<SpecMistake>> {
    let allows = "[teams.vision]\ninstance_profiles = [\"training\"]\nsubnets = [\"subnet-0123456789abcdef0\"]\n\
                  security_groups = [\"sg-0123456789abcdef0\"]";
    let config = Config::read(allows).unwrap();
    JobSpec::read(text, "x", Some(&"vision".into()), &config, &"us-east-1".into(), now())
}

/// The documents: defaults, those of `[checkpoint]`, examples of the rest, a job whose deadline decides, one without GPUs, one on several machines,
/// and a box.
fn documents() -> [&'static str; 7] {
    let blocks: Vec<&str> = PAGE.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    blocks.try_into().unwrap_or_else(|other: Vec<&str>| panic!("{} documents", other.len()))
}

/// The rows of the table under a heading: the name in backticks, and the cells.
fn rows(heading: &str) -> BTreeMap<&'static str, Vec<&'static str>> {
    let (_, rest) = PAGE.split_once(&format!("\n## {heading}\n")).unwrap();
    let section = rest.split("\n## ").next().unwrap();
    let cells = section.lines().filter(|line| line.starts_with("| `"));
    cells
        .map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
            (cells[0].trim_matches('`'), cells)
        })
        .collect()
}

fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Every key that the parser takes, by what it says to one that it does not.
fn accepted() -> BTreeSet<String> {
    let keys_of = |heading: &str| -> Vec<String> {
        let mistakes = read(&format!("{LEAST}{heading}\"?\" = 0\n")).unwrap_err();
        let legal_keys = mistakes.iter().find_map(|one| one.problem.strip_prefix("there is no key `?`; there are "));
        quoted(legal_keys.unwrap_or_else(|| panic!("{mistakes:?}"))).map(str::to_owned).collect()
    };
    let is_section = |key: &String| {
        let refused = read(&format!("{LEAST}[{key}]\n\"?\" = 0\n")).err().into_iter().flatten();
        refused.into_iter().any(|one| one.problem.starts_with("there is no key `?`"))
    };
    let (sections, keys): (Vec<String>, Vec<String>) = keys_of("").into_iter().partition(is_section);
    let within = sections.iter().flat_map(|section| {
        let named = move |key| format!("{section}.{key}");
        keys_of(&format!("[{section}]\n")).into_iter().map(named)
    });
    keys.into_iter().chain(within).collect()
}

fn keys_of(document: &str) -> BTreeSet<String> {
    let tree: toml::Table = document.parse().unwrap();
    let own = ["tags", "env", "secrets", "sweep"];
    let keys_in = |(key, value): (&String, &toml::Value)| match value {
        toml::Value::Table(table) if !own.contains(&key.as_str()) => {
            table.keys().map(|inner| format!("{key}.{inner}")).collect()
        }
        _ => vec![key.clone()],
    };
    tree.iter().flat_map(keys_in).collect()
}

#[test]
fn every_key_has_a_row_and_stands_in_a_document() {
    let accepted = accepted();
    assert!(accepted.contains("command") && accepted.contains("machine.outputs"), "{accepted:?}");
    let documented: BTreeSet<String> = rows("Keys").into_keys().map(str::to_owned).collect();
    assert_eq!(documented, accepted, "documented on the left, accepted on the right");
    let mut shown: BTreeSet<String> = documents().into_iter().flat_map(keys_of).collect();
    // They exclude what stands there.
    shown.extend(["box.for", "box.remove"].map(str::to_owned));
    assert_eq!(shown, accepted, "shown on the left, accepted on the right");
}

#[test]
fn every_key_of_a_model_has_a_row_with_what_is_legal() {
    let model = |rest: &str| read(&format!("{LEAST}[gpu.model]\n{rest}"));
    let rows = rows("A model instead of a size");
    let mistakes = model("\"?\" = 0\n").unwrap_err();
    let legal_keys = mistakes.iter().find_map(|one| one.problem.strip_prefix("there is no key `?`; there are "));
    let accepted: BTreeSet<&str> = quoted(legal_keys.unwrap()).collect();
    assert_eq!(rows.keys().copied().collect::<BTreeSet<_>>(), accepted, "documented on the left");
    for key in ["task", "precision", "optimizer"] {
        let legal: BTreeSet<&str> = quoted(rows[key][2].split(';').next().unwrap()).collect();
        let others = if key == "task" { "params = \"7b\"" } else { "params = \"7b\"\ntask = \"lora\"" };
        let mistakes = model(&format!("{others}\n{key} = \"?\"\n")).unwrap_err();
        assert_eq!(quoted(&mistakes[0].problem).collect::<BTreeSet<_>>(), legal, "documented on the right");
    }
    for (key, most) in [("batch", 65_536), ("lora_rank", 8_192)] {
        assert_eq!(rows[key][2], format!("1 to {most}"));
        let takes = |value: u64| model(&format!("params = \"1m\"\ntask = \"qlora\"\n{key} = {value}\n"));
        let refuses = |value| takes(value).is_err_and(|found| found[0].problem.contains(&format!("1 to {most}")));
        assert!(refuses(0) && refuses(most + 1) && !refuses(most), "{key}: {:?}", [0, most, most + 1].map(takes));
    }
}

#[test]
fn a_key_in_the_wrong_place_is_shown_where_it_belongs() {
    let accepted = accepted();
    // A job has a name as well as a GPU.
    let elsewhere = accepted.iter().filter_map(|key| key.split_once('.')).filter(|(_, key)| !accepted.contains(*key));
    for (section, key) in elsewhere {
        let mistakes = read(&format!("{LEAST}{key} = 0\n")).unwrap_err();
        let belongs = |problem: &str| {
            problem.contains(&format!("`{key}` belongs to ")) && problem.contains(&format!("[{section}]"))
        };
        assert!(mistakes.iter().any(|one| belongs(&one.problem)), "{key}: {mistakes:?}");
    }
}

#[test]
fn the_documented_defaults_are_the_defaults() {
    let [defaults, checkpoint, ..] = documents();
    assert_eq!(read(defaults), read(LEAST));
    assert_eq!(read(&format!("{LEAST}{checkpoint}")), read(&format!("{LEAST}[checkpoint]\n")));
    assert!(read(LEAST).is_ok());
}

#[test]
fn the_documented_examples_are_accepted() {
    let [_, _, examples, deadline, cpu, gang, gpu_box] = documents();
    assert!(read(&format!("{LEAST}{gang}")).unwrap().terms.is_gang());
    assert!(read(&format!("{LEAST}{cpu}")).unwrap().terms.is_cpu_job());
    assert!(read(&format!("{LEAST}{deadline}")).unwrap().terms.deadline_decides());
    let gpu_box = read(&format!("{BOX}{gpu_box}\nfor = \"10h\""));
    assert_eq!(gpu_box.unwrap_err().len(), 1, "two ends");
    let spec = read(&format!("{LEAST}{examples}")).unwrap();
    assert!(
        spec.work.setup.is_some()
            && spec.work.workdir.is_some()
            && spec.terms.machine.ami.is_some()
            && spec.terms.finish_by.is_some()
    );
}

/// One of a key, as the parser takes it.
fn takes(key: &str, value: &str) -> bool {
    let document = match key.split_once('.') {
        Some(("gpu", "count")) if value == "0" => format!("{LEAST}[gpu]\ncount = 0\n[machine]\nvcpus = 1\n"),
        Some(("machine", name @ ("vcpus" | "memory_gib"))) => {
            format!("{LEAST}[gpu]\ncount = 0\n[machine]\n{name} = {value}\n")
        }
        Some(("box", name)) => {
            let [.., gpu_box] = documents();
            let others = gpu_box.lines().filter(|line| !line.starts_with("home_gib"));
            format!("{BOX}{}\n{name} = {value}\n", others.collect::<Vec<_>>().join("\n"))
        }
        Some((section, name)) => format!("{LEAST}[{section}]\n{name} = {value}\n"),
        None => format!("{LEAST}{key} = {value}\n"),
    };
    read(&document).is_ok()
}

#[test]
fn the_documented_ranges_are_those_that_are_taken() {
    let mut seen = 0;
    for (key, cells) in rows("Keys") {
        let Some((least, most)) = cells[2].split_once(" to ") else { continue };
        let (Ok(least), Ok(most)) = (least.parse::<u64>(), most.parse::<u64>()) else { continue };
        assert!(takes(key, &least.to_string()) && takes(key, &most.to_string()), "{key}");
        assert!(!takes(key, &(most + 1).to_string()), "{key} takes more than {most}");
        assert!(least == 0 || !takes(key, &(least - 1).to_string()), "{key} takes less than {least}");
        seen += 1;
    }
    assert_eq!(seen, 10, "ranges that were understood");
    assert!(takes("limits.max_runtime", "\"15m\"") && !takes("limits.max_runtime", "\"14m59s\""));
    assert!(takes("limits.idle", "\"5m\"") && takes("limits.idle", "\"7d\"") && !takes("limits.idle", "\"4m\""));
}

#[test]
fn the_documented_signals_are_those_that_are_taken() {
    let documented: BTreeSet<&str> = quoted(rows("Keys")["checkpoint.signal"][2]).collect();
    let refused = read(&format!("{LEAST}[checkpoint]\nsignal = \"?\"\n")).unwrap_err();
    assert_eq!(documented, quoted(&refused[0].problem).collect(), "documented on the left");
}

#[test]
fn the_documented_shells_are_those_that_are_taken() {
    let documented: BTreeSet<&str> = quoted(rows("Keys")["shell"][2]).collect();
    assert_eq!(documented, Shell::ALL.map(Shell::as_str).into(), "documented on the left");
}

#[test]
fn the_documented_limits_of_tags_and_lists_are_the_code_s() {
    let tags = |count: usize| {
        let tags: Vec<String> = (0..count).map(|number| format!("t{number} = \"\"")).collect();
        read(&format!("{LEAST}[tags]\n{}", tags.join("\n")))
    };
    assert!(PAGE.contains("more than 50, with the 8 that Curfew adds"));
    assert!(tags(42).is_ok() && tags(43).is_err());
    let outputs = |count: usize| {
        let paths: Vec<String> = (0..count).map(|number| format!("\"/o/{number}\"")).collect();
        takes("machine.outputs", &format!("[{}]", paths.join(",")))
    };
    assert!(PAGE.contains("A list has at most 100\nitems"));
    assert!(outputs(100) && !outputs(101));
    let sweep = |keys: &str| read(&format!("{LEAST}[sweep]\n{keys}\n"));
    assert!(
        PAGE.contains("A sweep has at most 1,000 jobs") && PAGE.contains("up to 8 parameters, and up to 1,000 jobs")
    );
    assert!(sweep("a = \"1..1000\"").is_ok() && sweep("a = \"1..500\"\nb = \"1..3\"").is_err());
    let parameters = |count: usize| (0..count).map(|number| format!("p{number} = [1]\n")).collect::<Vec<_>>().concat();
    assert!(sweep(&parameters(8)).is_ok() && sweep(&parameters(9)).is_err());
    let named = |length: usize| read(&format!("{LEAST}name = \"{}\"\n[sweep]\na = [1]\n", "x".repeat(length)));
    assert!(PAGE.contains("So its name has at most 58 characters") && named(58).is_ok() && named(59).is_err());
    assert!(PAGE.contains("a document has at most 64 KiB"));
    assert_eq!(JobSpec::BYTES_MAX, 64 * 1024);
}

fn placed() -> JobMachine {
    JobMachine {
        instance: "i-0abc".into(),
        members: Vec::new(),
        launch: String::new(),
        region: "us-east-1".into(),
        zone: "us-east-1a".to_owned(),
        instance_type: "g6.xlarge".into(),
        lifecycle: Lifecycle::Spot,
        rate_max: Rate::ZERO,
        rate: Rate::ZERO,
        transfer: None,
        attempt: 1,
        candidate: 0,
        launched_at: now(),
        ends_at: now(),
    }
}

fn ended(result: JobResult) -> Phase {
    Phase::Ended(JobEnd { result, why: String::new(), at: now(), machine: None, released: true, closed: true })
}

/// The one after it, so that each has to be named here.
fn after(phase: &Phase) -> Option<Phase> {
    let (at, until) = (now(), now());
    Some(match phase {
        Phase::Submitted => Phase::Reserving,
        Phase::Reserving => Phase::Launching(LaunchInProgress {
            candidate: 0,
            pass: 1,
            at,
            ends_at: until,
            quotas: Vec::new(),
            avoid: None,
            unanswered: false,
            refused: RefusedCandidates::default(),
            replaces: None,
        }),
        Phase::Launching(_) => Phase::Running(placed()),
        Phase::Running(_) => {
            Phase::Interrupted(MachineReplacement { machine: placed(), lost: LossReason::Gone, since: at })
        }
        Phase::Interrupted(_) => Phase::Waiting(CapacityWait { until, passes: 1, message: String::new() }),
        Phase::Waiting(_) => Phase::Retrying(RetryWait { machine: None, why: String::new(), since: at, until }),
        Phase::Retrying(_) => Phase::Held(LaunchHold { by: HoldReason::Budget, why: String::new(), until, passes: 0 }),
        Phase::Held(_) => ended(JobResult::Succeeded),
        Phase::Ended(last) => match last.result {
            JobResult::Succeeded => ended(JobResult::Failed),
            JobResult::Failed => ended(JobResult::Expired),
            JobResult::Expired => ended(JobResult::Cancelled),
            JobResult::Cancelled => return None,
        },
    })
}

#[test]
fn every_state_has_a_row() {
    let terms = read(LEAST).unwrap().terms;
    let job = Job::submitted(JobId::read("vision/x-1a2b3c4d").unwrap(), None, terms, now());
    let every = std::iter::successors(Some(Phase::Submitted), after);
    let states: BTreeSet<&str> =
        every.map(|phase| JobOverview::from_job(&Job { phase, ..job.clone() }, now()).state).collect();
    let documented: BTreeSet<&str> = rows("States").into_keys().collect();
    assert_eq!(documented, states, "documented on the left, existing on the right");
}

#[test]
fn every_key_that_is_called_otherwise_elsewhere_exists_here() {
    let page = include_str!("../../../docs/other-tools.md");
    let accepted = accepted();
    let middle = page.lines().filter(|line| line.starts_with("| ")).filter_map(|line| line.split(" | ").nth(1));
    let keys: Vec<&str> =
        middle.flat_map(quoted).filter(|word| !word.contains(' ') && word.to_lowercase() == *word).collect();
    assert!(keys.len() > 50, "{keys:?}");
    for key in keys {
        assert!(accepted.contains(key), "{key} is no key");
    }
}
