//! What the subject and the first line say first.

use model::mark::AnnouncedAction;
use model::mode::Mode;
use model::rule::{ResourceAction, Rule};
use plan::report::FailedPart;
use proptest::prelude::*;

use super::*;

/// An idle machine that the next run announces.
fn announced(id: &str, builder: InstanceBuilder) -> (Step, StepOutcome) {
    planned(builder.id(id).tag("curfew:local-disk", "expendable"), &idle(), ENFORCED).steps.remove(0)
}

fn report(steps: Vec<(Step, StepOutcome)>) -> Report {
    Report { steps, ..planned(instance(), &busy(), ENFORCED) }
}

fn stopped(id: &str) -> (Step, StepOutcome) {
    done(instance().id(id).tag(MARKED, DUE), &idle(), ENFORCED).steps.remove(0)
}

fn llama() -> InstanceBuilder {
    let p5 = instance().of_type("p5.48xlarge").instance_storage(30_400);
    p5.tag("Name", "llama-ft").tag("Team", "nlp")
}

/// The subject and the first line.
fn head(report: &Report) -> String {
    let Message { subject, body, .. } = message(report);
    format!("{subject}\n{}", body.lines().next().unwrap_or_default())
}

#[test]
fn what_can_still_be_prevented_comes_first_and_of_that_the_dearest() {
    let cheap_and_soon = announced("i-0aaa", instance());
    let mut unpriced = announced("i-0bbb", instance());
    unpriced.0.saves = None;
    let mut dear = announced("i-0ccc", instance().tag("Name", "llama ft").instance_storage(7600));
    dear.0.saves = dear
        .0
        .saves
        .map(|quote| billing::price::Quote { rate: model::money::Rate::from_usd_micros_per_hour(55_040_000), ..quote });
    let refused = StepOutcome::with(OutcomeKind::Failed, "UnauthorizedOperation");
    let failed = with(planned(instance().id("i-0ddd").tag(MARKED, DUE), &idle(), ENFORCED), &refused).steps.remove(0);
    let all = report(vec![stopped("i-0eee"), cheap_and_soon, unpriced, dear, failed]);
    assert_snapshot!(head(&all), @r#"
    Curfew: "llama ft" (g5.xlarge, vision) stops 13:00 UTC, loses 7.6 TB scratch, $55/h (+4 more)
    Will lose: the NVMe scratch of i-0ccc (7600 GB). Curfew will stop i-0ccc (g5.xlarge "llama ft") of team vision at 2026-09-01 13:00 UTC: $55.04/h; 4 more below.
    "#);
    let body = message(&all).body;
    let order =
        ["i-0ccc (", "i-0aaa (", "i-0bbb (", "i-0ddd (", "i-0eee ("].map(|id| body.rfind(&format!("\n{id}")).unwrap());
    assert!(order.is_sorted(), "{body}");
    assert_eq!(message(&all).severity, "error");
}

#[test]
fn a_real_machine_fits_the_subject_and_the_first_line() {
    let one = planned(llama().id("i-07cd1234567890abc").tag("curfew:local-disk", "expendable"), &idle(), ENFORCED);
    assert_snapshot!(head(&one), @r#"
    Curfew: llama-ft (p5.48xlarge, nlp) stops 13:00 UTC, loses 30 TB scratch, $55/h
    Will lose: 30 TB NVMe scratch. Curfew will stop i-07cd1234567890abc (p5.48xlarge "llama-ft") of team nlp at 2026-09-01 13:00 UTC: $55.04/h.
    "#);
    let berlin = "mode = \"enforce\"\n[account]\ntime_zone = \"Europe/Berlin\"\n";
    assert_snapshot!(head(&planned(llama().id("i-07cd1234567890abc").tag("curfew:local-disk", "expendable"), &idle(), berlin)), @r#"
    Curfew: llama-ft (p5.48xlarge, nlp) stops 13:00 UTC (15:00 CEST), loses 30 TB scratch, $55/h
    Will lose: 30 TB NVMe scratch. Curfew will stop i-07cd1234567890abc (p5.48xlarge "llama-ft") of team nlp at 2026-09-01 13:00 UTC (15:00 CEST): $55.04/h.
    "#);
    let observed = planned(llama().id("i-07cd1234567890abc").tag("curfew:local-disk", "expendable"), &idle(), "");
    assert_snapshot!(head(&observed), @r#"
    Curfew: llama-ft (p5.48xlarge, nlp) would stop 13:00 UTC, lose 30 TB scratch, $55/h
    Would lose: 30 TB NVMe scratch. Curfew would stop i-07cd1234567890abc (p5.48xlarge "llama-ft") of team nlp at 2026-09-01 13:00 UTC: $55.04/h.
    "#);
}

#[test]
fn where_nothing_can_be_prevented_the_gravest_outcome_comes_first() {
    assert_snapshot!(head(&report(vec![stopped("i-0aaa"), stopped("i-0bbb")])), @"
    Curfew stopped 2 instances (vision), $2.01/h
    Curfew stopped 2 instances of team vision at 2026-09-01 12:00 UTC: $2.01/h.
    ");
    let scratch = instance().id("i-0ccc").instance_storage(250).tag("curfew:local-disk", "expendable");
    let scratch = done(scratch.tag(MARKED, DUE), &idle(), ENFORCED).steps.remove(0);
    assert_snapshot!(head(&report(vec![scratch.clone()])), @"
    Curfew stopped i-0ccc (g5.xlarge, vision), lost 250 GB scratch, $1.01/h
    Lost: the NVMe scratch of i-0ccc (250 GB). Curfew stopped i-0ccc (g5.xlarge) of team vision at 2026-09-01 12:00 UTC: $1.01/h.
    ");
    assert_snapshot!(head(&report(vec![stopped("i-0aaa"), scratch])), @"
    Curfew stopped 2 instances (vision), lost data of 1, $2.01/h
    Lost: the NVMe scratch of i-0ccc (250 GB). Curfew stopped 2 instances of team vision at 2026-09-01 12:00 UTC: $2.01/h.
    ");
}

#[test]
fn a_crowded_first_line_keeps_the_loss_of_its_lead() {
    let doomed = |id: &str, scratch| instance().id(id).instance_storage(scratch).tag("curfew:local-disk", "expendable");
    let ids = ["i-07cd1234567890aaa", "i-07cd1234567890bbb", "i-07cd1234567890ccc"];
    let mut steps: Vec<_> = ids[..2].iter().map(|id| announced(id, doomed(id, 30_400))).collect();
    steps.extend(done(doomed(ids[2], 250).tag(MARKED, DUE), &idle(), ENFORCED).steps);
    let berlin = jiff::tz::TimeZone::get("Europe/Berlin").unwrap();
    let body = message(&Report { time_zone: berlin, ..report(steps) }).body;
    assert_snapshot!(body.lines().take(2).collect::<Vec<_>>().join("\n"), @"
    Will lose: 30 TB NVMe scratch, and 1 more. Curfew will stop i-07cd1234567890aaa of team vision at 2026-09-01 13:00 UTC (15:00 CEST): $1.01/h; 2 more below.
    Will lose: the NVMe scratch of i-07cd1234567890aaa (30400 GB), the NVMe scratch of i-07cd1234567890bbb (30400 GB). Lost: the NVMe scratch of i-07cd1234567890ccc (250 GB).
    ");
}

#[test]
fn the_first_line_has_the_earliest_deadline_of_all_rules() {
    let (mut step, outcome) = announced("i-0abc", instance());
    let Action::Instance(_, InstanceAction::Announce(Announcement::Mark(actions))) = &mut step.action else {
        panic!("{step:?}")
    };
    let at = |deadline| AnnouncedAction {
        ending: ResourceAction::Stop,
        mode: Mode::Enforce,
        at: time(NOW),
        deadline: time(deadline),
    };
    actions.insert(Rule::Untagged, at("2026-09-01T12:30:00Z"));
    // It is due, and waits for approval.
    actions.insert(Rule::Lifetime, at("2026-09-01T11:00:00Z"));
    let both = report(vec![(step, outcome)]);
    assert_snapshot!(head(&both), @"
    Curfew: i-0abc (g5.xlarge, vision) stops 12:30 UTC, $1.01/h
    Curfew will stop i-0abc (g5.xlarge) of team vision at 2026-09-01 12:30 UTC: $1.01/h.
    ");
    let text = "Announced before (untagged): it will be stopped at 2026-09-01T12:30:00Z.";
    assert!(message(&both).body.contains(text), "{}", message(&both).body);
}

#[test]
fn hours_that_lose_nothing_are_routine_and_come_last() {
    let evening = || instance().id("i-0aaa").tag("curfew:hours", "Mon-Fri 08:00-12:15 UTC");
    let routine = planned(evening(), &busy(), ENFORCED);
    check(&routine, "info", &["It will be stopped at 2026-09-01T12:15:00Z", "Keep it: curfew keep i-0aaa 7d"]);
    let cheap = planned(instance().id("i-0bbb"), &idle(), ENFORCED);
    let both = Report { steps: routine.steps.iter().chain(&cheap.steps).cloned().collect(), ..cheap };
    let body = message(&both).body;
    assert!(body.find("\ni-0bbb (") < body.find("\ni-0aaa ("), "{body}");
    assert_eq!(message(&both).severity, "warning");
    let scratch = planned(evening().instance_storage(250).tag("curfew:local-disk", "expendable"), &busy(), ENFORCED);
    check(&scratch, "warning", &["Will lose: the NVMe scratch of i-0aaa (250 GB)."]);
    // Curfew cannot do what its owner asked for.
    let kept = planned(evening().root_on_instance_storage(), &busy(), ENFORCED);
    let kept = with(kept, &StepOutcome::from_kind(OutcomeKind::Done));
    check(&kept, "warning", &["Curfew only notifies"]);
    let night = || {
        let started = instance().tag("curfew:hours", "Mon-Fri 08:00-20:00 UTC");
        started.state(InstanceState::Stopped).tag(STOPPED, "hours 2026-08-31T20:00:00Z")
    };
    assert_eq!(message(&done(night(), &unknown(), ENFORCED)).severity, "info");
    let refused = StepOutcome::with(OutcomeKind::Failed, "InsufficientInstanceCapacity");
    assert_eq!(message(&with(planned(night(), &unknown(), ENFORCED), &refused)).severity, "error");
}

#[test]
fn a_subject_that_is_too_long_leaves_out_whole_statements() {
    let long = |characters: usize| {
        let name = "n".repeat(characters);
        let machine = llama().tag("Name", &name).tag("Team", &name).tag("curfew:local-disk", "expendable");
        message(&planned(machine, &idle(), ENFORCED)).subject
    };
    assert_snapshot!(long(12), @"Curfew: nnnnnnnnnnnn (p5.48xlarge, nnnnnnnnnnnn) stops 13:00 UTC, loses 30 TB scratch, $55/h");
    assert_snapshot!(long(25), @r#"Curfew: "nnnnnnnnnnnnnnnnnnnn.." ("nnnnnnnnnn..") stops 13:00 UTC, loses 30 TB scratch, $55/h"#);
    assert_snapshot!(long(250), @r#"Curfew: "nnnnnnnnnnnnnnnnnnnn.." ("nnnnnnnnnn..") stops 13:00 UTC, loses 30 TB scratch, $55/h"#);
    let hostile = llama().tag("Name", "x) is fine\nBcc: a").tag("Team", "Bildverständnis");
    assert_snapshot!(message(&planned(hostile.tag("curfew:local-disk", "expendable"), &idle(), ENFORCED)).subject, @r#"Curfew: "x) is fine Bcc: a" (Bildverst?ndnis) stops 13:00 UTC, loses 30 TB scratch, $55/h"#);
}

proptest! {
    #[test]
    fn any_name_and_team_make_a_subject_and_a_first_line(name in any::<String>(), team in any::<String>()) {
        let machine = llama().tag("Name", &name).tag("Team", &format!("a{team}")).tag("curfew:local-disk", "expendable");
        let subject = message(&planned(machine, &idle(), ENFORCED)).subject;
        prop_assert!(subject.len() < 100 && subject.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' '), "{subject}");
        prop_assert!(subject.ends_with(" stops 13:00 UTC, loses 30 TB scratch, $55/h"), "{subject}");
    }
}

#[test]
fn each_part_of_a_step_that_fails_has_its_own_headline() {
    let headline = |part| {
        let failed = StepOutcome::failed(part, "UnauthorizedOperation");
        first_line(&with(planned(instance().tag(MARKED, DUE), &idle(), ENFORCED), &failed))
    };
    assert_snapshot!(headline(FailedPart::Call), @"Curfew could not stop i-0abc (g5.xlarge) of team vision at 2026-09-01 12:00 UTC: $1.01/h.");
    assert_snapshot!(headline(FailedPart::Check), @"Curfew did not stop i-0abc (g5.xlarge) of team vision because the check before it failed at 2026-09-01 12:00 UTC: $1.01/h.");
    assert_snapshot!(headline(FailedPart::Label), @"Curfew did not stop i-0abc (g5.xlarge) of team vision because the label before it failed at 2026-09-01 12:00 UTC: $1.01/h.");
    assert_snapshot!(headline(FailedPart::Answer), @"AWS did not answer when Curfew wanted to stop i-0abc (g5.xlarge) of team vision at 2026-09-01 12:00 UTC: $1.01/h.");
    assert_snapshot!(headline(FailedPart::Bug), @"A bug in Curfew kept it from its plan to stop i-0abc (g5.xlarge) of team vision at 2026-09-01 12:00 UTC: $1.01/h.");
}

#[test]
fn each_finding_has_its_own_headline() {
    let headline = |kind| headline::finding_headline(&planned(instance(), &idle(), ENFORCED).steps[0].0.target, kind);
    let kinds = [
        plan::FindingKind::Unreadable,
        plan::FindingKind::Bug,
        plan::FindingKind::ForeignOwned,
        plan::FindingKind::Disowned,
        plan::FindingKind::UsageUnknown,
        plan::FindingKind::StartFailed,
        plan::FindingKind::OnStoppedInstance,
        plan::FindingKind::SnapshotFailed,
        plan::FindingKind::UnusedCapacity,
        plan::FindingKind::IdleNode,
        plan::FindingKind::RetiredFamily,
        plan::FindingKind::OnDemandTraining,
        plan::FindingKind::LowUse,
        plan::FindingKind::IdleFileSystem,
    ];
    let sentences: BTreeSet<String> = kinds.iter().map(|kind| headline(*kind).sentence.into_owned()).collect();
    assert_eq!(sentences.len(), kinds.len());
}
