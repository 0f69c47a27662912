//! The snapshots that Curfew made: each ends `keep_snapshots` after its volume was deleted, and never while that exists.

use super::{Line, View};
use crate::mark::{Announced, whole_second};
use crate::mode::Mode;
use crate::notices::{Topic, would};
use crate::plan::{Action, Because, Finding, Memo, Seen, Spared, SparedBecause, Step, Target};
use crate::policy::{effective_mode, owner_of, team_of, value_of};
use crate::rule::{Ending, Rule};
use crate::vocabulary::{DELETED_AT, PROTECTED, Vocabulary, explained, kept_until};
use crate::volume::Snapshot;

impl View<'_> {
    /// What becomes of one snapshot that says it is Curfew's.
    pub(super) fn decide_snapshot(&self, snapshot: &Snapshot) -> Line {
        let of = |because| Spared { target: self.target(snapshot), because, finding: None, memo: Memo::default() };
        let spared = |because| Line::Spared(Box::new(of(because)));
        if !snapshot.is_of_curfew() {
            return spared(SparedBecause::ForeignOwned);
        }
        if snapshot.tags.contains_key(PROTECTED) {
            return spared(SparedBecause::Protected);
        }
        if kept_until(&snapshot.tags).is_some_and(|until| self.now < until) {
            return spared(SparedBecause::Kept);
        }
        let says = match Vocabulary::read_snapshot(&snapshot.tags) {
            Ok(says) => says,
            Err(unreadable) => {
                let (topic, text) = (Topic::named("unreadable"), explained(&unreadable));
                let memo = Memo { standing: vec![topic.clone()], ..Memo::default() };
                let finding = Some(Finding { topic, what: text.clone(), text });
                return Line::Spared(Box::new(Spared { finding, memo, ..of(SparedBecause::Unreadable) }));
            }
        };
        if self.volumes.contains(&(&snapshot.region, &snapshot.of_volume)) {
            return spared(SparedBecause::VolumeExists);
        }
        let deleted_at = says.deleted_at.unwrap_or_else(|| whole_second(self.now));
        let expires_at = deleted_at + self.policy.config.volumes.keep_snapshots;
        let because = Because::Outlived { volume: snapshot.of_volume.clone(), deleted_at, expires_at };
        let mode = effective_mode(&says, &snapshot.tags, &self.policy.config).min(self.policy.ceiling);
        if says.deleted_at.is_none() {
            // People hear of it: a run whose deletion was answered too late, or not at all, could not say so.
            let step = self.step(snapshot, Action::Date { key: DELETED_AT, at: deleted_at }, because, mode);
            return Line::Step(Box::new(Step { told_before: mode == Mode::Observe, ..step }));
        }
        if self.now < expires_at {
            return spared(SparedBecause::Restorable);
        }
        let announced = Announced { ending: Ending::Delete, deadline: expires_at };
        let notices = self.notices(&snapshot.region);
        let told_before =
            mode == Mode::Observe && notices.was_told(&snapshot.id, &Topic::would(Rule::Expired), &would(announced));
        let action = Action::Delete { safety: None, expiring: Vec::new(), at: whole_second(self.now) };
        let step = self.step(snapshot, action, because, mode);
        Line::Step(Box::new(Step { deadline: Some(expires_at), told_before, ..step }))
    }

    fn step(&self, snapshot: &Snapshot, action: Action, because: Because, mode: Mode) -> Step {
        let seen = Seen::Snapshot(snapshot.clone());
        let standing = vec![Topic::would(Rule::Expired), Topic::undone(Rule::Expired)];
        let memo = Memo { standing, ..Memo::default() };
        Step { memo, ..Step::bare(self.target(snapshot), action, because, mode, seen) }
    }

    fn target(&self, snapshot: &Snapshot) -> Target {
        let (tags, config) = (&snapshot.tags, &self.policy.config);
        Target {
            region: snapshot.region.clone(),
            resource: snapshot.id.clone(),
            team: team_of(tags, config),
            owner: owner_of(tags, config),
            name: value_of(tags, "Name").map(str::to_owned),
            what: format!("snapshot of {}, {} GiB", snapshot.of_volume, snapshot.size_gib),
        }
    }
}
