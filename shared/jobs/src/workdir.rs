//! The directory of code that a job brings along: one archive, named by its content.
//!
//! An archive is a GNU tar of files, directories and links, compressed by Zstandard (RFC 8878). Equal directories have equal archives,
//! so each is uploaded once. The agent compares the digest before it unpacks anything, so a writer of the bucket cannot
//! change what a job runs.

use std::fmt;

use jiff::SignedDuration;
use model::digest::{is_sha256_hex, sha256_hex};
use model::fault::InvalidValue;

/// The largest archive, in bytes: a laptop uploads it in minutes, and the agent holds it in memory once. Data belongs into a bucket.
pub const WORKDIR_ARCHIVE_BYTES_MAX: usize = 256 * 1024 * 1024;

/// The most bytes that an archive unpacks to. Source code compresses to a third or a quarter; more is a mistake or an attack.
pub const WORKDIR_UNPACKED_BYTES_MAX: u64 = 512 * 1024 * 1024;

/// The most files, directories and links of an archive: a large repository has half as many.
pub const WORKDIR_ENTRIES_MAX: usize = 100_000;

/// Time that the bucket keeps an archive after its upload: the rule `old-workdirs` of the template.
pub const WORKDIR_KEPT: SignedDuration = SignedDuration::from_hours(180 * 24);

const PREFIX: &str = "sha256:";
const DIGITS: usize = 64;

/// The SHA-256 of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkdirDigest(String);

impl WorkdirDigest {
    /// Reads 64 lower-case hexadecimal digits; `None` of anything else.
    fn from_hex(digits: &str) -> Option<Self> {
        is_sha256_hex(digits).then(|| Self(digits.to_owned()))
    }

    /// Computes the digest of an archive.
    #[must_use]
    pub fn from_archive(archive: &[u8]) -> Self {
        Self(sha256_hex(archive))
    }

    /// Reads a digest as the document of a job writes it: `sha256:<digits>`.
    ///
    /// # Errors
    /// If it is anything else.
    pub fn read(text: &str) -> Result<Self, InvalidValue> {
        let digest = text.strip_prefix(PREFIX).and_then(Self::from_hex);
        digest.ok_or_else(|| {
            InvalidValue::new(format!(
                "`curfew submit --workdir` writes it: `{PREFIX}` and {DIGITS} hexadecimal digits, not {text:?}; to bring a \
                 directory along, leave the key out and name the directory by --workdir"
            ))
        })
    }

    /// The digits.
    #[must_use]
    pub fn hex(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for WorkdirDigest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{PREFIX}{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, is_legal: bool) {
        let read = WorkdirDigest::read(text);
        assert_eq!(read.is_ok(), is_legal, "{read:?}");
        if let Ok(digest) = read {
            assert_eq!(digest.to_string(), text);
        }
    }

    #[test]
    fn a_digest_has_one_spelling() {
        let digits = "0123456789abcdef".repeat(4);
        check(&format!("sha256:{digits}"), true);
        check(&digits, false);
        check(&format!("sha256:{}", digits.to_uppercase()), false);
        check(&format!("sha256:{digits}0"), false);
        check(&format!("sha256:{}", &digits[1..]), false);
        check("sha256:../../../etc/passwd", false);
        check(".", false);
        assert!(WorkdirDigest::read(".").unwrap_err().to_string().contains("--workdir"));
    }
}
