//! A volume as a target of announcements: what is written and remembered about it, and how it is deleted.

use jiff::Timestamp;
use model::curfew_tags::{CurfewTags, PROTECTED, UNATTACHED_SINCE};
use model::id::ResourceId;
use model::mark::{Mark, whole_second};
use model::mode::Mode;
use model::moment::after;
use model::notification_log::{NotificationKey, NotificationLog};
use model::rule::{ResourceAction, Rule};
use model::volume::SnapshotState;
use plan::{
    Action, Announcement, Evidence, ResourceMemory, SafetySnapshot, Step, VolumeAction, is_safe, may_become_safe,
};

use super::{TRY_AGAIN_AFTER, VolumeCase};
use crate::announcements::{AnnouncementTarget, RuleTrack};
use crate::policy::Verdict;

/// A volume whose tags can be read.
#[derive(Clone, Copy)]
pub(super) struct TrackedVolume<'a> {
    pub(super) case: VolumeCase<'a>,
    pub(super) curfew_tags: &'a CurfewTags,
    pub(super) mode: Mode,
}

impl TrackedVolume<'_> {
    /// Records at once that it is unattached, without a notification.
    pub(super) fn first_sight(self) -> Option<Step> {
        let VolumeCase { since, written, .. } = self.case;
        if self.mode == Mode::Observe || self.case.is_in_use() || written == Some(since) {
            return None;
        }
        let evidence = Evidence::Orphaned(self.case.subject().evidence());
        Some(self.step(self.mode, VolumeAction::TagUnattachedSince(since), evidence))
    }

    pub(super) fn resource_memory(self, track: &RuleTrack, verdict: &Verdict) -> ResourceMemory {
        let active_keys = match verdict {
            Verdict::Compliant => Vec::new(),
            Verdict::Unknown | Verdict::Violated(_) => {
                vec![
                    NotificationKey::rule(Rule::Orphaned),
                    NotificationKey::would(Rule::Orphaned),
                    NotificationKey::undone(Rule::Orphaned),
                ]
            }
        };
        let observed = self.mode == Mode::Observe;
        ResourceMemory {
            active_keys: [active_keys, self.case.active_finding_keys()].concat(),
            shadow_mark: self.still_announced(track).filter(|_| observed),
            unwritten_mark: self.still_unwritten(track).filter(|_| !observed),
            void_mark: self.called_off_unwritten(track),
            first_sight: self.first_sight_to_remember(),
            last_host: self.case.last_host(),
        }
    }

    /// The first sight that no tag has. In observe mode a tag cannot be removed or corrected, so what is remembered here is newer.
    fn first_sight_to_remember(self) -> Option<Timestamp> {
        let VolumeCase { view, since, written, .. } = self.case;
        if self.case.is_in_use() {
            return written.filter(|_| self.mode == Mode::Observe).map(|_| whole_second(view.now));
        }
        let remembered = self.case.notices.first_sights.contains_key(&self.case.volume.id);
        Some(since).filter(|since| written != Some(*since) && (remembered || self.mode == Mode::Observe))
    }
}

impl AnnouncementTarget for TrackedVolume<'_> {
    type Action = VolumeAction;

    fn id(&self) -> &ResourceId {
        &self.case.volume.id
    }

    fn since(self) -> Timestamp {
        self.case.since
    }

    fn curfew_tags(&self) -> &CurfewTags {
        self.curfew_tags
    }

    fn notices(&self) -> &NotificationLog {
        self.case.notices
    }

    fn now(self) -> Timestamp {
        self.case.view.now
    }

    fn mode(self, _: Rule) -> Mode {
        self.mode
    }

    fn step(self, mode: Mode, action: VolumeAction, evidence: Evidence) -> Step {
        let VolumeCase { view, volume, .. } = self.case;
        let saves = match action {
            VolumeAction::Announce(Announcement::Unmark { .. }) => None,
            _ => view.policy.prices.volume_cost(volume),
        };
        Step { saves, ..Step::bare(self.case.target(), Action::Volume(volume.clone(), action), evidence, mode) }
    }

    /// Starts a snapshot first, if one is wanted; deletes the volume once that is complete.
    fn end(self, ending: ResourceAction, _: Rule, _: Option<Mark>) -> Option<VolumeAction> {
        let VolumeCase { view, volume, since, .. } = self.case;
        let snapshots = self.case.snapshots();
        let at = whole_second(view.now);
        // Curfew may not tag protected snapshots, and EC2 refuses a request for several if it refuses one.
        let datable = snapshots.iter().filter(|snapshot| !snapshot.tags.contains_key(PROTECTED));
        let expiring = datable.map(|snapshot| snapshot.id.clone()).collect();
        match ending {
            ResourceAction::Delete => Some(VolumeAction::Delete { safety: None, expiring, at }),
            ResourceAction::SnapshotAndDelete => {
                if let Some(safe) = snapshots.iter().find(|snapshot| is_safe(snapshot, volume, since)) {
                    let kept_until = after(at, view.policy.config.volumes.keep_snapshots);
                    return Some(VolumeAction::Delete {
                        safety: Some(SafetySnapshot { snapshot: safe.id.clone(), kept_until }),
                        expiring,
                        at,
                    });
                }
                let mut tried = snapshots.iter().filter(|snapshot| may_become_safe(snapshot, volume, since));
                let waits = tried.any(|snapshot| {
                    snapshot.state == SnapshotState::Pending
                        || view.now.duration_since(snapshot.started_at) < TRY_AGAIN_AFTER
                });
                (!waits).then(|| VolumeAction::Snapshot { tags: self.case.tags_of_snapshot() })
            }
            ResourceAction::Stop | ResourceAction::Terminate => None,
        }
    }

    fn stale_tag(self) -> Option<(Rule, &'static str)> {
        let is_written = self.case.volume.tags.contains_key(UNATTACHED_SINCE);
        (self.case.is_in_use() && is_written).then_some((Rule::Orphaned, UNATTACHED_SINCE))
    }
}
