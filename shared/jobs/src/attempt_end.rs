//! How an attempt ended, between its log and that of the next one.

use jiff::Timestamp;

use crate::{ExitRecord, Heartbeat};

/// For people, on one line; `None` if its machine wrote nothing. `heartbeat`: the last one, and when S3 took it.
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

#[cfg(test)]
mod tests {
    use super::*;
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
