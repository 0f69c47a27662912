//! The instances as they are now: what was stopped since the newest run wastes nothing.

use std::collections::BTreeSet;

use model::id::{Region, ResourceId};
use model::instance::{Instance, InstanceState};
use model::observation::Observation;

/// The instances that run, of the regions that could be read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SeenInstances {
    regions: BTreeSet<Region>,
    running: BTreeSet<ResourceId>,
}

impl SeenInstances {
    /// Reads them from the observation of these regions.
    #[must_use]
    pub fn new(regions: &[Region], seen: &Observation<Instance>) -> Self {
        let is_hidden =
            |region: &Region| seen.gaps.iter().any(|gap| gap.region == *region && gap.kind.hides_resources());
        let runs = |instance: &&Instance| {
            matches!(instance.state, InstanceState::Pending | InstanceState::Running | InstanceState::Unknown)
        };
        Self {
            regions: regions.iter().filter(|region| !is_hidden(region)).cloned().collect(),
            running: seen.items.iter().filter(runs).map(|instance| instance.id.clone()).collect(),
        }
    }

    /// Returns `true` for an instance that was stopped, or is gone.
    pub(crate) fn has_ended(&self, region: &Region, resource: &ResourceId) -> bool {
        resource.as_str().starts_with("i-") && self.regions.contains(region) && !self.running.contains(resource)
    }
}

#[cfg(test)]
mod tests {
    use model::fixture::instance;
    use model::observation::{Gap, GapKind};

    use super::*;

    #[test]
    fn what_does_not_run_in_a_region_that_was_read_has_ended() {
        let regions = ["us-east-1", "eu-west-1"].map(Region::from);
        let items = vec![
            instance().id("i-runs").build(),
            instance().id("i-stops").state(InstanceState::Stopping).build(),
            instance().id("i-far").region("eu-west-1").state(InstanceState::Stopped).build(),
        ];
        let gaps = vec![Gap::new(&"eu-west-1".into(), "ec2:DescribeInstances", "late".to_owned(), GapKind::Region)];
        let seen = SeenInstances::new(&regions, &Observation { items, gaps });
        let check = |region: &str, resource: &str, expect: bool| {
            assert_eq!(seen.has_ended(&region.into(), &resource.into()), expect, "{region} {resource}");
        };
        check("us-east-1", "i-runs", false);
        check("us-east-1", "i-stops", true);
        check("us-east-1", "i-gone", true);
        check("eu-west-1", "i-far", false);
        check("ap-south-1", "i-unread", false);
        check("us-east-1", "vol-1", false);
    }
}
