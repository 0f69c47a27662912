use std::collections::BTreeMap;

use model::usage::Usage;
use reaping::fixture::{InstanceBuilder, NOW, enforcing, idle, instance, time, untagged};

use super::*;

fn id(text: &str) -> AccountId {
    AccountId::parse(text).unwrap()
}

fn part(builders: Vec<(InstanceBuilder, Usage)>) -> RegionPart {
    let policy = enforcing("");
    let (mut seen, mut usages) = (Vec::new(), BTreeMap::new());
    for (builder, usage) in builders {
        let one = builder.build();
        usages.insert(one.id.clone(), usage);
        seen.push(one);
    }
    let running = RunningTeams::from_instances(&seen, &policy.prices, &policy.config);
    let findings = scan::instances(&seen, &usages, &policy, time(NOW)).items;
    RegionPart { running, findings, ..RegionPart::default() }
}

fn finished(tally: AccountTally, account: &str) -> AccountSummary {
    tally.finish(id(account), None).unwrap()
}

fn account(number: &str, builders: Vec<(InstanceBuilder, Usage)>) -> AccountSummary {
    let mut tally = AccountTally::default();
    tally.add(part(builders));
    finished(tally, number)
}

fn unused() -> Usage {
    Usage::Unknown(model::usage::UnknownUsage::NotAsked)
}

#[test]
fn each_team_has_what_runs_and_what_is_wasted() {
    let mut tally = AccountTally::default();
    tally.add(part(vec![(instance().id("i-1"), idle()), (instance().id("i-2"), unused())]));
    tally.add(part(vec![(untagged().id("i-3"), unused()), (instance().id("i-4").region("ap-east-2"), idle())]));
    let found = finished(tally, "111122223333");
    let rows: Vec<_> = found.teams.iter().map(|row| (row.team.as_ref().map(TeamName::as_str), row.totals)).collect();
    let rate = Rate::from_usd_per_hour(1.006);
    let of_team = AccountTotals {
        instances: 3,
        gpus: 3,
        running: KnownSum::new(rate + rate, 1),
        findings: 2,
        waste: KnownSum::new(rate, 1),
    };
    let untagged = AccountTotals {
        instances: 1,
        gpus: 1,
        running: KnownSum::new(rate, 0),
        findings: 1,
        waste: KnownSum::default(),
    };
    assert_eq!(rows, [(Some("vision"), of_team), (None, untagged)]);
    assert_eq!((found.regions, found.notable.len(), found.totals()), (2, 3, of_team + untagged));
    let text = serde_json::to_string(&found).unwrap();
    assert_eq!(serde_json::from_str::<AccountSummary>(&text).unwrap(), found);
}

/// An attack: an account tags its machines with the name of a team of another account.
#[test]
fn an_account_changes_no_row_of_another() {
    let honest = account("111122223333", vec![(instance().id("i-1"), idle())]);
    let forged = (0..9).map(|number| (instance().id(&format!("i-{number}")), idle())).collect();
    let hostile = account("444455556666", forged);
    let accounts = [honest.clone(), hostile];
    let rows = by_cost(&accounts);
    let of_honest: Vec<_> = rows.iter().filter(|(account, _)| account.account == honest.account).collect();
    assert_eq!(of_honest.len(), 1);
    assert_eq!(of_honest[0].1, &account("111122223333", vec![(instance().id("i-1"), idle())]).teams[0]);
    assert_eq!(rows.iter().map(|(_, team)| team.totals.instances).collect::<Vec<_>>(), [9, 1]);
}

#[test]
fn an_account_with_a_team_for_each_machine_stays_small() {
    let many = 400;
    let team = |number: usize| "t".repeat(600) + &number.to_string();
    let of_team = |number: usize| (instance().id(&format!("i-{number}")).tag("Team", &team(number)), idle());
    let found = account("111122223333", (0..many).map(of_team).collect());
    let others = found.other_teams.unwrap();
    assert_eq!(
        (found.teams.len(), others.teams, others.totals.instances),
        (TEAMS_MAX, many - TEAMS_MAX, many - TEAMS_MAX)
    );
    assert_eq!((found.totals().instances, found.totals().findings), (many, many));
    assert_eq!(found.notable.len(), NOTABLE_MAX);
    assert!(serde_json::to_string(&found).unwrap().len() < 40_000);
}

#[test]
fn an_account_of_which_nothing_is_seen_has_a_reason_and_gaps_have_a_limit() {
    let gap = |region: &str| Gap::new(&region.into(), "ec2:DescribeInstances", "denied", GapKind::Region);
    let unseen = |region: &str| RegionPart { gaps: vec![gap(region)], saw_nothing: true, ..RegionPart::default() };
    let mut tally = AccountTally::default();
    tally.add(unseen("us-east-1"));
    let why = tally.finish(id("111122223333"), None).unwrap_err();
    assert_eq!(why, "ec2:DescribeInstances failed in us-east-1: denied");
    let mut tally = AccountTally::default();
    tally.add(RegionPart::default());
    (0..9).for_each(|number| tally.add(unseen(&format!("eu-west-{number}"))));
    let found = finished(tally, "111122223333");
    assert_eq!((found.gaps.len(), found.more_gaps, found.regions), (GAPS_MAX, 9 - GAPS_MAX, 10));
}
