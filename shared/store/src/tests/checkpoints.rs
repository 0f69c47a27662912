//! What is sent with the files of a checkpoint.

use bytes::Bytes;
use domain::job::checkpoints::File;
use domain::job::{Checkpoint, JobId};

use super::*;
use crate::bucket::Payload;

/// FIPS 180-2, appendix B.1: of `abc`, in hex; the same in base64 by `openssl dgst -sha256 -binary | base64`.
const DIGEST: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
const CHECKSUM: &str = "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=";

/// Its digest is that of something else: whoever hashed it once more would find that out.
fn payload() -> Payload {
    Payload { bytes: Bytes::from_static(b"xyz"), sha256: File::digest(b"abc") }
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
    let folder = std::env::temp_dir().join(format!("curfew-replaced-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let from = folder.join("a.bin");
    std::fs::write(&from, "12345").unwrap();
    let found = Some(Fingerprint::of(&std::fs::metadata(&from).unwrap()));
    let other = folder.join("other");
    std::fs::write(&other, "54321").unwrap();
    std::fs::rename(&other, &from).unwrap();
    let content = Content { files: vec![Local { from, path: "step-1/a.bin".to_owned(), found }], ..Content::default() };
    let job = JobId { team: domain::id::TeamName::from("vision"), job: "llama-1a2b3c4d".to_owned() };
    let (store, served) = server(Vec::new());
    let at = "2026-09-01T12:00:00Z".parse().unwrap();
    let sent = store.upload_checkpoint(&job, Checkpoint { attempt: 1, step: 1, rewrite: 0 }, content, at).await;
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(matches!(&sent, Err(CheckpointError::Damaged(words)) if words.contains("a.bin was changed")), "{sent:?}");
    assert_eq!(served.join().unwrap(), Vec::<String>::new());
}
