//! The usage of the dearest instances, on which the report bases its outlook on the next month.

use std::collections::BTreeMap;
use std::time::Duration;

use billing::ledger::Ledger;
use model::config::Config;
use model::id::{Region, ResourceId};
use model::instance::Instance;
use model::observation::Observed;
use ports::{CallError, ReportCloud};
use recommend::usage::{DeviceSamples, InstanceUsage, dearest, is_looked_at};
use report::{MonthFacts, SeenInstances, UsageFacts};
use tokio::time::{Instant, timeout_at};

use crate::bugs::or_gap;

/// Series of GPUs that one report queries, in all regions together. Each is two metrics, so a report costs a cent at most, and a month of
/// daily ones $0.30 (Amazon `CloudWatch` pricing, us-east-1, 2026-11: $0.01 for 1,000 metrics). The report shows five findings, and of the
/// dearest instances 500 GPUs have those.
const SERIES_MAX: usize = 500;
const GPUS_MAX: u32 = 500;

type Samples = BTreeMap<ResourceId, Vec<DeviceSamples>>;

/// `None` where no instance is known: what runs now is not of that month, or no ledger could be read. Whatever `CloudWatch` and EC2
/// do not answer within `timeout` is a gap.
pub(super) async fn read(
    cloud: &impl ReportCloud,
    config: &Config,
    facts: &MonthFacts,
    timeout: Duration,
) -> Observed<Option<UsageFacts>> {
    let first_region = |ledger: &Ledger| ledger.runs().find_map(|run| run.region.cloned());
    let regions: Vec<Region> = facts.ledgers.iter().filter_map(first_region).collect();
    if facts.ledgers.is_empty() || !facts.is_recent() {
        return Observed::default();
    }
    let until = Instant::now() + timeout;
    let seen = cloud.instances(&regions, timeout).await;
    let mut usage = UsageFacts::new(SeenInstances::new(&regions, &seen));
    let mut gaps = seen.gaps;
    let all: Vec<&Instance> = seen.items.iter().filter(|one| is_looked_at(one)).collect();
    let queried = dearest(all.iter().copied(), &facts.prices, GPUS_MAX);
    // Without configured metrics there are no samples to read by these names.
    let names = config.metrics.nvidia.clone().unwrap_or_default();
    let mut series_left = SERIES_MAX;
    for region in &regions {
        let in_region: Vec<&Instance> = queried.iter().copied().filter(|one| one.region == *region).collect();
        let (mut samples, mut offers) = (Samples::new(), Vec::new());
        if !in_region.is_empty() {
            let history = async {
                let Some(names) = &config.metrics.nvidia else { return Ok((Samples::new(), 0)) };
                cloud.usage_history(region, &in_region, names, (facts.now, series_left)).await
            };
            let history = timeout_at(until, history).await;
            let history = history.unwrap_or_else(|_| Err(late("cloudwatch:GetMetricData", region, timeout)));
            let types = timeout_at(until, cloud.gpu_offers(region)).await;
            let types = types.unwrap_or_else(|_| Err(late("ec2:DescribeInstanceTypes", region, timeout)));
            gaps.extend(history.as_ref().err().map(CallError::gap));
            gaps.extend(types.as_ref().err().map(CallError::gap));
            samples = history.map(|(samples, _)| samples).unwrap_or_default();
            offers = types.unwrap_or_default();
        }
        series_left = series_left.saturating_sub(samples.values().map(Vec::len).sum());
        for instance in all.iter().filter(|one| one.region == *region) {
            let its_samples = samples.get(&instance.id).map(Vec::as_slice).unwrap_or_default();
            let work = || {
                let used = InstanceUsage::from_samples(instance, its_samples, &names, (&facts.prices, config));
                usage.add(&used, config.idle.gpu_below_percent, used.findings(&offers, &facts.prices, config));
            };
            or_gap((region, &instance.id), &mut gaps, work);
        }
    }
    usage.is_incomplete = !gaps.is_empty();
    Observed { items: Some(usage), gaps }
}

fn late(call: &'static str, region: &Region, timeout: Duration) -> CallError {
    CallError::timed_out(call, region, timeout)
}
