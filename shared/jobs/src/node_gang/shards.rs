//! The files by which a framework says which other files belong to a step.

use std::collections::BTreeSet;

/// The most shards that a step may name, and that are read of one `.metadata`.
pub const SHARDS_MAX: usize = 20_000;

/// The most bytes of a `.metadata` that are scanned.
pub const METADATA_BYTES_MAX: usize = 512 * 1024 * 1024;

const SHARD_END: &[u8] = b".distcp";

/// The names of the shards in a `.metadata`; `None` if it is too large to be read whole. It is a pickle, so it is scanned and never loaded.
// Measured with torch 2.15: it contains the name of each shard, such as `__0_0.distcp`, as plain bytes.
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

/// A family of files: each rank writes one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RankFamily {
    /// Path, with `*` for the rank.
    pub(super) name: String,
    /// The part within which the rank counts from 0 without a gap.
    pub(super) part: String,
}

impl RankFamily {
    pub(super) fn is_random_state(&self) -> bool {
        self.has_trainer_state() || self.name.ends_with("random_states_*.pkl")
    }

    /// `true` for Hugging Face's Trainer, which writes `trainer_state.json` beside it.
    pub(super) fn has_trainer_state(&self) -> bool {
        self.name.ends_with("rng_state_*.pth")
    }
}

/// The folder and the name of a path.
pub(super) fn split_path(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

fn in_folder(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

/// The family and the rank of a file, by its path.
pub(super) fn rank_family(path: &str) -> Option<(RankFamily, u32)> {
    let (folder, name) = split_path(path);
    let family = |kind: &str, part: &str| RankFamily { name: in_folder(folder, kind), part: part.to_owned() };
    // Hugging Face's Trainer, and Accelerate.
    for (prefix, end) in [("rng_state_", ".pth"), ("random_states_", ".pkl")] {
        if let Some(rank) = name.strip_prefix(prefix).and_then(|rest| number(rest.strip_suffix(end)?)) {
            return Some((family(&format!("{prefix}*{end}"), ""), rank));
        }
    }
    // DeepSpeed: `zero_pp_rank_<i>_mp_rank_<mp>_…`. A prefix makes another family (not confirmed).
    let (before, rest) = name.split_once("zero_pp_rank_")?;
    let (rank, rest) = rest.split_once("_mp_rank_")?;
    let (part, kind) = rest.split_once('_')?;
    number(part)?;
    Some((family(&format!("{before}zero_pp_rank_*_{kind}"), part), number(rank)?))
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
    let (folder, name) = split_path(path);
    // verl: `model_world_size_<w>_rank_<i>`.
    if let Some((before, rest)) = name.split_once("world_size_") {
        let (size, rest) = rest.split_once("_rank_")?;
        let digits = digits_of(rest);
        let name = in_folder(folder, &format!("{before}world_size_{size}_rank_*{}", &rest[digits.len()..]));
        return Some((CountedFamily { name, size: number(size)? }, number(digits)?));
    }
    let (before, after) = name.rsplit_once("-of-")?;
    let (stem, index) = before.rsplit_once('-')?;
    let digits = digits_of(after);
    let name = in_folder(folder, &format!("{stem}-*-of-{after}"));
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

/// The first rank below the highest that lacks.
pub(super) fn first_gap(ranks: &BTreeSet<u32>) -> Option<u32> {
    (0..).zip(ranks).find(|(expected, rank)| *expected != **rank).map(|(expected, _)| expected)
}

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
