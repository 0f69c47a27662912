//! Resources that somebody named by their ids, and where they are.

use std::str::FromStr;

use cloud::operator::{Kind, Located, locate};
use domain::config::Config;
use domain::id::{Region, ResourceId};
use domain::observed::{Gap, Observed};
use domain::plan::Seen;

use crate::context::Context;
use crate::failure::of_gap;

/// An instance, a volume or a snapshot, by its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) kind: Kind,
    pub(crate) id: ResourceId,
}

impl FromStr for Named {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let id = ResourceId::from(text);
        let kind = Kind::of(&id).ok_or(
            "not the id of an instance (i-0123456789abcdef0), a volume (vol-0123456789abcdef0) or a snapshot \
             (snap-0123456789abcdef0)",
        )?;
        Ok(Self { kind, id })
    }
}

/// Why somebody's resource is not at hand, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Missing {
    pub(crate) why: String,
    /// The regions that did not answer, so that it may be there.
    pub(crate) unseen: Vec<Region>,
}

/// Every region that the account has enabled: a resource may be where no run looks.
pub(crate) struct Everywhere(pub(crate) Observed<Region>);

impl Everywhere {
    pub(crate) async fn of(context: &Context) -> Self {
        Self(cloud::regions(&context.aws, &Config::default()).await)
    }

    pub(crate) async fn find(&self, context: &Context, named: &Named) -> Result<Seen, Missing> {
        let Self(Observed { items: regions, gaps }) = self;
        match locate(&context.aws, regions, named.kind, &named.id).await {
            Located::Here(seen) => Ok(*seen),
            Located::Unknown(unseen) => Err(unknown(&unseen)),
            // Where only the home region is known, the others may have it.
            Located::Nowhere if !gaps.is_empty() => Err(unknown(gaps)),
            Located::Nowhere => {
                let hint = match named.kind {
                    Kind::Instance => "; one that was terminated more than an hour ago is forgotten".to_owned(),
                    Kind::Volume => format!("; what Curfew deleted is restored by: curfew undo {}", named.id),
                    Kind::Snapshot => String::new(),
                };
                let why = format!("none of the account's {} regions has it{hint}", regions.len());
                Err(Missing { why, unseen: Vec::new() })
            }
        }
    }
}

fn unknown(gaps: &[Gap]) -> Missing {
    let unseen: Vec<Region> = gaps.iter().map(|gap| gap.region.clone()).collect();
    let more = match unseen.len() {
        0 | 1 => String::new(),
        count => format!(" (and {} more regions did not answer)", count - 1),
    };
    let first = gaps.first().map(of_gap);
    Missing { why: format!("nobody can say where it is: {}{more}", first.unwrap_or_default()), unseen }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_known_by_its_shape() {
        assert_eq!("i-0123456789abcdef0".parse::<Named>().map(|named| named.kind), Ok(Kind::Instance));
        assert_eq!("vol-0123456789abcdef0".parse::<Named>().map(|named| named.kind), Ok(Kind::Volume));
        for text in ["", "3d", "i-xyz", "ami-0123456789abcdef0", "i-0123456789abcdef0 "] {
            assert!(text.parse::<Named>().is_err(), "{text:?}");
        }
    }
}
