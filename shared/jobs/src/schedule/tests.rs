use std::collections::BTreeMap;

use model::config::Config;
use proptest::prelude::*;

use super::*;
use crate::JobSpec;
use crate::SpecMistake;

const JOB: &str = "owner = \"ada@example.com\"\ncommand = \"python retrain.py\"\n";
const NIGHTLY: &str = "[schedule]\ncron = \"0 2 * * *\"\n";

fn at(text: &str) -> Timestamp {
    format!("2026-11-{text}Z").parse().unwrap()
}

fn read_with(config: &str, name: &str, text: &str) -> Result<(Schedule, JobSpec), Vec<SpecMistake>> {
    let config = Config::read(config).unwrap();
    Schedule::read(text.as_bytes(), name, Some(&"vision".into()), &config, &"us-east-1".into(), at("22T05:00:00"))
}

fn read(text: &str) -> Result<(Schedule, JobSpec), Vec<SpecMistake>> {
    read_with("", "nightly", text)
}

fn schedule(section: &str) -> Schedule {
    let text = format!("{JOB}[schedule]\n{section}\n");
    read(&text).unwrap_or_else(|mistakes| panic!("{text}\n{mistakes:#?}")).0
}

fn check_refused(text: &str, expect: &[&str]) {
    let mistakes = read(text).map_or_else(|mistakes| mistakes, |(read, _)| panic!("{text}\naccepted: {read:#?}"));
    let problems: Vec<String> =
        mistakes.into_iter().map(|SpecMistake { line, key, problem }| format!("{line} {key}: {problem}")).collect();
    let has_part = |(problem, part): (&String, &&str)| problem.contains(part);
    assert!(problems.len() == expect.len() && problems.iter().zip(expect).all(has_part), "{problems:#?}");
}

#[test]
fn every_mistake_has_its_line() {
    check_refused(JOB, &["0 schedule: there is no section"]);
    check_refused(&format!("{JOB}[schedule]\n"), &["3 schedule.cron: write the moments"]);
    check_refused(&format!("schedule = {{ cron = \"0 2 * * *\" }}\n{JOB}"), &["1 schedule: write it as a section"]);
    check_refused(
        "command = \"\"\nowner = \"ada\"\n[schedule]\ncron = \"0 2 * *\"\ntime_zone = \"EST\"\nmax_at_once = 21\nevery = 1\n[gpu]\ncount = 0\n",
        &[
            "1 command",
            "4 schedule.cron: `0 2 * *` has 4 fields",
            "5 schedule.time_zone: `EST` has no summer",
            "6 schedule.max_at_once: write a whole number from 1 to 20",
            "7 schedule.every: there is no such key",
            "9 gpu.count",
        ],
    );
    check_refused(
        &format!("colour = 1\n{JOB}{NIGHTLY}max_at_once = 0\n"),
        &["1 colour", "6 schedule.max_at_once: write a whole number from 1 to 20"],
    );
    check_refused(&format!("{JOB}[schedule]\ncron = 5\n"), &["4 schedule.cron: write a text in quotes"]);
    check_refused(
        &format!("{JOB}{NIGHTLY}[limits]\nfinish_by = 2027-01-01T00:00:00Z\n"),
        &["6 limits.finish_by: a schedule makes jobs again"],
    );
    check_refused(
        &format!("{JOB}env = {{ SCHEDULED_AT = \"x\" }}\n{NIGHTLY}"),
        &["3 schedule: its jobs get the variable SCHEDULED_AT"],
    );
    assert!(read_with("", &"a".repeat(50), &format!("{JOB}{NIGHTLY}")).is_ok());
    for name in ["a".repeat(51), "a b".to_owned(), String::new()] {
        assert!(read_with("", &name, &format!("{JOB}{NIGHTLY}")).is_err(), "{name}");
    }
}

#[test]
fn a_schedule_is_no_job() {
    let text = format!("{JOB}{NIGHTLY}");
    let mistakes =
        JobSpec::read(&text, "x", None, &Config::default(), &"us-east-1".into(), at("22T05:00:00")).unwrap_err();
    let problem = "the document is a schedule, not a job: add it with `curfew schedule add NAME`".to_owned();
    assert_eq!(mistakes, [SpecMistake { line: 3, key: "schedule".to_owned(), problem }]);
}

#[test]
fn the_section_of_a_command_is_that_of_a_document() {
    for job in [JOB, JOB.trim_end(), &format!("{JOB}[limits]\nmax_runtime = \"2h\"\n")] {
        let text = append_section(job, "0 2 * * MON-FRI", Some("Europe/Berlin"), Some(3)).unwrap();
        let (read, spec) = read(&text).unwrap();
        assert_eq!(
            (read.cron().as_str(), read.zone_name(), read.max_at_once()),
            ("0 2 * * MON-FRI", "Europe/Berlin", 3)
        );
        assert_eq!(spec.name.as_str(), "nightly");
        assert_eq!(append_section(&text, "0 3 * * *", None, None), None);
    }
    let (plain, _) = read(&append_section(JOB, "0 2 * * *", None, None).unwrap()).unwrap();
    assert_eq!((plain.zone_name(), plain.max_at_once()), ("UTC", 1));
    check_refused(&append_section(JOB, "\"\n[gpu]", None, None).unwrap(), &["5 schedule.cron"]);
    let text = format!("colour = 1\n{JOB}env = {{ SCHEDULED_AT = \"x\" }}\n");
    let text = append_section(&text, "@daily", Some("EST"), Some(21)).unwrap();
    let places: Vec<_> = name_options(read(&text).unwrap_err()).into_iter().map(|one| (one.line, one.key)).collect();
    let expect = [(0, "--cron"), (0, "--time-zone"), (0, "--max-at-once"), (1, "colour")];
    assert_eq!(places, expect.map(|(line, key)| (line, key.to_owned())));
}

#[test]
fn without_a_time_zone_it_is_that_of_the_account() {
    let (read, _) = read_with("[account]\ntime_zone = \"Asia/Tokyo\"", "nightly", &format!("{JOB}{NIGHTLY}")).unwrap();
    assert_eq!(
        read.describe(at("22T05:00:00")),
        "nightly runs by `0 2 * * *` in Asia/Tokyo: at most 1 job at once, next at 2026-11-23 02:00 JST (in 12h)"
    );
}

/// `until`, the document, and what is skipped and missed.
type Expected<'t> = (&'t str, Option<&'t str>, Option<&'t str>, Option<(&'t str, &'t str, usize)>);

/// A state, the time of the document, the unfinished jobs and the time now.
fn check(
    state: &ScheduleState,
    (written_at, unfinished, now): (&str, usize, &str),
    expect: Expected<'_>,
) -> ScheduleState {
    let schedule = schedule("cron = \"0 2 * * *\"");
    let facts = ScheduleFacts { unfinished, is_workdir_gone: false };
    let decided = schedule.next(state, at(written_at), facts, at(now));
    let (until, document, skipped, missed) = expect;
    assert_eq!(decided.state.until, Some(at(until)), "{decided:#?}");
    assert_eq!(decided.document.as_ref().map(|made| made.name.as_str()), document, "{decided:#?}");
    assert_eq!(decided.skipped, skipped.map(|moment| SkippedMoment { at: at(moment), unfinished }));
    assert_eq!(
        decided.missed,
        missed.map(|(first, last, count)| MissedMoments {
            first: at(first),
            last: at(last),
            count,
            reason: MissReason::Late
        })
    );
    let is_due = schedule.is_due(state, at(written_at), at(now));
    assert_eq!(is_due, decided.skipped.is_some() || decided.document.is_some_and(|_| state.pending.is_none()));
    decided.state
}

#[test]
fn a_moment_makes_one_job() {
    let fresh = ScheduleState::default();
    let before = check(&fresh, ("21T20:00:00", 0, "22T01:59:59"), ("22T00:59:59", None, None, None));
    let due =
        check(&before, ("21T20:00:00", 0, "22T02:00:20"), ("22T02:00:00", Some("nightly.202611220200"), None, None));
    // Its run was cut off before the document was written.
    let again =
        check(&due, ("21T20:00:00", 9, "22T02:01:20"), ("22T02:00:00", Some("nightly.202611220200"), None, None));
    let done = again.settled();
    assert_eq!(
        (done.pending, done.submitted, &done.unanswered[..]),
        (None, Some(at("22T02:00:00")), &[at("22T02:00:00")][..])
    );
    check(&done, ("21T20:00:00", 0, "22T02:02:20"), ("22T02:00:00", None, None, None));
    // A document that is new, or was replaced: moments before do not count.
    check(&fresh, ("22T02:00:30", 0, "22T02:01:00"), ("22T02:00:30", None, None, None));
    check(&done, ("23T02:00:30", 0, "23T02:01:00"), ("22T02:00:00", None, None, None));
}

#[test]
fn too_many_unfinished_jobs_skip_a_moment() {
    let state = ScheduleState { until: Some(at("21T02:00:00")), ..ScheduleState::default() };
    let skipped = check(&state, ("20T00:00:00", 1, "22T02:00:20"), ("22T02:00:00", None, Some("22T02:00:00"), None));
    check(&skipped, ("20T00:00:00", 0, "22T02:01:20"), ("22T02:00:00", None, None, None));
}

#[test]
fn an_outage_ends_with_one_job_at_most() {
    let state = ScheduleState { until: Some(at("19T02:00:00")), ..ScheduleState::default() };
    let missed = Some(("20T02:00:00", "21T02:00:00", 2));
    check(&state, ("01T00:00:00", 0, "22T03:00:00"), ("22T02:00:00", Some("nightly.202611220200"), None, missed));
    let missed = Some(("20T02:00:00", "22T02:00:00", 3));
    let over = check(&state, ("01T00:00:00", 0, "22T03:00:01"), ("22T02:00:00", None, None, missed));
    check(&over, ("01T00:00:00", 0, "22T03:01:00"), ("22T02:00:00", None, None, None));
    // A pending moment that was never written is missed as well.
    let pending = ScheduleState { pending: Some(at("19T02:00:00")), ..state };
    let missed = Some(("19T02:00:00", "19T02:00:00", 1));
    let after = check(&pending, ("01T00:00:00", 0, "19T03:00:01"), ("19T02:00:00", None, None, missed));
    assert_eq!(after.pending, None);
    // Without a state nothing is known to be missed.
    check(&ScheduleState::default(), ("01T00:00:00", 0, "22T05:00:00"), ("22T04:00:00", None, None, None));
}

#[test]
fn a_moment_without_its_archive_is_missed() {
    let digest = format!("sha256:{}", "0a".repeat(32));
    let (schedule, _) = read(&format!("workdir = \"{digest}\"\n{JOB}{NIGHTLY}")).unwrap();
    assert_eq!(schedule.workdir().map(ToString::to_string), Some(digest));
    let before = ScheduleState { until: Some(at("19T02:00:00")), ..ScheduleState::default() };
    let decide = |state: &ScheduleState, unfinished, is_workdir_gone, now: &str| {
        schedule.next(state, at("01T00:00:00"), ScheduleFacts { unfinished, is_workdir_gone }, at(now))
    };
    let gone = decide(&before, 1, true, "22T02:00:20");
    let missed =
        MissedMoments { first: at("20T02:00:00"), last: at("22T02:00:00"), count: 3, reason: MissReason::WorkdirGone };
    assert_eq!((gone.document, gone.skipped, gone.missed), (None, None, Some(missed)));
    assert_eq!((gone.state.until, gone.state.pending), (Some(missed.last), None));
    let text = serde_json::to_string(&gone.state).unwrap();
    assert!(text.contains(r#""count":3,"reason":"workdir-gone""#), "{text}");
    // It is told of once, and the next moment may have it.
    let later = decide(&gone.state, 0, true, "22T02:01:20");
    assert_eq!((later.missed, &later.state), (None, &gone.state));
    assert!(decide(&gone.state, 0, false, "23T02:00:20").document.is_some());
    // What no run looked at says nothing about the archive, and its state is as before.
    let late = decide(&before, 0, true, "22T04:00:00").missed.unwrap();
    assert_eq!(late.reason, MissReason::Late);
    assert!(!serde_json::to_string(&late).unwrap().contains("reason"));
}

#[test]
fn the_team_hears_before_an_archive_expires() {
    let check = |cron: &str, uploaded_at: &str, expect: Option<&str>| {
        let expires_at = schedule(&format!("cron = \"{cron}\""))
            .workdir_expires_soon(uploaded_at.parse().unwrap(), at("01T02:00:10"));
        assert_eq!(expires_at.map(|at| at.to_string()).as_deref(), expect, "{cron} {uploaded_at}");
    };
    check("0 2 * * *", "2026-05-12T02:00:11Z", None);
    check("0 2 * * *", "2026-05-12T02:00:09Z", Some("2026-11-08T02:00:09Z"));
    check("0 2 1 * *", "2026-06-05T00:00:00Z", None);
    check("0 2 1 * *", "2026-06-04T00:00:00Z", Some("2026-12-01T00:00:00Z"));
    check("0 2 1 * *", "2026-01-01T00:00:00Z", Some("2026-06-30T00:00:00Z"));
}

#[test]
fn jobs_are_counted_by_their_name_and_a_sweep_once() {
    let check = |name: &str, expect: usize| {
        let (read, _) = read(&format!("name = \"{name}\"\n{JOB}{NIGHTLY}")).unwrap();
        let active =
            ["llama-0123abcd", "llama-9123abcd", "llama-ft-0123abcd", "tune-0001-0123abcd", "tune-0002-0123abcd"];
        let active = active.map(|job| JobId { team: "vision".into(), job: job.to_owned() });
        assert_eq!(read.count_unfinished(&active), expect, "{name}");
    };
    check("llama", 2);
    check("tune", 1);
    check("other", 0);
}

#[test]
fn a_state_is_read_only_near_a_moment() {
    let schedule = schedule("cron = \"0 2 * * *\"");
    let check = |written: Option<&str>, now: &str, expect: bool| {
        assert_eq!(schedule.is_state_needed(written.map(at), at(now)), expect, "{written:?} {now}");
    };
    check(None, "22T05:00:00", true);
    check(Some("22T02:00:05"), "22T02:01:00", true);
    check(Some("22T02:00:05"), "23T01:59:59", true);
    check(Some("22T04:00:05"), "23T01:59:59", false);
    check(Some("22T04:00:05"), "23T02:00:00", true);
}

#[test]
fn the_made_document_has_its_moment() {
    let schedule = schedule("cron = \"0 2 * * *\"\ntime_zone = \"Europe/Berlin\"");
    let state = ScheduleState { until: Some(at("21T01:00:00")), ..ScheduleState::default() };
    let made = schedule.next(&state, at("20T00:00:00"), ScheduleFacts::default(), at("22T01:00:07")).document.unwrap();
    assert_eq!(made.name, "nightly.202611220100");
    assert!(made.text.ends_with("[env]\nSCHEDULED_AT = \"2026-11-22T01:00:00Z\"\n"), "{}", made.text);
    assert!(made.text.starts_with("name = \"nightly\"\nowner = "));
}

proptest! {
    /// Runs come every minute or not for hours, are cut off, and find jobs that take hours.
    #[test]
    fn each_moment_has_one_outcome_and_no_run_makes_two_jobs(
        gaps in prop::collection::vec(prop_oneof![8 => 30_i64..90, 1 => 600_i64..40_000], 1..150),
        cut_off in prop::collection::vec(0_u8..4, 150), takes in 60_i64..30_000, most in 1_u32..4, hourly in any::<bool>()
    ) {
        let cron = if hourly { "*/20 * * * *" } else { "0 */3 * * *" };
        let schedule = schedule(&format!("cron = \"{cron}\"\ntime_zone = \"Europe/Berlin\"\nmax_at_once = {most}"));
        let start: Timestamp = "2026-10-24T20:00:00Z".parse().unwrap();
        let (mut now, mut state) = (start, ScheduleState::default());
        let (mut made, mut without) = (BTreeMap::<String, Timestamp>::new(), 0);
        let mut first = None;
        for (gap, cut_off) in gaps.into_iter().zip(cut_off) {
            now += SignedDuration::from_secs(gap);
            let unfinished = made.values().filter(|begun| now.duration_since(**begun).as_secs() < takes).count();
            let facts = ScheduleFacts { unfinished, is_workdir_gone: false };
            let decided = schedule.next(&state, start, facts, now);
            if cut_off == 1 {
                continue;
            }
            without += usize::from(decided.skipped.is_some()) + decided.missed.map_or(0, |missed| missed.count);
            state = decided.state;
            first = first.or(state.until);
            if cut_off == 2 {
                continue;
            }
            if let Some(document) = decided.document {
                let is_new = !made.contains_key(&document.name);
                made.entry(document.name).or_insert(now);
                prop_assert!(is_new || state.pending.is_some());
                prop_assert!(now.duration_since(state.pending.unwrap()) <= CATCH_UP);
            }
            // Cut off before the state is written again: the document is there.
            if cut_off != 3 {
                state = state.settled();
                state.unanswered.clear();
            }
        }
        let all = schedule.cron().between(first.unwrap_or(now), state.until.unwrap_or(now), &schedule.zone);
        let pending = usize::from(state.pending.is_some_and(|at| !made.contains_key(&schedule.document_name(at))));
        // A moment whose document is there counts as missed where its run was cut off afterwards for an hour.
        prop_assert!(made.len() + without + pending >= all.len(), "{} {without} {}", made.len(), all.len());
        let unfinished = |now: Timestamp| made.values().filter(|begun| **begun <= now && now.duration_since(**begun).as_secs() < takes).count();
        prop_assert!(made.values().all(|begun| unfinished(*begun) <= usize::try_from(most).unwrap()));
    }
}
