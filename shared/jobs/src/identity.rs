//! The identity of a machine: its user data has it, and its agent reads it.

use jiff::Timestamp;
use model::id::Region;
use serde::{Deserialize, Serialize};

use super::JobId;
use super::spec::is_zero;

/// `/etc/curfew/identity.json` on the machine. No secret, and nothing that a spec says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineIdentity {
    /// Always [`SCHEMA`](super::documents::SCHEMA).
    pub schema: u32,
    /// The state bucket.
    pub bucket: String,
    pub region: Region,
    pub job: JobId,
    pub attempt: u32,
    /// The latest failed attempt that is retried; 0 if none is. A failure of a later attempt in head has not been read, and fences this one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub retry_of: u32,
    /// The launch: [`launch_id`](super::launch_id) of its client token. A delayed request may launch a second machine of one attempt beside that of
    /// another pool; the fence tells the two apart.
    pub launch: String,
    /// The attempt's absolute end, to the second.
    pub ends_at: Timestamp,
    /// The SHA-256 of the agent, in hex: `agent/<sha256>` in the bucket.
    pub agent_sha256: String,
}
