//! What a manifest may say.

use super::*;

#[test]
fn nothing_is_written_through_a_link_of_a_manifest() {
    let with = |path: &str, to: &str| Manifest {
        links: vec![ManifestLink { path: path.to_owned(), to: to.to_owned() }],
        folders: vec!["step-7/empty".to_owned()],
        ..manifest("step-7/deep/a.pt", 9, 3)
    };
    assert_eq!(with("step-7/latest", "deep").check(checkpoint_at(2, 7)), Ok(()));
    assert_eq!(with("step-7/elsewhere", "/mnt/data").check(checkpoint_at(2, 7)), Ok(()));
    for path in ["step-7/deep", "step-7", "step-7/deep/a.pt", "step-7/empty", "../a", "step-7/empty/b/.."] {
        assert!(with(path, "/etc").check(checkpoint_at(2, 7)).is_err(), "{path}");
    }
    for to in ["", "a\0b"] {
        assert!(with("step-7/latest", to).check(checkpoint_at(2, 7)).is_err(), "{to}");
    }
}

#[test]
fn a_manifest_is_that_of_its_place_and_stays_in_it() {
    assert_eq!(manifest("step-7/a.pt", 9, 3).check(checkpoint_at(2, 7)), Ok(()));
    assert!(manifest("step-7/a.pt", 9, 3).check(checkpoint_at(1, 7)).is_err());
    assert!(manifest("step-7/a.pt", 9, 2).check(checkpoint_at(2, 7)).is_err());
    assert!(manifest("../a.pt", 9, 3).check(checkpoint_at(2, 7)).is_err());
    assert!(Manifest { bytes: 8, ..manifest("a", 9, 3) }.check(checkpoint_at(2, 7)).is_err());
    assert!(Manifest { bytes: 0, files: Vec::new(), ..manifest("a", 9, 3) }.check(checkpoint_at(2, 7)).is_err());
    for path in ["/etc/passwd", "a//b", "a/./b", "a/..", "", "a\nb"] {
        assert!(check_path(path).is_err(), "{path}");
    }
}

#[test]
fn a_file_of_a_manifest_has_a_place_of_its_own() {
    let with = |path: &str| {
        let mut manifest = manifest("step-7/a", 9, 3);
        manifest
            .files
            .extend(manifest.clone().files.into_iter().map(|file| ManifestFile { path: path.to_owned(), ..file }));
        Manifest { bytes: 18, ..manifest }
    };
    assert_eq!(with("step-7/b").check(checkpoint_at(2, 7)), Ok(()));
    for path in ["step-7/a", "step-7/a/b", "step-7/a/b/c", "step-7"] {
        assert!(with(path).check(checkpoint_at(2, 7)).is_err(), "{path}");
    }
    for folder in ["step-7/a", "step-7/a/b"] {
        let with = Manifest { folders: vec![folder.to_owned()], ..manifest("step-7/a", 9, 3) };
        assert!(with.check(checkpoint_at(2, 7)).is_err(), "{folder}");
    }
    let below = vec![ManifestLink { path: "step-7/a/b".to_owned(), to: "c".to_owned() }];
    assert!(Manifest { links: below, ..manifest("step-7/a", 9, 3) }.check(checkpoint_at(2, 7)).is_err());
}

#[test]
fn sizes_that_no_number_holds_do_not_add_up() {
    let mut manifest = manifest("step-7/a", 1, 1);
    let huge = ManifestFile {
        path: "step-7/b".to_owned(),
        bytes: u64::MAX,
        part_bytes: u64::MAX,
        sha256: vec![String::new()],
    };
    (manifest.bytes, manifest.files) = (0, [manifest.files, vec![huge]].concat());
    assert!(manifest.check(checkpoint_at(2, 7)).is_err_and(|wrong| wrong.to_string().contains("do not add up")));
}

#[test]
fn a_file_has_no_more_parts_than_s3_takes() {
    const TERABYTES_5: u64 = 5 * 1024 * 1024 * 1024 * 1024;
    for bytes in [0, 1, 16 * 1024 * 1024, 16 * 1024 * 1024 + 1, TERABYTES_5] {
        let part_bytes = ManifestFile::part_bytes_of(bytes);
        let parts = ManifestFile::parts(bytes, part_bytes);
        assert!(parts.len() <= 10_000, "{bytes}");
        assert_eq!(part_bytes % (1024 * 1024), 0, "{bytes}");
        assert_eq!(parts.iter().map(|(_, length)| length).sum::<u64>(), bytes);
    }
}

/// As it was written before there were links and empty directories in it: it is restored for as long as a job may live.
#[test]
fn a_manifest_of_an_earlier_version_is_read() {
    let text = r#"{
        "schema": 1, "attempt": 2, "step": 7, "at": "2026-09-01T12:00:00Z", "bytes": 9,
        "files": [{"path": "step-7/a.pt", "bytes": 9, "part_bytes": 16777216, "sha256": ["ba7816bf"]}]
    }"#;
    let read: Manifest = serde_json::from_str(text).unwrap();
    let file = ManifestFile {
        path: "step-7/a.pt".to_owned(),
        bytes: 9,
        part_bytes: 16_777_216,
        sha256: vec!["ba7816bf".to_owned()],
    };
    assert_eq!(read, Manifest { files: vec![file], ..manifest("", 9, 0) });
    assert_eq!(read.check(checkpoint_at(2, 7)), Ok(()));
}

#[test]
fn a_copy_is_of_a_file_beside_it() {
    let with = |path: &str, to: &str| {
        let copies = vec![ManifestLink { path: path.to_owned(), to: to.to_owned() }];
        Manifest { copies, ..manifest("step-7.pt", 9, 3) }.check(checkpoint_at(2, 7))
    };
    assert_eq!(with("last.pt", "step-7.pt"), Ok(()));
    for (path, to) in
        [("step-7.pt", "step-7.pt"), ("../last.pt", "step-7.pt"), ("a/last.pt", "step-7.pt"), ("last.pt", "step-8.pt")]
    {
        assert!(with(path, to).is_err(), "{path} {to}");
    }
}
