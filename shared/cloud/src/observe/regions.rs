//! Where to look.

use domain::config::Config;
use domain::id::Region;
use domain::observed::Observed;

use crate::aws::Aws;
use crate::error::CallError;

/// The configured regions; where there are none, all that the account has enabled, by `ec2:DescribeRegions`. Where that
/// cannot be seen, the home region alone, and a gap.
pub async fn regions(aws: &Aws, config: &Config) -> Observed<Region> {
    let mut seen = if config.regions.is_empty() {
        enabled(aws).await
    } else {
        Observed { items: config.regions.clone(), gaps: Vec::new() }
    };
    seen.items.sort();
    seen.items.dedup();
    seen
}

async fn enabled(aws: &Aws) -> Observed<Region> {
    let home = aws.home();
    // EC2 API reference, `DescribeRegions`: without AllRegions only those that are enabled.
    match aws.ec2(home).describe_regions().send().await {
        Ok(answer) => {
            let names = answer.regions().iter().filter_map(|region| region.region_name());
            Observed { items: names.map(Region::from).collect(), gaps: Vec::new() }
        }
        Err(error) => {
            let gap = CallError::of("ec2:DescribeRegions", home, &error).gap();
            Observed { items: vec![home.clone()], gaps: vec![gap] }
        }
    }
}

#[cfg(test)]
mod tests;
