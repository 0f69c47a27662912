//! The groups of EC2 that Curfew makes for the machines of a gang: a security group for each VPC, and a placement group for each attempt.
//!
//! **Never tried on AWS.**

use model::id::{Region, ResourceId};
use serde::{Deserialize, Serialize};

use crate::JobId;

/// The most groups that a state names. Without permission to delete them there could be one more with each attempt; the others are found once an hour.
pub(crate) const GROUPS_MAX: usize = 40;

/// A group that was made for a job.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum JobGroup {
    /// Lets the machines reach each other.
    Security { region: Region, vpc: ResourceId, id: ResourceId },
    /// Places the machines of one attempt close to each other. It is in the state before it is made.
    Placement {
        region: Region,
        attempt: u32,
        /// `true` once EC2 has confirmed it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_made: bool,
    },
}

/// A group, as EC2's calls name it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GroupKey {
    Security(ResourceId),
    /// Its name, which is unique in the region.
    Placement(String),
}

/// A group with a tag of Curfew, as EC2 lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedGroup {
    pub key: GroupKey,
    pub name: String,
    /// The value of its tag `curfew:job`.
    pub job: String,
}

/// The security groups of a VPC that concern a gang.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VpcGroups {
    /// The job's own one.
    pub own: ResourceId,
    /// The default one of the VPC, which EC2 takes where none is named.
    pub default: Option<ResourceId>,
}

impl JobGroup {
    #[must_use]
    pub const fn region(&self) -> &Region {
        match self {
            Self::Security { region, .. } | Self::Placement { region, .. } => region,
        }
    }

    #[must_use]
    pub fn key(&self, job: &JobId) -> GroupKey {
        match self {
            Self::Security { id, .. } => GroupKey::Security(id.clone()),
            Self::Placement { attempt, .. } => GroupKey::Placement(placement_group_name(job, *attempt)),
        }
    }

    /// Returns `true` for the placement group of that attempt in that region.
    pub(crate) fn is_placement_of(&self, in_region: &Region, of_attempt: u32) -> bool {
        matches!(self, Self::Placement { region, attempt, .. } if region == in_region && *attempt == of_attempt)
    }
}

impl ListedGroup {
    /// The job that it was made for; `None` if Curfew does not name groups of that job so.
    #[must_use]
    pub fn find_job(&self) -> Option<JobId> {
        let job = JobId::read(&self.job).ok()?;
        let is_named_so = match &self.key {
            GroupKey::Security(_) => self.name == security_group_name(&job),
            GroupKey::Placement(_) => {
                let attempt = self.name.rsplit_once('-').and_then(|(_, attempt)| attempt.parse().ok());
                attempt.is_some_and(|attempt| self.name == placement_group_name(&job, attempt))
            }
        };
        is_named_so.then_some(job)
    }
}

/// The name of a job's security group, in each VPC.
#[must_use]
pub fn security_group_name(job: &JobId) -> String {
    format!("curfew-{}", job.job)
}

/// The name of the placement group of an attempt.
#[must_use]
pub fn placement_group_name(job: &JobId, attempt: u32) -> String {
    format!("curfew-{}-{attempt}", job.job)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listed_group_is_of_the_job_that_both_its_name_and_its_tag_name() {
        let check = |key: GroupKey, name: &str, job: &str, is_its: bool| {
            let listed = ListedGroup { key, name: name.to_owned(), job: job.to_owned() };
            assert_eq!(listed.find_job().is_some(), is_its, "{listed:?}");
        };
        let security = || GroupKey::Security("sg-1".into());
        let placement = |name: &str| GroupKey::Placement(name.to_owned());
        check(security(), "curfew-ddp-0123abcd", "vision/ddp-0123abcd", true);
        check(security(), "curfew-ddp-0123abcd", "vision/ddp-00000000", false);
        check(security(), "default", "vision/ddp-0123abcd", false);
        check(security(), "curfew-x", "x", false);
        let name = "curfew-ddp-0123abcd-12";
        check(placement(name), name, "vision/ddp-0123abcd", true);
        check(security(), name, "vision/ddp-0123abcd", false);
        for name in ["curfew-ddp-0123abcd", "curfew-ddp-0123abcd-x", "curfew-ddp-0123abcd-012"] {
            check(placement(name), name, "vision/ddp-0123abcd", false);
        }
    }
}
