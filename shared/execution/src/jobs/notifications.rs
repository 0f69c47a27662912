//! The notifications of a run about jobs, one message a team, and the record of them.
//!
//! A closed job stays on the index of unfinished jobs until its end was notified, because no run finds it otherwise.

use futures::{StreamExt, stream};
use jobs::{Job, JobId, JobNotification, is_index_search_due};
use model::channels::Audience;
use model::config::Config;
use model::id::TeamName;
use model::notification_log::{HeadlineObject, NO_TEAM, Notification, NotificationKind};
use model::observation::Gap;
use notify::Recipients;
use plan::report::{JobsReport, Report, RunUsage};
use ports::{JobCloud, StoreError};

use super::inbox::Acceptance;
use super::{JobRunDocuments, JobsRun, RunFindings};
use crate::AT_ONCE;

/// A job with a pending notification, and the version by which it is recorded as sent.
struct UnsentNotification {
    job: Job,
    etag: Option<String>,
    pending: JobNotification,
}

/// The jobs and sweeps that are recorded as notified after their team got the message.
struct UnsentNotifications {
    jobs: Vec<UnsentNotification>,
    /// Sweeps whose members are all over.
    ended_sweeps: Vec<(JobId, Notification)>,
    accepted_sweeps: Vec<Acceptance>,
}

fn pending_notification(job: &Job, may_act: bool) -> Option<JobNotification> {
    job.notification_in(may_act).filter(|one| job.notified.as_ref() != Some(&one.fingerprint))
}

/// Returns `true` if all notifications of a job were sent.
pub(super) fn is_notified(job: &Job, may_act: bool) -> bool {
    pending_notification(job, may_act).is_none()
}

/// Anybody who may write to the bucket can name a folder. A notification about what is in one goes to its team only if that team may have jobs,
/// and to the account otherwise, because nobody subscribes to an unknown team.
fn address_folder(notification: Notification, config: &Config) -> Notification {
    let object = notification.headline.object;
    let is_of_folder = matches!(object, HeadlineObject::Folder | HeadlineObject::Trigger | HeadlineObject::Schedule);
    if is_of_folder && !config.has_jobs_of(&TeamName::new(notification.team.as_str())) {
        return Notification { team: NO_TEAM.to_owned(), ..notification };
    }
    notification
}

impl<C: JobCloud, D: JobRunDocuments> JobsRun<'_, C, D> {
    /// The notification about a job; `None` if it was sent.
    fn unsent(&self, (job, etag): (Job, Option<String>)) -> Option<UnsentNotification> {
        let pending = pending_notification(&job, self.may_act(&job))?;
        Some(UnsentNotification { job, etag, pending })
    }

    /// Sends the notifications, and records what was done. `is_of_all`: the run of the minute, which also sends what earlier runs owe.
    pub(super) async fn notify_and_record(
        &self,
        mut report: JobsReport,
        worked: Vec<(Job, Option<String>)>,
        is_of_all: bool,
    ) -> JobsReport {
        let jobs: Vec<UnsentNotification> = worked.into_iter().filter_map(|one| self.unsent(one)).collect();
        let RunFindings { gaps, notifications, ended_sweeps, accepted_sweeps, .. } = self.with_findings(std::mem::take);
        let notifications: Vec<Notification> =
            notifications.into_iter().map(|one| address_folder(one, self.config)).collect();
        let unsent = UnsentNotifications { jobs, ended_sweeps, accepted_sweeps };
        if is_of_all || !unsent.jobs.is_empty() || !gaps.is_empty() || !notifications.is_empty() {
            let base = self.run.report_without_steps(report.seen, gaps);
            let base = Report { time_zone: self.config.account.zone(), ..base };
            report.gaps = self.send_and_record(base, unsent, notifications, (&report, is_of_all)).await;
        } else {
            let unrecorded = self.record(&mut report, is_of_all).await;
            report.gaps.extend(unrecorded);
        }
        report
    }

    /// A quiet run leaves a record only once an hour, of what the quiet runs of its process took.
    async fn record(&self, report: &mut JobsReport, is_of_all: bool) -> Option<Gap> {
        let (cloud, milliseconds) = (self.run.cloud, self.run.elapsed_milliseconds());
        report.usage = cloud.take_usage();
        report.usage += RunUsage { runs: 1, milliseconds, ..RunUsage::default() };
        if report.is_quiet() && !(is_of_all && is_index_search_due(self.run.now)) {
            cloud.add_usage(std::mem::take(&mut report.usage));
            return None;
        }
        let written = self.run.store.write_audit(&report.key(), &report.record()).await;
        written.err().map(|error| error.gap(self.run.cloud.home()))
    }

    /// Sends the notifications and records what was done, with the gaps of both. A gap that comes too late for this run's messages is owed.
    async fn send_and_record(
        &self,
        mut base: Report,
        unsent: UnsentNotifications,
        besides: Vec<Notification>,
        (report, is_of_all): (&JobsReport, bool),
    ) -> Vec<Gap> {
        let run = self.run;
        let recalled = run.recall(&[]).await;
        base.gaps.extend(recalled.gaps.iter().cloned());
        let remembered: Vec<Notification> = if recalled.memory.is_empty() {
            self.notify_without_log(&base, besides, is_of_all && is_index_search_due(run.now))
        } else {
            let besides = model::notification_log::without_known(besides, &recalled.memory, run.now);
            notify::notifications(&base, &recalled.memory, recalled.home(), run.now)
                .into_iter()
                .chain(besides)
                .collect()
        };
        let UnsentNotifications { jobs, ended_sweeps, accepted_sweeps } = unsent;
        let about_jobs = jobs.iter().map(|one| &one.pending.notification);
        let about_sweeps = ended_sweeps.iter().map(|(_, notification)| notification);
        let all: Vec<Notification> = remembered.iter().chain(about_jobs).chain(about_sweeps).cloned().collect();
        // Warnings of Spot interruptions start any number of runs at once: the run of the minute sends what they have to the account.
        let postponed = self.warned.as_ref().map(|_| Audience::Account).filter(|_| !recalled.memory.is_empty());
        let recipients = Recipients { postponed, ..Recipients::default() };
        let delivery = run.notify_teams(&mut base, &all, &recalled.memory, recipients).await;
        // Without the log nothing says what one topic lacks.
        let is_sent = |one: &Notification| {
            delivery.is_delivered(one) && (!recalled.memory.is_empty() || delivery.is_delivered_to_all(&one.team))
        };
        let sent = jobs.into_iter().filter(|one| is_sent(&one.pending.notification)).collect();
        self.record_sent(&mut base, sent).await;
        for (sweep, _) in ended_sweeps.iter().filter(|(_, notification)| is_sent(notification)) {
            let forgotten = run.store.forget_sweep(sweep).await;
            base.gaps.extend(forgotten.err().map(|error| error.gap(run.cloud.home())));
        }
        let mut report = JobsReport { gaps: base.gaps.clone(), ..report.clone() };
        base.gaps.extend(self.record(&mut report, is_of_all).await);
        // The state of a job has its notifications.
        run.record_notifications(&mut base, &remembered, &delivery, &recalled, None).await;
        // Where SNS refused, a later run sends the message, by the log of notifications.
        let is_logged = !recalled.memory.is_empty();
        for acceptance in accepted_sweeps.into_iter().filter(|one| is_logged || one.is_told(&delivery)) {
            let unwritten = Box::pin(self.accept_sweep(acceptance)).await.err();
            base.gaps.extend(unwritten.map(|error| error.gap(run.cloud.home())));
        }
        base.gaps.extend(self.with_findings(|found| std::mem::take(&mut found.gaps)));
        base.gaps
    }

    /// While the log cannot be read, actions are notified all the same, and conditions once an hour: each minute would be too often, and silence
    /// would hide the fault.
    fn notify_without_log(&self, base: &Report, besides: Vec<Notification>, is_its_turn: bool) -> Vec<Notification> {
        let about_gaps = base.gaps.iter().map(|gap| notify::gap_notification(gap, self.run.cloud.home()));
        about_gaps.chain(besides).filter(|one| is_its_turn || one.kind == NotificationKind::Event).collect()
    }

    /// A run that has written the job since notifies again: no notification is lost, but a message may come twice.
    async fn record_sent(&self, base: &mut Report, sent: Vec<UnsentNotification>) {
        let writes = stream::iter(sent).map(|UnsentNotification { job, etag, pending }| async move {
            let job = Job { notified: Some(pending.fingerprint), ..job };
            match self.run.store.write_job(&job, etag.as_deref()).await {
                Ok(_) if job.is_closed() => self.run.store.forget_active(&job.job).await,
                Ok(_) | Err(StoreError::Lost { .. }) => Ok(()),
                Err(error) => Err(error),
            }
        });
        let unwritten = writes.buffer_unordered(AT_ONCE).filter_map(async |done| done.err());
        base.gaps.extend(unwritten.map(|error| error.gap(self.run.cloud.home())).collect::<Vec<_>>().await);
    }
}

#[cfg(test)]
mod tests {
    use model::notification_log::{Headline, NotificationFacts, NotificationKey, Paragraph, RepeatPolicy, Severity};

    use super::*;

    /// Checks that a notification that names this team goes to the expected one.
    fn check(config: &str, object: HeadlineObject, team: &str, expect: &str) {
        let notification = Notification {
            team: team.to_owned(),
            severity: Severity::Warning,
            region: "us-east-1".into(),
            resource: None,
            kind: NotificationKind::State {
                topic: NotificationKey::named("backlog inbox/x/".to_owned()),
                what: String::new(),
                repeat: RepeatPolicy::Daily,
            },
            text: Paragraph::new("It has more documents than one run takes."),
            happened: false,
            mode: None,
            loses: None,
            headline: Headline::new("Curfew leaves a part of {} to later runs", object, "inbox/x/"),
            facts: NotificationFacts::default(),
        };
        let addressed = address_folder(notification.clone(), &Config::read(config).unwrap());
        assert_eq!(addressed, Notification { team: expect.to_owned(), ..notification });
    }

    #[test]
    fn the_account_is_notified_of_the_folder_of_an_unknown_team() {
        let configured = "[teams.vision]\n[teams.untagged]";
        check(configured, HeadlineObject::Folder, "visoin", NO_TEAM);
        check(configured, HeadlineObject::Trigger, "visoin", NO_TEAM);
        check(configured, HeadlineObject::Schedule, "visoin", NO_TEAM);
        check(configured, HeadlineObject::Folder, NO_TEAM, NO_TEAM);
        check(configured, HeadlineObject::Folder, "vision", "vision");
        let any = "[jobs]\nteams = \"any\"\n[teams.vision]";
        for leaves_open in [any, "", "[teams.untagged]"] {
            check(leaves_open, HeadlineObject::Folder, "visoin", "visoin");
        }
    }

    /// A running job keeps its team when the configuration loses it.
    #[test]
    fn the_team_of_a_job_is_notified_of_it() {
        check("[teams.vision]", HeadlineObject::Job, "nlp", "nlp");
    }
}
