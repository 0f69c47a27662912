//! Which volumes are queried in `CloudWatch`: a month of queries costs more than some volumes.

use super::*;

const LONG_AGO: &str = "2026-08-01T12:00:00Z";

fn hours_asked(account: &mut Account, day: &str) -> usize {
    let mut hours = 0;
    for hour in 0..24 {
        let at = format!("{day} {hour:02}:00");
        account.aws.now = time(&format!("2026-{}:00Z", at.replace(' ', "T")));
        hours += account.asked().len();
        account.run(&at);
    }
    hours
}

#[test]
fn only_volumes_that_may_be_orphaned_are_queried() {
    let mut account = enforcing_account([volume()], ENFORCED);
    account.run("09-01 12:00").run("09-15 11:59");
    assert_eq!(account.asked(), []);
    account.aws.now = time("2026-09-15T12:00:00Z");
    let since = time("2026-09-01T12:00:00Z");
    assert_eq!(account.asked(), [VolumeUseQuery { region: "us-east-1".into(), volume: "vol-0abc".into(), since }]);
}

#[test]
fn attached_and_skipped_volumes_are_not_queried() {
    for skipped in [volume().on("i-1"), volume().tag("curfew:protected", ""), volume().tag("CSIVolumeName", "x")] {
        assert_eq!(enforcing_account([skipped], ENFORCED).unattached_since(LONG_AGO).asked(), []);
    }
}

#[test]
fn marked_volumes_are_queried_in_every_run_and_notify_only_ones_once_a_day() {
    let orphan = |config: &str| enforcing_account([volume()], config).unattached_since(LONG_AGO);
    let mut marked = orphan(ENFORCED);
    marked.run("08-31 12:00");
    assert_eq!(hours_asked(&mut marked, "09-01"), 24);
    let mut told = orphan(&format!("{ENFORCED}[volumes]\naction = \"notify\"\n"));
    told.run("08-31 12:00").run("08-31 13:00");
    assert_eq!(hours_asked(&mut told, "09-01"), 1);
    let mut observed = orphan("");
    observed.run("08-31 12:00").run("09-03 12:00");
    assert_eq!(hours_asked(&mut observed, "09-04"), 1);
}

/// Amazon `CloudWatch` pricing: USD 0.01 for 1,000 metrics requested by `GetMetricData`.
#[test]
fn queries_of_a_thousand_orphans_cost_seven_dollars_a_month_if_held_and_thirty_cents_if_notified() {
    let orphans = || (0..20).map(|number| volume().id(&format!("vol-{number:02}")));
    let a_month_of_a_thousand_usd = |mut account: Account| {
        account.run("08-31 12:00").run("09-03 12:00").run("09-03 13:00");
        f64::from(u32::try_from(hours_asked(&mut account, "09-04")).unwrap()) * 30.0 * (1000.0 / 20.0) * 0.01 / 1000.0
    };
    let held = a_month_of_a_thousand_usd(enforcing_account(orphans(), ENFORCED).unattached_since(LONG_AGO));
    let told = a_month_of_a_thousand_usd(enforcing_account(orphans(), "").unattached_since(LONG_AGO));
    assert!((held - 7.2).abs() < 0.01 && (told - 0.3).abs() < 0.01, "{held} {told}");
}
