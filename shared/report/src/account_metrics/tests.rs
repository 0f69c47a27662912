use billing::ledger::CalendarMonth;
use billing::price::PriceBook;
use jiff::tz::TimeZone;
use model::fixture::{instance, time};
use model::money::Amount;
use serde_json::{Value, json};

use super::*;

const ACCOUNT: &str = "123456789012";
const NOW: &str = "2026-11-10T12:00:00.250Z";
const HOME: &str = "us-east-1";

fn spend(id: &str, team: Option<&str>, region: &str, rate: Option<f64>, spent: f64) -> Spend {
    Spend {
        resource: id.into(),
        region: region.into(),
        what: "g5.xlarge".to_owned(),
        ends: SavingAction::Stopping,
        on: None,
        name: None,
        owner: None,
        team: team.map(TeamName::from),
        job: None,
        spent: Amount::from_usd(spent),
        uncertain: Amount::ZERO,
        unpriced_seconds: 0,
        table: None,
        is_running: true,
        seen_until: time(NOW),
        rate: rate.map(Rate::from_usd_per_hour),
        lately: Amount::ZERO,
        since: BTreeMap::new(),
        folded: None,
    }
}

fn record(at: &str, steps: &Value, skipped: &Value, gaps: &Value) -> RunRecord {
    serde_json::from_value(json!({
        "function": "reap-instances", "run": "a", "at": at, "mode": "enforce", "regions": [HOME, "eu-west-1"], "seen": 9,
        "steps": steps, "skipped": skipped, "gaps": gaps,
    }))
    .unwrap()
}

fn idle_step(id: &str, saves: Option<f64>) -> Value {
    json!({
        "region": HOME, "resource": id, "what": "g5.xlarge", "team": "vision", "action": "stop",
        "evidence": { "rule": "idle", "since": "2026-11-10T10:00:00Z" }, "saves_usd_per_hour": saves, "outcome": "observed",
    })
}

/// The facts of one beat, to be changed by a test.
struct Beat {
    config: Config,
    spends: Option<Vec<Spend>>,
    looks: BTreeMap<Region, Option<Timestamp>>,
    instances: Vec<Instance>,
    machines: BTreeMap<ResourceId, MachineFacts>,
    judged: Option<RunRecord>,
    budgets: BTreeMap<BudgetHolder, Budget>,
}

impl Beat {
    /// One region that was seen, and nothing in it.
    fn new() -> Self {
        Self {
            config: Config::default(),
            spends: Some(Vec::new()),
            looks: BTreeMap::from([(HOME.into(), Some(time("2026-11-10T12:00:00Z")))]),
            instances: Vec::new(),
            machines: BTreeMap::new(),
            judged: Some(record("2026-11-10T11:57:00Z", &json!([]), &json!({}), &json!([]))),
            budgets: BTreeMap::new(),
        }
    }

    fn spends(self, spends: Vec<Spend>) -> Self {
        Self { spends: Some(spends), ..self }
    }

    fn machine(mut self, id: &str, gpus: u32, usage: LastUsage) -> Self {
        let mut machine = instance().id(id).build();
        machine.machine.accelerators = gpus;
        self.instances.push(machine);
        self.machines.insert(id.into(), MachineFacts { usage, ..MachineFacts::default() });
        self
    }

    fn metrics(&self) -> AccountMetrics {
        AccountMetrics::from_beat(&BeatFacts {
            account: ACCOUNT,
            now: time(NOW),
            config: &self.config,
            spends: self.spends.as_deref(),
            looks: self.looks.clone(),
            instances: &self.instances,
            machines: &self.machines,
            judged: self.judged.as_ref(),
            budgets: &self.budgets,
        })
    }
}

/// All values of a metric, as `Team=vision 1.5`, without `Account`'s number.
fn shown(metrics: &AccountMetrics, metric: Metric) -> Vec<String> {
    let values = metrics.values.iter().filter_map(|(dimension, values)| Some((dimension, values.get(&metric)?)));
    let show = |(dimension, value): (&Dimension, &f64)| match dimension {
        Dimension::Account(account) => {
            assert_eq!(account, ACCOUNT);
            format!("{value}")
        }
        other => format!("{}={} {value}", other.name(), other.value()),
    };
    values.map(show).collect()
}

#[test]
fn what_runs_is_summed_for_the_account_by_team_and_by_region() {
    let metrics = Beat::new()
        .spends(vec![
            spend("i-1", Some("vision"), HOME, Some(1.5), 9.0),
            spend("i-2", Some("nlp"), HOME, Some(0.5), 1.0),
            spend("i-3", None, HOME, Some(0.25), 1.0),
            Spend { is_running: false, ..spend("i-4", Some("past"), HOME, None, 2.0) },
        ])
        .metrics();
    assert_eq!(
        shown(&metrics, Metric::SpendUsdPerHour),
        ["2.25", "Team=(no team) 0.25", "Team=nlp 0.5", "Team=past 0", "Team=vision 1.5", "Region=us-east-1 2.25"]
    );
    assert_eq!(shown(&metrics, Metric::SpendUnpricedResources), ["0"]);
}

#[test]
fn an_unknown_price_is_counted_and_is_no_zero() {
    let metrics = Beat::new()
        .spends(vec![
            spend("i-1", Some("vision"), HOME, Some(1.5), 9.0),
            spend("i-2", Some("vision"), HOME, None, 0.0),
            spend("i-3", Some("nlp"), HOME, None, 1.0),
        ])
        .metrics();
    assert_eq!(shown(&metrics, Metric::SpendUsdPerHour), ["1.5", "Team=vision 1.5", "Region=us-east-1 1.5"]);
    assert_eq!(
        shown(&metrics, Metric::SpendUnpricedResources),
        ["2", "Team=nlp 1", "Team=vision 1", "Region=us-east-1 2"]
    );
}

#[test]
fn what_a_run_did_not_see_is_not_published_as_known() {
    // The ledger says that it ran when somebody looked the last time.
    let mut beat = Beat::new().spends(vec![
        spend("i-1", Some("vision"), HOME, Some(1.5), 9.0),
        spend("i-2", Some("nlp"), "eu-west-1", Some(7.0), 9.0),
    ]);
    beat.looks.insert("eu-west-1".into(), Some(time("2026-11-10T11:00:00Z")));
    let metrics = beat.metrics();
    assert_eq!(shown(&metrics, Metric::SpendUsdPerHour), ["1.5", "Team=vision 1.5", "Region=us-east-1 1.5"]);
    assert_eq!(shown(&metrics, Metric::SpendUnpricedResources), ["1", "Team=nlp 1", "Region=eu-west-1 1"]);
    assert_eq!(shown(&metrics, Metric::GpusOfUnknownUse), ["1", "Team=nlp 1", "Region=eu-west-1 1"]);
    assert_eq!(shown(&metrics, Metric::SecondsSinceLastLook), ["3600", "Region=eu-west-1 3600", "Region=us-east-1 0"]);
    // A ledger that cannot be read: neither money nor use is known, and the age is that of what can be read.
    beat.spends = None;
    assert_eq!(shown(&beat.metrics(), Metric::SpendUsdPerHour), [""; 0]);
    assert_eq!(shown(&beat.metrics(), Metric::WasteUsdPerHour), [""; 0]);
    assert_eq!(shown(&beat.metrics(), Metric::IdleGpus), [""; 0]);
    beat.looks.insert("ap-south-1".into(), None);
    assert_eq!(
        shown(&beat.metrics(), Metric::SecondsSinceLastLook),
        ["3600", "Region=(others) 3600"],
        "without spend no region has series of its own, and the oldest look counts"
    );
}

#[test]
fn waste_is_what_the_newest_record_found_and_what_still_runs() {
    let mut beat = Beat::new().spends(vec![
        spend("i-idle", Some("vision"), HOME, Some(1.5), 9.0),
        spend("i-marked", Some("vision"), HOME, Some(2.0), 1.0),
        spend("i-kept", Some("vision"), HOME, Some(4.0), 1.0),
        spend("i-busy", Some("nlp"), HOME, Some(8.0), 1.0),
        spend("i-odd", Some("nlp"), HOME, None, 1.0),
    ]);
    let steps = json!([idle_step("i-idle", Some(1.5)), idle_step("i-gone", Some(16.0)), idle_step("i-odd", None)]);
    let skipped = json!({ "marked": ["i-marked", "i-gone-too"], "kept": ["i-kept"], "busy": ["i-busy"] });
    beat.judged = Some(record("2026-11-10T11:57:00Z", &steps, &skipped, &json!([])));
    let metrics = beat.metrics();
    assert_eq!(shown(&metrics, Metric::WasteUsdPerHour), ["3.5", "Team=vision 3.5", "Region=us-east-1 3.5"]);
    assert_eq!(shown(&metrics, Metric::WasteUnpricedResources), ["1", "Team=nlp 1", "Region=us-east-1 1"]);
    assert_eq!(shown(&metrics, Metric::SecondsSinceLastLook), ["180", "Region=us-east-1 0"]);
}

#[test]
fn waste_is_unknown_without_a_recent_judgement() {
    let beat = || Beat::new().spends(vec![spend("i-1", Some("vision"), HOME, Some(1.5), 9.0)]);
    let check = |judged: Option<RunRecord>, waste: &[&str], unknown: &[&str], age: &[&str]| {
        let metrics = Beat { judged, ..beat() }.metrics();
        assert_eq!(shown(&metrics, Metric::WasteUsdPerHour), waste);
        assert_eq!(shown(&metrics, Metric::WasteUnpricedResources), unknown);
        assert_eq!(shown(&metrics, Metric::SecondsSinceLastLook), age);
    };
    let nothing = |at: &str, gaps: Value| Some(record(at, &json!([]), &json!({}), &gaps));
    let gap = |region: &str, call: &str| json!([{ "region": region, "call": call, "error": "denied" }]);
    let (zero, all) = (["0", "Team=vision 0", "Region=us-east-1 0"], ["1", "Team=vision 1", "Region=us-east-1 1"]);
    check(nothing("2026-11-10T11:59:00Z", json!([])), &zero, &["0"], &["60", "Region=us-east-1 0"]);
    check(nothing("2026-11-10T10:00:00Z", json!([])), &[], &[], &["7200", "Region=us-east-1 0"]);
    check(None, &[], &[], &["Region=us-east-1 0"]);
    // It could not see the instances, or not recall what it had announced.
    let age = ["60", "Region=us-east-1 0"];
    check(nothing("2026-11-10T11:59:00Z", gap(HOME, "ec2:DescribeInstances")), &[], &all, &age);
    check(nothing("2026-11-10T11:59:00Z", gap(HOME, "s3:GetObject")), &[], &all, &age);
    check(nothing("2026-11-10T11:59:00Z", gap(HOME, "sns:ListSubscriptionsByTopic")), &zero, &["0"], &age);
    check(nothing("2026-11-10T11:59:00Z", gap("eu-west-1", "ec2:DescribeInstances")), &zero, &["0"], &age);
}

#[test]
fn idle_accelerators_are_counted_where_their_use_is_known() {
    let at = time("2026-11-10T11:55:00Z");
    let beat = Beat::new()
        .spends(vec![spend("i-1", Some("vision"), HOME, Some(1.5), 9.0)])
        .machine("i-1", 8, LastUsage::Idle(at))
        .machine("i-2", 4, LastUsage::Busy(at))
        .machine("i-3", 2, LastUsage::Unknown);
    let team = shown(&beat.metrics(), Metric::IdleGpus);
    assert_eq!(team.first().map(String::as_str), Some("8"));
    assert!(team.contains(&"Region=us-east-1 8".to_owned()), "{team:?}");
    assert_eq!(shown(&beat.metrics(), Metric::GpusOfUnknownUse).first().map(String::as_str), Some("2"));
    let unknown = Beat::new().machine("i-3", 2, LastUsage::Unknown);
    assert_eq!(shown(&unknown.metrics(), Metric::IdleGpus), [""; 0]);
    assert_eq!(shown(&Beat::new().machine("i-3", 2, LastUsage::Busy(at)).metrics(), Metric::IdleGpus)[0], "0");
}

#[test]
fn the_highest_forecast_counts_and_an_old_one_is_unknown() {
    let budget = |usd: f64, forecast: Option<f64>, as_of: &str| Budget {
        budget_usd: Some(Amount::from_usd(usd)),
        forecast_usd: forecast.map(Amount::from_usd),
        as_of: Some(time(as_of)),
        ..Budget::default()
    };
    let now = "2026-11-10T12:00:00Z";
    let team = |name: &str| BudgetHolder::Team(name.into());
    let mut beat = Beat::new().spends(vec![spend("i-1", Some("vision"), HOME, Some(1.5), 9.0)]);
    assert_eq!(shown(&beat.metrics(), Metric::BudgetsWithoutForecast), [""; 0], "there is no budget");
    beat.budgets = BTreeMap::from([
        (BudgetHolder::Account, budget(100.0, Some(60.0), now)),
        (team("vision"), budget(10.0, Some(12.5), now)),
        (team("nlp"), budget(10.0, Some(5.0), now)),
        (team("old"), budget(1.0, Some(90.0), "2026-11-10T11:45:00Z")),
        (team("new"), budget(10.0, None, now)),
        (team("none"), Budget { as_of: Some(time(now)), ..Budget::default() }),
        (team("nothing"), budget(0.0, Some(5.0), now)),
    ]);
    let metrics = beat.metrics();
    assert_eq!(shown(&metrics, Metric::BudgetForecastPercent), ["125", "Team=(others) 50", "Team=vision 125"]);
    assert_eq!(shown(&metrics, Metric::BudgetsWithoutForecast), ["3"]);
}

#[test]
fn held_jobs_are_counted_by_team_unless_one_is_unknown() {
    let (vision, nlp, audio) = ("vision".into(), "nlp".into(), "audio".into());
    let jobs = [(&vision, Some(true)), (&vision, Some(true)), (&nlp, Some(false))];
    let metrics = AccountMetrics::from_jobs(ACCOUNT, jobs.into_iter());
    assert_eq!(shown(&metrics, Metric::HeldJobs), ["2", "Team=nlp 0", "Team=vision 2"]);
    let metrics = AccountMetrics::from_jobs(ACCOUNT, jobs.into_iter().chain([(&audio, None)]));
    assert_eq!(shown(&metrics, Metric::HeldJobs), ["Team=nlp 0", "Team=vision 2"]);
    assert_eq!(shown(&AccountMetrics::from_jobs(ACCOUNT, std::iter::empty()), Metric::HeldJobs), ["0"]);
}

fn month_facts() -> MonthFacts {
    MonthFacts {
        month: CalendarMonth::containing(time(NOW), &TimeZone::UTC),
        zone: TimeZone::UTC,
        now: time(NOW),
        ledgers: Vec::new(),
        unread_ledgers: 0,
        previous_ledgers: Vec::new(),
        unread_previous_ledgers: 0,
        budgets: BTreeMap::new(),
        prices: PriceBook::dated(),
        days: Vec::new(),
        runs: BTreeMap::new(),
        newest: Vec::new(),
        jobs: Vec::new(),
        attempts: BTreeMap::new(),
        checkpoints: crate::StoredCheckpoints::default(),
        usage: None,
        gaps: Vec::new(),
    }
}

#[test]
fn savings_are_the_rates_that_still_count() {
    let mut condenser = crate::DayCondenser::default();
    let mut stop = |id: &str, team: &str, at: &str, saves: Option<f64>| {
        let text = json!({
            "schema": 1, "function": "reap-instances", "run": id, "at": at, "mode": "enforce", "usage": null,
            "steps": [{ "region": HOME, "resource": id, "what": "g5.xlarge", "name": null, "team": team, "action": "stop",
                        "evidence": { "rule": "idle" }, "saves_usd_per_hour": saves, "outcome": "done" }],
        });
        condenser.add(&serde_json::from_str(&text.to_string()).unwrap());
    };
    stop("i-1", "vision", "2026-11-09T12:00:00Z", Some(1.5));
    stop("i-2", "nlp", "2026-11-10T10:00:00Z", None);
    stop("i-3", "vision", "2026-11-01T12:00:00Z", Some(9.0));
    let facts = MonthFacts { days: vec![condenser.finish()], ..month_facts() };
    let metrics = AccountMetrics::from_month(ACCOUNT, &facts);
    assert_eq!(shown(&metrics, Metric::SavedUsdPerHour), ["1.5", "Team=vision 1.5"]);
    assert_eq!(shown(&metrics, Metric::SavedUnpricedResources), ["1", "Team=nlp 1"]);
    for unknown in [
        MonthFacts { unread_ledgers: 1, ..month_facts() },
        MonthFacts { unread_previous_ledgers: 1, ..month_facts() },
        MonthFacts { gaps: vec!["the audit records of a day".to_owned()], ..month_facts() },
        MonthFacts { now: time("2026-12-01T06:00:00Z"), ..month_facts() },
    ] {
        assert_eq!(AccountMetrics::from_month(ACCOUNT, &unknown), AccountMetrics::default());
    }
}

#[test]
fn the_number_of_series_is_bounded_whatever_people_tag() {
    let at = time("2026-11-10T11:55:00Z");
    let mut beat = Beat::new();
    let mut spends = Vec::new();
    for index in 0..100 {
        let (team, region) = (format!("team-{index}"), format!("region-{}", index % 30));
        beat.looks.insert(region.as_str().into(), Some(time("2026-11-10T12:00:00Z")));
        for (id, rate) in [(format!("i-{index}"), Some(1.0)), (format!("i-{index}-odd"), None)] {
            let team = (index > 0).then_some(team.as_str());
            spends.push(spend(&id, team, &region, rate, 1.0));
            let machine = instance().id(&id).region(&region).tag("Team", team.unwrap_or_default());
            let mut machine = machine.build();
            machine.machine.accelerators = 1;
            beat.instances.push(machine);
            let usage = if rate.is_some() { LastUsage::Idle(at) } else { LastUsage::Unknown };
            beat.machines.insert(id.as_str().into(), MachineFacts { usage, ..MachineFacts::default() });
        }
        let budget = Budget {
            budget_usd: Some(Amount::from_usd(1.0)),
            forecast_usd: Some(Amount::from_usd(1.0)),
            as_of: Some(time("2026-11-10T12:00:00Z")),
            ..Budget::default()
        };
        beat.budgets.insert(BudgetHolder::Team(team.as_str().into()), budget);
    }
    let regions: Vec<String> = (0..30).map(|index| format!("region-{index}")).collect();
    let steps: Vec<Value> =
        spends.iter().map(|one| idle_step(one.resource.as_str(), one.rate.map(Rate::usd_per_hour))).collect();
    let judged = record("2026-11-10T11:57:00Z", &json!(steps), &json!({}), &json!([]));
    beat.judged = Some(RunRecord { regions: regions.iter().map(|region| region.as_str().into()).collect(), ..judged });
    let metrics = beat.spends(spends).metrics();
    let teams: Vec<TeamName> = (0..100).map(|index| format!("team-{index}").as_str().into()).collect();
    let held = AccountMetrics::from_jobs(ACCOUNT, teams.iter().map(|team| (team, Some(true))));
    let daily = 2 * (1 + TEAMS_MAX + 2);
    assert_eq!(metrics.series() + held.series(), u64::try_from(SERIES_MAX - daily).unwrap(), "{metrics:?}");
    let labels: BTreeSet<&Dimension> = metrics.values.keys().collect();
    assert_eq!(labels.len(), 1 + TEAMS_MAX + 2 + REGIONS_MAX + 1);
}

#[test]
fn a_line_is_what_the_embedded_metric_format_asks_for() {
    let metrics = Beat::new().spends(vec![spend("i-1", Some("für \"x\""), HOME, Some(1.5), 9.0)]).metrics();
    let lines: Vec<Value> = metrics.to_emf_lines(time(NOW)).map(|line| serde_json::from_str(&line).unwrap()).collect();
    let mut series = 0;
    for line in &lines {
        let [directive] = line["_aws"]["CloudWatchMetrics"].as_array().unwrap().as_slice() else { panic!("{line}") };
        assert_eq!(
            (&directive["Namespace"], line["_aws"]["Timestamp"].as_i64()),
            (&json!("Curfew/Account"), Some(1_794_312_000_250))
        );
        let [[dimension]] = serde_json::from_value::<[[String; 1]; 1]>(directive["Dimensions"].clone()).unwrap();
        assert!(line[&dimension].as_str().is_some_and(|value| !value.is_empty() && value.is_ascii()));
        let named = directive["Metrics"].as_array().unwrap();
        for metric in named {
            assert!(line[metric["Name"].as_str().unwrap()].is_f64(), "{line}");
            assert!(["None", "Count", "Percent", "Seconds"].contains(&metric["Unit"].as_str().unwrap()), "{line}");
        }
        assert_eq!(line.as_object().unwrap().len(), named.len() + 2);
        series += named.len();
    }
    assert_eq!(u64::try_from(series).unwrap(), metrics.series());
    assert!(lines.iter().any(|line| line["Team"] == "f%C3%BCr %22x%22"));
}
