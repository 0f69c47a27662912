use jobs::{Job, Phase};
use model::fixture::{InstanceBuilder, box_link, endpoint, instance, notebook, reply_link, time, volume};
use model::reply_link::{BoxLink, EndingBox, LinkDocument, ReplyToken, TOKEN_BYTES};
use model::rule::{ResourceAction, Rule};
use proptest::prelude::*;

use super::page::{ErrorPage, question_page, result_page};
use super::*;

fn terms(now: &str) -> ReplyTerms {
    ReplyTerms { mode: Mode::Enforce, time_zone: TimeZone::get("Europe/Berlin").unwrap(), now: time(now) }
}

/// Noon on a Tuesday.
fn noon() -> ReplyTerms {
    terms("2026-09-01T12:00:00Z")
}

fn stop() -> CarriedOut {
    CarriedOut { rule: Rule::Idle, action: ResourceAction::Stop, at: time("2026-09-01T11:00:00Z") }
}

fn state_of(seen: ObservedResource, recorded: Option<CarriedOut>, terms: &ReplyTerms) -> ReplyState {
    reply_state(&reply_link(&seen), Some(&seen), recorded, terms)
}

fn state(builder: InstanceBuilder) -> ReplyState {
    state_of(ObservedResource::Instance(builder.build()), Some(stop()), &noon())
}

fn choices(state: &ReplyState) -> Vec<&'static str> {
    state.offers.iter().map(|offer| offer.choice.as_str()).collect()
}

#[test]
fn a_running_instance_can_be_kept_or_protected_as_the_commands_do() {
    let state = state(instance().tag("curfew:marked", "idle=stop@2026-09-01T13:00:00Z"));
    let expect = "It will be stopped from Tue 1 Sep 2026, 15:00 CEST on, unless it is used again, kept or protected.";
    assert_eq!(state.situation, expect);
    let steps: Vec<_> = state.offers.iter().map(|offer| (offer.label.as_str(), offer.step.clone())).collect();
    let tag = |key, value: &str| ReplyStep::WriteTag { key, value: value.to_owned() };
    assert_eq!(
        steps,
        [
            ("Keep it for a day (until Wed 2 Sep 2026, 14:00 CEST)", tag("curfew:keep-until", "2026-09-02T12:00:00Z")),
            ("Keep it until Friday (Fri 4 Sep 2026, 18:00 CEST)", tag("curfew:keep-until", "2026-09-04T16:00:00Z")),
            ("Protect it for good", tag("curfew:protected", "")),
        ]
    );
    let kept = &state.offer(ReplyChoice::KeepDay).unwrap().result;
    assert!(kept.starts_with("It is kept until Wed 2 Sep 2026, 14:00 CEST; an announced action is off"), "{kept}");
}

#[test]
fn friday_is_the_next_one_after_today_in_the_accounts_time_zone() {
    let check = |now: &str, expect: &str| assert_eq!(terms(now).next_friday(), Some(time(expect)), "{now}");
    check("2026-08-31T12:00:00Z", "2026-09-04T16:00:00Z");
    check("2026-09-03T21:59:00Z", "2026-09-04T16:00:00Z");
    // Friday in Berlin.
    check("2026-09-03T22:00:00Z", "2026-09-11T16:00:00Z");
    check("2026-09-04T12:00:00Z", "2026-09-11T16:00:00Z");
    check("2026-09-05T12:00:00Z", "2026-09-11T16:00:00Z");
    // Over the end of summer time.
    check("2026-10-24T12:00:00Z", "2026-10-30T17:00:00Z");
}

#[test]
fn a_link_never_shortens_an_exemption() {
    let kept = |until: &str| choices(&state(instance().tag("curfew:keep-until", until)));
    assert_eq!(kept("2026-09-02T11:00:00Z"), ["keep-day", "keep-friday", "protect"]);
    assert_eq!(kept("2026-09-03T11:00:00Z"), ["keep-friday", "protect"]);
    assert_eq!(kept("2026-12-31"), ["protect"]);
    let protected = state(instance().tag("curfew:protected", ""));
    assert_eq!((choices(&protected), protected.situation.as_str()), (vec![], "It is protected: Curfew skips it."));
}

#[test]
fn only_a_stop_by_curfew_is_undone() {
    let stopped = ObservedResource::Instance(instance().state(InstanceState::Stopped).build());
    let by_curfew = state_of(stopped.clone(), Some(stop()), &noon());
    assert_eq!(by_curfew.situation, "Curfew stopped it: Tue 1 Sep 2026, 13:00 CEST, for idle.");
    assert_eq!(by_curfew.offers[0].step, ReplyStep::StartInstance);
    assert_eq!(by_curfew.offers[0].choice, ReplyChoice::Undo);
    let protected = instance().state(InstanceState::Stopped).tag("curfew:protected", "");
    assert_eq!(choices(&state(protected)), [] as [&str; 0], "IAM denies it");
    let by_others = state_of(stopped, None, &noon());
    assert_eq!(by_others.situation, "It is stopped, and not by Curfew.");
    assert_eq!(choices(&by_others), ["keep-day", "keep-friday", "protect"]);
    let stopped = ObservedResource::SageMaker(notebook().status(SageMakerStatus::Stopped).build());
    let recorded = stop();
    let of_notebook = state_of(stopped, Some(recorded), &noon());
    assert_eq!(of_notebook.offer(ReplyChoice::Undo).map(|offer| &offer.step), Some(&ReplyStep::StartNotebook));
    for seen in [ObservedResource::Volume(volume().build()), ObservedResource::SageMaker(endpoint().build())] {
        assert_eq!(choices(&state_of(seen, None, &noon())), ["keep-day", "keep-friday", "protect"]);
    }
}

#[test]
fn nothing_is_offered_of_what_is_gone_or_lives_anew() {
    let seen = ObservedResource::Instance(instance().build());
    let link = reply_link(&seen);
    let check = |seen: Option<&ObservedResource>, terms: &ReplyTerms, says: &str| {
        let state = reply_state(&link, seen, Some(stop()), terms);
        assert!(state.offers.is_empty() && state.situation.contains(says), "{state:?}");
    };
    check(None, &noon(), "no longer exists");
    let terminated = ObservedResource::Instance(instance().state(InstanceState::Terminated).build());
    check(Some(&terminated), &noon(), "it is terminated");
    let mut again = instance().build();
    again.launched_at = time("2026-09-01T11:30:00Z");
    check(Some(&ObservedResource::Instance(again)), &noon(), "started or made again");
    check(Some(&seen), &ReplyTerms { mode: Mode::Observe, ..noon() }, "observe mode");
}

#[test]
fn a_choice_is_read_by_its_exact_name() {
    assert_eq!(ReplyChoice::read("keep-friday"), Some(ReplyChoice::KeepFriday));
    for other in ["", "Keep-day", "keep-day/", "keep"] {
        assert_eq!(ReplyChoice::read(other), None, "{other}");
    }
}

fn token() -> ReplyToken {
    ReplyToken::from_bytes(&[7; TOKEN_BYTES])
}

#[test]
fn the_page_asks_by_forms_and_loads_nothing() {
    let seen = ObservedResource::Instance(instance().build());
    let link = ReplyLink { loses: Some("250 GB of local disk".to_owned()), ..reply_link(&seen) };
    let state = reply_state(&link, Some(&seen), None, &noon());
    let link = LinkDocument::Resource(link);
    let shown = question_page(&token(), &link, &state, &noon());
    assert!(shown.contains("Lost for good by it: 250 GB of local disk."), "{shown}");
    let action = format!("<form method=\"post\" action=\"/r/{}/keep-day\">", token().as_str());
    assert!(shown.contains(&action), "{shown}");
    let done = result_page(&link, &state.offers[0], &noon());
    assert!(done.contains("curfew release i-0abc") && !done.contains(token().as_str()), "{done}");
    for page in [shown, done, ErrorPage::Over.html(), ErrorPage::NotFound.html()] {
        assert!(!page.contains("script") && !page.contains("src=") && !page.contains("href="), "{page}");
    }
}

proptest! {
    #[test]
    fn no_foreign_text_becomes_markup(text in "[<>\"'&a-z /=]{0,60}") {
        let seen = ObservedResource::Instance(instance().build());
        let hostile = || format!("<script>{text}</script>\"><img src=x>");
        let link = ReplyLink {
            what: hostile(),
            name: Some(hostile()),
            owner: Some(hostile()),
            why: hostile(),
            loses: Some(hostile()),
            ..reply_link(&seen)
        };
        let state = reply_state(&link, Some(&seen), None, &noon());
        let link = LinkDocument::Resource(link);
        for page in [question_page(&token(), &link, &state, &noon()), result_page(&link, &state.offers[0], &noon())] {
            prop_assert!(!page.contains("<script") && !page.contains("<img"), "{page}");
            prop_assert_eq!(page.matches("<form").count() % 3, 0);
        }
    }
}

/// The job of the box of [`box_link`]: it is up until one o'clock, and its machine until ten in the evening.
fn box_job() -> Job {
    let text = r#"{"job": "vision/my-box-0123abcd", "owner": "ada", "terms": {"gpu": {"count": 1, "memory_gib_min": 0, "types": ["g5.xlarge"]}, "spot": null, "max_runtime_seconds": 28800,
        "finish_by": null, "max_usd": null, "checkpoint": null, "machine": {"regions": [], "ami": null, "subnets": [], "security_groups": [],
        "instance_profile": null, "root_volume_gib": null}},
        "box": {"soft_end": "2026-09-01T13:00:00Z", "kept_until": "2026-09-01T08:00:00Z", "end_is_near": true},
        "submitted_at": "2026-09-01T08:00:00Z", "attempt": 1, "phase": {"state": "running", "of": {"instance": "i-0abc", "region": "us-east-1",
        "zone": "us-east-1a", "type": "g5.xlarge", "lifecycle": "on-demand", "rate_max": 1.0, "rate": 1.0, "attempt": 1, "candidate": 0,
        "launched_at": "2026-09-01T08:00:00Z", "ends_at": "2026-09-01T20:00:00Z"}}, "previous_attempt": null, "used": {"seconds": 0, "usd": 0.0},
        "progress": {"step": null, "attempts_without": 0}, "reserved": null, "ranking": null, "unplaced_since": null, "notified": null}"#;
    serde_json::from_str(text).unwrap()
}

/// Ten minutes before the end of the box.
fn shortly() -> ReplyTerms {
    terms("2026-09-01T12:50:00.5Z")
}

#[test]
fn a_box_is_kept_as_by_the_command() {
    let state = box_reply_state(&box_link(), Some(&box_job()), &shortly());
    let [offer] = &state.offers[..] else { panic!("{state:?}") };
    assert_eq!(
        (offer.choice.as_str(), &*offer.label),
        ("keep-3h", "Keep it for 3 hours (until Tue 1 Sep 2026, 17:50 CEST)")
    );
    let request = ExtendRequest {
        at: time("2026-09-01T12:50:00Z"),
        until: time("2026-09-01T15:50:00Z"),
        by: Some("a link".to_owned()),
    };
    assert_eq!(offer.step, ReplyStep::ExtendBox { job: box_job().job, request });
    let link = LinkDocument::Box(box_link());
    let shown = question_page(&token(), &link, &state, &shortly());
    assert!(
        shown.contains("curfew box extend vision/my-box 3h") && shown.contains("15:00 CEST at the latest"),
        "{shown}"
    );
    let done = result_page(&link, offer, &shortly());
    assert!(done.contains("It reserves the cost first") && done.contains("curfew box down vision/my-box"), "{done}");
}

#[test]
fn a_box_that_cannot_be_kept_is_offered_nothing() {
    let check = |link: &BoxLink, change: &dyn Fn(&mut Job), terms: &ReplyTerms, says: &str| {
        let mut job = box_job();
        change(&mut job);
        let state = box_reply_state(link, Some(&job), terms);
        assert!(state.offers.is_empty() && state.situation.contains(says), "{says}: {state:?}");
    };
    let (link, now) = (box_link(), shortly());
    let named = |job: &str, name: &str| {
        let ending = EndingBox { job: job.to_owned(), name: name.to_owned(), ..box_link().ending };
        BoxLink { ending, ..box_link() }
    };
    check(&named("vision/my-box-99999999", "vision/my-box"), &|_| {}, &now, "Nothing is known of it");
    check(&named("vision/my-box-0123abcd", "nlp/my-box"), &|_| {}, &now, "Nothing is known of it");
    check(&named("../my-box", "vision/my-box"), &|_| {}, &now, "Nothing is known of it");
    check(&link, &|job| job.gpu_box = None, &now, "Nothing is known of it");
    assert!(box_reply_state(&link, None, &now).situation.contains("curfew box up vision/my-box"));
    let over = r#"{"state": "ended", "of": {"result": "cancelled", "why": "", "at": "2026-09-01T12:40:00Z", "machine": null, "released": true,
        "closed": true}}"#;
    check(
        &link,
        &|job| job.phase = serde_json::from_str(over).unwrap(),
        &now,
        "It went down at Tue 1 Sep 2026, 14:40 CEST.",
    );
    check(&link, &|job| job.phase = Phase::Submitted, &now, "It has no machine at the moment");
    check(&link, &|_| {}, &terms("2026-09-01T13:00:00Z"), "has passed");
    check(&link, &|_| {}, &ReplyTerms { mode: Mode::Observe, ..shortly() }, "observe mode");
    let ends_at = |job: &mut Job, at: &str| {
        let Phase::Running(machine) = &mut job.phase else { panic!("it runs") };
        machine.ends_at = time(at);
    };
    check(&link, &|job| ends_at(job, "2026-09-01T15:54:00Z"), &now, "its machine ends at Tue 1 Sep 2026, 17:49 CEST");
    let kept = |job: &mut Job, until: &str| {
        let gpu_box = job.gpu_box.as_mut().unwrap();
        (gpu_box.soft_end, gpu_box.kept_until) = (time(until), time(until));
    };
    check(&link, &|job| kept(job, "2026-09-01T16:00:00Z"), &now, "and longer already");
}
