//! Error of an AWS call, as one sentence: the call, AWS's answer, and what to do.

use std::collections::BTreeMap;
use std::time::Duration;

use model::fault::Passing;
use model::id::{Region, ResourceId};
use model::observation::{Gap, GapKind};
use model::refusal::RefusalReason;

use crate::aws_words;

/// A call that failed for good, all retries included.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{call} failed in {region}: {}", self.explained())]
pub struct CallError {
    /// The call by its IAM action, such as `ec2:DescribeInstances`.
    pub call: &'static str,
    /// Region that the call went to.
    pub region: Region,
    /// Kind of failure.
    pub kind: CallErrorKind,
    /// AWS's code, if it answered with one.
    pub code: Option<String>,
    /// AWS's code and words.
    pub message: String,
}

/// The kinds of failure that want different answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallErrorKind {
    /// The permission is missing, or denied.
    Denied {
        /// `true` if a policy of the organisation denies it, which no role of the account can change.
        by_organisation: bool,
    },
    /// EC2 says that it does not know the resource, now. An answer that leaves it out says nothing.
    NotFound,
    /// Too many calls, by whomever in the account.
    Throttled,
    /// AWS has no such capacity, now.
    Capacity,
    /// The resource is in a state that does not allow it.
    WrongState,
    /// Something hangs on the resource, by which it cannot go.
    InUse,
    /// The resource does not allow it in any state.
    Unsupported,
    /// AWS was not reached, or the connection broke: it may have been carried out.
    Unreached,
    /// No answer, or none that can be understood, or one of a server in trouble: it may have been carried out.
    Unanswered,
    /// An answer that was not complete in time.
    Incomplete,
    /// Anything else.
    Other,
}

impl CallErrorKind {
    /// Returns `true` if the result of the call is unknown.
    #[must_use]
    pub const fn is_unanswered(self) -> bool {
        matches!(self, Self::Unreached | Self::Unanswered)
    }

    /// Returns `true` if the same call may succeed within a minute.
    #[must_use]
    pub const fn is_passing(self) -> bool {
        matches!(self, Self::Throttled) || self.is_unanswered()
    }
}

/// EC2 API reference, "Error codes for the Amazon EC2 API", "Client error codes".
pub const SPOT_ROLE_MISSING: &str = "AuthFailure.ServiceLinkedRoleCreationNotPermitted";

/// EC2 API reference, "Error codes for the Amazon EC2 API": too many snapshots at once.
pub const SNAPSHOT_LIMITS: [&str; 3] =
    ["SnapshotCreationPerVolumeRateExceeded", "ConcurrentSnapshotLimitExceeded", "PendingSnapshotLimitExceeded"];

impl CallError {
    /// An error without a code of AWS.
    #[must_use]
    pub fn new(call: &'static str, region: &Region, kind: CallErrorKind, message: impl Into<String>) -> Self {
        Self { call, region: region.clone(), kind, code: None, message: message.into() }
    }

    /// Error of one or more calls that took too long for this run.
    #[must_use]
    pub fn timed_out(call: &'static str, region: &Region, timeout: Duration) -> Self {
        let message = format!("no complete answer within {} s", timeout.as_secs());
        Self::new(call, region, CallErrorKind::Incomplete, message)
    }

    /// Error of an answer that should be about one resource, and is not. `incomplete`: the answer is about it, but leaves out what must be
    /// known.
    ///
    /// The error does not say that the resource is gone: EC2 says that in an error, and AWS's own waiters accept nothing else as proof (AWS
    /// CLI reference, `wait volume-deleted`).
    #[must_use]
    pub fn without(call: &'static str, region: &Region, resource: &ResourceId, incomplete: bool) -> Self {
        let message = if incomplete {
            format!("EC2 left out what must be known of {resource}")
        } else {
            format!("EC2 answered without {resource}, and not that it is gone")
        };
        Self::new(call, region, CallErrorKind::Other, message)
    }

    /// AWS's message and what to do, without the call and the region.
    #[must_use]
    pub fn explained(&self) -> String {
        let said = self.message.trim_end_matches('.');
        match self.advice() {
            Some(advice) => format!("{said}; {advice}"),
            None => said.to_owned(),
        }
    }

    /// The reason for which AWS refuses it until a person changes something; `None` for any other failure. A permission that nobody
    /// granted is none: a deployment grants it.
    #[must_use]
    pub fn refusal(&self) -> Option<RefusalReason> {
        let code = self.code.as_deref();
        Some(match self.kind {
            CallErrorKind::Denied { by_organisation: true } => RefusalReason::OrganisationPolicy,
            CallErrorKind::Denied { .. } if self.message.contains(aws_words::EXPLICIT_DENY) => {
                RefusalReason::ExplicitDeny
            }
            CallErrorKind::InUse if self.is_snapshot_in_use() => self.snapshot_holder(),
            CallErrorKind::Unsupported => RefusalReason::Unsupported,
            // EC2 API reference, "Error codes for the Amazon EC2 API".
            CallErrorKind::Other => match code? {
                "OperationNotPermitted" if self.message.contains(aws_words::STOP_PROTECTION) => {
                    RefusalReason::StopProtection
                }
                "OperationNotPermitted" if self.message.contains(aws_words::TERMINATION_PROTECTION) => {
                    RefusalReason::TerminationProtection
                }
                "OperationNotPermitted" if self.says(aws_words::SNAPSHOT_LOCK) => RefusalReason::SnapshotLock,
                "OperationNotPermitted" => RefusalReason::Unsupported,
                "TagPolicyViolation" => RefusalReason::TagPolicy,
                "TagLimitExceeded" => RefusalReason::TooManyTags,
                _ => return None,
            },
            _ => return None,
        })
    }

    fn advice(&self) -> Option<String> {
        if let Some(remedy) = self.refusal().and_then(RefusalReason::remedy) {
            return Some(remedy.to_owned());
        }
        let code = self.code.as_deref().unwrap_or_default();
        let advice = match self.kind {
            CallErrorKind::Denied { .. } => {
                format!("grant {} to the role that asked", self.missing())
            }
            CallErrorKind::NotFound => "EC2 is eventually consistent, so this does not mean that it is gone".to_owned(),
            CallErrorKind::Throttled if SNAPSHOT_LIMITS.contains(&code) => {
                "so many snapshots at once are all that EC2 makes".to_owned()
            }
            CallErrorKind::Throttled => "the account makes too many calls".to_owned(),
            CallErrorKind::Capacity => "AWS has none at the moment".to_owned(),
            CallErrorKind::WrongState => "its state has changed".to_owned(),
            CallErrorKind::InUse if !self.is_snapshot_in_use() => "it is attached again".to_owned(),
            // EC2 user guide, "Service-linked role for EC2 Spot Instances".
            CallErrorKind::Other if code == SPOT_ROLE_MISSING => {
                "an administrator creates it once, by `aws iam create-service-linked-role --aws-service-name \
                 spot.amazonaws.com`"
                    .to_owned()
            }
            CallErrorKind::Other if matches!(code, "AuthFailure" | "OptInRequired" | "InvalidClientTokenId") => {
                format!("check that the account has enabled {}, and the credentials", self.region)
            }
            CallErrorKind::Unsupported
            | CallErrorKind::InUse
            | CallErrorKind::Unreached
            | CallErrorKind::Unanswered
            | CallErrorKind::Incomplete
            | CallErrorKind::Other => return None,
        };
        Some(advice)
    }

    /// EC2 API reference, "Error codes for the Amazon EC2 API".
    fn is_snapshot_in_use(&self) -> bool {
        self.code.as_deref() == Some("InvalidSnapshot.InUse")
    }

    /// The user of a snapshot, by EC2's own words. Of another one its message says all that is known.
    fn snapshot_holder(&self) -> RefusalReason {
        if self.says(aws_words::IMAGE) {
            RefusalReason::UsedByImage
        } else if self.says(aws_words::FAST_RESTORE) {
            RefusalReason::FastRestore
        } else if self.says(aws_words::SNAPSHOT_LOCK) {
            RefusalReason::SnapshotLock
        } else {
            RefusalReason::Unsupported
        }
    }

    fn says(&self, words: &str) -> bool {
        self.message.to_lowercase().contains(words)
    }

    /// Returns how the failure passes if the same call can succeed later by itself.
    #[must_use]
    pub fn passing(&self) -> Option<Passing> {
        match self.kind {
            CallErrorKind::Unreached => Some(Passing::Unreached),
            CallErrorKind::NotFound
            | CallErrorKind::Throttled
            | CallErrorKind::Capacity
            | CallErrorKind::WrongState
            | CallErrorKind::Incomplete => Some(Passing::Later),
            CallErrorKind::InUse if !self.is_snapshot_in_use() => Some(Passing::Later),
            CallErrorKind::InUse
            | CallErrorKind::Denied { .. }
            | CallErrorKind::Unsupported
            | CallErrorKind::Unanswered
            | CallErrorKind::Other => None,
        }
    }

    /// The action that is not granted: a call may need others, such as `iam:PassRole`, and newer denials name it.
    fn missing(&self) -> &str {
        let named = self.message.split_once(aws_words::NOT_AUTHORIZED_TO);
        let named = named.and_then(|(_, rest)| rest.split_whitespace().next());
        named.filter(|action| action.contains(':')).unwrap_or(self.call)
    }

    /// Something of the region stayed unseen.
    #[must_use]
    pub fn gap(&self) -> Gap {
        self.gap_of_kind(GapKind::Part)
    }

    /// The whole region stayed unseen.
    #[must_use]
    pub fn gap_of_region(&self) -> Gap {
        match self.kind {
            CallErrorKind::Denied { by_organisation: true } => self.gap_of_kind(GapKind::ForbiddenRegion),
            _ => self.gap_of_kind(GapKind::Region),
        }
    }

    /// Gap of this kind, for a caller that knows what stayed unseen.
    #[must_use]
    pub fn gap_of_kind(&self, kind: GapKind) -> Gap {
        Gap { passing: self.passing(), ..Gap::new(&self.region, self.call, self.explained(), kind) }
    }
}

/// One gap a call: the first error of it, and how many more there were.
#[must_use]
pub fn gaps(errors: Vec<CallError>) -> Vec<Gap> {
    let mut by_call: BTreeMap<&str, (Gap, usize)> = BTreeMap::new();
    for error in errors {
        by_call.entry(error.call).and_modify(|(_, more)| *more += 1).or_insert_with(|| (error.gap(), 0));
    }
    let with_count = |(gap, more): (Gap, usize)| match more {
        0 => gap,
        _ => Gap { error: format!("{} (and {more} more like it)", gap.error), ..gap },
    };
    by_call.into_values().map(with_count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remedy_fits_what_holds_a_snapshot() {
        let check = |kind: CallErrorKind, code: &str, message: &str, expect: RefusalReason| {
            let error = CallError::new("ec2:DeleteSnapshot", &Region::from("eu-west-1"), kind, message);
            let error = CallError { code: Some(code.to_owned()), ..error };
            assert_eq!(error.refusal(), Some(expect), "{message}");
            assert_eq!(error.explained().split_once("; ").map(|(_, remedy)| remedy), expect.remedy(), "{message}");
        };
        let in_use = |by: &str, expect| {
            let message = format!("The snapshot snap-1 is currently in use by {by}");
            check(CallErrorKind::InUse, "InvalidSnapshot.InUse", &message, expect);
        };
        in_use("ami-1", RefusalReason::UsedByImage);
        in_use("Fast Snapshot Restore", RefusalReason::FastRestore);
        in_use("something new", RefusalReason::Unsupported);
        let refused = |message: &str, expect| check(CallErrorKind::Other, "OperationNotPermitted", message, expect);
        refused("The snapshot is locked", RefusalReason::SnapshotLock);
        refused("The snapshot is blocked", RefusalReason::Unsupported);
    }
}
