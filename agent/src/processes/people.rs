//! The processes of the people on a box.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use rustix::process::{Pid, getpid};

use super::{Process, descends, name_of, processes};

/// Linux manual, `proc_pid_stat(5)`: CPU times are in ticks of `sysconf(_SC_CLK_TCK)`, which is 100 a second (`USER_HZ`).
const TICK_MILLIS: u64 = 10;

/// The program that runs each session of Session Manager, as the kernel cuts its name to 15 characters (aws/amazon-ssm-agent,
/// `ssm-session-worker`; Linux manual, `proc_pid_comm(5)`).
const SESSION_WORKER: &str = "ssm-session-wor";

/// A process, told from a later one of its number by the tick at which it began.
pub(crate) type ProcessAge = (i32, u64);

/// The running processes of that user, and those that descend from the agent, such as a program that a person runs by `sudo`.
pub(crate) fn find_people(uid: u32) -> Vec<Pid> {
    people(uid).into_iter().filter_map(Pid::from_raw).collect()
}

/// CPU time of each process of people, with that of its children that have ended; `None` if it cannot be read.
pub(crate) fn read_cpu_times(uid: u32) -> Option<BTreeMap<ProcessAge, Duration>> {
    cpu_time_of(&fs::read_to_string("/proc/self/stat").ok()?)?;
    // One that has ended since has no time.
    let stats =
        people(uid).into_iter().map(|id| (id, fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default()));
    let times = stats.filter_map(|(id, stat)| cpu_time_of(&stat).map(|(began, time)| ((id, began), time)));
    Some(times.collect())
}

/// The sshd that listens by that configuration. Its title names its arguments, and those of its logins do not.
pub(crate) fn find_listener(config: &str) -> Option<Pid> {
    let is_listener = |id: i32| {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        let words = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        name_of(&stat) == Some("sshd") && String::from_utf8_lossy(&words).contains(config)
    };
    processes().map(|(id, _)| id).find(|id| is_listener(*id)).and_then(Pid::from_raw)
}

/// Returns `true` if a person has a shell by Session Manager.
pub(crate) fn has_session_shell() -> bool {
    let all: BTreeMap<i32, Process> = processes().collect();
    let is_worker = |id: i32| {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        name_of(&stat) == Some(SESSION_WORKER)
    };
    all.values().any(|process| !process.ended && is_worker(process.parent))
}

fn people(uid: u32) -> Vec<i32> {
    let (all, agent): (BTreeMap<i32, Process>, i32) = (processes().collect(), getpid().as_raw_nonzero().get());
    // Root's are those of the machine.
    let is_of_user = |id: i32| uid != 0 && fs::metadata(format!("/proc/{id}")).is_ok_and(|one| one.uid() == uid);
    let running = all.iter().filter(|(_, process)| !process.ended).map(|(id, _)| *id);
    running.filter(|id| *id != agent && (is_of_user(*id) || descends(*id, agent, &all))).collect()
}

/// Linux manual, `proc_pid_stat(5)`: `utime`, `stime`, `cutime` and `cstime` are the fields 14 to 17, and `starttime` is the 22nd.
fn cpu_time_of(stat: &str) -> Option<(u64, Duration)> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = fields.get(11..15)?.iter().map(|field| field.parse::<u64>().ok());
    let ticks = ticks.sum::<Option<u64>>()?;
    Some((fields.get(19)?.parse().ok()?, Duration::from_millis(ticks.saturating_mul(TICK_MILLIS))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_the_cpu_time_of_its_ended_children() {
        let stat = "7 (a (b) c) S 1 7 7 0 -1 4194560 1 2 3 4 100 20 3 4 20 0 1 0 8731 1000 5";
        assert_eq!(cpu_time_of(stat), Some((8731, Duration::from_millis(1270))));
        assert_eq!(cpu_time_of("7 (sh) S 1 7"), None);
        assert_eq!(cpu_time_of(""), None);
    }

    #[test]
    fn own_children_are_people_and_the_agent_is_none() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let id = i32::try_from(child.id()).unwrap();
        let found = people(0);
        assert!(found.contains(&id) && !found.contains(&getpid().as_raw_nonzero().get()));
        assert!(!found.contains(&1), "root's other processes are no people's");
        assert!(read_cpu_times(0).unwrap().keys().any(|(found, _)| *found == id));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
