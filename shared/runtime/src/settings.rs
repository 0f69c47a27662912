//! Settings from the environment: bucket, channels of notifications, and mode.

use std::ffi::OsString;
use std::fmt;

use model::channels::{MessageTopics, NotificationChannels};
use model::fault::InvalidValue;
use model::home::{HomeSettings, StateBucket};
use model::id::Region;
use model::input_source::is_bucket_name;
use model::mode::Mode;
use model::partition::Partition;

/// The settings of every function, from its environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionSettings {
    /// `CURFEW_BUCKET`: the name of the state bucket.
    pub bucket: String,
    /// `CURFEW_TOPIC_ARN`, and besides it `CURFEW_CHAT_TOPIC_ARN`, `CURFEW_EVENT_BUS` and `CURFEW_REPLY_URL`.
    pub channels: NotificationChannels,
    /// `CURFEW_HUB_BUCKET`: the name of the organization's bucket. Absent: this account publishes nothing.
    pub hub_bucket: Option<String>,
    /// `CURFEW_ORGANIZATION_REPORT`: whether this is the account of the hub: `send-report` reports on all accounts, and `enforce-budgets` sums the
    /// budgets that they share. Absent: on this account alone.
    pub reports_organization: bool,
    /// `CURFEW_MODE`: the account's ceiling. Absent means observe.
    pub mode: Mode,
    /// `CURFEW_JOB_PROFILE`: the name of the instance profile of jobs that name none. Absent: they get none.
    pub job_profile: Option<String>,
    /// `CURFEW_TRIGGER_BUCKETS`: the buckets whose events make jobs, separated by commas. Absent: none.
    pub trigger_buckets: Vec<String>,
    /// `CURFEW_ACCOUNT_METRICS`: `yes` publishes the metrics of the account. Absent means no.
    pub account_metrics: bool,
    /// `CURFEW_SCHEDULES`: `true` if schedules make jobs. Absent means no.
    pub runs_schedules: bool,
    /// `CURFEW_REPLICA_BUCKET`, `CURFEW_REPLICA_REGION` and `CURFEW_RESTORED`. Absent: no second stack can exist.
    pub home: Option<HomeSettings>,
}

/// A wrong environment: every mistake in it, each as a sentence that says what to set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingsError(Vec<InvalidValue>);

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mistakes: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        write!(f, "the function's environment is wrong: {}", mistakes.join("; "))
    }
}

impl std::error::Error for SettingsError {}

impl FunctionSettings {
    /// Reads the settings through `variable`, which gives the value of an environment variable.
    ///
    /// # Errors
    /// Where a variable is missing or impossible: all such at once.
    pub fn read(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, SettingsError> {
        let text = |name: &str| match variable(name).map(OsString::into_string) {
            None => Ok(None),
            Some(Ok(text)) => Ok(Some(text)),
            Some(Err(_)) => Err(InvalidValue::new(format!("{name} is not UTF-8"))),
        };
        let mut mistakes = Vec::new();
        let bucket = take(&mut mistakes, text("CURFEW_BUCKET").and_then(|value| bucket(value.as_deref())));
        let teams = take(&mut mistakes, text("CURFEW_TOPIC_ARN").and_then(|value| topic_arn(value.as_deref())));
        let mut topic = |name| take(&mut mistakes, text(name).and_then(|value| optional_topic(name, value)));
        let (account, chat_topic_arn) = (topic("CURFEW_ACCOUNT_TOPIC_ARN"), topic("CURFEW_CHAT_TOPIC_ARN"));
        let event_bus = take(&mut mistakes, text("CURFEW_EVENT_BUS").and_then(event_bus));
        let reply_url = take(&mut mistakes, text("CURFEW_REPLY_URL").and_then(reply_url));
        let hub_bucket = take(&mut mistakes, text("CURFEW_HUB_BUCKET").and_then(hub_bucket));
        let has_hub = !matches!(hub_bucket, Some(None));
        let reports = text("CURFEW_ORGANIZATION_REPORT");
        let reports = reports.and_then(|value| reports_organization(value.as_deref(), has_hub));
        let reports_organization = take(&mut mistakes, reports);
        let mode = take(&mut mistakes, text("CURFEW_MODE").and_then(|value| mode(value.as_deref())));
        let job_profile = take(&mut mistakes, text("CURFEW_JOB_PROFILE").and_then(profile));
        let trigger_buckets = take(&mut mistakes, text("CURFEW_TRIGGER_BUCKETS").and_then(trigger_buckets));
        let mut switch = |name| take(&mut mistakes, text(name).and_then(|value| is_yes(name, value.as_deref())));
        let (account_metrics, runs_schedules) = (switch("CURFEW_ACCOUNT_METRICS"), switch("CURFEW_SCHEDULES"));
        let mut regions = ["AWS_REGION", "AWS_DEFAULT_REGION"].into_iter().filter_map(|name| text(name).ok().flatten());
        let region = regions.find(|region| !region.is_empty());
        if region.is_none() {
            mistakes.push(InvalidValue::new("AWS_REGION is not set; set it, as Lambda does"));
        }
        let replica = text("CURFEW_REPLICA_BUCKET").and_then(|bucket| replica(bucket, text("CURFEW_REPLICA_REGION")?));
        let replica = take(&mut mistakes, replica).flatten();
        let is_restored = text("CURFEW_RESTORED").and_then(|value| is_yes("CURFEW_RESTORED", value.as_deref()));
        let is_restored = take(&mut mistakes, is_restored).unwrap_or_default();
        let is_right = mistakes.is_empty();
        let (Some(bucket), Some(teams), Some(mode), true) = (bucket, teams, mode, is_right) else {
            return Err(SettingsError(mistakes));
        };
        let own = StateBucket { bucket: bucket.clone(), region: Region::new(region.unwrap_or_default()) };
        let has_home = is_restored || replica.is_some();
        let topics = MessageTopics { teams, account: account.flatten() };
        Ok(Self {
            bucket,
            channels: NotificationChannels {
                topics,
                chat_topic_arn: chat_topic_arn.flatten(),
                event_bus: event_bus.flatten(),
                reply_url: reply_url.flatten(),
            },
            hub_bucket: hub_bucket.flatten(),
            reports_organization: reports_organization.unwrap_or_default(),
            mode,
            job_profile: job_profile.flatten(),
            trigger_buckets: trigger_buckets.unwrap_or_default(),
            account_metrics: account_metrics.unwrap_or_default(),
            runs_schedules: runs_schedules.unwrap_or_default(),
            home: has_home.then_some(HomeSettings { own, replica, is_restored }),
        })
    }
}

/// The value; a mistake is kept, and gives none.
fn take<T>(mistakes: &mut Vec<InvalidValue>, value: Result<T, InvalidValue>) -> Option<T> {
    value.map_err(|mistake| mistakes.push(mistake)).ok()
}

fn bucket(value: Option<&str>) -> Result<String, InvalidValue> {
    match value {
        None | Some("") => Err(InvalidValue::new("CURFEW_BUCKET is not set; set it to the name of the state bucket")),
        Some(name) if is_bucket_name(name) => Ok(name.to_owned()),
        Some(other) => Err(InvalidValue::new(format!(
            "CURFEW_BUCKET is {other:?}, which is not a bucket name; set it to the name alone, without s3:// or arn:"
        ))),
    }
}

fn trigger_buckets(value: Option<String>) -> Result<Vec<String>, InvalidValue> {
    let value = value.unwrap_or_default();
    let buckets: Vec<&str> = value.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
    match buckets.iter().find(|name| !is_bucket_name(name)) {
        None => Ok(buckets.into_iter().map(str::to_owned).collect()),
        Some(other) => Err(InvalidValue::new(format!(
            "CURFEW_TRIGGER_BUCKETS has {other:?}, which is not a bucket name; set it to names alone, separated by commas"
        ))),
    }
}

fn hub_bucket(value: Option<String>) -> Result<Option<String>, InvalidValue> {
    match value.filter(|name| !name.is_empty()) {
        Some(name) if !is_bucket_name(&name) => Err(InvalidValue::new(format!(
            "CURFEW_HUB_BUCKET is {name:?}, which is not a bucket name; set it to the name alone, without s3:// or arn:"
        ))),
        name => Ok(name),
    }
}

fn replica(bucket: Option<String>, region: Option<String>) -> Result<Option<StateBucket>, InvalidValue> {
    let (bucket, region) = (bucket.unwrap_or_default(), region.unwrap_or_default());
    if bucket.is_empty() && region.is_empty() {
        return Ok(None);
    }
    let replica = StateBucket { bucket, region: Region::new(region) };
    let wrong = |why| {
        let StateBucket { bucket, region } = &replica;
        InvalidValue::new(format!(
            "CURFEW_REPLICA_BUCKET is {bucket:?} and CURFEW_REPLICA_REGION {region:?}, and {why}; set both, or none"
        ))
    };
    replica.check().map_err(wrong)?;
    Ok(Some(replica))
}

fn reports_organization(value: Option<&str>, has_hub: bool) -> Result<bool, InvalidValue> {
    let reports = is_yes("CURFEW_ORGANIZATION_REPORT", value)?;
    if reports && !has_hub {
        return Err(InvalidValue::new(
            "CURFEW_ORGANIZATION_REPORT is yes without CURFEW_HUB_BUCKET; set that to the bucket of the organization",
        ));
    }
    Ok(reports)
}

fn topic_arn(value: Option<&str>) -> Result<String, InvalidValue> {
    match value {
        None | Some("") => Err(InvalidValue::new(
            "CURFEW_TOPIC_ARN is not set; set it to the ARN of the SNS topic that people subscribe to",
        )),
        Some(arn) => standard_topic("CURFEW_TOPIC_ARN", arn),
    }
}

fn optional_topic(variable: &str, value: Option<String>) -> Result<Option<String>, InvalidValue> {
    let arn = value.filter(|arn| !arn.is_empty());
    arn.map(|arn| standard_topic(variable, &arn)).transpose()
}

fn standard_topic(variable: &str, arn: &str) -> Result<String, InvalidValue> {
    let wrong = |why: &str| InvalidValue::new(format!("{variable} is {arn:?}, {why}"));
    let region = topic_region(arn).ok_or_else(|| {
        wrong("which is not the ARN of a standard topic; an example is arn:aws:sns:eu-central-1:123456789012:curfew")
    })?;
    let partition = Partition::supported(region).map_err(|refusal| wrong(&format!("and {refusal}")))?;
    if !arn.starts_with(&format!("arn:{}:", partition.name)) {
        return Err(wrong(&format!("and ARNs in {region} begin with arn:{}", partition.name)));
    }
    Ok(arn.to_owned())
}

/// Amazon `EventBridge` API reference, "`CreateEventBus`": 1 to 256 of these characters.
fn event_bus(value: Option<String>) -> Result<Option<String>, InvalidValue> {
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || b"/.-_".contains(&byte);
    match value.filter(|name| !name.is_empty()) {
        Some(name) if name.len() > 256 || !name.bytes().all(is_legal) => Err(InvalidValue::new(format!(
            "CURFEW_EVENT_BUS is {name:?}, which is not the name of an event bus; set it to the name alone, without arn:, such as default"
        ))),
        name => Ok(name),
    }
}

/// The address of a function, as CloudFormation gives it: with `/` at its end.
fn reply_url(value: Option<String>) -> Result<Option<String>, InvalidValue> {
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || b".-/".contains(&byte);
    let is_url = |url: &str| {
        let host = url.strip_prefix("https://").and_then(|rest| rest.strip_suffix('/'));
        host.is_some_and(|host| !host.is_empty() && host.bytes().all(is_legal))
    };
    match value.filter(|url| !url.is_empty()) {
        Some(url) if !is_url(&url) => Err(InvalidValue::new(format!(
            "CURFEW_REPLY_URL is {url:?}, which is not the address of a function; set it to the stack's output ReplyUrl, such as \
             https://abc.lambda-url.eu-central-1.on.aws/"
        ))),
        url => Ok(url),
    }
}

/// The region of `arn:<partition>:sns:<region>:<account>:<name>` (Service Authorization Reference, "Resource types defined by Amazon
/// SNS"). The `.fifo` of a FIFO topic is refused: e-mail addresses cannot subscribe to one.
fn topic_region(arn: &str) -> Option<&str> {
    let parts: Vec<&str> = arn.split(':').collect();
    let ["arn", partition, "sns", region, account, name] = parts.as_slice() else { return None };
    let is_legal = partition.starts_with("aws")
        && !region.is_empty()
        && region.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        && account.len() == 12
        && account.bytes().all(|byte| byte.is_ascii_digit())
        && (1..=256).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    is_legal.then_some(*region)
}

/// The value of a switch: `yes`, or `no`, which stands for an absent one.
fn is_yes(name: &str, value: Option<&str>) -> Result<bool, InvalidValue> {
    match value {
        None | Some("" | "no") => Ok(false),
        Some("yes") => Ok(true),
        Some(other) => Err(InvalidValue::new(format!("{name} is {other:?}; set it to yes or no"))),
    }
}

fn mode(value: Option<&str>) -> Result<Mode, InvalidValue> {
    let Some(text) = value else { return Ok(Mode::Observe) };
    Mode::read(text).ok_or_else(|| InvalidValue::new(format!("CURFEW_MODE is {text:?}; set it to observe or enforce")))
}

/// IAM API reference, "`CreateInstanceProfile`": 1 to 128 of these characters.
fn profile(value: Option<String>) -> Result<Option<String>, InvalidValue> {
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || b"_+=,.@-".contains(&byte);
    match value.filter(|name| !name.is_empty()) {
        Some(name) if name.len() > 128 || !name.bytes().all(is_legal) => Err(InvalidValue::new(format!(
            "CURFEW_JOB_PROFILE is {name:?}, which is not the name of an instance profile; set it to the name alone, without arn: or a path"
        ))),
        name => Ok(name),
    }
}

#[cfg(test)]
mod tests;
