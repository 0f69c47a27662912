//! Resources named by their ids, or instances by their names, and their regions.

use std::str::FromStr;
use std::time::Duration;

use cloud::operator::{LocateResult, ResourceKind, locate};
use model::config::Config;
use model::fault::InvalidValue;
use model::foreign_text::quoted;
use model::id::{Region, ResourceId};
use model::observation::{Gap, Observation, ObservedResource};
use operator::instance_name::find_by_name;

use crate::command_error::{CommandError, describe_gap};
use crate::context::CommandContext;
use crate::screen;

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

/// The beginnings of ids: a mistyped id is no name.
const ID_PREFIXES: [&str; 8] =
    ["i-", "vol-", "snap-", "endpoint/", "notebook-instance/", "inference-component/", "app/", "training-job/"];

/// Limit of the look at the instances of a region, among which a name is searched.
const TIMEOUT: Duration = Duration::from_mins(1);

/// A resource as people type it: by its id, or a GPU instance by its tag `Name`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ResourceArgument {
    Id(NamedResource),
    Name(String),
}

impl FromStr for ResourceArgument {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        let is_meant_as_id = text.trim().is_empty() || ID_PREFIXES.iter().any(|prefix| text.starts_with(prefix));
        match text.parse() {
            Ok(named) => Ok(Self::Id(named)),
            Err(why) if is_meant_as_id => Err(why),
            Err(_) => Ok(Self::Name(text.to_owned())),
        }
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

    /// The resources that somebody typed. A name is searched among the GPU instances of all regions.
    ///
    /// # Errors
    /// If a name does not name one instance.
    pub(crate) async fn resolve(
        &self,
        context: &CommandContext,
        typed: &[ResourceArgument],
    ) -> Result<Vec<NamedResource>, CommandError> {
        let Self(Observation { items: regions, gaps }) = self;
        let mut seen = Observation::default();
        if typed.iter().any(|one| matches!(one, ResourceArgument::Name(_))) {
            seen = Box::pin(cloud::instances(&context.aws, regions, TIMEOUT)).await;
            seen.gaps.extend(gaps.iter().cloned());
        }
        let resolve = |one: &ResourceArgument| match one {
            ResourceArgument::Id(named) => Ok(named.clone()),
            ResourceArgument::Name(name) => {
                let id = find_by_name(name, &seen).map_err(CommandError::new)?.clone();
                screen::progress(format!("{} is {id}", quoted(name)));
                Ok(NamedResource { kind: ResourceKind::Instance, id })
            }
        };
        typed.iter().map(resolve).collect()
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

    #[test]
    fn what_begins_as_no_id_is_a_name() {
        let check = |text: &str, expect: Option<bool>| {
            let read = text.parse::<ResourceArgument>().ok();
            assert_eq!(read.map(|one| matches!(one, ResourceArgument::Name(_))), expect, "{text:?}");
        };
        check("i-0123456789abcdef0", Some(false));
        check("endpoint/llm", Some(false));
        for name in ["llama-ft", "team/train 3", "ami-builder", "vision"] {
            check(name, Some(true));
        }
        for slip in ["", " ", "i-xyz", "vol-1", "endpoint/"] {
            check(slip, None);
        }
    }
}
