//! Tag keys that only look like a key of the configuration. A tag key is case-sensitive (EC2 user guide, "Tag restrictions"), so
//! `team` is not `Team`: the account is judged as if it had no such tag.

use std::collections::{BTreeMap, BTreeSet};

use crate::config::Config;
use crate::foreign_text::quoted;
use crate::id::ResourceId;
use crate::instance::{Instance, Tags};
use crate::ownership::{near_misses, value_of};

/// The most instances that a finding names.
const NAMED_MAX: usize = 3;

/// Instances that lack a key of the configuration, and carry one that looks like it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NearKeys {
    /// Number of the instances that were seen.
    instances: usize,
    carriers: BTreeMap<NearKey, BTreeSet<ResourceId>>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct NearKey {
    configured: String,
    written: String,
}

/// A key that looks like a configured one, in words for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NearKeyFinding {
    pub found: String,
    /// The change that settles it.
    pub remedy: String,
}

impl NearKeys {
    /// The near misses among these instances.
    #[must_use]
    pub fn from_instances(instances: &[Instance], config: &Config) -> Self {
        let mut near = Self { instances: instances.len(), ..Self::default() };
        let configured = configured_keys(config);
        for instance in instances {
            for key in find(&instance.tags, configured.iter().copied()) {
                near.carriers.entry(key).or_default().insert(instance.id.clone());
            }
        }
        near
    }

    /// Adds those of other instances.
    pub fn merge(&mut self, other: Self) {
        self.instances = self.instances.saturating_add(other.instances);
        for (key, ids) in other.carriers {
            self.carriers.entry(key).or_default().extend(ids);
        }
    }

    /// One finding for each pair of keys.
    #[must_use]
    pub fn findings(&self, config: &Config) -> Vec<NearKeyFinding> {
        self.carriers.iter().map(|(key, ids)| self.finding(key, ids, config)).collect()
    }

    fn finding(&self, key: &NearKey, ids: &BTreeSet<ResourceId>, config: &Config) -> NearKeyFinding {
        let NearKey { configured, written } = key;
        let named: Vec<&str> = ids.iter().take(NAMED_MAX).map(ResourceId::as_str).collect();
        let more = ids.len().saturating_sub(NAMED_MAX);
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        let found = format!(
            "{} of {} GPU instances carry {}, which is not {}: {}{more}",
            ids.len(),
            self.instances,
            quoted(written),
            key.purpose(config),
            named.join(", ")
        );
        let setting = key.setting(config);
        let remedy = if ids.len() == self.instances {
            format!("{setting}, or write {configured} on them")
        } else {
            format!("write {configured} on them; if the account means the other key, {setting}")
        };
        NearKeyFinding { found, remedy }
    }
}

impl NearKey {
    fn purpose(&self, config: &Config) -> String {
        let key = &self.configured;
        if config.tags.required.contains(key) {
            return format!("the required tag {key}");
        }
        let section = match key {
            _ if *key == config.tags.team || *key == config.tags.owner => "tags",
            _ if config.managed.tag_keys.contains(key) => "managed",
            _ => "projects",
        };
        format!("the tag {key} of [{section}]")
    }

    /// The change of the configuration that makes it judge by the other key.
    fn setting(&self, config: &Config) -> String {
        let Self { configured, written } = self;
        let shown = quoted(written);
        let in_list = |list: &[String], name: &str| {
            list.contains(configured).then(|| format!("{shown} in place of {configured} in {name}"))
        };
        let is = |key: &String, name: &str| (key == configured).then(|| format!("{name} = {shown}"));
        let parts = [
            is(&config.tags.team, "[tags] team"),
            is(&config.tags.owner, "[tags] owner"),
            in_list(&config.tags.required, "[tags] required"),
            is(&config.projects.tag, "[projects] tag").filter(|_| !config.projects.allowed.is_empty()),
            in_list(&config.managed.tag_keys, "[managed] tag_keys"),
        ];
        format!("set {}", parts.into_iter().flatten().collect::<Vec<_>>().join(", and "))
    }
}

/// The near misses of these required tags, behind the sentence that they are missing; empty if there are none.
#[must_use]
pub fn describe_near_keys(tags: &Tags, missing: &[String], config: &Config) -> String {
    let describe = |key: NearKey| {
        let setting = key.setting(config);
        format!("its tag {} is not {}; if the account means it, {setting}", quoted(&key.written), key.configured)
    };
    let near: Vec<String> = find(tags, missing.iter().map(String::as_str)).map(describe).collect();
    if near.is_empty() { String::new() } else { format!(" ({})", near.join("; ")) }
}

/// The keys by which the account is judged.
fn configured_keys(config: &Config) -> BTreeSet<&str> {
    let project = Some(&config.projects.tag).filter(|_| !config.projects.allowed.is_empty());
    let tags = [&config.tags.team, &config.tags.owner];
    let lists = config.tags.required.iter().chain(&config.managed.tag_keys);
    tags.into_iter().chain(lists).chain(project).map(String::as_str).collect()
}

fn find<'a>(tags: &'a Tags, configured: impl Iterator<Item = &'a str>) -> impl Iterator<Item = NearKey> {
    configured.filter(|key| value_of(tags, key).is_none()).flat_map(|key| {
        let near = near_misses(tags, key).into_iter();
        near.map(move |written| NearKey { configured: key.to_owned(), written: written.to_owned() })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::untagged;

    fn carrying(id: &str, tags: &[(&str, &str)]) -> Instance {
        tags.iter().fold(untagged().id(id), |one, (key, value)| one.tag(key, value)).build()
    }

    fn check(text: &str, instances: &[Instance], expect: &[(&str, &str)]) {
        let config = Config::read(text).unwrap();
        let found = NearKeys::from_instances(instances, &config).findings(&config);
        let found: Vec<_> = found.iter().map(|one| (one.found.as_str(), one.remedy.as_str())).collect();
        assert_eq!(found, expect);
    }

    #[test]
    fn a_key_that_all_instances_carry_may_be_the_accounts_own() {
        check(
            "",
            &[carrying("i-1", &[("team", "vision"), ("Owner", "ada")])],
            &[(
                "1 of 1 GPU instances carry \"team\", which is not the required tag Team: i-1",
                "set [tags] team = \"team\", and \"team\" in place of Team in [tags] required, or write Team on them",
            )],
        );
        let many: Vec<Instance> =
            ["i-1", "i-2", "i-3", "i-4"].map(|id| carrying(id, &[("Team", "nlp"), ("owner", "bo")])).to_vec();
        check(
            "[tags]\nrequired = []",
            &many,
            &[(
                "4 of 4 GPU instances carry \"owner\", which is not the tag Owner of [tags]: i-1, i-2, i-3 and 1 more",
                "set [tags] owner = \"owner\", or write Owner on them",
            )],
        );
    }

    #[test]
    fn a_key_that_some_carry_is_a_slip() {
        let right = carrying("i-2", &[("Team", "nlp"), ("Owner", "bo")]);
        check(
            "",
            &[carrying("i-1", &[("Team", "vision"), ("Owner ", "ada")]), right.clone()],
            &[(
                "1 of 2 GPU instances carry \"Owner \", which is not the required tag Owner: i-1",
                "write Owner on them; if the account means the other key, set [tags] owner = \"Owner \", and \"Owner \" in place of \
                 Owner in [tags] required",
            )],
        );
        check("", &[carrying("i-1", &[("Team", "vision"), ("team", "nlp"), ("Owner", "ada")]), right], &[]);
        check("", &[carrying("i-1", &[])], &[]);
    }

    #[test]
    fn keys_of_other_sections_have_near_misses_too() {
        let one = [carrying("i-1", &[("Team", "a"), ("Owner", "b"), ("project", "x"), ("spacelift", "yes")])];
        check("", &one, &[]);
        check(
            "[projects]\nallowed = [\"x\"]\n[managed]\ntag_keys = [\"Spacelift\"]",
            &one,
            &[
                (
                    "1 of 1 GPU instances carry \"project\", which is not the tag Project of [projects]: i-1",
                    "set [projects] tag = \"project\", or write Project on them",
                ),
                (
                    "1 of 1 GPU instances carry \"spacelift\", which is not the tag Spacelift of [managed]: i-1",
                    "set \"spacelift\" in place of Spacelift in [managed] tag_keys, or write Spacelift on them",
                ),
            ],
        );
    }

    #[test]
    fn regions_are_counted_together() {
        let config = Config::default();
        let region = |id: &str| NearKeys::from_instances(&[carrying(id, &[("team", "a"), ("Owner", "b")])], &config);
        let mut near = region("i-1");
        near.merge(region("i-2"));
        let found = near.findings(&config).remove(0).found;
        assert_eq!(found, "2 of 2 GPU instances carry \"team\", which is not the required tag Team: i-1, i-2");
    }

    #[test]
    fn a_missing_tag_is_described_with_its_near_miss() {
        let tags = |key: &str| Tags::from([(key.to_owned(), "vision".to_owned())]);
        let described = |key| describe_near_keys(&tags(key), &["Team".to_owned()], &Config::default());
        assert_eq!(
            described("team"),
            " (its tag \"team\" is not Team; if the account means it, set [tags] team = \"team\", and \"team\" in place of Team in \
             [tags] required)"
        );
        assert_eq!(described("Teams"), "");
    }
}
