//! The completeness of a step of a gang: all nodes have put their manifests, and the framework's own files do not contradict.
//!
//! | layout | proof |
//! |---|---|
//! | torch's distributed checkpoints | a part has every shard that a `.metadata` names |
//! | `DeepSpeed` | the ranks have no gap, each node has as many, and `latest` names this step or a later one |
//! | Hugging Face, Accelerate | the same of the random states, of all processes, and `trainer_state.json` |
//! | verl, and `-<i>-of-<w>` | the parts have as many files as their names say |
//! | Megatron's old layout | the tracker names this step or a later one |
//!
//! Where such a proof fails without a contradiction, the step is unverified: a tracker that lags, a process whose random state no node has. No other
//! layout proves anything. Its step is verified if each node has files of it, or put an empty manifest for an earlier step too.

use std::collections::{BTreeMap, BTreeSet};

use super::shards::{CountedFamily, RankFamily, counted_family, dcp_rank, first_gap, rank_family, split_path};
use super::{DocumentSight, GangLaunch, Node, NodeManifest, all_nodes};
use crate::Checkpoint;
use crate::checkpoints::Tracker;

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
    if !gang.is_valid() {
        return incomplete("its launch is no launch of a gang".to_owned());
    }
    for node in all_nodes(gang.nodes) {
        match manifests.get(&node) {
            None => return incomplete(format!("node {node} has not uploaded its part")),
            Some(DocumentSight::Unread) => is_unknown = true,
            Some(DocumentSight::Unreadable) => {
                return incomplete(format!("the manifest of node {node} cannot be read"));
            }
            Some(DocumentSight::Read(manifest)) => {
                if let Err(problem) = manifest.check(checkpoint, node) {
                    return incomplete(format!("node {node}: {problem}"));
                }
                if manifest.launch != gang.launch || manifest.nodes != gang.nodes {
                    return incomplete(format!("another launch wrote the part of node {node}"));
                }
                parts.push(manifest);
            }
        }
    }
    if is_unknown {
        return StepCompleteness::Unknown;
    }
    match judge_framework(&parts, checkpoint.step) {
        Err(why) => incomplete(why),
        Ok(proof) => {
            let is_proven = match proof {
                Proof::None => !is_first || parts.iter().all(|part| !part.is_empty()),
                Proof::Whole => true,
                Proof::Failed => false,
            };
            StepCompleteness::Complete { verified: is_proven && parts.iter().all(|part| !part.unverified) }
        }
    }
}

/// The evidence of a framework's files that no part lacks; of several the highest counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Proof {
    None,
    Whole,
    /// The layout has a proof, and it does not hold; the files may be whole all the same.
    Failed,
}

/// # Errors
/// The contradiction, naming node and file.
fn judge_framework(parts: &[&NodeManifest], step: u64) -> Result<Proof, String> {
    let proofs = [judge_metadata(parts)?, judge_ranks(parts)?, judge_counted(parts)?];
    Ok(proofs.into_iter().fold(judge_tracker(parts, step), Proof::max))
}

fn paths<'a>(parts: &'a [&NodeManifest]) -> impl Iterator<Item = (Node, &'a str)> {
    parts.iter().flat_map(|part| part.part.files.iter().map(|file| (part.node, file.path.as_str())))
}

fn beside(path: &str, name: &str) -> String {
    path.rsplit_once('/').map_or_else(|| name.to_owned(), |(folder, _)| format!("{folder}/{name}"))
}

/// Number of processes on each node, where all know it and it is the same.
fn processes_of_node(parts: &[&NodeManifest]) -> Option<u32> {
    let first = parts.first()?.processes;
    (first > 0 && parts.iter().all(|part| part.processes == first)).then_some(first)
}

/// torch's distributed checkpoints.
fn judge_metadata(parts: &[&NodeManifest]) -> Result<Proof, String> {
    let there: BTreeSet<&str> = paths(parts).map(|(_, path)| path).collect();
    let mut described = BTreeSet::new();
    for table in parts.iter().flat_map(|part| &part.metadata) {
        if let Some(shard) = table.shards.iter().find(|shard| !there.contains(beside(&table.path, shard).as_str())) {
            let writer =
                dcp_rank(shard).zip(processes_of_node(parts)).and_then(|(rank, count)| rank.checked_div(count));
            let writer = writer.and_then(|node| parts.get(usize::try_from(node).ok()?));
            let writer = writer.map_or_else(|| "no node".to_owned(), |part| format!("node {}", part.node));
            return Err(format!("{writer} has no {shard}, which .metadata names"));
        }
        if !table.shards.is_empty() {
            described.insert(split_path(&table.path).0);
        }
    }
    let mut proof = if described.is_empty() { Proof::None } else { Proof::Whole };
    let is_shard = |path: &str| dcp_rank(split_path(path).1).is_some();
    for (node, path) in paths(parts).filter(|(_, path)| is_shard(path) && !described.contains(split_path(path).0)) {
        if !there.contains(beside(path, ".metadata").as_str()) {
            return Err(format!("node {node} has {path}, and no node has the .metadata beside it"));
        }
        // It was too large to be scanned.
        proof = Proof::Failed;
    }
    Ok(proof)
}

/// Families with one file of each rank.
fn judge_ranks(parts: &[&NodeManifest]) -> Result<Proof, String> {
    let mut families: BTreeMap<RankFamily, BTreeSet<u32>> = BTreeMap::new();
    let mut counts: BTreeMap<String, BTreeMap<Node, usize>> = BTreeMap::new();
    for (node, path) in paths(parts) {
        if let Some((family, rank)) = rank_family(path) {
            let count = counts.entry(family.name.clone()).or_default().entry(node).or_default();
            *count = count.saturating_add(1);
            families.entry(family).or_default().insert(rank);
        }
    }
    for (RankFamily { name, part }, ranks) in &families {
        if let Some(gap) = first_gap(ranks) {
            let part = if part.is_empty() { String::new() } else { format!(" of mp_rank_{part}") };
            return Err(format!("no node has {}{part}", name.replacen('*', &gap.to_string(), 1)));
        }
    }
    for (name, counts) in &counts {
        let most = counts.values().copied().max().unwrap_or(0);
        let count = |node| counts.get(&node).copied().unwrap_or(0);
        if let Some(node) = parts.iter().map(|part| part.node).find(|node| count(*node) < most) {
            return Err(format!("node {node} has {} of {most} files {name}", count(node)));
        }
    }
    let mut proof = Proof::None;
    for (family, ranks) in families.iter().filter(|(family, _)| family.is_random_state()) {
        let state = beside(&family.name, "trainer_state.json");
        if family.has_trainer_state() && !paths(parts).any(|(_, path)| path == state) {
            return Err(format!("no node has {state}"));
        }
        // A gap does not show the last ranks, where no node has them.
        let expected = processes_of_node(parts).zip(u32::try_from(parts.len()).ok());
        let expected = expected.map(|(processes, nodes)| processes.saturating_mul(nodes));
        let is_whole = expected.is_some_and(|expected| u32::try_from(ranks.len()) == Ok(expected));
        proof = proof.max(if is_whole { Proof::Whole } else { Proof::Failed });
    }
    Ok(proof)
}

/// Families whose names say how many there are, counted from 0 or from 1.
fn judge_counted(parts: &[&NodeManifest]) -> Result<Proof, String> {
    let mut families: BTreeMap<CountedFamily, BTreeSet<u32>> = BTreeMap::new();
    for (_, path) in paths(parts) {
        if let Some((family, index)) = counted_family(path) {
            families.entry(family).or_default().insert(index);
        }
    }
    for (CountedFamily { name, size }, found) in &families {
        let (first, last) = (found.first().copied().unwrap_or(0), found.last().copied().unwrap_or(0));
        let has_gap = first > 1 || last.checked_sub(first) != size.checked_sub(1);
        if u32::try_from(found.len()) != Ok(*size) || has_gap {
            return Err(format!("the nodes have {} of {size} files {name}", found.len()));
        }
    }
    // Node 0 alone writes a model in `-<i>-of-<w>`.
    let is_of_ranks = families.keys().any(|family| family.name.contains("world_size_"));
    Ok(if is_of_ranks { Proof::Whole } else { Proof::None })
}

/// The tracker of `DeepSpeed` and of Megatron's old layout. Each node has waited for it as long as it believed it, by the rule for one machine. So one
/// that lags does not contradict. Elsewhere a tracker proves the part of node 0 only.
fn judge_tracker(parts: &[&NodeManifest], step: u64) -> Proof {
    let is_of_rank = |folder: &str| {
        let rank = folder.strip_prefix("mp_rank_");
        rank.is_some_and(|rank| !rank.is_empty() && rank.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_'))
    };
    let needs_tracker = |path: &str| path.contains("zero_pp_rank_") || split_path(path).0.split('/').any(is_of_rank);
    if !paths(parts).any(|(_, path)| needs_tracker(path)) {
        return Proof::None;
    }
    let names_step = |tracker: &Tracker| tracker.is_newest_by_name && tracker.step >= step;
    if parts.iter().flat_map(|part| &part.trackers).any(names_step) { Proof::Whole } else { Proof::Failed }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node_gang::MetadataShards;
    use crate::node_gang::tests::{gang, manifest};

    const STEP: Checkpoint = Checkpoint { attempt: 2, step: 40, rewrite: 0 };

    fn part(node: Node, files: &[&str]) -> NodeManifest {
        let digest = node.to_string();
        manifest(node, &files.iter().map(|path| (*path, digest.as_str())).collect::<Vec<_>>())
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
        let tracker = Tracker { name: "latest".to_owned(), step, is_newest_by_name: true };
        NodeManifest { trackers: vec![tracker], ..part }
    }

    #[test]
    fn metadata_names_each_shard() {
        let first = metadata(part(0, &["s/.metadata", "s/__0_0.distcp"]), &["__0_0.distcp", "__1_0.distcp"]);
        check(&[first.clone(), part(1, &["s/__1_0.distcp"])], Ok(true));
        let why = "node 1 has no __1_0.distcp, which .metadata names";
        check(&[first.clone(), part(1, &["s/other"])], Err(why));
        check(&[first.clone(), part(1, &[])], Err(why));
        let unscanned = NodeManifest { metadata: Vec::new(), ..first };
        check(&[unscanned, part(1, &["s/__1_0.distcp"])], Ok(false));
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
        check(&[behind, part(1, &[&names[2], &names[3]])], Ok(false));
        check(
            &[first.clone(), part(1, &[&names[3]])],
            Err(&format!("no node has {} of mp_rank_00", zero(2).replace("_mp_rank_00", ""))),
        );
        let few = "node 1 has 1 of 2 files global_step40/zero_pp_rank_*_optim_states.pt";
        check(&[first.clone(), part(1, &[&names[2]])], Err(few));
        check(&[first, part(1, &[])], Err(&few.replace("has 1", "has 0")));
        let untracked = [part(0, &[&names[0]]), part(1, &[&names[1]])];
        check(&untracked, Ok(false));
        let model = [
            tracked(part(0, &["s/zero_pp_rank_0_mp_rank_00_optim_states.pt"]), 40),
            part(1, &["s/zero_pp_rank_0_mp_rank_01_optim_states.pt"]),
        ];
        check(&model, Ok(true));
        let megatron = [part(0, &["mp_rank_00_000/model.pt"]), part(1, &["mp_rank_00_001/model.pt"])];
        check(&megatron, Ok(false));
        check(&[tracked(megatron[0].clone(), 40), megatron[1].clone()], Ok(true));
        check(&[tracked(part(0, &["model.pt"]), 40), part(1, &[])], Ok(false));
    }

    #[test]
    fn the_trainer_s_state_is_there_with_those_of_randomness() {
        let first = part(0, &["c/rng_state_0.pth", "c/trainer_state.json"]);
        check(&[first.clone(), part(1, &["c/rng_state_1.pth"])], Ok(true));
        for processes in [0, 2] {
            let [first, second] =
                [first.clone(), part(1, &["c/rng_state_1.pth"])].map(|part| NodeManifest { processes, ..part });
            check(&[first, second], Ok(false));
        }
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
        check(&[first.clone(), stray], Err("another launch wrote the part of node 1"));
        let mut other = part(1, &["b.pt"]);
        other.part.step = 30;
        check(&[first.clone(), other], Err("node 1: its manifest is that of step 30 of attempt 2, rewritten 0 times"));
        assert!(matches!(
            step_is_complete(GangCheckpoint { gang: &gang(0), checkpoint: STEP, is_first: false }, &BTreeMap::new()),
            StepCompleteness::Incomplete { .. }
        ));
        let unread = BTreeMap::from([(0, DocumentSight::Read(first)), (1, DocumentSight::Unread)]);
        let step = GangCheckpoint { gang: &gang(2), checkpoint: STEP, is_first: true };
        assert_eq!(step_is_complete(step, &unread), StepCompleteness::Unknown);
    }
}
