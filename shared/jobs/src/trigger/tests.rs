use jiff::ToSpan;
use model::config::Config;
use proptest::prelude::*;

use super::*;
use crate::{JobSpec, SpecMistake};

const JOB: &str = "owner = \"ada@example.com\"\ncommand = \"python ingest.py\"\n";
const EACH: &str = "[trigger]\nfrom = \"s3://data/uploads/\"\nmax_per_day = 2\n";
const QUIET: &str = "[trigger]\nfrom = \"s3://data/\"\nfor = \"quiet\"\nquiet = \"10m\"\nmax_per_day = 1\n";

fn at(text: &str) -> Timestamp {
    format!("2026-11-{text}Z").parse().unwrap()
}

fn read(text: &str) -> Result<(Trigger, JobSpec), Vec<SpecMistake>> {
    read_named("ingest", text)
}

fn read_named(name: &str, text: &str) -> Result<(Trigger, JobSpec), Vec<SpecMistake>> {
    let region = "us-east-1".into();
    Trigger::read(
        text.as_bytes(),
        name,
        Some(&"vision".into()),
        &Config::read("[teams.vision]\nbuckets = [\"s3://data\"]").unwrap(),
        ("curfew-state", &region),
        at("22T05:00:00"),
    )
}

fn trigger(text: &str) -> Trigger {
    read(text).unwrap_or_else(|mistakes| panic!("{text}\n{mistakes:#?}")).0
}

fn arrival(key: &str, version: &str, moment: &str) -> Arrival {
    let (bucket, key) = ("data".to_owned(), key.to_owned());
    Arrival { bucket, key, version: Some(version.to_owned()), etag: None, bytes: Some(7), at: Some(at(moment)) }
}

fn check_refused(text: &str, expect: &[&str]) {
    let mistakes = read(text).map_or_else(|mistakes| mistakes, |(trigger, _)| panic!("{text}\naccepted: {trigger:#?}"));
    let problems: Vec<String> =
        mistakes.into_iter().map(|SpecMistake { line, key, problem }| format!("{line} {key}: {problem}")).collect();
    let has_part = |(problem, part): (&String, &&str)| problem.contains(part);
    assert!(problems.len() == expect.len() && problems.iter().zip(expect).all(has_part), "{problems:#?}");
}

#[test]
fn every_mistake_has_its_line() {
    check_refused(JOB, &["0 trigger: there is no section"]);
    check_refused(&format!("{JOB}[trigger]\n"), &["3 trigger.from: write a folder"]);
    for from in ["data/", "s3://data", "s3:///x/", "s3://data/x", "https://data/x/"] {
        check_refused(&format!("{JOB}[trigger]\nfrom = \"{from}\""), &["4 trigger.from: write a folder"]);
    }
    check_refused(
        &format!("{JOB}[trigger]\nfrom = \"s3://curfew-state/x/\""),
        &["4 trigger.from: this is Curfew's own"],
    );
    check_refused(
        &format!("{JOB}[trigger]\nfrom = \"s3://payroll/2026/\""),
        &[
            "4 trigger.from: buckets of [teams.vision] in the configuration does not allow \"s3://payroll/2026/\"; it allows s3://data/",
        ],
    );
    check_refused(&format!("{JOB}{EACH}quiet = \"5m\"\n"), &["6 trigger.quiet: it needs"]);
    for quiet in ["59s", "25h", "soon"] {
        let text = format!("{JOB}[trigger]\nfrom = \"s3://data/\"\nfor = \"quiet\"\nquiet = \"{quiet}\"\n");
        check_refused(&text, &["6 trigger.quiet: write a duration from"]);
    }
    check_refused(
        "command = \"\"\nowner = \"ada\"\ncolour = 1\n[trigger]\nfrom = \"s3://data/\"\nfor = \"ever\"\nmax_per_day = 1001\n\
         every = 1\n[gpu]\ncount = 0\n",
        &[
            "1 command",
            "3 colour: there is no key",
            "6 trigger.for: write `\"each-object\"`",
            "7 trigger.max_per_day: write a whole number from 1 to 1000",
            "8 trigger.every: there is no such key",
            "10 gpu.count",
        ],
    );
    check_refused(&format!("trigger = {{ from = \"s3://data/\" }}\n{JOB}"), &["1 trigger: write it as a section"]);
    check_refused(&format!("{JOB}env = {{ TRIGGER_KEY = \"x\" }}\n{EACH}"), &["3 trigger: its jobs get the variables"]);
    let elsewhere = format!("setup = \"env\"\n{JOB}{EACH}[secrets]\nTRIGGER_KEY = ");
    let secret = "\"arn:aws:ssm:us-east-1:123456789012:parameter/x\"\n";
    check_refused(&format!("{elsewhere}{secret}"), &["4 trigger: its jobs get the variables"]);
    check_refused(&format!("{JOB}command = 1\n{EACH}"), &["3 command"]);
    for moment in ["2020-01-01T00:00:00Z", "2027-01-01T00:00:00Z"] {
        let text = format!("{JOB}{EACH}[limits]\nfinish_by = {moment}\n");
        check_refused(&text, &["7 limits.finish_by: a trigger makes jobs again and again; write `within`"]);
    }
    let named = |name: &str| read_named(name, &format!("{JOB}{EACH}"));
    assert!(named(&"a".repeat(50)).is_ok() && named(&"a".repeat(51)).is_err() && named("a b").is_err());
}

#[test]
fn a_trigger_is_no_job() {
    let read = |text: &str| JobSpec::read(text, "x", None, &Config::default(), &"us-east-1".into(), at("22T05:00:00"));
    for (line, text) in [(3, format!("{JOB}{EACH}")), (1, format!("trigger.from = \"s3://data/\"\n{JOB}"))] {
        let mistakes = read(&text).unwrap_err();
        let problem = "the document is a trigger, not a job: submit it with `--trigger NAME`".to_owned();
        assert_eq!(mistakes, [SpecMistake { line, key: "trigger".to_owned(), problem }]);
    }
}

#[test]
fn a_trigger_says_what_it_watches() {
    let limit = "at most 2 jobs a day (UTC)";
    let expect = format!("ingest watches s3://data/uploads/: a job for each object that arrives, {limit}");
    assert_eq!(trigger(&format!("{JOB}{EACH}")).describe(), expect);
    let expect = "ingest watches s3://data/: a job once nothing has arrived for 10m, at most 1 job a day (UTC)";
    assert_eq!(trigger(&format!("{JOB}{QUIET}")).describe(), expect);
}

#[test]
fn the_made_document_is_the_triggers_own_with_variables() {
    let check = |text: &str, expect: &str| {
        let (_, mut made) = trigger(text).next(
            &TriggerState::default(),
            &[arrival("uploads/a \"b\"", "v1", "22T05:00:00")],
            at("22T05:00:01"),
        );
        assert_eq!(made.len(), 1, "{text}");
        let made = made.remove(0);
        assert!(made.name.starts_with("ingest.") && made.name.len() == "ingest.".len() + DIGITS);
        assert_eq!(made.text, expect);
    };
    let variables = "TRIGGER_BUCKET = \"data\"\nTRIGGER_KEY = \"uploads/a \\\"b\\\"\"\nTRIGGER_VERSION = \"v1\"";
    let on_one_line = variables.replace('\n', ", ");
    let name = "name = \"ingest\"\n";
    check(&format!("{JOB}{EACH}"), &format!("{name}{JOB}\n\n\n\n[env]\n{variables}\n"));
    let body = |env: &str| format!("name = \"x\"\n{JOB}{env}");
    check(
        &format!("{}{EACH}", body("")),
        &format!("{}\n\n\n[env]\n{variables}\n", body("\n").trim_end()).replace("\n\n\n[", "\n\n\n\n\n["),
    );
    check(
        &format!("{}{EACH}", body("env = { A = \"{\" }\n")),
        &format!("{}\n\n\n", body(&format!("env = {{{on_one_line},  A = \"{{\" }}\n"))),
    );
    check(&format!("{}{EACH}", body("env = {}\n")), &format!("{}\n\n\n", body(&format!("env = {{{on_one_line}}}\n"))));
    check(
        &format!("{}{EACH}[env] # mine\nA = \"1\"\n", body("")),
        &format!("{}\n\n\n[env] # mine\n{variables}\nA = \"1\"\n", body("")),
    );
    let dotted = format!("env.{}\n", variables.replace('\n', "\nenv."));
    check(&format!("{}{EACH}", body("env.A = \"1\"\n")), &format!("{dotted}{}\n\n\n", body("env.A = \"1\"\n")));
}

#[test]
fn an_object_is_one_job_however_often_its_event_arrives() {
    let each = trigger(&format!("{JOB}{EACH}"));
    let (one, other) = (arrival("uploads/a", "v1", "22T05:00:00"), arrival("uploads/a", "v2", "22T05:00:00"));
    let (state, first) =
        each.next(&TriggerState::default(), &[one.clone(), one.clone(), other.clone()], at("22T05:00:00"));
    assert_eq!(first.iter().map(|made| made.name.as_str()).collect::<std::collections::BTreeSet<_>>().len(), 2);
    assert_eq!(state.refused_on(at("22T05:00:00")), 0);
    // After a crash, and a day later, it is the same document.
    for moment in ["22T05:00:01", "23T05:00:00"] {
        let (again, made) = each.next(&state, std::slice::from_ref(&other), at(moment));
        assert_eq!((again, made), (state.clone(), vec![first[2].clone()]));
    }
    let third = arrival("uploads/b", "v1", "22T06:00:00");
    let (state, made) = each.next(&state, &[third.clone(), one], at("22T06:00:00"));
    assert_eq!((made, state.refused_on(at("22T06:00:00"))), (vec![first[0].clone()], 1));
    // Whatever its state says, it counts on.
    let damaged = TriggerState { refused: state.refused.map(|(day, _)| (day, u64::MAX)), ..state.clone() };
    let (counted, _) = each.next(&damaged, std::slice::from_ref(&third), at("22T06:00:00"));
    assert_eq!(counted.refused_on(at("22T06:00:00")), u64::MAX);
    assert_eq!(each.next(&state, &[third], at("23T00:00:00")).1.len(), 1, "it is another day");
    let marker = |key, bytes| Arrival { bytes, ..arrival(key, "v", "22T07:00:00") };
    let elsewhere = [
        arrival("uploads/", "v", "22T07:00:00"),
        arrival("x/uploads/a", "v", "22T07:00:00"),
        marker("uploads/2026-11/", Some(0)),
        marker("uploads/2026-11/", None),
        marker("uploads/2026-11_$folder$", Some(0)),
    ];
    assert!(each.concerns(&marker("uploads/empty", Some(0))) && each.concerns(&marker("uploads/x_$folder$", Some(7))));
    assert_eq!(each.next(&TriggerState::default(), &elsewhere, at("22T07:00:00")), Default::default());
}

#[test]
fn quiet_makes_one_job_after_the_last_arrival() {
    let quiet = trigger(&format!("{JOB}{QUIET}"));
    let arrived = |moment: &str| arrival("a", "v", moment);
    let (state, made) =
        quiet.next(&TriggerState::default(), &[arrived("22T05:04:00"), arrived("22T05:00:00")], at("22T05:04:01"));
    assert!(made.is_empty() && state.has_pending());
    let (state, made) = quiet.next(&state, &[], at("22T05:13:59"));
    assert!(made.is_empty());
    let (state, made) = quiet.next(&state, &[], at("22T05:14:00"));
    assert_eq!(made.len(), 1);
    assert!(made[0].text.contains("TRIGGER_PREFIX = \"\"") && !made[0].text.contains("TRIGGER_KEY"));
    // A crash before the document was written: it is made again, and not counted again.
    assert_eq!(quiet.next(&state, &[], at("22T05:15:00")), (state.clone(), made.clone()));
    let settled = state.settled(&made);
    assert!(!settled.has_pending());
    assert_eq!(
        quiet.next(&settled, &[arrived("22T05:04:00")], at("22T06:00:00")),
        (settled.clone(), Vec::new()),
        "a late event"
    );
    // What arrives before it is settled is another job, which waits for the next day.
    let (state, _) = quiet.next(&state, &[arrived("22T05:14:01")], at("22T05:14:02"));
    let state = state.settled(&made);
    let (state, over) = quiet.next(&state, &[], at("22T06:00:00"));
    assert_eq!((over.len(), state.refused_on(at("22T06:00:00")), state.has_pending()), (0, 1, true));
    assert_eq!(quiet.next(&state, &[], at("22T06:01:00")), (state.clone(), Vec::new()), "nothing to write");
    assert_eq!(quiet.next(&state, &[], at("23T00:00:00")).1.len(), 1);
}

proptest! {
    #[test]
    fn a_day_has_no_more_jobs_than_it_may(moments in prop::collection::vec((0_i64..4, 0_u8..9), 0..40)) {
        let each = trigger(&format!("{JOB}{EACH}"));
        let (mut state, mut names, mut day) = (TriggerState::default(), BTreeMap::new(), 0);
        let mut sorted = moments;
        sorted.sort_unstable_by_key(|(day, _)| *day);
        for (later, object) in sorted {
            day = later;
            let now = at("20T12:00:00") + (24 * day).hours();
            let (next, made) = each.next(&state, &[arrival(&format!("uploads/{object}"), "v", "20T12:00:00")], now);
            state = next;
            for one in made {
                names.entry(one.name).or_insert(day);
            }
        }
        for date in 0..=day {
            prop_assert!(names.values().filter(|day| **day == date).count() <= 2);
        }
    }

    #[test]
    fn a_variable_is_what_the_event_said(key in "\\PC{1,40}|[\\x01-\\x7f]{1,20}") {
        let each = trigger(&format!("{JOB}{EACH}"));
        let (_, made) = each.next(&TriggerState::default(), &[arrival(&format!("uploads/{key}"), "v", "22T05:00:00")], at("22T05:00:00"));
        let document: toml::Table = made[0].text.parse().unwrap();
        let expect = format!("uploads/{key}");
        prop_assert_eq!(document["env"]["TRIGGER_KEY"].as_str(), Some(expect.as_str()));
    }
}
