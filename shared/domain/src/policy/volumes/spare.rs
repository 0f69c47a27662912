//! Which volumes to leave alone, and what to say about them.

use super::{Case, TRY_AGAIN_AFTER};
use crate::duration;
use crate::foreign::{VolumeKeeper, keeper};
use crate::mark::whole_second;
use crate::mode::Mode;
use crate::notices::Topic;
use crate::plan::{Finding, Memo, Spared, SparedBecause, may_become_safe};
use crate::policy::follow::Track;
use crate::price;
use crate::rule::Rule;
use crate::vocabulary::{MARKED, PROTECTED, UNATTACHED_SINCE, Vocabulary, explained, kept_until, stopped_at};
use crate::volume::{SnapshotState, VolumeState, VolumeUse};

const UNREADABLE: &str = "unreadable";
const ON_STOPPED_INSTANCE: &str = "on-stopped-instance";
const SNAPSHOT_FAILED: &str = "snapshot-failed";

impl Case<'_> {
    /// Protected, kept and unreadable ones; of those that are attached to nothing, also those that are somebody else's, or
    /// of whose use nothing can be said.
    pub(super) fn spared_at_sight(self) -> Option<Spared> {
        let tags = &self.volume.tags;
        if tags.contains_key(PROTECTED) {
            return Some(self.spared(SparedBecause::Protected));
        }
        let says = Vocabulary::read_volume(tags);
        let unreadable = says.as_ref().err().map(|unreadable| {
            let text = explained(unreadable);
            self.finding(SparedBecause::Unreadable, UNREADABLE, text.clone(), text)
        });
        if kept_until(tags).is_some_and(|until| self.view.now < until) {
            return Some(Spared {
                because: SparedBecause::Kept,
                ..unreadable.unwrap_or_else(|| self.spared(SparedBecause::Kept))
            });
        }
        let Ok(says) = says else { return unreadable };
        if self.volume.is_attached() {
            return None;
        }
        self.kept_by_others(&says).map(|because| self.spared(because))
    }

    /// Of one that is attached to nothing: why it may not be an orphan.
    pub(super) fn kept_by_others(self, says: &Vocabulary) -> Option<SparedBecause> {
        Some(match keeper(self.volume, &self.view.policy.config.managed) {
            _ if self.volume.state != VolumeState::Available => SparedBecause::NotAvailable,
            Some(VolumeKeeper::Kubernetes) => SparedBecause::Kubernetes,
            Some(VolumeKeeper::Other) => SparedBecause::ForeignOwned,
            None if self.volume.multi_attach => SparedBecause::MultiAttach,
            None if says.job.as_ref().is_some_and(|job| self.view.live_jobs.contains(job)) => SparedBecause::LiveJob,
            None => return None,
        })
    }

    /// Nothing is wrong with what is attached, unless it hangs on an instance that nobody has started for long.
    pub(super) fn spared_as_attached(self, memo: Memo) -> Spared {
        let finding = self.on_stopped_instance();
        Spared { target: self.target(), because: SparedBecause::Attached, finding, memo }
    }

    /// Why nothing is due for a volume that was judged.
    pub(super) fn spared_after_judging(self, track: &Track, memo: Memo) -> Spared {
        let observed = track.mode == Mode::Observe;
        let is_young = self.view.now.duration_since(self.since) < self.view.policy.config.volumes.orphaned_after;
        let waits = track.settled.due.is_some();
        let because = match self.used {
            _ if waits && !observed => SparedBecause::SnapshotPending,
            _ if !track.settled.entries.is_empty() && !observed => SparedBecause::Marked,
            _ if !track.settled.entries.is_empty() => SparedBecause::Observed,
            _ if !track.settled.only_told.is_empty() || self.was_told() => SparedBecause::Told,
            _ if is_young => SparedBecause::Young,
            Some(VolumeUse::UsedAt(_)) => SparedBecause::Busy,
            Some(VolumeUse::None) => SparedBecause::Compliant,
            None => SparedBecause::UsageUnknown,
        };
        let finding = self.failed_snapshot().filter(|_| waits);
        Spared { target: self.target(), because, finding, memo }
    }

    /// Found orphaned when last asked about, which is asked once a day.
    fn was_told(self) -> bool {
        let topics = self.notices.told.get(&self.volume.id);
        self.used.is_none() && topics.is_some_and(|topics| topics.contains_key(&Topic::rule(Rule::Orphaned)))
    }

    fn on_stopped_instance(self) -> Option<Finding> {
        let host = self.host.filter(|host| host.stopped)?;
        let (now, rule) = (self.view.now, &self.view.policy.config.volumes);
        let stopped_at = host.stopped_at.or_else(|| stopped_at(&host.tags));
        let since = stopped_at.filter(|at| now.duration_since(*at) >= rule.orphaned_after)?;
        let text = format!(
            "attached to {}, which is stopped since {since}, longer than {}; {}: delete what nobody needs, or keep it as a snapshot",
            host.id,
            duration::show(rule.orphaned_after),
            price::show_monthly(self.view.policy.prices.of_volume(self.volume)),
        );
        Some(Finding { topic: Topic::named(ON_STOPPED_INSTANCE), what: format!("{} {since}", host.id), text })
    }

    fn failed_snapshot(self) -> Option<Finding> {
        let failed = self.snapshots().iter().find(|snapshot| {
            may_become_safe(snapshot, self.volume, self.since)
                && !matches!(snapshot.state, SnapshotState::Pending | SnapshotState::Completed)
        })?;
        let text = format!(
            "its snapshot {} came to nothing, so it is not deleted; tried again after {}",
            failed.id,
            duration::show(TRY_AGAIN_AFTER)
        );
        Some(Finding { topic: Topic::named(SNAPSHOT_FAILED), what: failed.id.to_string(), text })
    }

    /// The findings that still stand, and need not be told again.
    pub(super) fn standing_findings(self) -> Vec<Topic> {
        [(ON_STOPPED_INSTANCE, self.on_stopped_instance()), (SNAPSHOT_FAILED, self.failed_snapshot())]
            .into_iter()
            .filter_map(|(topic, finding)| finding.map(|_| Topic::named(topic)))
            .collect()
    }

    fn spared(self, because: SparedBecause) -> Spared {
        Spared { target: self.target(), because, finding: None, memo: self.unjudged() }
    }

    /// What stays remembered of one that is not judged now: what is written on it and binds nobody stays void.
    fn unjudged(self) -> Memo {
        let tags = &self.volume.tags;
        let void = self.notices.void_marks.get(&self.volume.id);
        let remembered = self.notices.first_sights.get(&self.volume.id).copied();
        let used = self.volume.is_attached() && tags.contains_key(UNATTACHED_SINCE);
        Memo {
            void_mark: void.filter(|_| tags.contains_key(MARKED)).cloned(),
            first_sight: if used {
                Some(whole_second(self.view.now))
            } else {
                remembered.filter(|_| !self.volume.is_attached())
            },
            last_host: self.last_host(),
            ..Memo::default()
        }
    }

    fn finding(self, because: SparedBecause, topic: &str, what: String, text: String) -> Spared {
        let topic = Topic::named(topic);
        let spared = self.spared(because);
        let memo = Memo { standing: vec![topic.clone()], ..spared.memo };
        Spared { finding: Some(Finding { topic, what, text }), memo, ..spared }
    }
}
