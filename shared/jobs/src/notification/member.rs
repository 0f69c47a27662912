//! Notifications about a member of a sweep. Two messages about the sweep itself say how it begins and ends. Once a day, one message for all
//! members says why they are not launched. The machine of a member has the same notifications as that of any other job.

use model::id::{Region, ResourceId};
use model::notification_log::{Notification, NotificationKey, NotificationKind, RepeatPolicy};

use super::NotificationDraft;
use crate::{Job, JobResult, Phase, RetryWait};

impl Job {
    /// Returns `true` if the job is a member of a sweep, and no notification of its own is due.
    pub(super) fn is_said_by_sweep(&self, may_act: bool) -> bool {
        self.sweep.is_some()
            && match &self.phase {
                Phase::Running(_) => self.machines <= 1 && self.machine_hold.is_none(),
                Phase::Retrying(waiting) => waiting.machine.is_none() || self.machine_hold.is_none(),
                Phase::Waiting(_) | Phase::Held(_) => true,
                // A machine that is left running costs money.
                Phase::Ended(ended) => {
                    let is_ended_by_curfew = matches!(ended.result, JobResult::Expired | JobResult::Cancelled);
                    let is_left = self.machine_hold.is_some() || !may_act;
                    ended.machine.is_none() || !is_ended_by_curfew || !is_left
                }
                Phase::Submitted | Phase::Reserving | Phase::Launching(_) | Phase::Interrupted(_) => false,
            }
    }

    /// Returns the notification why this member of a sweep is not launched, for all members, once a day while it lasts; `None` if there is
    /// no such reason. `home`: the region whose log remembers it.
    #[must_use]
    pub fn notify_of_members(&self, home: &Region) -> Option<Notification> {
        let sweep = self.sweep_id()?;
        let (kind, draft) = match &self.phase {
            Phase::Waiting(waiting) => ("waits".to_owned(), self.draft_waiting(waiting)),
            Phase::Held(held) => (format!("held {}", held.by.as_str()), self.draft_held(held)),
            Phase::Retrying(waiting @ RetryWait { .. }) if self.is_said_by_sweep(true) => {
                ("retries".to_owned(), self.draft_retrying(waiting))
            }
            _ => return None,
        };
        let NotificationDraft { severity, text, headline, .. } = draft;
        let command = format!("curfew jobs {}", sweep.to_shell_word());
        let text = text.with_command("The same may be true of other jobs of its sweep", &command);
        let topic = NotificationKey::named(format!("sweep {sweep} {kind}"));
        Some(Notification {
            team: sweep.team.as_str().to_owned(),
            severity,
            region: home.clone(),
            resource: Some(ResourceId::new(&sweep.job)),
            kind: NotificationKind::State { topic, what: kind, repeat: RepeatPolicy::Daily },
            text,
            happened: false,
            mode: None,
            loses: None,
            headline,
            facts: self.facts(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::next::tests::fixture::*;
    use crate::next::tests::retry::{alone, retrying};
    use crate::{HoldReason, JobId, MachineHold, SweepMember};

    fn member(given: JobInput) -> Job {
        let sweep = SweepMember { number: 3, parameters: Vec::new(), max_parallel: None };
        given.job(|job| (job.job, job.sweep) = (JobId::read("vision/tune-0003-1a2b3c4d").unwrap(), Some(sweep))).job
    }

    /// Compares the topic of the one notification for all members. The member itself has none of its own.
    fn check(given: JobInput, expect: Option<&str>) {
        let job = member(given);
        assert_eq!(job.notification(), None, "{:?}", job.phase);
        let notification = job.notify_of_members(&"us-east-1".into());
        let topic = notification.as_ref().map(|notification| match &notification.kind {
            NotificationKind::State { topic, .. } => topic.clone(),
            _ => panic!("{notification:?}"),
        });
        assert_eq!(topic, expect.map(NotificationKey::named));
        assert!(notification.is_none_or(|notification| {
            notification.text.ends_with("other jobs of its sweep: curfew jobs vision/tune-1a2b3c4d")
        }));
    }

    #[test]
    fn the_sweep_notifies_of_the_beginning_and_the_end_of_a_member() {
        check(running(), None);
        for result in [JobResult::Succeeded, JobResult::Failed, JobResult::Expired, JobResult::Cancelled] {
            check(ended(result), None);
        }
        check(submitted(), None);
    }

    #[test]
    fn what_keeps_members_from_a_launch_is_said_of_one_for_all() {
        check(waiting(), Some("sweep vision/tune-1a2b3c4d waits"));
        check(held(HoldReason::Budget), Some("sweep vision/tune-1a2b3c4d held budget"));
        check(retrying(), Some("sweep vision/tune-1a2b3c4d retries"));
        check(alone(retrying()), Some("sweep vision/tune-1a2b3c4d retries"));
    }

    #[test]
    fn its_machine_is_notified_about_like_that_of_any_job() {
        let again = running().job(|job| job.machines = 2);
        let left = ended(JobResult::Cancelled).job(|job| job.machine_hold = Some(MachineHold::Protected));
        for given in [interrupted(), again, left] {
            assert!(member(given.clone()).notification().is_some(), "{:?}", given.job.phase);
            assert_eq!(member(given).notify_of_members(&"us-east-1".into()), None);
        }
        assert!(
            member(ended(JobResult::Cancelled)).notification_in(false).is_some(),
            "it keeps running in observe mode"
        );
    }
}
