//! The processes that descend from the agent, by `/proc`.

mod command;
mod people;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::process::{Pid, WaitOptions, geteuid, getpid, set_child_subreaper, waitpid};

use crate::inputs::is_mount;

pub(crate) use self::command::{
    find_groups, find_in_container, find_processes, find_running, is_running, name_process,
};
pub(crate) use self::people::{ProcessAge, find_listener, find_people, has_session_shell, read_cpu_times};

/// Makes the agent the parent of each descendant whose parent ends, as `init` is of all others.
pub(crate) fn inherit() {
    // Without it only the group of the command is ended with it.
    let _ = set_child_subreaper(Some(getpid()));
}

#[derive(Debug, Default)]
pub(crate) struct Descendants {
    /// The running ones, each with its process group.
    pub(crate) running: Vec<(Pid, i32)>,
    /// The inherited ones that have ended, each with its process group: the exit code, or `None` if a signal ended it.
    pub(crate) ended: Vec<(Option<i32>, i32)>,
}

/// Lists them and reaps those that have ended, except `own_child`, which another task waits for.
pub(crate) fn descendants(own_child: Option<Pid>) -> Descendants {
    let agent = getpid().as_raw_nonzero().get();
    let all: BTreeMap<i32, Process> = processes().collect();
    let mut found = Descendants::default();
    for (id, process) in &all {
        let Some(pid) = Pid::from_raw(*id) else { continue };
        if !process.ended && descends(*id, agent, &all) {
            found.running.push((pid, process.group));
        } else if process.ended && process.parent == agent && Some(pid) != own_child {
            let ended = waitpid(Some(pid), WaitOptions::NOHANG).ok().flatten();
            found.ended.extend(ended.map(|(_, status)| (status.exit_status(), process.group)));
        }
    }
    found
}

/// Processes with these variables (`NAME=value`) in their environment that descend from no running agent.
pub(crate) fn orphans_with(variables: &[String]) -> Vec<Pid> {
    let all: BTreeMap<i32, Process> = processes().collect();
    let (agent, own) = (getpid().as_raw_nonzero().get(), size_of_program("self"));
    // A person may start an agent by hand in the environment of a command.
    let is_above = |id: i32| id == agent || ancestors(agent, &all).any(|ancestor| ancestor == id);
    let is_agent = |id: i32| own.is_some() && size_of_program(&id.to_string()) == own;
    let is_orphan = |id: &i32| {
        let environment = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
        let has = |variable: &String| environment.split(|byte| *byte == 0).any(|one| one == variable.as_bytes());
        variables.iter().all(has) && !is_above(*id) && !ancestors(*id, &all).any(is_agent)
    };
    let running = all.iter().filter(|(_, process)| !process.ended).map(|(id, _)| id);
    running.filter(|id| is_orphan(id)).filter_map(|id| Pid::from_raw(*id)).collect()
}

/// Identifies another agent: a copy of the program has the same size.
fn size_of_program(process: &str) -> Option<u64> {
    fs::metadata(format!("/proc/{process}/exe")).ok().map(|program| program.len())
}

/// Returns `true` if a process may have a file at or below the path open for writing. The path must have no links.
pub(crate) fn writes_below(path: &Path, process: Pid) -> bool {
    let own = format!("/proc/{}", process.as_raw_nonzero());
    // It has ended, or cannot be inspected.
    let Ok(open) = fs::read_dir(format!("{own}/fd")) else { return Path::new(&own).exists() };
    open.flatten().any(|file| {
        let is_below = fs::read_link(file.path()).is_ok_and(|opened| opened.starts_with(path));
        let info = || fs::read_to_string(format!("{own}/fdinfo/{}", file.file_name().display()));
        is_below && info().map_or(true, |info| is_for_writing(&info))
    })
}

/// Linux manual, `proc_pid_fdinfo(5)`: the flags of `open(2)`, octal; the last two bits are the access mode, and 0 means read only.
fn is_for_writing(info: &str) -> bool {
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok()).is_none_or(|flags| flags & 0b11 != 0)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Process {
    parent: i32,
    group: i32,
    session: i32,
    ended: bool,
}

fn processes() -> impl Iterator<Item = (i32, Process)> {
    let names = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = names.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    ids.filter_map(|id| {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        (!serves_input(id, &stat)).then(|| process_of(&stat).map(|process| (id, process))).flatten()
    })
}

/// Returns `true` if a process serves a mounted input, and so is none of the command's. Only the agent's own user can begin such a process.
fn serves_input(id: i32, stat: &str) -> bool {
    let own = || fs::metadata(format!("/proc/{id}")).is_ok_and(|process| process.uid() == geteuid().as_raw());
    name_of(stat).is_some_and(is_mount) && own()
}

fn name_of(stat: &str) -> Option<&str> {
    Some(stat.split_once('(')?.1.rsplit_once(')')?.0)
}

/// Linux manual, `proc_pid_stat(5)`: the name in parentheses may hold any character; then come the state, the parent, the process group and the session.
fn process_of(stat: &str) -> Option<Process> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    let (parent, group) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    let session = fields.next()?.parse().ok()?;
    Some(Process { parent, group, session, ended: matches!(state, "Z" | "X") })
}

fn descends(id: i32, from: i32, all: &BTreeMap<i32, Process>) -> bool {
    ancestors(id, all).any(|ancestor| ancestor == from)
}

fn ancestors(id: i32, all: &BTreeMap<i32, Process>) -> impl Iterator<Item = i32> {
    let processes = std::iter::successors(all.get(&id), |process| all.get(&process.parent));
    // The processes were read one after the other, so an apparent cycle is none.
    processes.take(all.len()).map(|process| process.parent)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(stat: &str, expect: Option<(i32, i32, bool)>) {
        assert_eq!(
            process_of(stat),
            expect.map(|(parent, group, ended)| Process { parent, group, session: 13, ended }),
            "{stat}"
        );
    }

    #[test]
    fn a_process_name_may_hold_any_character() {
        check("12 (sh) S 7 12 13 0 -1", Some((7, 12, false)));
        check("12 (a) Z 9 (b) Z 7 11 13", Some((7, 11, true)));
        check("12 (sh", None);
        assert_eq!(name_of("12 (a) Z 9 (b) Z 7 11"), Some("a) Z 9 (b"));
    }

    #[test]
    fn a_file_open_for_writing_is_found() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().canonicalize().unwrap();
        let (path, writes) = (folder.join("a"), |below: &Path| writes_below(below, getpid()));
        assert!(!writes(&folder));
        let written = fs::File::create(&path).unwrap();
        assert!(writes(&folder) && writes(&path) && !writes(&folder.join("b")));
        drop(written);
        let read = fs::File::open(&path).unwrap();
        assert!(!writes(&folder));
        drop(read);
    }

    #[test]
    fn a_descendant_is_found_through_any_number_of_parents() {
        let parents = [(2, 1), (3, 2), (4, 3), (5, 1), (6, 7), (7, 6)];
        let all = parents
            .map(|(id, parent)| (id, Process { parent, group: 1, session: 1, ended: false }))
            .into_iter()
            .collect();
        let found: Vec<i32> = (1..8).filter(|id| descends(*id, 2, &all)).collect();
        assert_eq!(found, [3, 4]);
    }
}
