//! The command as a process: in its own group, as a user of the machine, and ended with everything that it started.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use jobs::MachineIdentity;
use rustix::process::{Gid, Pid, Signal, Uid, kill_process, kill_process_group};
use rustix::thread;
use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::container::Container;
use crate::log::Log;
use crate::user::User;
use crate::{processes, variables};

/// How long leftover processes of a command may take to end by themselves.
const SIGTERM_TIMEOUT: Duration = Duration::from_secs(5);

/// Until then the agent does nothing to them.
const SELF_EXIT_TIMEOUT: Duration = Duration::from_secs(2);

/// How often the agent checks whether processes have ended.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The timeout for the last output of a command. A process that still holds the pipe is not the agent's.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) struct RunningCommand {
    child: Child,
    group: Option<Pid>,
    container: Option<Container>,
    drained: oneshot::Receiver<()>,
}

impl RunningCommand {
    /// Starts it by `sh -c`, in the container if there is one.
    pub(crate) fn begin(
        line: &str,
        user: &User,
        variables: &BTreeMap<String, String>,
        container: Option<&Container>,
        log: &Log,
    ) -> io::Result<Self> {
        let (read, write) = io::pipe()?;
        let mut command = match container {
            Some(container) => container.step(line, user, variables)?,
            None => on_machine(line, user, variables),
        };
        command.stdin(Stdio::null()).stdout(write.try_clone()?).stderr(write).process_group(0);
        // Only the container runs as the user.
        let child = if container.is_some() { Command::from(command).spawn()? } else { spawn_as(command, user)? };
        let drained = log.follow(read);
        let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        Ok(Self { child, group, container: container.cloned(), drained })
    }

    /// Waits for its end, and meanwhile reaps inherited processes at this interval.
    pub(crate) async fn ended(&mut self, reap_every: Duration) -> io::Result<ExitStatus> {
        loop {
            tokio::select! {
                ended = self.child.wait() => return ended,
                () = tokio::time::sleep(reap_every) => drop(processes::descendants(self.group)),
            }
        }
    }

    /// Waits until all its output is in the log, after everything that it started has ended.
    pub(crate) async fn drained(self) {
        let _ = tokio::time::timeout(DRAIN_TIMEOUT, self.drained).await;
    }

    /// Signals its whole group.
    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // All may have ended.
            let _ = kill_process_group(group, signal);
        }
    }

    /// Kills everything that it started, as [`kill_leftovers`] does.
    pub(crate) async fn kill(&self, with_sigterm: bool) {
        if let Some(container) = &self.container {
            container.kill().await;
        }
        kill_leftovers(with_sigterm).await;
    }

    /// Waits for the end of its whole group after a signal, which may have ended only the shell. A process that left the group got no signal,
    /// so nothing waits for it.
    pub(crate) async fn group_ended(&mut self) -> CommandExit {
        let (mut own, mut inherited) = (None, Vec::new());
        loop {
            if own.is_none() {
                own = self.child.try_wait().ok().flatten();
            }
            let seen = processes::descendants(self.group.filter(|_| own.is_none()));
            let is_of_it = |group: i32| self.group.is_some_and(|own| own.as_raw_nonzero().get() == group);
            inherited.extend(seen.ended.into_iter().filter(|(_, group)| is_of_it(*group)).map(|(code, _)| code));
            if let Some(own) = own.filter(|_| !seen.running.iter().any(|(_, group)| is_of_it(*group))) {
                return CommandExit::from_exit_codes(own.code(), &inherited);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

pub(crate) fn leftover_processes() -> Vec<Pid> {
    processes::descendants(None).running.into_iter().map(|(process, _)| process).collect()
}

/// Gives leftover processes a moment to end by themselves: helpers of a runtime notice the end of their parent.
pub(crate) async fn wait_for_leftovers() {
    let begun = Instant::now();
    while begun.elapsed() < SELF_EXIT_TIMEOUT && !leftover_processes().is_empty() {
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Kills all leftover processes of the agent's commands, in their group or not: the agent inherits them ([`processes::inherit`]). With
/// `with_sigterm` it sends SIGTERM first. Returns how many there were.
pub(crate) async fn kill_leftovers(with_sigterm: bool) -> usize {
    kill_processes(with_sigterm, leftover_processes).await
}

/// Kills the processes of a killed agent of the same attempt, which it finds by the variables of [`crate::variables`]: they would
/// write beside the next command. Returns how many there were.
pub(crate) async fn kill_orphans(identity: &MachineIdentity) -> usize {
    let variables = variables::identity_variables(identity).map(|(name, value)| format!("{name}={value}"));
    kill_processes(false, || processes::orphans_with(&variables)).await
}

async fn kill_processes(with_sigterm: bool, running: impl Fn() -> Vec<Pid>) -> usize {
    let mut left = running();
    let count = left.len();
    let begun = Instant::now();
    while !left.is_empty() {
        let signal = if with_sigterm && begun.elapsed() < SIGTERM_TIMEOUT { Signal::TERM } else { Signal::KILL };
        if begun.elapsed() > SIGTERM_TIMEOUT * 2 {
            // In the kernel, on a dead disk perhaps. The machine is about to go.
            break;
        }
        for process in left {
            // It may have ended by now.
            let _ = kill_process(process, signal);
        }
        tokio::time::sleep(LOOK_EVERY).await;
        left = running();
    }
    count
}

/// How a command ended after it was told to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CommandExit {
    /// Its exit code; if the signal ended its shell, that of the shell's child.
    pub(crate) code: Option<i32>,
    /// Whether all processes ended with success, so that their writes are complete.
    pub(crate) well: bool,
}

impl CommandExit {
    fn from_exit_codes(own: Option<i32>, inherited: &[Option<i32>]) -> Self {
        match own {
            Some(code) => Self { code: Some(code), well: code == 0 },
            None => Self {
                code: inherited.iter().copied().flatten().max(),
                well: !inherited.is_empty() && inherited.iter().all(|code| *code == Some(0)),
            },
        }
    }
}

fn on_machine(line: &str, user: &User, variables: &BTreeMap<String, String>) -> std::process::Command {
    let mut command = std::process::Command::new("/bin/sh");
    command.arg("-c").arg(line).envs(variables);
    if std::fs::metadata(&user.home).is_ok_and(|home| home.is_dir()) {
        command.current_dir(&user.home);
    }
    command
}

/// A separate thread becomes the user, and the process inherits that, so no code has to run between fork and exec. The agent keeps its own
/// credentials, because they belong to a thread (Linux manual, `credentials(7)`, "C library/kernel differences").
fn spawn_as(command: std::process::Command, user: &User) -> io::Result<Child> {
    let (handle, user) = (Handle::current(), user.clone());
    let spawned = std::thread::spawn(move || {
        let _runtime = handle.enter();
        if rustix::process::getuid().as_raw() != user.uid {
            let groups: Vec<Gid> = user.groups.iter().copied().chain([user.gid]).map(Gid::from_raw).collect();
            thread::set_thread_groups(&groups)?;
            let (gid, uid) = (Gid::from_raw(user.gid), Uid::from_raw(user.uid));
            thread::set_thread_res_gid(gid, gid, gid)?;
            thread::set_thread_res_uid(uid, uid, uid)?;
        }
        Command::from(command).spawn()
    });
    spawned.join().unwrap_or_else(|_| Err(io::Error::other("the thread that begins the command panicked")))
}

/// A signal by its name, such as `SIGTERM`.
pub(crate) fn signal_of(name: &str) -> Signal {
    match name.trim_start_matches("SIG") {
        "INT" => Signal::INT,
        "HUP" => Signal::HUP,
        "QUIT" => Signal::QUIT,
        "USR1" => Signal::USR1,
        "USR2" => Signal::USR2,
        _ => Signal::TERM,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(own: Option<i32>, inherited: &[Option<i32>], code: Option<i32>, well: bool) {
        assert_eq!(CommandExit::from_exit_codes(own, inherited), CommandExit { code, well });
    }

    #[test]
    fn a_command_that_ends_has_its_exit_code() {
        check(Some(0), &[], Some(0), true);
        check(Some(143), &[], Some(143), false);
        check(Some(0), &[None], Some(0), true);
    }

    #[test]
    fn a_child_gives_the_exit_code_after_a_signal_ends_its_shell() {
        check(None, &[Some(0), Some(0)], Some(0), true);
        check(None, &[Some(0), Some(143)], Some(143), false);
        check(None, &[Some(0), None], Some(0), false);
        check(None, &[], None, false);
    }
}
