//! The processes of a command that get the signal that announces the loss of its machine. Those that handle it have something to save; what
//! a save needs, such as the loader processes of a training or the `tee` that reads its output, has to outlive it.

use std::collections::{BTreeMap, BTreeSet};

/// The kind of a process, by its program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramKind {
    Program,
    /// A shell ends by the signal, so that it runs no further command, and passes no signal on.
    Shell,
    /// A launcher saves nothing, and would pass the signal to all processes below it, or kill them soon after.
    Launcher,
}

const SHELLS: [&str; 11] = ["ash", "bash", "csh", "dash", "fish", "ksh", "ksh93", "mksh", "sh", "tcsh", "zsh"];

/// `timeout` signals its whole process group (GNU coreutils, `timeout.c`), `torchrun` the process group of each rank (PyTorch,
/// `subprocess_handler.py`), and so does what starts by it; `su` kills two seconds later (util-linux, `su-common.c`); `mpirun` ends its ranks.
const LAUNCHERS: [&str; 19] = [
    "accelerate",
    "accelerate.commands.launch",
    "composer",
    "deepspeed",
    "deepspeed.launcher.launch",
    "deepspeed.launcher.runner",
    "dlrover-run",
    "fleetrun",
    "horovodrun",
    "mpiexec",
    "mpirun",
    "orterun",
    "paddle.distributed.launch",
    "runuser",
    "su",
    "timeout",
    "torch.distributed.launch",
    "torch.distributed.run",
    "torchrun",
];

impl ProgramKind {
    /// Judges by the name of the executable, and by the words that it was called with.
    #[must_use]
    pub fn from_words(executable: &str, words: &[&str]) -> Self {
        let name_of = |path: &str| path.rsplit('/').next().unwrap_or_default().trim_start_matches('-').to_owned();
        let (executable, called) = (name_of(executable), words.first().map(|word| name_of(word)).unwrap_or_default());
        let is_busybox = matches!(executable.as_str(), "busybox" | "toybox" | "");
        if SHELLS.contains(&if is_busybox { called.as_str() } else { executable.as_str() }) {
            return Self::Shell;
        }
        // The script of an interpreter, or its module: `python -W ignore -m torch.distributed.run`.
        let module = words.iter().position(|word| *word == "-m").and_then(|at| words.get(at.saturating_add(1)));
        let script =
            module.or_else(|| words.iter().skip(1).find(|word| !word.starts_with('-'))).map(|word| name_of(word));
        let is_python = executable.starts_with("python");
        let names = [Some(executable), Some(called), script.filter(|_| is_python)];
        let is_launcher = names.iter().flatten().any(|name| LAUNCHERS.contains(&name.as_str()));
        if is_launcher { Self::Launcher } else { Self::Program }
    }
}

/// A running process of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessEntry {
    pub id: i32,
    pub parent: i32,
    pub kind: ProgramKind,
    /// True if it handles the signal, by its own function or by waiting for it.
    pub handles_signal: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignalRecipients {
    /// No program handles it: all processes get it.
    All,
    /// The processes in this order: shells before the programs that they wait for, because a shell runs its next command otherwise.
    Only(Vec<i32>),
}

/// A command can nest its processes as deep as it likes.
const DEPTH_MAX: u32 = 100;

/// The uppermost program of each branch that handles the signal, and all shells above it. A launcher gets it only if nothing below it does.
#[must_use]
pub fn choose_recipients(processes: &[ProcessEntry]) -> SignalRecipients {
    let mut found = FoundRecipients { children: BTreeMap::new(), shells: Vec::new(), programs: Vec::new() };
    for process in processes {
        found.children.entry(process.parent).or_default().push(process);
    }
    let ids: BTreeSet<i32> = processes.iter().map(|process| process.id).collect();
    for root in processes.iter().filter(|process| !ids.contains(&process.parent)) {
        found.descend(root, DEPTH_MAX);
    }
    if found.programs.is_empty() {
        return SignalRecipients::All;
    }
    SignalRecipients::Only(found.shells.into_iter().chain(found.programs).collect())
}

struct FoundRecipients<'a> {
    children: BTreeMap<i32, Vec<&'a ProcessEntry>>,
    shells: Vec<i32>,
    programs: Vec<i32>,
}

impl FoundRecipients<'_> {
    fn descend(&mut self, process: &ProcessEntry, depth: u32) {
        let before = self.programs.len();
        if process.kind == ProgramKind::Shell {
            self.shells.push(process.id);
        } else if process.kind == ProgramKind::Program && process.handles_signal {
            self.programs.push(process.id);
            return;
        }
        let children = self.children.remove(&process.id).unwrap_or_default();
        for child in children {
            if let Some(depth) = depth.checked_sub(1) {
                self.descend(child, depth);
            }
        }
        let is_lone_launcher = process.kind == ProgramKind::Launcher && self.programs.len() == before;
        if is_lone_launcher && process.handles_signal {
            self.programs.push(process.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ProgramKind::{Launcher, Program, Shell};
    use super::*;

    /// `(id, parent, kind, handles the signal)`.
    #[track_caller]
    fn check(processes: &[(i32, i32, ProgramKind, bool)], expect: Option<&[i32]>) {
        let entry = |(id, parent, kind, handles_signal): &(i32, i32, ProgramKind, bool)| {
            let (id, parent, kind, handles_signal) = (*id, *parent, *kind, *handles_signal);
            ProcessEntry { id, parent, kind, handles_signal }
        };
        let chosen = choose_recipients(&processes.iter().map(entry).collect::<Vec<_>>());
        let expect = expect.map_or(SignalRecipients::All, |ids| SignalRecipients::Only(ids.to_vec()));
        assert_eq!(chosen, expect);
    }

    #[test]
    fn a_training_gets_it_and_its_loaders_do_not() {
        check(&[(2, 1, Program, true), (3, 2, Program, false), (4, 2, Program, true)], Some(&[2]));
        check(&[(2, 1, Shell, false), (3, 2, Program, true), (4, 3, Program, true)], Some(&[2, 3]));
        check(&[(2, 1, Shell, false), (3, 2, Shell, false), (4, 3, Program, true)], Some(&[2, 3, 4]));
    }

    #[test]
    fn a_reader_of_a_pipe_outlives_the_training() {
        check(&[(2, 1, Shell, false), (3, 2, Program, true), (4, 2, Program, false)], Some(&[2, 3]));
        check(&[(2, 1, Shell, false), (3, 2, Program, true), (4, 2, Program, true)], Some(&[2, 3, 4]));
    }

    #[test]
    fn a_program_that_only_waits_for_a_training_does_not_get_it() {
        check(&[(2, 1, Program, false), (3, 2, Program, true), (4, 3, Program, true)], Some(&[3]));
        check(&[(2, 1, Launcher, true), (3, 2, Program, true), (4, 2, Program, true)], Some(&[3, 4]));
        check(&[(2, 1, Launcher, true), (3, 2, Shell, false), (4, 3, Program, true)], Some(&[3, 4]));
        check(&[(2, 1, Launcher, true), (3, 2, Program, false)], Some(&[2]));
    }

    #[test]
    fn all_get_it_if_no_program_handles_it() {
        check(&[(2, 1, Program, false), (3, 2, Program, false)], None);
        check(&[(2, 1, Shell, true), (3, 2, Program, false)], None);
        check(&[(2, 1, Launcher, false), (3, 2, Program, false)], None);
        check(&[], None);
        // A cycle, as processes that were read one after the other may seem to have.
        check(&[(2, 3, Program, true), (3, 2, Program, true)], None);
    }

    #[test]
    fn a_shell_with_a_trap_gets_it_beside_its_training() {
        check(&[(2, 1, Shell, true), (3, 2, Program, true)], Some(&[2, 3]));
    }

    #[test]
    fn orphans_are_roots() {
        check(&[(3, 1, Program, true), (4, 1, Program, false), (6, 5, Program, true)], Some(&[3, 6]));
    }

    #[test]
    fn a_program_is_judged_by_its_names() {
        let check = |executable: &str, words: &[&str], expect| {
            assert_eq!(ProgramKind::from_words(executable, words), expect, "{executable} {words:?}");
        };
        check("/usr/bin/bash", &["/bin/sh", "train.sh"], Shell);
        check("/usr/bin/dash", &["-sh"], Shell);
        check("/bin/busybox", &["/bin/ash"], Shell);
        check("/bin/busybox", &["tee", "sh"], Program);
        check("", &["sh", "-c", "x"], Shell);
        check("/usr/bin/timeout", &["timeout", "7h", "python", "train.py"], Launcher);
        check("/usr/bin/python3.12", &["/venv/bin/python", "/venv/bin/torchrun", "train.py"], Launcher);
        check("/usr/bin/python3.12", &["python3", "-u", "-m", "torch.distributed.run", "train.py"], Launcher);
        check("/usr/bin/python3.12", &["python3", "train.py", "--launcher", "torchrun"], Program);
        check("/usr/bin/tee", &["tee", "torchrun"], Program);
        check("", &[], Program);
    }
}
