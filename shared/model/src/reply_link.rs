//! Links by which a reader of an announcement answers it with one click: of an action on a resource, or of the end of a box.
//!
//! A link is a capability: its token is random and secret, and nothing stores it. The bucket has a document about it, whose key is the
//! token's hash, so that a reader of the bucket cannot make the link of it.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::digest::{sha256_hex, to_hex};
use crate::id::{Region, ResourceId};
use crate::mark::whole_second;
use crate::moment::after;
use crate::observation::ObservedResource;
use crate::rule::{ResourceAction, Rule};

/// Number of random bytes of a token.
pub const TOKEN_BYTES: usize = 32;

/// Time after the deadline in which a link still works: long enough to undo what was done over a weekend.
const VALID_AFTER_DEADLINE: SignedDuration = SignedDuration::from_hours(7 * 24);

/// The path of links below the address of the function, before their token.
pub const LINK_PATH: &str = "r/";

/// The secret of a link, in hexadecimal digits: mail programs leave a `-` or `_` out of a link that ends with it.
#[derive(Clone, PartialEq, Eq)]
pub struct ReplyToken(String);

impl ReplyToken {
    /// The token of random bytes.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; TOKEN_BYTES]) -> Self {
        Self(to_hex(bytes))
    }

    /// Reads a token that somebody sent; `None` if Curfew makes none of that form.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let is_legal = text.len() == 2 * TOKEN_BYTES && text.bytes().all(is_digit);
        is_legal.then(|| Self(text.to_owned()))
    }

    /// The name of the link's document: the SHA-256 of the token, in hexadecimal digits.
    #[must_use]
    pub fn hash(&self) -> String {
        sha256_hex(self.0.as_bytes())
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The document of a link, of either kind. The fields of the two tell them apart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum LinkDocument {
    Resource(ReplyLink),
    Box(BoxLink),
}

/// The subject of a link: a run makes one link for each.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum LinkSubject {
    Resource(Region, ResourceId),
    /// A box, by its job, `<team>/<job>`.
    Box(String),
}

/// The document of a link about an action on a resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplyLink {
    pub region: Region,
    pub resource: ResourceId,
    /// Beginning of the life of the resource that the link is about.
    pub since: Timestamp,
    /// Description for people: `g5.xlarge`.
    pub what: String,
    /// Its `Name` tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    pub action: ResourceAction,
    pub rule: Rule,
    /// The reason, as in the announcement: `it has been idle since 2026-09-01T10:00:00Z`.
    pub why: String,
    /// The data that the action loses for good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loses: Option<String>,
    /// Earliest time of the action.
    pub deadline: Timestamp,
    pub sent_to: LinkRecipient,
    pub expires_at: Timestamp,
    /// The use of the link, which works once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<LinkUse>,
}

/// The document of a link about the end of a box.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoxLink {
    #[serde(flatten)]
    pub ending: EndingBox,
    pub sent_to: LinkRecipient,
    /// The use of the link, which works once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<LinkUse>,
}

/// A box whose end is near.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndingBox {
    /// The job that has it, `<team>/<job>`.
    pub job: String,
    /// `<team>/<name>`.
    #[serde(rename = "box")]
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Its end, unless a person moves it or it is idle before.
    pub ends_at: Timestamp,
    /// The end of its machine, which nobody moves: a link works until then.
    pub expires_at: Timestamp,
}

/// The readers of the announcement that has the link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkRecipient {
    /// The function that announced it.
    pub function: String,
    /// The `team` attribute of the message.
    pub team: String,
    /// ARN of the topic.
    pub topic: String,
    pub at: Timestamp,
}

/// The use of a link, written before the action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkUse {
    pub choice: String,
    pub at: Timestamp,
    /// The IP address that the choice came from, or `chat`.
    pub from: String,
}

impl LinkDocument {
    #[must_use]
    pub fn subject(&self) -> LinkSubject {
        match self {
            Self::Resource(link) => LinkSubject::Resource(link.region.clone(), link.resource.clone()),
            Self::Box(link) => LinkSubject::Box(link.ending.job.clone()),
        }
    }

    /// The name of its subject, for people.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Resource(link) => link.resource.as_str(),
            Self::Box(link) => &link.ending.name,
        }
    }

    /// The announced time.
    #[must_use]
    pub const fn deadline(&self) -> Timestamp {
        match self {
            Self::Resource(link) => link.deadline,
            Self::Box(link) => link.ending.ends_at,
        }
    }

    #[must_use]
    pub const fn expires_at(&self) -> Timestamp {
        match self {
            Self::Resource(link) => link.expires_at,
            Self::Box(link) => link.ending.expires_at,
        }
    }

    #[must_use]
    pub const fn sent_to(&self) -> &LinkRecipient {
        match self {
            Self::Resource(ReplyLink { sent_to, .. }) | Self::Box(BoxLink { sent_to, .. }) => sent_to,
        }
    }

    #[must_use]
    pub const fn used(&self) -> Option<&LinkUse> {
        match self {
            Self::Resource(ReplyLink { used, .. }) | Self::Box(BoxLink { used, .. }) => used.as_ref(),
        }
    }

    /// The document after this use.
    #[must_use]
    pub fn used_by(mut self, by: LinkUse) -> Self {
        match &mut self {
            Self::Resource(ReplyLink { used, .. }) | Self::Box(BoxLink { used, .. }) => *used = Some(by),
        }
        self
    }

    /// `true` if the link works at `now`.
    #[must_use]
    pub fn is_open(&self, now: Timestamp) -> bool {
        self.used().is_none() && now < self.expires_at()
    }
}

impl ReplyLink {
    /// The time until which a link about an action with this deadline works.
    #[must_use]
    pub fn expiry(deadline: Timestamp) -> Timestamp {
        after(deadline, VALID_AFTER_DEADLINE)
    }

    /// `true` if the resource still has the life that the link is about. An instance that was started again, or an endpoint that was made
    /// again under its name, has another one.
    #[must_use]
    pub fn is_about(&self, seen: &ObservedResource) -> bool {
        seen.id() == &self.resource && seen.region() == &self.region && life(seen) == Some(self.since)
    }
}

/// The beginning of the life of a resource, in whole seconds; `None` for a snapshot, which no link is about.
#[must_use]
pub fn life(seen: &ObservedResource) -> Option<Timestamp> {
    match seen {
        ObservedResource::Instance(instance) => Some(whole_second(instance.launched_at)),
        ObservedResource::Volume(volume) => Some(whole_second(volume.created_at)),
        ObservedResource::SageMaker(resource) => Some(whole_second(resource.created_at)),
        ObservedResource::Snapshot(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn no_other_text_is_a_token() {
        let token = ReplyToken::from_bytes(&[0xfb; TOKEN_BYTES]);
        assert_eq!(token.as_str(), "fb".repeat(TOKEN_BYTES));
        assert!(ReplyToken::read(token.as_str()) == Some(token.clone()));
        let rest = &token.as_str()[1..];
        for text in ["", rest, &format!("{token}0", token = token.as_str()), &format!("F{rest}"), &format!("/{rest}")] {
            assert!(ReplyToken::read(text).is_none(), "{text}");
        }
    }

    #[test]
    fn a_hash_says_nothing_of_its_token() {
        let [one, other] = [0, 1].map(|byte| ReplyToken::from_bytes(&[byte; TOKEN_BYTES]));
        assert_eq!(one.hash(), "60e05bd1b195af2f94112fa7197a5c88289058840ce7c6df9693756bc6250f55");
        assert_ne!(one.hash(), other.hash());
    }

    #[test]
    fn the_two_kinds_are_told_apart_and_that_of_a_resource_is_as_it_was() {
        let resource = fixture::reply_link(&ObservedResource::Instance(fixture::instance().build()));
        let json = serde_json::to_string(&resource).unwrap();
        let read: LinkDocument = serde_json::from_str(&json).unwrap();
        assert_eq!((serde_json::to_string(&read).unwrap(), read), (json, LinkDocument::Resource(resource)));
        let gpu_box = LinkDocument::Box(fixture::box_link());
        let json = serde_json::to_string(&gpu_box).unwrap();
        assert!(json.contains(r#""box":"vision/my-box","#), "{json}");
        assert_eq!(serde_json::from_str::<LinkDocument>(&json).unwrap(), gpu_box);
        assert!(serde_json::from_str::<LinkDocument>(&json.replace("\"box\"", "\"bag\"")).is_err());
    }

    #[test]
    fn a_link_is_about_one_life() {
        let instance = fixture::instance().build();
        let link = fixture::reply_link(&ObservedResource::Instance(instance.clone()));
        let check = |seen: ObservedResource, expect| assert_eq!(link.is_about(&seen), expect, "{seen:?}");
        let mut started_again = instance.clone();
        started_again.launched_at = after(instance.launched_at, SignedDuration::from_secs(1));
        let elsewhere = crate::instance::Instance { region: "eu-west-1".into(), ..instance.clone() };
        check(ObservedResource::Instance(instance), true);
        check(ObservedResource::Instance(started_again), false);
        check(ObservedResource::Instance(elsewhere), false);
        check(ObservedResource::SageMaker(fixture::endpoint().build()), false);
    }
}
