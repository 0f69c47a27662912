use model::fixture::{InstanceBuilder, endpoint, instance, notebook, reply_link, time, volume};
use model::reply_link::{ReplyToken, TOKEN_BYTES};
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
    let shown = question_page(&token(), &link, &state, &noon());
    assert!(shown.contains("Lost for good by it: 250 GB of local disk."), "{shown}");
    let action = format!("<form method=\"post\" action=\"/r/{}/keep-day\">", token().as_str());
    assert!(shown.contains(&action), "{shown}");
    let done = result_page(&link, &state.offers[0]);
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
        for page in [question_page(&token(), &link, &state, &noon()), result_page(&link, &state.offers[0])] {
            prop_assert!(!page.contains("<script") && !page.contains("<img"), "{page}");
            prop_assert_eq!(page.matches("<form").count() % 3, 0);
        }
    }
}
