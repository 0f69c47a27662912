//! The processes of a command, as `/proc` shows them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use jobs::{ProcessEntry, ProgramKind};
use model::fault::one_line;
use rustix::process::{Pid, Signal};

use super::{Process, ancestors, processes};

/// The longest command line that is looked at, in bytes.
const WORDS_BYTES_MAX: usize = 4096;

/// The longest name of a process in a message, in characters.
const NAME_CHARACTERS_MAX: usize = 40;

/// The running processes of a command: those of these process groups, and those that descend from its first process.
pub(crate) fn find_processes(first: i32, groups: &BTreeSet<i32>, signal: Signal) -> Vec<ProcessEntry> {
    find_entries(signal, |id, process, all| {
        id == first || groups.contains(&process.group) || ancestors(id, all).any(|ancestor| ancestor == first)
    })
}

/// The running processes below the first one of a container.
pub(crate) fn find_in_container(init: i32, signal: Signal) -> Vec<ProcessEntry> {
    find_entries(signal, |id, _, all| ancestors(id, all).any(|ancestor| ancestor == init))
}

fn find_entries(
    signal: Signal,
    is_of_it: impl Fn(i32, &Process, &BTreeMap<i32, Process>) -> bool,
) -> Vec<ProcessEntry> {
    let all: BTreeMap<i32, Process> = processes().collect();
    let running = all.iter().filter(|(id, process)| !process.ended && is_of_it(**id, process, &all));
    running.map(|(id, process)| read_entry(*id, process.parent, signal)).collect()
}

fn read_entry(id: i32, parent: i32, signal: Signal) -> ProcessEntry {
    let executable = fs::read_link(format!("/proc/{id}/exe")).unwrap_or_default();
    let words = words_of(id);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    ProcessEntry {
        id,
        parent,
        kind: ProgramKind::from_words(&executable.to_string_lossy(), &words),
        handles_signal: handles_signal(&status, signal),
    }
}

fn words_of(id: i32) -> Vec<String> {
    let mut line = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
    line.truncate(WORDS_BYTES_MAX);
    let words = line.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned());
    words.collect()
}

/// Linux manual, `proc_pid_status(5)`: masks of signals in hexadecimal. A program that blocks a signal waits for it by a call.
fn handles_signal(status: &str, signal: Signal) -> bool {
    let bit = u64::try_from(signal.as_raw().saturating_sub(1))
        .ok()
        .and_then(|bit| 1_u64.checked_shl(u32::try_from(bit).ok()?));
    let has = |mask: &str| {
        let mask = status.lines().find_map(|line| line.strip_prefix(mask)).map(str::trim);
        mask.and_then(|mask| u64::from_str_radix(mask, 16).ok())
            .is_some_and(|mask| bit.is_some_and(|bit| mask & bit != 0))
    };
    has("SigCgt:") || (has("SigBlk:") && !has("SigIgn:"))
}

/// The process groups of the command in the session of its first process, such as those of `timeout`. A process that has left the session is on its
/// own.
pub(crate) fn find_groups(first: Pid) -> BTreeSet<i32> {
    let first = first.as_raw_nonzero().get();
    let all: BTreeMap<i32, Process> = processes().collect();
    let session = all.get(&first).map(|process| process.session);
    let is_of_it = |(id, process): &(&i32, &Process)| {
        Some(process.session) == session && ancestors(**id, &all).any(|ancestor| ancestor == first)
    };
    all.iter().filter(is_of_it).map(|(_, process)| process.group).chain([first]).collect()
}

/// The running processes of these process groups.
pub(crate) fn find_running(groups: &BTreeSet<i32>) -> Vec<i32> {
    let running = processes().filter(|(_, process)| !process.ended && groups.contains(&process.group));
    running.map(|(id, _)| id).collect()
}

pub(crate) fn is_running(id: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    super::process_of(&stat).is_some_and(|process| !process.ended)
}

/// The names of processes for people: their program, and its script if it has one. Their other arguments may be secrets.
pub(crate) fn name_process(id: Pid) -> String {
    let id = id.as_raw_nonzero().get();
    let words = words_of(id);
    let comm = fs::read_to_string(format!("/proc/{id}/comm")).unwrap_or_default();
    let script = words.get(1).filter(|word| !word.starts_with('-')).and_then(|word| word.rsplit('/').next());
    let is_script = |name: &&str| {
        let suffix = name.rsplit_once('.').map(|(_, suffix)| suffix);
        suffix.is_some_and(|suffix| !suffix.is_empty() && suffix.chars().all(|letter| letter.is_ascii_alphabetic()))
    };
    let script = script.filter(is_script).filter(|script| *script != comm.trim());
    let name = comm.trim().to_owned() + &script.map(|script| format!(" {script}")).unwrap_or_default();
    format!("{} ({id})", one_line(&name, NAME_CHARACTERS_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(status: &str, signal: Signal, expect: bool) {
        assert_eq!(handles_signal(status, signal), expect, "{status}");
    }

    #[test]
    fn a_caught_or_awaited_signal_is_handled() {
        let status = |blocked: &str, ignored: &str, caught: &str| {
            format!("Name:\tpython3\nSigBlk:\t{blocked}\nSigIgn:\t{ignored}\nSigCgt:\t{caught}\n")
        };
        check(&status("0", "1000", "4002"), Signal::TERM, true);
        check(&status("0", "1000", "2"), Signal::TERM, false);
        check(&status("0", "1000", "2"), Signal::INT, true);
        check(&status("4000", "0", "0"), Signal::TERM, true);
        check(&status("4000", "4000", "0"), Signal::TERM, false);
        check("", Signal::TERM, false);
    }
}
