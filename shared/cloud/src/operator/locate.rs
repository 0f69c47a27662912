//! Finding one resource by its id, in whatever region it is.

use aws_sdk_ec2::Client;
use domain::id::{Region, ResourceId};
use domain::instance::Instance;
use domain::observed::Gap;
use domain::plan::Seen;
use futures::future::join_all;

use crate::aws::Aws;
use crate::describe::{self, DESCRIBE_INSTANCES};
use crate::error::{CallError, CallErrorKind};

/// What was found.
#[derive(Debug, Clone, PartialEq)]
pub enum Located {
    /// It is there. Of an instance, the facts of its type are not known.
    Here(Box<Seen>),
    /// Every region says that it knows it not.
    Nowhere,
    /// No region that answered knows it, and these did not answer.
    Unknown(Vec<Gap>),
}

/// The kind of a resource, by its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `i-…`
    Instance,
    /// `vol-…`
    Volume,
    /// `snap-…`
    Snapshot,
}

impl Kind {
    /// By the prefix of an id (EC2 user guide, "Resource IDs"); `None` where it is none of these.
    #[must_use]
    pub fn of(id: &ResourceId) -> Option<Self> {
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

/// Asks the first region alone, where most are, and only then all others at once.
pub async fn locate(aws: &Aws, regions: &[Region], kind: Kind, id: &ResourceId) -> Located {
    let mut gaps = Vec::new();
    let (home, others): (Vec<&Region>, Vec<&Region>) = regions.iter().partition(|region| *region == aws.home());
    for group in [home, others] {
        let looks = group.into_iter().map(|region| async move {
            let ec2 = aws.ec2(region);
            look(&ec2, region, kind, id).await
        });
        for looked in join_all(looks).await {
            match looked {
                Ok(seen) => return Located::Here(Box::new(seen)),
                Err(error) if error.kind == CallErrorKind::NotFound => {}
                Err(error) => gaps.push(error.gap_of_region()),
            }
        }
    }
    if gaps.is_empty() { Located::Nowhere } else { Located::Unknown(gaps) }
}

async fn look(ec2: &Client, region: &Region, kind: Kind, id: &ResourceId) -> Result<Seen, CallError> {
    Ok(match kind {
        Kind::Instance => Seen::Instance(instance(ec2, region, id).await?),
        Kind::Volume => Seen::Volume(describe::volume(ec2, region, id).await?),
        Kind::Snapshot => Seen::Snapshot(describe::snapshot(ec2, region, id).await?),
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
        let check = |id: &str, expect| assert_eq!(Kind::of(&ResourceId::from(id)), expect, "{id}");
        check("i-0123456789abcdef0", Some(Kind::Instance));
        check("vol-01234567", Some(Kind::Volume));
        check("snap-0123456789abcdef0", Some(Kind::Snapshot));
        check("i-", None);
        check("i-0123456789abcdefgh", None);
        check("ami-0123456789abcdef0", None);
        check("llama-ft", None);
    }
}
