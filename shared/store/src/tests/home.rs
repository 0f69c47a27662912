//! The record of the stack that acts, as a stranger may leave it.

use super::*;

const RECORD: &str = r#"{"schema":1,"term":2,"bucket":"copy","region":"us-west-2","since":"2026-11-30T12:00:00Z","before":{"bucket":"first","region":"us-east-1"}}"#;

async fn read_of(body: &'static str) -> Result<Option<model::home::HomeRecord>, String> {
    let (store, served) = server(vec![(200, body)]);
    let read = store.read_home().await;
    served.join().unwrap();
    read.map(|read| read.value).map_err(|error| error.to_string())
}

#[tokio::test]
async fn a_record_is_written_as_it_is_read() {
    let record = read_of(RECORD).await.unwrap().unwrap();
    assert_eq!((record.term, record.stack.bucket.as_str()), (2, "copy"));
    let (store, served) = server(vec![(200, "")]);
    store.write_home(&record, None).await.unwrap();
    let request = served.join().unwrap().remove(0);
    assert!(request.contains(RECORD) && request.to_lowercase().contains("if-none-match: *"), "{request}");
}

#[tokio::test]
async fn a_damaged_record_is_an_error_that_says_what_is_wrong() {
    let huge: &'static str = Box::leak(format!("{RECORD}{}", " ".repeat(5_000)).into_boxed_str());
    let cases: Vec<(&'static str, &str)> = vec![
        (huge, "Curfew reads and writes 4096 at most"),
        ("{}", "has schema none"),
        ("[1]", "cannot be understood"),
        (
            r#"{"schema":1,"term":"2","bucket":"copy","region":"us-west-2","since":"2026-11-30T12:00:00Z"}"#,
            "invalid type",
        ),
        (
            r#"{"schema":1,"term":-1,"bucket":"copy","region":"us-west-2","since":"2026-11-30T12:00:00Z"}"#,
            "invalid value",
        ),
        (
            r#"{"schema":1,"term":18446744073709551615,"bucket":"copy","region":"us-west-2","since":"2026-11-30T12:00:00Z"}"#,
            "must be from 1",
        ),
        (
            r#"{"schema":1,"term":2,"bucket":"../copy","region":"us-west-2","since":"2026-11-30T12:00:00Z"}"#,
            "no name of a bucket",
        ),
        (
            r#"{"schema":1,"term":2,"bucket":"copy","region":"x.evil/","since":"2026-11-30T12:00:00Z"}"#,
            "no name of a region",
        ),
        (r#"{"schema":1,"term":2,"bucket":"copy","region":"us-west-2","since":"yesterday"}"#, "cannot be understood"),
    ];
    for (body, expect) in cases {
        let error = read_of(body).await.unwrap_err();
        assert!(error.contains(expect) && error.contains("s3://curfew/home.json"), "{body:.200}: {error}");
    }
}
