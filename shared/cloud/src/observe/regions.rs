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
mod tests {
    use super::*;
    use crate::replay::{ReplayAnswer, aws};

    fn names(seen: &Observation<Region>) -> Vec<&str> {
        seen.items.iter().map(Region::as_str).collect()
    }

    #[tokio::test]
    async fn configured_regions_cost_no_call() {
        let (aws, calls) = aws(|_| ReplayAnswer::error("Unexpected", "call"));
        let config = Config {
            regions: vec!["eu-west-1".into(), "eu-central-1".into(), "eu-west-1".into()],
            ..Config::default()
        };
        let seen = regions(&aws, &config).await;
        assert_eq!((names(&seen), calls.names().len()), (vec!["eu-central-1", "eu-west-1"], 0));
    }

    #[tokio::test]
    async fn without_configuration_all_that_are_enabled() {
        let (aws, calls) = aws(|_| {
            let item = |name| format!("<item><regionName>{name}</regionName></item>");
            ReplayAnswer::ok(format!("<regionInfo>{}{}</regionInfo>", item("us-east-1"), item("ap-south-1")))
        });
        let seen = regions(&aws, &Config::default()).await;
        assert_eq!((names(&seen), seen.gaps.len()), (vec!["ap-south-1", "us-east-1"], 0));
        assert_eq!(calls.said(), ["DescribeRegions "], "AllRegions would name those that are not enabled");
    }

    #[tokio::test]
    async fn without_a_list_of_regions_only_home_is_observed() {
        let (aws, _) = aws(|_| ReplayAnswer::error("UnauthorizedOperation", "No"));
        let seen = regions(&aws, &Config::default()).await;
        assert_eq!(names(&seen), ["us-east-1"]);
        assert!(seen.gaps[0].error.ends_with("grant ec2:DescribeRegions to the role that asked"), "{:?}", seen.gaps);
    }

    #[tokio::test]
    async fn an_answer_without_any_region_is_no_answer() {
        let (aws, _) = aws(|_| ReplayAnswer::ok("<regionInfo></regionInfo>".to_owned()));
        let seen = regions(&aws, &Config::default()).await;
        assert_eq!(names(&seen), ["us-east-1"]);
        assert!(seen.gaps[0].error.contains("names no region"), "{:?}", seen.gaps);
    }
}
