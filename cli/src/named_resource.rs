//! Resources named by their ids, and their regions.

use std::str::FromStr;

use cloud::operator::{LocateResult, ResourceKind, locate};
use model::config::Config;
use model::fault::InvalidValue;
use model::id::{Region, ResourceId};
use model::observation::{Gap, Observation, ObservedResource};

use crate::command_error::describe_gap;
use crate::context::CommandContext;

/// An instance, a volume, a snapshot or a resource of `SageMaker`, by its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedResource {
    pub(crate) kind: ResourceKind,
    pub(crate) id: ResourceId,
}

impl FromStr for NamedResource {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        let id = ResourceId::from(text);
        let kind = ResourceKind::from_id(&id).ok_or_else(|| {
            InvalidValue::new(
                "not the id of an instance (i-0123456789abcdef0), a volume (vol-0123456789abcdef0), a snapshot \
                 (snap-0123456789abcdef0) or a resource of SageMaker (endpoint/NAME, notebook-instance/NAME, \
                 inference-component/NAME, app/DOMAIN/OWNER/TYPE/NAME, training-job/NAME)",
            )
        })?;
        Ok(Self { kind, id })
    }
}

/// The reason why a resource was not found, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MissingResource {
    pub(crate) why: String,
    /// The regions that did not answer: it may be there.
    pub(crate) unseen: Vec<Region>,
}

/// Every region that the account has enabled: a resource may be in a region that no run observes.
pub(crate) struct EnabledRegions(pub(crate) Observation<Region>);

impl EnabledRegions {
    pub(crate) async fn load(context: &CommandContext) -> Self {
        Self(cloud::regions(&context.aws, &Config::default()).await)
    }

    pub(crate) async fn find(
        &self,
        context: &CommandContext,
        named: &NamedResource,
    ) -> Result<ObservedResource, MissingResource> {
        let Self(Observation { items: regions, gaps }) = self;
        match locate(&context.aws, regions, named.kind, &named.id).await {
            LocateResult::Here(seen) => Ok(*seen),
            LocateResult::Unknown(unseen) => Err(unknown(&unseen)),
            // If only the home region is known, the others may have it.
            LocateResult::Nowhere if !gaps.is_empty() => Err(unknown(gaps)),
            LocateResult::Nowhere => {
                let hint = match named.kind {
                    ResourceKind::Instance => "; one that was terminated more than an hour ago is forgotten".to_owned(),
                    ResourceKind::Volume => format!("; what Curfew deleted is restored by: curfew undo {}", named.id),
                    ResourceKind::Snapshot => String::new(),
                    ResourceKind::SageMaker => {
                        format!("; an endpoint that Curfew deleted is made again by: curfew undo {}", named.id)
                    }
                };
                let why = format!("none of the account's {} regions has it{hint}", regions.len());
                Err(MissingResource { why, unseen: Vec::new() })
            }
        }
    }
}

fn unknown(gaps: &[Gap]) -> MissingResource {
    let unseen: Vec<Region> = gaps.iter().map(|gap| gap.region.clone()).collect();
    let more = match unseen.len() {
        0 | 1 => String::new(),
        count => format!(" (and {} more regions did not answer)", count - 1),
    };
    let first = gaps.first().map(describe_gap);
    MissingResource {
        why: format!("it was not found, and not every region answered: {}{more}", first.unwrap_or_default()),
        unseen,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_known_by_its_shape() {
        assert_eq!("i-0123456789abcdef0".parse::<NamedResource>().map(|named| named.kind), Ok(ResourceKind::Instance));
        assert_eq!("vol-0123456789abcdef0".parse::<NamedResource>().map(|named| named.kind), Ok(ResourceKind::Volume));
        for text in ["", "3d", "i-xyz", "ami-0123456789abcdef0", "i-0123456789abcdef0 "] {
            assert!(text.parse::<NamedResource>().is_err(), "{text:?}");
        }
    }
}
