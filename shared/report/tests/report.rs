//! The report of a month that is known to the cent, as figures, as text and as a page; and with hostile texts in every place of a tag.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests; a measurement is printed")]

mod finance;
mod fixture;
mod measured;
mod published;
mod reserved;
mod sagemaker;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use billing::budget::{Budget, BudgetHolder};
use billing::ledger::{BillingState, PurchaseTerms, Sighting};
use billing::price::{PriceBook, PriceDocument, SpotPrice};
use fixture::{
    Machine, attempt, checkpoints, day, facts, job, ledger, own_runs, record, step, stopped_at, usage_facts, used,
};
use html5ever::{ParseOpts, parse_document, tendril::TendrilSink as _};
use jiff::{SignedDuration, Timestamp};
use markup5ever_rcdom::{NodeData, RcDom};
use model::config::{Config, PricesConfig};
use model::fixture::time;
use model::money::Amount;
use model::observation::Observation;
use proptest::prelude::*;
use recommend::usage::{FindingKind, InstanceUsage};
use report::{
    FINDINGS_SHOWN, Mail, MonthFacts, MonthReport, SeenInstances, UsageFacts, WasteKind, digest, mail, render_html,
};
use serde_json::json;

const NOW: &str = "2026-11-11T10:00:00Z";

/// A Spot instance of a job, at $1 an hour.
fn instance(resource: &str, text: &str, began: Timestamp, life: BillingState) -> Sighting {
    let job = Some(format!("{text}/llama-1a2b3c4d"));
    let (what, terms) = ("g5.xlarge", PurchaseTerms::Spot);
    Machine { resource, what, team: text, terms, job, began, life, usd_micros_per_hour: 1_000_000 }.sighting()
}

/// Two instances since the morning before: `i-1` is announced as idle at 12:00 and stopped at 22:00, `i-2` runs on without a metric.
fn two_teams(vision: &str, nlp: &str) -> MonthFacts {
    let began = time("2026-11-10T10:00:00Z");
    let stopped = stopped_at(time("2026-11-10T22:00:00Z"));
    let items = vec![instance("i-1", vision, began, stopped), instance("i-2", nlp, began, BillingState::Live)];
    let marked = record("2026-11-10T12:00:00Z", &[step("i-1", vision, "mark", "done")], &json!({}));
    let ended = record("2026-11-10T22:00:00Z", &[step("i-1", vision, "stop", "done")], &json!({}));
    let newest = record(NOW, &[step("i-3", vision, "stop", "observed")], &json!({ "usage-unknown": ["i-2"] }));
    let budget = Budget { budget_usd: Some(Amount::from_usd(100.0)), ..Budget::default() };
    let budgets = BTreeMap::from([(BudgetHolder::Team(vision.into()), budget)]);
    MonthFacts { budgets, ..facts(NOW, ledger(NOW, items), &[marked, ended], newest) }
}

/// The same, where the job of vision has lost a machine; both teams keep checkpoints, and Curfew has run.
fn with_jobs(vision: &str) -> MonthFacts {
    let mut facts = two_teams(vision, "nlp");
    facts.jobs = vec![job(vision, "llama-1a2b3c4d")];
    facts.attempts = BTreeMap::from([(
        format!("{vision}/llama-1a2b3c4d"),
        vec![attempt(false, "i-1", 60_000), attempt(true, "i-9", 60_000)],
    )]);
    facts.checkpoints =
        checkpoints(&[(vision, "llama-1a2b3c4d", 100), (vision, "bert-00000000", 400), ("nlp", "gpt-11111111", 10)]);
    facts.runs = own_runs();
    facts.usage = Some(usage_facts(&[used("i-7", vision, true), used("i-8", "nlp", false)]));
    facts
}

#[test]
fn what_could_cost_less_next_month_is_named_with_its_evidence() {
    let report = MonthReport::from_facts(&with_jobs("vision"));
    let line = "     $3,406.18  i-7 (g5.12xlarge), team vision, smaller: from 2026-10-20 to 2026-11-09 it used 1 of its 4 GPUs, and at most 8.8 of \
                22.4 GiB on one; try a g5.xlarge (1 x A10G) at $1.01/h; its vCPUs and memory are fewer or other ones: check what the program needs of them";
    let text = digest(&report);
    assert!(
        text.contains(&format!(
            "\nNext month could cost less. By the GPU metrics of 1 of 2 instances on demand in three weeks, and by jobs on demand in 30 days.\n{line}\n"
        )),
        "{text}"
    );
    let mail = mail(&report);
    for page in [&mail.page, &mail.html] {
        assert!(page.contains("$3,406.18") && page.contains("it used 1 of its 4 GPUs"), "{page}");
    }
    let part = digest(&report.for_team("nlp"));
    assert!(
        part.contains("\nNext month: CloudWatch has no GPU metrics of the 1 instances on demand")
            && !part.contains("i-7"),
        "{part}"
    );
}

fn check_basis(usage: Option<UsageFacts>, expect: Option<&str>) {
    let text = digest(&MonthReport::from_facts(&MonthFacts { usage, ..two_teams("vision", "nlp") }));
    let line = text.lines().find(|line| line.starts_with("Next month"));
    assert_eq!(line, expect.map(|basis| format!("Next month: {basis}")).as_deref());
}

#[test]
fn without_metrics_nothing_is_found_and_one_sentence_says_so() {
    check_basis(None, None);
    let none = "No instance runs on demand, except for jobs: there are no metrics to go by.";
    check_basis(Some(UsageFacts::default()), Some(none));
    let unmeasured = usage_facts(&[used("i-7", "vision", false), used("i-8", "nlp", false)]);
    check_basis(
        Some(unmeasured.clone()),
        Some("CloudWatch has no GPU metrics of the 2 instances on demand: whether they could cost less is unknown."),
    );
    let incomplete = |mut usage: UsageFacts| {
        usage.is_incomplete = true;
        Some(usage)
    };
    check_basis(incomplete(unmeasured), Some("The GPU metrics of 2 instances on demand could not be read."));
    check_basis(incomplete(UsageFacts::default()), Some("Which instances run on demand could not be read."));
}

#[test]
fn gpu_hours_are_paid_for_by_the_ledger_and_used_by_the_metrics() {
    let check = |usage: &[InstanceUsage], expect: &str| {
        let mut facts = MonthFacts { usage: Some(usage_facts(usage)), ..two_teams("vision", "nlp") };
        // A run over the turn of a month is in the ledgers of both.
        facts.previous_ledgers.clone_from(&facts.ledgers);
        let report = MonthReport::from_facts(&facts);
        for text in [digest(&report), render_html(&report), mail(&report).html] {
            assert!(text.contains(&format!("GPU hours of three weeks: {expect}")), "{text}");
        }
    };
    check(&[], "36 paid for; no metric says in how many of them a GPU did something.");
    check(&[used("i-7", "vision", true)], "2,016 paid for; in 504 of 2,016 measured ones (25 %) a GPU did something.");
}

#[test]
fn only_the_largest_five_findings_are_shown() {
    let many: Vec<_> = (0..7).map(|one| used(&format!("i-{one}"), "vision", true)).collect();
    let report = MonthReport::from_facts(&MonthFacts { usage: Some(usage_facts(&many)), ..two_teams("vision", "nlp") });
    let count = |text: &str| text.matches("it used 1 of its 4 GPUs").count();
    assert_eq!(
        [count(&digest(&report)), count(&render_html(&report)), count(&mail(&report).html)],
        [FINDINGS_SHOWN; 3]
    );
    assert!(digest(&report).contains("\n  and 2 more") && render_html(&report).contains("and 2 more: "));
}

#[test]
fn a_job_on_demand_with_a_checkpoint_could_run_on_spot() {
    let (now, began) = (time(NOW), time("2026-11-10T10:00:00Z"));
    let machine = Machine {
        resource: "i-5",
        what: "g5.xlarge",
        team: "vision",
        terms: PurchaseTerms::OnDemand,
        job: Some("vision/llama-1a2b3c4d".to_owned()),
        began,
        life: BillingState::Live,
        usd_micros_per_hour: 1_006_000,
    };
    let mut prices = PriceDocument::default();
    let spot = SpotPrice {
        instance_type: "g5.xlarge".into(),
        zone: "us-east-1a".to_owned(),
        from: began,
        usd_micros_per_hour: 400_000,
    };
    prices.learn_spot(&"us-east-1".into(), &["g5.xlarge".into()].into(), vec![spot], now);
    let mut facts = MonthFacts {
        usage: Some(UsageFacts::default()),
        prices: PriceBook::from_document(prices, &PricesConfig::default(), now),
        jobs: vec![job("vision", "llama-1a2b3c4d")],
        ..facts(NOW, ledger(NOW, vec![machine.sighting()]), &[], record(NOW, &[], &json!({})))
    };
    let found = |facts: &MonthFacts| MonthReport::from_facts(facts).next_month.unwrap().findings;
    let findings = found(&facts);
    let [finding] = &findings[..] else { panic!("{findings:?}") };
    assert_eq!((finding.kind, finding.resource.as_str()), (FindingKind::Spot, "vision/llama-1a2b3c4d"));
    assert!(finding.evidence.starts_with("it ran for 24 hours on demand for $24.14"), "{}", finding.evidence);
    facts.jobs[0].step = None;
    assert_eq!(found(&facts), [], "without a checkpoint it starts anew");
}

#[test]
fn work_that_a_lost_machine_had_not_saved_was_done_twice() {
    let report = MonthReport::from_facts(&with_jobs("vision"));
    let [row] = &report.jobs.iter().filter(|row| row.job == "vision/llama-1a2b3c4d").collect::<Vec<_>>()[..] else {
        panic!()
    };
    assert_eq!((row.repeated.seconds, row.repeated.steps), (1_200, 100));
    assert!(render_html(&report).contains("20m (about 100 steps)"));
}

#[test]
fn a_measured_power_counts_for_the_machine_that_measured_it() {
    let energy = |facts: &MonthFacts| {
        let report = MonthReport::from_facts(facts);
        let energy_of =
            |team: &str| report.teams.iter().find(|row| row.team == team).unwrap().footprint.energy.known().unwrap();
        (energy_of("vision").high() - energy_of("vision").low(), energy_of("nlp").high() - energy_of("nlp").low())
    };
    let (unknown, measured) = (energy(&two_teams("vision", "nlp")), energy(&with_jobs("vision")));
    assert!(measured.0 < unknown.0 / 2 && measured.1 == unknown.1, "{unknown:?} {measured:?}");
}

#[test]
fn checkpoints_and_curfew_itself_have_a_price() {
    let report = MonthReport::from_facts(&with_jobs("vision"));
    let rows = report
        .checkpoints
        .iter()
        .map(|row| (row.team.as_str(), row.jobs, row.bytes_of_ended >> 30, row.cost.to_string()));
    let expect = [("vision", 2, 400, "$11.50".to_owned()), ("nlp", 1, 10, "$0.23".to_owned())];
    assert_eq!(rows.collect::<Vec<_>>(), expect);
    // 10 days and 10 hours of the stack, at $2.90 a month.
    let own = report.own.as_ref().unwrap();
    assert_eq!([own.stack, own.lambda, own.metrics_cost].map(|part| part.to_string()), ["$0.99", "$0.16", "$0.02"]);
    let text = digest(&report);
    assert!(
        text.contains(
            "\nCheckpoints take $11.73 a month in S3.\nCurfew itself: about $1.17 (4000 runs, 2000 metrics)."
        ),
        "{text}"
    );
    let part = report.for_team("nlp");
    assert!(part.own.is_none() && part.checkpoints.len() == 1 && !digest(&part).contains("Curfew itself"));
}

#[test]
fn each_team_is_mailed_its_own_part() {
    let report = MonthReport::from_facts(&with_jobs("vision"));
    let config = |text: &str| Config::read(text).unwrap();
    let teams = "[teams.vision]\nemail = \"v@example.com\"\n[teams.idlers]\nemail = \"i@example.com\"\n[teams.nlp]\n";
    let addresses =
        |text: &str| report.recipients(&config(text)).into_iter().map(|(to, part)| (to, part.team)).collect::<Vec<_>>();
    assert_eq!(addresses(teams), [("v@example.com".to_owned(), Some("vision".to_owned()))]);
    assert_eq!(addresses("[report]\nemail = \"all@example.com\""), [("all@example.com".to_owned(), None)]);
    let mail = mail(&report.for_team("vision"));
    assert_eq!(mail.subject, "Curfew: $12.00 spent by vision on GPUs in 2026-11");
    assert!(mail.html.contains("$12.00") && mail.html.contains("i-3") && !mail.html.contains("nlp"), "{}", mail.html);
    assert!(
        mail.page.starts_with("<!DOCTYPE html>") && !mail.page.contains("nlp") && mail.text.contains("is attached")
    );
    assert!(!mail.html.contains("<style") && !mail.html.contains("<svg"), "mail programs drop both");
}

#[test]
fn volumes_of_other_controllers_are_shown_and_no_waste() {
    let mut facts = two_teams("vision", "nlp");
    let record = json!({
        "function": "reap-volumes", "run": "r9", "at": "2026-11-30T12:00:00Z", "mode": "enforce", "steps": [],
        "skipped": { "kubernetes": ["vol-9"] },
        "skipped_costs": { "vol-9": { "what": "500 GiB gp3", "team": "nlp", "usd_per_hour": 0.055 } },
    });
    facts.newest.push(serde_json::from_value(record).unwrap());
    let report = MonthReport::from_facts(&facts);
    let row = report.waste.last().unwrap();
    assert_eq!((row.kind, row.resource.as_str(), row.what.as_str()), (WasteKind::OfOthers, "vol-9", "500 GiB gp3"));
    assert!(!row.kind.is_waste() && render_html(&report).contains("vol-9"));
    assert!(report.teams.iter().all(|team| team.team != "nlp" || team.waste.is_zero()));
}

/// By the newest run, `i-3` would be stopped, and `i-2` has no metric.
#[test]
fn what_was_stopped_since_the_newest_run_is_no_waste() {
    let check = |running: &[&str], expect: &[&str]| {
        let items = running.iter().map(|id| model::fixture::instance().id(id).build()).collect();
        let seen = SeenInstances::new(&["us-east-1".into()], &Observation { items, gaps: Vec::new() });
        let facts = MonthFacts { usage: Some(UsageFacts::new(seen)), ..two_teams("vision", "nlp") };
        let waste = MonthReport::from_facts(&facts).waste;
        assert_eq!(waste.iter().map(|row| row.resource.as_str()).collect::<Vec<_>>(), expect);
    };
    check(&["i-2", "i-3"], &["i-3", "i-2"]);
    check(&["i-2"], &["i-2"]);
    check(&[], &[]);
}

#[test]
fn the_figures_are_those_of_the_ledger_and_of_the_records() {
    let report = MonthReport::from_facts(&two_teams("vision", "nlp"));
    let rows = report.teams.iter().map(|row| {
        let idle = format!("idle {}h {}", row.idle_seconds / 3_600, row.idle_cost);
        format!("{} spent {} saved {} waste {} {idle}", row.team, row.spent, row.saved, row.waste)
    });
    let expect = [
        "nlp spent $24.00 saved $0.00 waste $0.00/h idle 0h $0.00",
        "vision spent $12.00 saved $12.00 waste $1.00/h idle 10h $10.00",
    ];
    assert_eq!(rows.collect::<Vec<_>>(), expect);
    let days: Vec<String> = report
        .days
        .iter()
        .filter(|day| !day.by_team.is_empty())
        .map(|day| format!("{} {:?}", day.day, day.by_team.values().map(ToString::to_string).collect::<Vec<_>>()))
        .collect();
    assert_eq!(days, ["2026-11-10 [\"$14.00\", \"$12.00\"]", "2026-11-11 [\"$10.00\"]"]);
    let kinds: Vec<(WasteKind, &str)> = report.waste.iter().map(|row| (row.kind, row.resource.as_str())).collect();
    assert_eq!(kinds, [(WasteKind::ObserveOnly, "i-3"), (WasteKind::Uninstrumented, "i-2")]);
    let [saving] = &report.savings[..] else { panic!("{:?}", report.savings) };
    assert_eq!(saving.audit_key, "plans/2026-11-10/reap-instances/r1.json");
}

#[test]
fn spot_is_compared_with_the_on_demand_price() {
    let report = MonthReport::from_facts(&two_teams("vision", "nlp"));
    let on_demand = PriceBook::dated().on_demand(&"us-east-1".into(), &"g5.xlarge".into());
    let per_hour = billing::price::rate(on_demand).unwrap().usd_micros_per_hour() - 1_000_000;
    let saved = report.jobs.iter().map(|job| job.spot_saved.usd_micros()).collect::<Vec<_>>();
    assert_eq!(saved, [24 * per_hour, 12 * per_hour]);
}

#[test]
fn the_digest_names_money_first() {
    let text = digest(&MonthReport::from_facts(&two_teams("vision", "nlp")));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "$36.00 spent on GPUs in 2026-11.");
    assert_eq!(lines[1], "The ledger was kept since 2026-11-11 10:00 UTC: what ended before that is in no sum.");
    assert!(lines[2].starts_with("Curfew saved $12.00. Spot saved "), "{text}");
    assert_eq!(lines[3], "1 resource wastes $730.00 a month if nothing changes:");
    assert_eq!(
        lines[4],
        "       $730.00  \"vision\" (i-3, g5.xlarge), team vision: Curfew would stop or delete it, but is set to observe only"
    );
    assert_eq!(lines[5..8], ["Teams:", "        $24.00  nlp", "        $12.00  vision"]);
    assert!(!text.contains("Energy"), "only once a month: {text}");
}

#[test]
fn a_month_that_is_over_says_nothing_of_what_runs_now() {
    let now = time("2026-12-01T00:00:00Z");
    let report = MonthReport::from_facts(&MonthFacts { now, newest: Vec::new(), ..two_teams("vision", "nlp") });
    assert!(report.is_over && report.headline.forecast.is_none());
    assert!(digest(&report).contains("\nEnergy: "));
    assert!(!digest(&report).contains("waste") && !render_html(&report).contains("Waste that still runs"));
}

#[test]
fn a_team_gets_its_own_part_and_nothing_of_others() {
    let part = MonthReport::from_facts(&two_teams("vision", "nlp")).for_team("vision");
    assert_eq!(
        (part.headline.spent.to_string(), part.headline.saved.to_string()),
        ("$12.00".to_owned(), "$12.00".to_owned())
    );
    assert_eq!(part.headline.budget, Some(Amount::from_usd(100.0)));
    let page = render_html(&part);
    assert!(!page.contains("nlp") && !page.contains("i-2"), "{page}");
    assert!(page.contains("12 % of $100.00"));
}

#[test]
fn what_changes_something_counts_each_time_and_a_notification_once() {
    let at = |hour: u32, action: &str| {
        record(&format!("2026-11-10T{hour:02}:00:00Z"), &[step("i-1", "vision", action, "done")], &json!({}))
    };
    let found = day(&[at(9, "notify"), at(10, "stop"), at(8, "notify"), at(12, "stop"), at(11, "notify")]);
    let actions: Vec<String> = found
        .actions
        .iter()
        .map(|one| format!("{} {}-{}", one.action, one.first_at.strftime("%H"), one.last_at.strftime("%H")))
        .collect();
    assert_eq!(actions, ["notify 08-11", "stop 10-10", "stop 12-12"]);
}

/// The elements of a page with their attributes, without its texts.
fn elements(page: &str) -> Vec<String> {
    let document = parse_document(RcDom::default(), ParseOpts::default()).one(page);
    let (mut elements, mut pending) = (Vec::new(), vec![document.document]);
    while let Some(node) = pending.pop() {
        match &node.data {
            NodeData::Element { name, attrs, .. } => {
                let attributes: Vec<String> = attrs.borrow().iter().map(|one| one.name.local.to_string()).collect();
                elements.push(format!("{} {attributes:?}", name.local));
            }
            NodeData::Comment { .. } | NodeData::ProcessingInstruction { .. } => elements.push("comment".to_owned()),
            NodeData::Document | NodeData::Doctype { .. } | NodeData::Text { .. } => {}
        }
        pending.extend(node.children.borrow().iter().cloned());
    }
    elements
}

/// The month with that text as a team and as the name of a job, in every place where an audit record has a tag, and in what could not be read.
fn with_text(text: &str) -> MonthReport {
    let mut facts = with_jobs(text);
    facts.usage = Some(usage_facts(&[InstanceUsage { instance: text.into(), ..used("i-7", text, true) }]));
    facts.gaps = vec![text.to_owned()];
    for action in facts.days.iter_mut().flat_map(|day| &mut day.actions) {
        (action.what, action.name, action.rule) = (Some(text.to_owned()), Some(text.to_owned()), text.to_owned());
    }
    for step in facts.newest.iter_mut().flat_map(|record| &mut record.steps) {
        (step.what, step.name, step.resource) = (Some(text.to_owned()), Some(text.to_owned()), text.into());
    }
    MonthReport::from_facts(&facts)
}

/// Those of the page, and of the mail that it is attached to.
fn sorted_elements(mail: &Mail) -> (Vec<String>, Vec<String>) {
    let (mut page, mut body) = (elements(&mail.page), elements(&mail.html));
    page.sort();
    body.sort();
    (page, body)
}

static HARMLESS: LazyLock<(Vec<String>, Vec<String>)> = LazyLock::new(|| sorted_elements(&mail(&with_text("vision"))));

proptest! {
    #[test]
    fn hostile_tags_add_no_markup(
        text in prop_oneof![Just("</td></style><script>alert(1)</script>".to_owned()), "[<>&\"'a/!\\-\u{202e}\u{0}\n]{1,40}", "\\PC{1,60}"],
    ) {
        prop_assume!(text.trim() == text && text != "nlp" && text != "untagged");
        let hostile = mail(&with_text(&text));
        prop_assert_eq!(&sorted_elements(&hostile), &*HARMLESS);
        for text in [&hostile.page, &hostile.html, &hostile.text] {
            prop_assert!(!text.contains(['\u{202e}', '\0']), "a character that turns a line");
        }
        prop_assert!(!hostile.subject.contains('\n'), "a subject of two lines");
    }
}

/// What a large month takes: `make measure-report`.
#[test]
fn the_page_of_a_large_month_stays_small() {
    let began = time("2026-11-01T00:00:00Z");
    let items = (0..2_000_i64).map(|place| {
        let began = began + SignedDuration::from_mins(place * 5);
        let at = Some(began + SignedDuration::from_hours(30));
        let ended = BillingState::Ended { at, terminated: true, reclaimed: false };
        instance(&format!("i-{place:017x}"), &format!("team-{}", place % 40), began, ended)
    });
    let facts = facts(NOW, ledger(NOW, items.collect()), &[], record(NOW, &[], &json!({})));
    let page = render_html(&MonthReport::from_facts(&facts));
    assert!(page.len() < 200_000, "{} bytes", page.len());
}
