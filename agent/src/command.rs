//! The command as a process: in its own group, as a user of the machine, and ended with everything that it started.

mod workers;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use jobs::{MachineIdentity, Shell, SignalRecipients, choose_recipients};
use rustix::process::{Gid, Pid, Signal, Uid, kill_process, kill_process_group};
use rustix::thread;
use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::container::Container;
use crate::log::Log;
use crate::user::User;
use crate::{processes, variables};

/// Time that leftover processes of a command have to end by themselves.
const SIGTERM_TIMEOUT: Duration = Duration::from_secs(5);

/// Time in which the agent does nothing to leftover processes.
const SELF_EXIT_TIMEOUT: Duration = Duration::from_secs(2);

/// Interval at which the agent checks whether processes have ended.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The most processes that a message names.
const NAMES_MAX: usize = 5;

/// The timeout for the last output of a command. A process that still holds the pipe is not the agent's.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) use self::workers::CommandProcesses;

pub(crate) struct RunningCommand {
    child: Child,
    group: Option<Pid>,
    container: Option<Container>,
    drained: oneshot::Receiver<()>,
    /// The signal that was sent last; `None` before the first.
    delivery: Option<SignalDelivery>,
}

/// A signal, and what it was sent to.
struct SignalDelivery {
    signal: Signal,
    /// The process groups of the command, as they were at the first signal.
    groups: BTreeSet<i32>,
    recipients: Vec<i32>,
    /// The time since which none of the recipients runs.
    ended_at: Option<Instant>,
}

impl RunningCommand {
    /// Starts it, in the container if there is one.
    pub(crate) fn begin(
        line: ShellLine<'_>,
        user: &User,
        variables: &BTreeMap<String, String>,
        container: Option<&Container>,
        log: &Log,
    ) -> io::Result<Self> {
        let (read, write) = io::pipe()?;
        let mut command = match container {
            Some(container) => container.step(line, user, variables)?,
            None => on_machine(line, user, variables)?,
        };
        command.stdin(Stdio::null()).stdout(write.try_clone()?).stderr(write).process_group(0);
        // Only the container runs as the user.
        let child = if container.is_some() { Command::from(command).spawn()? } else { spawn_as(command, user)? };
        let drained = log.follow(read);
        let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        Ok(Self { child, group, container: container.cloned(), drained, delivery: None })
    }

    /// The processes of the command, for who has to look at them without it.
    pub(crate) fn processes(&self) -> CommandProcesses {
        CommandProcesses::new(self.group, self.container.clone())
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

    /// The names of the processes that it left behind in its container, and that ended with that.
    pub(crate) fn left_in_container(&self) -> Vec<String> {
        self.container.as_ref().map(Container::read_left).unwrap_or_default()
    }

    /// Waits until all its output is in the log, after everything that it started has ended.
    pub(crate) async fn drained(self) {
        let _ = tokio::time::timeout(DRAIN_TIMEOUT, self.drained).await;
    }

    /// Signals the processes that have to hear it ([`choose_recipients`]).
    pub(crate) async fn signal(&mut self, signal: Signal) {
        let Some(first) = self.group else { return };
        let groups = self.delivery.take().map_or_else(|| processes::find_groups(first), |delivery| delivery.groups);
        let init = match &self.container {
            Some(container) => container.find_init().await,
            None => None,
        };
        let entries = match init {
            Some(init) => processes::find_in_container(init, signal),
            None => processes::find_processes(first.as_raw_nonzero().get(), &groups, signal),
        };
        // Without a view into it Docker passes the signal on.
        let is_hidden = self.container.is_some() && init.is_none();
        let chosen = if is_hidden { SignalRecipients::All } else { choose_recipients(&entries) };
        let recipients = match chosen {
            SignalRecipients::Only(recipients) => {
                for recipient in recipients.iter().filter_map(|id| Pid::from_raw(*id)) {
                    // It may have ended by now.
                    let _ = kill_process(recipient, signal);
                }
                recipients
            }
            SignalRecipients::All => {
                for group in groups.iter().filter_map(|group| Pid::from_raw(*group)) {
                    let _ = kill_process_group(group, signal);
                }
                if init.is_some() {
                    entries.iter().map(|entry| entry.id).collect()
                } else {
                    processes::find_running(&groups)
                }
            }
        };
        self.delivery = Some(SignalDelivery { signal, groups, recipients, ended_at: None });
    }

    /// Signals the processes that the signaled ones leave running after their end, such as a training whose launcher did not wait for it.
    async fn signal_rest(&mut self) {
        let Some(delivery) = &mut self.delivery else { return };
        if delivery.recipients.iter().any(|id| processes::is_running(*id)) {
            return;
        }
        if delivery.ended_at.get_or_insert_with(Instant::now).elapsed() >= SELF_EXIT_TIMEOUT {
            let signal = delivery.signal;
            self.signal(signal).await;
        }
    }

    /// Kills everything that it started, as [`kill_leftovers`] does.
    pub(crate) async fn kill(&self, with_sigterm: bool) {
        if let Some(container) = &self.container {
            container.kill().await;
        }
        kill_leftovers(with_sigterm).await;
    }

    /// Waits after a signal for the end of its process groups, and of what was signaled. A process that left its session and got no signal is not
    /// waited for.
    pub(crate) async fn group_ended(&mut self) -> CommandExit {
        let (mut own, mut inherited) = (None, Vec::new());
        loop {
            if own.is_none() {
                own = self.child.try_wait().ok().flatten();
            }
            let seen = processes::descendants(self.group.filter(|_| own.is_none()));
            let groups = self.delivery.as_ref().map(|delivery| &delivery.groups);
            let is_of_it = |group: i32| groups.is_some_and(|groups| groups.contains(&group));
            inherited.extend(seen.ended.into_iter().filter(|(_, group)| is_of_it(*group)).map(|(code, _)| code));
            let recipients = self.delivery.iter().flat_map(|delivery| &delivery.recipients);
            let is_over = !seen.running.iter().any(|(_, group)| is_of_it(*group))
                && (self.container.is_some() || !recipients.into_iter().any(|id| processes::is_running(*id)));
            if let Some(own) = own.filter(|_| is_over) {
                return CommandExit::from_exit_codes(own.code(), &inherited);
            }
            self.signal_rest().await;
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

pub(crate) fn leftover_processes() -> Vec<Pid> {
    processes::descendants(None).running.into_iter().map(|(process, _)| process).collect()
}

/// The names of processes for people, the first of them, and how many there are.
pub(crate) fn describe_processes(names: &[String]) -> String {
    let shown = names.iter().take(NAMES_MAX).cloned().collect::<Vec<_>>().join(", ");
    match names.len() {
        1 => format!("a process, {shown}"),
        count if count <= NAMES_MAX => format!("{count} processes, {shown}"),
        count => format!("{count} processes, {shown} and others"),
    }
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
    kill_processes(with_sigterm.then_some(Signal::TERM), leftover_processes).await
}

/// Kills the processes of a killed agent of the same attempt, which it finds by the variables of [`crate::variables`]: they would
/// write beside the next command. Returns how many there were.
pub(crate) async fn kill_orphans(identity: &MachineIdentity) -> usize {
    let variables = variables::identity_variables(identity).map(|(name, value)| format!("{name}={value}"));
    kill_processes(None, || processes::orphans_with(&variables)).await
}

/// Ends the programs of the people on a box, first by SIGHUP, as a terminal that is gone does.
pub(crate) async fn hang_up(uid: u32) {
    kill_processes(Some(Signal::HUP), || processes::find_people(uid)).await;
}

async fn kill_processes(first: Option<Signal>, running: impl Fn() -> Vec<Pid>) -> usize {
    let mut left = running();
    let count = left.len();
    let begun = Instant::now();
    while !left.is_empty() {
        let signal = first.filter(|_| begun.elapsed() < SIGTERM_TIMEOUT).unwrap_or(Signal::KILL);
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

/// The end of a command that got a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CommandExit {
    /// Its exit code; if the signal ended its shell, that of the shell's child.
    pub(crate) code: Option<i32>,
    /// `true` if all processes ended with success, so that their writes are complete.
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

/// A line, and the shell that its document names.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ShellLine<'a> {
    pub(crate) line: &'a str,
    pub(crate) shell: Option<Shell>,
}

/// The directories of a machine that have its shells.
const SHELL_DIRECTORIES: [&str; 3] = ["/bin", "/usr/bin", "/usr/local/bin"];

/// The shell and its path on this machine; without a name `bash`, or else `sh`. An error if the machine does not have the named one.
pub(crate) fn find_shell(named: Option<Shell>) -> io::Result<(Shell, String)> {
    let path_of = |shell: Shell| {
        let paths = SHELL_DIRECTORIES.iter().map(|directory| format!("{directory}/{}", shell.as_str()));
        paths.into_iter().find(|path| Path::new(path).exists()).map(|path| (shell, path))
    };
    let Some(named) = named else {
        return Ok(path_of(Shell::Bash).unwrap_or_else(|| (Shell::Sh, "/bin/sh".to_owned())));
    };
    let absent = || format!("the machine has no `{}` in {}", named.as_str(), SHELL_DIRECTORIES.join(", "));
    path_of(named).ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, absent()))
}

fn on_machine(
    line: ShellLine<'_>,
    user: &User,
    variables: &BTreeMap<String, String>,
) -> io::Result<std::process::Command> {
    let (shell, path) = find_shell(line.shell)?;
    let mut command = std::process::Command::new(path);
    command.args(shell.arguments(line.line)).envs(variables);
    if std::fs::metadata(&user.home).is_ok_and(|home| home.is_dir()) {
        command.current_dir(&user.home);
    }
    Ok(command)
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
