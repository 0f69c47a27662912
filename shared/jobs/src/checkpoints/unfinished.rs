//! Marks of what is still being written: in a name, or in the name of a file beside it.

/// Words that mean it anywhere in a name: `tmp-checkpoint-500`, `500.orbax-checkpoint-tmp-17`, `model--step=30-last-unfinished`.
const ANYWHERE: [&str; 7] = ["tmp", "temp", "temporary", "partial", "incomplete", "unfinished", "inprogress"];

/// Words that mean it at the end of a name: `step-30.writing`.
const AT_END: [&str; 6] = ["writing", "saving", "uncommitted", "pending", "wip", "dirty"];

/// Extensions that mean it, and are words for something else within a name: `model.pt.part`, but not `model-part-3`.
const EXTENSIONS: [&str; 6] = ["part", "filepart", "crdownload", "download", "swp", "new"];

/// Beginnings of what is being replaced or deleted.
// NeMo RL (nemo_rl/utils/checkpoint.py), open_clip (src/open_clip_train/main.py).
const BEFORE_DELETION: [&str; 2] = ["old_step_", "_trash_"];

// A whole checkpoint of big_vision that may be deleted later ends on `-tmp` (big_vision/utils.py, save_checkpoint_ts).
const WHOLE_BEFORE: &str = "checkpoint.bv-";

/// The length of a name that Python's `tempfile` makes: `tmp` and eight characters of `abcdefghijklmnopqrstuvwxyz0123456789_`
/// (docs.python.org, `tempfile`; `Lib/tempfile.py`, `_RandomNameSequence`).
const TEMPFILE_LENGTH: usize = 11;

/// True if something of that name is still being written, and gets another one in the end.
#[must_use]
pub fn is_temporary(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let words: Vec<&str> =
        name.split(|character: char| !character.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let is_unfinished = |word: &&str| ANYWHERE.contains(word) || word.strip_prefix("tmp").is_some_and(is_number);
    let is_whole = name.starts_with(WHOLE_BEFORE) && name.ends_with("-tmp");
    let is_leftover = name.ends_with('~') || BEFORE_DELETION.iter().any(|before| name.starts_with(before));
    let is_marked = is_leftover
        || words.iter().any(is_unfinished)
        || words.windows(2).any(|pair| pair == ["in", "progress"] || pair == ["not", "complete"])
        || words.last().is_some_and(|last| AT_END.contains(last))
        || name.rsplit_once('.').is_some_and(|(_, extension)| EXTENSIONS.contains(&extension))
        || is_of_tempfile(&name);
    is_marked && !is_whole
}

/// Words that say that of the entry beside, and not that the file itself gets another name in the end.
const OF_ANOTHER: [&str; 6] = ["unfinished", "incomplete", "inprogress", "progress", "writing", "saving"];

/// The name that a mark beside it says is still being written: `last.ckpt` of `last.ckpt-unfinished`, and of an empty `.last.ckpt.tmp`. One that holds
/// something is the next version of it.
#[must_use]
pub fn marked_as_unfinished<'a>(
    mark: &str,
    is_empty: bool,
    names: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let lower = mark.to_ascii_lowercase();
    let is_of_another =
        lower.split(|character: char| !character.is_alphanumeric()).any(|word| OF_ANOTHER.contains(&word));
    if !is_temporary(mark) || !(is_empty || is_of_another) {
        return None;
    }
    // NeMo leaves the extension and `-EMA` out: nemo/utils/callbacks/nemo_model_checkpoint.py, `format_checkpoint_unfinished_marker_path`.
    let stem = |name: &str| {
        let stem = name.strip_suffix(".ckpt").unwrap_or(name);
        stem.strip_suffix("-EMA").unwrap_or(stem).to_owned()
    };
    let is_marked = |name: &&str| {
        let by_stem = || mark.split_once(&stem(name));
        let rest = mark.split_once(*name).or_else(by_stem).filter(|_| *name != mark && !is_temporary(name));
        rest.is_some_and(|(before, after)| {
            let parts = |rest: &str, joint: Option<char>| {
                rest.is_empty() || joint.is_some_and(|joint| !joint.is_alphanumeric())
            };
            parts(before, before.chars().next_back()) && parts(after, after.chars().next())
        })
    };
    names.into_iter().filter(is_marked).max_by_key(|name| (mark.contains(name), name.len()))
}

fn is_number(digits: &str) -> bool {
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_of_tempfile(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default();
    let is_random = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    stem.len() == TEMPFILE_LENGTH && stem.starts_with("tmp") && stem.bytes().all(is_random)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_that_it_is_unfinished() {
        for name in [
            "tmp-checkpoint-500",
            "500.orbax-checkpoint-tmp-17",
            "checkpoint_500.tmp-1788264000",
            "model.pt.tmp",
            "model.pt.tmp4711",
            "step_30_tmp",
            "a.partial",
            "x.INCOMPLETE",
            "model--step=30-last-unfinished",
            "step-30.in-progress",
            "step-30_IN_PROGRESS",
            "step-30.inprogress",
            "step-30.not_complete",
            "step-30.writing",
            "step-30-saving",
            "model-30.pt.part",
            "model-30.pt.new",
            "model-30.pt~",
            "_temporary",
            "tmpk3_x9a0b",
            "tmpk3_x9a0b.pt",
            "old_step_5",
            "_trash_latest",
        ] {
            assert!(is_temporary(name), "{name}");
        }
        for name in [
            "checkpoint-500",
            "template-5.pt",
            ".complete",
            ".metadata",
            ".zarray",
            "attempt-3",
            "model-part-3.pt",
            "part-00000",
            "energy-saving-30.pt",
            "new-model-30.pt",
            "dirty-30k-step-7",
            "temperature-0.7-step-5",
            "progress-30.pt",
            "checkpoint.bv-000000500-tmp",
            "old_policy-5.pt",
        ] {
            assert!(!is_temporary(name), "{name}");
        }
    }

    #[test]
    fn a_mark_names_what_it_is_beside() {
        let names = ["last", "last.ckpt", "step-3", "step-30"];
        let check =
            |mark: &str, expect: Option<&str>| assert_eq!(marked_as_unfinished(mark, true, names), expect, "{mark}");
        check("last.ckpt-unfinished", Some("last.ckpt"));
        check(".last.ckpt.tmp", Some("last.ckpt"));
        check("tmp_step-30", Some("step-30"));
        check("step-30.incomplete", Some("step-30"));
        check("last-unfinished", Some("last"));
        check("old_step_3", None);
        check("step-300.tmp", None);
        check("tmp", None);
        assert_eq!(marked_as_unfinished("last.ckpt.tmp", false, names), None, "the next version");
        assert_eq!(marked_as_unfinished("last.ckpt-unfinished", false, names), Some("last.ckpt"));
        check("last.ckpt.complete", None);
        check("step-30", None);
    }
}
