//! The keys by which GPU instances carry what `[tags]` requires: a key that only looks like the required one is another key.

use std::collections::BTreeMap;

use model::config::{Config, TagKeys};
use model::foreign_text::quoted;
use model::id::ResourceId;
use model::instance::Instance;
use model::ownership::{missing_tags, near_misses};

use super::DoctorFinding;

/// The most instances that a finding names.
const NAMED_MAX: usize = 3;

/// One finding for each near miss of a required key, among the GPU instances that were seen.
#[must_use]
pub fn check(instances: &[Instance], config: &Config) -> Vec<DoctorFinding> {
    let mut carriers: BTreeMap<(String, &str), Vec<&ResourceId>> = BTreeMap::new();
    for instance in instances {
        for required in missing_tags(&instance.tags, config) {
            for key in near_misses(&instance.tags, &required) {
                carriers.entry((required.clone(), key)).or_default().push(&instance.id);
            }
        }
    }
    carriers.iter().map(|((required, key), ids)| finding(required, key, ids, instances.len(), &config.tags)).collect()
}

fn finding(required: &str, key: &str, ids: &[&ResourceId], instance_count: usize, tags: &TagKeys) -> DoctorFinding {
    let named: Vec<&str> = ids.iter().take(NAMED_MAX).map(|id| id.as_str()).collect();
    let more = ids.len().saturating_sub(NAMED_MAX);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    let shown = quoted(key);
    let found = format!(
        "{} of {instance_count} GPU instances carry {shown}, which is not the required tag {required}: {}{more}",
        ids.len(),
        named.join(", ")
    );
    let setting = match required {
        _ if *required == tags.team => format!("team = {shown}"),
        _ if *required == tags.owner => format!("owner = {shown}"),
        _ => String::new(),
    };
    let setting = if setting.is_empty() { setting } else { format!("{setting} and ") };
    let change = format!("set [tags] {setting}required with {shown}");
    let remedy = if ids.len() == instance_count {
        format!("{change}, or write {required} on them")
    } else {
        format!("write {required} on them; if the account means the other key, {change}")
    };
    DoctorFinding::warning("", found, remedy)
}

#[cfg(test)]
mod tests {
    use reaping::fixture::untagged;

    use super::*;

    fn check(tags: &[(&str, &str)], others: usize, expect: &[(&str, &str)]) {
        let near = tags.iter().fold(untagged(), |instance, (key, value)| instance.tag(key, value)).build();
        let mut all = vec![near];
        all.extend((0..others).map(|_| untagged().tag("Team", "nlp").tag("Owner", "bo").id("i-0def").build()));
        let findings = super::check(&all, &Config::default());
        let found: Vec<_> = findings.iter().map(|one| (one.found.as_str(), one.remedy.as_str())).collect();
        assert_eq!(found, expect);
    }

    #[test]
    fn a_near_miss_is_named_with_what_would_settle_it() {
        check(
            &[("team", "vision"), ("Owner", "ada")],
            0,
            &[(
                "1 of 1 GPU instances carry \"team\", which is not the required tag Team: i-0abc",
                "set [tags] team = \"team\" and required with \"team\", or write Team on them",
            )],
        );
        check(
            &[("Team", "vision"), ("Owner ", "ada")],
            1,
            &[(
                "1 of 2 GPU instances carry \"Owner \", which is not the required tag Owner: i-0abc",
                "write Owner on them; if the account means the other key, set [tags] owner = \"Owner \" and required with \"Owner \"",
            )],
        );
        check(&[("Team", "vision"), ("team", "nlp"), ("Owner", "ada")], 1, &[]);
        check(&[], 0, &[]);
    }
}
