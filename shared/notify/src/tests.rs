//! What people read, when they read it, and when they read it again.

use std::collections::{BTreeMap, BTreeSet};

use billing::budget::BudgetHolder;
use insta::assert_snapshot;
use jiff::SignedDuration;
use model::curfew_tags::{MARKED, STOPPED};
use model::id::ResourceId;
use model::instance::Instance;
use model::instance::InstanceState;
use model::notification_log::{NotificationEntry, NotificationLog, UndeliveredParagraph};
use model::observation::{Gap, Observation};
use model::usage::Usage;
use plan::report::{AuditRecord, StepOutcome};
use plan::{Action, InstanceAction};
use reaping::fixture::{InstanceBuilder, NOW, busy, enforcing, idle, instance, time, unknown, untagged};
use reaping::instances::decide;

use super::*;

const ENFORCED: &str = "mode = \"enforce\"\n";
const DUE: &str = "i-0abc idle=stop@2026-09-01T11:55:00Z";

fn home() -> Region {
    "us-east-1".into()
}

fn no_memory() -> NotificationLogs {
    NotificationLogs::from([(home(), NotificationLog::default())])
}

/// A run over one instance, before anything of its plan was done.
fn planned(of: InstanceBuilder, usage: &Usage, config: &str) -> Report {
    let instance = of.build();
    let usages = BTreeMap::from([(instance.id.clone(), usage.clone())]);
    let seen = Observation { items: vec![instance], gaps: Vec::new() };
    let policy = enforcing(config);
    let plan = decide(&seen, &usages, &no_memory(), &policy, time(NOW));
    Report::from_plan(plan, "reap-instances", "run-1".into(), time(NOW), policy.ceiling, vec![home()])
}

fn with(mut report: Report, outcome: &StepOutcome) -> Report {
    report.steps.iter_mut().for_each(|(_, before)| *before = outcome.clone());
    report
}

fn done(of: InstanceBuilder, usage: &Usage, config: &str) -> Report {
    with(planned(of, usage, config), &StepOutcome::from_kind(OutcomeKind::Done))
}

fn observed(of: InstanceBuilder, usage: &Usage, config: &str) -> Report {
    with(planned(of, usage, config), &StepOutcome::from_kind(OutcomeKind::Observed))
}

fn told(report: &Report) -> Vec<Notification> {
    notifications(report, &no_memory(), &home(), time(NOW))
}

/// The only message of a run.
fn message(report: &Report) -> Message {
    let mut messages = messages(report, &told(report), &no_memory());
    assert_eq!(messages.len(), 1, "{messages:?}");
    messages.remove(0)
}

/// The only message of a run has this severity, and says all of this.
fn check(report: &Report, severity: &str, says: &[&str]) {
    let message = message(report);
    assert_eq!(message.severity, severity, "{}", message.body);
    for what in says {
        assert!(message.body.contains(what), "`{what}` is not in:\n{}", message.body);
    }
}

fn first_line(report: &Report) -> String {
    message(report).body.lines().next().unwrap_or_default().to_owned()
}

mod words {
    use super::*;

    #[test]
    fn an_announcement_says_what_whose_how_much_until_when_and_how_to_stop_it() {
        let named = instance().tag("Name", "bench").instance_storage(250).tag("curfew:local-disk", "expendable");
        assert_snapshot!(message(&planned(named, &idle(), ENFORCED)).body, @r#"
        Data lost by these actions: the NVMe scratch of i-0abc (250 GB).

        i-0abc (g5.xlarge "bench", owner ada, us-east-1): idle from 2026-09-01T10:50:00Z to 2026-09-01T11:50:00Z: 1 GPU at 0 % at most, CPU 0.10 vCPUs, network 0.10 Mbit/s. It will be stopped at 2026-09-01T13:00:00Z. It costs $1.01/h ($734 a month; table of 2026-09-24). Keep it: curfew keep i-0abc 7d

        Run run-1 of reap-instances at 2026-09-01T12:00:00Z; its audit record is plans/2026-09-01/reap-instances/run-1.json.
        "#);
    }

    #[test]
    fn in_observe_mode_a_message_says_that_it_is_only_saying() {
        let message = message(&planned(instance(), &idle(), ""));
        assert_snapshot!(message.body, @"
        Curfew: 1 notification for team vision.
        Observe mode: Curfew only notifies, and changes nothing.

        i-0abc (g5.xlarge, owner ada, us-east-1): idle from 2026-09-01T10:50:00Z to 2026-09-01T11:50:00Z: 1 GPU at 0 % at most, CPU 0.10 vCPUs, network 0.10 Mbit/s. It would be stopped at 2026-09-01T13:00:00Z. It costs $1.01/h ($734 a month; table of 2026-09-24). Keep it: curfew keep i-0abc 7d

        Run run-1 of reap-instances at 2026-09-01T12:00:00Z; its audit record is plans/2026-09-01/reap-instances/run-1.json.
        ");
    }

    #[test]
    fn every_kind_of_step_names_the_resource_its_type_its_owner_and_its_region() {
        let marked = || instance().tag(MARKED, DUE);
        let office = || instance().tag("curfew:hours", "Mon-Fri 08:00-20:00 UTC");
        let night = office().state(InstanceState::Stopped).tag(STOPPED, "hours 2026-08-31T20:00:00Z");
        let who = ["i-0abc", "g5.xlarge", "ada", "us-east-1"];
        for report in [
            planned(instance(), &idle(), ENFORCED),
            done(marked(), &idle(), ENFORCED),
            done(marked(), &busy(), ENFORCED),
            done(instance().launched("2026-08-01T00:00:00Z"), &busy(), ENFORCED),
            done(night, &unknown(), ENFORCED),
            planned(instance(), &unknown(), ENFORCED),
            planned(instance().tag("curfew:mode", "on"), &idle(), ENFORCED),
            planned(instance().tag("eks:cluster-name", "ml"), &idle(), ENFORCED),
            with(
                planned(marked(), &idle(), ENFORCED),
                &StepOutcome::with(OutcomeKind::Failed, "UnauthorizedOperation"),
            ),
        ] {
            let severity = message(&report).severity;
            check(&report, severity, &who);
        }
    }

    #[test]
    fn what_it_costs_is_said_or_that_nobody_knows() {
        let elsewhere = || instance().region("eu-west-1");
        check(&planned(instance(), &idle(), ENFORCED), "warning", &["$1.01/h"]);
        check(&planned(elsewhere(), &idle(), ENFORCED), "warning", &["Its price is unknown"]);
        check(&planned(instance(), &unknown(), ENFORCED), "info", &["$1.01/h", "nvidia_gpu"]);
        check(&done(instance().tag(MARKED, DUE), &idle(), ENFORCED), "action", &["$1.01/h"]);
        check(&done(instance().launched("2026-08-01T00:00:00Z"), &busy(), ENFORCED), "warning", &["$1.01/h"]);
    }

    #[test]
    fn an_announcement_gives_every_deadline_and_every_reason() {
        let both = "[untagged]\nmode = \"enforce\"";
        let report = planned(untagged().tag("Team", "vision"), &idle(), both);
        check(&report, "warning", &["2026-09-01T13:00:00Z", "2026-09-02T12:00:00Z", "Owner", "idle", "no owner"]);
    }

    #[test]
    fn a_stop_says_how_to_undo_it() {
        let undo = "aws ec2 start-instances --region us-east-1 --instance-ids i-0abc";
        check(&done(instance().tag(MARKED, DUE), &idle(), ENFORCED), "action", &["stopped", undo]);
    }

    #[test]
    fn what_is_called_off_says_what_had_been_announced() {
        check(
            &done(instance().tag(MARKED, DUE), &busy(), ENFORCED),
            "info",
            &["called off", "idle", "2026-09-01T11:55:00Z"],
        );
    }

    #[test]
    fn a_failure_says_why_and_that_it_is_tried_again() {
        let failed = StepOutcome::with(OutcomeKind::Failed, "UnauthorizedOperation: ec2:StopInstances");
        let report = with(planned(instance().tag(MARKED, DUE), &idle(), ENFORCED), &failed);
        check(&report, "error", &["could not stop", "UnauthorizedOperation: ec2:StopInstances", "tries again"]);
        let applied = Report { of_chosen_only: true, ..report };
        check(&applied, "error", &["could not stop it: UnauthorizedOperation: ec2:StopInstances"]);
    }

    #[test]
    fn what_the_limits_hold_names_the_limit() {
        let mut report =
            planned(instance().tag(MARKED, DUE), &idle(), "mode = \"enforce\"\n[limits]\nactions_max = 0\n");
        let held = report.steps[0].0.held.unwrap().to_string();
        report = with(report, &StepOutcome::with(OutcomeKind::NotReached, held));
        check(
            &report,
            "error",
            &["actions_max = 0", "It was not stopped: 1 of 1 instances", "a person must approve that (`curfew plans`)"],
        );
        assert_eq!(told(&report)[0].loses, None);
    }

    #[test]
    fn a_morning_that_begins_with_a_failed_start_is_an_error() {
        let night = || {
            instance()
                .tag("curfew:hours", "Mon-Fri 08:00-20:00 UTC")
                .tag(STOPPED, "hours 2026-08-31T20:00:00Z")
                .state(InstanceState::Stopped)
        };
        check(&done(night(), &unknown(), ""), "action", &["started", "Mon-Fri 08:00-20:00 UTC"]);
        let mut again = done(night(), &unknown(), "");
        let failed = Instance { state_reason: Some("Client.InternalError".to_owned()), ..night().build() };
        again.steps[0].0.action = Action::Instance(failed, InstanceAction::Start);
        check(&again, "error", &["Client.InternalError"]);
        let refused = StepOutcome::with(OutcomeKind::Failed, "InsufficientInstanceCapacity");
        check(&with(planned(night(), &unknown(), ""), &refused), "error", &["could not start", "InsufficientInstance"]);
    }

    #[test]
    fn an_unreadable_tag_is_quoted_with_what_is_legal() {
        let typo = planned(instance().tag("curfew:idle-after", "soon"), &idle(), ENFORCED);
        check(&typo, "warning", &["curfew:idle-after=soon", "30m"]);
    }

    #[test]
    fn somebody_elses_is_named_by_its_controller() {
        let member = planned(instance().tag("aws:autoscaling:groupName", "workers"), &idle(), ENFORCED);
        check(&member, "info", &["Auto Scaling group (workers)", "idle", "Curfew skips it"]);
    }
}

mod losses {
    use super::*;

    fn scratch() -> InstanceBuilder {
        instance().instance_storage(250).tag("curfew:local-disk", "expendable")
    }

    #[test]
    fn nvme_scratch_stands_in_the_first_line() {
        assert_snapshot!(first_line(&planned(scratch(), &idle(), ENFORCED)), @"Data lost by these actions: the NVMe scratch of i-0abc (250 GB).");
        assert_snapshot!(first_line(&done(scratch().tag(MARKED, DUE), &idle(), ENFORCED)), @"Data lost by these actions: the NVMe scratch of i-0abc (250 GB).");
        assert_snapshot!(first_line(&observed(scratch().tag(MARKED, DUE), &idle(), "")), @"Data that enforce mode would lose: the NVMe scratch of i-0abc (250 GB).");
    }

    #[test]
    fn what_is_terminated_loses_its_root_volume() {
        let doomed = instance().tag("curfew:on-idle", "terminate");
        assert_snapshot!(first_line(&planned(doomed, &idle(), ENFORCED)), @"Data lost by these actions: i-0abc with its root volume.");
    }

    #[test]
    fn where_nothing_is_lost_nothing_is_said_to_be() {
        assert!(!first_line(&planned(instance(), &idle(), ENFORCED)).contains("ost"));
        assert!(!first_line(&done(scratch().tag(MARKED, DUE), &busy(), ENFORCED)).contains("ost"));
        let failed = StepOutcome::with(OutcomeKind::Failed, "UnauthorizedOperation");
        let not_stopped = with(planned(scratch().tag(MARKED, DUE), &idle(), ENFORCED), &failed);
        assert!(!first_line(&not_stopped).contains("ost"));
    }
}

mod sizes {
    use super::*;

    /// An event of so many bytes.
    fn event(team: &str, bytes: usize, loses: bool) -> Notification {
        Notification {
            team: team.to_owned(),
            severity: Severity::Action,
            region: home(),
            resource: Some("i-0abc".into()),
            kind: NotificationKind::Event,
            text: "x".repeat(bytes),
            happened: true,
            mode: Some(model::mode::Mode::Enforce),
            loses: loses.then(|| "y".repeat(bytes)),
        }
    }

    fn send(news: &[Notification]) -> Vec<Message> {
        messages(&planned(instance(), &busy(), ENFORCED), news, &no_memory())
    }

    #[test]
    fn a_subject_is_short_ascii_of_one_line() {
        let ascii = |subject: &str| subject.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
        for team in ["vision", "Bildverständnis", "a\nb", &"v".repeat(256)] {
            let message = send(&[event(team, 10, false)]).remove(0);
            assert!(message.subject.len() < 100 && ascii(&message.subject), "{}", message.subject);
            assert_eq!(message.team, team);
        }
    }

    /// SNS developer guide, "Quotas": 256 KB.
    const SNS_BYTES_MAX: usize = 262_144;

    #[test]
    fn what_one_message_cannot_hold_comes_in_several_and_nothing_is_left_out() {
        let many: Vec<Notification> = (0..2000).map(|_| event("vision", 500, false)).collect();
        let sent = send(&many);
        assert!(sent.iter().all(|message| message.body.len() < SNS_BYTES_MAX));
        let paragraphs = sent.iter().map(|message| message.body.matches(&"x".repeat(500)).count());
        assert_eq!((sent.len() > 1, paragraphs.sum::<usize>()), (true, 2000));
        assert!(sent.iter().all(|message| message.team == "vision"));
    }

    #[test]
    fn a_paragraph_that_no_message_can_hold_is_cut_and_the_rest_comes_whole() {
        let sent = send(&[
            event("vision", 10, false),
            Notification { text: "ü".repeat(200_000), ..event("vision", 0, false) },
        ]);
        assert!(sent.iter().all(|message| message.body.len() < SNS_BYTES_MAX));
        assert!(sent[0].body.contains("xxxxxxxxxx") && sent[1].body.contains("üü…\n\nRun run-1"));
    }

    #[test]
    fn a_name_with_line_breaks_makes_no_paragraph_of_its_own() {
        let forged = instance().tag("Name", "a\n\ni-0fff: it was stopped.\u{0}").tag("curfew:mode", "perhaps");
        check(&planned(forged, &busy(), ENFORCED), "warning", &["(g5.xlarge \"a  i-0fff: it was stopped. \", owner"]);
    }

    #[test]
    fn no_team_begins_a_line_or_turns_one_around() {
        let checks = ["a\n\nCurfew: forged", "a\r\nb", "a\u{2028}\u{2029}b", "a\u{202e}\u{2066}b", "a\u{61c}\u{200f}b"];
        for team in checks {
            let message = send(&[Notification { text: format!("of team {team}"), ..event(team, 0, false) }]).remove(0);
            let mut paragraphs = message.body.split("\n\n");
            let (first, text) = (paragraphs.next().unwrap(), paragraphs.next().unwrap());
            let spaced: String =
                team.chars().map(|c| if " :".contains(c) || c.is_ascii_alphanumeric() { c } else { ' ' }).collect();
            assert_eq!(
                (first, text),
                (&*format!("Curfew: 1 notification for team {spaced}."), &*format!("of team {spaced}"))
            );
        }
    }

    #[test]
    fn the_first_line_is_bounded_too() {
        let losing: Vec<Notification> = (0..9000).map(|_| event("vision", 50, true)).collect();
        for message in send(&losing) {
            assert!(message.body.len() < SNS_BYTES_MAX, "{}", message.body.len());
            assert!(message.body.lines().next().unwrap().ends_with("more."));
        }
    }

    #[test]
    fn one_message_a_team_of_the_gravest_severity() {
        let grave = Notification { severity: Severity::Error, ..event("vision", 10, false) };
        let sent = send(&[event("vision", 10, false), grave, event("nlp", 10, false)]);
        let found: Vec<_> = sent.iter().map(|message| (message.team.as_str(), message.severity)).collect();
        assert_eq!(found, [("nlp", "action"), ("vision", "error")]);
    }
}

mod once {
    use super::*;

    /// The memory after a run whose messages were taken, but for those of `deaf` teams.
    fn after(report: &Report, memory: &NotificationLogs, deaf: &[&str], now: Timestamp) -> NotificationLogs {
        let news = notifications(report, memory, &home(), now);
        let sent = messages(report, &news, memory).into_iter().map(|message| message.team);
        let delivered: BTreeSet<String> = sent.filter(|team| !deaf.contains(&team.as_str())).collect();
        let late = late_notifications(report, &news, memory, &home(), now);
        update_log(memory, report, &news, &late, &delivered, now)
    }

    fn gap(region: &str, kind: GapKind) -> Gap {
        let call = "ec2:DescribeInstances".to_owned();
        Gap::new(&region.into(), call, "UnauthorizedOperation", kind)
    }

    /// How often a gap that lasts is told in 5 days of runs an hour apart.
    fn times_told(gap: &Gap) -> usize {
        let mut memory = no_memory();
        let mut times = 0;
        for hour in 0..120 {
            let now = time(NOW) + SignedDuration::from_hours(hour);
            let report = Report { gaps: vec![gap.clone()], ..planned(instance(), &busy(), "") };
            times += notifications(&report, &memory, &home(), now).len();
            memory = after(&report, &memory, &[], now);
        }
        times
    }

    #[test]
    fn a_gap_is_told_once_a_day_and_a_forbidden_region_once_ever() {
        assert_eq!(times_told(&gap("eu-west-1", GapKind::Region)), 5);
        assert_eq!(times_told(&gap("us-east-1", GapKind::Part)), 5);
        assert_eq!(times_told(&gap("eu-west-1", GapKind::ForbiddenRegion)), 1);
    }

    #[test]
    fn a_gap_names_region_call_and_answer_and_goes_to_those_without_a_team() {
        let report = Report { gaps: vec![gap("eu-west-1", GapKind::Region)], ..planned(instance(), &busy(), "") };
        check(&report, "error", &["eu-west-1", "ec2:DescribeInstances", "UnauthorizedOperation"]);
        assert_eq!(message(&report).team, NO_TEAM);
    }

    #[test]
    fn a_refused_configuration_is_told_once_a_day_and_another_refusal_at_once() {
        let tell = |memory: &NotificationLogs, refusal: &str, now: &str| {
            refused_config_notification(&home(), refusal, memory, time(now)).is_some()
        };
        let mut memory = no_memory();
        let topic = NotificationKey::named("configuration");
        assert!(tell(&memory, "line 3", NOW));
        let told = NotificationEntry { at: time(NOW), what: "line 3".to_owned() };
        memory.get_mut("us-east-1").unwrap().gaps.insert(topic, told);
        assert!(!tell(&memory, "line 3", "2026-09-02T11:59:00Z"));
        assert!(tell(&memory, "line 3", "2026-09-02T12:00:00Z"));
        assert!(tell(&memory, "line 4", NOW));
    }

    #[test]
    fn an_event_that_was_not_taken_is_owed_until_it_is() {
        let stopped = done(instance().tag(MARKED, DUE), &idle(), ENFORCED);
        let memory = after(&stopped, &no_memory(), &["vision"], time(NOW));
        let owed = &memory[&home()].undelivered;
        assert_eq!(
            owed,
            &[UndeliveredParagraph {
                team: "vision".to_owned(),
                severity: Severity::Action,
                text: told(&stopped)[0].text.clone()
            }]
        );
        let nothing_new = planned(instance(), &busy(), ENFORCED);
        let sent = messages(&nothing_new, &[], &memory);
        assert!(sent[0].body.contains("It was stopped"), "{}", sent[0].body);
        let still_deaf = after(&nothing_new, &memory, &["vision"], time(NOW));
        assert_eq!(&still_deaf[&home()].undelivered, owed);
        assert_eq!(after(&nothing_new, &memory, &[], time(NOW))[&home()].undelivered, []);
    }

    #[test]
    fn a_state_that_was_not_taken_is_told_again_and_not_owed() {
        let finding = planned(instance().tag("curfew:mode", "on"), &idle(), ENFORCED);
        let deaf = after(&finding, &no_memory(), &["vision"], time(NOW));
        assert_eq!(deaf, no_memory());
        let heard = after(&finding, &no_memory(), &[], time(NOW));
        assert_eq!(notifications(&finding, &heard, &home(), time(NOW)), []);
    }

    #[test]
    fn a_region_that_was_not_seen_keeps_what_was_told() {
        let finding = planned(instance().tag("curfew:mode", "on"), &idle(), ENFORCED);
        let memory = after(&finding, &no_memory(), &[], time(NOW));
        let told = |memory: &NotificationLogs| memory[&home()].notified.len();
        assert_eq!(told(&memory), 1);
        let nothing = |kind: Option<GapKind>, regions: &[&str]| Report {
            skipped: Vec::new(),
            gaps: kind.map(|kind| gap("us-east-1", kind)).into_iter().collect(),
            regions: regions.iter().map(|region| (*region).into()).collect(),
            ..finding.clone()
        };
        assert_eq!(told(&after(&nothing(Some(GapKind::Region), &["us-east-1"]), &memory, &[], time(NOW))), 1);
        assert_eq!(told(&after(&nothing(None, &["eu-west-1"]), &memory, &[], time(NOW))), 1);
        assert_eq!(told(&after(&nothing(None, &["us-east-1"]), &memory, &[], time(NOW))), 0);
        assert_eq!(told(&after(&nothing(Some(GapKind::Listing), &["us-east-1"]), &memory, &[], time(NOW))), 1);
        assert_eq!(told(&after(&nothing(Some(GapKind::OtherRegions), &["us-east-1"]), &memory, &[], time(NOW))), 1);
        assert_eq!(told(&after(&nothing(Some(GapKind::Part), &["us-east-1"]), &memory, &[], time(NOW))), 0);
        // Nor is it seen where a run has nothing to do but knows of another one there.
        let other = planned(instance().id("i-0def").tag("curfew:protected", ""), &idle(), ENFORCED);
        assert!(other.steps.is_empty() && !other.skipped.is_empty());
        let half = Report { skipped: other.skipped, ..nothing(Some(GapKind::Region), &["us-east-1"]) };
        assert_eq!(told(&after(&half, &memory, &[], time(NOW))), 1);
        let of_others = Report { of_chosen_only: true, ..nothing(None, &["us-east-1"]) };
        assert_eq!(after(&of_others, &memory, &[], time(NOW)), memory);
    }

    #[test]
    fn a_mark_is_remembered_where_it_was_told_and_not_written() {
        let unwritten = |outcome: &StepOutcome, deaf: &[&str]| {
            let report = with(planned(instance(), &idle(), ENFORCED), &StepOutcome::from_kind(OutcomeKind::NotReached));
            let news = told(&report);
            let delivered = ["vision".to_owned()].into_iter().filter(|team| !deaf.contains(&team.as_str())).collect();
            let acted = with(report, outcome);
            update_log(&no_memory(), &acted, &news, &[], &delivered, time(NOW))[&home()].unwritten_marks.len()
        };
        assert_eq!(unwritten(&StepOutcome::from_kind(OutcomeKind::Done), &[]), 0);
        assert_eq!(unwritten(&StepOutcome::with(OutcomeKind::Failed, "x"), &[]), 1);
        assert_eq!(unwritten(&StepOutcome::from_kind(OutcomeKind::NotReached), &[]), 1);
        assert_eq!(unwritten(&StepOutcome::from_kind(OutcomeKind::NotReached), &["vision"]), 0);
    }

    #[test]
    fn a_mark_that_fails_is_late_news_and_an_announcement_is_none() {
        let report = planned(instance(), &idle(), ENFORCED);
        let sent = told(&report);
        assert_eq!(late_notifications(&report, &sent, &no_memory(), &home(), time(NOW)), []);
        let failed = with(report, &StepOutcome::with(OutcomeKind::Failed, "UnauthorizedOperation: ec2:CreateTags"));
        let late = late_notifications(&failed, &sent, &no_memory(), &home(), time(NOW));
        assert_eq!(late.len(), 1);
        assert!(late[0].text.contains("could not mark it"), "{}", late[0].text);
        assert_eq!(late[0].severity, Severity::Error);
    }
}

#[test]
fn every_message_names_its_run_and_its_audit_record() {
    let report = planned(instance(), &idle(), ENFORCED);
    check(&report, "warning", &["run-1", &AuditRecord::key(&report)]);
}

#[test]
fn what_is_nobodys_goes_to_the_untagged() {
    let sent = message(&planned(untagged(), &idle(), "[untagged]\nmode = \"enforce\""));
    assert_eq!((sent.team.as_str(), sent.function), (NO_TEAM, "reap-instances"));
    let ids: Vec<ResourceId> =
        told(&planned(untagged(), &idle(), ENFORCED)).into_iter().filter_map(|one| one.resource).collect();
    assert_eq!(ids, ["i-0abc".into()]);
}

mod budgets {
    use super::*;
    use billing::budget::{Budget, BudgetBooks, LedgerSpends};
    use model::config::Config;
    use model::money::Amount;
    use reaping::budgets::decide as of_budgets;

    /// A beat in which so much of a budget of $100 is spent, of the team vision or of the account.
    fn beat(section: &str, over_budget: &str, spent: f64, mode: Mode) -> Report {
        let text =
            format!("mode = \"enforce\"\n[{section}]\nmonthly_budget_usd = 100\nover_budget = \"{over_budget}\"\n");
        let config = Config::read(&text).unwrap();
        let holder = if section == "account" { BudgetHolder::Account } else { BudgetHolder::Team("vision".into()) };
        let (nothing, earlier) = (LedgerSpends::default(), BTreeMap::new());
        let document =
            BudgetBooks::new((&config, mode), &nothing, &earlier, time(NOW)).budget_of(&holder, &Budget::default());
        let spent_usd = Amount::from_usd(spent);
        let verdict = BudgetLimit::from_config(&holder, &config, mode).unwrap().verdict(spent_usd);
        let documents = BTreeMap::from([(holder, Budget { spent_usd, verdict, ..document })]);
        let plan = of_budgets(&documents, &config, mode, &no_memory(), &home());
        let report = Report::from_plan(plan, "enforce-budgets", "run-1".into(), time(NOW), mode, vec![home()]);
        let outcome = if mode == Mode::Enforce { OutcomeKind::Done } else { OutcomeKind::Observed };
        with(report, &StepOutcome::from_kind(outcome))
    }

    #[test]
    fn a_spent_budget_is_an_action_only_where_something_is_really_held() {
        let severity = |over, spent, mode| message(&beat("teams.vision", over, spent, mode)).severity;
        for over in ["notify", "hold", "stop"] {
            assert_eq!(severity(over, 50.0, Mode::Enforce), "warning", "{over}");
            assert_eq!(severity(over, 50.0, Mode::Observe), "info", "{over}");
            assert_eq!(severity(over, 100.0, Mode::Observe), "info", "{over}");
            let held = if over == "notify" { "warning" } else { "action" };
            assert_eq!(severity(over, 100.0, Mode::Enforce), held, "{over}");
        }
    }

    #[test]
    fn observe_mode_takes_nothing_from_a_budget_that_is_only_told() {
        let says = |over, mode| message(&beat("teams.vision", over, 100.0, mode)).body.contains("Observe mode");
        assert_eq!(["notify", "hold", "stop"].map(|over| says(over, Mode::Observe)), [false, true, true]);
        assert_eq!(["notify", "hold", "stop"].map(|over| says(over, Mode::Enforce)), [false; 3]);
    }

    #[test]
    fn the_account_is_not_called_resources_without_a_team() {
        let account = beat("account", "notify", 100.0, Mode::Enforce);
        let sent = message(&account);
        assert_eq!(
            (sent.team.as_str(), first_line(&account).as_str()),
            (NO_TEAM, "Curfew: 1 notification for the account.")
        );
        assert_eq!(sent.subject, "Curfew (warning): 1 notification for the account");
        let gap = Gap::new(&home(), "ce:GetCostAndUsage", "AccessDenied", GapKind::Part);
        let blind = Report { gaps: vec![gap], ..account };
        assert_eq!(first_line(&blind), "Curfew: 2 notifications for the account.");
        let of_nobody = planned(untagged(), &idle(), "[untagged]\nmode = \"enforce\"");
        assert_eq!(first_line(&of_nobody), "Curfew: 1 notification for resources without a team.");
        let both = Report { gaps: blind.gaps, ..of_nobody };
        assert_eq!(first_line(&both), "Curfew: 2 notifications for the account and resources without a team.");
    }
}
