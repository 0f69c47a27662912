//! What a name in the checkpoint directory says: its step by key, and whether it is a checkpoint at all.

use std::borrow::Cow;
use std::iter;

/// Words before a number, or after it, that make it a step. The first kind goes before the second: `epoch=3-step=1200` is step 1200.
const STEP_KEYS: [&str; 9] =
    ["step", "steps", "globalstep", "iter", "iters", "iteration", "iterations", "update", "updates"];
const EPOCH_KEYS: [&str; 5] = ["epoch", "epochs", "ep", "round", "rounds"];

/// Words before a number that distinguishes versions of a file.
const VERSION_KEYS: [&str; 2] = ["v", "version"];

/// Extensions that end on a digit.
const EXTENSIONS: [&str; 6] = ["h5", "hdf5", "pt2", "bz2", "lz4", "7z"];

/// The step that a name says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamedStep {
    /// Its number.
    pub step: u64,
    /// Whether it is the last of several numbers without a key.
    pub is_ambiguous: bool,
}

/// The step that a name says: the number that a key names, else the only number, else the last one, which is ambiguous. A number with a
/// decimal point, of a version, of a part, of another key (`val_loss=3`), or within a word (`7b`) is none.
#[must_use]
pub fn step_of(name: &str) -> Option<NamedStep> {
    let name = without_part(name);
    let stem = match name.rsplit_once('.') {
        Some((stem, extension)) if EXTENSIONS.contains(&extension) => stem,
        _ => &name,
    };
    let numbers = numbers_in(stem);
    let keyed = |kind| numbers.iter().rev().find(|number| number.kind == kind);
    if let Some(found) = keyed(NumberKind::Step).or_else(|| keyed(NumberKind::Epoch)) {
        return Some(NamedStep { step: found.value, is_ambiguous: false });
    }
    let mut plain = numbers.iter().filter(|number| number.kind == NumberKind::Plain).map(|number| number.value);
    let first = plain.next()?;
    let last = plain.next_back();
    Some(NamedStep { step: last.unwrap_or(first), is_ambiguous: last.is_some() })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NumberKind {
    Step,
    Epoch,
    Plain,
    /// Of another key.
    Other,
}

#[derive(Debug)]
struct NumberInName {
    value: u64,
    kind: NumberKind,
}

/// The characters between two others that are no letters or digits, with what stands before them.
#[derive(Debug)]
struct NameChunk<'a> {
    /// What parts it from the chunk before.
    separator: &'a str,
    letters: &'a str,
    /// What follows the letters, where that is nothing but digits.
    digits: Option<&'a str>,
}

fn numbers_in(stem: &str) -> Vec<NumberInName> {
    let chunks = chunks_of(stem);
    let is_number = |chunk: &NameChunk<'_>| chunk.letters.is_empty() && chunk.digits.is_some();
    let is_decimal = |index: usize| {
        let joins = |before: Option<&NameChunk<'_>>, after: Option<&NameChunk<'_>>| {
            before.is_some_and(|chunk| chunk.digits.is_some())
                && after.is_some_and(|chunk| chunk.separator == "." && is_number(chunk))
        };
        let before = index.checked_sub(1).and_then(|before| chunks.get(before));
        joins(before, chunks.get(index)) || joins(chunks.get(index), chunks.get(index + 1))
    };
    let mut found = Vec::new();
    for (index, chunk) in chunks.iter().enumerate() {
        let Some(value) = chunk.digits.and_then(|digits| digits.parse().ok()) else { continue };
        let before = index.checked_sub(1).and_then(|before| chunks.get(before));
        let key_before = before.filter(|before| before.digits.is_none()).map_or("", |before| before.letters);
        let own_key = if chunk.letters.is_empty() { key_before } else { chunk.letters };
        let after = chunks.get(index + 1).filter(|after| after.digits.is_none()).map_or("", |after| after.letters);
        let key = own_key.to_ascii_lowercase();
        if is_decimal(index) || VERSION_KEYS.contains(&key.as_str()) {
            continue;
        }
        let is_assigned = chunk.letters.is_empty() && chunk.separator == "=";
        let kind = match kind_of(&key) {
            NumberKind::Plain if is_assigned => NumberKind::Other,
            NumberKind::Plain => kind_of(&after.to_ascii_lowercase()),
            kind => kind,
        };
        found.push(NumberInName { value, kind });
    }
    found
}

fn kind_of(key: &str) -> NumberKind {
    if STEP_KEYS.contains(&key) {
        NumberKind::Step
    } else if EPOCH_KEYS.contains(&key) {
        NumberKind::Epoch
    } else {
        NumberKind::Plain
    }
}

fn chunks_of(stem: &str) -> Vec<NameChunk<'_>> {
    let mut rest = stem;
    iter::from_fn(|| {
        let start = rest.find(char::is_alphanumeric)?;
        let (separator, from) = rest.split_at(start);
        let end = from.find(|character: char| !character.is_alphanumeric()).unwrap_or(from.len());
        let (chunk, after) = from.split_at(end);
        rest = after;
        let letters_end = chunk.find(|character: char| character.is_ascii_digit()).unwrap_or(chunk.len());
        let (letters, digits) = chunk.split_at(letters_end);
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        Some(NameChunk { separator, letters, digits: is_number.then_some(digits) })
    })
    .collect()
}

/// `ckpt-500.data` of `ckpt-500.data-00000-of-00001`, which is how TensorFlow and Hugging Face number the files of one checkpoint.
pub(super) fn without_part(name: &str) -> Cow<'_, str> {
    let is_digit = |character: char| character.is_ascii_digit();
    name.rsplit_once("-of-")
        .and_then(|(before, after)| {
            let (stem, number) = before.rsplit_once('-')?;
            let rest = after.trim_start_matches(is_digit);
            let is_part = !number.is_empty() && number.chars().all(is_digit) && rest.len() < after.len();
            is_part.then(|| Cow::Owned(format!("{stem}{rest}")))
        })
        .unwrap_or(Cow::Borrowed(name))
}

/// Extensions of what a training shows to people: a log, or a picture. ultralytics 8.4 draws `train_batch30.jpg` after `last.pt`, in
/// `ultralytics/engine/trainer.py`, `plot_training_samples`.
const SHOWN_EXTENSIONS: [&str; 10] = ["log", "out", "err", "jpg", "jpeg", "png", "gif", "svg", "pdf", "mp4"];

/// Whether a file of that name is part of no checkpoint, whatever number it has: a log, a picture, a core dump, an event file.
#[must_use]
pub fn is_record(name: &str) -> bool {
    let is_dump = name.strip_prefix("core.").is_some_and(|id| id.bytes().all(|byte| byte.is_ascii_digit()));
    is_dump || name.starts_with("events.out.tfevents.") || has_extension(name, &SHOWN_EXTENSIONS)
}

/// Whether a file of that name is text: it may be part of a checkpoint, and is one only where nothing else is there.
#[must_use]
pub fn is_text(name: &str) -> bool {
    has_extension(name, &["txt", "csv", "yaml", "yml", "json", "toml"])
}

/// Whether a text of that name may be a model, as of `LightGBM` (`model.txt`) and of `XGBoost` (`model.json`).
pub(super) fn may_be_model(name: &str) -> bool {
    has_extension(name, &["txt", "json"])
}

fn has_extension(name: &str, extensions: &[&str]) -> bool {
    name.rsplit_once('.').is_some_and(|(_, extension)| extensions.contains(&extension))
}

/// Whether something of that name is still being written, and gets another one in the end.
#[must_use]
pub fn is_temporary(name: &str) -> bool {
    let words = name.split(|character: char| !character.is_alphanumeric());
    let unfinished = |word: &str| matches!(word, "tmp" | "temp" | "partial" | "incomplete");
    words.map(str::to_ascii_lowercase).any(|word| unfinished(&word))
}

/// Whether a name says that it is the best so far, which is not the newest.
pub(super) fn is_best(path: &str) -> bool {
    path.rsplit('/').next().is_some_and(|name| name.to_ascii_lowercase().contains("best"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `expect`: the step, or of an ambiguous name the number that is taken.
    #[track_caller]
    fn check(names: &[&str], expect: Option<u64>, is_ambiguous: bool) {
        for name in names {
            assert_eq!(step_of(name), expect.map(|step| NamedStep { step, is_ambiguous }), "{name}");
        }
    }

    /// What each framework calls its checkpoints by default, or in its own documentation, with the version that was read, and where that
    /// stands.
    #[test]
    fn each_framework_s_names_say_their_step() {
        let table: &[(&str, &str, Option<u64>)] = &[
            // transformers 5.23.0, transformers/trainer_utils.py: PREFIX_CHECKPOINT_DIR.
            ("Hugging Face Trainer", "checkpoint-500", Some(500)),
            // accelerate 1.15.0, accelerate/accelerator.py: save_state; github.com/huggingface/accelerate,
            // examples/by_feature/checkpointing.py.
            ("Accelerate", "checkpoint_7", Some(7)),
            ("Accelerate", "step_100", Some(100)),
            ("Accelerate", "epoch_1", Some(1)),
            // lightning 2.6.6, lightning/pytorch/callbacks/model_checkpoint.py, on_exception_checkpoint.py.
            ("Lightning", "epoch=13-step=1200.ckpt", Some(1200)),
            ("Lightning", "epoch=13-step=1200-v1.ckpt", Some(1200)),
            ("Lightning", "sample-mnist-epoch=02-val_loss=0.32.ckpt", Some(2)),
            ("Lightning", "sample-mnist-epoch02-val_loss0.32.ckpt", Some(2)),
            ("Lightning", "epoch=2-val_loss=0.02-other_metric=0.03.ckpt", Some(2)),
            ("Lightning", "epoch=3-val_loss=2.91-v2.ckpt", Some(3)),
            ("Lightning", "epoch=3-val_acc=88.ckpt", Some(3)),
            ("Lightning", "02-2.91.ckpt", Some(2)),
            ("Lightning", "last.ckpt", None),
            ("Lightning", "last-v1.ckpt", None),
            ("Lightning", "on_exception.ckpt", None),
            // keras 3.15.1, keras/src/callbacks/model_checkpoint.py, backup_and_restore.py; tensorflow.org/tutorials/keras/save_and_load.
            ("Keras", "02-2.91.keras", Some(2)),
            ("Keras", "02-2.91.weights.h5", Some(2)),
            ("Keras", "weights.40.h5", Some(40)),
            ("Keras", "cp-0004.weights.h5", Some(4)),
            ("Keras", "checkpoint.model.keras", None),
            ("Keras", "latest.weights.h5", None),
            ("Keras", "training_metadata.json", None),
            // tensorflow 2.21.0, tensorflow/python/checkpoint/checkpoint_management.py: CheckpointManager.save.
            ("TensorFlow", "ckpt-500.index", Some(500)),
            ("TensorFlow", "ckpt-500.data-00000-of-00001", Some(500)),
            ("TensorFlow", "checkpoint", None),
            // orbax-checkpoint 0.12.8, orbax/checkpoint/_src/path/step.py: _StandardNameFormat.
            ("Orbax", "500", Some(500)),
            ("Orbax", "step_00000500", Some(500)),
            // torchtitan 0.3.0, torchtitan/components/checkpointer/dcp.py.
            ("DCP", "step-500", Some(500)),
            // deepspeed 0.19.8, deepspeed/runtime/engine.py: save_checkpoint.
            ("DeepSpeed", "global_step7", Some(7)),
            ("DeepSpeed", "latest", None),
            // github.com/NVIDIA/Megatron-LM, megatron/training/checkpointing.py: get_checkpoint_name, get_checkpoint_tracker_filename.
            ("Megatron", "iter_0000500", Some(500)),
            ("Megatron", "latest_checkpointed_iteration.txt", None),
            // github.com/NVIDIA/NeMo, examples/nlp/language_modeling/conf/megatron_gpt_config.yaml: checkpoint_callback_params.filename.
            ("NeMo", "megatron_gpt--val_loss=2.91-step=1000-consumed_samples=64000.0-last.ckpt", Some(1000)),
            // xgboost 3.2.0, xgboost/callback.py: TrainingCheckPoint.
            ("XGBoost", "model_10.ubj", Some(10)),
            ("XGBoost", "model_10.pkl", Some(10)),
            ("XGBoost", "model_10.json", Some(10)),
            // lightgbm 4.7.0, src/boosting/gbdt.cpp: snapshot_freq.
            ("LightGBM", "LightGBM_model.txt.snapshot_iter_10", Some(10)),
            ("LightGBM", "model.txt", None),
            // ultralytics 8.4.190, ultralytics/engine/trainer.py: save_model.
            ("ultralytics", "epoch10.pt", Some(10)),
            ("ultralytics", "last.pt", None),
            ("ultralytics", "best.pt", None),
            // mmengine 0.10.7, mmengine/hooks/checkpoint_hook.py: filename_tmpl.
            ("MMEngine", "epoch_12.pth", Some(12)),
            ("MMEngine", "iter_1000.pth", Some(1000)),
            ("MMEngine", "last_checkpoint", None),
            // fvcore 0.1.5, fvcore/common/checkpoint.py: PeriodicCheckpointer.step.
            ("detectron2", "model_0004999.pth", Some(4999)),
            ("detectron2", "model_final.pth", None),
            // stable-baselines3 2.9.2, stable_baselines3/common/callbacks.py: CheckpointCallback._checkpoint_path.
            ("Stable-Baselines3", "rl_model_10000_steps.zip", Some(10_000)),
            ("Stable-Baselines3", "rl_model_replay_buffer_10000_steps.pkl", Some(10_000)),
            // github.com/openai/guided-diffusion, guided_diffusion/train_util.py: TrainLoop.save.
            ("guided-diffusion", "ema_0.9999_100000.pt", Some(100_000)),
            ("guided-diffusion", "model100000.pt", Some(100_000)),
            // timm 1.0.31, timm/utils/checkpoint_saver.py.
            ("timm", "checkpoint-12.pth.tar", Some(12)),
            ("timm", "milestone-12.pth.tar", Some(12)),
            ("timm", "last.pth.tar", None),
            // fairseq 0.12.2, fairseq/checkpoint_utils.py: save_checkpoint.
            ("fairseq", "checkpoint3.pt", Some(3)),
            ("fairseq", "checkpoint_last.pt", None),
            // docs.ray.io/en/latest/train/user-guides/checkpoints.html.
            ("Ray", "checkpoint_000010", Some(10)),
        ];
        for (framework, name, expect) in table {
            let expect = expect.map(|step| NamedStep { step, is_ambiguous: false });
            assert_eq!(step_of(name), expect, "{framework}: {name}");
        }
    }

    #[test]
    fn a_step_is_a_whole_number_by_its_key_or_alone() {
        check(
            &["000100.pt", "schritt–100", "weights.100.7z", "step-100-model-00003-of-00004.safetensors"],
            Some(100),
            false,
        );
        check(
            &["llama-7b-step100", "2026-11-23_step100", "STEP=100", "global_step100-3", "a_100_steps.zip"],
            Some(100),
            false,
        );
        check(
            &["epoch3-batch100.pt", "epoch=3-top5=88.ckpt", "resnet_v2_3.pt", "lr1e_3.pt", "epoch_3_loss_2"],
            Some(3),
            false,
        );
        check(&["pytorch_model-00001-of-00002-40.h5", "step=40-epoch=3.ckpt"], Some(40), false);
        check(&["best-of-3", "run-a-of-3.pt"], Some(3), false);
    }

    #[test]
    fn a_metric_a_version_a_part_or_a_word_with_digits_is_no_step() {
        check(
            &["val_loss=2.91.ckpt", "val_loss=3.ckpt", "2.91.pt", "model-v1.pt", "version_0", "llama-7b"],
            None,
            false,
        );
        check(&["model-00001-of-00004.safetensors", "model-3f2a9b1.pt", "", "model.pt"], None, false);
        check(&["99999999999999999999999", "a1b2"], None, false);
    }

    #[test]
    fn several_numbers_without_a_key_are_ambiguous_and_the_last_is_taken() {
        check(&["checkpoint_5_1000.pt", "run3_model_1000.pt", "2026-11-1000"], Some(1000), true);
        check(&["model_3_0.52_7.pt"], Some(7), true);
        // fairseq 0.12.2, fairseq/checkpoint_utils.py; timm 1.0.31, timm/utils/checkpoint_saver.py: an epoch and a batch.
        check(&["checkpoint_3_1000.pt", "recovery-3-1000.pth.tar"], Some(1000), true);
    }

    #[test]
    fn a_temporary_name_is_recognised() {
        for name in ["tmp-checkpoint-500", "500.orbax-checkpoint-tmp-17", "model.pt.tmp", "a.partial", "x.INCOMPLETE"] {
            assert!(is_temporary(name), "{name}");
        }
        for name in ["checkpoint-500", "template-5.pt", ".complete", ".metadata", ".zarray", "attempt-3"] {
            assert!(!is_temporary(name), "{name}");
        }
    }

    #[test]
    fn a_log_or_a_picture_has_a_number_and_is_no_checkpoint() {
        for name in [
            "train-500.log",
            "slurm-12345.out",
            "job.7.err",
            "core.4711",
            "events.out.tfevents.1788264000.host.12.0",
            "train_batch30.jpg",
            "sample-500.png",
        ] {
            assert!(is_record(name) && !is_text(name), "{name}");
        }
        for name in ["metrics-500.csv", "config-1.yaml", "model-500.json", "notes-1.txt"] {
            assert!(is_text(name) && !is_record(name), "{name}");
        }
        for name in ["model-500.pt", "core.4711.pt", "core-500", "step-500", "log-500"] {
            assert!(!is_record(name) && !is_text(name), "{name}");
        }
    }

    #[test]
    fn the_best_is_called_so() {
        assert!(is_best("weights/best.pt") && is_best("model_Best.pth") && is_best("checkpoint-best-500"));
        assert!(!is_best("best/last.pt") && !is_best("last.pt"));
    }
}
