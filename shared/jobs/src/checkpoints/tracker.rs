//! Small files and links that name a checkpoint. A framework writes the one that names the newest once all of that checkpoint is there.

use serde::{Deserialize, Serialize};

use super::entry_kind::is_best;
use super::name::{StepUnit, step_of, unit_of};

/// The longest text that is read, in bytes: a framework's own names one checkpoint, or all.
pub const TRACKER_BYTES_MAX: u64 = 64 * 1024;

/// The longest text of another name: it is compared with each entry of the directory.
const OTHER_BYTES_MAX: usize = 256;

/// Words that make a name that of a tracker.
// With the version that was read, and where it is written after the checkpoint: Megatron-LM (`latest_checkpointed_iteration.txt`:
// megatron/training/checkpointing.py, save_checkpoint), DeepSpeed 0.19.8 (`latest`: deepspeed/runtime/engine.py, save_checkpoint), MMEngine
// 0.10.7 and fvcore 0.1.5 (`last_checkpoint`: mmengine/runner/checkpoint.py, fvcore/common/checkpoint.py), TensorFlow 2.21.0 (`checkpoint`:
// tensorflow/python/checkpoint/checkpoint_management.py).
const NEWEST: [&str; 4] = ["latest", "last", "newest", "current"];

/// Other words in such names. Any other word makes it the last of something else: `last_metrics.json`.
const BESIDE_NEWEST: [&str; 26] = [
    "checkpoint",
    "checkpoints",
    "checkpointed",
    "ckpt",
    "iteration",
    "iter",
    "step",
    "epoch",
    "model",
    "saved",
    "save",
    "universal",
    "dlrover",
    "rank",
    "symlink",
    "link",
    "path",
    "unsharded",
    "txt",
    "json",
    "pt",
    "pth",
    "bv",
    "sharded",
    "hf",
    "tracker",
];

/// A file or link that names a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tracker {
    pub name: String,
    /// The step that it names.
    pub step: u64,
    /// True if its name says that it names the newest whole checkpoint. Another one has to be seen to follow the checkpoints.
    pub is_newest_by_name: bool,
}

impl Tracker {
    /// Reads a small file by its text, where `entries` are the names of the directory.
    #[must_use]
    pub fn from_text(name: &str, text: &str, entries: &[String]) -> Option<Self> {
        let is_newest_by_name = is_newest_by_name(name);
        let is_about_best = is_best(name) || (!is_newest_by_name && text.to_ascii_lowercase().contains("best"));
        let is_short = text.len() <= OTHER_BYTES_MAX;
        let step = if is_newest_by_name {
            tracked_step(text, entries)
        } else {
            is_short.then(|| named_alone(text, entries)).flatten()
        };
        step.filter(|_| !is_about_best).map(|step| Self { name: name.to_owned(), step, is_newest_by_name })
    }

    /// Reads a link in the directory, and the name there that it leads to.
    #[must_use]
    pub fn from_link(name: &str, target: &str) -> Option<Self> {
        let step = step_of(target).filter(|_| step_of(name).is_none() && !is_best(name))?.step;
        Some(Self { name: name.to_owned(), step, is_newest_by_name: is_newest_by_name(name) })
    }
}

fn is_newest_by_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let words: Vec<&str> = name
        .split(|character: char| !character.is_alphanumeric())
        .map(|word| word.trim_end_matches(|character: char| character.is_ascii_digit()))
        .filter(|word| !word.is_empty())
        .collect();
    let is_known = |word: &&str| NEWEST.contains(word) || BESIDE_NEWEST.contains(word);
    name == "checkpoint" || (words.iter().any(|word| NEWEST.contains(word)) && words.iter().all(is_known))
}

/// The step that the text of a tracker says: by the number alone, by one name or path, by a key of JSON, or else the highest of all that it names.
fn tracked_step(text: &str, entries: &[String]) -> Option<u64> {
    let text = text.trim();
    if let Ok(number) = text.parse() {
        return Some(number);
    }
    if let Ok(serde_json::Value::Object(fields)) = serde_json::from_str(text) {
        let unit = |key: &str| unit_of(&format!("{key}=0")).filter(|unit| *unit < StepUnit::Plain);
        let by_key = fields.iter().filter_map(|(key, value)| Some((unit(key)?, value.as_u64()?)));
        let by_key = by_key.min_by_key(|(unit, _)| *unit).map(|(_, step)| step);
        let by_name = || fields.values().filter_map(|value| step_of_path(value.as_str()?)).max();
        return by_key.or_else(by_name);
    }
    if !text.contains(char::is_whitespace) {
        return step_of_path(text);
    }
    named_steps(text, entries).max()
}

/// The step of the only entry that a text names.
fn named_alone(text: &str, entries: &[String]) -> Option<u64> {
    let mut named: Vec<u64> = named_steps(text, entries).collect();
    named.sort_unstable();
    named.dedup();
    if let [step] = *named.as_slice() { Some(step) } else { None }
}

fn named_steps(text: &str, entries: &[String]) -> impl Iterator<Item = u64> {
    entries.iter().filter(|entry| names_entry(text, stem_of(entry))).filter_map(|entry| Some(step_of(entry)?.step))
}

fn step_of_path(path: &str) -> Option<u64> {
    let name = path.trim_matches(['"', '\'']).trim_end_matches('/').rsplit('/').next()?;
    step_of(name).map(|named| named.step)
}

/// The relation of a small file without a number to the checkpoints beside it, such as `latest` or `checkpoint`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PointerTarget {
    /// The file names none of the checkpoints.
    None,
    /// This one is named, and maybe others.
    This,
    /// Others are named: the file would mislead beside this one.
    Other,
}

/// The target of a text, where these `entries` are the checkpoint, and `others` are the entries of other ones: by a name, or by the number
/// of the step alone.
#[must_use]
pub fn points_to(text: &str, entries: &[String], others: &[String]) -> PointerTarget {
    let number: Option<u64> = text.trim().parse().ok();
    let has_number = |entry: &String| number.is_some() && step_of(entry).map(|named| named.step) == number;
    let names = |entry: &String| has_number(entry) || names_entry(text, stem_of(entry));
    if entries.iter().any(names) {
        PointerTarget::This
    } else if others.iter().any(names) {
        PointerTarget::Other
    } else {
        PointerTarget::None
    }
}

/// `ckpt-5` of `ckpt-5.index`, by which `TensorFlow` names all files of a checkpoint.
fn stem_of(entry: &str) -> &str {
    entry.strip_suffix(".index").unwrap_or(entry)
}

/// True if a text has that name, and not only the beginning or the end of it.
fn names_entry(text: &str, name: &str) -> bool {
    let is_part = |character: Option<char>| {
        character.is_some_and(|character| character.is_alphanumeric() || matches!(character, '-' | '_'))
    };
    text.match_indices(name).any(|(start, found)| {
        !is_part(text[..start].chars().next_back()) && !is_part(text[start + found.len()..].chars().next())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries() -> Vec<String> {
        ["iter_0000010", "iter_0000020", "ckpt-10.index", "ckpt-20.index"].map(str::to_owned).to_vec()
    }

    #[test]
    fn each_framework_s_tracker_names_a_step() {
        let check = |name: &str, text: &str| {
            let expect = Tracker { name: name.to_owned(), step: 20, is_newest_by_name: true };
            assert_eq!(Tracker::from_text(name, text, &entries()), Some(expect), "{name}: {text}");
        };
        check("latest_checkpointed_iteration.txt", "20");
        check("latest_checkpointed_iteration.txt", "global_step_20\n");
        check("latest", "global_step20");
        check("last_checkpoint", "/opt/ml/work/epoch_20.pth");
        check("last_checkpoint", "model_0000020.pth");
        check("dlrover_latest.txt", "20");
        check("latest.txt", "20");
        check("checkpoint.bv-LAST", "000000020-tmp");
        check("latest-rank0.pt.symlink", "run/checkpoints/ep0-step20-rank0.pt");
        check("latest.json", r#"{"iteration": 20, "path": "a"}"#);
        check("latest.json", r#"{"path": "/a/step_20/"}"#);
        check("latest.json", r#"{"epoch": 10, "step": 20}"#);
        check(
            "checkpoint",
            "model_checkpoint_path: \"ckpt-20\"\nall_model_checkpoint_paths: \"ckpt-10\"\nall_model_checkpoint_paths: \"ckpt-20\"\n",
        );
    }

    #[test]
    fn another_small_file_has_to_name_one_entry_and_to_follow() {
        let named = Tracker::from_text("where.txt", "saved iter_0000020", &entries());
        assert_eq!(named.map(|tracker| (tracker.step, tracker.is_newest_by_name)), Some((20, false)));
        for (name, text) in [
            ("where.txt", "20"),
            ("notes.txt", "iter_0000010, then iter_0000020"),
            ("last_metrics.json", r#"{"step": 20}"#),
            ("best_checkpoint", "iter_0000020"),
            ("results.json", r#"{"best_checkpoint": "iter_0000020"}"#),
            ("latest", "release"),
            ("latest", ""),
        ] {
            assert_eq!(Tracker::from_text(name, text, &entries()), None, "{name}: {text}");
        }
    }

    #[test]
    fn a_link_names_what_it_leads_to() {
        let step = |name: &str, target: &str| {
            Tracker::from_link(name, target).map(|tracker| (tracker.step, tracker.is_newest_by_name))
        };
        assert_eq!(step("latest", "step20"), Some((20, true)));
        assert_eq!(step("last.ckpt", "epoch=1-step=20.ckpt"), Some((20, true)));
        assert_eq!(step("current", "step20"), Some((20, true)));
        assert_eq!(step("model", "step20"), Some((20, false)));
        assert_eq!([step("best", "step20"), step("step10", "step20"), step("latest", "runs")], [None; 3]);
    }
}
