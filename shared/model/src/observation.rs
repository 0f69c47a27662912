//! Result of observing: the items that were seen, and the gaps.

use std::collections::BTreeMap;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use crate::fault::{Bug, Passing};
use crate::id::{Region, ResourceId};
use crate::instance::{Instance, Tags};
use crate::sagemaker::SageMakerResource;
use crate::volume::{Snapshot, Volume};

/// The result of an observation, and gaps where something could not be seen.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observed<T> {
    /// The result, as far as it was seen.
    pub items: T,
    /// Gaps: parts that could not be seen, and why.
    pub gaps: Vec<Gap>,
}

/// Items that were seen, and gaps where something could not be.
pub type Observation<T> = Observed<Vec<T>>;

impl<T> Observed<T> {
    /// Adds the gaps to others, and returns what was seen.
    pub fn with_gaps_in(self, gaps: &mut Vec<Gap>) -> T {
        gaps.extend(self.gaps);
        self.items
    }
}

impl<T> Observation<T> {
    /// Only a gap.
    #[must_use]
    pub fn nothing_but(gap: Gap) -> Self {
        Self { items: Vec::new(), gaps: vec![gap] }
    }

    /// Adds what another look saw.
    pub fn extend(&mut self, other: Self) {
        self.items.extend(other.items);
        self.gaps.extend(other.gaps);
    }
}

/// Collects what was read by its key, and the gaps.
impl<K: Ord, V> Extend<(K, Result<V, Gap>)> for Observed<BTreeMap<K, V>> {
    fn extend<I: IntoIterator<Item = (K, Result<V, Gap>)>>(&mut self, reads: I) {
        for (key, read) in reads {
            match read {
                Ok(value) => drop(self.items.insert(key, value)),
                Err(gap) => self.gaps.push(gap),
            }
        }
    }
}

/// A resource as it was seen.
#[derive(Debug, Clone, PartialEq)]
pub enum ObservedResource {
    Instance(Instance),
    Volume(Volume),
    Snapshot(Snapshot),
    SageMaker(SageMakerResource),
}

impl ObservedResource {
    #[must_use]
    pub const fn region(&self) -> &Region {
        match self {
            Self::Instance(instance) => &instance.region,
            Self::Volume(volume) => &volume.region,
            Self::Snapshot(snapshot) => &snapshot.region,
            Self::SageMaker(resource) => &resource.region,
        }
    }

    #[must_use]
    pub const fn id(&self) -> &ResourceId {
        match self {
            Self::Instance(instance) => &instance.id,
            Self::Volume(volume) => &volume.id,
            Self::Snapshot(snapshot) => &snapshot.id,
            Self::SageMaker(resource) => &resource.id,
        }
    }

    #[must_use]
    pub const fn tags(&self) -> &Tags {
        match self {
            Self::Instance(instance) => &instance.tags,
            Self::Volume(volume) => &volume.tags,
            Self::Snapshot(snapshot) => &snapshot.tags,
            Self::SageMaker(resource) => &resource.tags,
        }
    }

    #[must_use]
    pub const fn instance(&self) -> Option<&Instance> {
        match self {
            Self::Instance(instance) => Some(instance),
            Self::Volume(_) | Self::Snapshot(_) | Self::SageMaker(_) => None,
        }
    }
}

/// Beginning of [`Gap::call`] where it is no call.
const JUDGING: &str = "judging ";

/// Something that could not be seen. Never a reason to act.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    pub region: Region,
    /// The call by its IAM action, such as `ec2:DescribeInstances`; of a bug the resource.
    pub call: String,
    /// Answer of AWS, and the remedy if it lasts.
    pub error: String,
    pub kind: GapKind,
    /// `None` if it lasts.
    pub passing: Option<Passing>,
}

impl Gap {
    /// One that lasts.
    #[must_use]
    pub fn new(region: &Region, call: impl Into<String>, error: impl Into<String>, kind: GapKind) -> Self {
        Self { region: region.clone(), call: call.into(), error: error.into(), kind, passing: None }
    }

    /// Makes the gap that a bug leaves in one resource.
    #[must_use]
    pub fn for_bug(bug: &Bug, region: &Region, resource: &ResourceId) -> Self {
        Self::new(region, format!("{JUDGING}{resource}"), bug.to_string(), GapKind::Part)
    }

    /// The resource in which a bug left the gap; `None` for a call.
    #[must_use]
    pub fn resource_of_bug(&self) -> Option<&str> {
        self.call.strip_prefix(JUDGING)
    }

    /// The error as a run reports it.
    #[must_use]
    pub fn in_run(&self) -> String {
        self.with(self.passing.map(|_| Passing::IN_RUN))
    }

    /// The error as a command shows it.
    #[must_use]
    pub fn in_command(&self) -> String {
        self.with(self.passing.map(Passing::advice))
    }

    fn with(&self, advice: Option<&str>) -> String {
        advice.map_or_else(|| self.error.clone(), |advice| format!("{}; {advice}", self.error))
    }
}

/// Serialises a gap as a run reports it.
impl Serialize for Gap {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut gap = serializer.serialize_struct("Gap", 3)?;
        gap.serialize_field("region", &self.region)?;
        gap.serialize_field("call", &self.call)?;
        gap.serialize_field("error", &self.in_run())?;
        gap.end()
    }
}

/// The unseen part. It decides how often people are notified of a gap, and what is left undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GapKind {
    /// The whole region stayed unseen.
    Region,
    /// The organisation forbids the region, which people here cannot change: notified once.
    ForbiddenRegion,
    /// The list of regions stayed unknown: only the home region was observed.
    OtherRegions,
    /// Resources of the region may be missing from what was seen.
    Listing,
    /// Reserved capacity of the region may be missing from what was seen, and nothing else.
    Reservations,
    /// File systems of the region may be missing from what was seen, and nothing else.
    FileSystems,
    /// Something about resources of the region, or of the account, stayed unseen.
    Part,
    /// Everything was read, and nobody is known to receive what is announced.
    Readers,
    /// The configuration of the organization's hub is an old copy, or unknown.
    Hub,
    /// It is unknown which stack acts, or another stack could not be told.
    Home,
}

impl GapKind {
    /// Returns the name in the log of notifications.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Region => "region",
            Self::ForbiddenRegion => "forbidden-region",
            Self::OtherRegions => "other-regions",
            Self::Listing => "listing",
            Self::Reservations => "reservations",
            Self::FileSystems => "file-systems",
            Self::Part => "part",
            Self::Readers => "readers",
            Self::Hub => "hub",
            Self::Home => "home",
        }
    }

    /// `true` if nothing of the region was seen.
    #[must_use]
    pub const fn hides_region(self) -> bool {
        matches!(self, Self::Region | Self::ForbiddenRegion)
    }

    /// `true` if a resource that was not seen may exist all the same; not of reservations or file systems alone.
    #[must_use]
    pub const fn hides_resources(self) -> bool {
        !matches!(self, Self::Reservations | Self::FileSystems | Self::Part | Self::Readers | Self::Hub | Self::Home)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The log of notifications keeps these names: another one would notify people again.
    #[test]
    fn a_kind_of_gap_has_the_name_that_the_log_keeps() {
        use GapKind::{
            FileSystems, ForbiddenRegion, Home, Hub, Listing, OtherRegions, Part, Readers, Region, Reservations,
        };
        let all = [Region, ForbiddenRegion, OtherRegions, Listing, Reservations, FileSystems, Part, Readers, Hub, Home];
        let names = [
            "region",
            "forbidden-region",
            "other-regions",
            "listing",
            "reservations",
            "file-systems",
            "part",
            "readers",
            "hub",
            "home",
        ];
        assert_eq!(all.map(GapKind::as_str), names);
    }
}
