//! Errors of the bucket, as sentences that say what to do.

use std::fmt::{self, Display, Formatter};

use model::config::ConfigError;
use model::fault::Passing;
use model::id::Region;
use model::observation::{Gap, GapKind};

/// Calls by their IAM actions.
pub mod action {
    /// Listing objects.
    pub const LIST: &str = "s3:ListBucket";
    /// Listing versions of objects.
    pub const LIST_VERSIONS: &str = "s3:ListBucketVersions";
    /// Deleting an object.
    pub const DELETE: &str = "s3:DeleteObject";
    /// Deleting one version of an object.
    pub const DELETE_VERSION: &str = "s3:DeleteObjectVersion";
}

use action::{DELETE, DELETE_VERSION, LIST, LIST_VERSIONS};

/// The longest text of AWS that an error repeats, in characters.
const SAID_CHARACTERS_MAX: usize = 500;
/// The longest address that an error names: S3 refuses a longer key, which may have a thousand letters.
const ADDRESS_CHARACTERS_MAX: usize = 300;

/// Error of the bucket. The sentence is complete: there are no sources to add.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// S3 refused a call, or did not answer it.
    #[error("{action} on {address} failed: {said}{advice}")]
    Call {
        /// The call by its IAM action, such as `s3:GetObject`.
        action: &'static str,
        /// The object, as `s3://<bucket>/<key>`.
        address: String,
        /// AWS's message.
        said: String,
        /// Advice to the reader of the error.
        advice: CallAdvice,
    },
    /// A document is larger than any that Curfew writes.
    #[error("{address} has {bytes} bytes, and Curfew reads and writes {bytes_max} at most; look at what is in it")]
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
        /// Prefix of the objects' keys, as `s3://<bucket>/<prefix>`.
        address: String,
        /// The most that are listed.
        keys_max: usize,
    },
    /// A document of another version of Curfew.
    #[error(
        "{address} has schema {found}, and this version of Curfew knows schema {known}; deploy the version that wrote it, \
         or delete it: {if_lost}"
    )]
    UnknownSchema {
        /// The object, as `s3://<bucket>/<key>`.
        address: String,
        /// Its schema as JSON, or `none`.
        found: String,
        /// The schema of this version.
        known: u32,
        /// Effect of deleting it.
        if_lost: &'static str,
    },
    /// A document that Curfew did not write.
    #[error("{address} cannot be understood ({problem}); delete it: {if_lost}")]
    Unreadable {
        /// The object, as `s3://<bucket>/<key>`.
        address: String,
        /// Problem, and its place in the document.
        problem: String,
        /// Effect of deleting it.
        if_lost: &'static str,
    },
    /// A document that says that it is of something else than its address does: somebody has copied it there, or forged it.
    #[error(
        "{address} says that it is of {says}, so Curfew does not believe it; look who wrote it there, and delete it: {if_lost}"
    )]
    Misplaced {
        /// The object, as `s3://<bucket>/<key>`.
        address: String,
        /// Subject that the document claims.
        says: String,
        /// Effect of deleting it.
        if_lost: &'static str,
    },
    /// A value without a form in JSON.
    #[error(
        "{address} was not written, because its value has no form in JSON ({problem}); that is a mistake in Curfew"
    )]
    Unwritable {
        /// The object, as `s3://<bucket>/<key>`.
        address: String,
        /// Reason that JSON has no form for the value.
        problem: String,
    },
    /// Another run wrote the document since this one read it. Read it again, or leave it to the next run.
    #[error("{address} was written by another run in the meantime, and not overwritten")]
    Lost {
        /// The object, as `s3://<bucket>/<key>`.
        address: String,
    },
    /// S3 refused a conditional write again and again, because other writes of the object were in progress. Nothing was written.
    #[error("{address} was not written, because others write it at the same time")]
    Conflict {
        /// The object, as `s3://<bucket>/<key>`.
        address: String,
    },
    /// A document that Curfew writes once and never changes already exists with other content.
    #[error(
        "{address} already has other content than Curfew writes there, and was not overwritten; find out who wrote it, and delete it"
    )]
    OtherContent {
        /// The object, as `s3://<bucket>/<key>`.
        address: String,
    },
}

/// Advice about a call that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallAdvice {
    /// Action of a person. The call fails until it is done.
    Do(&'static str),
    /// No action: the failure passes.
    Wait(Passing),
}

/// Text that follows the error.
impl Display for CallAdvice {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Do(advice) => write!(f, "; {advice}"),
            Self::Wait(_) => Ok(()),
        }
    }
}

/// Reason for a missing configuration. Without one a run acts on nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigLoadError {
    /// The document is wrong; its author has to mend it.
    #[error(transparent)]
    Refused(ConfigError),
    /// The document could not be read.
    #[error(transparent)]
    Unreachable(StoreError),
}

impl StoreError {
    /// A call that failed. `code` is AWS's, such as `AccessDenied`.
    #[must_use]
    pub fn call(action: &'static str, address: String, code: Option<&str>, said: &str) -> Self {
        let address = bounded_address(address);
        Self::Call { action, address, said: in_short(said), advice: advice(action, code) }
    }

    /// S3 was not reached.
    #[must_use]
    pub fn unreached(action: &'static str, address: String, said: &str) -> Self {
        let address = bounded_address(address);
        Self::Call { action, address, said: in_short(said), advice: CallAdvice::Wait(Passing::Unreached) }
    }

    /// Returns `true` if no run will ever read the document, and any run may replace it. This excludes a document of another version, and
    /// one that S3 does not hand out for now.
    #[must_use]
    pub const fn is_unreadable(&self) -> bool {
        matches!(self, Self::TooLarge { .. } | Self::Unreadable { .. })
    }

    /// Returns `true` if this one object cannot be read until somebody changes it, or who may read it. Other objects may still be readable.
    #[must_use]
    pub fn is_of_one_object(&self) -> bool {
        self.lasts() && self.action() == "s3:GetObject"
    }

    /// The call that failed, by its IAM action.
    #[must_use]
    pub const fn action(&self) -> &'static str {
        match self {
            Self::Call { action, .. } => action,
            Self::TooLarge { .. } | Self::UnknownSchema { .. } | Self::Unreadable { .. } | Self::Misplaced { .. } => {
                "s3:GetObject"
            }
            Self::TooMany { .. } => LIST,
            Self::Unwritable { .. } | Self::Lost { .. } | Self::Conflict { .. } | Self::OtherContent { .. } => {
                "s3:PutObject"
            }
        }
    }

    /// Returns `true` if every repeat of the call fails until somebody changes something.
    #[must_use]
    pub const fn lasts(&self) -> bool {
        self.passing().is_none()
    }

    /// Returns how the failure passes if the same call can succeed later by itself.
    #[must_use]
    pub const fn passing(&self) -> Option<Passing> {
        match self {
            Self::Call { advice: CallAdvice::Wait(passing), .. } => Some(*passing),
            Self::Lost { .. } | Self::Conflict { .. } => Some(Passing::Later),
            _ => None,
        }
    }

    /// Returns the error as a gap of an observation, in the bucket's region.
    #[must_use]
    pub fn gap(&self, home: &Region) -> Gap {
        Gap { passing: self.passing(), ..Gap::new(home, self.action(), self.to_string(), GapKind::Part) }
    }
}

fn bounded_address(mut address: String) -> String {
    if let Some((end, _)) = address.char_indices().nth(ADDRESS_CHARACTERS_MAX) {
        address.truncate(end);
        address.push('…');
    }
    address
}

fn in_short(said: &str) -> String {
    said.trim().trim_end_matches('.').chars().take(SAID_CHARACTERS_MAX).collect()
}

/// Amazon S3 API reference, "Error responses".
fn advice(action: &'static str, code: Option<&str>) -> CallAdvice {
    CallAdvice::Do(match code {
        Some("NoSuchBucket") => "set CURFEW_BUCKET to the name of the state bucket",
        // Amazon S3 API reference, "GetObject": without s3:ListBucket an absent object answers 403.
        Some("AccessDenied") if action == "s3:GetObject" => {
            "grant the role that asked s3:GetObject on it, and s3:ListBucket on the bucket, without which an absent object looks forbidden"
        }
        // The writer of an object chooses its storage class and its key of KMS.
        Some(
            "InvalidObjectState"
            | "InvalidRequest"
            | "KMS.DisabledException"
            | "KMS.KMSInvalidStateException"
            | "KMS.NotFoundException",
        ) if action == "s3:GetObject" => {
            "write it again, in the storage class STANDARD and with the default encryption of its bucket"
        }
        Some("KeyTooLongError") => "use a shorter name",
        Some("AccessDenied") if action == LIST => "grant the role that asked s3:ListBucket on the bucket",
        Some("AccessDenied") if action == LIST_VERSIONS => {
            "grant the role that asked s3:ListBucketVersions on the bucket"
        }
        Some("AccessDenied") if action == DELETE => "grant the role that asked s3:DeleteObject on it",
        Some("AccessDenied") if action == DELETE_VERSION => "grant the role that asked s3:DeleteObjectVersion on it",
        Some("AccessDenied") => {
            "grant the role that asked s3:PutObject on it, and the use of the bucket's KMS key where it has one"
        }
        Some("PermanentRedirect" | "AuthorizationHeaderMalformed" | "IllegalLocationConstraintException") => {
            "deploy Curfew in the region of the state bucket"
        }
        _ => return CallAdvice::Wait(Passing::Later),
    })
}

#[cfg(test)]
mod tests;
