//! The text about a budget for people.

use super::*;

fn budget_text(spends: Vec<Spend>, config: &str) -> String {
    let documents = BTreeMap::from([(vision(), vision_budget(spends, config))]);
    let plan = decided(&documents, config, &no_notifications());
    let plan::Facts::OverBudget(evidence) = &plan.steps[0].evidence.facts else { panic!("{plan:?}") };
    assert!(matches!(plan.steps[0].action, Action::Budget(_)));
    evidence.text.clone()
}

#[test]
fn the_text_has_the_spend_and_the_remedy() {
    let p5 = Spend {
        rate: Some(Rate::from_usd_micros_per_hour(55_040_000)),
        what: "p5.48xlarge".to_owned(),
        ..spend("i-5", 3_900.0)
    };
    assert_snapshot!(budget_text(vec![p5.clone(), stopped("i-1", 200.0)], HOLDS), @r#"Team vision has spent $4,100.00 of its budget of $5,000.00 for 2026-11 (82 %), as of 2026-11-22T12:00:00Z; $900.00 is left. Once it is spent, no further job is launched. The most was spent on i-5 (p5.48xlarge "bench", owner "ada", us-east-1) $3,900.00, still running at $55.04/h; i-1 (g5.xlarge "bench", owner "ada", us-east-1) $200.00. The forecast is an estimated $4,305.22 by the end of the month: $4,100.00 spent, and for the 8d12h left $24.14 a day, the mean of the 7d since 2026-11-15T12:00:00Z. What runs now costs $55.04/h, which uses up the rest by 2026-11-23T04:21:06Z; $4.41/h would last until the month ends at 2026-12-01T00:00:00Z. To stay within it, stop i-5 (p5.48xlarge "bench", us-east-1, $55.04/h; use unknown). For what is of unknown use, once you have looked at it: aws ec2 stop-instances --region us-east-1 --instance-ids i-5"#);
    let unpriced = Spend { rate: None, unpriced_seconds: 12_000, uncertain: usd(4.5), ..spend("i-2", 0.0) };
    assert_snapshot!(budget_text(vec![p5.clone(), Spend { resource: "i-6".into(), spent: usd(2_000.0), ..p5 }, unpriced], &HOLDS.replace("hold", "stop")), @r#"Team vision has spent $5,900.00 of its budget of $5,000.00 for 2026-11 (118 %), as of 2026-11-22T12:00:00Z; $0.00 is left. No further job is launched this month, and what runs is stopped, each after its own announcement. The most was spent on i-5 (p5.48xlarge "bench", owner "ada", us-east-1) $3,900.00, still running at $55.04/h; i-6 (p5.48xlarge "bench", owner "ada", us-east-1) $2,000.00, still running at $55.04/h. Not counted, because the price is unknown: i-2 (g5.xlarge, us-east-1), which ran for 3h20m. Up to $4.50 more may be spent, on resources with an unobserved stop, or not seen since. The forecast is an estimated $6,515.67 by the end of the month: $5,900.00 spent, and for the 8d12h left $72.43 a day, the mean of the 7d since 2026-11-15T12:00:00Z. Nothing brings it back under its budget this month: it is $900.00 over. The next month begins at 2026-12-01T00:00:00Z; a larger budget is set by monthly_budget_usd in config/curfew.toml. To spend no more, stop i-5 (p5.48xlarge "bench", us-east-1, $55.04/h; use unknown), i-6 (p5.48xlarge "bench", us-east-1, $55.04/h; use unknown). For what is of unknown use, once you have looked at it: aws ec2 stop-instances --region us-east-1 --instance-ids i-5 i-6"#);
    let within = budget_text(vec![spend("i-1", 2_600.0)], HOLDS);
    assert_snapshot!(within, @r#"Team vision has spent $2,600.00 of its budget of $5,000.00 for 2026-11 (52 %), as of 2026-11-22T12:00:00Z; $2,400.00 is left. Once it is spent, no further job is launched. The most was spent on i-1 (g5.xlarge "bench", owner "ada", us-east-1) $2,600.00, still running at $1.01/h. The forecast is an estimated $2,805.22 by the end of the month: $2,600.00 spent, and for the 8d12h left $24.14 a day, the mean of the 7d since 2026-11-15T12:00:00Z."#);
}

#[test]
fn the_text_omits_free_resources_and_counts_the_others() {
    let small = |id: &str, spent: f64| stopped(id, spent);
    let config = "[teams.vision]\nmonthly_budget_usd = 10\n";
    let budget_text = |spends| budget_text(spends, config);
    let few = budget_text(vec![small("i-1", 9.5), small("i-2", 0.004)]);
    assert_snapshot!(few, @r#"Team vision has spent $9.50 of its budget of $10.00 for 2026-11 (95 %), as of 2026-11-22T12:00:00Z; $0.50 is left. The most was spent on i-1 (g5.xlarge "bench", owner "ada", us-east-1) $9.50. The forecast is an estimated $9.50 by the end of the month: $9.50 spent, and for the 8d12h left $0.00 a day, the mean of the 7d since 2026-11-15T12:00:00Z."#);
    let six = (1..=6_u8).map(|nth| small(&format!("i-{nth}"), f64::from(nth))).chain([small("i-7", 0.004)]);
    let unpriced = |id: &str, seconds| Spend { unpriced_seconds: seconds, rate: None, ..spend(id, 0.0) };
    let many = budget_text(six.chain([unpriced("i-8", 7_200), unpriced("i-9", 3_600)]).collect());
    assert_snapshot!(many, @r#"Team vision has spent $21.00 of its budget of $10.00 for 2026-11 (210 %), as of 2026-11-22T12:00:00Z; $0.00 is left. The most was spent on i-6 (g5.xlarge "bench", owner "ada", us-east-1) $6.00; i-5 (g5.xlarge "bench", owner "ada", us-east-1) $5.00; i-4 (g5.xlarge "bench", owner "ada", us-east-1) $4.00; i-3 (g5.xlarge "bench", owner "ada", us-east-1) $3.00; i-2 (g5.xlarge "bench", owner "ada", us-east-1) $2.00; 1 other $1.00. Not counted, because the price is unknown: i-8 (g5.xlarge, us-east-1), which ran for 2h; and 1 other. The forecast is an estimated $431.45 by the end of the month: $21.00 spent, and for the 8d12h left $48.29 a day, the mean of the 7d since 2026-11-15T12:00:00Z. Nothing brings it back under its budget this month: it is $11.00 over. The next month begins at 2026-12-01T00:00:00Z; a larger budget is set by monthly_budget_usd in config/curfew.toml."#);
}

#[test]
fn what_is_advised_can_be_done() {
    let check = |spends: Vec<Spend>| vision_budget(spends, HOLDS).remedy.join("\n");
    let dear = |id: &str, region: &str, usd_per_hour: u64| Spend {
        region: region.into(),
        rate: Some(Rate::from_usd_micros_per_hour(usd_per_hour * 1_000_000)),
        ..spend(id, 700.0)
    };
    // In two regions, one on Spot.
    let spot = Spend { ends: SavingAction::Terminating, ..dear("i-3", HOME, 40) };
    assert_snapshot!(check(vec![dear("i-1", HOME, 20), dear("i-2", "eu-west-1", 30), spot]), @r#"
        What runs now costs $90.00/h, which uses up the rest by 2026-11-23T20:13:20Z; $14.22/h would last until the month ends at 2026-12-01T00:00:00Z.
        To stay within it, stop i-3 (g5.xlarge on Spot "bench", us-east-1, $40.00/h; use unknown), i-2 (g5.xlarge "bench", eu-west-1, $30.00/h; use unknown), i-1 (g5.xlarge "bench", us-east-1, $20.00/h; use unknown).
        A Spot instance of a one-time request can only be terminated; of a persistent one, cancel the request first.
        For what is of unknown use, once you have looked at it: aws ec2 stop-instances --region eu-west-1 --instance-ids i-2; aws ec2 stop-instances --region us-east-1 --instance-ids i-1
        "#);
    // More than are named.
    let many = (1..=6).map(|nth| dear(&format!("i-{nth}"), HOME, 100 - nth)).chain([stopped("i-9", 5_000.0)]);
    assert_snapshot!(check(many.collect()), @r#"
        Nothing brings it back under its budget this month: it is $4,200.00 over. The next month begins at 2026-12-01T00:00:00Z; a larger budget is set by monthly_budget_usd in config/curfew.toml.
        To spend no more, stop i-1 (g5.xlarge "bench", us-east-1, $99.00/h; use unknown), i-2 (g5.xlarge "bench", us-east-1, $98.00/h; use unknown), i-3 (g5.xlarge "bench", us-east-1, $97.00/h; use unknown), i-4 (g5.xlarge "bench", us-east-1, $96.00/h; use unknown), i-5 (g5.xlarge "bench", us-east-1, $95.00/h; use unknown), 1 other ($94.00/h).
        For what is of unknown use, once you have looked at it: aws ec2 stop-instances --region us-east-1 --instance-ids i-1 i-2 i-3 i-4 i-5
        "#);
    // Under SageMaker, each kind of resource has a call of its own.
    let endpoint = Spend {
        ends: SavingAction::EndingSageMaker,
        what: "ml.g5.xlarge".to_owned(),
        ..dear("endpoint/llm", HOME, 98)
    };
    assert_snapshot!(check(vec![endpoint]), @r#"
        What runs now costs $98.00/h, which uses up the rest by 2026-11-24T07:52:39Z; $21.08/h would last until the month ends at 2026-12-01T00:00:00Z.
        To stay within it, stop endpoint/llm (ml.g5.xlarge "bench", us-east-1, $98.00/h; use unknown).
        Endpoints and apps of SageMaker can only be deleted.
        "#);
    // What is paid for anyway, and a volume.
    let reserved = Spend { ends: SavingAction::Nothing, ..dear("i-1", HOME, 98) };
    assert_snapshot!(check(vec![reserved.clone()]), @r#"
        What runs now costs $98.00/h, which uses up the rest by 2026-11-24T07:52:39Z; $21.08/h would last until the month ends at 2026-12-01T00:00:00Z.
        Stopping instances saves none of that: it is for volumes, or for capacity that is paid for anyway.
        A stop saves nothing of what runs in a capacity reservation until that is given up: i-1 (g5.xlarge "bench", us-east-1, $98.00/h; use unknown).
        "#);
    assert_snapshot!(check(vec![reserved, dear("i-2", HOME, 2)]), @r#"
        What runs now costs $100.00/h, which uses up the rest by 2026-11-24T00:00:00Z; $17.65/h would last until the month ends at 2026-12-01T00:00:00Z.
        Nothing keeps it until then; to spend it later, stop i-2 (g5.xlarge "bench", us-east-1, $2.00/h; use unknown).
        For what is of unknown use, once you have looked at it: aws ec2 stop-instances --region us-east-1 --instance-ids i-2
        A stop saves nothing of what runs in a capacity reservation until that is given up: i-1 (g5.xlarge "bench", us-east-1, $98.00/h; use unknown).
        "#);
    // Nothing that runs, and exactly spent.
    assert_snapshot!(check(vec![stopped("i-1", 5_000.0)]), @"Nothing brings it back under its budget this month: all of it is spent. The next month begins at 2026-12-01T00:00:00Z; a larger budget is set by monthly_budget_usd in config/curfew.toml.");
}

#[test]
fn the_tables_are_named_by_which_some_of_it_is_counted() {
    let table = |of| Some(billing::price::PriceSource::Table { of });
    let text = budget_text(
        vec![
            Spend { table: table("2026-09-24"), ..spend("i-1", 2_000.0) },
            Spend { table: table("2026-09-24"), ..spend("i-2", 1_000.0) },
            Spend { table: table("2026-09-30"), ..spend("vol-3", 2_000.0) },
            spend("i-4", 500.0),
        ],
        HOLDS,
    );
    let words =
        "Some prices are not from the Price List, but from the table of 2026-09-24, and of the table of 2026-09-30.";
    assert!(text.contains(words), "{text}");
}
