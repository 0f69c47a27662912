//! The kind of an entry of the checkpoint directory, by its name: part of a checkpoint, text, a record, or the best.

/// Extensions of what a training shows to people: a log, or a picture. ultralytics 8.4 draws `train_batch30.jpg` after `last.pt`, in
/// `ultralytics/engine/trainer.py`, `plot_training_samples`.
const SHOWN_EXTENSIONS: [&str; 10] = ["log", "out", "err", "jpg", "jpeg", "png", "gif", "svg", "pdf", "mp4"];

/// True if a file of that name is part of no checkpoint, whatever number it has: a log, a picture, a core dump, an event file.
#[must_use]
pub fn is_record(name: &str) -> bool {
    let is_dump = name.strip_prefix("core.").is_some_and(|id| id.bytes().all(|byte| byte.is_ascii_digit()));
    is_dump || name.starts_with("events.out.tfevents.") || has_extension(name, &SHOWN_EXTENSIONS)
}

/// True if a file of that name is text: it may be part of a checkpoint, and is one only where nothing else is there.
#[must_use]
pub fn is_text(name: &str) -> bool {
    has_extension(name, &["txt", "csv", "yaml", "yml", "json", "toml"])
}

/// True if a text of that name may be a model, as of `LightGBM` (`model.txt`) and of `XGBoost` (`model.json`).
pub(super) fn may_be_model(name: &str) -> bool {
    has_extension(name, &["txt", "json"])
}

fn has_extension(name: &str, extensions: &[&str]) -> bool {
    name.rsplit_once('.').is_some_and(|(_, extension)| extensions.contains(&extension))
}

/// True if a name says that it is the best so far, which is not the newest.
pub(super) fn is_best(path: &str) -> bool {
    path.rsplit('/').next().is_some_and(|name| name.to_ascii_lowercase().contains("best"))
}

/// The extension of a name: letters and digits, at least one of them a letter. `llama-3.1-8b` has none.
pub(super) fn extension_of(name: &str) -> Option<&str> {
    let is_extension = |text: &&str| {
        text.chars().all(char::is_alphanumeric) && text.contains(|character: char| character.is_ascii_alphabetic())
    };
    name.rsplit_once('.').map(|(_, extension)| extension).filter(is_extension)
}

/// Directories in which tools for experiments and caches write all the time. No checkpoint has its state there.
const TOOL_FOLDERS: [&str; 7] = ["wandb", "mlruns", "aim", "clearml", "profiler", "cache", "__pycache__"];

/// True if a directory of that name is one of them.
pub(super) fn is_tool_folder(name: &str) -> bool {
    TOOL_FOLDERS.contains(&name.to_ascii_lowercase().as_str())
}

/// True if a name says that it is a copy of one of the checkpoints beside it.
pub(super) fn is_named_copy(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let mut words = name.split(|character: char| !character.is_alphabetic());
    words.any(|word| matches!(word, "last" | "latest" | "newest" | "current" | "best" | "final"))
}

#[cfg(test)]
mod tests {
    use super::*;

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
