//! Notifications to the owner of a job, once a day while the fault lasts.

use jiff::{SignedDuration, Timestamp};
use model::duration::format_duration;
use model::id::{Region, ResourceId};
use model::money::Amount;
use model::notification_log::{
    Headline, HeadlineCost, Notification, NotificationKey, NotificationKind, Paragraph, RepeatPolicy, Severity,
};

use crate::{AgentWarning, AgentWarningKind, GPU_BUSY_PERCENT, HEARTBEAT_TIMEOUT, Job, JobMachine, Phase, WorkSigns};

/// The signs of work in the last heartbeat of an attempt.
#[derive(Debug, Clone, Copy)]
pub struct HeartbeatSigns {
    pub attempt: u32,
    pub signs: WorkSigns,
    /// Time at which S3 took the heartbeat.
    pub at: Timestamp,
    pub now: Timestamp,
}

impl Job {
    /// The notification that Curfew could not terminate a machine of the job, once a day while that lasts. It is remembered in the log of the
    /// region for faults, `home`.
    #[must_use]
    pub fn notify_not_terminated(&self, machine: &JobMachine, error: &str, home: &Region) -> Notification {
        let JobMachine { instance, region, rate_max, ends_at, .. } = machine;
        let named = machine.name_instances();
        let text = format!(
            "{}: {named} should be terminated, but was not: {}. Curfew retries each minute; until then it costs {rate_max} at most, \
             and shuts itself down at {ends_at} at the latest.",
            self.named(),
            error.trim_end_matches('.'),
        );
        let ids: Vec<&str> = machine.instances().map(ResourceId::as_str).collect();
        let command = format!("aws ec2 terminate-instances --region {region} --instance-ids {}", ids.join(" "));
        let text = Paragraph::new(&text).with_command("To terminate it by hand", &command);
        let cost = HeadlineCost::Hourly(Some(*rate_max));
        let headline = Headline { cost, ..self.headline("Curfew could not terminate the machine{s} of {}") };
        self.daily(Severity::Error, format!("not-ended {instance}"), "not-ended".to_owned(), headline, text, home)
    }

    /// The notification of an agent's warning, once a day while it lasts; `None` if the end of the job, or of the attempt, says it. It is remembered like
    /// [`Job::notify_not_terminated`].
    #[must_use]
    pub fn notify_agent_warning(
        &self,
        attempt: u32,
        trouble: &AgentWarning,
        heartbeat: Option<&HeartbeatSigns>,
        home: &Region,
    ) -> Option<Notification> {
        let AgentWarning { kind, words } = trouble;
        let why = match &self.phase {
            Phase::Ended(ended) => ended.why.as_str(),
            Phase::Retrying(waiting) => waiting.why.as_str(),
            _ => "",
        };
        if why.contains(words.trim_end_matches('…')) {
            return None;
        }
        let (job, words) = (&self.job, words.trim_end_matches('.'));
        let is_stall = *kind == AgentWarningKind::Stalled;
        let cost = heartbeat.filter(|heartbeat| is_stall && heartbeat.attempt == attempt);
        let cost = cost.and_then(|heartbeat| self.describe_stall_cost(heartbeat));
        let cost = cost.map(|cost| format!(" {cost}")).unwrap_or_default();
        let text = Paragraph::new(&format!("{}: attempt {attempt} says: {words}.{cost}", self.named()));
        let text = text.with_command("Its log", &self.log_command(attempt));
        let text = if is_stall { self.with_stop(text) } else { text };
        let what = if kind.is_of_attempt() { attempt.to_string() } else { "lasts".to_owned() };
        let headline = self.headline("Curfew passes on a warning from the agent{s} of {}");
        let topic = format!("trouble {job} {}", kind.as_str());
        let mut notification = self.daily(Severity::Warning, topic, what, headline, text, home);
        notification.facts.ending_box = self.ending_box().filter(|_| *kind == AgentWarningKind::BoxIdle);
        Some(notification)
    }

    /// The notification that every GPU of the job's machine has been idle for `after`, once a day while it lasts; `None` if a GPU works, or if that is
    /// unknown. It is remembered like [`Job::notify_not_terminated`].
    #[must_use]
    pub fn notify_idle(
        &self,
        heartbeat: &HeartbeatSigns,
        after: SignedDuration,
        home: &Region,
    ) -> Option<Notification> {
        let seconds = heartbeat.signs.gpu_idle_seconds?;
        let (cost, idle) = self.describe_waste(heartbeat, seconds)?;
        let JobMachine { instance, instance_type, rate, .. } = self.machine()?;
        let is_fresh = heartbeat.now.duration_since(heartbeat.at) < HEARTBEAT_TIMEOUT;
        if idle < after || !is_fresh {
            return None;
        }
        let text = format!(
            "{}: every GPU of {instance} ({instance_type}) has been below {GPU_BUSY_PERCENT} % for {}. {cost} `limits.idle` in its document would end it by itself.",
            self.named(),
            format_duration(idle),
        );
        let text = Paragraph::new(&text).with_command("Its log", &self.log_command(heartbeat.attempt));
        let headline = Headline { cost: HeadlineCost::Hourly(Some(*rate)), ..self.headline("The GPUs of {} are idle") };
        let topic = format!("idle {}", self.job);
        Some(self.daily(Severity::Warning, topic, "lasts".to_owned(), headline, self.with_stop(text), home))
    }

    /// The cost of a stall; `None` if the heartbeat says none, or if the machine is not that of the heartbeat.
    #[must_use]
    pub fn describe_stall_cost(&self, heartbeat: &HeartbeatSigns) -> Option<String> {
        Some(self.describe_waste(heartbeat, heartbeat.signs.stalled_seconds?)?.0)
    }

    /// Describes the cost of so many seconds of the machine, as far as it can have run so long; `None` if the machine is not that of the
    /// heartbeat.
    fn describe_waste(&self, heartbeat: &HeartbeatSigns, seconds: u64) -> Option<(String, SignedDuration)> {
        let Phase::Running(machine) = &self.phase else { return None };
        let JobMachine { rate, launched_at, .. } = machine;
        let ran = heartbeat.now.duration_since(*launched_at).max(SignedDuration::ZERO);
        let lasts = SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX)).min(ran);
        let wasted = Amount::from_rate(*rate, lasts.as_secs().unsigned_abs());
        let (_, used) = self.used_by(heartbeat.now);
        let words =
            format!("Its machine costs {rate}, which is {wasted} for that time; the job has cost {used} at most.");
        (machine.attempt == heartbeat.attempt).then_some((words, lasts))
    }

    /// A document of the job's machine is not credible and counts as absent; sent once a day.
    #[must_use]
    pub fn notify_refused_document(&self, why: &str, home: &Region) -> Notification {
        let text = format!(
            "{}: Curfew ignores a document of its machine: {why}. Whatever runs on the machine can write there: look at the job's command",
            self.named()
        );
        let text = Paragraph::new(&text);
        let headline = self.headline("Curfew ignores a document of the machine{s} of {}");
        self.daily(Severity::Warning, format!("refused {}", self.job), "lasts".to_owned(), headline, text, home)
    }

    /// A lasting condition, sent once a day; by its topic, with its words.
    fn daily(
        &self,
        severity: Severity,
        topic: String,
        what: String,
        headline: Headline,
        text: Paragraph,
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
