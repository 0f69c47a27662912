//! A document of a box.

use model::fixture::{NOW, time};

use super::*;
use crate::boxes::BoxTerms;

const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB9rY1X8yVqKq0f3l2nq5l3q5l3q5l3q5l3q5l3q5l3q";

fn document(gpu_box: &str, rest: &str) -> String {
    format!("owner = \"ada@example.com\"\n{rest}\n[box]\npublic_key = \"{KEY} my-box\"\n{gpu_box}\n")
}

fn read_box(text: &str) -> Result<JobSpec, Vec<SpecMistake>> {
    read_by("", text)
}

fn read_by(config: &str, text: &str) -> Result<JobSpec, Vec<SpecMistake>> {
    let config = Config::read(config).unwrap();
    JobSpec::read(text, "my-box.toml", Some(&"vision".into()), &config, &"us-east-1".into(), time(NOW))
}

#[test]
fn a_box_has_a_working_day() {
    let spec = read_box(&document("", "")).unwrap();
    let expect = BoxTerms {
        public_key: format!("{KEY} my-box"),
        home_gib: 100,
        idle_seconds: 3_600,
        until: "2026-09-01T22:00:00Z".parse().unwrap(),
        remove: None,
    };
    assert_eq!((spec.name.as_str(), spec.terms.gpu_box), ("my-box", Some(expect)));
    assert_eq!((spec.work.is_box, spec.work.command.as_str(), spec.terms.max_runtime_seconds), (true, "", 86_400));
    let given = document("home_gib = 200\nidle = \"2h\"\nuntil = \"2026-09-01T19:00:00+02:00\"", "setup = \"true\"");
    let given = read_box(&given).unwrap().terms.gpu_box.unwrap();
    assert_eq!(
        (given.home_gib, given.idle_seconds, given.until.to_string().as_str()),
        (200, 7_200, "2026-09-01T17:00:00Z")
    );
}

fn check_box(gpu_box: &str, rest: &str, expect: &str) {
    check_by("", gpu_box, rest, expect);
}

fn check_by(config: &str, gpu_box: &str, rest: &str, expect: &str) {
    let mistakes = read_by(config, &document(gpu_box, rest)).unwrap_err();
    let said: Vec<String> = mistakes.iter().map(|one| format!("{} {}: {}", one.line, one.key, one.problem)).collect();
    assert!(said.len() == 1 && said[0].starts_with(expect), "{said:?}, not {expect}");
}

#[test]
fn the_configuration_limits_a_box() {
    let lower = "[boxes]\nruntime_max = \"12h\"\n[teams.vision]\nbox_runtime_max = \"8h\"\nbox_idle_max = \"30m\"\nbox_home_gib_max = 50";
    check_by(
        lower,
        "for = \"9h\"",
        "",
        "5 box.for: 9h is not possible; write 15m to 8h, or leave it out: `[teams.vision] box_runtime_max`",
    );
    let late =
        "5 box.until: 2026-09-01T21:00:00Z is too late (it is 2026-09-01T12:00:00Z): `[teams.vision] box_runtime_max`";
    check_by(lower, "until = \"2026-09-01T21:00:00Z\"", "", late);
    check_by(lower, "[limits]\nmax_runtime = \"9h\"", "", "6 limits.max_runtime: 9h is not possible; write 15m to 8h");
    check_by(
        lower,
        "idle = \"1h\"",
        "",
        "5 box.idle: 1h is not possible; write 15m to 30m, or leave it out: `[teams.vision] box_idle_max`",
    );
    check_by(
        lower,
        "home_gib = 51",
        "",
        "5 box.home_gib: a home of 51 GiB is not possible; write 1 to 50: `[teams.vision] box_home_gib_max`",
    );
    let spec = read_by(lower, &document("", "")).unwrap();
    let terms = spec.terms.gpu_box.unwrap();
    assert_eq!((terms.home_gib, terms.idle_seconds, spec.terms.max_runtime_seconds), (50, 1_800, 28_800), "by default");
    assert_eq!(terms.until.to_string(), "2026-09-01T20:00:00Z");
    let higher = "[boxes]\nruntime_max = \"3d\"\nidle_max = \"8h\"\nhome_gib_max = 4096";
    let spec = read_by(higher, &document("home_gib = 4000\nidle = \"6h\"\nfor = \"30h\"", "")).unwrap();
    assert_eq!((spec.terms.max_runtime_seconds, spec.terms.gpu_box.unwrap().home_gib), (259_200, 4_000));
}

#[test]
fn nobody_logs_in_without_ssh() {
    let no_ssh = "[jobs]\nssh = false";
    check_by(no_ssh, "", "", "3 box: `[jobs] ssh` of the configuration is false, so nobody could log in to a box");
    let removal = crate::BoxJob::removal("my-box", Some("ada"), crate::boxes::BoxRemoval::Volume);
    assert!(read_by(no_ssh, &removal).is_ok(), "what is there can go");
}

#[test]
fn what_a_box_cannot_be() {
    check_box(
        "idle = \"5m\"",
        "",
        "5 box.idle: 5m is not possible; write 15m to 4h, or leave it out: `[boxes] idle_min` of",
    );
    check_box(
        "idle = \"5h\"",
        "",
        "5 box.idle: 5h is not possible; write 15m to 4h, or leave it out: `[boxes] idle_max` of",
    );
    check_box(
        "for = \"30h\"",
        "",
        "5 box.for: 1d6h is not possible; write 15m to 1d, or leave it out: `[boxes] runtime_max`",
    );
    check_box(
        "home_gib = 4000",
        "",
        "5 box.home_gib: a home of 4000 GiB is not possible; write 1 to 1024: `[boxes] home_gib_max`",
    );
    check_box("home_gib = 0", "", "5 box.home_gib: a home of 0 GiB is not possible");
    check_box("until = \"2026-09-03T12:00:00Z\"", "", "5 box.until: 2026-09-03T12:00:00Z is too late");
    check_box("until = \"2026-08-03T12:00:00Z\"", "", "5 box.until: 2026-08-03T12:00:00Z is in the past");
    check_box("for = \"2h\"\nuntil = \"2026-09-01T19:00:00Z\"", "", "5 box.for: `until` says the same");
    check_box("", "command = \"sleep 1\"", "2 command: it belongs to a job with a command, and this is a box");
    check_box("", "retries = 2", "2 retries: it belongs to a job with a command");
    check_box("[checkpoint]", "", "5 checkpoint: it belongs to a job with a command");
    check_box(
        "[machine]\nregions = [\"us-east-1\", \"us-west-2\"]",
        "",
        "6 machine.regions: the home of a box lies in one region",
    );
    let options = "owner = \"ada\"\n[box]\npublic_key = \"command=\\\"sh\\\" ssh-ed25519 AAAA\"";
    assert!(read_box(options).unwrap_err()[0].problem.contains("no public key of type ed25519"));
    let removal = read_box(&crate::BoxJob::removal("my-box", None, crate::boxes::BoxRemoval::Everything)).unwrap();
    assert_eq!(removal.terms.gpu_box.unwrap().remove, Some(crate::boxes::BoxRemoval::Everything));
    check_box("remove = \"it\"", "", "5 box.remove: \"it\" is none of `volume`, `everything`");
    assert!(read_box("owner = \"ada\"\n[box]\n").unwrap_err()[0].problem.contains("it is missing"));
}
