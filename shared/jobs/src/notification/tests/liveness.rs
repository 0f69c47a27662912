//! Notifications of a stall, and of idle GPUs.

use insta::assert_snapshot;
use jiff::SignedDuration;
use model::id::Region;

use super::{check_delay, headline};
use crate::next::tests::fixture::*;
use crate::*;

/// Of the machine of attempt 1, an hour after its launch: its signs of work, of a heartbeat of a minute ago.
fn heartbeat(signs: WorkSigns) -> HeartbeatSigns {
    HeartbeatSigns { attempt: 1, signs, at: noon_plus(HOUR - MINUTE), now: noon_plus(HOUR) }
}

fn stalled(heartbeat: HeartbeatSigns, kind: AgentWarningKind) -> String {
    let warning = AgentWarning::new(kind, "no new checkpoint for 30m");
    let notification = running().job.notify_agent_warning(1, &warning, Some(&heartbeat), &Region::new("us-east-1"));
    notification.unwrap().text.lines().next().unwrap().to_owned()
}

#[test]
fn a_stall_says_what_it_costs() {
    let prefix = "vision/llama-1a2b3c4d (owner \"ada\"): attempt 1 says: no new checkpoint for 30m.";
    let lasts = |seconds| heartbeat(WorkSigns { stalled_seconds: Some(seconds), ..WorkSigns::default() });
    let cost = |cost| {
        format!("{prefix} Its machine costs $0.40/h, which is {cost} for that time; the job has cost $1.00 at most.")
    };
    assert_eq!(stalled(lasts(1_800), AgentWarningKind::Stalled), cost("$0.20"));
    // No longer than the machine ran.
    assert_eq!(stalled(lasts(u64::MAX), AgentWarningKind::Stalled), cost("$0.40"));
    assert_eq!(stalled(lasts(1_800), AgentWarningKind::Disk), prefix);
    assert_eq!(stalled(HeartbeatSigns { attempt: 2, ..lasts(1_800) }, AgentWarningKind::Stalled), prefix);
    assert_eq!(stalled(heartbeat(WorkSigns::default()), AgentWarningKind::Stalled), prefix);
}

#[test]
fn idle_gpus_are_notified_with_what_they_cost() {
    let notified = |given: JobInput, heartbeat: HeartbeatSigns, minutes: i64| {
        let after = SignedDuration::from_mins(minutes);
        given.job.notify_idle(&heartbeat, after, &Region::new("us-east-1"))
    };
    let idle = |seconds| heartbeat(WorkSigns { gpu_idle_seconds: Some(seconds), ..WorkSigns::default() });
    let notification = notified(running(), idle(1_800), 30).unwrap();
    assert_snapshot!(&*notification.text, @r#"
    vision/llama-1a2b3c4d (owner "ada"): every GPU of i-1 (g6.xlarge) has been below 5 % for 30m. Its machine costs $0.40/h, which is $0.20 for that time; the job has cost $1.00 at most. `limits.idle` in its document would end it by itself.
    Its log: curfew logs vision/llama-1a2b3c4d --attempt 1
    To stop it: curfew cancel vision/llama-1a2b3c4d
    "#);
    assert_snapshot!(headline(&notification), @"The GPUs of job llama-1a2b3c4d of team vision are idle at 2026-09-01 13:00 UTC: $0.40/h");
    check_delay(&notification, &notified(running(), idle(2_400), 30).unwrap(), 60, false);
    check_delay(&notification, &notified(running(), idle(2_400), 30).unwrap(), 24 * HOUR, true);
    for (heartbeat, minutes) in [
        (idle(1_799), 30),
        (idle(0), 1),
        (heartbeat(WorkSigns::default()), 1),
        // More than it ran.
        (idle(u64::MAX), 61),
        (HeartbeatSigns { attempt: 2, ..idle(1_800) }, 30),
        (HeartbeatSigns { at: noon_plus(50 * MINUTE), ..idle(1_800) }, 30),
    ] {
        assert_eq!(notified(running(), heartbeat, minutes), None, "{heartbeat:?}");
    }
    assert_eq!(notified(ended(JobResult::Failed), idle(1_800), 30), None);
    assert_eq!(notified(interrupted(), idle(1_800), 30), None);
}
