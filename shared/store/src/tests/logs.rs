//! The log of an attempt, whose agent may stop between a part and the tail.

use ::jobs::JobId;

use super::*;

fn id() -> JobId {
    JobId { team: "vision".into(), job: "llama-1a2b3c4d".to_owned() }
}

fn found(metadata: &[(&str, &str)], body: &'static str) -> Headed {
    let headers: Vec<_> = metadata.iter().map(|(name, value)| format!("x-amz-meta-{name}: {value}\r\n")).collect();
    (200, headers.concat(), body)
}

fn absent() -> Headed {
    (404, String::new(), "<Error><Code>NoSuchKey</Code></Error>")
}

async fn check_end(answers: Vec<Headed>, expect: Option<LogTail>) {
    let (store, served) = server_of_headers(answers);
    assert_eq!(store.read_log_end(LogName { job: &id(), attempt: 1, node: None }).await, Ok(expect));
    served.join().unwrap();
}

#[tokio::test]
async fn the_end_of_a_log_is_the_tail_or_a_part_that_came_after_it() {
    let tail = |metadata: &[_]| found(metadata, "two\nthree\n");
    let whole = LogTail { bytes: b"two\nthree\n".to_vec(), start: 4, stored: 8, parts: 1 };
    let metadata = [("start", "4"), ("stored", "8"), ("parts", "1")];
    check_end(vec![tail(&metadata), absent()], Some(whole)).await;
    let part = LogTail { bytes: b"three\nfour\n".to_vec(), start: 8, stored: 19, parts: 2 };
    let after = found(&[("start", "8")], "three\nfour\n");
    check_end(vec![tail(&metadata), after.clone(), absent()], Some(part.clone())).await;
    check_end(vec![absent(), after, absent()], Some(LogTail { parts: 1, ..part })).await;
    check_end(vec![absent(), absent()], None).await;
    let forged = LogTail { bytes: b"two\nthree\n".to_vec(), start: 0, stored: 0, parts: u32::MAX };
    check_end(vec![tail(&[("parts", "4294967295")])], Some(forged)).await;
}

#[tokio::test]
async fn each_node_of_a_gang_has_a_log() {
    let (store, served) = server_of_headers(vec![found(&[("start", "4"), ("parts", "1")], "two\n"), absent()]);
    let log = LogName { job: &id(), attempt: 2, node: Some(3) };
    let expect = LogTail { bytes: b"two\n".to_vec(), start: 4, stored: 0, parts: 1 };
    assert_eq!(store.read_log_end(log).await, Ok(Some(expect)));
    let requests = served.join().unwrap();
    for (request, name) in requests.iter().zip(["log", "log.1"]) {
        let key = format!("GET /curfew/attempts/vision/llama-1a2b3c4d/2/nodes/3/{name}?");
        assert!(request.starts_with(&key), "{request}");
    }
}

async fn is_followed(seconds_ago: i64) -> bool {
    let now: Timestamp = "2026-09-01T12:00:00Z".parse().unwrap();
    let at = (now - jiff::SignedDuration::from_secs(seconds_ago)).strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
    let (store, served) = server_of_headers(vec![(200, format!("last-modified: {at}\r\n"), "")]);
    let is_followed = store.is_followed(&id(), now).await.unwrap();
    let requests = served.join().unwrap();
    assert!(requests[0].starts_with("HEAD /curfew/jobs/vision/llama-1a2b3c4d/followed.json "), "{}", requests[0]);
    is_followed
}

#[tokio::test]
async fn a_log_is_followed_for_three_minutes_after_each_note() {
    assert!(is_followed(0).await && is_followed(179).await);
    assert!(!is_followed(180).await && !is_followed(24 * 3600).await);
    // Of a bucket whose clock is ahead.
    assert!(is_followed(-5).await);
    let (store, served) = server(vec![(404, "")]);
    assert!(!store.is_followed(&id(), Timestamp::UNIX_EPOCH).await.unwrap());
    served.join().unwrap();
}
