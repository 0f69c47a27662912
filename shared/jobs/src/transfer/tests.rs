use super::*;
use crate::MachineSpec;
use crate::next::tests::fixture::terms;

/// A job with a bucket in us-east-1 that writes a checkpoint of that size each 15 minutes.
fn job(size_gb: Option<u32>, regions: &[&str]) -> JobTerms {
    let checkpoint = terms().checkpoint.map(|checkpoint| CheckpointSpec { size_gb, ..checkpoint });
    let regions = regions.iter().map(|region| Region::from(*region)).collect();
    let machine = MachineSpec { regions, ..MachineSpec::default() };
    JobTerms { checkpoint, machine, bucket_region: Some("us-east-1".into()), ..terms() }
}

fn check_cost(size_gb: Option<u32>, region: &str, expect: Option<(f64, f64)>) {
    let cost = job(size_gb, &[]).transfer_cost(&region.into());
    let usd = cost.map(|cost| (cost.usd_per_hour.usd_per_hour(), cost.usd_per_machine.usd()));
    assert_eq!(usd, expect, "{region}");
}

#[test]
fn the_region_that_sends_sets_the_price() {
    // Four uploads an hour; then one upload and one download.
    check_cost(Some(10), "us-west-2", Some((0.8, 0.4)));
    check_cost(Some(10), "us-east-2", Some((0.4, 0.2)));
    // 0.147 for an upload from a region that the table does not have, 0.02 for a download from us-east-1.
    for region in ["af-south-1", "ap-northeast-1", "xx-new-1"] {
        check_cost(Some(10), region, Some((5.88, 1.67)));
    }
}

#[test]
fn the_nodes_upload_a_step_together_and_each_restores_all_of_it() {
    let alone = job(Some(10), &[]);
    let four = JobTerms { gpu: crate::GpuSpec { nodes: 4, ..alone.gpu.clone() }, ..alone.clone() };
    let [alone, four] = [alone, four].map(|terms| terms.transfer_cost(&"us-west-2".into()).unwrap());
    assert_eq!(four.usd_per_hour, alone.usd_per_hour);
    // One upload of $0.20, and a download of $0.20 by each of them.
    assert_eq!((alone.usd_per_machine.usd(), four.usd_per_machine.usd()), (0.4, 1.0));
}

#[test]
fn nothing_is_counted_at_home_or_without_a_size() {
    check_cost(Some(10), "us-east-1", None);
    check_cost(None, "us-west-2", None);
    let without =
        |change: fn(JobTerms) -> JobTerms| change(job(Some(10), &["us-west-2"])).transfer_cost(&"us-west-2".into());
    assert_eq!(without(|terms| JobTerms { checkpoint: None, ..terms }), None);
    assert_eq!(without(|terms| JobTerms { bucket_region: None, ..terms }), None);
    assert!(without(|terms| terms).is_some());
}

#[test]
fn no_size_and_no_interval_leaves_the_range_of_an_amount() {
    let mut largest = job(Some(u32::MAX), &[]);
    largest.checkpoint.as_mut().unwrap().every_seconds = i64::MIN;
    let cost = largest.transfer_cost(&"af-south-1".into()).unwrap();
    assert!(cost.usd_per_hour > Rate::ZERO && cost.usd_per_machine > Amount::ZERO);
}

#[test]
fn each_other_region_says_what_one_checkpoint_and_a_day_cost() {
    let describe = |size_gb, regions| job(size_gb, regions).transfer_prices().iter().map(ToString::to_string).collect();
    let described: Vec<String> = describe(Some(10), &["us-east-1", "us-west-2", "sa-east-1"]);
    assert_eq!(
        described,
        [
            "A checkpoint of 10 GB from us-west-2 to the bucket in us-east-1 costs $0.20 ($0.02 per GB), all of a day $19.20; to resume \
             from one there costs $0.20",
            "A checkpoint of 10 GB from sa-east-1 to the bucket in us-east-1 costs $1.47 ($0.147 per GB), all of a day $141.12; to resume \
             from one there costs $0.20",
        ]
    );
    let described: Vec<String> = describe(None, &["us-west-2"]);
    assert_eq!(
        described,
        [
            "Checkpoints from us-west-2 to the bucket in us-east-1 cost $0.02 per GB, and $0.02 per GB when a machine there resumes. No \
             estimate counts that; state their size as `checkpoint.size_gb`",
        ]
    );
    assert_eq!(job(Some(10), &[]).transfer_prices(), []);
}

#[test]
fn the_last_row_has_the_highest_price_and_matches_all_and_no_row_is_hidden() {
    let (last, others) = TRANSFER_PRICES.split_last().unwrap();
    assert_eq!((last.from, last.to), (EVERY_OTHER_REGION, EVERY_OTHER_REGION));
    for (place, row) in others.iter().enumerate() {
        assert!(model::region::is_known(&row.from.into()), "{}", row.from);
        assert!(row.to == EVERY_OTHER_REGION || model::region::is_known(&row.to.into()), "{}", row.to);
        assert!((5_000..=last.usd_micros_per_gb).contains(&row.usd_micros_per_gb), "{} to {}", row.from, row.to);
        let hides = |earlier: &TransferPriceRow| earlier.from == row.from && [row.to, "*"].contains(&earlier.to);
        assert!(!others[..place].iter().any(hides), "{} to {}", row.from, row.to);
    }
}
