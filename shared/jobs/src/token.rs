//! The client token of a launch.

use model::digest::sha256_hex;

use super::JobId;

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
