use tempfile::TempDir;

use super::*;

/// A directory for one test, deleted with it.
pub(super) struct Scratch(TempDir);

impl Scratch {
    pub(super) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(super) fn file(self, path: &str) -> Self {
        self.with(path, "12345")
    }

    fn with(self, path: &str, content: impl AsRef<[u8]>) -> Self {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        self
    }

    pub(super) fn directory(&self) -> CheckpointDirectory {
        CheckpointDirectory { path: self.path().to_owned(), ..CheckpointDirectory::default() }
    }

    fn look(&self) -> Vec<Seen> {
        let seen = scan_directory(&self.directory()).unwrap().entries.into_iter();
        let mut seen: Vec<_> =
            seen.map(|entry| (entry.name, entry.bytes, entry.marked_at.is_some(), entry.unfit)).collect();
        seen.sort_unstable();
        seen
    }
}

/// Name, bytes, whether it is marked, and why it is no checkpoint.
type Seen = (String, u64, bool, Option<String>);

fn seen(name: &str, bytes: u64, marked: bool, unfit: Option<&str>) -> Seen {
    (name.to_owned(), bytes, marked, unfit.map(str::to_owned))
}

#[test]
fn the_files_of_each_framework_are_recognised() {
    let trainer = "checkpoint-500/trainer_state.json";
    let scratch = Scratch::new().with(trainer, "{\n }\n").file("checkpoint-500/model/a.bin");
    let scratch = scratch.file("step_7/.metadata").file("step_7/__0_0.distcp").file("epoch=1-step=20.ckpt");
    let scratch =
        scratch.file("model-30.pt").file("model-30.pt.complete").file("tmp-checkpoint-600/a").file("last.ckpt");
    let expect = [
        seen("checkpoint-500", 10, true, None),
        seen("epoch=1-step=20.ckpt", 5, false, None),
        seen("last.ckpt", 5, false, None),
        seen("model-30.pt", 5, true, None),
        seen("step_7", 10, true, None),
        seen("tmp-checkpoint-600", 5, false, Some("its name says that it is still being written")),
    ];
    assert_eq!(scratch.look(), expect);
}

#[test]
fn an_incomplete_marker_marks_nothing() {
    let scratch = Scratch::new().with("step-1/trainer_state.json", "{\"a\":").with("step-2/.metadata", "");
    let long = format!("{{\"a\": \"{}\"}}", "x".repeat(2000));
    let scratch = scratch.with("step-3/_SUCCESS", "").with("step-4/trainer_state.json", &long).file("ckpt-5.index");
    let marked: Vec<bool> = scratch.look().into_iter().map(|(.., marked, _)| marked).collect();
    assert_eq!(marked, [false, false, false, true, true]);
}

#[test]
fn markers_of_frameworks_and_of_curfew_are_read() {
    let index = b"\0\0\x57\xfb\x80\x8b\x24\x75\x47\xdb";
    let scratch = Scratch::new().with("ckpt-5.index", index).file("ckpt-5.data-00000-of-00001");
    let scratch =
        scratch.file("last.pt").with("last.pt.complete", "step=40\n").with("5/commit_success.txt", "Checkpoint");
    let marked: Vec<bool> = scratch.look().into_iter().map(|(_, _, marked, _)| marked).collect();
    assert_eq!(marked, [true, true, true, true]);
    let entries = scan_directory(&scratch.directory()).unwrap().entries;
    let step = |name: &str| entries.iter().find(|entry| entry.name == name).and_then(DirectoryEntry::step);
    assert_eq!(step("last.pt").map(|named| named.step), Some(40));
}

#[test]
fn what_has_no_number_is_looked_at_after_every_step() {
    let scratch = Scratch::new().file("a-state/state.bin").file("step-1/a").file("z.pt").file("step-2/a");
    let entries = scan_directory(&scratch.directory()).unwrap().entries;
    let has_number: Vec<bool> = entries.iter().map(|entry| entry.step().is_some()).collect();
    assert_eq!(has_number, [true, true, false, false]);
}

#[test]
fn a_log_and_excluded_entries_are_no_checkpoint() {
    let scratch = Scratch::new().file("train-900.log").file("model-5.pt").file("config-5.json");
    let scratch =
        scratch.file("train/last.pt").file("train/events.out.tfevents.1.a").file("train/a.csv").file("wandb/run");
    let mut directory = scratch.directory();
    directory.exclude = vec!["wandb".to_owned()];
    directory.include = vec!["config-5.json".to_owned()];
    let DirectoryScan { mut entries, left_out, .. } = scan_directory(&directory).unwrap();
    entries.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    let seen: Vec<_> = entries.iter().map(|entry| (entry.name.as_str(), entry.files, entry.is_included)).collect();
    assert_eq!(seen, [("config-5.json", 1, true), ("model-5.pt", 1, false), ("train", 1, false)]);
    assert_eq!(left_out.as_deref(), Some("train-900.log"));
}

#[test]
fn a_directory_with_a_temporary_entry_is_temporary() {
    let scratch = Scratch::new().file("step-1/a.bin").file("step-1/b.bin.tmp").file("step-2/.zarray");
    let unfit = "the name of `step-1/b.bin.tmp` says that it is still being written";
    assert_eq!(scratch.look(), [seen("step-1", 10, false, Some(unfit)), seen("step-2", 5, false, None)]);
}

#[test]
fn a_link_is_no_checkpoint_and_is_not_followed() {
    let scratch = Scratch::new().file("step-1/a.bin");
    std::os::unix::fs::symlink("step-1", scratch.path().join("latest-1")).unwrap();
    std::os::unix::fs::symlink("/etc", scratch.path().join("etc-1")).unwrap();
    std::os::unix::fs::symlink("/", scratch.path().join("step-1/root")).unwrap();
    std::os::unix::fs::symlink("..", scratch.path().join("step-1/circle")).unwrap();
    assert_eq!(scratch.look(), [seen("step-1", 5, false, None)]);
    let DirectoryScan { links, left_out, .. } = scan_directory(&scratch.directory()).unwrap();
    assert_eq!((links, left_out.as_deref()), (vec!["latest-1".to_owned()], Some("etc-1")));
}

#[test]
fn a_failed_restore_of_a_held_step_stops_no_other() {
    let scratch = Scratch::new().file("step-1/a.bin").file("step-2/a\nb");
    fs::create_dir_all(scratch.path().join("step-3").join("deep/".repeat(40))).unwrap();
    let seen = scratch.look();
    assert_eq!(seen[0], super::tests::seen("step-1", 5, false, None));
    let why = |index: usize| seen[index].3.as_deref().unwrap_or_default();
    assert!(why(1).contains(r"the path `step-2/a\nb` has to stay"), "{}", why(1));
    assert!(why(2).contains("too many levels"), "{}", why(2));
}
