mod exempt;

use billing::budget::{BudgetHolder, BudgetStatus, BudgetStatuses, BudgetVerdict};
use model::curfew_tags::{MARKED, STOPPED};
use model::fixture::{NOW, SageMakerBuilder, app, endpoint, inference_component, notebook, time, training_job};
use model::money::Amount;
use model::sagemaker::{ActivitySource, InactiveEvidence, JobKind, ProductionSign};

use super::*;
use crate::fixture::{enforcing, log_of_labels};

fn inactive() -> Activity {
    Activity::Inactive(InactiveEvidence {
        from: time(NOW) - SignedDuration::from_hours(24),
        to: time(NOW),
        shown_by: ActivitySource::Requests,
        gpu_max_percent: Some(0.0),
    })
}

/// Everything enforces, and endpoints are deleted.
const ENFORCE: &str = "mode = \"enforce\"\n[untagged]\nmode = \"enforce\"\n[sagemaker]\nmode = \"enforce\"\nendpoint_action = \"delete\"\n";

fn decided(builder: SageMakerBuilder, activity: Activity, config: &str, memory: &NotificationLogs, now: &str) -> Plan {
    decided_by(builder, activity, &enforcing(config), memory, now)
}

fn decided_by(
    builder: SageMakerBuilder,
    activity: Activity,
    policy: &Policy,
    memory: &NotificationLogs,
    now: &str,
) -> Plan {
    let resource = builder.build();
    let activities = Activities::from([((resource.region.clone(), resource.id.clone()), activity)]);
    let mut memory = memory.clone();
    memory.entry(resource.region.clone()).or_insert_with(|| logged(&resource));
    let seen = ObservedSageMaker { items: vec![resource], gaps: Vec::new() };
    decide(&seen, &activities, &memory, policy, time(now))
}

/// The log of Curfew, which wrote the labels of this resource.
fn logged(resource: &SageMakerResource) -> NotificationLog {
    log_of_labels(&resource.id, resource.created_at, &resource.tags)
}

/// `mark idle=delete`, `stop hours`, `notify idle configured`, or `skip busy`.
fn words(plan: &Plan) -> String {
    assert_eq!(plan.steps.len() + plan.skipped.len(), 1, "{plan:?}");
    if let Some(skipped) = plan.skipped.first() {
        return format!("skip {}", serde_json::to_value(skipped.reason).unwrap().as_str().unwrap());
    }
    let step = &plan.steps[0];
    let observed = if step.mode == Mode::Observe { "observe: " } else { "" };
    let what = match step.action.announced_actions() {
        Some(actions) => {
            let entries = actions.iter().map(|(rule, announced)| format!("{rule}={}", announced.ending));
            entries.collect::<Vec<_>>().join(" ")
        }
        None => step.evidence.rule().to_string(),
    };
    let why = step.notify_only.map(|why| format!(" {}", why.as_str())).unwrap_or_default();
    format!("{observed}{} {what}{why}", step.action.as_str())
}

fn check_with(builder: SageMakerBuilder, activity: Activity, config: &str, expect: &str) {
    let plan = decided(builder, activity, config, &NotificationLogs::new(), NOW);
    assert_eq!(words(&plan), expect, "{plan:?}");
}

fn check(builder: SageMakerBuilder, activity: Activity, expect: &str) {
    check_with(builder, activity, ENFORCE, expect);
}

const fn unknown(why: UnknownActivity) -> Activity {
    Activity::Unknown(why)
}

#[test]
fn unused_resources_are_announced() {
    check(app(), inactive(), "mark idle=delete");
    check(endpoint(), inactive(), "mark idle=delete");
    check(training_job(), inactive(), "notify idle job-runs");
    check(app(), Activity::Active(time(NOW)), "skip busy");
    check(app(), unknown(UnknownActivity::HealthCheck), "skip usage-unknown");
    check(app(), unknown(UnknownActivity::Young), "skip young");
}

#[test]
fn by_default_resources_are_observed_and_endpoints_and_jobs_notify_only() {
    let by_team = "[teams.vision]\nmode = \"enforce\"\n";
    check_with(app(), inactive(), by_team, "observe: mark idle=delete");
    check_with(endpoint(), inactive(), by_team, "observe: notify idle configured");
    check_with(training_job(), inactive(), by_team, "observe: notify idle job-runs");
    check_with(app().tag("curfew:mode", "enforce"), inactive(), "", "mark idle=delete");
}

#[test]
fn tags_come_before_configuration() {
    check(endpoint().tag("curfew:on-idle", "stop"), inactive(), "notify idle cannot-be-stopped");
    check_with(
        endpoint().tag("curfew:on-idle", "terminate").tag("curfew:mode", "enforce"),
        inactive(),
        "",
        "mark idle=delete",
    );
    check(training_job().tag("curfew:on-idle", "stop"), inactive(), "mark idle=stop");
    check(app().tag("curfew:on-idle", "notify"), inactive(), "notify idle configured");
    check(app().tag("curfew:idle-after", "off"), inactive(), "skip compliant");
}

#[test]
fn a_notebook_instance_is_stopped_out_of_hours() {
    let lab = || notebook().tag("curfew:hours", "Mon-Fri 08:00-20:00 Europe/Berlin");
    let at =
        |now: &str| words(&decided(lab(), unknown(UnknownActivity::Unmeasured), "", &NotificationLogs::new(), now));
    assert_eq!(at("2026-09-01T16:59:59Z"), "skip compliant");
    assert_eq!(at("2026-09-01T17:00:00Z"), "mark hours=stop");
    let marked = lab().tag(MARKED, "hours=stop@2026-09-01T18:00:00Z");
    let plan =
        decided(marked, unknown(UnknownActivity::Unmeasured), "", &NotificationLogs::new(), "2026-09-01T18:05:00Z");
    assert_eq!(words(&plan), "stop hours");
}

#[test]
fn a_notebook_instance_is_started_in_the_morning_if_curfew_stopped_it() {
    let stopped = |tag: &str| {
        notebook()
            .status(SageMakerStatus::Stopped)
            .tag("curfew:hours", "Mon-Fri 08:00-20:00 Europe/Berlin")
            .tag(STOPPED, tag)
    };
    let at = |builder: SageMakerBuilder, now: &str| {
        words(&decided(builder, unknown(UnknownActivity::Unmeasured), "", &NotificationLogs::new(), now))
    };
    assert_eq!(at(stopped("hours 2026-09-01T18:00:05Z"), "2026-09-02T06:00:00Z"), "start hours");
    assert_eq!(at(stopped("hours 2026-09-01T18:00:05Z"), "2026-09-02T05:59:00Z"), "skip not-running");
    assert_eq!(at(stopped("untagged 2026-09-01T18:00:05Z"), "2026-09-02T06:00:00Z"), "skip not-running");
    // Curfew's own stop changes it too. Whatever changes it later is a person, who started it and stopped it again.
    let changed = |modified: &str| stopped("hours 2026-09-01T18:00:05Z").modified(modified);
    assert_eq!(at(changed("2026-09-01T18:09:00Z"), "2026-09-02T06:00:00Z"), "start hours");
    assert_eq!(at(changed("2026-09-01T21:00:00Z"), "2026-09-02T06:00:00Z"), "skip not-running");
    let running = notebook().tag(STOPPED, "hours 2026-08-31T18:00:05Z").tag("curfew:hours", "Mon-Sun 00:00-24:00 UTC");
    assert_eq!(at(running, NOW), "unmark hours");
}

#[test]
fn owners_end_things_by_themselves() {
    let expired = |builder: SageMakerBuilder| builder.tag("curfew:expires-at", "2026-09-01T11:00:00Z");
    check_with(expired(notebook()), unknown(UnknownActivity::Unmeasured), "", "stop expired");
    check_with(expired(app()), Activity::Active(time(NOW)), "", "delete expired");
    check_with(expired(training_job()), Activity::Active(time(NOW)), "", "stop expired");
    check_with(expired(endpoint()), Activity::Active(time(NOW)), "", "delete expired");
    check_with(expired(endpoint()).modified("2026-09-01T10:00:00Z"), inactive(), "", "delete expired");
    let without = expired(endpoint()).facts(|facts| facts.config = None);
    check_with(without, inactive(), "", "notify expired no-configuration");
    let copied = app().tag("curfew:expires-at", "2026-07-01T11:00:00Z");
    check_with(copied, inactive(), "", "skip unreadable");
}

#[test]
fn a_resource_without_tags_has_a_day() {
    check(notebook().untagged(), unknown(UnknownActivity::Unmeasured), "mark untagged=stop");
    check(app().untagged(), Activity::Active(time(NOW)), "notify untagged busy");
    check(app().untagged(), unknown(UnknownActivity::HealthCheck), "mark untagged=delete");
    check(app().untagged(), unknown(UnknownActivity::NotAsked), "skip usage-unknown");
    check(training_job().untagged(), Activity::Active(time(NOW)), "notify untagged job-runs");
    check(app().untagged().created("2026-09-01T11:55:00Z"), Activity::Active(time(NOW)), "skip busy");
}

#[test]
fn a_long_lifetime_is_notified_except_of_endpoints() {
    check(
        notebook().created("2026-08-01T12:00:00Z"),
        unknown(UnknownActivity::Unmeasured),
        "notify lifetime configured",
    );
    let stops = format!("{ENFORCE}[lifetime]\naction = \"stop\"\n");
    check_with(
        training_job().created("2026-08-01T12:00:00Z"),
        Activity::Active(time(NOW)),
        &stops,
        "mark lifetime=stop",
    );
    check_with(endpoint().created("2026-08-01T12:00:00Z"), Activity::Active(time(NOW)), &stops, "skip busy");
    check_with(
        notebook().created("2026-08-01T12:00:00Z").modified("2026-08-31T12:00:00Z"),
        unknown(UnknownActivity::Unmeasured),
        &stops,
        "skip compliant",
    );
}

#[test]
fn an_endpoint_in_production_is_skipped_with_its_reason() {
    let spared = |change: fn(&mut model::sagemaker::EndpointFacts), reason: &str| {
        check(endpoint().facts(change), inactive(), &format!("skip {reason}"));
        check(endpoint().facts(change).untagged(), inactive(), &format!("skip {reason}"));
    };
    spared(|facts| facts.is_autoscaled = Some(true), "autoscaled");
    spared(|facts| facts.is_autoscaled = None, "usage-unknown");
    spared(|facts| facts.variants.push("canary".to_owned()), "several-variants");
    spared(|facts| facts.variants.clear(), "several-variants");
    spared(|facts| facts.signs = [ProductionSign::ShadowVariants].into(), "shadow-variants");
    spared(|facts| facts.signs = [ProductionSign::AsyncInference].into(), "async-inference");
    spared(|facts| facts.signs = [ProductionSign::Serverless].into(), "serverless");
    spared(|facts| facts.signs = [ProductionSign::InferenceComponents].into(), "inference-components");
    check(endpoint().modified("2026-08-31T12:00:01Z"), inactive(), "skip recently-changed");
    check(endpoint().status(SageMakerStatus::Changing), inactive(), "skip not-running");
    check(
        endpoint().with(|endpoint| endpoint.kind = SageMakerKind::Endpoint { facts: None }),
        inactive(),
        "skip usage-unknown",
    );
    for key in ["aws:cloudformation:stack-name", "sagemaker-pipeline-execution-arn", "sagemaker:pipeline-name"] {
        check(endpoint().tag(key, "x"), inactive(), "skip foreign-owned");
    }
    check(endpoint().facts(|facts| facts.config = None), inactive(), "notify idle no-configuration");
}

#[test]
fn an_unused_inference_component_is_scaled_to_zero_where_that_frees_instances() {
    let scales = format!("{ENFORCE}component_action = \"scale-to-zero\"\n");
    let check =
        |builder: SageMakerBuilder, activity: Activity, expect: &str| check_with(builder, activity, &scales, expect);
    let busy = || Activity::Active(time(NOW));
    let one = inference_component;
    check(one(), inactive(), "mark idle=stop");
    check(one(), busy(), "skip busy");
    check(one(), unknown(UnknownActivity::NotAsked), "skip usage-unknown");
    check(one().component(|one| one.is_autoscaled = Some(true)), inactive(), "skip autoscaled");
    check(one().component(|one| one.is_autoscaled = None), inactive(), "skip usage-unknown");
    check(one().component(|one| one.frees_instances = false), inactive(), "notify idle keeps-instances");
    check(one().modified("2026-08-31T12:00:01Z"), inactive(), "skip recently-changed");
    check(one().status(SageMakerStatus::Stopped), inactive(), "skip not-running");
    check(one().tag("curfew:on-idle", "notify"), inactive(), "notify idle configured");
    check(one().tag("curfew:expires-at", "2026-09-01T11:00:00Z"), busy(), "stop expired");
    check(one().created("2026-07-01T12:00:00Z"), busy(), "skip busy");
    check(one().tag(MARKED, "idle=stop@2026-09-01T11:00:00Z"), inactive(), "stop idle");
    check_with(one(), inactive(), ENFORCE, "notify idle configured");
    check_with(one().tag("curfew:on-idle", "stop"), inactive(), ENFORCE, "mark idle=stop");
    assert_eq!(over_budget(one(), busy(), &scales, "2026-09-01T11:45:00Z"), "notify over-budget busy");
    assert_eq!(over_budget(one(), inactive(), &scales, "2026-09-01T11:45:00Z"), "mark over-budget=stop idle=stop");
    let observed = one().tag("curfew:hours", "Mon-Fri 08:00-10:00 UTC");
    check(observed, busy(), "notify hours cannot-be-stopped");
}

#[test]
fn tags_that_exempt_come_first() {
    check(app().tag("curfew:protected", ""), inactive(), "skip protected");
    check(app().tag("curfew:keep-until", "2026-09-30"), inactive(), "skip kept");
    check(app().tag("curfew:on-idle", "kill"), inactive(), "skip unreadable");
    check(app().tag("Curfew:Protected", ""), inactive(), "skip unreadable");
}

#[test]
fn an_announced_deletion_is_carried_out_once_its_deadline_has_passed() {
    let mark = "idle=delete@2026-09-01T11:00:00Z";
    check(app().tag(MARKED, mark), inactive(), "delete idle");
    check(app().tag(MARKED, mark), unknown(UnknownActivity::HealthCheck), "skip marked");
    check(app().tag(MARKED, mark), Activity::Active(time(NOW)), "unmark idle");
    // Nothing was announced: a mark proves nothing, however it came there.
    let forged = NotificationLogs::from([("us-east-1".into(), NotificationLog::default())]);
    assert_eq!(words(&decided(app().tag(MARKED, mark), inactive(), ENFORCE, &forged, NOW)), "mark idle=delete");
    // Announced, and somebody removed the mark, or wrote another: it is written before the deletion.
    let app = app().tag(MARKED, mark).build();
    let announced = NotificationLogs::from([("us-east-1".into(), logged(&app))]);
    let relabelled = |tags: &[(&str, &str)]| {
        let builder = tags.iter().fold(model::fixture::app(), |builder, (key, value)| builder.tag(key, value));
        let plan = decided(builder, inactive(), ENFORCE, &announced, NOW);
        (words(&plan), plan.steps[0].already_notified)
    };
    assert_eq!(relabelled(&[]), ("mark idle=delete".to_owned(), true));
    assert_eq!(relabelled(&[(MARKED, "yes")]), ("delete idle".to_owned(), false));
    // Announced before somebody changed the endpoint.
    let old = "idle=delete@2026-08-20T11:00:00Z";
    check(
        endpoint().created("2026-08-01T12:00:00Z").modified("2026-08-25T12:00:00Z").tag(MARKED, old),
        inactive(),
        "mark idle=delete",
    );
}

#[test]
fn an_announcement_is_forgotten_after_a_week_and_after_an_exemption() {
    let marked =
        |deadline: &str| endpoint().created("2026-08-01T12:00:00Z").tag(MARKED, &format!("idle=delete@{deadline}"));
    let scaled = |deadline: &str| marked(deadline).facts(|facts| facts.is_autoscaled = Some(true));
    check(scaled("2026-08-27T12:00:00Z"), inactive(), "skip autoscaled");
    check(marked("2026-08-27T12:00:00Z"), inactive(), "delete idle");
    check(marked("2026-08-25T11:00:00Z"), inactive(), "mark idle=delete");
    check(marked("2026-08-27T12:00:00Z").tag("curfew:keep-until", "2026-08-31"), inactive(), "mark idle=delete");
}

#[test]
fn above_the_limits_nothing_is_done() {
    let one = |number: usize| {
        let id = format!("endpoint/llm-{number}");
        endpoint().id(&id).tag(MARKED, "idle=delete@2026-09-01T11:00:00Z").build()
    };
    let held = |count: usize| {
        let seen = ObservedSageMaker { items: (0..count).map(one).collect(), gaps: Vec::new() };
        let activities = seen.items.iter().map(|one| ((one.region.clone(), one.id.clone()), inactive())).collect();
        let resources = seen.items.iter().flat_map(|one| logged(one).resources).collect();
        let memory =
            NotificationLogs::from([("us-east-1".into(), NotificationLog { resources, ..NotificationLog::default() })]);
        let plan = decide(&seen, &activities, &memory, &enforcing(ENFORCE), time(NOW));
        assert_eq!(plan.steps.len(), count);
        plan.steps.iter().filter_map(|step| step.held.map(|held| held.to_string())).collect::<Vec<_>>()
    };
    assert_eq!(held(9).len(), 0);
    assert_eq!(held(11).len(), 11);
    assert!(held(11)[0].starts_with("11 of 11 SageMaker resources are due at once"), "{:?}", held(11)[0]);
}

#[test]
fn an_explanation_has_the_decision_of_a_run() {
    let resource = endpoint().facts(|facts| facts.is_autoscaled = Some(true)).build();
    let seen = ObservedSageMaker { items: vec![resource.clone()], gaps: Vec::new() };
    let place = (&resource.region, &resource.id);
    let policy = enforcing(ENFORCE);
    let explained = explain(&seen, &Activities::new(), &NotificationLogs::new(), &policy, time(NOW), place).unwrap();
    let skipped = explained.skipped.unwrap();
    assert_eq!(skipped.reason, SkipReason::Autoscaled);
    assert!(skipped.words.contains("Application Auto Scaling"), "{}", skipped.words);
    assert_eq!(explained.rules.len(), Rule::RUNNING.len());
    assert_eq!(explained.target.what, "SageMaker endpoint, ml.g5.xlarge");
}

#[test]
fn a_scan_lists_idle_and_unjudged_resources() {
    let builders = [
        app(),
        notebook(),
        endpoint().facts(|facts| facts.signs = [ProductionSign::AsyncInference].into()),
        training_job(),
    ];
    let seen: Vec<_> = builders.into_iter().map(SageMakerBuilder::build).collect();
    let activities = seen.iter().map(|one| ((one.region.clone(), one.id.clone()), inactive())).collect();
    let findings = scan(&seen, &activities, &enforcing(""), time(NOW)).items;
    let findings: Vec<_> = findings.iter().map(|one| (one.resource.as_str(), one.kinds[0].as_str())).collect();
    assert_eq!(
        findings,
        [
            ("app/d-abc/lab/jupyterlab/default", "idle"),
            ("notebook-instance/research", "uninstrumented"),
            ("training-job/bert", "idle")
        ]
    );
}

/// The effect of a spent budget on a resource with this activity, by a document of that time.
fn over_budget(builder: SageMakerBuilder, activity: Activity, config: &str, as_of: &str) -> String {
    let status = BudgetStatus {
        verdict: BudgetVerdict::Stop,
        as_of: time(as_of),
        month: "2026-09".to_owned(),
        spent: Amount::from_usd(120.0),
        others: Amount::ZERO,
        reserved: Amount::ZERO,
    };
    let stops = format!("{config}[teams.vision]\nmonthly_budget_usd = 100\nover_budget = \"stop\"\n");
    let budgets = BudgetStatuses([(BudgetHolder::Team("vision".into()), status)].into());
    words(&decided_by(builder, activity, &Policy { budgets, ..enforcing(&stops) }, &NotificationLogs::new(), NOW))
}

#[test]
fn a_spent_budget_ends_what_loses_no_data_and_no_endpoint_that_serves() {
    let check = |builder: SageMakerBuilder, activity: Activity, config: &str, expect: &str| {
        assert_eq!(over_budget(builder, activity, config, "2026-09-01T11:45:00Z"), expect, "{config}");
    };
    let (busy, unmeasured) = (|| Activity::Active(time(NOW)), || unknown(UnknownActivity::Unmeasured));
    check(notebook(), unmeasured(), ENFORCE, "mark over-budget=stop");
    check(app(), busy(), ENFORCE, "mark over-budget=delete");
    check(app(), busy(), &format!("{ENFORCE}app_action = \"notify\"\n"), "notify over-budget configured");
    check(training_job(), busy(), ENFORCE, "mark over-budget=stop");
    check(training_job().job(JobKind::Tuning), unmeasured(), ENFORCE, "mark over-budget=stop");
    check(endpoint(), busy(), ENFORCE, "notify over-budget busy");
    check(endpoint(), unknown(UnknownActivity::NotAsked), ENFORCE, "skip usage-unknown");
    check(endpoint(), inactive(), ENFORCE, "mark over-budget=delete idle=delete");
    check(endpoint().facts(|facts| facts.is_autoscaled = Some(true)), inactive(), ENFORCE, "skip autoscaled");
    let notifies = ENFORCE.replace("delete", "notify");
    check(endpoint(), busy(), &notifies, "notify over-budget configured");
    check(endpoint(), unknown(UnknownActivity::NotAsked), &notifies, "notify over-budget configured");
    // No more than SageMaker's mode, and the account's: the team has none of its own.
    check(notebook(), unmeasured(), "mode = \"enforce\"\n", "observe: mark over-budget=stop");
    check(notebook().tag("curfew:mode", "enforce"), unmeasured(), "", "observe: mark over-budget=stop");
    check(notebook().tag("curfew:protected", ""), unmeasured(), ENFORCE, "skip protected");
    let old = "2026-09-01T10:59:59Z";
    assert_eq!(over_budget(notebook(), unmeasured(), ENFORCE, old), "skip compliant");
}
