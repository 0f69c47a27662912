use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use tar::{Builder, EntryType, Header};
use tempfile::TempDir;

use crate::unpack::unpack_checked;
use crate::{InTheWay, LeftOut, LeftOutReason, PackError, StrayLink, UnpackError, pack, unpack};

/// A directory of its own, deleted at the end.
struct Scratch(TempDir);

impl Scratch {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, path: &str, content: &str) -> &Self {
        let full = self.path().join(path);
        fs::create_dir_all(full.parent().unwrap()).unwrap();
        fs::write(full, content).unwrap();
        self
    }

    /// All paths below: `/` after a directory, the target of a link, the content of a file and `*` if it is executable.
    fn listing(&self) -> String {
        fn list(directory: &Path, root: &Path, lines: &mut BTreeMap<String, String>) {
            for entry in fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                let name = path.strip_prefix(root).unwrap().display().to_string();
                let metadata = fs::symlink_metadata(&path).unwrap();
                let what = if metadata.is_symlink() {
                    format!(" -> {}", fs::read_link(&path).unwrap().display())
                } else if metadata.is_dir() {
                    list(&path, root, lines);
                    "/".to_owned()
                } else {
                    let star = if metadata.permissions().mode() & 0o111 != 0 { "*" } else { "" };
                    format!("{star} {}", fs::read_to_string(&path).unwrap())
                };
                lines.insert(name, what);
            }
        }
        let mut lines = BTreeMap::new();
        list(self.path(), self.path(), &mut lines);
        lines.iter().map(|(name, what)| format!("{name}{what}")).collect::<Vec<_>>().join("\n")
    }
}

fn repository() -> Scratch {
    let from = Scratch::new();
    from.write("train.py", "print(1)")
        .write("run.sh", "python train.py")
        .write(".env", "A=1")
        .write("src/model.py", "x");
    from.write(".git/HEAD", "main").write(".gitignore", "*.ckpt\ndata/\n").write("src/.gitignore", "!kept.ckpt\n");
    from.write("old.ckpt", "1").write("src/kept.ckpt", "2").write("data/big", "3").write(".ignore", "train.py\n");
    from.write(".curfewignore", "notebooks/\n").write("notebooks/a.ipynb", "4");
    fs::set_permissions(from.path().join("run.sh"), Permissions::from_mode(0o700)).unwrap();
    fs::create_dir(from.path().join("empty")).unwrap();
    symlink("src/model.py", from.path().join("model.py")).unwrap();
    symlink("/nowhere", from.path().join("dangling")).unwrap();
    from
}

#[test]
fn a_directory_is_unpacked_as_it_was_without_what_git_ignores() {
    let (from, into) = (repository(), Scratch::new());
    let packed = pack(from.path()).unwrap();
    let unpacked = unpack(&packed.archive, &packed.digest, into.path(), InTheWay::MoveAside).unwrap();
    assert_eq!((unpacked.entries, unpacked.bytes), (packed.entries, packed.bytes));
    let expected = [
        ".curfewignore notebooks/\n",
        ".env A=1",
        ".gitignore *.ckpt\ndata/\n",
        ".ignore train.py\n",
        "dangling -> /nowhere",
        "empty/",
        "model.py -> src/model.py",
        "run.sh* python train.py",
        "src/",
        "src/.gitignore !kept.ckpt\n",
        "src/kept.ckpt 2",
        "src/model.py x",
        "train.py print(1)",
    ];
    assert_eq!(into.listing(), expected.join("\n"));
    // A machine that restarted has it already.
    into.write("train.py", "print(2)");
    unpack(&packed.archive, &packed.digest, into.path(), InTheWay::MoveAside).unwrap();
    assert_eq!(into.listing(), expected.join("\n"));
}

#[test]
fn rules_above_the_repository_or_the_directory_do_not_count() {
    let around = Scratch::new();
    around
        .write(".gitignore", "*")
        .write("project/.git/HEAD", "")
        .write("project/src/train.py", "")
        .write("plain/a.py", "");
    around.write("project/.gitignore", "*.log").write("project/src/a.log", "");
    let entries = |path: &str| pack(&around.path().join(path)).unwrap().entries;
    // `.gitignore`, `src` and `train.py`; below the root its rules count.
    assert_eq!((entries("project"), entries("project/src"), entries("plain")), (3, 1, 1));
}

#[test]
fn equal_directories_are_one_archive() {
    let (one, other) = (repository(), repository());
    File::open(one.path().join("train.py")).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    fs::set_permissions(one.path().join("train.py"), Permissions::from_mode(0o600)).unwrap();
    assert_eq!(pack(one.path()).unwrap(), pack(other.path()).unwrap());
    let before = pack(one.path()).unwrap().digest;
    fs::set_permissions(one.path().join("train.py"), Permissions::from_mode(0o755)).unwrap();
    assert_ne!(pack(one.path()).unwrap().digest, before);
}

#[test]
fn a_socket_is_left_out() {
    let from = Scratch::new();
    let _socket = UnixListener::bind(from.path().join("socket")).unwrap();
    assert!(matches!(pack(from.path()), Err(PackError::Empty(_))));
    let packed = pack(from.write("a", "").path()).unwrap();
    let socket = LeftOut { path: PathBuf::from("socket"), reason: LeftOutReason::NoFile };
    assert_eq!((packed.entries, packed.left_out), (1, vec![socket]));
}

/// A link `at` in a directory with `src/a.py` and the ignored `data/x`.
fn check_link(at: &str, target: &str, expect: bool) {
    let from = Scratch::new();
    from.write("src/a.py", "").write("data/x", "").write(".curfewignore", "data");
    symlink(target, from.path().join(at)).unwrap();
    let packed = pack(from.path()).unwrap();
    let link = StrayLink { path: PathBuf::from(at), target: PathBuf::from(target) };
    assert_eq!(packed.stray_links, if expect { vec![link] } else { Vec::new() }, "{at} -> {target}");
}

#[test]
fn a_link_to_what_is_not_packed_is_named() {
    check_link("link", "/mnt/nfs/imagenet", true);
    check_link("link", "../other", true);
    check_link("src/link", "../../other", true);
    check_link("src/link", "../data/x", true);
    check_link("link", "data", true);
    for inside in ["src", "./src/a.py", "src/../src", ".", "made/later"] {
        check_link("link", inside, false);
    }
    check_link("src/link", "..", false);
}

#[test]
fn what_vanishes_while_it_is_packed_is_left_out() {
    let from = Scratch::new();
    from.write("train.py", "1");
    for number in 0..500 {
        from.write(&format!("logs/{number}/log"), "");
    }
    // Whatever the moment is in which it goes: nothing is refused, and what is packed or left out was there.
    std::thread::scope(|scope| {
        scope.spawn(|| fs::remove_dir_all(from.path().join("logs")).unwrap());
        for _ in 0..20 {
            let packed = pack(from.path()).unwrap();
            assert!(packed.left_out.iter().all(|one| one.reason == LeftOutReason::Vanished), "{packed:?}");
        }
    });
    assert_eq!(pack(from.path()).unwrap().entries, 1);
}

#[test]
fn an_error_names_what_is_too_large() {
    let from = Scratch::new();
    from.write("data/raw/a.bin", "").write("train.py", "print(1)");
    File::options().write(true).open(from.path().join("data/raw/a.bin")).unwrap().set_len(600 << 20).unwrap();
    let error = pack(from.path()).unwrap_err().to_string();
    let expected = "has 601 MiB of files, and 512 are allowed; leave data out by a .curfewignore (the format of .gitignore), and read it \
                    from a bucket instead. The largest: data (600 MiB), train.py (1 MiB)";
    assert!(error.ends_with(expected), "{error}");
    assert!(pack(from.write(".curfewignore", "data").path()).is_ok());
    assert!(
        pack(&from.path().join("train.py"))
            .unwrap_err()
            .to_string()
            .ends_with("train.py is not a directory; name one that exists")
    );
    assert!(pack(&from.path().join("gone")).is_err());
}

fn header(kind: EntryType, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(0o6755);
    header.set_size(size);
    header
}

/// An archive with a path that the tar crate would refuse to write.
fn with_path(builder: &mut Builder<Vec<u8>>, path: &str) {
    let mut header = header(EntryType::Regular, 1);
    header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
    header.set_cksum();
    builder.append(&header, b"x".as_slice()).unwrap();
}

fn compressed(builder: Builder<Vec<u8>>) -> Vec<u8> {
    compress_to_vec(builder.into_inner().unwrap().as_slice(), CompressionLevel::Fastest)
}

/// Unpacks a forged archive, and checks that nothing is written beside the directory.
fn check_forged(forge: impl Fn(&mut Builder<Vec<u8>>), expect: &str) {
    let around = Scratch::new();
    let into = around.path().join("home");
    fs::create_dir(&into).unwrap();
    let mut builder = Builder::new(Vec::new());
    forge(&mut builder);
    let error = unpack_checked(&compressed(builder), &into, InTheWay::MoveAside).unwrap_err().to_string();
    assert!(error.contains(expect), "{error}");
    assert_eq!(fs::read_dir(around.path()).unwrap().count(), 1, "{expect}");
}

#[test]
fn a_forged_archive_writes_nothing_outside() {
    check_forged(|builder| with_path(builder, "../escaped"), "../escaped leads out of the directory");
    check_forged(
        |builder| {
            builder.append_link(&mut header(EntryType::Symlink, 0), "link", "..").unwrap();
            builder.append_data(&mut header(EntryType::Regular, 1), "link/escaped", b"x".as_slice()).unwrap();
        },
        "link/escaped",
    );
    check_forged(
        |builder| builder.append_link(&mut header(EntryType::Link, 0), "hard", "/etc/passwd").unwrap(),
        "hard (Link), which is not a file, directory or link",
    );
    for kind in [EntryType::Fifo, EntryType::Block, EntryType::GNUSparse] {
        check_forged(
            |builder| {
                let mut header = header(kind, 0);
                header.as_gnu_mut().unwrap().set_real_size(1 << 40);
                builder.append_data(&mut header, "odd", io::empty()).unwrap();
            },
            "",
        );
    }
    check_forged(
        |builder| {
            let mut header = header(EntryType::Regular, 1 << 40);
            header.set_path("bomb").unwrap();
            header.set_cksum();
            builder.append(&header, io::empty()).unwrap();
        },
        "or more than 512 MiB",
    );
}

#[test]
fn an_absolute_path_is_taken_from_the_directory_on_and_no_file_is_setuid() {
    let into = Scratch::new();
    let mut builder = Builder::new(Vec::new());
    with_path(&mut builder, "/absolute/file");
    unpack_checked(&compressed(builder), into.path(), InTheWay::MoveAside).unwrap();
    assert_eq!(into.listing(), "absolute/\nabsolute/file* x");
    let metadata = fs::metadata(into.path().join("absolute/file")).unwrap();
    assert_eq!(metadata.permissions().mode() & 0o7000, 0);
}

/// What is in the way of `data -> /mnt/data`, `code/a.py` and `run`, and what is there afterwards; `~` is `.curfew-before-unpacking-`.
fn check_in_the_way(before: impl Fn(&Scratch), in_the_way: InTheWay, expect: &[&str]) {
    let (from, into) = (Scratch::new(), Scratch::new());
    from.write("code/a.py", "new").write("run", "new");
    symlink("/mnt/data", from.path().join("data")).unwrap();
    let packed = pack(from.path()).unwrap();
    before(&into);
    unpack(&packed.archive, &packed.digest, into.path(), in_the_way).unwrap();
    assert_eq!(into.listing().replace(".curfew-before-unpacking-", "~"), expect.join("\n"));
}

#[test]
fn what_came_with_the_machine_is_moved_aside() {
    let whole = ["code/", "code/a.py new", "data -> /mnt/data", "run new"];
    check_in_the_way(|_| {}, InTheWay::MoveAside, &whole);
    let empty = |into: &Scratch| fs::create_dir(into.path().join("data")).unwrap();
    check_in_the_way(empty, InTheWay::MoveAside, &whole);
    let full = |into: &Scratch| {
        into.write("data/x", "1").write("run/x", "2").write("code", "3");
    };
    let aside = ["~1 3", "~2/", "~2/x 1", "~3/", "~3/x 2"];
    check_in_the_way(full, InTheWay::MoveAside, &[&aside[..], &whole[..]].concat());
    let link = |into: &Scratch| symlink("elsewhere", into.path().join("code")).unwrap();
    check_in_the_way(link, InTheWay::MoveAside, &[&["~1 -> elsewhere"], &whole[..]].concat());
}

#[test]
fn what_the_job_made_of_an_entry_stays() {
    let made = |into: &Scratch| {
        into.write("data/x", "1").write("run", "old");
        symlink("elsewhere", into.path().join("code")).unwrap();
    };
    check_in_the_way(made, InTheWay::Keep, &["code -> elsewhere", "data/", "data/x 1", "run new"]);
}

#[test]
fn an_error_of_the_disk_has_its_cause() {
    let (from, into) = (Scratch::new(), Scratch::new());
    let packed = pack(from.write("a", "").path()).unwrap();
    let gone = into.path().join("gone");
    let error = unpack(&packed.archive, &packed.digest, &gone, InTheWay::MoveAside).unwrap_err().to_string();
    assert!(error.contains("`: No such file or directory (os error 2)"), "{error}");
}

#[test]
fn odd_names_come_out_as_they_were() {
    let (from, into) = (Scratch::new(), Scratch::new());
    let long = "x".repeat(255);
    let names = ["-rf", "a b", "line\nbreak", "q'\"$`*?", "back\\slash", "größe 東京", " ", "...", "~", long.as_str()];
    for (number, name) in names.into_iter().enumerate() {
        from.write(name, name).write(&format!("{number}.d/{name}"), name);
        symlink(name, from.path().join(format!("{number} links"))).unwrap();
    }
    let latin1 = std::ffi::OsStr::from_bytes(b"caf\xe9");
    fs::write(from.path().join(latin1), "").unwrap();
    let packed = pack(from.path()).unwrap();
    unpack(&packed.archive, &packed.digest, into.path(), InTheWay::MoveAside).unwrap();
    assert_eq!(into.listing(), from.listing());
    assert!(into.path().join(latin1).exists());
}

#[test]
fn only_the_archive_that_was_submitted_is_unpacked() {
    let (from, into) = (repository(), Scratch::new());
    let packed = pack(from.path()).unwrap();
    let mut other = packed.archive.clone();
    let middle = other.len() / 2;
    other[middle] ^= 1;
    let error = unpack(&other, &packed.digest, into.path(), InTheWay::MoveAside).unwrap_err();
    assert!(matches!(error, UnpackError::OtherContent(_)), "{error}");
    assert_eq!(into.listing(), "");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// What is damaged ends in an error, not in a panic.
    #[test]
    fn no_bytes_panic(at: prop::sample::Index, flip in 1..=255_u8, cut: prop::sample::Index) {
        let from = Scratch::new();
        from.write("a.py", "print(1)").write("b/c.py", "print(2)");
        let mut archive = pack(from.path()).unwrap().archive;
        let (at, cut) = (at.index(archive.len()), cut.index(archive.len()));
        archive[at] ^= flip;
        let into = Scratch::new();
        let _ = unpack_checked(&archive, into.path(), InTheWay::MoveAside);
        let _ = unpack_checked(&archive[..cut], into.path(), InTheWay::Keep);
    }
}
