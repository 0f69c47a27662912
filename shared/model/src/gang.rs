//! Gangs: instances that work together, so that a stop of one ends the work of all.
//!
//! The instances of a region are of one gang if they carry the same value of `[gangs].tag`, or run in the same placement group. EC2 does not say
//! the strategy of a group in its list of instances, so that groups of independent machines (`spread`) count too: Curfew then stops less. Those
//! of strategy `partition` do not count, because EC2 gives each of their instances a partition.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::config::{Config, GangsConfig};
use crate::foreign_text::quoted_unless_word;
use crate::id::{Region, ResourceId, TeamName};
use crate::instance::{Accelerator, Instance, InstanceState};
use crate::ownership::{team_of, value_of};

/// The gangs of an account.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Gangs(BTreeMap<ResourceId, Arc<Gang>>);

/// Two or more instances that work together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gang {
    /// Its name for people: `placement group llama`.
    pub name: String,
    pub region: Region,
    /// Its running members, and those that are about to run, each with its team.
    pub members: BTreeMap<ResourceId, Option<TeamName>>,
}

impl Gang {
    /// Its members of one team; `None` if that is not more than one.
    #[must_use]
    pub fn within_team(&self, team: Option<&TeamName>) -> Option<Self> {
        let members = self.members.iter().filter(|(_, of_member)| of_member.as_ref() == team);
        let members: BTreeMap<_, _> = members.map(|(id, team)| (id.clone(), team.clone())).collect();
        (members.len() > 1).then(|| Self { members, ..self.clone() })
    }
}

/// A sign that instances work together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Sign<'a> {
    Tag(&'a str),
    PlacementGroup(&'a str),
}

impl Sign<'_> {
    fn describe(self) -> String {
        match self {
            Self::Tag(name) => format!("gang {}", quoted_unless_word(name)),
            Self::PlacementGroup(name) => format!("placement group {}", quoted_unless_word(name)),
        }
    }
}

impl Gangs {
    /// The gangs among all instances of the observed regions. Whatever leaves one out makes a gang smaller, and lets Curfew stop more.
    pub fn find<'a>(instances: impl IntoIterator<Item = &'a Instance>, config: &Config) -> Self {
        let members: Vec<&Instance> = instances.into_iter().filter(|instance| may_be_member(instance)).collect();
        let mut parents: Vec<usize> = (0..members.len()).collect();
        let mut first_with: BTreeMap<(&Region, Sign<'_>), usize> = BTreeMap::new();
        for (place, instance) in members.iter().enumerate() {
            for sign in signs(instance, &config.gangs) {
                let first = *first_with.entry((&instance.region, sign)).or_insert(place);
                let (first, own) = (root(&parents, first), root(&parents, place));
                let (older, newer) = (first.min(own), first.max(own));
                if let Some(parent) = parents.get_mut(newer) {
                    *parent = older;
                }
            }
        }
        let mut by_root: BTreeMap<usize, BTreeMap<ResourceId, Option<TeamName>>> = BTreeMap::new();
        for (place, instance) in members.iter().enumerate() {
            by_root
                .entry(root(&parents, place))
                .or_default()
                .insert(instance.id.clone(), team_of(&instance.tags, config));
        }
        let mut gangs = BTreeMap::new();
        for (place, members_of_gang) in by_root.into_iter().filter(|(_, members)| members.len() > 1) {
            let Some(first) = members.get(place) else { continue };
            let name = signs(first, &config.gangs).next().map(Sign::describe).unwrap_or_default();
            let gang = Arc::new(Gang { name, region: first.region.clone(), members: members_of_gang });
            gangs.extend(gang.members.keys().map(|id| (id.clone(), Arc::clone(&gang))));
        }
        Self(gangs)
    }

    /// The gang of an instance; `None` if it works alone.
    #[must_use]
    pub fn gang_of(&self, instance: &ResourceId) -> Option<&Arc<Gang>> {
        self.0.get(instance)
    }

    /// Each gang once.
    pub fn all(&self) -> impl Iterator<Item = &Gang> {
        self.0.iter().filter(|(id, gang)| gang.members.keys().next() == Some(*id)).map(|(_, gang)| gang.as_ref())
    }
}

/// A machine of a job without accelerators, and an instance that is stopped or ends, are of no gang.
fn may_be_member(instance: &Instance) -> bool {
    matches!(instance.state, InstanceState::Running | InstanceState::Pending | InstanceState::Unknown)
        && instance.machine.accelerator != Accelerator::None
}

fn signs<'a>(instance: &'a Instance, config: &GangsConfig) -> impl Iterator<Item = Sign<'a>> {
    let tag = if config.tag.is_empty() { None } else { value_of(&instance.tags, &config.tag) };
    let group = instance.placement_group.as_deref().filter(|_| config.placement_groups);
    tag.map(Sign::Tag).into_iter().chain(group.map(Sign::PlacementGroup))
}

fn root(parents: &[usize], mut place: usize) -> usize {
    while let Some(parent) = parents.get(place).copied().filter(|parent| *parent != place) {
        place = parent;
    }
    place
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{InstanceBuilder, instance};

    fn found(config: &str, all: Vec<InstanceBuilder>) -> Vec<(String, Vec<String>)> {
        let all: Vec<Instance> = all.into_iter().map(InstanceBuilder::build).collect();
        let gangs = Gangs::find(&all, &Config::read(config).unwrap());
        gangs.all().map(|gang| (gang.name.clone(), gang.members.keys().map(ToString::to_string).collect())).collect()
    }

    fn gang(name: &str, members: &[&str]) -> (String, Vec<String>) {
        (name.to_owned(), members.iter().map(|id| (*id).to_owned()).collect())
    }

    fn in_group(id: &str, group: &str) -> InstanceBuilder {
        instance().id(id).with(|instance| instance.placement_group = Some(group.to_owned()))
    }

    const TAG: &str = "[gangs]\ntag = \"Cluster\"";

    #[test]
    fn instances_of_a_placement_group_or_of_a_tag() {
        let all = || vec![in_group("i-1", "a"), in_group("i-2", "a"), in_group("i-3", "b"), instance().id("i-4")];
        assert_eq!(found("", all()), [gang("placement group a", &["i-1", "i-2"])]);
        assert_eq!(found("[gangs]\nplacement_groups = false", all()), []);
        let tagged = || {
            let tagged = |id, value| instance().id(id).tag("Cluster", value);
            vec![tagged("i-1", "llama"), tagged("i-2", "llama"), tagged("i-3", " "), tagged("i-4", " ")]
        };
        assert_eq!(found(TAG, tagged()), [gang("gang llama", &["i-1", "i-2"])]);
        assert_eq!(found("", tagged()), []);
    }

    #[test]
    fn one_instance_joins_what_it_has_in_common() {
        let all = vec![
            in_group("i-1", "a"),
            instance().id("i-2").tag("Cluster", "llama"),
            in_group("i-3", "b"),
            in_group("i-4", "a").tag("Cluster", "llama"),
            in_group("i-5", "b"),
        ];
        let expected = [gang("placement group a", &["i-1", "i-2", "i-4"]), gang("placement group b", &["i-3", "i-5"])];
        assert_eq!(found(TAG, all), expected);
    }

    #[test]
    fn what_does_not_run_or_is_elsewhere_is_of_no_gang() {
        let pending = in_group("i-2", "a").state(InstanceState::Pending);
        assert_eq!(found("", vec![in_group("i-1", "a"), pending]).len(), 1);
        assert_eq!(found("", vec![in_group("i-1", "a"), in_group("i-2", "a").state(InstanceState::Stopped)]), []);
        let far = in_group("i-2", "a").with(|instance| instance.region = "eu-west-1".into());
        assert_eq!(found("", vec![in_group("i-1", "a"), far]), []);
    }
}
