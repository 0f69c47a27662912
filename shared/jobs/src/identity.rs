//! The identity of a machine, which its user data has and its agent reads, and the client token of its launch.

use jiff::Timestamp;
use model::digest::sha256_hex;
use model::home::StateBucket;
use model::id::Region;
use serde::{Deserialize, Serialize};

use super::JobId;
use super::spec::{is_one_node, is_zero, one_node};

/// `/etc/curfew/identity.json` on the machine. No secret, and nothing that a spec says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineIdentity {
    /// Always [`SCHEMA`](super::documents::SCHEMA).
    pub schema: u32,
    /// The state bucket.
    pub bucket: String,
    pub region: Region,
    /// The copy of that bucket in another region; `None`: it has none. The agent moves there once the record of the stack that acts says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica: Option<StateBucket>,
    /// `true` if the bucket was a copy itself: what head names may not be whole there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_restored: bool,
    pub job: JobId,
    pub attempt: u32,
    /// Number of machines of the launch, which run the command together.
    #[serde(default = "one_node", skip_serializing_if = "is_one_node")]
    pub nodes: u8,
    /// The latest failed attempt that is retried; 0 if none is. A failure of a later attempt in head has not been read, and fences this one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub retry_of: u32,
    /// The launch: [`launch_id`] of its client token. A delayed request may launch a second machine of one attempt beside that of
    /// another pool; the fence tells the two apart.
    pub launch: String,
    /// The attempt's absolute end, to the second.
    pub ends_at: Timestamp,
    /// The SHA-256 of the agent, in hex: `agent/<sha256>` in the bucket.
    pub agent_sha256: String,
}

/// 64 ASCII characters, the most that EC2 takes (EC2 API reference, "Ensuring idempotency in Amazon EC2 API requests"): one for each job,
/// attempt, pass through the ranking, and candidate.
#[must_use]
pub fn launch_token(job: &JobId, attempt: u32, pass: u32, candidate: u8) -> String {
    let named = format!("{job}\n{attempt}\n{pass}\n{candidate}");
    sha256_hex(named.as_bytes())
}

/// The part of a token that distinguishes the launches of one attempt.
#[must_use]
pub fn launch_id(token: &str) -> String {
    token.chars().take(16).collect()
}
