//! The line between the log of one attempt and the log of the next: it tells how the attempt ended.

use jiff::Timestamp;

use crate::{ExitRecord, Heartbeat};

/// Describes the end of an attempt for people, on one line; `None` if its machine wrote nothing. `heartbeat`: the last one, and the time at
/// which S3 took it.
#[must_use]
pub fn describe_attempt_end(
    attempt: u32,
    heartbeat: Option<(Timestamp, &Heartbeat)>,
    exit: Option<&ExitRecord>,
) -> Option<String> {
    let at_step = |words: String| match heartbeat.and_then(|(_, heartbeat)| heartbeat.step) {
        Some(step) => format!("{words}, at step {step}"),
        None => words,
    };
    let minute = |at: Timestamp| at.strftime("%Y-%m-%d %H:%M UTC");
    match (exit, heartbeat) {
        (Some(exit), _) => {
            let code = exit.code.map(|code| format!(" with exit code {code}")).unwrap_or_default();
            let why = if exit.why.is_empty() { String::new() } else { format!(": {}", exit.why) };
            Some(at_step(format!("attempt {attempt} ended{code} on {}", minute(exit.at))) + &why)
        }
        (None, Some((at, _))) => {
            Some(at_step(format!("attempt {attempt} left no result; its last heartbeat was on {}", minute(at))))
        }
        (None, None) => None,
    }
}

/// The signals that end a process, by number (Linux manual, `signal(7)`, x86 and ARM).
const SIGNALS: [(i32, &str); 12] = [
    (1, "SIGHUP"),
    (2, "SIGINT"),
    (3, "SIGQUIT"),
    (4, "SIGILL: a program has no instructions for this processor"),
    (6, "SIGABRT: a program has given up"),
    (7, "SIGBUS: often no room is left in /dev/shm or on a disk"),
    (8, "SIGFPE"),
    (OUT_OF_MEMORY, "SIGKILL"),
    (11, "SIGSEGV: a program has accessed memory that it does not have"),
    (
        13,
        "SIGPIPE: the reader of a pipe had ended, as `head` does; `cmd | head || true` takes that for success, and `shell = \"sh\"` everywhere",
    ),
    (15, "SIGTERM"),
    (24, "SIGXCPU"),
];

/// SIGKILL, by which the kernel ends a process for lack of memory.
const OUT_OF_MEMORY: i32 = 9;

/// Describes for people how a command ended, by its exit code or signal. `killed_for_memory`: the number of processes that the kernel has
/// killed for lack of memory while the command ran, if known.
#[must_use]
pub fn describe_exit(what: &str, code: Option<i32>, signal: Option<i32>, killed_for_memory: Option<u64>) -> String {
    let (ended, signal) = match (code, signal) {
        (Some(0), _) => (format!("{what} has ended with success"), None),
        (Some(code), _) => (format!("{what} has failed with exit code {code}"), signal_of_code(code)),
        (None, Some(signal)) => (format!("{what} was ended by signal {signal}"), Some(signal)),
        (None, None) => (format!("{what} was ended by a signal"), None),
    };
    let name = SIGNALS.iter().find(|(number, _)| Some(*number) == signal).map(|(_, name)| *name);
    let shell_note =
        signal.filter(|_| code.is_some()).map(|signal| format!("by which a shell hands on signal {signal}"));
    let explained: Vec<String> = shell_note.into_iter().chain(name.map(str::to_owned)).collect();
    let explained = if explained.is_empty() { String::new() } else { format!(" ({})", explained.join(", ")) };
    let memory = match killed_for_memory {
        Some(count @ 1..) => {
            let processes = if count == 1 { "a process".to_owned() } else { format!("{count} processes") };
            format!("; the machine ran out of memory: meanwhile the kernel killed {processes} for that")
        }
        _ if signal != Some(OUT_OF_MEMORY) => String::new(),
        Some(0) => "; the kernel killed no process for lack of memory, so a person or a program killed it".to_owned(),
        None => "; unless a person killed it, the machine ran out of memory".to_owned(),
    };
    format!("{ended}{explained}{memory}")
}

/// POSIX.1-2024, "Exit Status for Commands": 128 and more. Python's `sys.exit(process.returncode)` has 256 less the signal.
fn signal_of_code(code: i32) -> Option<i32> {
    let is_known = |signal: &i32| SIGNALS.iter().any(|(number, _)| number == signal);
    let by_python = 256_i32.checked_sub(code).filter(|signal| [4, 6, 7, 8, 9, 11, 15].contains(signal));
    code.checked_sub(128).filter(is_known).or(by_python)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_exit(code: Option<i32>, signal: Option<i32>, killed: Option<u64>, expect: &str) {
        assert_eq!(describe_exit("the command", code, signal, killed), format!("the command {expect}"));
    }

    #[test]
    fn a_signal_is_explained_whoever_hands_it_on() {
        let guess = "unless a person killed it, the machine ran out of memory";
        check_exit(None, Some(9), None, &format!("was ended by signal 9 (SIGKILL); {guess}"));
        for code in [137, 247] {
            let shell = "by which a shell hands on signal 9, SIGKILL";
            check_exit(Some(code), None, None, &format!("has failed with exit code {code} ({shell}); {guess}"));
        }
        check_exit(
            Some(139),
            None,
            Some(0),
            "has failed with exit code 139 (by which a shell hands on signal 11, SIGSEGV: a program has accessed memory that it does not have)",
        );
        check_exit(None, Some(15), None, "was ended by signal 15 (SIGTERM)");
        check_exit(None, Some(30), None, "was ended by signal 30");
        for code in [1, 3, 127, 128, 158, 255, i32::MIN, i32::MAX] {
            check_exit(Some(code), None, None, &format!("has failed with exit code {code}"));
        }
    }

    #[test]
    fn what_the_kernel_counts_is_no_guess() {
        let killed = "the machine ran out of memory: meanwhile the kernel killed";
        check_exit(Some(1), None, Some(1), &format!("has failed with exit code 1; {killed} a process for that"));
        check_exit(Some(0), None, Some(2), &format!("has ended with success; {killed} 2 processes for that"));
        check_exit(Some(0), None, Some(0), "has ended with success");
        check_exit(
            None,
            Some(9),
            Some(0),
            "was ended by signal 9 (SIGKILL); the kernel killed no process for lack of memory, so a person or a program killed it",
        );
    }
    use crate::ExitReason;
    use model::fixture::time;

    fn check(step: Option<u64>, exit: Option<(Option<i32>, &str)>, expect: &str) {
        let at = time("2026-11-22T05:00:30Z");
        let heartbeat = Heartbeat { step, ..crate::completion::tests::heartbeat(None, None) };
        let exit = exit.map(|(code, why)| ExitRecord {
            attempt: 2,
            at,
            reason: ExitReason::Failed,
            code,
            why: why.to_owned(),
            is_final: false,
        });
        assert_eq!(describe_attempt_end(2, Some((at, &heartbeat)), exit.as_ref()).as_deref(), Some(expect));
    }

    #[test]
    fn an_attempt_ends_with_its_record_or_with_its_last_heartbeat() {
        check(
            Some(1_200),
            Some((Some(1), "the command has failed")),
            "attempt 2 ended with exit code 1 on 2026-11-22 05:00 UTC, at step 1200: the command has failed",
        );
        check(None, Some((None, "")), "attempt 2 ended on 2026-11-22 05:00 UTC");
        check(Some(7), None, "attempt 2 left no result; its last heartbeat was on 2026-11-22 05:00 UTC, at step 7");
        assert_eq!(describe_attempt_end(2, None, None), None);
    }
}
