//! The restore of a step on a node: all parts by default, because frameworks load as if the disk were shared.

use std::collections::{BTreeMap, BTreeSet};

use model::fault::{InvalidValue, shortened};

use super::{Node, NodeManifest};
use crate::Checkpoint;
use crate::checkpoints::{Manifest, ManifestFile};

/// The longest path in a message, in characters.
const PATH_CHARACTERS_MAX: usize = 200;

/// The parts that a node restores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestoreScope {
    /// The union of all parts.
    All,
    /// The node's own part, such as for `use_node_local_storage` of `DeepSpeed`.
    Own,
}

/// The files of a node after a restore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestorePlan {
    /// Files, links and directories, as those of one machine.
    pub manifest: Manifest,
    /// The node whose part has the file, by path.
    pub sources: BTreeMap<String, Node>,
}

/// Plans the restore of a complete step on node `own` of a gang of `nodes`. One path with the same content in several parts is one file. Where the
/// content differs, as of `rng_state.pth`, the node's own wins, and others fill.
///
/// # Errors
/// The path that cannot be restored: with another number of nodes it is not known which content counts.
pub fn restore_plan(
    own: Node,
    parts: &[NodeManifest],
    nodes: Node,
    scope: RestoreScope,
) -> Result<RestorePlan, InvalidValue> {
    let step = parts.first().map_or(0, |part| part.part.step);
    let other_nodes = parts.iter().find(|part| part.nodes != nodes).map(|part| part.nodes);
    if let (Some(before), RestoreScope::Own) = (other_nodes, scope) {
        return Err(InvalidValue::new(format!(
            "{before} nodes wrote step {step}: {nodes} nodes cannot restore its own part of it on each"
        )));
    }
    let is_wanted = |part: &&NodeManifest| scope == RestoreScope::All || part.node == own;
    let mut in_order: Vec<&NodeManifest> = parts.iter().filter(is_wanted).collect();
    in_order.sort_by_key(|part| (part.node != own, part.node));
    let mut files: BTreeMap<&str, (Node, &ManifestFile)> = BTreeMap::new();
    for part in &in_order {
        for file in &part.part.files {
            let first = files.entry(&file.path).or_insert((part.node, file)).1;
            let is_same = (first.bytes, first.part_bytes, &first.sha256) == (file.bytes, file.part_bytes, &file.sha256);
            if let (false, Some(before)) = (is_same, other_nodes) {
                return Err(InvalidValue::new(format!(
                    "{before} nodes wrote different files `{}` of step {step}: {nodes} nodes cannot restore it",
                    shortened(&file.path, PATH_CHARACTERS_MAX)
                )));
            }
        }
    }
    let manifest = merge(&in_order, &files);
    let Manifest { attempt, step, rewrite, .. } = manifest;
    if !manifest.files.is_empty() {
        manifest.check(Checkpoint { attempt, step, rewrite })?;
    }
    let sources = files.into_iter().map(|(path, (node, _))| (path.to_owned(), node)).collect();
    Ok(RestorePlan { manifest, sources })
}

/// The manifest of a directory with all of these parts; the first part says what is there once only.
fn merge(parts: &[&NodeManifest], files: &BTreeMap<&str, (Node, &ManifestFile)>) -> Manifest {
    // What a node without files says of the whole is nothing.
    let lead = parts.iter().find(|part| !part.is_empty()).or_else(|| parts.first());
    let mut merged = lead.map(|part| part.part.clone()).unwrap_or_default();
    merged.files = files.values().map(|(_, file)| (*file).clone()).collect();
    merged.bytes = merged.files.iter().fold(0, |sum, file| sum.saturating_add(file.bytes));
    let mut links = BTreeMap::new();
    let mut copies = BTreeMap::new();
    let (mut folders, mut companions) = (BTreeSet::new(), BTreeSet::new());
    for part in parts {
        for link in part.part.links.iter().filter(|link| !files.contains_key(link.path.as_str())) {
            links.entry(link.path.clone()).or_insert_with(|| link.clone());
        }
        for copy in part.part.copies.iter().filter(|copy| !files.contains_key(copy.path.as_str())) {
            copies.entry(copy.path.clone()).or_insert_with(|| copy.clone());
        }
        folders.extend(part.part.folders.iter().cloned());
        companions.extend(part.part.companions.iter().cloned());
    }
    merged.links = links.into_values().collect();
    merged.copies = copies.into_values().collect();
    merged.folders = folders.into_iter().collect();
    merged.companions = companions.into_iter().collect();
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node_gang::tests::manifest as part;

    fn check(
        own: Node,
        nodes: Node,
        scope: RestoreScope,
        parts: &[NodeManifest],
        expect: Result<&[(&str, Node)], &str>,
    ) {
        let plan = restore_plan(own, parts, nodes, scope);
        match (&plan, expect) {
            (Ok(plan), Ok(expect)) => {
                let sources: Vec<(&str, Node)> =
                    plan.sources.iter().map(|(path, node)| (path.as_str(), *node)).collect();
                assert_eq!(sources, expect);
                assert_eq!(plan.manifest.bytes, expect.len() as u64);
            }
            (Err(problem), Err(words)) => assert!(problem.to_string().contains(words), "{problem}"),
            _ => panic!("{plan:?}"),
        }
    }

    #[test]
    fn a_node_has_the_union_and_its_own_first() {
        let parts =
            [part(0, &[("a", "x"), ("m", "same"), ("rng", "0")]), part(1, &[("b", "y"), ("m", "same"), ("rng", "1")])];
        check(0, 2, RestoreScope::All, &parts, Ok(&[("a", 0), ("b", 1), ("m", 0), ("rng", 0)]));
        check(1, 2, RestoreScope::All, &parts, Ok(&[("a", 0), ("b", 1), ("m", 1), ("rng", 1)]));
        check(1, 2, RestoreScope::Own, &parts, Ok(&[("b", 1), ("m", 1), ("rng", 1)]));
        check(2, 3, RestoreScope::All, &parts, Err("different files `rng` of step 40: 3 nodes cannot restore it"));
        check(0, 3, RestoreScope::Own, &parts, Err("cannot restore its own part of it"));
        let shards = [part(0, &[("a", "x"), ("m", "same")]), part(1, &[("b", "y"), ("m", "same")])];
        check(2, 4, RestoreScope::All, &shards, Ok(&[("a", 0), ("b", 1), ("m", 0)]));
        check(1, 2, RestoreScope::All, &[part(0, &[("a", "x")]), part(1, &[])], Ok(&[("a", 0)]));
    }

    #[test]
    fn parts_that_need_each_other_s_place_are_refused() {
        let parts = [part(0, &[("a", "x")]), part(1, &[("a/b", "y")])];
        check(0, 2, RestoreScope::All, &parts, Err("`a/b` lies below a file"));
    }
}
