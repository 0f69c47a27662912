//! One check and how it is told, and errors as findings.

use cloud::{CallError, CallErrorKind};
use model::observation::Gap;
use operator::doctor::quotas::RegionQuota;
use operator::doctor::{CheckResult, DoctorFinding};
use serde::Serialize;
use store::StoreError;

use crate::command_error::{advise, for_who_waits, was_unreached};

/// One check.
#[derive(Serialize)]
pub(super) struct DoctorSection {
    #[serde(flatten)]
    pub(super) checked: CheckResult,
    /// What was seen, in a few words.
    #[serde(skip)]
    pub(super) summary: String,
    /// Of that check alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) quotas: Option<Vec<RegionQuota>>,
}

impl DoctorSection {
    pub(super) fn new(check: &'static str, findings: Vec<DoctorFinding>, summary: impl Into<String>) -> Self {
        Self { checked: CheckResult::new(check, findings), summary: summary.into(), quotas: None }
    }
}

/// A call that failed.
pub(super) fn unanswered(error: &CallError) -> DoctorFinding {
    let remedy = match error.kind {
        CallErrorKind::Denied { by_organisation: false } => format!("grant {} to whoever asks the doctor", error.call),
        CallErrorKind::Denied { by_organisation: true } => {
            "a policy of the organisation forbids it, which only its administrators can change".to_owned()
        }
        CallErrorKind::Throttled => "ask again later: the account makes too many calls".to_owned(),
        _ if was_unreached(&error.message) => advise(&error.message).to_owned(),
        _ => "ask again; where that does not help, look at what AWS said".to_owned(),
    };
    DoctorFinding::unknown(&error.region, format!("{} failed: {}", error.call, error.message), remedy)
}

/// Something that a look at regions left out.
pub(super) fn unseen(gap: &Gap) -> DoctorFinding {
    let found = format!("{} failed", gap.call);
    DoctorFinding::unknown(&gap.region, found, for_who_waits(&gap.error))
}

/// The bucket refused.
pub(super) fn unread(error: &StoreError) -> DoctorFinding {
    let (found, remedy) = match error {
        StoreError::Call { action, said, .. } if was_unreached(said) => {
            (format!("{action} failed: {said}"), advise(said).to_owned())
        }
        StoreError::Call { action, said, advice, .. } => (format!("{action} failed: {said}"), for_who_waits(advice)),
        other => (other.to_string(), "look at what is there".to_owned()),
    };
    let at = match error {
        StoreError::Call { address, .. } => address.as_str(),
        _ => "state bucket",
    };
    DoctorFinding::unknown(at, found, remedy)
}
