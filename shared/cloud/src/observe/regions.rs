//! The regions to observe.

use model::config::Config;
use model::id::Region;
use model::observation::{GapKind, Observation};

use crate::aws::Aws;
use crate::error::{CallError, CallErrorKind, call_error};

/// The configured regions; without any, all that the account has enabled, by `ec2:DescribeRegions`. If that fails, the home region alone,
/// and a gap.
pub async fn regions(aws: &Aws, config: &Config) -> Observation<Region> {
    let mut seen = if config.regions.is_empty() {
        enabled(aws).await
    } else {
        Observation { items: config.regions.clone(), gaps: Vec::new() }
    };
    seen.items.sort();
    seen.items.dedup();
    seen
}

async fn enabled(aws: &Aws) -> Observation<Region> {
    const CALL: &str = "ec2:DescribeRegions";
    let home = aws.home();
    // EC2 API reference, `DescribeRegions`: without AllRegions only those that are enabled.
    let answer = aws.ec2(home).describe_regions().send().await;
    let error = match answer {
        Ok(answer) => {
            let names = answer.regions().iter().filter_map(|region| region.region_name());
            let items: Vec<Region> = names.map(Region::from).collect();
            if !items.is_empty() {
                return Observation { items, gaps: Vec::new() };
            }
            // The SDK accepts a truncated answer.
            let message = "the answer names no region, and every account has some";
            CallError::new(CALL, home, CallErrorKind::Other, message)
        }
        Err(error) => call_error(CALL, home, &error),
    };
    Observation { items: vec![home.clone()], gaps: vec![error.gap_of_kind(GapKind::OtherRegions)] }
}

#[cfg(test)]
mod tests;
