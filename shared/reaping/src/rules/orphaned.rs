//! **Orphaned**, if and only if
//! - the volume is unattached: EC2 calls it `available`,
//! - it was first seen so at least `orphaned_after` ago (nothing says when it was detached),
//! - and `CloudWatch` has not one sign of use since: a volume that is attached for an hour each night is not orphaned.
//!
//! Without an answer of CloudWatch it is unknown.
//!
//! A snapshot that Curfew made and that failed is orphaned too, once there is a later one of the same volume (`volumes/snapshots.rs`).

use jiff::Timestamp;
use model::config::{VolumeAction, VolumesConfig};
use model::curfew_tags::TAGS_MAX;
use model::id::ResourceId;
use model::moment::after;
use model::money::Rate;
use model::rule::{ResourceAction, Rule};
use model::volume::{Volume, VolumeUse};
use plan::report::RecordedEvidence;
use plan::{Evidence, Facts, NotifyOnlyReason, OrphanedEvidence};

use crate::policy::{DueAction, Verdict, Violation};

/// Maximum for a new snapshot, which later also carries `curfew:deleted-at`.
const TAGS_OF_SNAPSHOT_MAX: usize = TAGS_MAX - 1;

/// One unattached volume with everything that the rule uses.
#[derive(Debug, Clone, Copy)]
pub struct VolumeSubject<'a> {
    pub volume: &'a Volume,
    /// Time at which Curfew first saw it unattached.
    pub unattached_since: Timestamp,
    /// Its use since then, by `CloudWatch`; `None` without an answer.
    pub used: Option<VolumeUse>,
    /// Number of tags that its snapshot carries.
    pub tags_to_keep: usize,
    pub price: Option<Rate>,
    /// The instance that it was last attached to.
    pub last_host: Option<&'a ResourceId>,
    pub rule: &'a VolumesConfig,
    pub now: Timestamp,
}

/// Judges one unattached volume.
#[must_use]
pub fn judge(subject: VolumeSubject<'_>) -> Verdict {
    let VolumeSubject { unattached_since, rule, now, .. } = subject;
    if now.duration_since(unattached_since) < rule.orphaned_after {
        return Verdict::Compliant;
    }
    match subject.used {
        None => return Verdict::Unknown,
        Some(VolumeUse::UsedAt(_)) => return Verdict::Compliant,
        Some(VolumeUse::None) => {}
    }
    let due = match rule.action {
        VolumeAction::Notify => DueAction::NotifyOnly(NotifyOnlyReason::Configured),
        VolumeAction::SnapshotAndDelete if subject.tags_to_keep > TAGS_OF_SNAPSHOT_MAX => {
            DueAction::NotifyOnly(NotifyOnlyReason::TooManyTags)
        }
        VolumeAction::SnapshotAndDelete => DueAction::After(ResourceAction::SnapshotAndDelete, after(now, rule.grace)),
        VolumeAction::Delete => DueAction::After(ResourceAction::Delete, after(now, rule.grace)),
    };
    Verdict::Violated(Violation::new(subject.evidence(), due))
}

impl VolumeSubject<'_> {
    #[must_use]
    pub fn evidence(self) -> Evidence {
        let on = self.last_host.map(|instance| format!(", last attached to {instance}")).unwrap_or_default();
        let sentence = format!("unattached and unused since {}{on}", self.unattached_since);
        let facts = OrphanedEvidence {
            unattached_since: self.unattached_since,
            size_gib: self.volume.size_gib,
            volume_type: self.volume.volume_type.clone(),
            usd_per_month: self.price,
            last_attached_to: self.last_host.cloned(),
        };
        Evidence::new(Rule::Orphaned, Facts::Orphaned(facts), sentence).with_remedy("Attach it, or delete it yourself.")
    }
}

/// The evidence against a failed snapshot of a volume with a later one.
pub(crate) fn evidence_of_failed_snapshot(volume: &ResourceId, superseded_by: &ResourceId) -> Evidence {
    let facts = [("volume", volume.to_string().into()), ("superseded_by", superseded_by.to_string().into())];
    let sentence = format!("this snapshot of {volume} failed, and {superseded_by} is a later one");
    Evidence::new(Rule::Orphaned, Facts::named(facts), sentence)
}

/// The evidence in a few words; `None` if a fact is missing.
pub(crate) fn summarize(evidence: &RecordedEvidence) -> Option<String> {
    let (gib, kind) = (evidence.number("size_gib")?, evidence.text("volume_type")?);
    Some(format!("{gib:.0} GiB {kind} unused since {}", evidence.minute("unattached_since")?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{NOW, VolumeBuilder, time, volume};
    use model::config::Config;

    fn check(volume: VolumeBuilder, since: &str, used: Option<VolumeUse>, config: &str, expect: &Verdict) {
        let volume = volume.build();
        let config = Config::read(config).unwrap();
        let verdict = judge(VolumeSubject {
            volume: &volume,
            unattached_since: time(since),
            used,
            tags_to_keep: volume.tags.len() + 2,
            price: None,
            last_host: None,
            rule: &config.volumes,
            now: time(NOW),
        });
        assert_eq!(&verdict, expect, "{since} {used:?} {config:?}");
    }

    const LONG_AGO: &str = "2026-08-18T12:00:00Z";
    const UNUSED: Option<VolumeUse> = Some(VolumeUse::None);

    fn violation(since: &str, due: DueAction) -> Verdict {
        let facts = OrphanedEvidence {
            unattached_since: time(since),
            size_gib: 500,
            volume_type: "gp3".to_owned(),
            usd_per_month: None,
            last_attached_to: None,
        };
        let sentence = format!("unattached and unused since {since}");
        let evidence = Evidence::new(Rule::Orphaned, Facts::Orphaned(facts), sentence);
        Verdict::Violated(Violation::new(evidence.with_remedy("Attach it, or delete it yourself."), due))
    }

    fn due_after_grace() -> DueAction {
        DueAction::After(ResourceAction::SnapshotAndDelete, time("2026-09-04T12:00:00Z"))
    }

    #[test]
    fn fourteen_days_without_a_sign_of_use() {
        check(volume(), LONG_AGO, UNUSED, "", &violation(LONG_AGO, due_after_grace()));
        check(volume(), "2026-08-18T12:00:01Z", UNUSED, "", &Verdict::Compliant);
        check(volume(), NOW, UNUSED, "[volumes]\norphaned_after = \"0s\"", &violation(NOW, due_after_grace()));
    }

    #[test]
    fn one_sample_is_use_and_no_answer_is_none() {
        check(volume(), LONG_AGO, Some(VolumeUse::UsedAt(time(LONG_AGO))), "", &Verdict::Compliant);
        check(volume(), LONG_AGO, None, "", &Verdict::Unknown);
        check(volume(), "2026-08-18T12:00:01Z", None, "", &Verdict::Compliant);
    }

    #[test]
    fn the_configuration_decides_the_action() {
        let delete = violation(LONG_AGO, DueAction::After(ResourceAction::Delete, time(NOW)));
        check(volume(), LONG_AGO, UNUSED, "[volumes]\naction = \"delete\"\ngrace = \"0s\"", &delete);
        let notify_only = violation(LONG_AGO, DueAction::NotifyOnly(NotifyOnlyReason::Configured));
        check(volume(), LONG_AGO, UNUSED, "[volumes]\naction = \"notify\"", &notify_only);
    }

    #[test]
    fn a_volume_that_could_not_be_restored_with_all_tags_is_notify_only() {
        let tagged = |count: usize| (2..count).fold(volume(), |volume, number| volume.tag(&format!("k{number}"), "v"));
        let due = violation(LONG_AGO, due_after_grace());
        check(tagged(47), LONG_AGO, UNUSED, "", &due);
        check(
            tagged(48),
            LONG_AGO,
            UNUSED,
            "",
            &violation(LONG_AGO, DueAction::NotifyOnly(NotifyOnlyReason::TooManyTags)),
        );
    }
}
