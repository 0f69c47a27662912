//! The store over real HTTP, against a server that gives one prepared answer to each request.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::JoinHandle;

use aws_sdk_s3::config::retry::RetryConfig;
use aws_sdk_s3::config::{BehaviorVersion, Credentials, Region as AwsRegion, SharedCredentialsProvider};
use jiff::Timestamp;
use model::config::ConfigError;
use model::fault::Passing;
use model::notification_log::{NotificationEntry, NotificationKey};

use super::*;

mod addresses;
mod backlog;
mod budgets;
mod checkpoints;
mod conditional_writes;
mod denied_reads;
mod home;
mod ledger;
mod logs;

const FUNCTION: &str = "reap-instances";

/// A status and a body; the `ETag` is always `"new"`.
type Prepared = (u16, &'static str);

/// Answers one request each, in this order, and ends with the requests that it got: head and body.
fn server(answers: Vec<Prepared>) -> (Store, JoinHandle<Vec<String>>) {
    server_of_headers(answers.into_iter().map(|(status, body)| (status, String::new(), body)).collect())
}

/// The same, where each answer has further headers, each with its end of line.
fn server_of_headers(answers: Vec<Headed>) -> (Store, JoinHandle<Vec<String>>) {
    let count = answers.len();
    let mut answers = answers.into_iter();
    serve(count, move |_| answers.next().unwrap())
}

/// Answers a number of requests, each by its content.
fn server_by(count: usize, answer: impl Fn(&str) -> Prepared + Send + 'static) -> (Store, JoinHandle<Vec<String>>) {
    serve(count, move |request| {
        let (status, body) = answer(request);
        (status, String::new(), body)
    })
}

/// A status, further headers, and a body.
type Headed = (u16, String, &'static str);

fn serve(count: usize, mut answer: impl FnMut(&str) -> Headed + Send + 'static) -> (Store, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let config = SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .http_client(signed_call::http_client())
        .region(AwsRegion::new("eu-central-1"))
        .endpoint_url(endpoint)
        .retry_config(RetryConfig::disabled())
        .credentials_provider(SharedCredentialsProvider::new(Credentials::new(
            "testing", "testing", None, None, "tests",
        )))
        .build();
    let served = std::thread::spawn(move || (0..count).map(|_| answer_one(&listener, &mut answer)).collect());
    (Store::new(&config, "curfew".to_owned()), served)
}

fn answer_one(listener: &TcpListener, answer: &mut impl FnMut(&str) -> Headed) -> String {
    let (mut stream, _) = listener.accept().unwrap();
    let request = request(&stream);
    let (status, headers, body) = answer(&request);
    let length = body.len();
    // A client that finds the body too large closes the connection.
    let _ = write!(
        stream,
        "HTTP/1.1 {status} Prepared\r\nETag: \"new\"\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
    request
}

fn request(stream: &TcpStream) -> String {
    let mut reader = BufReader::new(stream);
    let mut request = String::new();
    while !request.ends_with("\r\n\r\n") {
        reader.read_line(&mut request).unwrap();
    }
    let length =
        request.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).unwrap();
    request + &String::from_utf8(body).unwrap()
}

fn home() -> Region {
    Region::from("eu-central-1")
}

fn error(code: &str) -> &'static str {
    format!("<Error><Code>{code}</Code><Message>As prepared.</Message></Error>").leak()
}

#[tokio::test]
async fn an_absent_document_is_the_default_and_its_first_write_expects_none() {
    let (store, served) = server(vec![(404, error("NoSuchKey")), (200, "")]);
    let Versioned { mut value, etag } = store.read_notices(FUNCTION, &home()).await.unwrap();
    assert_eq!((&value, &etag), (&NotificationLog::default(), &None));
    value.undelivered.push(model::notification_log::UndeliveredParagraph {
        team: "vision".to_owned(),
        severity: model::notification_log::Severity::Action,
        text: model::notification_log::Paragraph::new("later"),
        headline: String::new(),
        cause: model::notification_log::UndeliveredCause::Refused,
        audience: model::channels::Audience::Team,
    });
    store.write_notices(FUNCTION, &home(), &value, etag.as_deref()).await.unwrap();

    let requests = served.join().unwrap();
    assert!(requests[0].starts_with("GET /curfew/notices/reap-instances/eu-central-1.json"), "{}", requests[0]);
    assert!(requests[1].starts_with("PUT /curfew/notices/reap-instances/eu-central-1.json"), "{}", requests[1]);
    assert!(requests[1].contains("if-none-match: *\r\n"), "{}", requests[1]);
    assert!(requests[1].contains("content-type: application/json\r\n"), "{}", requests[1]);
    assert!(requests[1].contains(r#"{"schema":2,"#), "{}", requests[1]);
}

#[tokio::test]
async fn a_later_write_expects_what_was_read() {
    let (store, served) = server(vec![(200, r#"{"schema": 1, "instances": {}}"#), (200, "")]);
    let read = store.read_activity(&home()).await.unwrap();
    assert_eq!(read.etag.as_deref(), Some("\"new\""));
    store.write_activity(&home(), &read.value, read.etag.as_deref()).await.unwrap();
    let requests = served.join().unwrap();
    assert!(requests[0].starts_with("GET /curfew/activity/eu-central-1.json"), "{}", requests[0]);
    assert!(requests[1].contains("if-match: \"new\"\r\n"), "{}", requests[1]);
}

#[tokio::test]
async fn other_refusals_are_told() {
    let (store, served) =
        server(vec![(404, error("NoSuchBucket")), (403, error("AccessDenied")), (409, error("OperationAborted"))]);
    let missing = store.read_notices(FUNCTION, &home()).await.unwrap_err().to_string();
    assert!(
        missing.ends_with("NoSuchBucket: As prepared; set CURFEW_BUCKET to the name of the state bucket"),
        "{missing}"
    );
    let denied = store.read_activity(&home()).await.unwrap_err();
    assert!(matches!(denied, StoreError::Call { action: "s3:GetObject", .. }), "{denied}");
    let aborted = store.write_activity(&home(), &ActivityCache::default(), None).await.unwrap_err();
    assert!(matches!(aborted, StoreError::Call { action: "s3:PutObject", .. }), "{aborted}");
    served.join().unwrap();
}

#[tokio::test]
async fn a_cache_that_cannot_be_understood_is_lost_and_notices_are_not() {
    for text in ["{", r#"{"schema": 3}"#] {
        let (store, served) = server(vec![(200, text), (200, text)]);
        let lost = store.read_activity(&home()).await.unwrap();
        assert_eq!(lost, Versioned { value: ActivityCache::default(), etag: Some("\"new\"".to_owned()) });
        assert!(store.read_notices(FUNCTION, &home()).await.is_err());
        served.join().unwrap();
    }
}

#[tokio::test]
async fn a_too_large_document_is_replaced_over_its_version() {
    let huge = "#".repeat(BYTES_MAX + 1).leak();
    for (text, expect) in [(&*huge, true), ("{", true), (r#"{"schema": 3}"#, false), (r#"{"schema": 2}"#, false)] {
        let answers = if expect { vec![(200, text), (200, "")] } else { vec![(200, text)] };
        let (store, served) = server(answers);
        assert_eq!(store.restart_notices(FUNCTION, &home()).await.unwrap(), expect, "{}", &text[..1]);
        let requests = served.join().unwrap();
        assert!(!expect || requests[1].contains("if-match: \"new\"\r\n"), "{}", requests[1]);
    }
    let (store, served) = server(vec![(200, huge)]);
    let lost = store.read_activity(&home()).await.unwrap();
    assert_eq!(lost, Versioned { value: ActivityCache::default(), etag: Some("\"new\"".to_owned()) });
    // It still writes after the reader is gone.
    drop(served);
}

#[tokio::test]
async fn no_document_is_written_that_cannot_be_read_again() {
    let told = |number: usize| {
        (NotificationKey::named(format!("topic-{number}")), NotificationEntry::new(Timestamp::UNIX_EPOCH, "stop"))
    };
    let notices = NotificationLog { gaps: (0..200_000).map(told).collect(), ..NotificationLog::default() };
    let (store, served) = server(vec![(200, "")]);
    store.write_notices(FUNCTION, &home(), &notices, None).await.unwrap();
    let request = served.join().unwrap().remove(0);
    assert!(request.len() <= BYTES_MAX / 2 + 4096, "{}", request.len());
}

#[tokio::test]
async fn the_configuration_is_read_refused_or_unreachable() {
    let huge = "#".repeat(model::config::BYTES_MAX + 1).leak();
    let answers = vec![
        (404, error("NoSuchKey")),
        (200, "mode = \"enforce\""),
        (200, "mode = 1"),
        (200, huge),
        (403, error("AccessDenied")),
    ];
    let (store, served) = server(answers);
    assert_eq!(store.read_config().await, Ok(Config::default()));
    assert_eq!(store.read_config().await.unwrap().mode, model::mode::Mode::Enforce);
    let wrong = store.read_config().await.unwrap_err();
    assert!(matches!(&wrong, ConfigLoadError::Refused(ConfigError { line: 1, key, .. }) if key == "mode"), "{wrong}");
    let huge = store.read_config().await.unwrap_err();
    assert!(
        matches!(&huge, ConfigLoadError::Refused(ConfigError { problem, .. }) if problem.starts_with("the document has 262145 bytes")),
        "{huge}"
    );
    let denied = store.read_config().await.unwrap_err();
    assert!(matches!(denied, ConfigLoadError::Unreachable(StoreError::Call { .. })), "{denied}");
    assert!(served.join().unwrap()[0].starts_with("GET /curfew/config/curfew.toml"));
}

#[tokio::test]
async fn a_refused_connection_is_reported_with_its_cause() {
    let (store, served) = server(vec![]);
    served.join().unwrap();
    let unreachable = store.read_activity(&home()).await.unwrap_err();
    assert!(unreachable.to_string().contains("refused"), "{unreachable}");
    assert_eq!(unreachable.passing(), Some(Passing::Unreached));
}

/// A page of keys with the second at which each was written.
fn listing(keys: &[(&str, u8)], next: Option<&str>) -> &'static str {
    let listed = |(key, second): &(&str, u8)| {
        format!("<Contents><Key>{key}</Key><LastModified>2026-09-01T12:00:{second:02}.000Z</LastModified></Contents>")
    };
    let contents = keys.iter().map(listed).collect::<Vec<_>>().concat();
    let next = next.map(|token| format!("<NextContinuationToken>{token}</NextContinuationToken>")).unwrap_or_default();
    let truncated = !next.is_empty();
    format!("<ListBucketResult>{contents}<IsTruncated>{truncated}</IsTruncated>{next}</ListBucketResult>").leak()
}

fn record(run: &str, second: u8, mode: &str) -> &'static str {
    record_of("2026-09-01", run, second, mode)
}

fn record_of(day: &str, run: &str, second: u8, mode: &str) -> &'static str {
    format!(
        r#"{{"schema":1,"function":"{FUNCTION}","run":"{run}","at":"{day}T12:00:{second:02}Z","mode":"{mode}","steps":[]}}"#
    )
    .leak()
}

fn noon() -> Timestamp {
    "2026-09-01T12:00:30Z".parse().unwrap()
}

#[tokio::test]
async fn records_are_listed_page_by_page_newest_first() {
    let (store, served) = server(vec![
        (200, listing(&[("plans/2026-09-01/reap-instances/a.json", 1), ("plans/2026-09-01/x", 9)], Some("more"))),
        (200, listing(&[("plans/2026-09-01/reap-instances/b.json", 2)], None)),
    ]);
    let listed = store.list_plans(noon(), Some(FUNCTION)).await.unwrap();
    let runs: Vec<&str> = listed.iter().map(|one| one.run.as_str()).collect();
    assert_eq!(runs, ["b", "a"]);
    let requests = served.join().unwrap();
    assert!(requests[0].contains("prefix=plans%2F2026-09-01%2Freap-instances%2F"), "{}", requests[0]);
    assert!(requests[1].contains("continuation-token=more"), "{}", requests[1]);
}

#[tokio::test]
async fn a_record_is_read_if_it_is_one() {
    let (store, served) = server(vec![
        (200, record("a", 1, "enforce")),
        (404, error("NoSuchKey")),
        (200, r#"{"schema":2}"#),
        (200, r#"{"schema":1}"#),
    ]);
    let key = "plans/2026-09-01/reap-instances/a.json";
    assert_eq!(store.read_plan(key).await.unwrap().unwrap().run.as_str(), "a");
    assert_eq!(store.read_plan(key).await.unwrap(), None);
    assert!(matches!(store.read_plan(key).await.unwrap_err(), StoreError::UnknownSchema { .. }));
    assert!(matches!(store.read_plan(key).await.unwrap_err(), StoreError::Unreadable { .. }));
    served.join().unwrap();
}

#[tokio::test]
async fn the_newest_is_the_functions_own_and_of_one_second_the_lesser_mode() {
    let of = |run: &str| format!("plans/2026-09-01/reap-instances/{run}.json").leak() as &str;
    let keys = [(of("a"), 5), (of("apply-a-1"), 9), (of("b"), 5), (of("c"), 5)];
    let (store, served) = server(vec![
        (200, listing(&keys, None)),
        (200, record("a", 4, "enforce")),
        (200, record("b", 4, "observe")),
        (200, record("c", 3, "enforce")),
    ]);
    let newest = store.newest_plan(FUNCTION, noon()).await.unwrap().unwrap();
    assert_eq!((newest.run.as_str(), newest.mode), ("b", model::mode::Mode::Observe));
    served.join().unwrap();
}

#[tokio::test]
async fn what_was_applied_since_the_newest_record_awaits_no_approval() {
    let record_with = |run: &str, second: u8, outcome: &str| -> &'static str {
        let step = format!(
            r#""steps":[{{"region":"us-east-1","resource":"i-1","action":"stop","evidence":{{"rule":"idle"}},"outcome":"{outcome}"}}]"#
        );
        record(run, second, "enforce").replace(r#""steps":[]"#, &step).leak()
    };
    let of = |run: &str| format!("plans/2026-09-01/reap-instances/{run}.json").leak() as &str;
    let keys = [(of("a"), 5), (of("apply-a-1"), 9), (of("apply-0-1"), 2)];
    let (store, served) = server(vec![
        (200, listing(&keys, None)),
        (200, record_with("a", 4, "not-reached")),
        (200, listing(&keys, None)),
        (200, record_with("apply-a-1", 8, "done")),
    ]);
    let newest = store.newest_plan_after_applies(FUNCTION, noon()).await.unwrap().unwrap();
    assert_eq!((newest.run.as_str(), newest.tally().waiting, newest.tally().ended), ("a", 0, 1));
    served.join().unwrap();
}

#[tokio::test]
async fn without_a_record_of_today_there_may_be_one_of_yesterday() {
    let empty = listing(&[], None);
    let (store, served) = server(vec![
        (200, empty),
        (200, listing(&[("plans/2026-08-31/reap-instances/a.json", 5)], None)),
        (200, record_of("2026-08-31", "a", 4, "enforce")),
        (200, empty),
        (200, empty),
    ]);
    assert!(store.newest_plan(FUNCTION, noon()).await.unwrap().is_some());
    assert!(store.newest_plan(FUNCTION, noon()).await.unwrap().is_none());
    assert!(served.join().unwrap()[1].contains("plans%2F2026-08-31"));
}

#[tokio::test]
async fn just_before_midnight_it_may_be_one_of_tomorrow() {
    let (store, served) = server(vec![
        (200, listing(&[("plans/2026-09-02/reap-instances/a.json", 5)], None)),
        (200, record_of("2026-09-02", "a", 4, "observe")),
    ]);
    let late = "2026-09-01T23:59:58Z".parse().unwrap();
    assert!(store.newest_plan(FUNCTION, late).await.unwrap().is_some());
    assert!(served.join().unwrap()[0].contains("plans%2F2026-09-02"));
}

#[tokio::test]
async fn an_unreadable_newest_record_is_unknown() {
    let (store, served) = server(vec![
        (200, listing(&[("plans/2026-09-01/reap-instances/a.json", 5)], None)),
        (200, "{"),
        (403, error("AccessDenied")),
    ]);
    assert!(store.newest_plan(FUNCTION, noon()).await.is_err());
    let denied = store.newest_plan(FUNCTION, noon()).await.unwrap_err();
    assert!(denied.to_string().contains("grant the role that asked s3:ListBucket on the bucket"), "{denied}");
    served.join().unwrap();
}
