//! One check and its output, and errors as findings.

use cloud::{CallError, CallErrorKind};
use model::fault::Passing;
use model::observation::Gap;
use operator::doctor::quotas::RegionQuota;
use operator::doctor::{CheckResult, DoctorFinding};
use serde::Serialize;
use store::{CallAdvice, StoreError};

#[derive(Serialize)]
pub(super) struct DoctorSection {
    #[serde(flatten)]
    pub(super) checked: CheckResult,
    /// A summary of a few words.
    #[serde(skip)]
    pub(super) summary: String,
    /// The findings of that check.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) quotas: Option<Vec<RegionQuota>>,
}

impl DoctorSection {
    pub(super) fn new(check: &'static str, findings: Vec<DoctorFinding>, summary: impl Into<String>) -> Self {
        Self { checked: CheckResult::new(check, findings), summary: summary.into(), quotas: None }
    }
}

/// A failed call.
pub(crate) fn unanswered(error: &CallError) -> DoctorFinding {
    let remedy = match error.kind {
        CallErrorKind::Denied { by_organisation: false } => {
            format!("grant {} to the caller of curfew doctor", error.call)
        }
        CallErrorKind::Denied { by_organisation: true } => {
            "a policy of the organisation forbids it, which only its administrators can change".to_owned()
        }
        CallErrorKind::Throttled => "try again later: the account makes too many calls".to_owned(),
        CallErrorKind::Unreached => Passing::Unreached.advice().to_owned(),
        _ => "try again; if that does not help, read AWS's message".to_owned(),
    };
    DoctorFinding::unknown(&error.region, format!("{} failed: {}", error.call, error.message), remedy)
}

/// A gap in the observation of regions.
pub(super) fn unseen(gap: &Gap) -> DoctorFinding {
    let found = format!("{} failed", gap.call);
    DoctorFinding::unknown(&gap.region, found, gap.in_command())
}

/// The bucket refused.
pub(crate) fn unread(error: &StoreError) -> DoctorFinding {
    let (found, remedy) = match error {
        StoreError::Call { action, said, advice, .. } => {
            let remedy = match advice {
                CallAdvice::Do(remedy) => remedy,
                CallAdvice::Wait(passing) => passing.advice(),
            };
            (format!("{action} failed: {said}"), remedy.to_owned())
        }
        other => (other.to_string(), "check the object".to_owned()),
    };
    let at = match error {
        StoreError::Call { address, .. } => address.as_str(),
        _ => "state bucket",
    };
    DoctorFinding::unknown(at, found, remedy)
}
