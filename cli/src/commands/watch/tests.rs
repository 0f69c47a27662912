//! Frames as a terminal shows them. It is noon on Tuesday, 2026-09-01.

use model::fixture::{NOW, time};
use operator::watch::{Dashboard, dashboard};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::Color;
use serde_json::json;

use super::frame::{draw, lines};
use super::palette::Palette;
use super::view::{RefreshStatus, View};

/// Two instances that are announced or kept, one that is stopped, and one budget; and the newest run of each function.
fn shown() -> Dashboard {
    use model::fixture::instance;
    let run = |function: &str, skipped: serde_json::Value, steps: serde_json::Value| {
        let record = json!({
            "function": function, "run": "5f1c2a7e", "at": "2026-09-01T11:55:00Z", "mode": "enforce", "seen": 4,
            "steps": steps, "skipped": skipped,
        });
        serde_json::from_value(record).unwrap()
    };
    let idle = json!([{
        "region": "us-east-1", "resource": "i-0123456789abcdef0", "action": "mark", "outcome": "done",
        "evidence": {"rule": "idle", "gpu_max_percent": 0.0, "to": "2026-09-01T11:45:00Z"},
    }]);
    let budget = json!({
        "team": "vision", "month": "2026-09", "as_of": "2026-09-01T11:50:00Z", "budget_usd": 5000, "spent_usd": 4210.13,
        "forecast_usd": 5900, "usd_per_hour": 56.05,
    });
    let mark = "idle=stop@2026-09-01T18:00:00Z";
    let instances = vec![
        instance()
            .id("i-0123456789abcdef0")
            .of_type("p5.48xlarge")
            .tag("Name", "llama-ft")
            .tag("curfew:marked", mark)
            .build(),
        instance()
            .id("i-0fedcba9876543210")
            .tag("Name", "\u{1b}[2J東京")
            .tag("curfew:keep-until", "2026-09-04")
            .build(),
        instance().id("i-00000000000000001").tag("Team", "nlp").build(),
        instance().id("i-00000000000000002").state(model::instance::InstanceState::Stopped).build(),
    ];
    let log = reaping::fixture::log_of_instances(&instances);
    dashboard(operator::watch::WatchFacts {
        now: time(NOW),
        regions: vec!["us-east-1".into()],
        instances,
        incomplete_regions: std::collections::BTreeSet::new(),
        activity: std::collections::BTreeMap::new(),
        notices: model::notification_log::NotificationLogs::from([("us-east-1".into(), log)]),
        config: model::config::Config::read(
            "mode = \"enforce\"\n[idle]\nlocal_disk = \"expendable\"\n[teams.vision]\nmonthly_budget_usd = 5000\n",
        )
        .unwrap(),
        prices: billing::price::PriceBook::dated(),
        budgets: std::collections::BTreeMap::from([(
            billing::budget::BudgetHolder::Team("vision".into()),
            serde_json::from_value(budget).unwrap(),
        )]),
        jobs: Vec::new(),
        job_states: reaping::job_ownership::JobStates::default(),
        runs: vec![
            run("reap-instances", json!({"busy": ["i-00000000000000001"]}), idle),
            run("reap-volumes", json!({}), json!([])),
            run("enforce-budgets", json!({}), json!([])),
            run("reap-sagemaker", json!({}), json!([])),
        ],
        subscriptions: None,
        problems: vec!["ec2:DescribeInstances failed in eu-west-1: access denied".to_owned()],
    })
}

fn screen(dashboard: Option<&Dashboard>, width: u16, height: u16, status: &RefreshStatus) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let mut view = View::default();
    let palette = Palette { has_colors: true };
    terminal.draw(|frame| draw(dashboard, &mut view, status, frame.buffer_mut(), palette)).unwrap();
    terminal
}

fn text(width: u16, height: u16) -> String {
    let status = RefreshStatus { as_of: Some(time(NOW)), is_refreshing: true, error: None };
    screen(Some(&shown()), width, height, &status).backend().to_string()
}

#[test]
fn a_usual_terminal_shows_every_panel() {
    insta::assert_snapshot!(text(80, 24), @r#"
    "curfew  3 running, $57.05/h  as of 12:00:00 UTC, refreshing  enforce mode       "
    "newest runs: reap-instances 11:55, reap-volumes 11:55, enforce-budgets 11:55, r…"
    "> INSTANCES  3 running, $57.05/h, 1 not running  [2 columns hidden]             "
    "USD/h  instance             type         team    GPU use    next                "
    "55.04  i-0123456789abcdef0  p5.48xlarge  vision  0 % 11:55  stop 18:00 (idle)   "
    " 1.01  i-00000000000000001  g5.xlarge    nlp     unknown    busy                "
    " 1.01  i-0fedcba9876543210  g5.xlarge    vision  unknown    kept until Sep  5 0…"
    " 0.00  i-00000000000000002  g5.xlarge    vision  off        stopped             "
    "NEXT  if nothing changes until then                                             "
    "when          USD/h  what          of                   why                     "
    "18:00         55.04  stop          i-0123456789abcdef0  idle, team vision       "
    "Sep  2 01:55  56.05  budget spent  vision               at $56.05/h, as now     "
    "Sep  5 00:00   1.01  keep ends     i-0fedcba9876543210  team vision             "
    "Oct  1 00:00      -  month ends    all budgets          they begin anew         "
    "JOBS  0 unfinished                                                              "
    "no unfinished job                                                               "
    "BUDGETS  [1 column hidden]                                                      "
    "of             spent     budget  used                 forecast  verdict         "
    "(account)    unknown    unknown                        unknown  unknown         "
    "vision     $4,210.13  $5,000.00  [########--]  84 %  $5,900.00  ok; the forecas…"
    "ATTENTION                                                                       "
    "ec2:DescribeInstances failed in eu-west-1: access denied                        "
    "(account): nothing is known of 2026-09 yet; enforce-budgets writes it every 15… "
    "q quit  r refresh  Tab next panel  arrows scroll  ? help                        "
    "#);
}

#[test]
fn a_small_one_says_what_it_hides() {
    insta::assert_snapshot!(text(44, 10), @r#"
    "curfew  3 running, $57.05/h  as of 12:00:00…"
    "> INSTANCES  3 running, $57.05/h, 1 not run…"
    "USD/h  instance             next            "
    "55.04  i-0123456789abcdef0  stop 18:00 (idl…"
    "NEXT  if nothing changes until then  [1-1 o…"
    "when          what          of              "
    "18:00         stop          i-0123456789abc…"
    "JOBS  0 unfinished                          "
    "no unfinished job                           "
    "q quit  r refresh  Tab next panel (budgets,…"
    "#);
    insta::assert_snapshot!(text(30, 5), @r#"
    "too small: 30x5, needs 40x8   "
    "3 running, $57.05/h           "
    "18:00 stop i-0123456789abcdef0"
    "q quit                        "
    "                              "
    "#);
}

#[test]
fn a_failed_refresh_keeps_the_last_frame_and_says_why() {
    let failed =
        RefreshStatus { as_of: Some(time(NOW)), is_refreshing: false, error: Some("no\u{1b}[2J route".to_owned()) };
    let shown = screen(Some(&shown()), 80, 24, &failed).backend().to_string();
    assert!(shown.contains("i-0123456789abcdef0") && shown.contains("as of 12:00:00 UTC"), "{shown}");
    assert!(shown.contains("error: no?[2J route"), "{shown}");
    let nothing = screen(None, 80, 24, &failed).backend().to_string();
    assert!(nothing.contains("nothing read yet") || nothing.contains("error: no?[2J route"), "{nothing}");
}

#[test]
fn colours_are_only_where_they_are_wanted() {
    let has_color = |has_colors: bool| {
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        let (mut view, status) = (View::default(), RefreshStatus::default());
        terminal
            .draw(|frame| draw(Some(&shown()), &mut view, &status, frame.buffer_mut(), Palette { has_colors }))
            .unwrap();
        terminal.backend().buffer().content.iter().any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset)
    };
    assert_eq!([true, false].map(has_color), [true, false]);
}

#[test]
fn one_frame_has_every_row_and_every_column() {
    insta::assert_snapshot!(lines(&shown(), None).join("\n"), @r"
    curfew  3 running, $57.05/h  as of 12:00:00 UTC  enforce mode
    newest runs: reap-instances 11:55, reap-volumes 11:55, enforce-budgets 11:55, reap-sagemaker 11:55

    INSTANCES  3 running, $57.05/h, 1 not running
    USD/h  instance             type         team    GPU use    next                     name      region
    55.04  i-0123456789abcdef0  p5.48xlarge  vision  0 % 11:55  stop 18:00 (idle)        llama-ft  us-east-1
     1.01  i-00000000000000001  g5.xlarge    nlp     unknown    busy                               us-east-1
     1.01  i-0fedcba9876543210  g5.xlarge    vision  unknown    kept until Sep  5 00:00  ?[2J東京  us-east-1
     0.00  i-00000000000000002  g5.xlarge    vision  off        stopped                            us-east-1

    NEXT  if nothing changes until then
    when          USD/h  what          of                   why
    18:00         55.04  stop          i-0123456789abcdef0  idle, team vision
    Sep  2 01:55  56.05  budget spent  vision               at $56.05/h, as now
    Sep  5 00:00   1.01  keep ends     i-0fedcba9876543210  team vision
    Oct  1 00:00      -  month ends    all budgets          they begin anew

    JOBS  0 unfinished
    no unfinished job

    BUDGETS
    of             spent     budget  used                 forecast  verdict                      as of
    (account)    unknown    unknown                        unknown  unknown                      never
    vision     $4,210.13  $5,000.00  [########--]  84 %  $5,900.00  ok; the forecast exceeds it  10m ago

    ATTENTION
    ec2:DescribeInstances failed in eu-west-1: access denied
    (account): nothing is known of 2026-09 yet; enforce-budgets writes it every 15 minutes: curfew doctor says whether it runs
    ");
    for columns in 1..200 {
        let wide = lines(&shown(), Some(columns)).into_iter().find(|line| super::text::width(line) > columns);
        assert_eq!(wide, None, "in {columns} columns");
    }
}
