//! What `send-report` publishes to the hub: what the ledgers did not see is no zero.

use billing::ledger::{Ledger, LedgerBeat};
use jiff::{SignedDuration, Timestamp};
use model::fixture::time;
use model::known_sum::KnownSum;
use model::money::Amount;
use plan::report::RunRecord;
use report::{AccountFigures, MonthFacts, MonthReport, OtherTeams};
use serde_json::json;

use crate::fixture::{facts, november, record};

/// A ledger with a look every half an hour, from one time to another.
fn observed(from: &str, to: &str) -> Ledger {
    let mut ledger = Ledger::new(&november(), &"us-east-1".into());
    let mut at: Timestamp = time(from);
    while at <= time(to) {
        let (region, items, unread) = ("us-east-1".into(), Vec::new(), std::collections::BTreeSet::new());
        ledger.observe(&LedgerBeat { at, region, whole: true, items, unread });
        at += SignedDuration::from_mins(30);
    }
    ledger
}

fn newest() -> RunRecord {
    record("2026-11-20T05:45:00Z", &[], &json!({}))
}

fn published(facts: &MonthFacts) -> (AccountFigures, OtherTeams) {
    let figures = AccountFigures::from_report(&MonthReport::from_facts(facts));
    let others = figures.other_teams.clone().unwrap();
    (figures, others)
}

const NOW: &str = "2026-11-20T06:00:30Z";
const BEGIN: &str = "2026-11-01T00:10:00Z";

#[test]
fn an_account_without_teams_publishes_what_is_known() {
    let seen = facts(NOW, observed(BEGIN, "2026-11-20T05:40:00Z"), &[], newest());
    let (figures, others) = published(&seen);
    assert_eq!((figures.as_of, figures.known_since, figures.is_final), (time("2026-11-20T05:40:00Z"), None, false));
    let nothing = Some(KnownSum::new(Amount::ZERO, 0));
    assert_eq!((others.figures.spent, others.figures.last_week), (KnownSum::default(), nothing));
    // No ledger of October was kept, and no run of the month is known but one.
    assert_eq!((others.figures.previous_month, others.figures.saved), (None, nothing));
    assert_eq!(others.figures.waste, Some(KnownSum::default()));
    let never = MonthFacts { newest: Vec::new(), days: Vec::new(), ..seen };
    let (_, others) = published(&never);
    assert_eq!((others.figures.saved, others.figures.waste.and_then(KnownSum::known)), (None, None));
}

#[test]
fn what_the_ledger_did_not_see_is_a_lower_bound() {
    let unseen = |facts: &MonthFacts| published(facts).1.figures.spent.unpriced();
    // The ledger is no longer kept, however often the report is made.
    let (figures, others) = published(&facts(NOW, observed(BEGIN, "2026-11-20T01:40:00Z"), &[], newest()));
    assert_eq!((figures.as_of, others.figures.spent.known()), (time("2026-11-20T01:40:00Z"), None));
    // A region in which runs look, and of which there is no ledger.
    let mut denied = newest();
    denied.regions.push("eu-central-1".into());
    assert_eq!(unseen(&facts(NOW, observed(BEGIN, "2026-11-20T05:40:00Z"), &[], denied.clone())), 1);
    // What is wasted there is unknown, too.
    let gap = json!({ "region": "eu-central-1", "call": "ec2:DescribeInstances", "error": "AccessDenied" });
    denied.gaps.push(serde_json::from_value(gap).unwrap());
    let (_, others) = published(&facts(NOW, observed(BEGIN, "2026-11-20T05:40:00Z"), &[], denied));
    assert_eq!(others.figures.waste.and_then(KnownSum::known), None);
    let late = facts(NOW, observed("2026-11-12T09:10:00Z", "2026-11-20T05:40:00Z"), &[], newest());
    assert_eq!(published(&late).0.known_since, Some(time("2026-11-12T09:10:00Z")));
    assert_eq!(unseen(&late), 0);
}

#[test]
fn a_month_is_final_once_the_ledger_knows_its_end() {
    let on_the_first = |until: &str| {
        let facts = facts("2026-12-01T06:00:30Z", observed(BEGIN, until), &[], newest());
        let (figures, others) = published(&facts);
        (figures.is_final, figures.as_of, others.figures.spent.unpriced())
    };
    assert_eq!(on_the_first("2026-12-01T00:10:00Z"), (true, time("2026-12-01T06:00:30Z"), 0));
    assert_eq!(on_the_first("2026-11-30T23:40:00Z"), (false, time("2026-11-30T23:40:00Z"), 1));
}
