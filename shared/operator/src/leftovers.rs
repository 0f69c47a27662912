//! Leftovers on resources of EC2 after Curfew is gone, and those of them that the command removes when a person asks.

use jiff::Timestamp;
use model::curfew_tags::{CurfewTags, JOB, LABELS, MARKED, PROTECTED, STOPPED, UNATTACHED_SINCE};
use model::id::ResourceId;
use model::notification_log::NotificationLog;
use model::volume::Snapshot;

use crate::doctor::tags::TaggedResource;

/// The labels that are taken away. Those of a snapshot stay, because they say how to restore it; so do the tags of people, and those of jobs.
pub const REMOVED_LABELS: [&str; 3] = [MARKED, STOPPED, UNATTACHED_SINCE];

/// The labels of a resource that may be taken away.
#[must_use]
pub fn removable_labels(tagged: &TaggedResource) -> Vec<&'static str> {
    let is_kind = matches!(tagged.kind.as_str(), "instance" | "volume");
    REMOVED_LABELS.into_iter().filter(|label| is_kind && tagged.tags.contains_key(*label)).collect()
}

/// True if people tagged it for Curfew.
#[must_use]
pub fn has_tags_of_people(tagged: &TaggedResource) -> bool {
    tagged.tags.keys().any(|key| !LABELS.contains(&key.as_str()) && !key.starts_with(JOB) && key != "curfew:attempt")
}

/// The instances that Curfew stopped, by their label: nobody starts them any more.
#[must_use]
pub fn stopped_instances(tagged: &[TaggedResource]) -> Vec<&ResourceId> {
    let stopped = tagged.iter().filter(|one| one.kind == "instance" && one.tags.contains_key(STOPPED));
    stopped.map(|one| &one.resource).collect()
}

/// The snapshots of a region, by what may become of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SnapshotLeftovers {
    /// Curfew's own, by its record.
    pub own: Vec<ResourceId>,
    pub own_gib: u64,
    /// Curfew's own that people protect or keep.
    pub kept: Vec<ResourceId>,
    /// Snapshots that are described as Curfew's, and of which no record proves it.
    pub without_record: Vec<ResourceId>,
}

/// Sorts the snapshots of a region; `log` is that of `reap-volumes`, or `None` if it is unknown.
#[must_use]
pub fn sort_snapshots(snapshots: &[Snapshot], log: Option<&NotificationLog>, now: Timestamp) -> SnapshotLeftovers {
    let mut sorted = SnapshotLeftovers::default();
    for snapshot in snapshots {
        let id = snapshot.id.clone();
        if !log.is_some_and(|log| is_own(snapshot, log)) {
            sorted.without_record.push(id);
        } else if is_kept(snapshot, now) {
            sorted.kept.push(id);
        } else {
            sorted.own_gib = sorted.own_gib.saturating_add(snapshot.size_gib);
            sorted.own.push(id);
        }
    }
    sorted
}

/// Anybody can write such a description: the record of the run that made it proves it.
fn is_own(snapshot: &Snapshot, log: &NotificationLog) -> bool {
    let record = log.record_about(&snapshot.id, snapshot.started_at);
    let safety = record.and_then(|record| record.safety.as_ref());
    safety.is_some_and(|safety| {
        snapshot.described_run().as_ref() == Some(&safety.run) && safety.volume == snapshot.of_volume
    })
}

/// A tag that cannot be read keeps it too.
fn is_kept(snapshot: &Snapshot, now: Timestamp) -> bool {
    let tags = CurfewTags::read_volume(&snapshot.tags);
    let is_protected = snapshot.tags.contains_key(PROTECTED);
    is_protected || !tags.is_ok_and(|tags| tags.keep_until.is_none_or(|until| until <= now))
}

#[cfg(test)]
mod tests {
    use model::id::Region;
    use model::instance::Tags;
    use model::notification_log::{ResourceRecord, SafetyRecord};
    use model::volume::{SnapshotState, snapshot_description};
    use reaping::fixture::{NOW, time};

    use super::*;

    fn snapshot(id: &str, run: &str, tags: &[(&str, &str)]) -> Snapshot {
        Snapshot {
            id: id.into(),
            region: Region::from("us-east-1"),
            of_volume: "vol-1".into(),
            state: SnapshotState::Completed,
            started_at: time(NOW),
            size_gib: 100,
            tags: tags.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
            description: snapshot_description(&"vol-1".into(), &run.into()),
        }
    }

    fn log(snapshots: &[(&str, &str)]) -> NotificationLog {
        let mut log = NotificationLog::default();
        for (id, run) in snapshots {
            let safety = Some(SafetyRecord { volume: "vol-1".into(), run: (*run).into(), deleted_at: None });
            log.resources.insert((*id).into(), ResourceRecord { safety, ..ResourceRecord::about(time(NOW)) });
        }
        log
    }

    fn tagged(kind: &str, keys: &[&str]) -> TaggedResource {
        let tags: Tags = keys.iter().map(|key| ((*key).to_owned(), String::new())).collect();
        TaggedResource { region: "us-east-1".into(), resource: "i-1".into(), kind: kind.to_owned(), tags }
    }

    #[test]
    fn only_labels_of_what_runs_or_lies_about_are_taken_away() {
        let labels = |kind: &str, keys: &[&str]| removable_labels(&tagged(kind, keys));
        assert_eq!(labels("instance", &[MARKED, STOPPED, PROTECTED, JOB]), [MARKED, STOPPED]);
        assert_eq!(labels("volume", &[UNATTACHED_SINCE]), [UNATTACHED_SINCE]);
        assert!(labels("snapshot", &[MARKED, "curfew:restore", "curfew:snapshot-of"]).is_empty());
        assert!(labels("launch-template", &[MARKED]).is_empty());
        assert!(has_tags_of_people(&tagged("instance", &[PROTECTED])));
        assert!(!has_tags_of_people(&tagged("instance", &[MARKED, JOB, "curfew:attempt"])));
    }

    #[test]
    fn a_snapshot_is_ours_only_by_our_record() {
        let all = [
            snapshot("snap-own", "run-1", &[("curfew:snapshot-of", "vol-1")]),
            snapshot("snap-forged", "run-1", &[("curfew:snapshot-of", "vol-1")]),
            snapshot("snap-other-run", "run-2", &[]),
            snapshot("snap-kept", "run-1", &[("curfew:keep-until", "2099-01-01")]),
            snapshot("snap-lapsed", "run-1", &[("curfew:keep-until", "2020-01-01")]),
            snapshot("snap-typo", "run-1", &[("curfew:keep-until", "soon")]),
            snapshot("snap-protected", "run-1", &[(PROTECTED, "")]),
        ];
        let ours = ["snap-own", "snap-other-run", "snap-kept", "snap-lapsed", "snap-typo", "snap-protected"];
        let log = log(&ours.map(|id| (id, "run-1")));
        let sorted = sort_snapshots(&all, Some(&log), time(NOW));
        let ids = |ids: &[ResourceId]| ids.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!((ids(&sorted.own), sorted.own_gib), (vec!["snap-own".to_owned(), "snap-lapsed".to_owned()], 200));
        assert_eq!(ids(&sorted.kept), ["snap-kept", "snap-typo", "snap-protected"]);
        assert_eq!(ids(&sorted.without_record), ["snap-forged", "snap-other-run"]);
    }

    #[test]
    fn without_the_record_no_snapshot_is_ours() {
        let sorted = sort_snapshots(&[snapshot("snap-own", "run-1", &[])], None, time(NOW));
        assert_eq!((sorted.own.len(), sorted.without_record.len()), (0, 1));
    }

    #[test]
    fn a_stopped_instance_is_named() {
        let all = [tagged("instance", &[STOPPED]), tagged("volume", &[STOPPED]), tagged("instance", &[MARKED])];
        assert_eq!(stopped_instances(&all).len(), 1);
    }
}
