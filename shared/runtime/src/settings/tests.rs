use super::*;

const BUCKET: &str = "curfew-statebucket-1x2y3z4w5v6u";
const TOPIC_ARN: &str = "arn:aws:sns:eu-central-1:123456789012:curfew";

fn read(bucket: Option<&str>, topic_arn: Option<&str>, mode: Option<&str>) -> Result<FunctionSettings, SettingsError> {
    let variable = |name: &str| match name {
        "CURFEW_BUCKET" => bucket.map(OsString::from),
        "CURFEW_TOPIC_ARN" => topic_arn.map(OsString::from),
        "CURFEW_MODE" => mode.map(OsString::from),
        "CURFEW_JOB_PROFILE"
        | "CURFEW_TRIGGER_BUCKETS"
        | "CURFEW_SCHEDULES"
        | "CURFEW_ACCOUNT_TOPIC_ARN"
        | "CURFEW_CHAT_TOPIC_ARN"
        | "CURFEW_EVENT_BUS"
        | "CURFEW_REPLY_URL"
        | "CURFEW_ACCOUNT_METRICS"
        | "CURFEW_HUB_BUCKET"
        | "CURFEW_REPLICA_BUCKET"
        | "CURFEW_REPLICA_REGION"
        | "CURFEW_RESTORED"
        | "CURFEW_ORGANIZATION_REPORT" => None,
        "AWS_REGION" => Some(OsString::from("eu-central-1")),
        other => panic!("unexpected variable: {other}"),
    };
    FunctionSettings::read(variable)
}

fn check_refused(bucket: Option<&str>, topic_arn: Option<&str>, mode: Option<&str>, mistakes: &str) {
    let sentence = read(bucket, topic_arn, mode).unwrap_err();
    assert_eq!(sentence.to_string(), format!("the function's environment is wrong: {mistakes}"));
}

#[test]
fn everything_is_read() {
    let channels = || NotificationChannels::topic(TOPIC_ARN.to_owned());
    let settings = |mode| FunctionSettings {
        bucket: BUCKET.to_owned(),
        channels: channels(),
        hub_bucket: None,
        reports_organization: false,
        mode,
        job_profile: None,
        trigger_buckets: Vec::new(),
        account_metrics: false,
        runs_schedules: false,
        home: None,
    };
    assert_eq!(read(Some(BUCKET), Some(TOPIC_ARN), None), Ok(settings(Mode::Observe)));
    assert_eq!(read(Some(BUCKET), Some(TOPIC_ARN), Some("observe")), Ok(settings(Mode::Observe)));
    assert_eq!(read(Some(BUCKET), Some(TOPIC_ARN), Some("enforce")), Ok(settings(Mode::Enforce)));
}

#[test]
fn every_mistake_is_reported_at_once() {
    check_refused(
        None,
        None,
        Some("Enforce"),
        "CURFEW_BUCKET is not set; set it to the name of the state bucket; \
         CURFEW_TOPIC_ARN is not set; set it to the ARN of the SNS topic that people subscribe to; \
         CURFEW_MODE is \"Enforce\"; set it to observe or enforce",
    );
}

#[test]
fn nothing_but_two_words_is_a_mode() {
    for mode in ["", " enforce", "enforce ", "ENFORCE", "dry-run", "true", "1"] {
        check_refused(
            Some(BUCKET),
            Some(TOPIC_ARN),
            Some(mode),
            &format!("CURFEW_MODE is {mode:?}; set it to observe or enforce"),
        );
    }
}

#[test]
fn a_bucket_has_a_legal_name() {
    for name in ["abc", "a.b-c", "0bucket9", &"a".repeat(63)] {
        assert_eq!(read(Some(name), Some(TOPIC_ARN), None).map(|settings| settings.bucket), Ok(name.to_owned()));
    }
    for name in [
        "ab",
        "Bucket",
        "s3://bucket",
        "arn:aws:s3:::bucket",
        "bucket/",
        "-bucket",
        "bucket.",
        "a..b",
        "192.168.5.4",
        "bücket",
        &"a".repeat(64),
    ] {
        check_refused(
            Some(name),
            Some(TOPIC_ARN),
            None,
            &format!(
                "CURFEW_BUCKET is {name:?}, which is not a bucket name; set it to the name alone, without s3:// or arn:"
            ),
        );
    }
    check_refused(Some(""), Some(TOPIC_ARN), None, "CURFEW_BUCKET is not set; set it to the name of the state bucket");
}

#[test]
fn a_topic_is_a_standard_topics_arn() {
    for arn in [
        TOPIC_ARN,
        "arn:aws-cn:sns:cn-north-1:123456789012:a",
        "arn:aws-us-gov:sns:us-gov-west-1:123456789012:Curfew_Topic-8Jx1",
    ] {
        assert_eq!(
            read(Some(BUCKET), Some(arn), None).map(|settings| settings.channels.topics.teams),
            Ok(arn.to_owned())
        );
    }
    for arn in [
        "curfew",
        "arn:aws:sqs:eu-central-1:123456789012:curfew",
        "arn:aws:sns:eu-central-1:123456789012:curfew.fifo",
        "arn:aws:sns:eu-central-1:123456789012:",
        "arn:aws:sns:eu-central-1:12345:curfew",
        "arn:aws:sns::123456789012:curfew",
        "arn:aws:sns:eu-central-1:123456789012:curfew:254078db-ff09-5f4f-8c04-266076dcf322",
        " arn:aws:sns:eu-central-1:123456789012:curfew",
    ] {
        let sentence = read(Some(BUCKET), Some(arn), None).unwrap_err().to_string();
        assert!(
            sentence.contains(&format!("CURFEW_TOPIC_ARN is {arn:?}, which is not the ARN of a standard topic")),
            "{sentence}"
        );
    }
}

#[test]
fn a_topic_is_in_a_supported_partition() {
    let check = |arn: &str, expect: &str| {
        let sentence = read(Some(BUCKET), Some(arn), None).unwrap_err().to_string();
        assert!(sentence.contains(expect), "{sentence}");
    };
    check(
        "arn:aws-eusc:sns:eusc-de-east-1:123456789012:curfew",
        "the partition aws-eusc, which Curfew does not support",
    );
    check("arn:aws:sns:us-iso-east-1:123456789012:curfew", "the partition aws-iso, which Curfew does not support");
    check("arn:aws:sns:cn-north-1:123456789012:curfew", "and ARNs in cn-north-1 begin with arn:aws-cn");
    check("arn:aws:sns:nowhere-1:123456789012:curfew", "and there is no region nowhere-1");
}

#[cfg(unix)]
#[test]
fn what_is_no_utf8_is_a_mistake() {
    use std::os::unix::ffi::OsStringExt;
    let settings = FunctionSettings::read(|_| Some(OsString::from_vec(vec![0xff])));
    let sentence = settings.unwrap_err().to_string();
    assert!(
        sentence.ends_with("CURFEW_BUCKET is not UTF-8; CURFEW_TOPIC_ARN is not UTF-8; CURFEW_ACCOUNT_TOPIC_ARN is not UTF-8; CURFEW_CHAT_TOPIC_ARN is not UTF-8; CURFEW_EVENT_BUS is not UTF-8; CURFEW_REPLY_URL is not UTF-8; CURFEW_HUB_BUCKET is not UTF-8; CURFEW_ORGANIZATION_REPORT is not UTF-8; CURFEW_MODE is not UTF-8; CURFEW_JOB_PROFILE is not UTF-8; CURFEW_TRIGGER_BUCKETS is not UTF-8; CURFEW_ACCOUNT_METRICS is not UTF-8; CURFEW_SCHEDULES is not UTF-8; AWS_REGION is not set; set it, as Lambda does; CURFEW_REPLICA_BUCKET is not UTF-8; CURFEW_RESTORED is not UTF-8"),
        "{sentence}"
    );
}

#[test]
fn a_region_is_needed() {
    let settings = |name: &'static str| {
        let variables = [("CURFEW_BUCKET", BUCKET), ("CURFEW_TOPIC_ARN", TOPIC_ARN), (name, "eu-central-1")];
        FunctionSettings::read(move |asked| {
            variables.iter().find(|(set, _)| *set == asked).map(|(_, value)| OsString::from(value))
        })
    };
    assert!(settings("AWS_REGION").is_ok());
    assert!(settings("AWS_DEFAULT_REGION").is_ok());
    assert!(settings("REGION").unwrap_err().to_string().ends_with("AWS_REGION is not set; set it, as Lambda does"));
}

/// What is read where one further variable is set.
fn read_with(name: &'static str, value: &str) -> Result<FunctionSettings, String> {
    let variable = |asked: &str| match asked {
        "CURFEW_BUCKET" => Some(BUCKET.into()),
        "CURFEW_TOPIC_ARN" => Some(TOPIC_ARN.into()),
        "AWS_REGION" => Some("eu-central-1".into()),
        asked => (asked == name).then(|| value.into()),
    };
    FunctionSettings::read(variable).map_err(|error| error.to_string())
}

#[test]
fn jobs_get_the_profile_that_is_named_or_none() {
    let read = |profile: &str| read_with("CURFEW_JOB_PROFILE", profile).map(|settings| settings.job_profile);
    assert_eq!(read("curfew-job"), Ok(Some("curfew-job".to_owned())));
    assert_eq!(read(""), Ok(None));
    for wrong in ["arn:aws:iam::123456789012:instance-profile/curfew-job", "curfew/curfew-job", "a b", &"a".repeat(129)]
    {
        assert!(read(wrong).unwrap_err().contains("CURFEW_JOB_PROFILE"), "{wrong}");
    }
}

#[test]
fn the_buckets_of_triggers_are_separated_by_commas() {
    let read = |names: &str| read_with("CURFEW_TRIGGER_BUCKETS", names).map(|settings| settings.trigger_buckets);
    assert_eq!(read("data, other.data"), Ok(vec!["data".to_owned(), "other.data".to_owned()]));
    assert_eq!(read(""), Ok(Vec::new()));
    assert!(read("data,s3://x").unwrap_err().contains("CURFEW_TRIGGER_BUCKETS has \"s3://x\", which is not"));
}

#[test]
fn schedules_are_on_by_a_plain_yes() {
    let read = |value: &str| read_with("CURFEW_SCHEDULES", value).map(|settings| settings.runs_schedules);
    assert_eq!([read("yes"), read("no"), read("")], [Ok(true), Ok(false), Ok(false)]);
    assert!(read("true").unwrap_err().contains("CURFEW_SCHEDULES is \"true\"; set it to yes or no"));
}

#[test]
fn an_account_has_a_hub_if_somebody_names_one() {
    let hub = |name: &str| read_with("CURFEW_HUB_BUCKET", name).map(|settings| settings.hub_bucket);
    assert_eq!((hub("curfew-hub"), hub("")), (Ok(Some("curfew-hub".to_owned())), Ok(None)));
    for wrong in ["s3://curfew-hub", "arn:aws:s3:::curfew-hub", "Curfew", "a"] {
        assert!(hub(wrong).unwrap_err().contains("CURFEW_HUB_BUCKET is"), "{wrong}");
    }
    let reports =
        |value: &str| read_with("CURFEW_ORGANIZATION_REPORT", value).map(|settings| settings.reports_organization);
    assert_eq!((reports(""), reports("no")), (Ok(false), Ok(false)));
    assert!(reports("yes").unwrap_err().contains("without CURFEW_HUB_BUCKET"));
    assert!(reports("maybe").unwrap_err().contains("set it to yes or no"));
}

#[test]
fn the_channels_beside_the_topic_are_there_if_somebody_names_them() {
    let chat = |arn: &str| read_with("CURFEW_CHAT_TOPIC_ARN", arn).map(|settings| settings.channels.chat_topic_arn);
    assert_eq!(chat(TOPIC_ARN), Ok(Some(TOPIC_ARN.to_owned())));
    assert_eq!(chat(""), Ok(None));
    assert!(chat("curfew").unwrap_err().contains("CURFEW_CHAT_TOPIC_ARN is \"curfew\", which is not the ARN of"));
    let bus = |name: &str| read_with("CURFEW_EVENT_BUS", name).map(|settings| settings.channels.event_bus);
    for name in ["default", "aws.partner/example.com/1", &"b".repeat(256)] {
        assert_eq!(bus(name), Ok(Some(name.to_owned())));
    }
    assert_eq!(bus(""), Ok(None));
    for wrong in ["arn:aws:events:eu-central-1:123456789012:event-bus/curfew", "a b", &"b".repeat(257)] {
        assert!(bus(wrong).unwrap_err().contains("CURFEW_EVENT_BUS is"), "{wrong}");
    }
    let links = |url: &str| read_with("CURFEW_REPLY_URL", url).map(|settings| settings.channels.reply_url);
    let url = "https://abc.lambda-url.eu-central-1.on.aws/";
    assert_eq!((links(url), links("")), (Ok(Some(url.to_owned())), Ok(None)));
    for wrong in ["https:///", "http://a.example/", "https://a.example", "https://a.example/?x=/", "https://a b/"] {
        assert!(links(wrong).unwrap_err().contains("CURFEW_REPLY_URL is"), "{wrong}");
    }
}

#[test]
fn metrics_of_the_account_are_published_only_where_it_says_so() {
    let metrics = |text: &str| read_with("CURFEW_ACCOUNT_METRICS", text).map(|settings| settings.account_metrics);
    assert_eq!([metrics("yes"), metrics("no"), metrics("")], [Ok(true), Ok(false), Ok(false)]);
    assert!(metrics("true").unwrap_err().contains("CURFEW_ACCOUNT_METRICS is \"true\"; set it to yes or no"));
}
