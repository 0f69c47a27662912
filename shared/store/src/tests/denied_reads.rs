//! Reads that S3 denies to a job's machine, which may list only by prefix.

use ::jobs::JobId;

use super::*;

const HEAD_KEY: &str = "attempts/vision/llama-1a2b3c4d/head.json";

fn job() -> JobId {
    JobId::read("vision/llama-1a2b3c4d").unwrap()
}

fn listing(keys: &[&str]) -> &'static str {
    let listed: Vec<String> = keys.iter().map(|key| format!("<Contents><Key>{key}</Key></Contents>")).collect();
    format!("<ListBucketResult><IsTruncated>false</IsTruncated>{}</ListBucketResult>", listed.concat()).leak()
}

/// The fence is read; what a machine is answered, and what the listing says where it is asked.
async fn check(read: Prepared, listed: Option<Prepared>, expect: Result<(), &str>) {
    let answers: Vec<Prepared> = std::iter::once(read).chain(listed).collect();
    let (count, (store, served)) = (answers.len(), server(answers));
    let found = store.for_machine().read_fence(&job()).await;
    match (&found, expect) {
        (Ok(found), Ok(())) => assert_eq!(found.etag, None),
        (Err(error), Err(words)) => assert!(error.to_string().contains(words), "{error}"),
        _ => panic!("{found:?}, not {expect:?}"),
    }
    let requests = served.join().unwrap();
    assert_eq!(requests.len(), count);
    if let Some(asked) = requests.get(1) {
        assert!(asked.starts_with("GET /curfew/?list-type=2&"), "{asked}");
        assert!(asked.contains("prefix=attempts%2Fvision%2Fllama-1a2b3c4d%2Fhead.json"), "{asked}");
    }
}

#[tokio::test]
async fn a_denied_read_means_absent_only_if_the_list_confirms_it() {
    let denied = || (403, error("AccessDenied"));
    check((404, error("NoSuchKey")), None, Ok(())).await;
    check(denied(), Some((200, listing(&[]))), Ok(())).await;
    check(denied(), Some((200, listing(&[&format!("{HEAD_KEY}.copy")]))), Ok(())).await;
    check(denied(), Some((200, listing(&[HEAD_KEY]))), Err("AccessDenied: As prepared")).await;
    check(denied(), Some(denied()), Err("s3:GetObject on s3://curfew/attempts/")).await;
    check(denied(), Some((500, error("InternalError"))), Err("AccessDenied: As prepared")).await;
    check((500, error("InternalError")), None, Err("InternalError")).await;
}

#[tokio::test]
async fn a_denied_head_asks_the_listing_as_well() {
    let (store, served) = server(vec![(403, ""), (200, listing(&[])), (403, ""), (200, listing(&["checkpoints/a"]))]);
    let bucket = store.for_machine().bucket;
    assert!(!bucket.has("checkpoints/a").await.unwrap());
    assert!(bucket.has("checkpoints/a").await.is_err());
    assert!(served.join().unwrap()[0].starts_with("HEAD "));
}

#[tokio::test]
async fn a_part_of_a_file_that_is_gone_is_absent() {
    let (store, served) = server(vec![(403, error("AccessDenied")), (200, listing(&[]))]);
    assert!(store.for_machine().bucket.get_range("checkpoints/a", (0, 5)).await.unwrap().is_none());
    served.join().unwrap();
}

#[tokio::test]
async fn to_everybody_else_a_denied_read_is_an_error() {
    let (store, served) = server(vec![(403, error("AccessDenied"))]);
    let said = store.read_fence(&job()).await.unwrap_err().to_string();
    assert!(said.contains("grant the role that asked s3:GetObject"), "{said}");
    served.join().unwrap();
}
