use std::fs;
use std::path::Path;

use super::*;

/// Every file of a folder of `events/`.
fn samples(folder: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../events").join(folder);
    let paths = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let json = paths.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
    let samples: Vec<_> = json.map(|path| (path.display().to_string(), fs::read(path).unwrap())).collect();
    assert!(!samples.is_empty(), "{}", folder.display());
    samples
}

const OF_A_REAPER: &[EventKind] = &[EventKind::Scheduled];
const OF_BUDGETS: &[EventKind] = &[EventKind::Scheduled, EventKind::BudgetNotification];

fn check_refused(payload: impl AsRef<[u8]>, what: &str) {
    let sentence = Event::read(payload.as_ref(), OF_A_REAPER).unwrap_err().to_string();
    assert_eq!(sentence, format!("this function is woken by Scheduled Event, and got {what}; nothing was done"));
}

#[test]
fn the_samples_of_what_runs_by_schedule_alone_wake_it() {
    for (name, payload) in
        ["reap-instances", "reap-volumes", "reap-sagemaker", "send-report"].into_iter().flat_map(samples)
    {
        assert_eq!(Event::read(&payload, OF_A_REAPER), Ok(Event::Scheduled), "{name}");
    }
}

#[test]
fn the_samples_of_budgets_wake_it() {
    for (name, payload) in samples("enforce-budgets") {
        let by_sns = name.ends_with("budget-notification.json");
        let expected = if by_sns { Event::BudgetNotification } else { Event::Scheduled };
        assert_eq!(Event::read(&payload, OF_BUDGETS), Ok(expected), "{name}");
    }
}

const OF_JOBS: &[EventKind] = &[
    EventKind::Scheduled,
    EventKind::ObjectCreated,
    EventKind::InterruptionWarning,
    EventKind::RebalanceRecommendation,
    EventKind::StateChange,
    EventKind::Batch,
];

#[test]
fn the_samples_of_jobs_wake_it_and_say_what_they_are_about() {
    let object = |key: &str, etag: &str, version: &str, bytes: u64| {
        let bucket = "curfew-statebucket-1x2y3z4w5v6u".to_owned();
        let (etag, version) = (Some(etag.to_owned()), Some(version.to_owned()));
        Event::ObjectCreated(ObjectCreated {
            bucket,
            key: key.to_owned(),
            etag,
            version,
            bytes: Some(bytes),
            at: Some("2026-11-20T18:36:50Z".parse().unwrap()),
        })
    };
    let instance = |region: &str, id: &str| InstanceEvent { region: region.into(), instance: id.into() };
    let spec = object(
        "inbox/vision/llama-ft.toml",
        "4af981f98d22a0b9979da24b259e5e42",
        "uhggCJ2_B6gU2JaXWXebnXFDstO0ID6G",
        412,
    );
    let cancel = object(
        "jobs/vision/llama-ft-3b1d6c0e/cancel.json",
        "7b8d0b1ff2ee0d41b9b9d6d83d1b5c0a",
        "Zq8wBfT1r0y3yDq5N2mWcVgkS4uJx7Ra",
        61,
    );
    let upload = match object(
        "uploads/2026/a b.parquet",
        "b1946ac92492d2347c6235b4d2611184",
        "IYV3p45BT0ac8hjHg1houSdS1a.Mro8e",
        5,
    ) {
        Event::ObjectCreated(object) => {
            Event::ObjectCreated(ObjectCreated { bucket: "vision-data".to_owned(), ..object })
        }
        other => other,
    };
    let mut seen = Vec::new();
    for (name, payload) in samples("run-jobs") {
        let event = Event::read(&payload, OF_JOBS).unwrap();
        let expect = match name.rsplit('/').next().unwrap() {
            "scheduled-rule.json" | "scheduled-scheduler.json" => Event::Scheduled,
            "s3-object-created-inbox.json" => spec.clone(),
            "s3-object-created-cancel.json" => cancel.clone(),
            "ec2-spot-interruption-warning.json" => {
                Event::InterruptionWarning(instance("us-east-2", "i-1234567890abcdef0"))
            }
            "ec2-rebalance-recommendation.json" => {
                Event::RebalanceRecommendation(instance("us-east-2", "i-1234567890abcdef0"))
            }
            "ec2-instance-state-change.json" | "sqs-one-state-change.json" => {
                Event::StateChange(instance("us-east-1", "i-abcd1111"))
            }
            "s3-object-created-trigger.json" => upload.clone(),
            "sqs-several-events.json" => match &spec {
                Event::ObjectCreated(object) => Event::Batch(vec![object.clone()]),
                _ => panic!(),
            },
            other => panic!("unknown input: {other}"),
        };
        assert_eq!(event, expect, "{name}");
        seen.push(event.kind());
    }
    assert!(OF_JOBS.iter().all(|kind| seen.contains(kind)), "{seen:?}");
}

#[test]
fn a_detail_that_aws_does_not_send_is_refused() {
    let check = |event: serde_json::Value, what: &str| {
        let sentence = Event::read(event.to_string().as_bytes(), OF_JOBS).unwrap_err().to_string();
        let woken = "this function is woken by Scheduled Event, Object Created, EC2 Spot Instance Interruption Warning, \
                     EC2 Instance Rebalance Recommendation, EC2 Instance State-change Notification or a batch from a queue of SQS";
        assert_eq!(sentence, format!("{woken}, and got {what}; nothing was done"));
    };
    let warning = |region: Option<&str>, id: &str| {
        let detail = serde_json::json!({ "instance-id": id });
        serde_json::json!({ "source": "aws.ec2", "detail-type": "EC2 Spot Instance Interruption Warning", "region": region, "detail": detail })
    };
    check(warning(Some("us-east-1"), "vol-0abc"), "an event of the instance vol-0abc, which is not an instance id");
    check(warning(Some("us-east-1"), "i-0/../x"), "an event of the instance i-0/../x, which is not an instance id");
    check(warning(Some("evil.example/"), "i-0abc"), "an event of the region evil.example/, which is none");
    check(warning(None, "i-0abc"), "an event of i-0abc without a region");
    let bare = |source: &str, kind: &str| serde_json::json!({ "source": source, "detail-type": kind, "detail": {} });
    check(
        bare("aws.ec2", "EC2 Instance State-change Notification"),
        "an event of aws.ec2 with a detail that AWS does not send (missing field `instance-id`)",
    );
    check(
        bare("aws.s3", "Object Created"),
        "Object Created from aws.s3 with a detail that AWS does not send (missing field `bucket`)",
    );
}

#[test]
fn a_key_may_be_encoded() {
    let check = |key: &str, expect: Option<&str>| {
        let object = ObjectCreated {
            bucket: "b".to_owned(),
            key: key.to_owned(),
            etag: None,
            version: None,
            bytes: None,
            at: None,
        };
        assert_eq!(object.decoded_key().as_deref(), expect, "{key}");
    };
    check("inbox/vision/x.toml", None);
    check("inbox/Bild+K%C3%B6ln/x%2By.toml", Some("inbox/Bild Köln/x+y.toml"));
    check("inbox/a%252Fb/x.toml", Some("inbox/a%2Fb/x.toml"));
    check("inbox/a%2/x", None);
    check("inbox/a%", None);
    check("inbox/a%FF", None);
}

#[test]
fn the_notification_of_budgets_wakes_no_reaper() {
    let (_, payload) = samples("enforce-budgets").into_iter().find(|(name, _)| name.contains("sns")).unwrap();
    check_refused(payload, "a notification by SNS");
}

#[test]
fn events_of_other_services_are_refused() {
    for (name, payload) in samples("foreign") {
        assert!(Event::read(&payload, OF_A_REAPER).is_err(), "{name}");
        assert!(Event::read(&payload, OF_BUDGETS).is_err(), "{name}");
    }
}

#[test]
fn a_notification_is_refused_where_nothing_is_to_be_done_about_it() {
    let sns = |source: &str| serde_json::json!({ "Records": [{ "EventSource": source, "Sns": {} }] }).to_string();
    check_refused(sns("aws:sns"), "a notification by SNS");
    check_refused(sns("aws:sqs"), "a batch from a queue of SQS");
    check_refused(r#"{"Records": []}"#, "no record at all");
    check_refused(
        r#"{"Records": {}}"#,
        "records that are neither of SNS nor of SQS (invalid type: map, expected a sequence)",
    );
    check_refused(
        r#"{"Records": [{"s3": {}}]}"#,
        "records that are neither of SNS nor of SQS (missing field `EventSource`)",
    );
    check_refused(r#"{"Records": [{"eventSource": "aws:s3"}]}"#, "records of aws:s3");
    check_refused(r#"{"Records": [{"EventSource": "aws:sns"}, {"eventSource": "aws:sqs"}]}"#, "records of aws:sqs");
    let sentence = Event::read(sns("aws:s3").as_bytes(), OF_BUDGETS).unwrap_err().to_string();
    assert_eq!(
        sentence,
        "this function is woken by Scheduled Event or a notification by SNS, and got records of aws:s3; nothing was done"
    );
}

/// What Lambda hands over of a queue with these messages.
fn batch_of(bodies: &[&str]) -> String {
    let record = |body: &&str| serde_json::json!({ "messageId": "1", "body": body, "eventSource": "aws:sqs" });
    serde_json::json!({ "Records": bodies.iter().map(record).collect::<Vec<_>>() }).to_string()
}

fn state_change(id: &str) -> String {
    let detail = serde_json::json!({ "instance-id": id, "state": "shutting-down" });
    let (source, kind) = ("aws.ec2", "EC2 Instance State-change Notification");
    serde_json::json!({ "source": source, "detail-type": kind, "region": "us-east-1", "detail": detail }).to_string()
}

#[test]
fn a_batch_is_the_one_event_that_it_repeats_or_several() {
    let check = |bodies: &[&str], expect: Event| {
        assert_eq!(Event::read(batch_of(bodies).as_bytes(), OF_JOBS), Ok(expect));
    };
    let (one, other) = (&*state_change("i-1"), &*state_change("i-2"));
    let of_one = || Event::StateChange(InstanceEvent { region: "us-east-1".into(), instance: "i-1".into() });
    check(&[one], of_one());
    check(&[one, one, one], of_one());
    check(&[one, other], Event::Batch(Vec::new()));
    let created = |key: &str| {
        let detail = serde_json::json!({ "bucket": { "name": "data" }, "object": { "key": key } });
        serde_json::json!({ "source": "aws.s3", "detail-type": "Object Created", "detail": detail }).to_string()
    };
    let object = |key: &str| {
        let (bucket, key) = ("data".to_owned(), key.to_owned());
        ObjectCreated { bucket, key, etag: None, version: None, bytes: None, at: None }
    };
    let arrived: Vec<String> = (0..100).map(|number| created(&format!("{number}"))).collect();
    let expect = Event::Batch((0..100).map(|number| object(&number.to_string())).collect());
    check(&arrived.iter().map(String::as_str).collect::<Vec<_>>(), expect);
    check(&[&created("a"), one, &created("b")], Event::Batch(vec![object("a"), object("b")]));
    // An unreadable message holds back none beside it, however often the queue would hand it over again.
    check(&["{", one, "", "{}"], of_one());
    let storm: Vec<String> = (0..1000).map(|number| state_change(&format!("i-{number}"))).collect();
    check(&storm.iter().map(String::as_str).collect::<Vec<_>>(), Event::Batch(Vec::new()));
}

#[test]
fn a_batch_without_any_known_event_is_refused() {
    let check = |bodies: &[&str], known: &[EventKind], what: &str| {
        let sentence = Event::read(batch_of(bodies).as_bytes(), known).unwrap_err().to_string();
        assert!(sentence.ends_with(&format!(", and got {what}; nothing was done")), "{sentence}");
    };
    let one = &*state_change("i-1");
    check(
        &["{}"],
        OF_JOBS,
        "a batch whose first message is an object that is no event of EventBridge (missing field `detail-type`)",
    );
    check(&[&batch_of(&[one])], OF_JOBS, "a batch whose first message is a batch from a queue of SQS");
    let only_batches = &[EventKind::Batch];
    check(&[one], only_batches, "a batch whose first message is EC2 Instance State-change Notification from aws.ec2");
    check(&[one], OF_BUDGETS, "a batch from a queue of SQS");
}

#[test]
fn a_batch_may_be_as_large_as_lambda_hands_over() {
    let padded = format!("{}{}", state_change("i-1"), " ".repeat(BYTES_MAX - 1000));
    assert!(Event::read(batch_of(&[&*padded; 5]).as_bytes(), OF_JOBS).is_ok());
    let too_large = Event::read(batch_of(&[&*padded; 7]).as_bytes(), OF_JOBS).unwrap_err().to_string();
    assert!(too_large.contains("bytes, where Lambda hands over 6291456 at most"), "{too_large}");
}

#[test]
fn the_detail_may_be_left_out() {
    let bare = br#"{"source":"aws.events","detail-type":"Scheduled Event"}"#;
    assert_eq!(Event::read(bare, OF_A_REAPER), Ok(Event::Scheduled));
}

#[test]
fn a_foreign_event_is_named() {
    let event = |source: &str, detail_type: &str| {
        serde_json::json!({ "source": source, "detail-type": detail_type, "detail": {} }).to_string()
    };
    check_refused(
        event("aws.ec2", "EC2 Spot Instance Interruption Warning"),
        "EC2 Spot Instance Interruption Warning from aws.ec2",
    );
    check_refused(event("aws.ec2", "Scheduled Event"), "Scheduled Event from aws.ec2");
    let long = "x".repeat(10_000);
    let head = format!("{}…", "x".repeat(100));
    check_refused(event(&long, &long), &format!("{head} from {head}"));
}

#[test]
fn what_is_no_json_object_is_refused() {
    check_refused("", "an empty payload");
    check_refused(" \n", "an empty payload");
    check_refused("{\"source\":", "a payload that is no JSON (EOF while parsing a value at line 1 column 10)");
    check_refused(b"\xff\xfe{}", "bytes that are no UTF-8");
    check_refused("[".repeat(1000), "a payload that is no JSON (recursion limit exceeded at line 1 column 128)");
    check_refused("null", "null, where EventBridge sends an object");
    check_refused("[]", "an array, where EventBridge sends an object");
    check_refused("\"Scheduled Event\"", "a string, where EventBridge sends an object");
    check_refused("1", "a number, where EventBridge sends an object");
    check_refused("true", "a boolean, where EventBridge sends an object");
}

#[test]
fn an_object_of_another_shape_is_refused() {
    check_refused("{}", "an object that is no event of EventBridge (missing field `detail-type`)");
    check_refused(
        r#"{"source": 1, "detail-type": "Scheduled Event", "detail": {}}"#,
        "an object that is no event of EventBridge (invalid type: integer `1`, expected a string)",
    );
}

#[test]
fn only_what_eventbridge_can_send_is_read() {
    let of_length = |length: usize| {
        let head = r#"{"source":"aws.events","detail-type":"Scheduled Event","detail":""#;
        format!("{head}{}\"}}", "x".repeat(length - head.len() - 2))
    };
    assert_eq!(Event::read(of_length(BYTES_MAX).as_bytes(), OF_A_REAPER), Ok(Event::Scheduled));
    check_refused(of_length(BYTES_MAX + 1), "1048577 bytes, where EventBridge sends 1048576 at most");
}

#[test]
fn what_was_read_survives_its_way_through_lambda_runtime() {
    let there_and_back = |read: Result<Event, UnexpectedEvent>| {
        let bytes = serde_json::to_vec(&read).unwrap();
        assert_eq!(serde_json::from_slice::<Result<Event, UnexpectedEvent>>(&bytes).unwrap(), read);
    };
    there_and_back(Ok(Event::Scheduled));
    there_and_back(Ok(Event::BudgetNotification));
    for (_, payload) in samples("run-jobs") {
        there_and_back(Event::read(&payload, OF_JOBS));
    }
    there_and_back(Event::read(b"", OF_BUDGETS));
}

#[test]
fn the_samples_of_links_are_requests_and_buttons() {
    for (name, payload) in samples("reply") {
        let Ok(Event::Reply(request)) = Event::read(&payload, &[EventKind::Reply]) else { panic!("{name}") };
        match request {
            ReplyRequest::Page { method, path, from } => {
                assert!(name.contains(&method.to_lowercase()) && path.starts_with("/r/"), "{name}");
                assert_eq!(from, "203.0.113.7", "{name}");
            }
            ReplyRequest::Button { token, choice } => {
                assert_eq!((token.len(), choice.as_str()), (64, "keep-day"), "{name}");
            }
        }
    }
    for other in ["", "{}", "[]", "{\"reply\": 1, \"choice\": \"undo\"}", "{\"requestContext\": {}}"] {
        let refused = Event::read(other.as_bytes(), &[EventKind::Reply]).unwrap_err().to_string();
        assert!(refused.starts_with("this function is woken by a request to its address"), "{refused}");
    }
}
