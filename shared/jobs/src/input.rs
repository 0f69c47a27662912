//! The data of a job: objects of other buckets, as files on its machine.
//!
//! Whoever writes to such a bucket chooses the keys of its objects. [`plan_files`] decides which paths they become: each lies below the
//! input's directory, and no two need the same place. An agent of root depends on that.

use std::collections::BTreeSet;

use model::fault::InvalidValue;
use model::input_source::InputSource;

/// A job names its data sets; more of them belong under one prefix.
pub const INPUTS_MAX: usize = 16;

/// The most objects of one input: 500 pages of a listing, a few minutes. Each is a request, and more small files are faster in an archive.
pub const INPUT_OBJECTS_MAX: usize = 500_000;

/// The most bytes of one input: no volume is larger (EBS user guide, "General Purpose SSD volumes").
pub const INPUT_BYTES_MAX: u64 = 64 << 40;

/// Linux manual, `path_resolution(7)`: `NAME_MAX`.
const NAME_BYTES_MAX: usize = 255;

/// Beginning of the names of the agent's own files in an input's directory.
pub const OWN_NAMES: &str = ".curfew-";

/// The way in which objects become files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputMode {
    /// Objects are copied onto the machine's disk before the command.
    Fetch,
    /// While the command reads them, by Mountpoint for Amazon S3.
    Mount,
}

impl InputMode {
    /// Reads a mode as a document writes it.
    ///
    /// # Errors
    /// If it is anything else.
    pub fn read(text: &str) -> Result<Self, InvalidValue> {
        match text {
            "fetch" => Ok(Self::Fetch),
            "mount" => Ok(Self::Mount),
            _ => Err(InvalidValue::new(format!("{text:?} is none of `fetch`, `mount`"))),
        }
    }
}

/// One of `[[inputs]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputSpec {
    pub from: InputSource,
    /// The directory on the machine.
    pub to: String,
    pub mode: InputMode,
}

/// Returns `true` if two paths of a machine are the same, or one lies in the other.
pub(crate) fn overlaps(one: &str, other: &str) -> bool {
    let names = |path| str::split(path, '/').filter(|name| !name.is_empty() && *name != ".");
    names(one).zip(names(other)).all(|(one, other)| one == other)
}

/// An object as a listing names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputObject {
    pub key: String,
    pub bytes: u64,
    /// The identity of its content.
    pub etag: String,
}

/// An object and the file that it becomes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputFile {
    pub key: String,
    /// Below the input's directory.
    pub path: String,
    pub bytes: u64,
    pub etag: String,
}

/// True if an object only marks a folder: it is empty or of unknown size, and its key ends with `/`, as the console of S3 writes it (Amazon S3 user
/// guide, "Organizing objects in the Amazon S3 console by using folders"), or with `_$folder$`, as Hadoop does (AWS re:Post knowledge center, "Why
/// does Amazon EMR create empty files with the _$folder$ suffix").
pub(crate) fn is_folder_marker(key: &str, bytes: Option<u64>) -> bool {
    bytes.unwrap_or(0) == 0 && (key.ends_with('/') || key.ends_with("_$folder$"))
}

/// The files of a folder's objects, without the markers of folders.
///
/// # Errors
/// An object that can be no file, or that needs the place of another one.
pub fn plan_files(folder: &str, objects: Vec<InputObject>) -> Result<Vec<InputFile>, InvalidValue> {
    let mut files = Vec::with_capacity(objects.len());
    for InputObject { key, bytes, etag } in objects {
        let path = key.strip_prefix(folder).unwrap_or(&key);
        if is_folder_marker(&key, Some(bytes)) || (path.is_empty() && bytes == 0) {
            continue;
        }
        if let Some(why) = find_illegal_name(path) {
            return Err(InvalidValue::new(format!("the object {key:?} cannot be a file: {why}")));
        }
        let path = path.to_owned();
        files.push(InputFile { key, path, bytes, etag });
    }
    let paths: BTreeSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
    for file in &files {
        let mut above = file.path.match_indices('/').map(|(at, _)| &file.path[..at]);
        if let Some(parent) = above.find(|parent| paths.contains(parent)) {
            return Err(InvalidValue::new(format!(
                "{:?} is an object, and a folder of the object {:?} as well",
                format!("{folder}{parent}"),
                file.key
            )));
        }
    }
    Ok(files)
}

/// The file of an input that is one object: its name is the last part of the key.
///
/// # Errors
/// As [`plan_files`].
pub fn plan_file(object: InputObject) -> Result<InputFile, InvalidValue> {
    let folder = object.key.rfind('/').map_or(0, |slash| slash + 1);
    let folder = object.key[..folder].to_owned();
    let files = plan_files(&folder, vec![object])?;
    files.into_iter().next().ok_or_else(|| InvalidValue::new("it is a folder"))
}

fn find_illegal_name(path: &str) -> Option<String> {
    if path.starts_with(OWN_NAMES) {
        return Some(format!("names that begin with `{OWN_NAMES}` are Curfew's own"));
    }
    let why = |name: &str| match name {
        "" => Some("a name in its path is empty".to_owned()),
        "." | ".." => Some(format!("`{name}` is not a name")),
        name if name.contains('\0') => Some("a name in its path has a NUL character".to_owned()),
        name if name.len() > NAME_BYTES_MAX => {
            Some(format!("a name in its path has {} bytes, and {NAME_BYTES_MAX} are the most", name.len()))
        }
        _ => None,
    };
    path.split('/').find_map(why)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check_source(text: &str, expect: Result<(&str, Option<&str>), &str>) {
        let read = InputSource::read(text);
        match (&read, expect) {
            (Ok(read), Ok((folder, object))) => {
                assert_eq!((read.folder().as_str(), read.object()), (folder, object), "{text}");
            }
            (Err(problem), Err(words)) => assert!(problem.to_string().contains(words), "{problem}"),
            _ => panic!("{text}: {read:?}"),
        }
    }

    #[test]
    fn a_source_is_a_bucket_a_folder_or_an_object() {
        check_source("s3://datasets", Ok(("", None)));
        check_source("s3://datasets/", Ok(("", None)));
        check_source("s3://datasets/vision/", Ok(("vision/", None)));
        check_source("s3://datasets/vision/a=b", Ok(("vision/a=b/", Some("vision/a=b"))));
        check_source("https://datasets/vision", Err("does not begin with `s3://`"));
        for bucket in ["", "ab", "Datasets", "-data", "data-", "a..b", "192.168.0.1", "a_b", "--profile"] {
            check_source(&format!("s3://{bucket}/x"), Err("names no bucket"));
        }
        check_source("s3://datasets//vision", Err("has `//` in its path"));
        check_source("s3://datasets/a\0", Err("control characters"));
        check_source(&format!("s3://datasets/{}", "a".repeat(1_025)), Err("1,024 bytes"));
        assert_eq!(InputSource::read("s3://datasets").unwrap().to_string(), "s3://datasets/");
    }

    #[test]
    fn directories_overlap_if_one_lies_in_the_other() {
        let check = |one: &str, other: &str, expect| {
            assert_eq!((overlaps(one, other), overlaps(other, one)), (expect, expect), "{one} {other}");
        };
        check("/data", "/data/", true);
        check("/data", "/./data//vision", true);
        check("/data", "/data2", false);
        check("/data/a", "/data/b", false);
    }

    fn check_plan(keys: &[&str], expect: Result<&[&str], &str>) {
        let object = |key: &&str| InputObject {
            key: (*key).to_owned(),
            bytes: u64::from(!key.ends_with('/') && !key.ends_with("_$folder$")),
            etag: String::new(),
        };
        let planned = plan_files("p/", keys.iter().map(object).collect());
        match (&planned, expect) {
            (Ok(files), Ok(paths)) => {
                assert_eq!(files.iter().map(|file| file.path.as_str()).collect::<Vec<_>>(), paths);
            }
            (Err(problem), Err(words)) => assert!(problem.to_string().contains(words), "{problem}"),
            _ => panic!("{keys:?}: {planned:?}"),
        }
    }

    #[test]
    fn keys_become_paths_below_the_directory_or_are_refused() {
        check_plan(&["p/", "p/a", "p/b/", "p/b/c.tar", "p/größe \n"], Ok(&["a", "b/c.tar", "größe \n"]));
        check_plan(&["p/../a"], Err("the object \"p/../a\" cannot be a file: `..` is not a name"));
        check_plan(&["p/a/./b"], Err("`.` is not a name"));
        check_plan(&["p//etc/passwd"], Err("a name in its path is empty"));
        check_plan(&["p/a\0"], Err("NUL"));
        check_plan(&[&format!("p/{}", "a".repeat(256))], Err("has 256 bytes"));
        check_plan(&["p/.curfew-part-1"], Err("Curfew's own"));
        check_plan(
            &["p/a", "p/a-b", "p/a/b"],
            Err("\"p/a\" is an object, and a folder of the object \"p/a/b\" as well"),
        );
        check_plan(&["p/a/", "p/a/b"], Ok(&["a/b"]));
        check_plan(&["p/a_$folder$", "p/a/b", "p/a/c_$folder$"], Ok(&["a/b"]));
        let one = InputObject { key: "p/q/model.bin".to_owned(), bytes: 7, etag: "e".to_owned() };
        assert_eq!(plan_file(one).unwrap().path, "model.bin");
    }

    proptest! {
        /// Whatever the keys are: every file lies below the directory, and none is another one's folder.
        #[test]
        fn no_key_leaves_the_directory(keys in prop::collection::btree_set("[a./\0-]{0,8}", 0..12)) {
            let object = |key: &String| InputObject { key: key.clone(), bytes: 1, etag: String::new() };
            if let Ok(files) = plan_files("a/", keys.iter().map(object).collect()) {
                for file in &files {
                    prop_assert!(!file.path.starts_with('/') && file.path.split('/').all(|name| !matches!(name, "" | "." | "..")));
                    let below = format!("{}/", file.path);
                    prop_assert!(!files.iter().any(|other| other.path.starts_with(&below)));
                }
            }
        }
    }
}
