//! The account's configuration by its structure: `model` reads the document that is made of it, the oracle the structure itself.

use std::fmt::Write as _;

use model::mode::Mode;

use crate::chance::{DAY, HOUR, RandomStream};

pub(crate) const TEAMS: [&str; 3] = ["vision", "speech", "robotics"];
/// The tag key of `[managed]`.
pub(crate) const MANAGED_TAG: &str = "spacelift";

/// `[volumes] action`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OrphanAction {
    SnapshotAndDelete,
    Delete,
    Notify,
}

#[derive(Clone)]
pub(crate) struct SimulatedConfig {
    pub(crate) mode: Mode,
    pub(crate) owner_required: bool,
    pub(crate) untagged_mode: Mode,
    pub(crate) orphaned_after: i64,
    pub(crate) grace: i64,
    pub(crate) action: OrphanAction,
    pub(crate) keep_snapshots: i64,
    pub(crate) actions_max: i64,
    pub(crate) fleet_share_max_percent: i64,
    pub(crate) teams: [Option<Mode>; 3],
}

const ENFORCE_MOSTLY: [Mode; 4] = [Mode::Enforce, Mode::Enforce, Mode::Enforce, Mode::Observe];
const SNAPSHOT_MOSTLY: [OrphanAction; 5] = [
    OrphanAction::SnapshotAndDelete,
    OrphanAction::SnapshotAndDelete,
    OrphanAction::SnapshotAndDelete,
    OrphanAction::Delete,
    OrphanAction::Notify,
];

impl SimulatedConfig {
    pub(crate) fn draw(chance: &mut RandomStream) -> Self {
        Self {
            mode: chance.pick(&ENFORCE_MOSTLY),
            owner_required: !chance.one_in(4),
            untagged_mode: chance.pick(&[Mode::Enforce, Mode::Observe]),
            orphaned_after: chance.pick(&[0, 6 * HOUR, DAY, 3 * DAY, 3 * DAY, 14 * DAY, 20 * DAY]),
            grace: chance.pick(&[0, HOUR, DAY, DAY, 3 * DAY]),
            action: chance.pick(&SNAPSHOT_MOSTLY),
            keep_snapshots: chance.pick(&[0, 2 * DAY, 10 * DAY, 30 * DAY]),
            actions_max: chance.pick(&[0, 1, 2, 10, 10, 10, 10, 10]),
            fleet_share_max_percent: chance.pick(&[10, 20, 50, 100]),
            teams: std::array::from_fn(|_| {
                chance.pick(&[None, Some(Mode::Enforce), Some(Mode::Enforce), Some(Mode::Observe)])
            }),
        }
    }

    /// A person edits a section.
    pub(crate) fn edit(&mut self, chance: &mut RandomStream) {
        let other = Self::draw(chance);
        match chance.below(8) {
            0 => self.mode = other.mode,
            1 => self.untagged_mode = other.untagged_mode,
            2 => self.orphaned_after = other.orphaned_after,
            3 => self.grace = other.grace,
            4 => (self.action, self.keep_snapshots) = (other.action, other.keep_snapshots),
            5 => {
                self.actions_max = other.actions_max;
                self.fleet_share_max_percent = other.fleet_share_max_percent;
            }
            6 => self.teams = other.teams,
            _ => self.owner_required = other.owner_required,
        }
    }

    /// The document.
    pub(crate) fn toml(&self) -> String {
        let required = if self.owner_required { "\"Team\", \"Owner\"" } else { "\"Team\"" };
        let action = match self.action {
            OrphanAction::SnapshotAndDelete => "snapshot-and-delete",
            OrphanAction::Delete => "delete",
            OrphanAction::Notify => "notify",
        };
        let mut text = format!("mode = \"{}\"\n[tags]\nrequired = [{required}]\n", mode(self.mode));
        let _ = writeln!(text, "[managed]\ntag_keys = [\"{MANAGED_TAG}\"]");
        let _ = writeln!(text, "[untagged]\nmode = \"{}\"", mode(self.untagged_mode));
        let _ = writeln!(
            text,
            "[volumes]\norphaned_after = \"{}s\"\ngrace = \"{}s\"\naction = \"{action}\"\nkeep_snapshots = \"{}s\"",
            self.orphaned_after, self.grace, self.keep_snapshots
        );
        let _ = writeln!(
            text,
            "[limits]\nactions_max = {}\nfleet_share_max_percent = {}",
            self.actions_max, self.fleet_share_max_percent
        );
        for (name, own) in TEAMS.iter().zip(self.teams) {
            let _ = writeln!(text, "[teams.{name}]");
            if let Some(own) = own {
                let _ = writeln!(text, "mode = \"{}\"", mode(own));
            }
        }
        text
    }
}

pub(crate) const fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Enforce => "enforce",
        Mode::Observe => "observe",
    }
}
