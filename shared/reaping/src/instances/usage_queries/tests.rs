//! The instances that a run pays to query, and the time of the queries. Runs are 5 minutes apart; it is noon.

use jiff::SignedDuration;
use model::curfew_tags::MARKED;
use model::instance::Tags;
use model::notification_log::{NotificationEntry, NotificationKey};
use model::usage::{BasicUse, DeviceReport, MetricSeries, MetricSignal};

use super::*;
use crate::fixture::{
    InstanceBuilder, NOW, busy, enforcing, idle, idle_by_power, instance, record_of_labels, reserved, time, unknown,
    untagged,
};

const ENFORCED: &str = "mode = \"enforce\"";
const UNTAGGED_ENFORCED: &str = "[untagged]\nmode = \"enforce\"";

/// One instance, and what is remembered of it.
struct KnownUsage {
    instance: Instance,
    policy: Policy,
    activity: ActivityCache,
    memory: NotificationLogs,
}

fn known(builder: InstanceBuilder, config: &str) -> KnownUsage {
    let memory = NotificationLogs::from([("us-east-1".into(), NotificationLog::default())]);
    KnownUsage { instance: builder.build(), policy: enforcing(config), activity: ActivityCache::default(), memory }
}

fn clock(text: &str) -> Timestamp {
    time(&format!("2026-09-01T{text}:00Z"))
}

impl KnownUsage {
    /// A query at noon had this answer.
    fn answered(self, usage: &Usage) -> Self {
        self.with_result(NOW, QueryResult::Answered(usage.clone(), None))
    }

    fn with_result(mut self, at: &str, result: QueryResult) -> Self {
        self.activity = self.learn(at, result).activity;
        self
    }

    /// The usage after a full query with this answer.
    fn learn(&self, at: &str, result: QueryResult) -> LearnedUsage {
        let window = UsageWindow::ending_before(time(at), self.policy.config.idle.window);
        let asks = [UsageQuery::in_full(&self.instance, window)];
        let result = BTreeMap::from([(self.instance.id.clone(), result)]);
        learn_usage(&[&self.instance], &asks, result, &self.activity, &self.policy, time(at))
    }

    /// `idle=stop@2026-09-01T12:20:00Z`
    fn announced(mut self, mode: Mode, mark: &str) -> Self {
        let tags = Tags::from([(MARKED.to_owned(), mark.to_owned())]);
        let mut record = record_of_labels(self.instance.launched_at, &tags);
        record.announced.values_mut().for_each(|announced| announced.mode = mode);
        let log = self.memory.get_mut("us-east-1").unwrap();
        log.resources.insert(self.instance.id.clone(), record);
        self
    }

    fn shadow_marked(self, mark: &str) -> Self {
        self.announced(Mode::Observe, mark)
    }

    fn notified(mut self, topic: NotificationKey, what: &str) -> Self {
        let log = self.memory.get_mut("us-east-1").unwrap();
        let notified = NotificationEntry { at: time(NOW), what: what.to_owned() };
        log.resources.entry(self.instance.id.clone()).or_default().notified.insert(topic, notified);
        self
    }

    fn ask(&self, at: &str) -> Option<UsageQuery<'_>> {
        usage_queries(&[&self.instance], &self.activity, &self.memory, &self.policy, clock(at)).pop()
    }

    fn is_asked(&self, at: &str) -> bool {
        self.ask(at).is_some()
    }

    /// The usage of the instance if no query asks.
    fn cached_usage(&self, at: &str) -> Usage {
        let no_results = BTreeMap::new();
        let learned = learn_usage(&[&self.instance], &[], no_results, &self.activity, &self.policy, clock(at));
        learned.usages[&self.instance.id].clone()
    }
}

/// Checks which run after noon is the first to query it.
fn check(known: &KnownUsage, expect: Option<&str>) {
    let runs = (1..=36).map(|run| time(NOW) + SignedDuration::from_mins(5 * run));
    let runs = runs.map(|at| at.strftime("%H:%M").to_string());
    let found = runs.into_iter().find(|at| known.is_asked(at));
    assert_eq!(found.as_deref(), expect);
}

#[test]
fn an_instance_without_memory_is_queried_soon() {
    check(&known(instance(), ""), Some("12:05"));
    check(&known(instance(), ENFORCED), Some("12:05"));
}

#[test]
fn busy_ones_not_before_they_can_have_become_idle() {
    // Busy until 11:55: a window of an hour that ends 10 minutes ago can be quiet at 13:05.
    check(&known(instance(), ENFORCED).answered(&busy()), Some("13:05"));
    check(&known(instance(), "").answered(&busy()), Some("13:05"));
    check(&known(instance(), "[idle]\nwindow = \"2h\"").answered(&busy()), Some("14:05"));
}

#[test]
fn a_window_that_is_shortened_is_not_waited_for() {
    let mut shortened = known(instance(), "[idle]\nwindow = \"2h\"").answered(&busy());
    shortened.instance.tags.insert("curfew:idle-after".to_owned(), "15m".to_owned());
    check(&shortened, Some("12:30"));
}

#[test]
fn unknown_observed_and_notify_only_instances_once_a_window() {
    check(&known(instance(), ENFORCED).answered(&unknown()), Some("13:00"));
    let observed = || known(instance(), "").answered(&idle());
    check(&observed().shadow_marked("idle=stop@2026-09-01T18:00:00Z"), Some("13:00"));
    check(&observed(), Some("12:05"));
    check(&known(instance(), "mode = \"enforce\"\n[idle]\naction = \"notify\"").answered(&idle()), Some("13:00"));
    check(&known(instance(), ENFORCED).answered(&reserved()), Some("13:00"));
    check(&known(instance().tag("eks:cluster-name", "ml"), ENFORCED).answered(&idle()), Some("13:00"));
}

#[test]
fn what_is_to_be_enforced_from_now_on_is_not_waited_for() {
    let observed = || known(instance(), "").shadow_marked("idle=stop@2026-09-01T18:00:00Z");
    let mut opted_in = observed().answered(&idle());
    opted_in.instance.tags.insert("curfew:mode".to_owned(), "enforce".to_owned());
    check(&opted_in, Some("12:05"));
    let mut still_quiet = observed().answered(&idle()).with_result("2026-09-01T13:00:00Z", QueryResult::NoWork);
    still_quiet.instance.tags.insert("curfew:mode".to_owned(), "enforce".to_owned());
    assert_eq!(still_quiet.ask("13:05").map(|ask| ask.depth), Some(QueryDepth::Full));
    let mut allowed = known(instance().instance_storage(250), ENFORCED).answered(&idle());
    check(&allowed, Some("13:00"));
    allowed.instance.tags.insert("curfew:local-disk".to_owned(), "expendable".to_owned());
    check(&allowed, Some("12:05"));
}

#[test]
fn what_lacks_its_tags_is_announced_as_soon_as_it_does() {
    let lost = |usage: &Usage| {
        let mut known = known(instance(), ENFORCED).answered(usage);
        known.instance.tags.remove("Owner");
        known
    };
    check(&lost(&unknown()), Some("12:05"));
    check(&lost(&busy()), Some("13:05"));
    check(&lost(&unknown()).shadow_marked("untagged=stop@2026-09-02T12:00:00Z"), Some("13:00"));
    let mut enforced = lost(&unknown()).shadow_marked("untagged=stop@2026-09-02T12:00:00Z");
    enforced.instance.tags.insert("curfew:mode".to_owned(), "enforce".to_owned());
    check(&enforced, Some("12:05"));
    let mut cluster_member = lost(&unknown());
    cluster_member.instance.tags.insert("eks:cluster-name".to_owned(), "ml".to_owned());
    check(&cluster_member, Some("13:00"));
}

#[test]
fn idle_and_marked_ones_in_every_run() {
    check(&known(instance(), ENFORCED).answered(&idle()), Some("12:05"));
    let marked = |usage: &Usage, mark| known(instance(), ENFORCED).answered(usage).announced(Mode::Enforce, mark);
    check(&marked(&busy(), "idle=stop@2026-09-01T13:00:00Z"), Some("12:05"));
    check(&marked(&unknown(), "idle=stop@2026-09-01T13:00:00Z"), Some("12:05"));
    check(&marked(&busy(), "lifetime=stop@2026-09-01T13:00:00Z"), Some("13:05"));
    // A mark costs no query.
    let forged = instance().tag(MARKED, "idle=stop@2026-09-01T13:00:00Z");
    check(&known(forged, ENFORCED).answered(&busy()), Some("13:05"));
}

#[test]
fn what_is_only_observed_also_at_its_deadline() {
    let observed = || known(instance(), "").answered(&idle()).shadow_marked("idle=stop@2026-09-01T12:20:00Z");
    check(&observed(), Some("12:20"));
    check(&observed().notified(NotificationKey::would(Rule::Idle), "stop@2026-09-01T12:20:00Z"), Some("13:00"));
}

#[test]
fn young_ones_not_before_they_can_be_judged() {
    check(&known(instance().launched("2026-09-01T11:00:00Z"), ENFORCED), Some("12:40"));
    check(&known(instance().launched("2026-09-01T11:00:00Z").tag("curfew:idle-after", "5m"), ENFORCED), Some("12:05"));
}

#[test]
fn untagged_ones_even_when_young_because_work_spares_them() {
    check(&known(untagged().launched("2026-09-01T11:56:00Z"), ENFORCED), Some("12:10"));
    let indifferent = "[untagged]\nspare_busy = false";
    check(&known(untagged().launched("2026-09-01T11:56:00Z"), indifferent), Some("13:40"));
    let announced =
        known(untagged(), "").answered(&busy()).announced(Mode::Observe, "untagged=stop@2026-09-02T12:00:00Z");
    check(&announced, Some("13:05"));
    let enforced = known(untagged(), UNTAGGED_ENFORCED).answered(&busy());
    check(&enforced.announced(Mode::Enforce, "untagged=stop@2026-09-02T12:00:00Z"), Some("12:05"));
}

#[test]
fn skipped_or_stopped_instances_are_not_queried() {
    check(&known(instance().tag("curfew:protected", ""), ENFORCED), None);
    check(&known(instance().tag("curfew:keep-until", "2026-09-01"), ENFORCED), None);
    check(&known(instance().tag("curfew:idle-after", "soon"), ENFORCED), None);
    check(&known(instance().tag("curfew:idle-after", "off"), ENFORCED), None);
    check(&known(instance().state(InstanceState::Stopped), ENFORCED), None);
    check(&known(instance().state(InstanceState::Pending), ENFORCED), None);
    check(&known(untagged().tag("curfew:idle-after", "off"), ""), Some("12:05"));
}

#[test]
fn its_own_window_is_asked_for() {
    let own = instance().tag("curfew:idle-after", "30m").build();
    let known = known(instance(), "");
    let asks = usage_queries(&[&own], &known.activity, &known.memory, &known.policy, time(NOW));
    assert_eq!((asks[0].window.from, asks[0].window.to), (clock("11:20"), clock("11:50")));
}

#[test]
fn what_is_believed_of_one_that_was_not_asked_about() {
    let worked = || known(instance(), "").answered(&busy());
    assert_eq!(worked().cached_usage("12:05"), busy());
    assert_eq!(worked().cached_usage("13:00"), busy());
    assert_eq!(worked().cached_usage("13:05"), Usage::Unknown(UnknownUsage::NotAsked));
    assert_eq!(known(instance(), "").answered(&idle()).cached_usage("12:05"), Usage::Unknown(UnknownUsage::NotAsked));
    let mut restarted = worked();
    restarted.instance.launched_at = clock("12:02");
    assert_eq!(restarted.cached_usage("12:05"), Usage::Unknown(UnknownUsage::Young));
    let unreadable = known(instance().tag("curfew:mode", "on"), "").answered(&busy());
    assert_eq!(unreadable.cached_usage("12:05"), Usage::Unknown(UnknownUsage::NotAsked));
}

#[test]
fn silence_about_what_was_at_work_is_no_answer() {
    let silent = Usage::Unknown(UnknownUsage::Silent { devices: 1 });
    let after = |known: &KnownUsage| known.learn("2026-09-01T13:05:00Z", QueryResult::Answered(silent.clone(), None));
    let worked = known(instance(), "").answered(&busy());
    assert_eq!(after(&worked).usages["i-0abc"], Usage::Unknown(UnknownUsage::NotAsked));
    assert_eq!(after(&worked).activity, worked.activity, "nothing was learnt");
    assert_eq!(after(&known(instance(), "").answered(&idle())).usages["i-0abc"], silent);
    assert_eq!(after(&known(instance(), "")).usages["i-0abc"], silent);
}

/// Checks the depth of a query at 13:05, after this usage at noon and a last full query at `in_full_at`.
fn check_depth(known: KnownUsage, usage: &Usage, in_full_at: &str, expect: QueryDepth) {
    let mut known = known.answered(usage);
    for asked in known.activity.instances.values_mut() {
        asked.in_full_at = asked.in_full_at.map(|_| time(in_full_at));
    }
    assert_eq!(known.ask("13:05").map(|ask| ask.depth), Some(expect), "{usage:?} {in_full_at}");
}

#[test]
fn what_would_not_be_ended_is_asked_in_full_twice_a_day() {
    let notify_only = || known(instance(), "mode = \"enforce\"\n[idle]\naction = \"notify\"");
    let cluster_member = || known(instance().tag("eks:cluster-name", "ml"), ENFORCED);
    let observed = || known(instance(), "").shadow_marked("idle=stop@2026-09-01T18:00:00Z");
    for case in [observed, notify_only, cluster_member] {
        check_depth(case(), &idle(), NOW, QueryDepth::WorkOnly);
        check_depth(case(), &idle(), "2026-09-01T01:10:00Z", QueryDepth::WorkOnly);
        check_depth(case(), &idle(), "2026-09-01T01:05:00Z", QueryDepth::Full);
        check_depth(case(), &unknown(), NOW, QueryDepth::IfInstrumented);
        check_depth(case(), &unknown(), "2026-09-01T01:05:00Z", QueryDepth::Full);
        check_depth(case(), &busy(), NOW, QueryDepth::Full);
        check_depth(case(), &Usage::Unknown(UnknownUsage::Young), NOW, QueryDepth::Full);
    }
}

#[test]
fn what_would_be_ended_is_asked_in_full_unless_its_memory_is_held() {
    check_depth(known(instance(), ENFORCED), &idle(), NOW, QueryDepth::Full);
    check_depth(known(instance(), ENFORCED), &reserved(), NOW, QueryDepth::UnlessHeld);
    check_depth(known(instance(), ENFORCED), &reserved(), "2026-09-01T01:05:00Z", QueryDepth::Full);
    let marked = || known(instance(), ENFORCED).announced(Mode::Enforce, "idle=stop@2026-09-01T13:00:00Z");
    check_depth(marked(), &unknown(), NOW, QueryDepth::Full);
    let at_its_deadline = || known(instance(), "").shadow_marked("idle=stop@2026-09-01T12:20:00Z");
    check_depth(at_its_deadline(), &idle(), NOW, QueryDepth::Full);
    let lost_its_tags = || known(untagged(), UNTAGGED_ENFORCED);
    check_depth(lost_its_tags(), &unknown(), NOW, QueryDepth::Full);
}

#[test]
fn what_only_its_power_shows_is_asked_for_work_alone_until_it_is_enforced() {
    let depth = |config: &str| {
        let known = known(instance(), config).answered(&idle_by_power());
        check(&known, Some(if config.contains("power") { "12:05" } else { "13:00" }));
        known.ask("13:10").map(|ask| ask.depth)
    };
    assert_eq!(depth(ENFORCED), Some(QueryDepth::WorkOnly));
    assert_eq!(depth("mode = \"enforce\"\nidle.power = \"enforce\""), Some(QueryDepth::Full));
}

#[test]
fn the_last_days_are_asked_about_once_a_day() {
    let rested = BasicUse { days: 14, cpu_max_vcpus: 0.1, network_max_mbps: 0.1, disk_max_mbps: None, is_quiet: true };
    let seen = |basic: Option<&BasicUse>| {
        let report = DeviceReport { devices: 1, basic: basic.cloned().map(Box::new), ..DeviceReport::default() };
        QueryResult::Answered(Usage::Unknown(UnknownUsage::Uninstrumented(report)), None)
    };
    let known = known(instance().launched("2026-08-01T00:00:00Z"), ENFORCED).with_result(NOW, seen(Some(&rested)));
    let asks = |at: &str| {
        let queries = usage_queries(&[&known.instance], &known.activity, &known.memory, &known.policy, time(at));
        queries.first().map(|query| query.looks_back)
    };
    assert_eq!(asks("2026-09-02T00:30:00Z"), Some(false));
    assert_eq!(asks("2026-09-02T12:30:00Z"), Some(true));
    // In between its finding stays, so that its owner is notified once.
    let window = UsageWindow::ending_before(time("2026-09-02T00:30:00Z"), known.policy.config.idle.window);
    let query = UsageQuery { looks_back: false, ..UsageQuery::in_full(&known.instance, window) };
    let results = BTreeMap::from([(known.instance.id.clone(), seen(None))]);
    let at = time("2026-09-02T00:30:00Z");
    let learned = learn_usage(&[&known.instance], &[query], results, &known.activity, &known.policy, at);
    let Usage::Unknown(UnknownUsage::Uninstrumented(report)) = &learned.usages[&known.instance.id] else { panic!() };
    assert_eq!(report.basic.as_deref(), Some(&rested));
    assert_eq!(learned.activity.instances[&known.instance.id].looked_back.as_ref().unwrap().at, time(NOW));
}

#[test]
fn no_work_leaves_what_was_found_before() {
    let idled = known(instance(), "").answered(&idle());
    let learned = idled.learn("2026-09-01T13:00:00Z", QueryResult::NoWork);
    assert_eq!(learned.usages["i-0abc"], Usage::Unknown(UnknownUsage::NotAsked));
    let (before, after) = (&idled.activity.instances["i-0abc"], &learned.activity.instances["i-0abc"]);
    assert_eq!((before.found_idle_reserved, before.in_full_at), (after.found_idle_reserved, after.in_full_at));
    assert_eq!((after.at, after.in_full_at), (clock("13:00"), Some(time(NOW))));
    let announced = idled.shadow_marked("idle=stop@2026-09-01T18:00:00Z");
    let again = KnownUsage { activity: learned.activity, ..announced };
    assert_eq!((again.is_asked("13:55"), again.is_asked("14:00")), (false, true));
}

#[test]
fn what_showed_work_is_asked_about_first_the_next_time() {
    let series = MetricSeries { namespace: "CWAgent".to_owned(), metric: "gpu".to_owned(), dimensions: Vec::new() };
    let evidence = DecisiveSeries { signal: MetricSignal::Gpu(0), series };
    let worked = known(instance(), "").with_result(NOW, QueryResult::Answered(busy(), Some(evidence.clone())));
    assert_eq!(worked.ask("13:05").unwrap().likely, Some(evidence));
    let mut restarted = worked;
    restarted.instance.launched_at = clock("12:02");
    assert_eq!(restarted.ask("14:00").unwrap().likely, None, "that was another life");
}

#[test]
fn a_gone_instance_is_forgotten_and_one_without_an_answer_is_not() {
    let worked = known(instance(), "").answered(&busy());
    let learn = |seen: &[&Instance]| {
        learn_usage(seen, &[], BTreeMap::new(), &worked.activity, &worked.policy, clock("13:05")).activity
    };
    assert_eq!(learn(&[&worked.instance]), worked.activity);
    assert_eq!(learn(&[]), ActivityCache::default());
}

#[test]
fn an_inquiry_from_the_future_counts_as_lost() {
    for at in ["2026-09-01T12:00:01Z", "9999-12-30T22:00:00Z"] {
        let mut known = known(instance(), ENFORCED).answered(&unknown());
        let id = known.instance.id.clone();
        let asked = known.activity.instances.get_mut(&id).unwrap();
        *asked = LastInquiry { at: time(at), in_full_at: Some(time(at)), idle_not_before: time(at), ..asked.clone() };
        assert_eq!(
            usage_queries(&[&known.instance], &known.activity, &known.memory, &known.policy, time(NOW)).len(),
            1,
            "{at}"
        );
    }
}
