//! What can go wrong with the bucket, as sentences that say what to do.

use domain::id::Region;
use domain::observed::{Gap, GapKind};
use domain::report::SCHEMA;

use crate::bucket::{DELETE, LIST};

/// The longest text of AWS that an error repeats, in characters.
const SAID_CHARACTERS_MAX: usize = 500;

/// What went wrong with the bucket. The sentence is complete: there are no sources to add.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// S3 refused a call, or did not answer it.
    #[error("{action} on {address} failed: {said}; {advice}")]
    Call {
        /// The call by its IAM action, such as `s3:GetObject`.
        action: &'static str,
        /// The object, as `s3://<bucket>/<key>`.
        address: String,
        /// What AWS said.
        said: String,
        /// What to do about it.
        advice: &'static str,
    },
    /// A document is larger than any that Curfew writes.
    #[error("{address} has {bytes} bytes, and Curfew reads {bytes_max} at most; look at what is in it")]
    TooLarge {
        /// The object, as `s3://<bucket>/<key>`.
        address: String,
        /// Its size; where S3 did not tell it, as much of it as was read.
        bytes: usize,
        /// The most that is read.
        bytes_max: usize,
    },
    /// More objects than are listed.
    #[error("{address} has more than {keys_max} objects; look at what wrote them")]
    TooMany {
        /// What their names begin with, as `s3://<bucket>/<prefix>`.
        address: String,
        /// The most that are listed.
        keys_max: usize,
    },
    /// A document of another version of Curfew.
    #[error(
        "{address} has schema {found}, and this version of Curfew knows schema {SCHEMA}; deploy the version that wrote it, \
         or delete it: {if_lost}"
    )]
    UnknownSchema {
        /// The object, as `s3://<bucket>/<key>`.
        address: String,
        /// Its schema as JSON, or `none`.
        found: String,
        /// What it means to delete it.
        if_lost: &'static str,
    },
    /// A document that Curfew did not write.
    #[error("{address} cannot be understood ({problem}); delete it: {if_lost}")]
    Unreadable {
        /// The object, as `s3://<bucket>/<key>`.
        address: String,
        /// What is wrong, and where.
        problem: String,
        /// What it means to delete it.
        if_lost: &'static str,
    },
    /// A value without a form in JSON.
    #[error(
        "{address} was not written, because its value has no form in JSON ({problem}); that is a mistake in Curfew"
    )]
    Unwritable {
        /// The object, as `s3://<bucket>/<key>`.
        address: String,
        /// What is wrong.
        problem: String,
    },
    /// Another run wrote the document since this one read it. Read it again, or leave it to the next run.
    #[error("{address} was written by another run in the meantime, and not overwritten; the next run reads it again")]
    Lost {
        /// The object, as `s3://<bucket>/<key>`.
        address: String,
    },
}

impl StoreError {
    /// `code` is AWS's, such as `AccessDenied`.
    pub(crate) fn call(action: &'static str, address: String, code: Option<&str>, said: &str) -> Self {
        let said = said.trim().trim_end_matches('.').chars().take(SAID_CHARACTERS_MAX).collect();
        Self::Call { action, address, said, advice: advice(action, code) }
    }

    /// The call that failed, by its IAM action.
    #[must_use]
    pub const fn action(&self) -> &'static str {
        match self {
            Self::Call { action, .. } => action,
            Self::TooLarge { .. } | Self::UnknownSchema { .. } | Self::Unreadable { .. } => "s3:GetObject",
            Self::TooMany { .. } => LIST,
            Self::Unwritable { .. } | Self::Lost { .. } => "s3:PutObject",
        }
    }

    /// Whether it comes again however often the same is tried, until somebody changes something.
    #[must_use]
    pub fn lasts(&self) -> bool {
        match self {
            Self::Call { advice, .. } => *advice != AGAIN,
            Self::Lost { .. } => false,
            _ => true,
        }
    }

    /// The same as a gap of an observation, in the bucket's region.
    #[must_use]
    pub fn gap(&self, home: &Region) -> Gap {
        Gap { region: home.clone(), call: self.action().to_owned(), error: self.to_string(), kind: GapKind::Part }
    }
}

/// What passes.
const AGAIN: &str = "the next run tries again";

/// Amazon S3 API reference, "Error responses".
fn advice(action: &'static str, code: Option<&str>) -> &'static str {
    match code {
        Some("NoSuchBucket") => "set CURFEW_BUCKET to the name of the state bucket",
        // Amazon S3 API reference, "GetObject": without s3:ListBucket an absent object answers 403.
        Some("AccessDenied") if action == "s3:GetObject" => {
            "grant the role that asked s3:GetObject on it, and s3:ListBucket on the bucket, without which an absent object looks forbidden"
        }
        Some("AccessDenied") if action == LIST => "grant the role that asked s3:ListBucket on the bucket",
        Some("AccessDenied") if action == DELETE => "grant the role that asked s3:DeleteObject on it",
        Some("AccessDenied") => {
            "grant the role that asked s3:PutObject on it, and the use of the bucket's KMS key where it has one"
        }
        Some("PermanentRedirect" | "AuthorizationHeaderMalformed" | "IllegalLocationConstraintException") => {
            "deploy Curfew in the region of the state bucket"
        }
        _ => AGAIN,
    }
}

#[cfg(test)]
mod tests;
