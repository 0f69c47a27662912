//! The machine of a job: looking at it, and ending it.

use domain::id::{Region, ResourceId};
use domain::job::{JobId, Placed, Sight};
use jiff::Timestamp;

use crate::aws::Aws;
use crate::error::CallError;

/// An instance that was asked for, as EC2 tells of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Looked {
    /// Which.
    pub instance: ResourceId,
    /// What it is doing.
    pub sight: Sight,
    /// When it was launched, where it is seen.
    pub launched_at: Option<Timestamp>,
    /// The value of its tag `curfew:job`.
    pub job: Option<String>,
    /// The number of its tag `curfew:attempt`.
    pub attempt: Option<u32>,
}

/// Looks at these instances of one region. Each is in the answer once; one that EC2 does not know is [`Sight::Absent`], and hides no
/// other.
///
/// # Errors
/// Where EC2 does not say it whole.
pub async fn look(_aws: &Aws, _region: &Region, _ids: &[ResourceId]) -> Result<Vec<Looked>, CallError> {
    Ok(Vec::new())
}

/// Ends this machine, if it is that job's and not protected. One that is gone already is fine.
///
/// # Errors
/// Where it was not ended, which includes that EC2 does not know it.
pub async fn terminate(_aws: &Aws, _job: &JobId, placed: &Placed) -> Result<(), CallError> {
    Err(CallError::without("ec2:TerminateInstances", &placed.region, &placed.instance, true))
}
