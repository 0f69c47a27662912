//! Refusals of AWS that last until a person changes something: no later run succeeds by itself, so nothing waits for it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::notification_log::REPEAT_AFTER;

/// The reason for which AWS refuses an action on a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RefusalReason {
    /// EC2 user guide, "Enable stop protection for your EC2 instances".
    StopProtection,
    /// EC2 user guide, "Change instance termination protection".
    TerminationProtection,
    /// A service or resource control policy.
    OrganisationPolicy,
    /// Another policy that denies it explicitly: of the role, its boundary or the resource.
    ExplicitDeny,
    /// AWS Organizations user guide, "Tag policies": it does not allow a label of Curfew.
    TagPolicy,
    /// The resource has as many tags as AWS allows, and a label of Curfew needs room.
    TooManyTags,
    /// An AMI is made of the snapshot.
    UsedByImage,
    /// The snapshot has fast snapshot restore.
    FastRestore,
    /// The snapshot is locked (EBS user guide, "Amazon EBS snapshot lock").
    SnapshotLock,
    /// The resource does not allow it in any state.
    Unsupported,
}

/// The last refusal of one action on a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    pub reason: RefusalReason,
    pub at: Timestamp,
}

impl RefusalReason {
    /// The remedy, for people; `None` where AWS's own words say it.
    #[must_use]
    pub const fn remedy(self) -> Option<&'static str> {
        Some(match self {
            Self::StopProtection => "its stop protection is on: switch off disableApiStop to let Curfew stop it",
            Self::TerminationProtection => {
                "its termination protection is on: switch off disableApiTermination to let Curfew terminate it"
            }
            Self::OrganisationPolicy => {
                "a policy of the organisation forbids it, which only its administrators can change"
            }
            Self::ExplicitDeny => {
                "a policy denies it explicitly, as Curfew's own does for what carries curfew:protected"
            }
            Self::TagPolicy => {
                "a tag policy of the organisation does not allow a label of Curfew: its administrators can allow curfew:*"
            }
            Self::TooManyTags => "it has as many tags as AWS allows: remove one to make room for Curfew's label",
            Self::UsedByImage => "an AMI is made of it, and deregistering that AMI frees it",
            Self::FastRestore => {
                "fast snapshot restore is on for it: `aws ec2 disable-fast-snapshot-restores` switches that off"
            }
            Self::SnapshotLock => {
                "it is locked: in governance mode `aws ec2 unlock-snapshot` frees it, in compliance mode only the end of its lock"
            }
            Self::Unsupported => return None,
        })
    }
}

impl Refusal {
    /// `true` if the action is not tried at `now`, because less than a day has passed. A time further ahead than clocks differ is damaged.
    #[must_use]
    pub fn holds(self, now: Timestamp) -> bool {
        now.duration_since(self.at).abs() < REPEAT_AFTER
    }

    /// The time from which on the action is tried again.
    #[must_use]
    pub fn ends_at(self) -> Timestamp {
        crate::moment::after(self.at, REPEAT_AFTER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_a_person_lifts_is_tried_again_after_a_day() {
        let check = |now: &str, expect| {
            let at = "2026-09-01T12:00:00Z".parse().unwrap();
            let refusal = Refusal { reason: RefusalReason::StopProtection, at };
            assert_eq!(refusal.holds(now.parse().unwrap()), expect, "at {now}");
        };
        check("2026-09-01T12:00:00Z", true);
        check("2026-09-02T11:59:59Z", true);
        check("2026-09-02T12:00:00Z", false);
        check("2026-08-31T12:00:00Z", false);
    }
}
