//! The store over real HTTP, against a server that gives one prepared answer to each request.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::JoinHandle;

use aws_sdk_s3::config::{
    BehaviorVersion, Credentials, Region as AwsRegion, SharedCredentialsProvider, retry::RetryConfig,
};
use domain::config::ConfigError;

use super::*;

const FUNCTION: &str = "reap-instances";

/// A status and a body; the `ETag` is always `"new"`.
type Prepared = (u16, &'static str);

/// Answers one request each, in this order, and ends with the requests that it got: head and body.
fn server(answers: Vec<Prepared>) -> (Store, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let config = SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(AwsRegion::new("eu-central-1"))
        .endpoint_url(endpoint)
        .retry_config(RetryConfig::disabled())
        .credentials_provider(SharedCredentialsProvider::new(Credentials::new(
            "testing", "testing", None, None, "tests",
        )))
        .build();
    let served = std::thread::spawn(move || answers.into_iter().map(|answer| one(&listener, answer)).collect());
    (Store::new(&config, "curfew".to_owned()), served)
}

fn one(listener: &TcpListener, (status, body): Prepared) -> String {
    let (mut stream, _) = listener.accept().unwrap();
    let request = request(&stream);
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status} Prepared\r\nETag: \"new\"\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
    .unwrap();
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
    assert_eq!((&value, &etag), (&Notices::default(), &None));
    value.owed.push(domain::notices::Owed {
        team: "vision".to_owned(),
        severity: domain::news::Severity::Action,
        text: "later".to_owned(),
    });
    store.write_notices(FUNCTION, &home(), &value, etag.as_deref()).await.unwrap();

    let requests = served.join().unwrap();
    assert!(requests[0].starts_with("GET /curfew/notices/reap-instances/eu-central-1.json"), "{}", requests[0]);
    assert!(requests[1].starts_with("PUT /curfew/notices/reap-instances/eu-central-1.json"), "{}", requests[1]);
    assert!(requests[1].contains("if-none-match: *\r\n"), "{}", requests[1]);
    assert!(requests[1].contains("content-type: application/json\r\n"), "{}", requests[1]);
    assert!(requests[1].contains(r#"{"schema":1,"#), "{}", requests[1]);
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
async fn whoever_comes_too_late_loses() {
    for (status, code) in [(412, "PreconditionFailed"), (409, "ConditionalRequestConflict"), (404, "NoSuchKey")] {
        let (store, served) =
            server(vec![(status, error(code)), (200, "another run's"), (status, error(code)), (404, "")]);
        for _ in ["something else is there", "nothing is there any more"] {
            let lost = store.write_notices(FUNCTION, &home(), &Notices::default(), Some("\"old\"")).await.unwrap_err();
            assert!(matches!(lost, StoreError::Lost { .. }), "{code}: {lost}");
        }
        served.join().unwrap();
    }
}

#[tokio::test]
async fn a_write_that_was_carried_out_unheard_is_not_lost() {
    let (store, served) = server(vec![(200, "")]);
    store.write_notices(FUNCTION, &home(), &Notices::default(), None).await.unwrap();
    let request = served.join().unwrap().remove(0);
    let written = request.split("\r\n\r\n").nth(1).unwrap().to_owned().leak();

    let (store, served) = server(vec![(412, error("PreconditionFailed")), (200, written)]);
    store.write_notices(FUNCTION, &home(), &Notices::default(), None).await.unwrap();
    served.join().unwrap();
}

#[tokio::test]
async fn a_cache_that_another_run_wrote_is_as_good() {
    let (store, served) = server(vec![(412, error("PreconditionFailed")), (200, "another run's")]);
    store.write_activity(&home(), &Activity::default(), None).await.unwrap();
    served.join().unwrap();
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
    let aborted = store.write_activity(&home(), &Activity::default(), None).await.unwrap_err();
    assert!(matches!(aborted, StoreError::Call { action: "s3:PutObject", .. }), "{aborted}");
    served.join().unwrap();
}

#[tokio::test]
async fn a_cache_that_cannot_be_understood_is_lost_and_notices_are_not() {
    for text in ["{", r#"{"schema": 2}"#] {
        let (store, served) = server(vec![(200, text), (200, text)]);
        let lost = store.read_activity(&home()).await.unwrap();
        assert_eq!(lost, Versioned { value: Activity::default(), etag: Some("\"new\"".to_owned()) });
        assert!(store.read_notices(FUNCTION, &home()).await.is_err());
        served.join().unwrap();
    }
}

#[tokio::test]
async fn the_configuration_is_read_refused_or_unreachable() {
    let huge = "#".repeat(domain::config::BYTES_MAX + 1).leak();
    let answers = vec![
        (404, error("NoSuchKey")),
        (200, "mode = \"enforce\""),
        (200, "mode = 1"),
        (200, huge),
        (403, error("AccessDenied")),
    ];
    let (store, served) = server(answers);
    assert_eq!(store.read_config().await, Ok(Config::default()));
    assert_eq!(store.read_config().await.unwrap().mode, domain::mode::Mode::Enforce);
    let wrong = store.read_config().await.unwrap_err();
    assert!(matches!(&wrong, ConfigFault::Refused(ConfigError { line: 1, key, .. }) if key == "mode"), "{wrong}");
    let huge = store.read_config().await.unwrap_err();
    assert!(
        matches!(&huge, ConfigFault::Refused(ConfigError { problem, .. }) if problem.starts_with("the document has 262145 bytes")),
        "{huge}"
    );
    let denied = store.read_config().await.unwrap_err();
    assert!(matches!(denied, ConfigFault::Unreachable(StoreError::Call { .. })), "{denied}");
    assert!(served.join().unwrap()[0].starts_with("GET /curfew/config/curfew.toml"));
}

#[tokio::test]
async fn nobody_listening_is_told_with_its_cause() {
    let (store, served) = server(vec![]);
    served.join().unwrap();
    let unreachable = store.read_activity(&home()).await.unwrap_err().to_string();
    assert!(unreachable.contains("refused"), "{unreachable}");
    assert!(unreachable.ends_with("; the next run tries again"), "{unreachable}");
}
