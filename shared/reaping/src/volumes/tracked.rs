//! A volume as a target of announcements: what is written and remembered about it, and how it is deleted.

use model::curfew_tags::{CurfewTags, MARKED, PROTECTED, UNATTACHED_SINCE, has_room};
use model::mark::{Mark, whole_second};
use model::mode::Mode;
use model::notification_log::ResourceRecord;
use model::rule::{ResourceAction, Rule};
use model::volume::SnapshotState;
use plan::{Action, Announcement, Evidence, ResourceMemory, Step, VolumeAction, is_safe, may_become_safe};

use super::{TRY_AGAIN_AFTER, VolumeCase};
use crate::engine::announcements::{AnnouncedResource, RuleTrack, unsettled_rule_keys};
use crate::engine::{ResourceCase, ResourceFacts};
use crate::policy::Verdict;

/// A volume whose tags can be read.
#[derive(Clone, Copy)]
pub(super) struct TrackedVolume<'a> {
    pub(super) case: VolumeCase<'a>,
    pub(super) curfew_tags: &'a CurfewTags,
    pub(super) mode: Mode,
}

impl TrackedVolume<'_> {
    /// Shows at once that it is unattached, without a notification.
    pub(super) fn first_sight(self) -> Option<Step> {
        let (VolumeCase { since, .. }, ResourceFacts { tags, now, .. }) = (self.case, self.facts());
        let is_shown = tags.get(UNATTACHED_SINCE).is_some_and(|label| *label == since.to_string());
        // The mark needs room as well, and without that label a volume ages all the same.
        let is_refused = !has_room(tags, &[UNATTACHED_SINCE, MARKED])
            || self.label_refusal(self.mode).is_some_and(|refusal| refusal.holds(now));
        if self.mode == Mode::Observe || self.case.is_in_use() || is_shown || is_refused {
            return None;
        }
        let evidence = self.case.subject().evidence();
        Some(self.step(self.mode, VolumeAction::TagUnattachedSince(since), evidence))
    }

    pub(super) fn resource_memory(self, track: &RuleTrack, verdicts: &[(Rule, Verdict)]) -> ResourceMemory {
        let since = match (self.case.volume.is_unattached(), self.case.is_in_use()) {
            (false, _) => None,
            // Its time begins anew.
            (true, true) => Some(whole_second(self.case.view.now)),
            (true, false) => Some(self.case.since),
        };
        let active_keys = [unsettled_rule_keys(verdicts), self.case.active_finding_keys()].concat();
        let memory = self.case.memory(since, active_keys);
        let announced = self.still_announced(track).collect();
        let refused = track.settled.standing_refusals().collect();
        let record = ResourceRecord { announced, refused, ..memory.record };
        ResourceMemory { record, ..memory }
    }
}

impl<'a> AnnouncedResource<'a> for TrackedVolume<'a> {
    type Action = VolumeAction;

    fn facts(self) -> ResourceFacts<'a> {
        self.case.facts()
    }

    fn curfew_tags(&self) -> &CurfewTags {
        self.curfew_tags
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
        // Curfew may not tag protected snapshots, and EC2 refuses a request for several if it refuses one. Failed ones are deleted.
        let datable =
            snapshots.iter().filter(|snapshot| !snapshot.tags.contains_key(PROTECTED) && !view.is_superseded(snapshot));
        let expiring = datable.map(|snapshot| snapshot.id.clone()).collect();
        let kept_until = view.policy.snapshots_kept_until(at);
        match ending {
            ResourceAction::Delete => Some(VolumeAction::Delete { safety: None, expiring, at, kept_until }),
            ResourceAction::SnapshotAndDelete => {
                if let Some(safe) = snapshots.iter().find(|snapshot| is_safe(snapshot, volume, since)) {
                    let safety = Some(safe.id.clone());
                    return Some(VolumeAction::Delete { safety, expiring, at, kept_until });
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
