//! Finding one resource by its id, in any region.

use aws_sdk_ec2::Client;
use futures::future::join_all;
use model::id::{Region, ResourceId};
use model::instance::Instance;
use model::observation::{Gap, ObservedResource};

use crate::aws::Aws;
use crate::describe::{self, DESCRIBE_INSTANCES};
use crate::error::{CallError, CallErrorKind};
use crate::sagemaker;

/// Result of the search for a resource.
#[derive(Debug, Clone, PartialEq)]
pub enum LocateResult {
    /// The resource exists. For an instance, the facts of its type are unknown.
    Here(Box<ObservedResource>),
    /// No region knows it.
    Nowhere,
    /// These regions did not answer, and the others do not know it.
    Unknown(Vec<Gap>),
}

/// The kind of a resource, by its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResourceKind {
    /// `i-…`
    Instance,
    /// `vol-…`
    Volume,
    /// `snap-…`
    Snapshot,
    /// `endpoint/…` and the like.
    SageMaker,
}

impl ResourceKind {
    /// Reads the kind from the prefix of an id (EC2 user guide, "Resource IDs"); `None` for other ids.
    #[must_use]
    pub fn from_id(id: &ResourceId) -> Option<Self> {
        if sagemaker::is_id(id) {
            return Some(Self::SageMaker);
        }
        let (prefix, rest) = id.as_str().split_once('-')?;
        let legal = (8..=17).contains(&rest.len()) && rest.bytes().all(|byte| byte.is_ascii_hexdigit());
        match prefix {
            _ if !legal => None,
            "i" => Some(Self::Instance),
            "vol" => Some(Self::Volume),
            "snap" => Some(Self::Snapshot),
            _ => None,
        }
    }
}

/// Asks the first region alone, which has most resources, and only then all others at once.
pub async fn locate(aws: &Aws, regions: &[Region], kind: ResourceKind, id: &ResourceId) -> LocateResult {
    let mut gaps = Vec::new();
    let (home, others): (Vec<&Region>, Vec<&Region>) = regions.iter().partition(|region| *region == aws.home());
    for group in [home, others] {
        let looks = group.into_iter().map(|region| async move { describe_resource(aws, region, kind, id).await });
        for looked in join_all(looks).await {
            match looked {
                Ok(seen) => return LocateResult::Here(Box::new(seen)),
                Err(error) if error.kind == CallErrorKind::NotFound => {}
                Err(error) => gaps.push(error.gap_of_region()),
            }
        }
    }
    if gaps.is_empty() { LocateResult::Nowhere } else { LocateResult::Unknown(gaps) }
}

async fn describe_resource(
    aws: &Aws,
    region: &Region,
    kind: ResourceKind,
    id: &ResourceId,
) -> Result<ObservedResource, CallError> {
    let ec2 = &aws.ec2(region);
    Ok(match kind {
        ResourceKind::SageMaker => ObservedResource::SageMaker(sagemaker::find(aws, region, id).await?),
        ResourceKind::Instance => ObservedResource::Instance(instance(ec2, region, id).await?),
        ResourceKind::Volume => ObservedResource::Volume(describe::volume(ec2, region, id).await?),
        ResourceKind::Snapshot => ObservedResource::Snapshot(describe::snapshot(ec2, region, id).await?),
    })
}

async fn instance(ec2: &Client, region: &Region, id: &ResourceId) -> Result<Instance, CallError> {
    let page = describe::page(ec2.describe_instances().instance_ids(id.as_str()), region).await?;
    let instance = page.described.into_iter().next().map(|one| one.instance);
    instance.ok_or_else(|| CallError::without(DESCRIBE_INSTANCES, region, id, false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_known_by_its_id() {
        let check = |id: &str, expect| assert_eq!(ResourceKind::from_id(&ResourceId::from(id)), expect, "{id}");
        check("i-0123456789abcdef0", Some(ResourceKind::Instance));
        check("vol-01234567", Some(ResourceKind::Volume));
        check("snap-0123456789abcdef0", Some(ResourceKind::Snapshot));
        check("endpoint/llm", Some(ResourceKind::SageMaker));
        check("notebook-instance/research-1", Some(ResourceKind::SageMaker));
        check("app/d-abc/lab/jupyterlab/default", Some(ResourceKind::SageMaker));
        check("training-job/bert", Some(ResourceKind::SageMaker));
        check("endpoint/", None);
        check("endpoint/llm; reboot", None);
        check("endpoint/llm/variant", None);
        check("model/llm", None);
        check("i-", None);
        check("i-0123456789abcdefgh", None);
        check("ami-0123456789abcdef0", None);
        check("llama-ft", None);
    }
}
