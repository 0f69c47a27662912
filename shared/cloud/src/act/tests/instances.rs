use std::sync::Mutex;

use model::curfew_tags::STOPPED;
use model::fixture::untagged;
use model::instance::{Instance, InstanceState, InstanceTypeFacts};
use model::mark::{AnnouncedAction, Mark};
use model::refusal::RefusalReason;
use model::rule::{ResourceAction, Rule};
use plan::{AnnouncedActions, Evidence};

use super::*;
use crate::replay::{ReplayAnswer, ReplayedCall, ReplayedCalls, aws, instance_xml, instances_page};

const MARK: &str = "idle=stop@2026-09-01T12:00:00Z";

fn mark() -> Mark {
    Mark::earliest(announced()).unwrap()
}

fn announced() -> AnnouncedActions {
    let deadline = "2026-09-01T12:00:00Z".parse().unwrap();
    let stop = AnnouncedAction { ending: ResourceAction::Stop, mode: Mode::Enforce, at: deadline, deadline };
    let later = "2026-09-02T12:00:00Z".parse().unwrap();
    AnnouncedActions::from([(Rule::Idle, stop), (Rule::Untagged, AnnouncedAction { deadline: later, ..stop })])
}

fn stop(mark: Option<Mark>) -> InstanceAction {
    InstanceAction::Stop { mark, stopped: "idle 2026-09-01T12:00:00Z".to_owned() }
}

/// A step to enforce on i-0abc, which runs.
fn step(action: InstanceAction, tags: &[(&str, &str)]) -> Step {
    let seen = untagged().host("ip-10-0-0-1").build();
    let machine = InstanceTypeFacts { instance_storage_gb: 250, ..InstanceTypeFacts::UNKNOWN };
    let seen = Instance { tags: tags_of(tags), machine, ..seen };
    let evidence = Evidence::resolved(Rule::Idle);
    Step::bare(target("i-0abc"), Action::Instance(seen, action), evidence, Mode::Enforce)
}

/// Carries the step out where EC2 sees the instance as the step does, and every write is taken.
async fn carried_out(step: &Step) -> (StepOutcome, Vec<String>) {
    carried_out_where(step, |_| ReplayAnswer::ok("")).await
}

/// The same where writes are answered like that; what was called after the look.
async fn carried_out_where(
    step: &Step,
    write: impl Fn(&ReplayedCall) -> ReplayAnswer + Send + Sync + 'static,
) -> (StepOutcome, Vec<String>) {
    let seen = step.action.instance().unwrap();
    let tags: Vec<(String, String)> = seen.tags.clone().into_iter().collect();
    let state = if seen.state == InstanceState::Stopped { "stopped" } else { "running" };
    let (aws, calls) = aws(move |call| {
        let tags: Vec<(&str, &str)> = tags.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        match call.name.as_str() {
            "DescribeInstances" => instances_page(&[instance_xml("i-0abc", state, &tags, "")], None),
            _ => write(call),
        }
    });
    let outcome = carry_out(&aws, step, &run()).await;
    (outcome, after_the_look(&calls))
}

fn after_the_look(calls: &ReplayedCalls) -> Vec<String> {
    let said = calls.said();
    assert_eq!(said[0], "DescribeInstances InstanceId.1=i-0abc");
    said[1..].to_vec()
}

#[tokio::test]
async fn a_mark_is_one_tag() {
    let (outcome, calls) =
        carried_out(&step(Announcement::Mark(announced()).into(), &[("Team", "vision"), ("aws:x", "y")])).await;
    assert_eq!(outcome, done());
    assert_eq!(calls, ["CreateTags ResourceId.1=i-0abc Tag.1.Key=curfew:marked Tag.1.Value=".to_owned() + MARK]);
}

#[tokio::test]
async fn unmarking_removes_exactly_curfews_keys() {
    let all: &[(&str, &str)] = &[("Team", "vision"), (MARKED, "x"), (STOPPED, "y")];
    let unmark =
        |remaining, also: bool| InstanceAction::from(Announcement::Unmark { remaining, also: also.then_some(STOPPED) });
    let kept = "CreateTags ResourceId.1=i-0abc Tag.1.Key=curfew:marked Tag.1.Value=".to_owned() + MARK;
    let table = [
        (unmark(None, false), all, vec!["DeleteTags ResourceId.1=i-0abc Tag.1.Key=curfew:marked"]),
        (
            unmark(None, true),
            all,
            vec!["DeleteTags ResourceId.1=i-0abc Tag.1.Key=curfew:marked Tag.2.Key=curfew:stopped"],
        ),
        (unmark(Some(mark()), false), all, vec![&kept]),
        (unmark(Some(mark()), true), all, vec![&kept, "DeleteTags ResourceId.1=i-0abc Tag.1.Key=curfew:stopped"]),
        // DeleteTags without tags would remove all: there is no call.
        (unmark(None, true), &all[..1], vec![]),
    ];
    for (action, tags, expected) in table {
        let (outcome, calls) = carried_out(&step(action, tags)).await;
        assert_eq!((outcome, calls), (done(), expected.into_iter().map(str::to_owned).collect()));
    }
}

#[tokio::test]
async fn a_stop_leaves_its_trace_first_and_takes_the_mark_last() {
    let (outcome, calls) = carried_out(&step(stop(None), &[(MARKED, MARK)])).await;
    assert_eq!(outcome, done());
    let expected = [
        "CreateTags ResourceId.1=i-0abc Tag.1.Key=curfew:stopped Tag.1.Value=idle 2026-09-01T12:00:00Z",
        "StopInstances InstanceId.1=i-0abc",
        "DeleteTags ResourceId.1=i-0abc Tag.1.Key=curfew:marked",
    ];
    assert_eq!(calls, expected);
}

#[tokio::test]
async fn a_stop_that_was_not_announced_marks_in_the_same_call() {
    let (outcome, calls) = carried_out(&step(stop(Some(mark())), &[])).await;
    assert_eq!(outcome, done());
    assert!(calls[0].contains("Key=curfew:stopped") && calls[0].contains("Key=curfew:marked"), "{calls:?}");
    assert_eq!(calls[1], "StopInstances InstanceId.1=i-0abc");
    assert_eq!(calls[2], "DeleteTags ResourceId.1=i-0abc Tag.1.Key=curfew:marked");
}

#[tokio::test]
async fn a_mark_that_stays_does_not_undo_the_stop() {
    let refuse = |call: &ReplayedCall| match call.name.as_str() {
        "DeleteTags" => ReplayAnswer::error("UnauthorizedOperation", "No"),
        _ => ReplayAnswer::ok(""),
    };
    let (outcome, _) = carried_out_where(&step(stop(None), &[(MARKED, MARK)]), refuse).await;
    assert_eq!(outcome.kind, OutcomeKind::Done);
    let error = outcome.error.unwrap();
    assert!(error.starts_with("stopped, but the mark stayed: ec2:DeleteTags failed"), "{error}");
}

#[tokio::test]
async fn nothing_ends_without_its_trace() {
    let refuse = |_: &ReplayedCall| ReplayAnswer::error("UnauthorizedOperation", "No");
    for action in [stop(None), InstanceAction::Terminate { mark: Some(mark()) }] {
        let (outcome, calls) = carried_out_where(&step(action, &[]), refuse).await;
        assert_eq!(outcome.kind, OutcomeKind::Failed);
        assert!(outcome.error.unwrap().contains("grant ec2:CreateTags"));
        assert_eq!(calls.len(), 1, "{calls:?}");
    }
}

#[tokio::test]
async fn a_termination_marks_only_where_it_was_not_announced() {
    let (outcome, calls) = carried_out(&step(InstanceAction::Terminate { mark: None }, &[(MARKED, MARK)])).await;
    assert_eq!((outcome, calls), (done(), vec!["TerminateInstances InstanceId.1=i-0abc".to_owned()]));
    let (outcome, calls) = carried_out(&step(InstanceAction::Terminate { mark: Some(mark()) }, &[])).await;
    assert_eq!(outcome, done());
    assert_eq!(calls[0], "CreateTags ResourceId.1=i-0abc Tag.1.Key=curfew:marked Tag.1.Value=".to_owned() + MARK);
    assert_eq!(calls[1..], ["TerminateInstances InstanceId.1=i-0abc"]);
}

fn start() -> Step {
    let step = step(InstanceAction::Start, &[(STOPPED, "hours 2026-08-31T20:00:00Z")]);
    let seen = Instance { state: InstanceState::Stopped, ..step.action.instance().unwrap().clone() };
    Step { action: Action::Instance(seen, InstanceAction::Start), ..step }
}

#[tokio::test]
async fn a_start_is_one_call() {
    let (outcome, calls) = carried_out(&start()).await;
    assert_eq!((outcome, calls), (done(), vec!["StartInstances InstanceId.1=i-0abc".to_owned()]));
}

#[tokio::test]
async fn a_start_without_capacity_is_tried_again() {
    let none = |_: &ReplayedCall| ReplayAnswer::error("InsufficientInstanceCapacity", "We have none");
    let (outcome, _) = carried_out_where(&start(), none).await;
    let said = "ec2:StartInstances failed in us-east-1: InsufficientInstanceCapacity: We have none; every run within its \
                hours tries again";
    assert_eq!(outcome, StepOutcome::with(OutcomeKind::Failed, said));
}

#[tokio::test]
async fn a_state_that_changed_under_the_write_is_a_change() {
    let wrong = |call: &ReplayedCall| match call.name.as_str() {
        "StopInstances" => ReplayAnswer::error("IncorrectInstanceState", "It is 'pending'"),
        _ => ReplayAnswer::ok(""),
    };
    let (outcome, _) = carried_out_where(&step(stop(None), &[]), wrong).await;
    assert_eq!(outcome.kind, OutcomeKind::Changed);
    assert!(outcome.error.unwrap().contains("It is 'pending'"));
}

#[tokio::test]
async fn protection_against_stopping_is_a_failure_in_ec2s_words() {
    let refuse = |call: &ReplayedCall| match call.name.as_str() {
        "StopInstances" => {
            ReplayAnswer::error("OperationNotPermitted", "Modify its 'disableApiStop' attribute and try again.")
        }
        _ => ReplayAnswer::ok(""),
    };
    let (outcome, _) = carried_out_where(&step(stop(None), &[]), refuse).await;
    assert_eq!((outcome.kind, outcome.refusal), (OutcomeKind::Failed, Some(RefusalReason::StopProtection)));
    let error = outcome.error.unwrap();
    assert!(
        error.contains("Modify its 'disableApiStop' attribute and try again; its stop protection is on"),
        "{error}"
    );
}

/// Carries out a step whose write is answered like that, of an instance that is in this state by then.
async fn after_a_write(step: &Step, write: ReplayAnswer, by_then: &str) -> (StepOutcome, Vec<String>) {
    let answers = Mutex::new(Some(write));
    let tags: Vec<(String, String)> = step.action.instance().unwrap().tags.clone().into_iter().collect();
    let by_then = by_then.to_owned();
    let (aws, calls) = aws(move |call| {
        let tags: Vec<(&str, &str)> = tags.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        let before = if by_then == "running" { "stopped" } else { "running" };
        match call.name.as_str() {
            "DescribeInstances" => {
                let state = if answers.lock().unwrap().is_some() { before } else { &by_then };
                instances_page(&[instance_xml("i-0abc", state, &tags, "")], None)
            }
            "CreateTags" | "DeleteTags" => ReplayAnswer::ok(""),
            _ => answers.lock().unwrap().take().unwrap(),
        }
    });
    let outcome = carry_out(&aws, step, &run()).await;
    (outcome, calls.names())
}

#[tokio::test]
async fn what_was_carried_out_and_not_answered_is_done() {
    let nothing = || ReplayAnswer::Raw(200, Vec::new());
    let in_trouble = || {
        ReplayAnswer::Raw(
            500,
            b"<Response><Errors><Error><Code>InternalError</Code></Error></Errors></Response>".to_vec(),
        )
    };
    let table = [
        (step(stop(None), &[(MARKED, MARK)]), "stopped"),
        (step(stop(None), &[(MARKED, MARK)]), "stopping"),
        (step(InstanceAction::Terminate { mark: None }, &[(MARKED, MARK)]), "shutting-down"),
        (start(), "running"),
    ];
    for (step, by_then) in table {
        for answer in [nothing(), in_trouble()] {
            let (outcome, calls) = after_a_write(&step, answer, by_then).await;
            assert_eq!(outcome, done(), "{by_then}");
            let marked_stop = step.action.ending() == Some(ResourceAction::Stop);
            assert_eq!(
                calls.last().unwrap() == "DeleteTags",
                marked_stop,
                "the mark goes as after any stop: {calls:?}"
            );
        }
    }
}

#[tokio::test]
async fn what_was_not_answered_and_not_carried_out_has_failed() {
    let (outcome, calls) = after_a_write(&step(stop(None), &[]), ReplayAnswer::Raw(200, Vec::new()), "pending").await;
    assert_eq!(outcome.kind, OutcomeKind::Failed);
    assert_eq!(calls, ["DescribeInstances", "CreateTags", "StopInstances", "DescribeInstances"]);
    let refused = ReplayAnswer::error("UnauthorizedOperation", "No");
    let (outcome, calls) = after_a_write(&step(stop(None), &[]), refused, "stopped").await;
    assert_eq!(outcome.kind, OutcomeKind::Failed, "somebody else has stopped it");
    assert_eq!(calls, ["DescribeInstances", "CreateTags", "StopInstances"]);
}

#[tokio::test]
async fn observing_looks_and_writes_nothing() {
    let actions = [
        Announcement::Mark(announced()).into(),
        Announcement::Unmark { remaining: None, also: Some(STOPPED) }.into(),
        stop(Some(mark())),
        InstanceAction::Terminate { mark: None },
    ];
    for action in actions {
        let step = Step { mode: Mode::Observe, ..step(action, &[(MARKED, MARK), (STOPPED, "x")]) };
        let (outcome, calls) = carried_out(&step).await;
        assert_eq!((outcome, calls), (StepOutcome::from_kind(OutcomeKind::Observed), Vec::new()));
    }
    let (outcome, calls) = carried_out(&Step { mode: Mode::Observe, ..start() }).await;
    assert_eq!((outcome, calls), (StepOutcome::from_kind(OutcomeKind::Observed), Vec::new()));
}

#[tokio::test]
async fn what_is_only_told_calls_nothing() {
    for (mode, expected) in [(Mode::Enforce, OutcomeKind::Done), (Mode::Observe, OutcomeKind::Observed)] {
        let (aws, calls) = aws(|_| ReplayAnswer::error("Unexpected", "call"));
        let outcome = carry_out(&aws, &Step { mode, ..step(Announcement::Notify.into(), &[]) }, &run()).await;
        assert_eq!((outcome, calls.names()), (StepOutcome::from_kind(expected), Vec::new()));
    }
}

/// Carries out a stop of something that has become this since the look.
async fn stop_of_what_is_now(instances: &[String]) -> StepOutcome {
    let now: Vec<String> = instances.to_vec();
    let (aws, calls) = aws(move |_| instances_page(&now, None));
    let outcome = carry_out(&aws, &step(stop(None), &[("Team", "vision")]), &run()).await;
    assert_eq!(calls.names(), ["DescribeInstances"], "nothing is written");
    outcome
}

#[tokio::test]
async fn whatever_changed_since_the_look_is_left_alone() {
    let team = ("Team", "vision");
    let table = [
        (instance_xml("i-0abc", "stopped", &[team], ""), OutcomeKind::Changed),
        (instance_xml("i-0abc", "running", &[], ""), OutcomeKind::Changed),
        (instance_xml("i-0abc", "running", &[team, ("curfew:protected", "")], ""), OutcomeKind::Changed),
        (instance_xml("i-0abc", "running", &[team, ("aws:autoscaling:groupName", "g")], ""), OutcomeKind::Changed),
        (instance_xml("i-0abc", "running", &[team], "<instanceType>g5.2xlarge</instanceType>"), OutcomeKind::Changed),
        (instance_xml("i-0abc", "shutting-down", &[team], ""), OutcomeKind::AlreadyGone),
        (instance_xml("i-0abc", "terminated", &[team], ""), OutcomeKind::AlreadyGone),
    ];
    for (now, expected) in table {
        assert_eq!(stop_of_what_is_now(std::slice::from_ref(&now)).await, StepOutcome::from_kind(expected), "{now}");
    }
}

#[tokio::test]
async fn what_ec2_does_not_know_is_not_gone() {
    let empty = stop_of_what_is_now(&[]).await;
    let (aws, _) =
        aws(|_| ReplayAnswer::error("InvalidInstanceID.NotFound", "The instance ID 'i-0abc' does not exist"));
    let unknown = carry_out(&aws, &step(stop(None), &[]), &run()).await;
    for outcome in [empty, unknown] {
        assert_eq!(outcome.kind, OutcomeKind::Failed);
        let error = outcome.error.unwrap();
        assert!(error.contains("i-0abc") && error.ends_with("this does not mean that it is gone"), "{error}");
    }
}

#[tokio::test]
async fn a_second_look_that_is_cut_off_ends_nothing() {
    let (aws, calls) = aws(|_| {
        let instance = instance_xml("i-0abc", "running", &[], "");
        ReplayAnswer::Raw(200, format!("<DescribeInstancesResponse><reservationSet>{instance}").into())
    });
    let outcome = carry_out(&aws, &step(stop(None), &[]), &run()).await;
    assert_eq!((outcome.kind, calls.names()), (OutcomeKind::Failed, vec!["DescribeInstances".to_owned()]));
    assert!(outcome.error.unwrap().contains("the answer ends within an element"));
}
