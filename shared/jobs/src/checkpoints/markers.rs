//! Markers of complete checkpoints, which end the wait: files that a framework writes when all else of a checkpoint is there.

/// A name of a file in a checkpoint that says that it is complete.
struct MarkerRule {
    name: &'static str,
    /// Returns `true` if the last bytes say that the marker is whole: a marker that holds something is cut off where its writer is killed.
    is_whole: fn(&[u8]) -> bool,
}

/// Each with whose it is, the version that was read, and where that stands.
const MARKERS: [MarkerRule; 9] = [
    // People's own, and of `curfew.saved`.
    MarkerRule { name: COMPLETE, is_whole: |_| true },
    // Hadoop, Spark: FileOutputCommitter.SUCCEEDED_FILE_NAME, empty.
    MarkerRule { name: "_SUCCESS", is_whole: |_| true },
    // torch 2.15.0, torch/distributed/checkpoint/filesystem.py, _FileSystemWriter.finish: renamed into place when all ranks have written. Without
    // collectives (`use_collectives=False`) each rank has its own file, `__0.metadata`, which marks nothing.
    MarkerRule { name: ".metadata", is_whole: |end| !end.is_empty() },
    // OLMo-core, src/olmo_core/train/checkpoint.py, _save_metadata: after all ranks have written.
    MarkerRule { name: ".metadata.json", is_whole: ends_on_brace },
    // PaddleNLP, paddlenlp/trainer/trainer_utils.py, get_last_checkpoint: where it is asked for.
    MarkerRule { name: ".checkpoint_done", is_whole: |_| true },
    // Prime RL, src/prime_rl/utils/pathing.py: empty.
    MarkerRule { name: "STABLE", is_whole: |_| true },
    // transformers 5.23.0, transformers/trainer.py, _save_checkpoint: after the model, the optimizer and the state of randomness of this
    // rank; those of other ranks may come later, which is a change after it was kept.
    MarkerRule { name: "trainer_state.json", is_whole: ends_on_brace },
    // orbax-checkpoint 0.12.8, orbax/checkpoint/_src/path/atomicity.py, finalize: before the directory is renamed, and where it cannot be
    // renamed.
    MarkerRule { name: "commit_success.txt", is_whole: |end| !end.is_empty() },
    // The same, and _src/metadata/checkpoint.py: written at the beginning, and in finalize again with the time of the commit.
    MarkerRule { name: "_CHECKPOINT_METADATA", is_whole: |end| ends_on_brace(end) && has_commit_time(end) },
];

/// The last bytes of a table of `TensorFlow`'s, such as `ckpt-5.index`. tensorflow 2.21.0, `xla/tsl/lib/io/format.h`, `kTableMagicNumber`.
const TABLE_END: u64 = 0xdb47_7524_8b80_fb57;

/// Marks a checkpoint; one that is a file by a file beside it, `<name>.complete`.
pub const COMPLETE: &str = ".complete";

/// The names of files that may be markers.
pub fn marker_names() -> impl Iterator<Item = &'static str> {
    MARKERS.iter().map(|rule| rule.name)
}

/// Returns `true` if a file of one of these names is a marker, by its last bytes.
#[must_use]
pub fn is_marker(name: &str, end: &[u8]) -> bool {
    MARKERS.iter().any(|rule| rule.name == name && (rule.is_whole)(end))
}

/// The step that a marker of Curfew's own says, as `curfew.saved` writes it: `step=500`.
#[must_use]
pub fn marked_step(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.trim().strip_prefix("step=")?.parse().ok()
}

/// The file beside a file of `TensorFlow`'s that marks it: `ckpt-5.index` of `ckpt-5.data-00000-of-00001`.
/// github.com/tensorflow/tensorflow, `tensorflow/core/util/tensor_bundle/tensor_bundle.cc`, `MergeBundles`: the data is renamed first, the
/// index is written last, in place.
#[must_use]
pub fn index_of(name: &str) -> Option<String> {
    if name.rsplit_once('.').is_some_and(|(_, extension)| extension == "index") {
        return Some(name.to_owned());
    }
    let (prefix, part) = name.rsplit_once(".data-")?;
    part.contains("-of-").then(|| format!("{prefix}.index"))
}

/// Returns `true` if a `TensorFlow` index is whole, by its last bytes.
#[must_use]
pub fn is_whole_index(end: &[u8]) -> bool {
    end.ends_with(&TABLE_END.to_le_bytes())
}

fn ends_on_brace(end: &[u8]) -> bool {
    end.trim_ascii_end().ends_with(b"}")
}

fn has_commit_time(end: &[u8]) -> bool {
    let text = String::from_utf8_lossy(end);
    let after = text.rsplit_once("\"commit_timestamp_nsecs\"").map(|(_, after)| after);
    after.is_some_and(|after| after.trim_start_matches([':', ' ']).starts_with(|first: char| first.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_that_is_cut_off_is_none() {
        let committed = br#"{"init_timestamp_nsecs": 1, "commit_timestamp_nsecs": 2, "custom_metadata": {}}"#;
        let begun = br#"{"init_timestamp_nsecs": 1, "commit_timestamp_nsecs": null, "custom_metadata": {}}"#;
        let whole: [(&str, &[u8]); 9] = [
            ("trainer_state.json", b"\"epoch\": 1}\n  "),
            (".metadata", b"\x80"),
            ("_SUCCESS", b""),
            (".metadata.json", b"{}"),
            (".checkpoint_done", b""),
            ("STABLE", b""),
            (".complete", b""),
            ("commit_success.txt", b"Checkpoint commit was successful to /a"),
            ("_CHECKPOINT_METADATA", committed),
        ];
        assert_eq!(marker_names().count(), whole.len());
        for (name, end) in whole {
            assert!(is_marker(name, end), "{name}");
        }
        for end in [&b""[..], b" \n", b"\"log_history\": [\n  {\"loss\": 0.5},"] {
            assert!(!is_marker("trainer_state.json", end), "{end:?}");
        }
        assert!(!is_marker(".metadata", b"") && !is_marker("commit_success.txt", b""));
        assert!(!is_marker("_CHECKPOINT_METADATA", begun) && !is_marker("_CHECKPOINT_METADATA", &committed[..50]));
    }

    #[test]
    fn a_marker_of_curfew_s_own_may_say_the_step() {
        assert_eq!(
            [marked_step(b"step=500\n"), marked_step(b""), marked_step(b"step=x"), marked_step(b"\xff")],
            [Some(500), None, None, None]
        );
    }

    #[test]
    fn the_index_marks_the_data_of_tensorflow() {
        assert_eq!(index_of("ckpt-5.data-00000-of-00001").as_deref(), Some("ckpt-5.index"));
        assert_eq!(index_of("ckpt-5.index").as_deref(), Some("ckpt-5.index"));
        assert_eq!([index_of("ckpt-5.pt"), index_of("a.data-1")], [None, None]);
        let whole = b"\0\0\x57\xfb\x80\x8b\x24\x75\x47\xdb";
        assert!(is_whole_index(whole) && !is_whole_index(&whole[..9]) && !is_whole_index(b""));
    }
}
