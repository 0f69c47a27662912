//! Notifications to the owner of a job, once a day while the fault lasts.

use model::id::Region;
use model::notification_log::{
    Headline, HeadlineCost, Notification, NotificationKey, NotificationKind, Paragraph, RepeatPolicy, Severity,
};

use crate::{AgentWarning, Job, JobMachine, Phase};

impl Job {
    /// The notification that Curfew could not terminate a machine of the job, once a day while that lasts. It is remembered in the log of the
    /// region for faults, `home`.
    #[must_use]
    pub fn notify_not_terminated(&self, machine: &JobMachine, error: &str, home: &Region) -> Notification {
        let JobMachine { instance, region, rate_max, ends_at, .. } = machine;
        let text = format!(
            "{}: {instance} should be terminated, but was not: {}. Curfew retries each minute; until then it costs {rate_max} at most, \
             and shuts itself down at {ends_at} at the latest.",
            self.named(),
            error.trim_end_matches('.'),
        );
        let command = format!("aws ec2 terminate-instances --region {region} --instance-ids {instance}");
        let text = Paragraph::new(&text).with_command("To terminate it by hand", &command);
        let cost = HeadlineCost::Hourly(Some(*rate_max));
        let headline = Headline { cost, ..self.headline("Curfew could not terminate the machine of {}") };
        self.daily(Severity::Error, (format!("not-ended {instance}"), "not-ended".to_owned()), (headline, text), home)
    }

    /// The notification of an agent's warning, once a day while it lasts; `None` if the end of the job, or of the attempt, says it. It is remembered like
    /// [`Job::notify_not_terminated`].
    #[must_use]
    pub fn notify_agent_warning(&self, attempt: u32, trouble: &AgentWarning, home: &Region) -> Option<Notification> {
        let AgentWarning { kind, words } = trouble;
        let said = match &self.phase {
            Phase::Ended(ended) => ended.why.as_str(),
            Phase::Retrying(waiting) => waiting.why.as_str(),
            _ => "",
        };
        if said.contains(words.trim_end_matches('…')) {
            return None;
        }
        let (job, words) = (&self.job, words.trim_end_matches('.'));
        let text = Paragraph::new(&format!("{}: attempt {attempt} says: {words}.", self.named()));
        let text = text.with_command("Its log", &self.log_command(attempt));
        let what = if kind.is_of_attempt() { attempt.to_string() } else { "lasts".to_owned() };
        let headline = self.headline("The agent of {} reports a warning");
        Some(self.daily(Severity::Warning, (format!("trouble {job} {}", kind.as_str()), what), (headline, text), home))
    }

    /// A document of the job's machine is not credible and counts as absent; sent once a day.
    #[must_use]
    pub fn notify_refused_document(&self, why: &str, home: &Region) -> Notification {
        let text = format!(
            "{}: Curfew ignores a document of its machine: {why}. Whatever runs on the machine can write there: look at the job's command",
            self.named()
        );
        let text = Paragraph::new(&text);
        let headline = self.headline("Curfew ignores a document of the machine of {}");
        self.daily(Severity::Warning, (format!("refused {}", self.job), "lasts".to_owned()), (headline, text), home)
    }

    /// A lasting condition, sent once a day; by its topic, with its words.
    fn daily(
        &self,
        severity: Severity,
        (topic, what): (String, String),
        (headline, text): (Headline, Paragraph),
        home: &Region,
    ) -> Notification {
        Notification {
            team: self.job.team.as_str().to_owned(),
            severity,
            region: home.clone(),
            resource: None,
            kind: NotificationKind::State { topic: NotificationKey::named(topic), what, repeat: RepeatPolicy::Daily },
            text,
            happened: false,
            mode: None,
            loses: None,
            headline,
            facts: self.facts(),
        }
    }
}
