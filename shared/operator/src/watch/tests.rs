//! It is noon on Tuesday, 2026-09-01.

use ::jobs::Phase;
use billing::budget::Budget;
use model::known_sum::KnownSum;
use model::mode::Mode;
use model::money::{Amount, Rate};
use model::usage::LastInquiry;
use proptest::prelude::*;
use reaping::fixture::{InstanceBuilder, NOW, instance, jobs, log_of_instances, log_of_labels, placed, time, untagged};
use serde_json::{Value, json};

use super::*;
use model::instance::{InstanceState, PurchaseOption};

const ENFORCE: &str = "mode = \"enforce\"\n[idle]\nlocal_disk = \"expendable\"\n";

/// The record of reap-instances of five minutes ago, with these fields besides.
fn record(function: &str, more: Value) -> RunRecord {
    let mut record = json!({
        "function": function, "run": "5f1c2a7e", "at": "2026-09-01T11:55:00Z", "mode": "enforce", "seen": 1, "steps": [],
    });
    if let (Value::Object(record), Value::Object(more)) = (&mut record, more) {
        record.extend(more);
    }
    serde_json::from_value(record).unwrap()
}

/// One run of each function, a minute old or so.
fn runs() -> Vec<RunRecord> {
    functions_to_read().map(|scheduled| record(scheduled.function, json!({}))).collect()
}

fn facts(config: &str, instances: Vec<Instance>) -> WatchFacts {
    WatchFacts {
        now: time(NOW),
        regions: vec!["us-east-1".into()],
        notices: NotificationLogs::from([("us-east-1".into(), log_of_instances(&instances))]),
        instances,
        incomplete_regions: BTreeSet::new(),
        activity: BTreeMap::new(),
        config: Config::read(config).unwrap(),
        prices: PriceBook::dated(),
        budgets: BTreeMap::new(),
        jobs: Vec::new(),
        job_states: JobStates::default(),
        runs: runs(),
        subscriptions: None,
        problems: Vec::new(),
    }
}

fn only_row(facts: WatchFacts) -> InstanceRow {
    let [row] = dashboard(facts).instances.try_into().unwrap();
    row
}

/// What is next for one instance.
fn check(given: InstanceBuilder, config: &str, expect: &str) {
    let outlook = only_row(facts(config, vec![given.build()])).outlook;
    assert_eq!(outlook.describe(time(NOW)), expect, "{outlook:?}");
}

#[test]
fn an_announced_action_says_what_when_and_why() {
    let marked = |deadline: &str| instance().tag("curfew:marked", &format!("idle=stop@2026-09-0{deadline}:00Z"));
    check(marked("1T18:00"), ENFORCE, "stop 18:00 (idle)");
    check(marked("2T18:00"), ENFORCE, "stop Sep  2 18:00 (idle)");
    check(marked("1T11:30"), ENFORCE, "stop in the next run (idle)");
    check(marked("1T18:00").tag("curfew:mode", "observe"), ENFORCE, "would stop 18:00 (idle)");
    // Somebody wrote the tag.
    let mut forged = facts(ENFORCE, vec![marked("1T18:00").build()]);
    forged.notices = NotificationLogs::new();
    assert_eq!(only_row(forged).outlook.describe(time(NOW)), "next run: unmark");
}

#[test]
fn the_earliest_enforced_action_of_several_is_next() {
    let both = "idle=stop@2026-09-01T18:00:00Z lifetime=terminate@2026-09-01T15:00:00Z";
    check(instance().tag("curfew:marked", both), ENFORCE, "stop 18:00 (idle)");
    let expiring = instance().tag("curfew:marked", both).tag("curfew:expires-at", "2026-09-01T16:30:00Z");
    check(expiring, ENFORCE, "stop 16:30 (expiry)");
    check(instance().tag("curfew:expires-at", "2026-09-03T00:00:00Z"), "", "stop Sep  3 00:00 (expiry)");
    check(instance().tag("curfew:hours", "Mon-Fri 08:00-20:00 UTC"), "", "stop 20:00 (hours)");
    check(untagged(), "[untagged]\nspare_busy = false\n", "would stop Sep  2 12:00 (untagged)");
}

#[test]
fn what_is_skipped_says_why() {
    check(
        instance().tag("curfew:protected", "").tag("curfew:expires-at", "2026-09-02T00:00:00Z"),
        ENFORCE,
        "protected",
    );
    check(instance().tag("curfew:keep-until", "2026-09-03T09:00:00Z"), ENFORCE, "kept until Sep  3 09:00");
    check(instance().tag("curfew:idle-after", "soon"), ENFORCE, "tag curfew:idle-after unreadable");
    check(instance().tag("karpenter.sh/nodepool", "gpu"), ENFORCE, "managed by Karpenter; change it there");
    check(instance().state(InstanceState::Stopped), ENFORCE, "stopped");
    let stopped = instance().state(InstanceState::Stopped).tag("curfew:stopped", "hours 2026-08-31T20:00:00Z");
    check(stopped.tag("curfew:hours", "Mon-Fri 14:00-20:00 UTC"), ENFORCE, "start 14:00 (hours)");
}

#[test]
fn what_is_announced_in_observe_mode_would_happen() {
    let mut given = facts("", vec![instance().build()]);
    let tags = BTreeMap::from([("curfew:marked".to_owned(), "idle=stop@2026-09-01T18:00:00Z".to_owned())]);
    let mut log = log_of_labels(&"i-0abc".into(), instance().build().launched_at, &tags);
    for announced in log.resources.values_mut().flat_map(|record| record.announced.values_mut()) {
        announced.mode = Mode::Observe;
    }
    given.notices = NotificationLogs::from([("us-east-1".into(), log)]);
    assert_eq!(only_row(given).outlook.describe(time(NOW)), "would stop 18:00 (idle)");
}

#[test]
fn the_newest_run_says_what_this_command_does_not_query() {
    let check = |more: Value, expect: &str| {
        let mut given = facts(ENFORCE, vec![instance().build()]);
        given.runs = vec![record(runs::OF_INSTANCES, more)];
        assert_eq!(only_row(given).outlook.describe(time(NOW)), expect);
    };
    check(json!({"skipped": {"busy": ["i-0abc"]}}), "busy");
    check(json!({"skipped": {"usage-unknown": ["i-0abc"]}}), "usage unknown");
    check(json!({"skipped": {"busy": ["i-0abc"]}, "at": "2026-08-30T00:00:00Z"}), "usage unknown");
    let step = |held: bool| {
        json!({
            "region": "us-east-1", "resource": "i-0abc", "action": "stop", "evidence": {"rule": "idle"},
            "outcome": "not-reached", "held": held,
        })
    };
    check(json!({"steps": [step(true)]}), "awaits approval (stop, idle)");
    check(json!({"steps": [step(false)]}), "usage unknown");
}

fn asked(at: &str) -> LastInquiry {
    LastInquiry {
        at: time(at),
        busy_until: None,
        shown_by: None,
        found_idle_reserved: None,
        found_idle_by_power: false,
        looked_back: None,
        in_full_at: None,
        idle_not_before: time(NOW),
    }
}

/// What is known of the use of the only instance, by the last inquiry and by the newest run.
fn check_gpu(asked: Option<LastInquiry>, evidence: Option<Value>, expect: &str) {
    let mut given = facts(ENFORCE, vec![instance().build()]);
    let instances = asked.map(|asked| ("i-0abc".into(), asked)).into_iter().collect();
    given.activity = BTreeMap::from([("us-east-1".into(), ActivityCache { instances })]);
    let step = evidence.map(|evidence| {
        json!({"region": "us-east-1", "resource": "i-0abc", "action": "mark", "evidence": evidence, "outcome": "done"})
    });
    given.runs = vec![record(runs::OF_INSTANCES, json!({"steps": Vec::from_iter(step)}))];
    assert_eq!(only_row(given).gpu.describe(time(NOW)), expect);
}

#[test]
fn what_is_unknown_is_never_zero() {
    check_gpu(None, None, "unknown");
    check_gpu(Some(asked("2026-09-01T11:55:00Z")), None, "unknown");
    let idle = |percent: Value| json!({"rule": "idle", "gpu_max_percent": percent, "to": "2026-09-01T11:45:00Z"});
    check_gpu(None, Some(idle(json!(0.4))), "0 % 11:55");
    for damaged in [json!("0"), json!(null), json!(-1), json!(1e9)] {
        check_gpu(None, Some(idle(damaged)), "unknown");
    }
    check_gpu(None, Some(json!({"rule": "lifetime", "gpu_max_percent": 0.0, "to": "2026-09-01T11:45:00Z"})), "unknown");
    let busy = |until: &str| LastInquiry { busy_until: Some(time(until)), ..asked("2026-09-01T11:55:00Z") };
    check_gpu(Some(busy("2026-09-01T11:40:00Z")), None, "busy 11:40");
    check_gpu(Some(busy("2026-09-01T11:40:00Z")), Some(idle(json!(2.0))), "2 % 11:55");
    // Of an earlier life: it was launched at noon of the day before.
    check_gpu(Some(busy("2026-08-31T11:00:00Z")), None, "unknown");
    let quiet = |reserved| LastInquiry { found_idle_reserved: Some(reserved), ..asked("2026-09-01T11:50:00Z") };
    check_gpu(Some(quiet(false)), None, "idle 11:50");
    check_gpu(Some(quiet(true)), None, "held 11:50");
}

fn running_job(more: impl FnOnce(&mut Job)) -> Job {
    let states = jobs(Phase::Running(placed("i-0abc", "us-east-1")));
    let mut job = states.0.into_values().flatten().next().unwrap();
    more(&mut job);
    job
}

fn beat(gpu_percent: Option<f64>) -> Heartbeat {
    Heartbeat {
        at: time(NOW),
        attempt: 2,
        step: Some(1_200),
        steps_per_hour: None,
        gpu_percent,
        doing: "running".to_owned(),
        warnings: Vec::new(),
        unsaved_seconds: None,
        gpus: None,
        trend: ::jobs::telemetry::GpuTrend::default(),
        work: ::jobs::WorkSigns::default(),
        gpu_box: None,
    }
}

#[test]
fn a_jobs_machine_shows_what_its_heartbeat_says() {
    let check = |percent: Option<f64>, expect: &str| {
        let machine = instance().tag("curfew:job", "vision/llama-0123abcd").tag("curfew:attempt", "2");
        let mut given = facts(ENFORCE, vec![machine.tag("curfew:expires-at", "2026-09-02T12:10:00Z").build()]);
        let job = running_job(|job| job.terms.finish_by = Some(time("2026-09-02T00:00:00Z")));
        given.job_states = JobStates(BTreeMap::from([(job.job.clone(), Some(job.clone()))]));
        given.jobs = vec![WatchedJob::alone(job, Some((time("2026-09-01T11:59:30Z"), beat(percent))))];
        let shown = dashboard(given);
        let (row, job) = (&shown.instances[0], &shown.jobs[0]);
        assert_eq!([row.gpu.describe(shown.at), job.gpu.describe(shown.at)], [expect, expect]);
        assert_eq!(row.outlook.describe(shown.at), "ends with its job Sep  2 12:10");
        assert_eq!(
            (job.describe_progress(), job.usd_per_hour),
            ("1200".to_owned(), Rate::from_usd_micros_per_hour(1_006_000))
        );
        let events: Vec<_> = shown.next.iter().map(|event| (event.what, event.subject.as_str())).collect();
        assert_eq!(events, [("job deadline", "vision/llama-0123abcd"), ("attempt ends", "vision/llama-0123abcd")]);
    };
    check(Some(97.0), "97 % 11:59");
    check(Some(0.0), "0 % 11:59");
    check(None, "unknown");
}

#[test]
fn each_machine_of_a_gang_shows_its_own_use_and_the_job_is_one_row() {
    let machine =
        |id: &str| instance().id(id).tag("curfew:job", "vision/llama-0123abcd").tag("curfew:attempt", "2").build();
    let mut given = facts(ENFORCE, vec![machine("i-0abc"), machine("i-1"), machine("i-2")]);
    let job = running_job(|job| {
        if let ::jobs::Phase::Running(placed) = &mut job.phase {
            placed.members = vec!["i-1".into(), "i-2".into()];
        }
    });
    given.job_states = JobStates(BTreeMap::from([(job.job.clone(), Some(job.clone()))]));
    let beat = |percent| (time("2026-09-01T11:59:30Z"), beat(Some(percent)));
    let nodes = NodeHeartbeats::from([(0, beat(97.0)), (1, beat(3.0))]);
    given.jobs = vec![WatchedJob { job, heartbeat: None, nodes }];
    let shown = dashboard(given);
    let of = |id: &str| {
        let row = shown.instances.iter().find(|row| row.instance.as_str() == id).unwrap();
        (row.gpu.describe(shown.at), row.outlook.describe(shown.at).starts_with("ends with its job"))
    };
    assert_eq!([of("i-0abc"), of("i-1"), of("i-2")].map(|(gpu, _)| gpu), ["97 % 11:59", "3 % 11:59", "unknown"]);
    let [row] = shown.jobs.as_slice() else { panic!("{:?}", shown.jobs) };
    assert_eq!((row.describe_type().as_str(), row.gpu.describe(shown.at).as_str()), ("3 × g5.xlarge", "97 % 11:59"));
    assert_eq!((row.members.len(), row.heartbeat_at), (2, Some(time("2026-09-01T11:59:30Z"))));
}

#[test]
fn the_dearest_comes_first_and_an_unknown_price_is_not_nothing() {
    let given = facts(
        ENFORCE,
        vec![
            instance().id("i-small").build(),
            instance().id("i-stopped").of_type("p5.48xlarge").state(InstanceState::Stopped).build(),
            instance().id("i-unknown").of_type("p9.48xlarge").build(),
            instance().id("i-large").of_type("p5.48xlarge").build(),
            instance().id("i-spot").purchase(PurchaseOption::SpotOneTime).build(),
        ],
    );
    let shown = dashboard(given);
    let ids: Vec<&str> = shown.instances.iter().map(|row| row.instance.as_str()).collect();
    assert_eq!(ids, ["i-large", "i-small", "i-spot", "i-unknown", "i-stopped"]);
    let known = Rate::from_usd_micros_per_hour(55_040_000 + 1_006_000);
    let expect = InstanceTotals { running: 4, others: 1, costs: KnownSum::new(known, 2) };
    assert_eq!(shown.totals, expect);
}

#[test]
fn next_is_in_the_order_of_time() {
    let config = format!("{ENFORCE}[teams.vision]\nmonthly_budget_usd = 100\n");
    let mut given = facts(
        &config,
        vec![
            instance().id("i-1").tag("curfew:expires-at", "2026-09-01T18:00:00Z").build(),
            instance().id("i-2").tag("curfew:keep-until", "2026-09-01T15:00:00Z").build(),
            instance().id("i-3").tag("curfew:expires-at", "2026-09-01T11:00:00Z").build(),
        ],
    );
    let budget = Budget {
        team: Some("vision".into()),
        month: "2026-09".to_owned(),
        as_of: Some(time("2026-09-01T11:50:00Z")),
        budget_usd: Some(Amount::from_usd(100.0)),
        spent_usd: Amount::from_usd(80.0),
        usd_per_hour: 4.0,
        ..Budget::default()
    };
    given.budgets = BTreeMap::from([(BudgetHolder::Team("vision".into()), budget)]);
    let shown = dashboard(given);
    let events = shown.next.iter().map(|event| {
        format!("{} {} {} ({})", format_moment(event.at, shown.at), event.what, event.subject, event.detail)
    });
    assert_eq!(
        events.collect::<Vec<_>>(),
        [
            "11:00 stop i-3 (expiry, team vision)",
            "15:00 keep ends i-2 (team vision)",
            "16:50 budget spent vision (at $4.00/h, as now)",
            "18:00 stop i-1 (expiry, team vision)",
            "Oct  1 00:00 month ends all budgets (they begin anew)",
        ]
    );
    let [account, vision] = shown.budgets.try_into().unwrap();
    assert_eq!((account.spent_usd, account.holder.as_str(), account.consequence), (None, "(account)", "unknown"));
    assert_eq!((vision.percent, vision.spent_at), (Some(80), Some(time("2026-09-01T16:50:00Z"))));
}

#[test]
fn without_a_record_the_mode_is_unknown() {
    let marked = || instance().tag("curfew:marked", "idle=stop@2026-09-01T18:00:00Z");
    let mode = |runs: Vec<RunRecord>| {
        let mut given = facts(ENFORCE, vec![marked().build()]);
        given.runs = runs;
        let shown = dashboard(given);
        (shown.mode, shown.problems.len())
    };
    assert_eq!(mode(runs()), (Some(Mode::Enforce), 1));
    assert_eq!(mode(Vec::new()), (None, 5));
    let gap =
        json!({"region": "us-east-1", "call": "sns:ListSubscriptionsByTopic", "error": "no confirmed subscription"});
    assert_eq!(mode(vec![record(runs::OF_INSTANCES, json!({"gaps": [gap]}))]), (Some(Mode::Observe), 5));
    let old = json!({"at": "2026-09-01T11:00:00Z"});
    assert_eq!(mode(vec![record(runs::OF_INSTANCES, old)]), (Some(Mode::Enforce), 5));
}

/// The action on `i-0abc` that the newest run left for approval.
fn held(action: &str) -> Vec<RunRecord> {
    let step = json!({
        "region": "us-east-1", "resource": "i-0abc", "action": action, "evidence": {"rule": "idle"},
        "saves_usd_per_hour": 1.5, "outcome": "not-reached", "held": true,
    });
    vec![record(runs::OF_INSTANCES, json!({"steps": [step]}))]
}

#[test]
fn what_awaits_approval_is_counted() {
    let mut given = facts(ENFORCE, vec![instance().build()]);
    given.runs = held("stop");
    let [awaiting] = dashboard(given).awaiting_approval.try_into().unwrap();
    assert_eq!((awaiting.actions, awaiting.saves.known()), (1, Some(Rate::from_usd_micros_per_hour(1_500_000))));
}

#[test]
fn what_was_stopped_or_is_gone_awaits_no_approval() {
    let check = |action: &str, state: Option<InstanceState>, awaits: bool, outlook: &str| {
        let instances = state.map(|state| instance().state(state).build()).into_iter().collect();
        let shown = dashboard(WatchFacts { runs: held(action), ..facts(ENFORCE, instances) });
        assert_eq!(!shown.awaiting_approval.is_empty(), awaits, "{action} {state:?}");
        let outlooks: Vec<String> = shown.instances.iter().map(|row| row.outlook.describe(shown.at)).collect();
        assert_eq!(outlooks.concat(), outlook);
    };
    check("stop", Some(InstanceState::Running), true, "awaits approval (stop, idle)");
    check("stop", Some(InstanceState::Stopping), false, "stopping");
    check("stop", Some(InstanceState::Stopped), false, "stopped");
    check("stop", None, false, "");
    check("terminate", Some(InstanceState::Stopped), true, "awaits approval (terminate, idle)");
    check("terminate", Some(InstanceState::ShuttingDown), false, "shutting-down");
    // Where it was not seen because its region could not be read, it may run.
    let unread = WatchFacts {
        runs: held("stop"),
        incomplete_regions: BTreeSet::from(["us-east-1".into()]),
        ..facts("", vec![])
    };
    assert_eq!(dashboard(unread).awaiting_approval.len(), 1);
    assert_eq!(
        dashboard(WatchFacts { runs: held("stop"), regions: vec![], ..facts("", vec![]) }).awaiting_approval.len(),
        1
    );
}

#[test]
fn what_was_applied_awaits_no_approval() {
    let applied = json!({
        "run": "apply-5f1c2a7e-1", "at": "2026-09-01T11:58:00Z",
        "steps": [{
            "region": "us-east-1", "resource": "i-0abc", "action": "stop", "evidence": {"rule": "idle"}, "outcome": "done",
        }],
    });
    let applied = record(runs::OF_INSTANCES, applied);
    let newest: Vec<RunRecord> =
        held("stop").into_iter().map(|run| run.after_applies(std::slice::from_ref(&applied))).collect();
    let shown = dashboard(WatchFacts { runs: newest, ..facts(ENFORCE, vec![instance().build()]) });
    assert_eq!(shown.awaiting_approval, []);
    assert_eq!(shown.instances[0].outlook.describe(shown.at), "usage unknown");
}

proptest! {
    /// Whatever tags say, each instance has one row, and what is next is in order.
    #[test]
    fn every_instance_has_one_row(tags in proptest::collection::vec(("curfew:(expires-at|hours|keep-until|marked|protected|idle-after|job|stopped)|Team|Name", "\\PC{0,20}|2026-09-0[1-9]T12:00:00Z|i-0abc idle=stop@2026-09-02T12:00:00Z"), 0..5)) {
        let given = tags.iter().fold(instance(), |given, (key, value)| given.tag(key, value));
        let shown = dashboard(facts(ENFORCE, vec![given.build(), instance().id("i-0def").build()]));
        prop_assert_eq!(shown.instances.len(), 2);
        prop_assert!(shown.next.is_sorted_by_key(|event| event.at));
        prop_assert!(shown.instances.iter().all(|row| row.gpu == GpuUse::UNKNOWN));
    }
}
