use billing::budget;
use billing::budget::{BudgetHolder, BudgetStatus, BudgetStatuses};
use jiff::SignedDuration;
use model::money::Amount;
use model::usage::{BusyEvidence, MetricReading, UnknownUsage, UsageMeasure};

use super::*;
use crate::explain::RuleVerdict;
use crate::fixture::{
    InstanceBuilder, NOW, busy, enforcing, idle, instance, log_of_labels, reserved, time, unknown, untagged,
};
use crate::policy::Verdict;
use crate::rules;
use crate::subject::Subject;

const ENFORCED: &str = "mode = \"enforce\"\n[lifetime]\naction = \"stop\"";
const OFFICE: &str = "Mon-Fri 08:00-20:00 Europe/Berlin";

fn explained(builder: InstanceBuilder, usage: &Usage, config: &str) -> Explanation {
    let instance = builder.build();
    let log = log_of_labels(&instance.id, instance.launched_at, &instance.tags);
    explain(&instance, Some(usage), &log, &enforcing(config), time(NOW)).unwrap()
}

/// `verdict: evidence; when` of one rule.
fn check(builder: InstanceBuilder, usage: &Usage, rule: Rule, expect: &str) {
    check_in(builder, usage, ENFORCED, rule, expect);
}

fn check_in(builder: InstanceBuilder, usage: &Usage, config: &str, rule: Rule, expect: &str) {
    let rules = explained(builder, usage, config).rules;
    let row = rules.iter().find(|row| row.rule == rule).unwrap();
    assert_eq!(format!("{:?}: {}; {}", row.verdict, row.evidence, row.when), expect);
}

#[test]
fn untagged_ones() {
    check(
        instance(),
        &idle(),
        Rule::Untagged,
        "Compliant: it has all required tags (Team, Owner); not while it complies",
    );
    check(
        untagged(),
        &idle(),
        Rule::Untagged,
        "Violated: it lacks the required tags Team, Owner; never in observe mode; in enforce mode stopped from 2026-09-02T12:00:00Z on",
    );
    check(
        untagged(),
        &busy(),
        Rule::Untagged,
        "Violated: it lacks the required tags Team, Owner; notify only: it is busy",
    );
    check(
        untagged(),
        &NOT_ASKED,
        Rule::Untagged,
        "Unknown: it lacks the required tags Team, Owner, and its usage is unknown; not while this is unknown",
    );
    check(
        untagged().launched("2026-09-01T11:55:00Z"),
        &idle(),
        Rule::Untagged,
        "Compliant: it lacks the required tags Team, Owner, which may still arrive; not before 2026-09-01T12:05:00Z, and then only observed, not stopped",
    );
    check_in(
        untagged(),
        &idle(),
        "[untagged]\nmode = \"enforce\"",
        Rule::Untagged,
        "Violated: it lacks the required tags Team, Owner; the next run notifies its subscribers and marks it; stopped from 2026-09-02T12:00:00Z on, counted from now",
    );
    check_in(
        untagged(),
        &idle(),
        "[tags]\nrequired = []",
        Rule::Untagged,
        "Compliant: no tag is required; not while it complies",
    );
}

#[test]
fn idle_ones() {
    check(
        instance(),
        &idle(),
        Rule::Idle,
        "Violated: idle from 2026-09-01T10:50:00Z to 2026-09-01T11:50:00Z: 1 GPU at 0 % at most, CPU 0.10 vCPUs, network 0.10 Mbit/s; the next run notifies its subscribers and marks it; stopped from 2026-09-01T13:00:00Z on, counted from now",
    );
    check(
        instance(),
        &busy(),
        Rule::Idle,
        "Compliant: it was busy until 2026-09-01T11:55:00Z; announced at 2026-09-01T13:05:00Z at the earliest, stopped from 2026-09-01T14:05:00Z on",
    );
    let reading = MetricReading {
        measure: UsageMeasure::Gpu(Some("3".to_owned())),
        at: time("2026-09-01T11:50:00Z"),
        value: 97.0,
        line: 5.0,
    };
    let shown = Usage::Busy(BusyEvidence { until: time("2026-09-01T11:55:00Z"), shown: Some(reading) });
    check(
        instance(),
        &shown,
        Rule::Idle,
        "Compliant: GPU 3 at 97 % at 2026-09-01T11:50:00Z, above the threshold of 5 %; announced at 2026-09-01T13:05:00Z at the earliest, stopped from 2026-09-01T14:05:00Z on",
    );
    let foreign = MetricReading {
        measure: UsageMeasure::GpuMemory(Some("0\", or not".to_owned())),
        at: time("2026-09-01T11:50:00Z"),
        value: 9_000.0,
        line: 500.0,
    };
    let shown = Usage::Busy(BusyEvidence { until: time("2026-09-01T11:55:00Z"), shown: Some(foreign) });
    check(
        instance(),
        &shown,
        Rule::Idle,
        "Compliant: 9000 MiB held on GPU \"0', or not\" at 2026-09-01T11:50:00Z; announced at 2026-09-01T13:05:00Z at the earliest, stopped from 2026-09-01T14:05:00Z on",
    );
    check(
        instance(),
        &unknown(),
        Rule::Idle,
        "Unknown: its usage is unknown: 0 of its 1 accelerators report; install the CloudWatch agent with its nvidia_gpu section (curfew metrics install); not while this is unknown",
    );
    check(
        instance(),
        &reserved(),
        Rule::Idle,
        "Violated: idle from 2026-09-01T10:50:00Z to 2026-09-01T11:50:00Z: 1 GPU at 0 % at most, CPU 0.10 vCPUs, network 0.10 Mbit/s, 20000 MiB of GPU memory held; notify only: it holds GPU memory, like a notebook or a waiting server",
    );
    check(
        instance().tag("curfew:idle-after", "off"),
        &idle(),
        Rule::Idle,
        "Compliant: its owner set curfew:idle-after=off; not while it complies",
    );
    let young = instance().launched("2026-09-01T11:40:00Z");
    check(
        young,
        &Usage::Unknown(UnknownUsage::Young),
        Rule::Idle,
        "Compliant: launched at 2026-09-01T11:40:00Z, less than 30m and a window of 1h ago; announced at 2026-09-01T13:20:00Z at the earliest, stopped from 2026-09-01T14:20:00Z on",
    );
    check_in(
        instance(),
        &idle(),
        "",
        Rule::Idle,
        "Violated: idle from 2026-09-01T10:50:00Z to 2026-09-01T11:50:00Z: 1 GPU at 0 % at most, CPU 0.10 vCPUs, network 0.10 Mbit/s; never in observe mode; in enforce mode stopped from 2026-09-01T13:00:00Z on",
    );
}

#[test]
fn those_that_a_budget_may_stop() {
    const STOPS: &str = "mode = \"enforce\"\n[teams.vision]\nmonthly_budget_usd = 100\nover_budget = \"stop\"\n";
    const BOTH: &str = "[account]\nmonthly_budget_usd = 1000\nover_budget = \"stop\"\n";
    let check = |config: &str, known: &[(BudgetHolder, BudgetStatus)], expect: &str| {
        let budgets = BudgetStatuses(known.iter().cloned().collect());
        let policy = Policy { budgets, ..enforcing(config) };
        let explanation =
            explain(&instance().build(), Some(&busy()), &NotificationLog::default(), &policy, time(NOW)).unwrap();
        let row = explanation.rules.into_iter().find(|row| row.rule == Rule::OverBudget).unwrap();
        assert_eq!(format!("{:?}: {}; {}", row.verdict, row.evidence, row.when), expect, "{config} {known:?}");
    };
    let team = |as_of: &str, verdict, spent| {
        let (spent, reserved) = (Amount::from_usd(spent), Amount::ZERO);
        let status = BudgetStatus {
            verdict,
            as_of: time(as_of),
            month: "2026-09".to_owned(),
            spent,
            others: Amount::ZERO,
            reserved,
        };
        (BudgetHolder::Team("vision".into()), status)
    };
    let (lately, long_ago) = ("2026-09-01T11:45:00Z", "2026-09-01T10:45:00Z");
    let none = "Compliant: no budget of its team or of the account stops what runs; not while it complies";
    check("mode = \"enforce\"", &[], none);
    check(&STOPS.replace("stop", "hold"), &[], none);
    check(
        STOPS,
        &[team(lately, budget::BudgetVerdict::Ok, 40.0)],
        "Compliant: its team has spent $40.00 of its budget of $100.00 for 2026-09, as of 2026-09-01T11:45:00Z; not while it complies",
    );
    check(
        STOPS,
        &[team(lately, budget::BudgetVerdict::Stop, 120.0)],
        "Violated: its team has spent $120.00 of its budget of $100.00 for 2026-09, as of 2026-09-01T11:45:00Z; the next run notifies its subscribers and marks it; stopped from 2026-09-01T13:00:00Z on, counted from now",
    );
    let since = "Unknown: the spend of its team is unknown since 2026-09-01T10:45:00Z; not while this is unknown";
    check(STOPS, &[team(long_ago, budget::BudgetVerdict::Ok, 40.0)], since);
    check(STOPS, &[team(long_ago, budget::BudgetVerdict::Stop, 120.0)], since);
    check(STOPS, &[], "Unknown: the spend of its team for 2026-09 is unknown; not while this is unknown");
    check(
        &format!("{STOPS}{BOTH}"),
        &[team(lately, budget::BudgetVerdict::Ok, 40.0)],
        "Unknown: its team has spent $40.00 of its budget of $100.00 for 2026-09, as of 2026-09-01T11:45:00Z; the spend of its account for 2026-09 is unknown; not while this is unknown",
    );
}

#[test]
fn ends_that_owners_wrote_down() {
    check(instance(), &idle(), Rule::Expired, "Compliant: it carries no curfew:expires-at; not while it complies");
    check(
        instance().tag("curfew:expires-at", "2026-09-30T00:00:00Z"),
        &idle(),
        Rule::Expired,
        "Compliant: its curfew:expires-at (2026-09-30T00:00:00Z) is in the future; stopped by the first run from 2026-09-30T00:00:00Z on",
    );
    check(
        instance().tag("curfew:expires-at", "2026-09-01T00:00:00Z"),
        &idle(),
        Rule::Expired,
        "Violated: its curfew:expires-at (2026-09-01T00:00:00Z) has passed; stopped by the next run",
    );
    check(instance(), &idle(), Rule::Hours, "Compliant: it carries no curfew:hours; not while it complies");
    check(
        instance().tag("curfew:hours", OFFICE),
        &idle(),
        Rule::Hours,
        "Compliant: within its hours (Mon-Fri 08:00-20:00 Europe/Berlin) until 2026-09-01T18:00:00Z; announced at 2026-09-01T17:30:00Z at the earliest, stopped from 2026-09-01T18:00:00Z on",
    );
    let by_hand = instance().launched("2026-08-31T21:00:00Z").tag("curfew:hours", "Mon-Fri 14:00-20:00 UTC");
    check(
        by_hand,
        &idle(),
        Rule::Hours,
        "Compliant: outside its hours (Mon-Fri 14:00-20:00 UTC), but started after they ended; skipped until they end again; announced at 2026-09-01T19:30:00Z at the earliest, stopped from 2026-09-01T20:00:00Z on",
    );
    let late = instance().launched("2026-08-31T09:00:00Z").tag("curfew:hours", "Mon-Fri 08:00-11:00 UTC");
    check(
        late,
        &idle(),
        Rule::Hours,
        "Violated: outside its hours (Mon-Fri 08:00-11:00 UTC) since 2026-09-01T11:00:00Z; the next run notifies its subscribers and marks it; stopped from 2026-09-01T12:30:00Z on, counted from now",
    );
}

#[test]
fn old_ones() {
    check(
        instance(),
        &idle(),
        Rule::Lifetime,
        "Compliant: it has run for 1d; the limit is 7d; announced at 2026-09-07T12:00:01Z at the earliest, stopped from 2026-09-08T12:00:01Z on",
    );
    check(
        instance().launched("2026-08-01T00:00:00Z"),
        &idle(),
        Rule::Lifetime,
        "Violated: it has run since 2026-08-01T00:00:00Z, longer than 7d; the next run notifies its subscribers and marks it; stopped from 2026-09-02T12:00:00Z on, counted from now",
    );
    check(
        instance().tag("curfew:expires-at", "2026-09-30T00:00:00Z"),
        &idle(),
        Rule::Lifetime,
        "Compliant: its owner set curfew:expires-at=2026-09-30T00:00:00Z; not while it complies",
    );
    check_in(
        instance().launched("2026-08-01T00:00:00Z"),
        &idle(),
        "mode = \"enforce\"",
        Rule::Lifetime,
        "Violated: it has run since 2026-08-01T00:00:00Z, longer than 7d; notify only: the configured action is notify",
    );
}

/// The first sentence is about the step that comes first, and agrees with the rows.
#[test]
fn observe_mode_says_first_what_enforce_mode_would_do() {
    let check = |log: &str, expect: &str| {
        let instance = untagged().launched("2026-08-15T12:00:00Z").tag("curfew:marked", log).build();
        let memory = log_of_labels(&instance.id, instance.launched_at, &instance.tags);
        let untouched = Instance { tags: BTreeMap::new(), ..instance };
        let explained =
            explain(&untouched, Some(&busy()), &memory, &enforcing("[untagged]\nspare_busy = false"), time(NOW));
        assert_eq!(explained.unwrap().decision.describe(), expect);
    };
    check(
        "",
        "the next run only notifies (observe mode); in enforce mode it notifies its subscribers, and marks it: untagged, to be stopped from \
         2026-09-02T12:00:00Z on",
    );
    check(
        "untagged=stop@2026-09-02T12:00:00Z",
        "the next run only notifies (observe mode); in enforce mode it notifies its subscribers: lifetime, for which it does no more: the \
         configured action is notify",
    );
}

#[test]
fn what_is_announced() {
    let marked = |at: &str| instance().tag("curfew:marked", &format!("idle=stop@{at}"));
    check(
        marked("2026-09-01T12:30:00Z"),
        &idle(),
        Rule::Idle,
        "Violated: idle from 2026-09-01T10:50:00Z to 2026-09-01T11:50:00Z: 1 GPU at 0 % at most, CPU 0.10 vCPUs, network 0.10 Mbit/s; stopped by the first run from 2026-09-01T12:30:00Z on that finds it still violated",
    );
    check(
        marked("2026-09-01T11:30:00Z"),
        &idle(),
        Rule::Idle,
        "Violated: idle from 2026-09-01T10:50:00Z to 2026-09-01T11:50:00Z: 1 GPU at 0 % at most, CPU 0.10 vCPUs, network 0.10 Mbit/s; stopped by the next run, unless that run exceeds [limits]",
    );
    check(
        marked("2026-09-01T12:30:00Z"),
        &unknown(),
        Rule::Idle,
        "Unknown: its usage is unknown: 0 of its 1 accelerators report; install the CloudWatch agent with its nvidia_gpu section (curfew metrics install); not while this is unknown; announced for 2026-09-01T12:30:00Z",
    );
    check(
        marked("2026-09-01T12:30:00Z"),
        &busy(),
        Rule::Idle,
        "Compliant: it was busy until 2026-09-01T11:55:00Z; the action announced for 2026-09-01T12:30:00Z is called off; announced at 2026-09-01T13:05:00Z at the earliest, stopped from 2026-09-01T14:05:00Z on",
    );
    check_in(
        marked("2026-09-01T12:30:00Z"),
        &idle(),
        "",
        Rule::Idle,
        "Violated: idle from 2026-09-01T10:50:00Z to 2026-09-01T11:50:00Z: 1 GPU at 0 % at most, CPU 0.10 vCPUs, network 0.10 Mbit/s; never in observe mode; in enforce mode stopped from 2026-09-01T12:30:00Z on",
    );
}

#[test]
fn an_old_stop_is_removed_by_its_rule_or_by_the_hours() {
    let describe = |stopped_by: &str, hours: &str| {
        let tagged = instance().tag("curfew:stopped", &format!("{stopped_by} 2026-08-30T12:00:00Z"));
        let tagged = if hours.is_empty() { tagged } else { tagged.tag("curfew:hours", hours) };
        explained(tagged, &busy(), ENFORCED).decision.describe()
    };
    let removes = "the next run removes curfew:stopped: it runs again";
    assert_eq!(describe("idle", ""), removes);
    // `[untagged]` observes, whatever the account does.
    assert_eq!(describe("untagged", OFFICE), removes);
    assert_eq!(describe("untagged", ""), "skipped: it is busy");
}

#[test]
fn what_is_spared_is_explained_all_the_same() {
    let check = |builder: InstanceBuilder, expect: &str| {
        let explained = explained(builder, &idle(), ENFORCED);
        let skipped = explained.skipped.unwrap();
        assert_eq!(skipped.words, expect);
        let PlanDecision::Skipped(decision) = &explained.decision else { panic!("{:?}", explained.decision) };
        assert_eq!(decision.reason, skipped.reason);
        explained.rules.into_iter().find(|row| row.rule == Rule::Idle).unwrap()
    };
    let row = check(
        instance().tag("curfew:protected", ""),
        "it carries curfew:protected; Curfew does not touch it until that tag is removed",
    );
    assert_eq!((row.verdict, row.when.as_str()), (RuleVerdict::Violated, "not while it is skipped"));
    check(
        instance().tag("curfew:keep-until", "2026-09-30"),
        "its curfew:keep-until exempts it until 2026-10-01T00:00:00Z",
    );
    check(instance().tag("eks:cluster-name", "ml"), "managed by EKS; change it there");
    let row = check(
        instance().tag("curfew:protectd", ""),
        "the tag curfew:protectd= cannot be read: there is no such tag; Curfew knows curfew:protected, curfew:marked, curfew:stopped, curfew:mode, curfew:idle-after, curfew:on-idle, curfew:local-disk, curfew:expires-at, curfew:hours, curfew:keep-until, curfew:job, curfew:attempt, curfew:box, curfew:unattached-since, curfew:snapshot-of, curfew:restore, curfew:deleted-at; skipped until that is corrected",
    );
    assert_eq!(row.verdict, RuleVerdict::NotJudged);
}

#[test]
fn what_does_not_run_is_not_judged() {
    let stopped = explained(instance().state(InstanceState::Stopped), &idle(), ENFORCED);
    assert!(stopped.skipped.is_none() && stopped.rules.iter().all(|row| row.verdict == RuleVerdict::NotJudged));
    assert_eq!(stopped.state, "stopped");
}

#[test]
fn what_was_stopped_for_the_night_is_started_again() {
    let when = |builder: InstanceBuilder| {
        let stopped = builder.state(InstanceState::Stopped).tag("curfew:hours", "Mon-Fri 14:00-20:00 UTC");
        let explained = explained(stopped, &idle(), ENFORCED);
        explained.rules.into_iter().find(|row| row.rule == Rule::Hours).unwrap().when
    };
    let by_curfew = |rule: &str| {
        instance().launched("2026-08-31T15:00:00Z").tag("curfew:stopped", &format!("{rule} 2026-08-31T20:00:05Z"))
    };
    assert_eq!(when(by_curfew("hours")), "started by the first run from 2026-09-01T14:00:00Z on, as its hours begin");
    assert_eq!(when(by_curfew("untagged")), "not before it runs");
    assert_eq!(when(instance()), "not before it runs");
}

/// The earliest violation of a compliant rule: not a second before, and then.
#[test]
fn what_is_coming_comes_then() {
    let check = |builder: InstanceBuilder, rule: Rule| {
        let (instance, policy, log) = (builder.build(), enforcing(ENFORCED), NotificationLog::default());
        let curfew_tags = CurfewTags::read(&instance).unwrap();
        let case = InstanceCase {
            instance: &instance,
            usage: &idle(),
            log: &log,
            standings: None,
            policy: &policy,
            now: time(NOW),
        };
        let subject = case.subject(&curfew_tags);
        let coming = rules::upcoming(rule, subject, &rules::judge(rule, subject)).unwrap();
        let before = Subject { now: coming.at - SignedDuration::from_secs(1), ..subject };
        assert_eq!(rules::judge(rule, before), Verdict::Compliant, "{rule}");
        let then = Subject { now: coming.at, expiry_seen: curfew_tags.expires_at, ..subject };
        let Verdict::Violated(violation) = rules::judge(rule, then) else { panic!("{rule}") };
        assert_eq!(coming.due, Some(violation.due));
    };
    check(instance().tag("curfew:expires-at", "2026-09-30T00:00:00Z"), Rule::Expired);
    check(untagged().launched("2026-09-01T11:55:00Z"), Rule::Untagged);
    check(instance(), Rule::Lifetime);
    check(instance().tag("curfew:hours", OFFICE), Rule::Hours);
    let by_hand = instance().launched("2026-08-31T21:00:00Z").tag("curfew:hours", "Mon-Fri 14:00-20:00 UTC");
    check(by_hand, Rule::Hours);
}

#[test]
fn an_announced_action_is_explained_by_its_moment() {
    let check = |mark: &str, expect: &str| {
        let explained = explained(instance().tag("curfew:marked", mark), &idle(), ENFORCED);
        assert_eq!(explained.describe_decision(time(NOW)), expect);
    };
    check("idle=stop@2026-09-01T12:43:00Z", "will be stopped at 12:43 UTC (in 43 min): idle");
    check("idle=stop@2026-09-02T14:05:00Z", "will be stopped at 2026-09-02 14:05 UTC (in 1 d 2 h): idle");
    assert_eq!(explained(instance(), &busy(), ENFORCED).describe_decision(time(NOW)), "skipped: it is busy");
}

#[test]
fn the_command_that_gives_up_a_reservation_is_named() {
    let evidence = "idle from 2026-09-01T10:50:00Z to 2026-09-01T11:50:00Z: 1 GPU at 0 % at most, CPU 0.10 vCPUs, network 0.10 Mbit/s";
    let why = "its capacity is reserved or dedicated and is paid for in any case, so a stop saves nothing until you release that capacity";
    let command = "aws ec2 cancel-capacity-reservation --region us-east-1 --capacity-reservation-id cr-0abc";
    let reserved = instance().in_reservation("cr-0abc");
    check(reserved, &idle(), Rule::Idle, &format!("Violated: {evidence}; notify only: {why}: `{command}`"));
}
