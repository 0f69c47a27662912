//! What is sent with the files of a checkpoint.

use ::jobs::checkpoints::ManifestFile;
use ::jobs::{Checkpoint, JobId};
use bytes::Bytes;

use super::*;
use crate::FileOwner;
use crate::bucket::Payload;

/// FIPS 180-2, appendix B.1: of `abc`, in hex; the same in base64 by `openssl dgst -sha256 -binary | base64`.
const DIGEST: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
const CHECKSUM: &str = "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=";

/// What S3 keeps of two parts that are `abc` each: both digests through `openssl dgst -sha256 -binary | base64`, and their number.
const COMPOSITE: &str = "O3ccqX48F2mK/yEif6BGtWIqMNjuXS3k7hERoc3yWO4=-2";

/// Its digest belongs to other bytes: hashing it again would show that.
fn payload() -> Payload {
    Payload { bytes: Bytes::from_static(b"xyz"), sha256: ManifestFile::digest(b"abc") }
}

fn check(requests: &[String]) {
    let lines: Vec<&str> = requests[0].lines().collect();
    let says = |name: &str| lines.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    assert_eq!(says("x-amz-content-sha256"), Some(DIGEST), "what S3 is signed for: {lines:?}");
    assert_eq!(says("x-amz-checksum-sha256"), Some(CHECKSUM), "what S3 compares: {lines:?}");
    assert_eq!(says("content-length"), Some("3"));
    assert!(!requests[0].contains("crc32"), "nothing is hashed twice: {lines:?}");
    assert!(requests[0].ends_with("\r\n\r\nxyz"), "it goes as it is: {lines:?}");
}

#[tokio::test]
async fn a_file_goes_with_the_digest_that_is_known_of_it() {
    let (store, served) = server(vec![(200, "")]);
    store.bucket.put_file("checkpoints/a", &payload()).await.unwrap();
    check(&served.join().unwrap());
}

#[tokio::test]
async fn so_does_a_part_and_is_named_by_it_in_the_end() {
    let (store, served) = server(vec![(200, "")]);
    let part = store.bucket.put_part("checkpoints/a", "upload", 7, &payload()).await.unwrap();
    check(&served.join().unwrap());
    assert_eq!((part.part_number(), part.e_tag(), part.checksum_sha256()), (Some(7), Some("\"new\""), Some(CHECKSUM)));
}

#[tokio::test]
async fn an_upload_is_one_of_that_kind_of_checksum() {
    let begun = "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>";
    let (store, served) = server(vec![(200, begun)]);
    assert_eq!(store.bucket.begin_upload("checkpoints/a").await.unwrap(), "u");
    assert!(served.join().unwrap()[0].contains("x-amz-checksum-algorithm: SHA256\r\n"));
}

#[tokio::test]
async fn a_file_that_was_replaced_since_it_was_found_is_not_sent() {
    let folder = tempfile::tempdir().unwrap();
    let from = folder.path().join("a.bin");
    std::fs::write(&from, "12345").unwrap();
    let found = Some(FileFingerprint::from_metadata(&std::fs::metadata(&from).unwrap()));
    let other = folder.path().join("other");
    std::fs::write(&other, "54321").unwrap();
    std::fs::rename(&other, &from).unwrap();
    let content = CheckpointContent {
        files: vec![LocalFile { from, path: "step-1/a.bin".to_owned(), found }],
        ..CheckpointContent::default()
    };
    let job = JobId { team: model::id::TeamName::from("vision"), job: "llama-1a2b3c4d".to_owned() };
    let (store, served) = server(Vec::new());
    let at = "2026-09-01T12:00:00Z".parse().unwrap();
    let sent = store
        .upload_checkpoint(&job, Checkpoint { attempt: 1, step: 1, rewrite: 0 }, content, &FileOwner::current(), at)
        .await;
    assert!(matches!(&sent, Err(CheckpointError::Damaged(words)) if words.contains("a.bin was changed")), "{sent:?}");
    assert_eq!(served.join().unwrap(), Vec::<String>::new());
}

/// What comes of an upload in two parts whose completion S3 answers so, and whose object it then describes so.
async fn completed(answer: (u16, &'static str), head: Option<(u16, Option<&str>)>) -> Result<(), StoreError> {
    let head = head.map(|(status, checksum)| {
        let header = checksum.map(|checksum| format!("x-amz-checksum-sha256: {checksum}\r\n"));
        (status, header.unwrap_or_default(), "")
    });
    let answers = [(answer.0, String::new(), answer.1)].into_iter().chain(head);
    let (store, served) = server_of_headers(answers.collect());
    let digests = [DIGEST.to_owned(), DIGEST.to_owned()];
    let done = store.bucket.complete_upload("checkpoints/a", "u", Vec::new(), &digests).await;
    let requests = served.join().unwrap();
    assert!(requests[0].starts_with("POST /curfew/checkpoints/a?uploadId=u "), "{}", requests[0]);
    assert!(requests.iter().skip(1).all(|request| request.contains("x-amz-checksum-mode: ENABLED\r\n")));
    done
}

#[tokio::test]
async fn an_upload_with_a_lost_response_is_done_if_its_checksum_is_there() {
    let unknown = (404, error("NoSuchUpload"));
    assert_eq!(completed(unknown, Some((200, Some(COMPOSITE)))).await, Ok(()));
    for other in [Some((200, Some(CHECKSUM))), Some((200, None)), Some((404, None))] {
        let lost = completed(unknown, other).await.unwrap_err();
        assert!(lost.to_string().contains("NoSuchUpload") && !lost.lasts(), "{lost}");
    }
    let unread = completed(unknown, Some((403, None))).await.unwrap_err();
    assert!(matches!(unread, StoreError::Call { action: "s3:GetObject", .. }), "{unread}");
}

/// Amazon S3 API reference, "CompleteMultipartUpload": an error may come with status 200.
#[tokio::test]
async fn an_upload_whose_completion_fails_late_is_not_done() {
    let failed = completed((200, error("InternalError")), None).await.unwrap_err();
    assert!(failed.to_string().contains("InternalError"), "{failed}");
}

/// A page of versions; the next one begins after the last.
fn versions(of: &[(&str, &str)], marker: Option<(&str, &str)>) -> &'static str {
    let version = |(key, id): &(&str, &str)| format!("<Version><Key>{key}</Key><VersionId>{id}</VersionId></Version>");
    let all = of.iter().map(version).collect::<Vec<_>>().concat();
    let next = marker.map_or_else(String::new, |(key, id)| {
        format!("<NextKeyMarker>{key}</NextKeyMarker><NextVersionIdMarker>{id}</NextVersionIdMarker>")
    });
    let more = marker.is_some();
    format!(
        "<ListVersionsResult><IsTruncated>{more}</IsTruncated>{next}{all}\
         <DeleteMarker><Key>gone</Key><VersionId>m</VersionId></DeleteMarker></ListVersionsResult>"
    )
    .leak()
}

const DELETED: &str = "<DeleteResult/>";
const JOB: &str = "checkpoints/vision/llama-1a2b3c4d/";
const OLD: Checkpoint = Checkpoint { attempt: 1, step: 5, rewrite: 0 };

fn llama() -> JobId {
    JobId { team: model::id::TeamName::from("vision"), job: "llama-1a2b3c4d".to_owned() }
}

#[tokio::test]
async fn a_checkpoint_is_deleted_with_all_of_its_versions_page_by_page() {
    let folder = "checkpoints/vision/llama-1a2b3c4d/1/5/";
    let (store, served) = server_by(6, move |request| {
        let listed = if request.contains("version-id-marker=v1") {
            versions(&[("files/b", "v2")], None)
        } else if request.contains("manifest.json") {
            versions(&[("manifest.json", "v0")], None)
        } else {
            versions(&[("files/a", "v1")], Some(("files/a", "v1")))
        };
        (200, if request.starts_with("GET") { listed } else { DELETED })
    });
    store.delete_checkpoint(&llama(), OLD).await.unwrap();
    let requests = served.join().unwrap();
    let encoded = folder.replace('/', "%2F");
    assert!(
        requests[0].starts_with("GET /curfew?versions&") || requests[0].starts_with("GET /curfew/?versions&"),
        "{}",
        requests[0]
    );
    assert!(requests[0].contains(&format!("prefix={encoded}manifest.json")), "{}", requests[0]);
    assert!(requests[1].contains("<VersionId>v0</VersionId>"), "the manifest first: {}", requests[1]);
    let rest = requests[2..].concat();
    for version in ["v1", "v2", "m"] {
        assert!(rest.contains(&format!("<VersionId>{version}</VersionId>")), "{rest}");
    }
    assert!(rest.contains("key-marker=files%2Fa"), "{rest}");
}

#[tokio::test]
async fn failed_deletions_are_reported() {
    let refused =
        "<DeleteResult><Error><Key>files/a</Key><Code>AccessDenied</Code><Message>No.</Message></Error></DeleteResult>";
    let (store, served) = server(vec![(200, versions(&[("manifest.json", "v0")], None)), (200, refused)]);
    let kept = store.delete_checkpoint(&llama(), OLD).await.unwrap_err().to_string();
    assert!(kept.starts_with("s3:DeleteObjectVersion on s3://curfew/files/a failed: No; grant"), "{kept}");
    served.join().unwrap();
}

#[tokio::test]
async fn checkpoints_are_listed_by_their_folders() {
    let folders = |of: &[&str]| {
        let folder = |one: &&str| format!("<CommonPrefixes><Prefix>{one}</Prefix></CommonPrefixes>");
        let all = of.iter().map(folder).collect::<Vec<_>>().concat();
        format!("<ListBucketResult>{all}<IsTruncated>false</IsTruncated></ListBucketResult>").leak() as &str
    };
    let attempts = folders(&[&format!("{JOB}1/"), &format!("{JOB}x/")]);
    let steps = folders(&[&format!("{JOB}1/5.1/"), &format!("{JOB}1/files/")]);
    let (store, served) = server(vec![(200, attempts), (200, steps), (200, folders(&[])), (404, "")]);
    let listed = store.list_checkpoints(&llama()).await.unwrap();
    let requests = served.join().unwrap();
    let checkpoint = Checkpoint { rewrite: 1, ..OLD };
    assert_eq!(listed, [::jobs::checkpoints::StoredCheckpoint { checkpoint, whole: false }]);
    assert!(
        requests[..3].iter().all(|request| request.contains("delimiter=%2F")),
        "a call for each folder: {requests:?}"
    );
    assert!(requests[3].starts_with(&format!("HEAD /curfew/{JOB}1/5.1/manifest.json")), "{}", requests[3]);
}
