//! The completeness of a step of a gang: all nodes have put their manifests, and the framework's own files do not contradict.
//!
//! | layout | proof |
//! |---|---|
//! | torch's distributed checkpoints | every shard that a `.metadata` names is in some part, and there is a `.metadata` |
//! | `DeepSpeed` | no gap in the ranks, as many on each node, and `latest` names this step or a later one |
//! | Hugging Face, Accelerate | no gap in the states of randomness, as many on each node, and `trainer_state.json` |
//! | verl, and `-<i>-of-<w>` | all of the number that the names say |
//! | Megatron's old layout | the tracker names this step or a later one |
//!
//! Any other layout proves nothing. There a step is verified if each node has files of it, or put an empty manifest for an earlier step too.

use std::collections::{BTreeMap, BTreeSet};

use super::shards::{CountedFamily, Families, RankFamily, counted_family, dcp_rank, first_gap, rank_family};
use super::{DocumentSight, GangLaunch, Node, NodeManifest, all_nodes};
use crate::Checkpoint;

/// A step of a gang.
#[derive(Debug, Clone, Copy)]
pub struct GangCheckpoint<'a> {
    pub gang: &'a GangLaunch,
    pub checkpoint: Checkpoint,
    /// `true` if head names no earlier step of this attempt.
    pub is_first: bool,
}

/// The judgement about a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepCompleteness {
    Complete {
        /// `false`: it may be incomplete, and head names it so.
        verified: bool,
    },
    /// The step does not exist yet, or never will; the reason is for the job's owner.
    Incomplete { why: String },
    /// A manifest is there and was not read.
    Unknown,
}

/// Judges a step by the manifests that a LIST of its place shows; a node without one has none there.
#[must_use]
pub fn step_is_complete(
    step: GangCheckpoint<'_>,
    manifests: &BTreeMap<Node, DocumentSight<NodeManifest>>,
) -> StepCompleteness {
    let GangCheckpoint { gang, checkpoint, is_first } = step;
    let (mut parts, mut is_unknown) = (Vec::new(), false);
    let incomplete = |why: String| {
        let why = format!("step {} is not complete: {why}", checkpoint.step);
        StepCompleteness::Incomplete { why }
    };
    for node in all_nodes(gang.nodes) {
        match manifests.get(&node) {
            None => return incomplete(format!("node {node} has not uploaded its part")),
            Some(DocumentSight::Unread) => is_unknown = true,
            Some(DocumentSight::Unreadable) => {
                return incomplete(format!("the manifest of node {node} cannot be read"));
            }
            Some(DocumentSight::Read(manifest)) => {
                let checked = manifest.check(checkpoint, node);
                if let Err(problem) = checked {
                    return incomplete(format!("node {node}: {problem}"));
                }
                if manifest.launch != gang.launch || manifest.nodes != gang.nodes {
                    return incomplete(format!("the part of node {node} is that of another launch"));
                }
                parts.push(manifest);
            }
        }
    }
    if is_unknown {
        return StepCompleteness::Unknown;
    }
    match judge_framework(&parts, checkpoint.step, gang.nodes) {
        Err(why) => incomplete(why),
        Ok(is_proven) => {
            let has_empty = parts.iter().any(|part| part.is_empty());
            let is_certain = parts.iter().all(|part| !part.unverified);
            StepCompleteness::Complete { verified: is_certain && (is_proven || !has_empty || !is_first) }
        }
    }
}

/// `Ok(true)` if the framework's files prove that no part lacks.
///
/// # Errors
/// The contradiction, naming node and file.
fn judge_framework(parts: &[&NodeManifest], step: u64, nodes: Node) -> Result<bool, String> {
    let dcp = judge_metadata(parts)?;
    let ranks = judge_ranks(parts, nodes)?;
    let counted = judge_counted(parts)?;
    let tracked = judge_trackers(parts, step)?;
    Ok(dcp || ranks || counted || tracked)
}

fn paths(parts: &[&NodeManifest]) -> impl Iterator<Item = (Node, String)> {
    let all = |part: &&NodeManifest| {
        let node = part.node;
        part.part.files.iter().map(move |file| (node, file.path.clone())).collect::<Vec<_>>()
    };
    parts.iter().flat_map(all).collect::<Vec<_>>().into_iter()
}

fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// torch's distributed checkpoints.
fn judge_metadata(parts: &[&NodeManifest]) -> Result<bool, String> {
    let there: BTreeSet<String> = paths(parts).map(|(_, path)| path).collect();
    let tables: BTreeMap<&str, &Vec<String>> =
        parts.iter().flat_map(|part| &part.metadata).map(|one| (folder_of(&one.path), &one.shards)).collect();
    for (folder, shards) in &tables {
        let path = |shard: &String| if folder.is_empty() { shard.clone() } else { format!("{folder}/{shard}") };
        if let Some(shard) = shards.iter().find(|shard| !there.contains(&path(shard))) {
            let writer = node_of_rank(parts, folder, shard);
            return Err(format!("{writer} has no {shard}, which .metadata names"));
        }
    }
    let without =
        paths(parts).find(|(_, path)| dcp_rank(name_of(path)).is_some() && !tables.contains_key(folder_of(path)));
    match without {
        Some((node, path)) => Err(format!("node {node} has {path}, and no node has the .metadata beside it")),
        None => Ok(!tables.is_empty()),
    }
}

/// The node that should have written a shard: torchrun gives each node the same number of ranks in order.
fn node_of_rank(parts: &[&NodeManifest], folder: &str, shard: &str) -> String {
    let rank = dcp_rank(shard);
    let ranks_of = |part: &&NodeManifest| -> BTreeSet<u32> {
        let names = part.part.files.iter().filter(|file| folder_of(&file.path) == folder);
        names.filter_map(|file| dcp_rank(name_of(&file.path))).collect()
    };
    let most = parts.iter().map(|part| ranks_of(part).len()).max().unwrap_or(0);
    let node = rank.zip(u32::try_from(most).ok()).and_then(|(rank, most)| rank.checked_div(most));
    match node.filter(|node| usize::try_from(*node).is_ok_and(|node| node < parts.len())) {
        Some(node) => format!("node {node}"),
        None => "no node".to_owned(),
    }
}

/// Families of which each rank writes one file.
fn judge_ranks(parts: &[&NodeManifest], nodes: Node) -> Result<bool, String> {
    let mut families = Families::new();
    for (node, path) in paths(parts) {
        if let Some((family, rank)) = rank_family(&path) {
            families.entry(family).or_default().entry(node).or_default().insert(rank);
        }
    }
    let mut by_name: BTreeMap<&str, BTreeMap<Node, usize>> = BTreeMap::new();
    for (family, ranks) in &families {
        let all: BTreeSet<u32> = ranks.values().flatten().copied().collect();
        if let Some(gap) = first_gap(&all) {
            return Err(format!("no node has {}", name_of_rank(family, gap)));
        }
        for (node, of_node) in ranks.iter().filter(|_| family.is_of_each_rank) {
            let count = by_name.entry(&family.name).or_default().entry(*node).or_default();
            *count = count.saturating_add(of_node.len());
        }
    }
    for (name, counts) in &by_name {
        let most = counts.values().copied().max().unwrap_or(0);
        let few = all_nodes(nodes).find(|node| counts.get(node).copied().unwrap_or(0) < most);
        if let Some(node) = few {
            let found = counts.get(&node).copied().unwrap_or(0);
            let name = name.trim_start_matches('/');
            return Err(format!("node {node} has {found} of {most} files {name}"));
        }
    }
    let needs_state = |family: &RankFamily| family.name.ends_with("/rng_state_*.pth");
    let folders: BTreeSet<String> =
        families.keys().filter(|family| needs_state(family)).map(folder_of_family).collect();
    for folder in folders {
        let state =
            if folder.is_empty() { "trainer_state.json".to_owned() } else { format!("{folder}/trainer_state.json") };
        if !paths(parts).any(|(_, path)| path == state) {
            return Err(format!("no node has {state}"));
        }
    }
    // `latest` has to say the rest.
    Ok(families.keys().any(|family| !family.name.contains("zero_pp_rank_")))
}

fn folder_of_family(family: &RankFamily) -> String {
    folder_of(&family.name).to_owned()
}

fn name_of_rank(family: &RankFamily, rank: u32) -> String {
    let part = if family.part.is_empty() { String::new() } else { format!(" of mp_rank_{}", family.part) };
    format!("{}{part}", family.name.trim_start_matches('/').replacen('*', &rank.to_string(), 1))
}

/// Families whose names say how many there are, counted from 0 or from 1.
fn judge_counted(parts: &[&NodeManifest]) -> Result<bool, String> {
    let mut families: BTreeMap<CountedFamily, BTreeSet<u32>> = BTreeMap::new();
    for (_, path) in paths(parts) {
        if let Some((family, index)) = counted_family(&path) {
            families.entry(family).or_default().insert(index);
        }
    }
    for (family, found) in &families {
        let count = u32::try_from(found.len()).unwrap_or(u32::MAX);
        if count != family.size {
            let name = family.name.trim_start_matches('/');
            return Err(format!("the nodes have {count} of {} files {name}", family.size));
        }
    }
    // A model in shards is that of node 0 alone.
    Ok(families.keys().any(|family| family.name.contains("world_size_")))
}

/// Trackers that the framework moves after the step.
fn judge_trackers(parts: &[&NodeManifest], step: u64) -> Result<bool, String> {
    let trackers = parts.iter().flat_map(|part| part.trackers.iter().map(|tracker| (part.node, tracker)));
    let newest = trackers.max_by_key(|(_, tracker)| tracker.step);
    match newest {
        Some((node, tracker)) if tracker.step < step => {
            Err(format!("`{}` of node {node} names step {}", tracker.name, tracker.step))
        }
        Some(_) => Ok(true),
        None => {
            let zero = paths(parts).find(|(_, path)| path.contains("zero_pp_rank_"));
            zero.map_or(Ok(false), |(node, _)| Err(format!("no node has `latest`, beside the files of node {node}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoints::{Manifest, ManifestFile};
    use crate::node_gang::tests::gang;
    use crate::node_gang::{MetadataShards, TrackedStep};

    const STEP: Checkpoint = Checkpoint { attempt: 2, step: 40, rewrite: 0 };

    pub(crate) fn part(node: Node, files: &[&str]) -> NodeManifest {
        let file = |path: &&str| ManifestFile {
            path: (*path).to_owned(),
            bytes: 1,
            part_bytes: 1,
            sha256: vec![format!("{node}")],
        };
        let files: Vec<ManifestFile> = files.iter().map(file).collect();
        let bytes = files.len() as u64;
        let Checkpoint { attempt, step, .. } = STEP;
        let part = Manifest { schema: 1, attempt, step, bytes, files, ..Manifest::default() };
        NodeManifest { node, nodes: 2, launch: gang(2).launch, part, ..NodeManifest::default() }
    }

    fn judge(parts: &[NodeManifest], is_first: bool) -> StepCompleteness {
        let manifests = parts.iter().map(|part| (part.node, DocumentSight::Read(part.clone()))).collect();
        step_is_complete(GangCheckpoint { gang: &gang(2), checkpoint: STEP, is_first }, &manifests)
    }

    fn check(parts: &[NodeManifest], expect: Result<bool, &str>) {
        let expect = match expect {
            Ok(verified) => StepCompleteness::Complete { verified },
            Err(why) => StepCompleteness::Incomplete { why: format!("step 40 is not complete: {why}") },
        };
        assert_eq!(judge(parts, true), expect);
    }

    fn metadata(part: NodeManifest, shards: &[&str]) -> NodeManifest {
        let shards = shards.iter().map(|shard| (*shard).to_owned()).collect();
        NodeManifest { metadata: vec![MetadataShards { path: "s/.metadata".to_owned(), shards }], ..part }
    }

    fn tracked(part: NodeManifest, step: u64) -> NodeManifest {
        NodeManifest { trackers: vec![TrackedStep { name: "latest".to_owned(), step }], ..part }
    }

    #[test]
    fn metadata_names_each_shard() {
        let first = metadata(part(0, &["s/.metadata", "s/__0_0.distcp"]), &["__0_0.distcp", "__1_0.distcp"]);
        check(&[first.clone(), part(1, &["s/__1_0.distcp"])], Ok(true));
        let why = "node 1 has no __1_0.distcp, which .metadata names";
        check(&[first.clone(), part(1, &["s/other"])], Err(why));
        check(&[first, part(1, &[])], Err(why));
        let none = [part(0, &["s/__0_0.distcp"]), part(1, &["s/__1_0.distcp"])];
        check(&none, Err("node 0 has s/__0_0.distcp, and no node has the .metadata beside it"));
    }

    #[test]
    fn ranks_have_no_gap_and_each_node_has_as_many() {
        let zero = |rank| format!("global_step40/zero_pp_rank_{rank}_mp_rank_00_optim_states.pt");
        let names = [zero(0), zero(1), zero(2), zero(3)];
        let first = tracked(part(0, &[&names[0], &names[1]]), 40);
        check(&[first.clone(), part(1, &[&names[2], &names[3]])], Ok(true));
        check(&[tracked(first.clone(), 50), part(1, &[&names[2], &names[3]])], Ok(true));
        let behind = tracked(first.clone(), 30);
        check(&[behind, part(1, &[&names[2], &names[3]])], Err("`latest` of node 0 names step 30"));
        check(
            &[first.clone(), part(1, &[&names[3]])],
            Err(&format!("no node has {} of mp_rank_00", zero(2).replace("_mp_rank_00", ""))),
        );
        let few = "node 1 has 1 of 2 files global_step40/zero_pp_rank_*_optim_states.pt";
        check(&[first.clone(), part(1, &[&names[2]])], Err(few));
        check(&[first, part(1, &[])], Err(&few.replace("has 1", "has 0")));
        let untracked = [part(0, &[&names[0]]), part(1, &[&names[1]])];
        check(&untracked, Err("no node has `latest`, beside the files of node 0"));
        let model = [
            tracked(part(0, &["s/zero_pp_rank_0_mp_rank_00_optim_states.pt"]), 40),
            part(1, &["s/zero_pp_rank_0_mp_rank_01_optim_states.pt"]),
        ];
        check(&model, Ok(true));
    }

    #[test]
    fn the_trainer_s_state_is_there_with_those_of_randomness() {
        let first = part(0, &["c/rng_state_0.pth", "c/trainer_state.json"]);
        check(&[first.clone(), part(1, &["c/rng_state_1.pth"])], Ok(true));
        check(&[first, part(1, &["c/x"])], Err("node 1 has 0 of 1 files c/rng_state_*.pth"));
        check(
            &[part(0, &["c/rng_state_0.pth"]), part(1, &["c/rng_state_1.pth"])],
            Err("no node has c/trainer_state.json"),
        );
        check(&[part(0, &["c/random_states_0.pkl"]), part(1, &["c/random_states_1.pkl"])], Ok(true));
    }

    #[test]
    fn names_that_say_how_many_there_are_are_counted() {
        let rank = |rank| format!("a/model_world_size_2_rank_{rank}.pt");
        check(&[part(0, &[&rank(0)]), part(1, &[&rank(1)])], Ok(true));
        let lacks = "the nodes have 1 of 2 files a/model_world_size_2_rank_*.pt";
        check(&[part(0, &[&rank(0)]), part(1, &[])], Err(lacks));
        let model = part(0, &["m-00001-of-00002.safetensors", "m-00002-of-00002.safetensors"]);
        check(&[model, part(1, &[])], Ok(false));
    }

    #[test]
    fn without_proof_the_first_step_with_an_empty_part_is_unverified() {
        let plain = [part(0, &["model.pt"]), part(1, &[])];
        check(&plain, Ok(false));
        assert_eq!(judge(&plain, false), StepCompleteness::Complete { verified: true });
        check(&[part(0, &["a.pt"]), part(1, &["b.pt"])], Ok(true));
        let unsure = NodeManifest { unverified: true, ..part(0, &["a.pt"]) };
        check(&[unsure, part(1, &["b.pt"])], Ok(false));
    }

    #[test]
    fn each_manifest_is_that_of_its_node_and_launch() {
        let first = part(0, &["a.pt"]);
        check(std::slice::from_ref(&first), Err("node 1 has not uploaded its part"));
        let stray = NodeManifest { launch: "f".repeat(16), ..part(1, &["b.pt"]) };
        check(&[first.clone(), stray], Err("the part of node 1 is that of another launch"));
        let mut other = part(1, &["b.pt"]);
        other.part.step = 30;
        check(&[first.clone(), other], Err("node 1: its manifest is that of step 30 of attempt 2, rewritten 0 times"));
        let unread = BTreeMap::from([(0, DocumentSight::Read(first)), (1, DocumentSight::Unread)]);
        let step = GangCheckpoint { gang: &gang(2), checkpoint: STEP, is_first: true };
        assert_eq!(step_is_complete(step, &unread), StepCompleteness::Unknown);
    }
}
