//! Dry runs of the calls that launch a job on several machines. EC2 checks the caller's permissions and the request, and makes nothing (EC2 API
//! reference, "Common query parameters", `DryRun`).
//!
//! A group that does not exist cannot be named, so the launch is asked for without the job's groups, and these are asked for beside it.

use aws_sdk_ec2::error::{ProvideErrorMetadata, SdkError};
use jobs::{Job, LaunchOrder, group_tags, placement_group_name};
use model::config::Config;
use model::id::Region;
use ports::GroupOrder;

use crate::aws::Aws;
use crate::error::{CallError, CallErrorKind, call_error};
use crate::jobs::groups::security::{CREATE_SECURITY_GROUP, security_group_request};
use crate::jobs::groups::{CREATE_PLACEMENT_GROUP, placement_group_request};
use crate::jobs::launch::{RUN_INSTANCES, request};

/// The error of a call that EC2 would have carried out.
const WOULD_SUCCEED: &str = "DryRunOperation";

/// Asks for the groups of a gang and for its machines. Returns the errors of the calls that EC2 would refuse.
pub async fn dry_run_gang(aws: &Aws, job: &Job, order: &LaunchOrder<'_>, config: &Config) -> Vec<CallError> {
    let region = &order.launch.candidate.region;
    let (tags, name) = (group_tags(job, config), placement_group_name(&job.job, order.launch.attempt));
    let group = &GroupOrder { region, name: &name, job: &job.job, tags: &tags };
    let ec2 = aws.ec2(region);
    let network = order.launch.candidate.network.as_ref();
    let mut refused = Vec::new();
    if let Some(vpc) = network.and_then(|network| network.vpc.as_ref()) {
        let answer = security_group_request(&ec2, group, vpc).dry_run(true).send().await;
        refused.extend(refusal(CREATE_SECURITY_GROUP, region, answer));
    }
    if network.is_some_and(|network| network.is_clustered) {
        let answer = placement_group_request(&ec2, group).dry_run(true).send().await;
        refused.extend(refusal(CREATE_PLACEMENT_GROUP, region, answer));
    }
    let answer = request(&ec2, order).dry_run(true).send().await;
    refused.extend(refusal(RUN_INSTANCES, region, answer));
    refused
}

/// `None` if EC2 would have carried the call out.
fn refusal<T, E>(call: &'static str, region: &Region, answer: Result<T, SdkError<E>>) -> Option<CallError>
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
{
    match answer {
        Err(error) if error.code() == Some(WOULD_SUCCEED) => None,
        Err(error) => Some(call_error(call, region, &error)),
        Ok(_) => {
            let message = "EC2 answered a dry run as if it had carried it out; look for what it made";
            Some(CallError::new(call, region, CallErrorKind::Other, message))
        }
    }
}
