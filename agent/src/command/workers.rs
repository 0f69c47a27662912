//! The workers of a command: the programs that its shells and launchers run.

use std::collections::BTreeMap;
use std::time::Duration;

use jobs::{ProcessEntry, ProgramKind};
use rustix::process::{Pid, Signal};

use super::LOOK_EVERY;
use crate::container::Container;
use crate::processes;

/// The processes of a command that runs.
#[derive(Debug, Clone)]
pub(crate) struct CommandProcesses {
    group: Option<Pid>,
    container: Option<Container>,
}

impl CommandProcesses {
    pub(super) const fn new(group: Option<Pid>, container: Option<Container>) -> Self {
        Self { group, container }
    }

    async fn find(&self) -> Vec<ProcessEntry> {
        let Some(first) = self.group else { return Vec::new() };
        if let Some(container) = &self.container {
            let init = container.find_init().await;
            return init.map(|init| processes::find_in_container(init, Signal::TERM)).unwrap_or_default();
        }
        let groups = processes::find_groups(first);
        processes::find_processes(first.as_raw_nonzero().get(), &groups, Signal::TERM)
    }

    /// Number of its workers; 0: not known.
    pub(crate) async fn count_workers(&self) -> u32 {
        count_workers(&self.find().await)
    }

    /// Returns once a launcher has had no worker for so long: it waits for the launchers of other nodes.
    pub(crate) async fn are_without_workers(&self, for_so_long: Duration) {
        let mut since = None;
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            if !is_launcher_alone(&self.find().await) {
                since = None;
                continue;
            }
            if since.get_or_insert_with(std::time::Instant::now).elapsed() >= for_so_long {
                return;
            }
        }
    }
}

/// Counts the programs of launchers, or else the uppermost programs.
fn count_workers(entries: &[ProcessEntry]) -> u32 {
    let kinds: BTreeMap<i32, ProgramKind> = entries.iter().map(|entry| (entry.id, entry.kind)).collect();
    let below = |kind: Option<ProgramKind>| {
        let is_worker =
            |entry: &&ProcessEntry| entry.kind == ProgramKind::Program && kinds.get(&entry.parent).copied() == kind;
        u32::try_from(entries.iter().filter(is_worker).count()).unwrap_or(0)
    };
    match below(Some(ProgramKind::Launcher)) {
        0 => below(Some(ProgramKind::Shell)).saturating_add(below(None)),
        workers => workers,
    }
}

fn is_launcher_alone(entries: &[ProcessEntry]) -> bool {
    let has = |kind| entries.iter().any(|entry| entry.kind == kind);
    has(ProgramKind::Launcher) && !has(ProgramKind::Program)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(given: &[(i32, i32, ProgramKind)]) -> Vec<ProcessEntry> {
        let entry = |(id, parent, kind): &(i32, i32, ProgramKind)| ProcessEntry {
            id: *id,
            parent: *parent,
            kind: *kind,
            handles_signal: false,
        };
        given.iter().map(entry).collect()
    }

    #[test]
    fn the_programs_of_a_launcher_are_the_workers() {
        use ProgramKind::{Launcher, Program, Shell};
        let all = entries(&[
            (2, 1, Shell),
            (3, 2, Launcher),
            (4, 3, Program),
            (5, 3, Program),
            (6, 4, Program),
            (7, 2, Program),
        ]);
        assert_eq!((count_workers(&all), is_launcher_alone(&all)), (2, false));
        assert_eq!(count_workers(&entries(&[(2, 1, Program), (3, 2, Program)])), 1);
        assert_eq!(count_workers(&entries(&[(2, 1, Shell), (3, 2, Program), (4, 3, Program)])), 1);
        assert_eq!(count_workers(&[]), 0);
        assert!(is_launcher_alone(&entries(&[(2, 1, Shell), (3, 2, Launcher)])));
        assert!(!is_launcher_alone(&entries(&[(2, 1, Shell)])));
    }
}
