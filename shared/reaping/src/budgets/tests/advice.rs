//! The order of the advice: what is idle first, what is busy last.

use std::collections::BTreeMap;

use model::id::ResourceId;

use super::*;

type Machines = BTreeMap<ResourceId, MachineFacts>;

/// A machine that costs so many dollars an hour, with these facts.
fn machine(id: &str, usd_per_hour: u64, facts: MachineFacts) -> (Spend, MachineFacts) {
    let rate = Some(Rate::from_usd_micros_per_hour(usd_per_hour * 1_000_000));
    (Spend { rate, name: None, ..spend(id, 100.0) }, facts)
}

fn idle() -> MachineFacts {
    MachineFacts { usage: LastUsage::Idle(moment("2026-11-22T11:40:00Z")), ..MachineFacts::default() }
}

fn busy() -> MachineFacts {
    MachineFacts { usage: LastUsage::Busy(moment("2026-11-22T11:45:00Z")), scratch_gb: 600, ..MachineFacts::default() }
}

fn exempt(exemption: IdleExemption) -> MachineFacts {
    MachineFacts { exemption: Some(exemption), ..idle() }
}

fn moment(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// The remedy of vision, which has $5,000 a month.
fn remedy(machines: Vec<(Spend, MachineFacts)>) -> Vec<String> {
    let known: Machines = machines.iter().map(|(spend, facts)| (spend.resource.clone(), facts.clone())).collect();
    let (config, earlier) = (Config::read(HOLDS).unwrap(), BTreeMap::new());
    let spends = spends(machines.into_iter().map(|(spend, _)| spend).collect());
    let books = BudgetBooks::new(enforced(&config), &spends, &earlier, now()).with_machines(&known);
    books.budget_of(&vision(), &Budget::default()).remedy
}

/// The ids of the sentence that says what to stop, in its order.
fn advised(machines: Vec<(Spend, MachineFacts)>) -> Vec<String> {
    let sentences = remedy(machines);
    let stops = sentences.iter().find(|sentence| sentence.contains(" stop i-")).expect("something to stop");
    let is_id = |word: &&str| word.starts_with("i-");
    stops.split(' ').filter(is_id).map(|id| id.trim_end_matches([',', '.']).to_owned()).collect()
}

#[test]
fn nothing_busy_is_named_where_idle_machines_suffice() {
    // $4,700 left for 8 days and a half: $23 an hour.
    let machines = || vec![machine("i-busy", 50, busy()), machine("i-idle", 30, idle()), machine("i-more", 25, idle())];
    assert_eq!(advised(machines()), ["i-idle", "i-more", "i-busy"]);
    let light = || vec![machine("i-busy", 20, busy()), machine("i-idle", 5, idle()), machine("i-more", 4, idle())];
    assert_eq!(advised(light()), ["i-idle", "i-more"]);
    let text = remedy(light()).join("\n");
    assert!(!text.contains("i-busy"), "{text}");
}

#[test]
fn the_order_is_idle_exempt_unknown_busy() {
    let machines = vec![
        machine("i-busy", 99, busy()),
        machine("i-unknown", 90, MachineFacts::default()),
        machine("i-kept", 80, exempt(IdleExemption::Kept)),
        machine("i-cheap", 1, idle()),
        machine("i-idle", 2, idle()),
    ];
    assert_eq!(advised(machines), ["i-idle", "i-cheap", "i-kept", "i-unknown", "i-busy"]);
    // Of what is unknown, what its owner keeps is last.
    let unknown_and_kept = MachineFacts { exemption: Some(IdleExemption::Kept), ..MachineFacts::default() };
    let machines = vec![machine("i-kept", 90, unknown_and_kept), machine("i-unknown", 80, MachineFacts::default())];
    assert_eq!(advised(machines), ["i-unknown", "i-kept"]);
}

#[test]
fn each_group_has_its_command_and_its_loss() {
    let of_job = |id, facts| {
        let (spend, facts) = machine(id, 60, facts);
        (Spend { job: Some("vision/llama-0123abcd".to_owned()), name: Some("llama".to_owned()), ..spend }, facts)
    };
    let text = remedy(vec![
        machine("i-busy", 99, busy()),
        of_job("i-job", idle()),
        machine("i-group", 80, exempt(IdleExemption::Managed("an Auto Scaling group".to_owned()))),
        machine("i-held", 70, exempt(IdleExemption::NotifyOnly)),
        machine("i-idle", 2, MachineFacts { scratch_gb: 250, ..idle() }),
    ]);
    assert_snapshot!(text.join("\n"), @r#"
        What runs now costs $311.00/h, which uses up the rest by 2026-11-23T02:28:10Z; $22.06/h would last until the month ends at 2026-12-01T00:00:00Z.
        To stay within it, stop i-idle (g5.xlarge, us-east-1, $2.00/h; idle at 2026-11-22T11:40:00Z, loses its NVMe scratch (250 GB)), i-group (g5.xlarge, us-east-1, $80.00/h; idle at 2026-11-22T11:40:00Z, managed by an Auto Scaling group: change it there), i-held (g5.xlarge, us-east-1, $70.00/h; idle at 2026-11-22T11:40:00Z, notify only), i-busy (g5.xlarge, us-east-1, $99.00/h; busy until 2026-11-22T11:45:00Z, loses its work since its last checkpoint and its NVMe scratch (600 GB)), i-job (g5.xlarge "llama", us-east-1, $60.00/h; busy with the job vision/llama-0123abcd, loses its work since its last checkpoint).
        The command: aws ec2 stop-instances --region us-east-1 --instance-ids i-idle
        For what is not stopped for idleness, once its owner agrees: aws ec2 stop-instances --region us-east-1 --instance-ids i-held
        For what is busy, if its loss is acceptable: aws ec2 stop-instances --region us-east-1 --instance-ids i-busy; curfew cancel vision/llama-0123abcd
        "#);
}

#[test]
fn reserved_machines_are_advised_by_their_cost() {
    let reserved = |id: &str, usd_per_hour: u64, release_command: Option<&str>| {
        let facts = MachineFacts { release_command: release_command.map(str::to_owned), ..idle() };
        let (spend, facts) = machine(id, usd_per_hour, facts);
        (Spend { ends: SavingAction::Nothing, ..spend }, facts)
    };
    let release = "aws ec2 cancel-capacity-reservation --region us-east-1 --capacity-reservation-id cr-0abc";
    let volume = {
        let (spend, facts) = machine("vol-1", 3, MachineFacts::default());
        (Spend { ends: SavingAction::Nothing, on: Some("i-1".into()), ..spend }, facts)
    };
    let text =
        remedy(vec![reserved("i-1", 50, Some(release)), reserved("i-2", 60, None), volume, machine("i-3", 2, busy())]);
    assert_snapshot!(text.join("\n"), @"
        What runs now costs $115.00/h, which uses up the rest by 2026-11-24T04:00:00Z; $22.55/h would last until the month ends at 2026-12-01T00:00:00Z.
        Nothing keeps it until then; to spend it later, stop i-3 (g5.xlarge, us-east-1, $2.00/h; busy until 2026-11-22T11:45:00Z, loses its work since its last checkpoint and its NVMe scratch (600 GB)).
        For what is busy, if its loss is acceptable: aws ec2 stop-instances --region us-east-1 --instance-ids i-3
        A stop saves nothing of what runs in a capacity reservation until that is given up: i-2 (g5.xlarge, us-east-1, $60.00/h; idle at 2026-11-22T11:40:00Z), i-1 (g5.xlarge, us-east-1, $50.00/h; idle at 2026-11-22T11:40:00Z).
        To give it up: aws ec2 cancel-capacity-reservation --region us-east-1 --capacity-reservation-id cr-0abc
        ");
    // Where stops suffice, they are advised alone.
    let text = remedy(vec![reserved("i-1", 20, Some(release)), machine("i-3", 200, idle())]).join("\n");
    assert!(text.contains("To stay within it, stop i-3 ") && !text.contains("i-1 "), "{text}");
}

#[test]
fn what_is_not_counted_makes_an_upper_bound() {
    let left = |change: &dyn Fn(&mut Spend)| {
        let mut one = spend("i-1", 3_000.0);
        change(&mut one);
        let documents = BTreeMap::from([(vision(), vision_budget(vec![one], HOLDS))]);
        let plan = decided(&documents, HOLDS, &no_notifications());
        let plan::Facts::OverBudget(evidence) = &plan.steps[0].evidence.facts else { panic!("{plan:?}") };
        let (_, rest) = evidence.text.split_once("; ").unwrap();
        rest.split_once(" is left").unwrap().0.to_owned()
    };
    assert_eq!(left(&|_| ()), "$2,000.00");
    assert_eq!(left(&|one| one.uncertain = usd(40.0)), "at least $1,960.00");
    assert_eq!(left(&|one| one.unpriced_seconds = 60), "at most $2,000.00");
    let both = |one: &mut Spend| (one.uncertain, one.unpriced_seconds) = (usd(40.0), 60);
    assert_eq!(left(&both), "at most $2,000.00");
    assert_eq!(left(&|one| one.seen_until = moment("2026-11-22T11:00:00Z")), "at most $2,000.00");
}
