//! The files by which a framework says which other files belong to a step.

use std::collections::{BTreeMap, BTreeSet};

/// The most shards that are read of one `.metadata`: 32 nodes with 16 GPUs, and many files for each.
pub const SHARDS_MAX: usize = 20_000;

/// The bytes of a `.metadata` that are scanned: one of a model with a million tensors has some 200 MB.
const METADATA_BYTES_MAX: usize = 512 * 1024 * 1024;

const SHARD_END: &[u8] = b".distcp";

/// The names of the shards in a `.metadata`, found as plain bytes: it is a pickle, which is not to be loaded. `None` if it is too large to be read
/// whole.
// torch 2.15.0, torch/distributed/checkpoint/filesystem.py: `__<rank>_<i>.distcp`, `_StorageInfo.relative_path`.
#[must_use]
pub fn scan_metadata(bytes: &[u8]) -> Option<BTreeSet<String>> {
    if bytes.len() > METADATA_BYTES_MAX {
        return None;
    }
    let mut names = BTreeSet::new();
    let mut rest = bytes;
    while let Some(found) = rest.windows(SHARD_END.len()).position(|window| window == SHARD_END) {
        let is_part = |byte: &&u8| byte.is_ascii_digit() || **byte == b'_';
        let length = rest[..found].iter().rev().take_while(is_part).count();
        let end = found.saturating_add(SHARD_END.len());
        let name = String::from_utf8_lossy(&rest[found.saturating_sub(length)..end]).into_owned();
        if dcp_rank(&name).is_some() {
            names.insert(name);
        }
        if names.len() > SHARDS_MAX {
            return None;
        }
        rest = &rest[end..];
    }
    Some(names)
}

/// The rank of `__<rank>_<i>.distcp`.
pub(super) fn dcp_rank(name: &str) -> Option<u32> {
    let (rank, part) = name.strip_prefix("__")?.strip_suffix(".distcp")?.split_once('_')?;
    number(part)?;
    number(rank)
}

/// A family of files of which each rank writes one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RankFamily {
    /// Folder, and the name but for the numbers of the rank.
    pub(super) name: String,
    /// The part within which the rank counts from 0 without a gap.
    pub(super) part: String,
    /// `true` if each rank has one exactly, so that all nodes have as many.
    pub(super) is_of_each_rank: bool,
}

/// The family and the rank of a file, by its path.
pub(super) fn rank_family(path: &str) -> Option<(RankFamily, u32)> {
    let (folder, name) = path.rsplit_once('/').map_or(("", path), |(folder, name)| (folder, name));
    let family = |kind: &str, part: &str, is_of_each_rank| RankFamily {
        name: format!("{folder}/{kind}"),
        part: part.to_owned(),
        is_of_each_rank,
    };
    // transformers 5.23.0, trainer.py, _save_rng_state; accelerate, checkpointing.py, RNG_STATE_NAME.
    for (prefix, end) in [("rng_state_", ".pth"), ("random_states_", ".pkl")] {
        if let Some(rank) = name.strip_prefix(prefix).and_then(|rest| number(rest.strip_suffix(end)?)) {
            return Some((family(&format!("{prefix}*{end}"), "", true), rank));
        }
    }
    // deepspeed 0.19.8, runtime/engine.py, _get_zero_ckpt_name: `[bf16_]zero_pp_rank_<dp>_mp_rank_<mp>_optim_states.pt`.
    let (before, rest) = name.split_once("zero_pp_rank_")?;
    let (rank, rest) = rest.split_once("_mp_rank_")?;
    let (part, kind) = rest.split_once('_')?;
    number(part)?;
    Some((family(&format!("{before}zero_pp_rank_*_{kind}"), part, true), number(rank)?))
}

/// A file of a family that says its own size.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CountedFamily {
    pub(super) name: String,
    pub(super) size: u32,
}

/// The family and the index of a file whose name says the number of all, by its path: `model_world_size_8_rank_3.pt`, and
/// `model-00003-of-00008.safetensors`.
pub(super) fn counted_family(path: &str) -> Option<(CountedFamily, u32)> {
    let (folder, name) = path.rsplit_once('/').map_or(("", path), |(folder, name)| (folder, name));
    // verl, utils/checkpoint/fsdp_checkpoint_manager.py: `model_world_size_<w>_rank_<i>.pt`.
    if let Some((before, rest)) = name.split_once("world_size_") {
        let (size, rest) = rest.split_once("_rank_")?;
        let digits = digits_of(rest);
        let name = format!("{folder}/{before}world_size_{size}_rank_*{}", &rest[digits.len()..]);
        return Some((CountedFamily { name, size: number(size)? }, number(digits)?));
    }
    let (before, after) = name.rsplit_once("-of-")?;
    let (stem, index) = before.rsplit_once('-')?;
    let digits = digits_of(after);
    let name = format!("{folder}/{stem}-*-of-{after}");
    Some((CountedFamily { name, size: padded(digits)? }, padded(index)?))
}

fn digits_of(text: &str) -> &str {
    let end = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    &text[..end]
}

/// A number with leading zeros.
fn padded(digits: &str) -> Option<u32> {
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().ok()).flatten()
}

/// A number as a rank is written: `00` of `mp_rank_00` as well.
fn number(digits: &str) -> Option<u32> {
    padded(digits).filter(|_| digits.len() <= 6)
}

/// The ranks that lack in `0..=max`, or `None`.
pub(super) fn first_gap(ranks: &BTreeSet<u32>) -> Option<u32> {
    (0..).zip(ranks).find(|(expected, rank)| *expected != **rank).map(|(expected, _)| expected)
}

/// Files of all nodes by family: the ranks of each node.
pub(super) type Families = BTreeMap<RankFamily, BTreeMap<super::Node, BTreeSet<u32>>>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_found_as_plain_bytes() {
        let metadata =
            b"\x80\x05X\x0d\x00__0_0.distcp\x94\x8cX__11_2.distcp\x00__1_0.distcpX__x_0.distcp.distcp__1_.distcp";
        let names = scan_metadata(metadata).unwrap();
        assert_eq!(names.into_iter().collect::<Vec<_>>(), ["__0_0.distcp", "__11_2.distcp", "__1_0.distcp"]);
        assert_eq!(scan_metadata(b"").unwrap().len(), 0);
        let many: Vec<u8> = (0..=SHARDS_MAX).flat_map(|rank| format!("__{rank}_0.distcp ").into_bytes()).collect();
        assert_eq!(scan_metadata(&many), None);
    }

    #[test]
    fn a_name_says_the_rank_of_its_family() {
        let check = |path: &str, expect: Option<(&str, &str, u32)>| {
            let found = rank_family(path);
            let found = found.as_ref().map(|(family, rank)| (family.name.as_str(), family.part.as_str(), *rank));
            assert_eq!(found, expect, "{path}");
        };
        check("checkpoint-40/rng_state_3.pth", Some(("checkpoint-40/rng_state_*.pth", "", 3)));
        check("s/random_states_0.pkl", Some(("s/random_states_*.pkl", "", 0)));
        let zero = "global_step40/bf16_zero_pp_rank_5_mp_rank_01_optim_states.pt";
        check(zero, Some(("global_step40/bf16_zero_pp_rank_*_optim_states.pt", "01", 5)));
        check("rng_state.pth", None);
        check("global_step40/mp_rank_00_model_states.pt", None);
        let size = |path: &str| counted_family(path).map(|(family, index)| (family.size, index));
        assert_eq!(size("actor/model_world_size_8_rank_3.pt"), Some((8, 3)));
        assert_eq!(size("model-00003-of-00008.safetensors"), Some((8, 3)));
        assert_eq!([size("model.pt"), size("a-of-b"), size("x-1-of-")], [None; 3]);
    }
}
