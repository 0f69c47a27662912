//! The client token of a launch.

use sha2::{Digest, Sha256};

use super::JobId;

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// 64 ASCII characters, the most that EC2 takes (EC2 API reference, "Ensuring idempotency in Amazon EC2 API requests"): one for each job,
/// attempt, pass through the ranking, and candidate.
#[must_use]
pub fn token(job: &JobId, attempt: u32, pass: u32, candidate: u8) -> String {
    let named = format!("{job}\n{attempt}\n{pass}\n{candidate}");
    hex(&Sha256::digest(named.as_bytes()))
}

/// The SHA-256 of bytes, in hex: by it an agent is known.
#[must_use]
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// What tells the launches of one attempt apart, of its token.
#[must_use]
pub fn launch_id(token: &str) -> String {
    token.chars().take(16).collect()
}

/// Bytes in hex.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
        text
    })
}
