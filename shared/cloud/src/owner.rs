//! Calls by which owners answer for one resource: finding it, writing its tags, and starting it again. `curfew keep`, `protect` and `undo` make
//! them, and the function that answers links.

mod locate;
mod tags;

use model::id::{Region, ResourceId};

use crate::aws::Aws;
use crate::error::{CallError, call_error};

pub use locate::{LocateResult, ResourceKind, locate};
#[cfg(feature = "operator")]
pub use tags::remove_tags;
pub use tags::write_tag;

pub use crate::sagemaker::start_notebook;

/// Starts an instance. EC2 may accept the call and the start may still fail: observe it until it runs.
///
/// # Errors
/// If EC2 refused. [`CallErrorKind::Unanswered`](crate::CallErrorKind::Unanswered): it may be starting.
pub async fn start(aws: &Aws, region: &Region, instance: &ResourceId) -> Result<(), CallError> {
    let answer = aws.ec2(region).start_instances().instance_ids(instance.as_str()).send().await;
    answer.map(drop).map_err(|error| call_error("ec2:StartInstances", region, &error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::{ReplayAnswer, aws};

    #[tokio::test]
    async fn a_start_names_one_instance() {
        let (aws, calls) = aws(|_| ReplayAnswer::ok("<instancesSet/>"));
        start(&aws, &"us-east-1".into(), &"i-1".into()).await.unwrap();
        assert_eq!(calls.said(), ["StartInstances InstanceId.1=i-1"]);
    }
}
