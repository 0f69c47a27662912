//! The subjects of the events of S3 and EC2.

use jiff::Timestamp;
use model::id::{Region, ResourceId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{OtherPayload, quoted};

/// An object that was written (Amazon S3 user guide, "`EventBridge` event message structure").
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectCreated {
    pub bucket: String,
    /// The key, as the event has it. The guide does not say whether it is URL-encoded, as it is in S3's own notifications.
    pub key: String,
    /// Its `ETag`, which a later one may have replaced.
    pub etag: Option<String>,
    /// Its version, in a bucket with versions.
    pub version: Option<String>,
    pub bytes: Option<u64>,
    /// Time of the write, to the second.
    pub at: Option<Timestamp>,
}

/// An instance (EC2 user guide, "Spot Instance interruption notices", "EC2 instance rebalance recommendations" and "State change
/// events for your instances").
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceEvent {
    /// Its region, which may differ from the function's.
    pub region: Region,
    pub instance: ResourceId,
}

#[derive(Deserialize)]
struct Detail {
    bucket: Bucket,
    object: Object,
}

#[derive(Deserialize)]
struct Bucket {
    name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Object {
    key: String,
    #[serde(default)]
    size: Option<u64>,
    #[serde(default)]
    etag: Option<String>,
    #[serde(default)]
    version_id: Option<String>,
}

#[derive(Deserialize)]
struct Instance {
    #[serde(rename = "instance-id")]
    id: String,
}

impl ObjectCreated {
    /// The key decoded as if the event had encoded it, if that differs: `+` is a blank, and `%` begins two hexadecimal digits.
    #[must_use]
    pub fn decoded_key(&self) -> Option<String> {
        let mut bytes = Vec::with_capacity(self.key.len());
        let mut rest = self.key.bytes();
        while let Some(byte) = rest.next() {
            bytes.push(match byte {
                b'+' => b' ',
                b'%' => 16 * hex_digit(rest.next()?)? + hex_digit(rest.next()?)?,
                other => other,
            });
        }
        String::from_utf8(bytes).ok().filter(|decoded| *decoded != self.key)
    }
}

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

pub(super) fn object_created(at: Option<Timestamp>, detail: Option<Value>) -> Result<ObjectCreated, OtherPayload> {
    let Detail { bucket, object } = read(detail, "Object Created from aws.s3")?;
    let Object { key, size: bytes, etag, version_id: version } = object;
    Ok(ObjectCreated { bucket: bucket.name, key, etag, version, bytes, at })
}

pub(super) fn instance_event(region: Option<&str>, detail: Option<Value>) -> Result<InstanceEvent, OtherPayload> {
    let Instance { id } = read(detail, "an event of aws.ec2")?;
    let is_word = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if !is_word(&id) || !id.starts_with("i-") {
        return Err(OtherPayload(format!("an event of the instance {}, which is not an instance id", quoted(&id))));
    }
    match region.filter(|region| !region.is_empty()) {
        Some(region) if is_word(region) => Ok(InstanceEvent { region: region.into(), instance: id.as_str().into() }),
        Some(region) => Err(OtherPayload(format!("an event of the region {}, which is none", quoted(region)))),
        None => Err(OtherPayload(format!("an event of {id} without a region"))),
    }
}

fn read<T: for<'de> Deserialize<'de>>(detail: Option<Value>, what: &str) -> Result<T, OtherPayload> {
    serde_json::from_value(detail.unwrap_or_default()).map_err(|error| {
        OtherPayload(format!("{what} with a detail that AWS does not send ({})", quoted(&error.to_string())))
    })
}
