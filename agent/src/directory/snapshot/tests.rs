use jobs::checkpoints::{DirectoryWatch, WriterState};

use super::super::scan_directory;
use super::super::tests::Scratch;
use super::*;

/// The steps in the directory while no process writes.
fn steps(scratch: &Scratch) -> Vec<CheckpointStep> {
    let (now, mut watch) = (crate::world::now(), DirectoryWatch::default());
    watch.observe(scan_directory(&scratch.directory()).unwrap().entries, now);
    watch.steps(WriterState::Ended, now)
}

fn snapshot(scratch: &Scratch) -> StepSnapshot {
    let step = steps(scratch).into_iter().find(|step| step.number.named() == Some(1)).unwrap();
    StepSnapshot::capture(&scratch.directory(), &step, &[], &[]).unwrap()
}

#[test]
fn a_snapshot_has_links_and_empty_directories() {
    let scratch = Scratch::new().file("step-1/deep/a.bin").file("step-2.pt");
    fs::create_dir(scratch.path().join("step-1/empty")).unwrap();
    for (name, to) in [("to-directory", "deep"), ("to-file", "deep/a.bin"), ("to-nothing", "/nowhere/at-all")] {
        std::os::unix::fs::symlink(to, scratch.path().join("step-1").join(name)).unwrap();
    }
    let CheckpointContent { files, links, folders, .. } = snapshot(&scratch).content;
    let mut paths: Vec<String> = files.into_iter().map(|file| file.path).collect();
    paths.sort_unstable();
    assert_eq!(paths, ["step-1/deep/a.bin", "step-1/to-file"]);
    let mut links: Vec<_> = links.into_iter().map(|link| (link.path, link.to)).collect();
    links.sort_unstable();
    let link = |path: &str, to: &str| (path.to_owned(), to.to_owned());
    assert_eq!(links, [link("step-1/to-directory", "deep"), link("step-1/to-nothing", "/nowhere/at-all")]);
    assert_eq!(folders, ["step-1/empty"]);
}

#[test]
fn a_file_that_is_gone_is_noticed() {
    let scratch = Scratch::new().file("step-1/a.bin").file("step-1/b.bin");
    let step = steps(&scratch).remove(0);
    assert!(snapshot(&scratch).is_all_of(&step));
    fs::remove_file(scratch.path().join("step-1/b.bin")).unwrap();
    assert!(!snapshot(&scratch).is_all_of(&step));
    fs::write(scratch.path().join("step-1/a.bin"), "1234567890").unwrap();
    assert!(!snapshot(&scratch).is_all_of(&step));
    let scratch = scratch.file("step-1/a.bin").file("step-1/c.bin");
    assert!(snapshot(&scratch).is_all_of(&step));
}

#[test]
fn a_new_or_changed_file_is_noticed_and_a_deleted_one_was_read() {
    let scratch = Scratch::new().file("step-1/a.bin").file("step-1/b.bin");
    let taken = snapshot(&scratch);
    fs::remove_file(scratch.path().join("step-1/b.bin")).unwrap();
    assert_eq!(taken.changed(), None);
    let scratch = scratch.file("step-1/c.bin");
    assert_eq!(taken.changed(), Some(scratch.path().join("step-1/c.bin")));
    let scratch = scratch.file("step-1/b.bin");
    let taken = snapshot(&scratch);
    fs::write(scratch.path().join("step-1/a.bin"), "123456").unwrap();
    assert_eq!(taken.changed(), Some(scratch.path().join("step-1/a.bin")));
}

/// The manifest that its upload would have.
fn manifest(taken: &StepSnapshot) -> Manifest {
    let described = |file: &LocalFile| {
        let bytes = fs::read(&file.from).unwrap();
        let size = u64::try_from(bytes.len()).unwrap();
        ManifestFile {
            path: file.path.clone(),
            bytes: size,
            part_bytes: 4,
            sha256: bytes.chunks(4).map(ManifestFile::digest).collect(),
        }
    };
    let CheckpointContent { files, links, folders, .. } = &taken.content;
    let files: Vec<ManifestFile> = files.iter().map(described).collect();
    let (bytes, links, folders) = (files.iter().map(|file| file.bytes).sum(), links.clone(), folders.clone());
    Manifest {
        schema: 1,
        attempt: 1,
        step: 1,
        rewrite: 0,
        at: crate::world::now(),
        bytes,
        files,
        links,
        folders,
        ..Manifest::default()
    }
}

fn check_still(name: &str, change: impl Fn(&Path), expect: bool) {
    let scratch = Scratch::new().file("step-1/a.bin").file("step-1/b.bin");
    fs::create_dir(scratch.path().join("step-1/empty")).unwrap();
    std::os::unix::fs::symlink("empty", scratch.path().join("step-1/link")).unwrap();
    let before = manifest(&snapshot(&scratch));
    change(&scratch.path().join("step-1"));
    let still = snapshot(&scratch).is_still(&before, &AtomicBool::new(false));
    assert_eq!(still.unwrap(), expect, "{name}");
}

#[test]
fn a_touched_file_is_the_same_and_any_other_change_is_noticed() {
    check_still("same", |_| {}, true);
    check_still("touched", |step| fs::write(step.join("a.bin"), "12345").unwrap(), true);
    check_still("first-part", |step| fs::write(step.join("a.bin"), "12945").unwrap(), false);
    check_still("last-part", |step| fs::write(step.join("b.bin"), "12349").unwrap(), false);
    check_still("longer", |step| fs::write(step.join("a.bin"), "123456").unwrap(), false);
    check_still("more", |step| fs::write(step.join("c.bin"), "").unwrap(), false);
    check_still("less", |step| fs::remove_file(step.join("a.bin")).unwrap(), false);
    check_still("renamed", |step| fs::rename(step.join("a.bin"), step.join("c.bin")).unwrap(), false);
    check_still("folders", |step| fs::create_dir(step.join("another")).unwrap(), false);
    check_still("links", |step| fs::remove_file(step.join("link")).unwrap(), false);
}

#[test]
fn an_abandoned_comparison_stops() {
    let scratch = Scratch::new().file("step-1/a.bin");
    let taken = snapshot(&scratch);
    assert!(taken.is_still(&manifest(&taken), &AtomicBool::new(true)).is_err());
}

#[test]
fn a_file_without_a_number_is_copied() {
    let scratch =
        Scratch::new().file("last.pt").file("best.pt").file("args.yaml").file("train/w/a.pt").file("train/a.csv");
    let step = steps(&scratch).remove(0);
    assert_eq!(step.number, StepNumber::Snapshot);
    let mut taken = StepSnapshot::capture(&scratch.directory(), &step, &[], &[]).unwrap();
    assert!(taken.is_all_of(&step));
    taken.freeze().unwrap();
    for name in ["last.pt", "args.yaml", "train/a.csv"] {
        fs::write(scratch.path().join(name), "anew").unwrap();
    }
    assert_eq!(taken.changed(), None);
    let mut paths: Vec<&str> = taken.content.files.iter().map(|file| file.path.as_str()).collect();
    paths.sort_unstable();
    assert_eq!(paths, ["args.yaml", "best.pt", "last.pt", "train/a.csv", "train/w/a.pt"]);
    assert!(taken.content.files.iter().all(|file| fs::read(&file.from).unwrap() == b"12345"));
    assert_eq!((taken.content.snapshot, &taken.content.companions), (true, &vec!["args.yaml".to_owned()]));
    assert!(!taken.content.resume.clone().unwrap().contains("best"), "{:?}", taken.content.resume);
    taken.thaw();
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 4, "nothing is left");
}

#[test]
fn a_pointer_and_a_link_belong_to_their_step() {
    let scratch = Scratch::new().file("step-1/a.bin").file("step-2/a.bin").file("config.json");
    fs::write(scratch.path().join("latest"), "step-1").unwrap();
    fs::write(scratch.path().join("newest"), "step-2").unwrap();
    std::os::unix::fs::symlink("step-1", scratch.path().join("link-1")).unwrap();
    std::os::unix::fs::symlink(scratch.path().join("step-2/a.bin"), scratch.path().join("link-2")).unwrap();
    let capture = |number: u64| {
        let (step, other) = (format!("step-{number}"), format!("step-{}", 3 - number));
        let of = steps(&scratch).into_iter().find(|step| step.number.named() == Some(number)).unwrap();
        assert_eq!(of.entries, [step]);
        let links = ["link-1".to_owned(), "link-2".to_owned()];
        StepSnapshot::capture(&scratch.directory(), &of, &[other], &links).unwrap().content
    };
    let CheckpointContent { companions, links, .. } = capture(1);
    assert_eq!(companions, ["config.json", "latest", "link-1"]);
    assert_eq!(links, [ManifestLink { path: "link-1".to_owned(), to: "step-1".to_owned() }]);
    assert_eq!(capture(2).companions, ["config.json", "newest", "link-2"]);
}
