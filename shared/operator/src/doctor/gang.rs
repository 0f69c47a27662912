//! The dry run of a launch of two machines together, which says whether a job on several machines could be launched now, as far as permissions and
//! the request go. EC2 looks at no capacity in it. The permissions are those of the person who asks: those of `run-jobs` are checked by
//! [`permissions`](super::permissions).

use jobs::{GangEstimate, Lifecycle};
use model::id::Region;

use super::DoctorFinding;
use super::quotas::SpotGang;

/// The check's name.
pub const CHECK: &str = "gang";

/// The finding of a launch that is nowhere possible.
#[must_use]
pub fn impossible(region: &Region, why: &str) -> DoctorFinding {
    let remedy = "a job on several machines would wait for the same reason; change what it names";
    DoctorFinding::warning(region, format!("no two machines can be launched together: {why}"), remedy)
}

/// The finding of a call that EC2 would refuse, for another reason than a permission.
#[must_use]
pub fn refused(region: &Region, call: &str, message: &str) -> DoctorFinding {
    let found = format!("EC2 would refuse {call} of two machines together: {message}");
    DoctorFinding::warning(
        region,
        found,
        "read AWS's message: a job on several machines would be refused for the same reason",
    )
}

/// The machines as a gang that does not run, if AWS can take them back.
#[must_use]
pub fn planned(estimate: &GangEstimate, region: &Region) -> Option<SpotGang> {
    let vcpus = estimate.vcpus.filter(|_| estimate.lifecycle == Lifecycle::Spot)?;
    Some(SpotGang {
        name: "a job".to_owned(),
        region: region.clone(),
        instance_type: estimate.instance_type.clone(),
        nodes: u32::from(estimate.nodes),
        vcpus,
        is_running: false,
    })
}

/// Summarizes a launch that EC2 would carry out.
#[must_use]
pub fn summary(estimate: &GangEstimate) -> String {
    let GangEstimate { nodes, instance_type, zone, network, .. } = estimate;
    let network = network.as_ref().map(|network| format!(", {}", network.describe())).unwrap_or_default();
    format!("EC2 would launch {nodes} × {instance_type} together in {zone}{network}; capacity is not checked")
}
