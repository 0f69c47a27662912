//! The instance that a person means by its tag `Name`. A name is not unique, so Curfew never guesses.

use model::foreign_text::quoted;
use model::id::ResourceId;
use model::instance::{Instance, InstanceState};
use model::observation::{Gap, GapKind, Observation};

/// The most instances that an error names.
const NAMED_MAX: usize = 10;

/// The reason why a name does not name one instance.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnresolvedName {
    #[error("no GPU instance is named {0}; name another resource by its id")]
    Nothing(String),
    #[error(
        "no GPU instance is named {name} in the regions that answered, and others did not: {unseen}; name it by its id"
    )]
    Unseen { name: String, unseen: String },
    #[error("{count} GPU instances are named {name}: {candidates}; name one by its id")]
    Several { name: String, count: usize, candidates: String },
    #[error(
        "{candidate} is named {name}, and so may be another in a region that did not answer: {unseen}; name it by its id"
    )]
    PerhapsSeveral { name: String, candidate: String, unseen: String },
}

/// The only instance with this name. One that is terminated counts only without another.
///
/// # Errors
/// If there is none, there are several, or a region did not answer: the sentence has the candidates with their ids.
pub fn find_by_name<'a>(name: &str, seen: &'a Observation<Instance>) -> Result<&'a ResourceId, UnresolvedName> {
    let named = || seen.items.iter().filter(|instance| instance.tags.get("Name").is_some_and(|one| one == name));
    let is_gone =
        |instance: &&Instance| matches!(instance.state, InstanceState::ShuttingDown | InstanceState::Terminated);
    let mut candidates: Vec<&Instance> = named().filter(|instance| !is_gone(instance)).collect();
    if candidates.is_empty() {
        candidates = named().collect();
    }
    let shown_name = quoted(name);
    let unseen = describe_unseen(&seen.gaps);
    match (candidates.as_slice(), unseen) {
        ([], None) => Err(UnresolvedName::Nothing(shown_name)),
        ([], Some(unseen)) => Err(UnresolvedName::Unseen { name: shown_name, unseen }),
        ([only], None) => Ok(&only.id),
        ([only], Some(unseen)) => {
            Err(UnresolvedName::PerhapsSeveral { name: shown_name, candidate: describe(only), unseen })
        }
        (several, _) => {
            let more = several.len().saturating_sub(NAMED_MAX);
            let more = if more == 0 { String::new() } else { format!(" and {more} more") };
            let named: Vec<String> = several.iter().take(NAMED_MAX).map(|instance| describe(instance)).collect();
            let candidates = format!("{}{more}", named.join(", "));
            Err(UnresolvedName::Several { name: shown_name, count: several.len(), candidates })
        }
    }
}

/// `i-0abc (g5.xlarge, running, us-east-1)`.
fn describe(instance: &Instance) -> String {
    let Instance { id, instance_type, state, region, .. } = instance;
    let state = serde_json::to_value(state).unwrap_or_default();
    format!("{id} ({instance_type}, {}, {region})", state.as_str().unwrap_or_default())
}

fn describe_unseen(gaps: &[Gap]) -> Option<String> {
    // Nothing runs in a region that the organisation forbids.
    let hidden = gaps.iter().filter(|gap| gap.kind.hides_resources() && gap.kind != GapKind::ForbiddenRegion);
    let mut regions: Vec<&str> = hidden.map(|gap| gap.region.as_str()).collect();
    regions.sort_unstable();
    regions.dedup();
    (!regions.is_empty()).then(|| regions.join(", "))
}

#[cfg(test)]
mod tests {
    use model::id::Region;
    use reaping::fixture::{InstanceBuilder, instance};

    use super::*;

    fn named(id: &str, name: &str) -> InstanceBuilder {
        instance().id(id).tag("Name", name)
    }

    fn check(name: &str, seen: Vec<InstanceBuilder>, unseen: &[&str], expect: Result<&str, &str>) {
        let items = seen.into_iter().map(InstanceBuilder::build).collect();
        let gap =
            |region: &&str| Gap::new(&Region::from(*region), "ec2:DescribeInstances", "timed out", GapKind::Region);
        let seen = Observation { items, gaps: unseen.iter().map(gap).collect() };
        let found = find_by_name(name, &seen).map(ResourceId::as_str).map_err(|why| why.to_string());
        assert_eq!(found, expect.map_err(str::to_owned));
    }

    #[test]
    fn a_name_means_one_instance_or_none() {
        let fleet = || vec![named("i-0a", "bench"), named("i-0b", "llama"), named("i-0c", "llama")];
        check("bench", fleet(), &[], Ok("i-0a"));
        check("benc", fleet(), &[], Err("no GPU instance is named \"benc\"; name another resource by its id"));
        check("Bench", fleet(), &[], Err("no GPU instance is named \"Bench\"; name another resource by its id"));
        check(
            "llama",
            fleet(),
            &[],
            Err(
                "2 GPU instances are named \"llama\": i-0b (g5.xlarge, running, us-east-1), i-0c (g5.xlarge, running, us-east-1); \
                 name one by its id",
            ),
        );
    }

    #[test]
    fn a_terminated_one_counts_without_another_alone() {
        let gone = || named("i-0a", "bench").state(InstanceState::Terminated);
        check("bench", vec![gone(), named("i-0b", "bench").state(InstanceState::Stopped)], &[], Ok("i-0b"));
        check("bench", vec![gone()], &[], Ok("i-0a"));
    }

    #[test]
    fn a_region_without_an_answer_may_have_another() {
        check(
            "bench",
            vec![named("i-0a", "bench")],
            &["eu-west-1"],
            Err(
                "i-0a (g5.xlarge, running, us-east-1) is named \"bench\", and so may be another in a region that did not answer: \
                 eu-west-1; name it by its id",
            ),
        );
        check(
            "bench",
            Vec::new(),
            &["eu-west-1", "eu-west-1", "ap-south-1"],
            Err(
                "no GPU instance is named \"bench\" in the regions that answered, and others did not: ap-south-1, eu-west-1; \
                 name it by its id",
            ),
        );
    }
}
