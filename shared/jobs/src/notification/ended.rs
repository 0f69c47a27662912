//! The notification of a job's end.

use jiff::{SignedDuration, Timestamp};
use model::duration;
use model::notification_log::{Headline, HeadlineCost, Paragraph, Severity};

use super::NotificationDraft;
use crate::boxes::BoxState;
use crate::next::{after, most};
use crate::{EXPIRES_AFTER, Job, JobEnd, JobMachine, JobResult, JobUsage};

impl Job {
    pub(super) fn draft_ended(&self, ended: &JobEnd, may_act: bool) -> NotificationDraft {
        let (severity, word) = match ended.result {
            JobResult::Succeeded => (Severity::Info, "succeeded"),
            JobResult::Failed => (Severity::Error, "failed"),
            JobResult::Expired => (Severity::Warning, "expired"),
            JobResult::Cancelled => (Severity::Info, "was cancelled"),
        };
        // Nobody asks of a box whether it succeeded.
        let is_down = self.gpu_box.is_some() && !self.is_removal() && ended.result != JobResult::Failed;
        let word = if is_down { "went down" } else { word };
        let used = self.used_with(ended.machine.as_ref(), after(ended.at, EXPIRES_AFTER));
        let attempts = self.machines;
        let took = match attempts {
            0 => "It was never launched, and cost nothing".to_owned(),
            _ => format!(
                "{attempts} attempt{} took at most {} and cost at most {}",
                if attempts == 1 { "" } else { "s" },
                duration::format_duration(SignedDuration::from_secs(used.seconds)),
                used.usd
            ),
        };
        let sync = self.gpu_box.as_ref().filter(|_| attempts > 0 && !self.is_removal()).map(describe_last_sync);
        let text = format!(
            "{}: it {word} at {}: {}. {took}.{} {}",
            self.named(),
            ended.at,
            ended.why.trim_end_matches('.'),
            sync.unwrap_or_default(),
            self.left_over(ended, may_act)
        );
        let text = match Paragraph::new(&text) {
            text if attempts == 0 => text,
            text => text.with_command("Its log", &format!("curfew logs {}", self.job.to_shell_word())),
        };
        let ends = matches!(ended.result, JobResult::Expired | JobResult::Cancelled);
        let machine = ended.machine.as_ref().filter(|_| ends);
        let kept_by = self.machine_hold.as_ref().filter(|_| machine.is_some());
        let loses = machine.filter(|_| may_act && kept_by.is_none()).map(|machine| self.loses(machine));
        // Part of the fingerprint: a machine that is left goes without another notification, unless observe mode lets it keep running.
        let resumes = match kept_by {
            Some(hold) => format!(", machine {}", hold.as_str()),
            None if machine.is_some() && !may_act => ", observed".to_owned(),
            None => String::new(),
        };
        let headline = if is_down {
            self.headline("{} went down")
        } else {
            self.headline(format!("Curfew closed {{}} as {}", word.trim_start_matches("was ")))
        };
        let cost = HeadlineCost::Total(format!("{} at most", used.usd));
        NotificationDraft {
            fingerprint: format!("ended {word}{resumes}"),
            severity,
            text,
            loses,
            headline: Headline { at: Some(ended.at), cost, ..headline },
        }
    }

    fn left_over(&self, ended: &JobEnd, may_act: bool) -> String {
        let about_machine = ended.machine.as_ref().map(|machine| {
            let id = machine.name_instances();
            if let Some(hold) = &self.machine_hold {
                let (hold, ends_at) = (hold.describe(), machine.ends_at);
                return format!("{id} {hold}: Curfew does not terminate it; its own timer shuts it down at {ends_at}.");
            }
            match ended.result {
                JobResult::Succeeded | JobResult::Failed if !machine.members.is_empty() => {
                    format!("{id} shut themselves down now, and are terminated in five minutes if they do not.")
                }
                JobResult::Succeeded | JobResult::Failed => {
                    format!("{id} shuts itself down now, and is terminated in five minutes if it does not.")
                }
                JobResult::Expired | JobResult::Cancelled if may_act => format!("{id} is terminated now."),
                JobResult::Expired | JobResult::Cancelled => {
                    format!(
                        "{id} keeps running: Curfew only observes, and terminates it once enforce mode is on and a subscription is confirmed."
                    )
                }
            }
        });
        let about_previous = self.previous_attempt.as_ref().map(|lost| {
            format!("{}, which it ran on before, is going, and is terminated if it does not.", lost.name_instances())
        });
        let left: Vec<String> = about_machine.into_iter().chain(about_previous).collect();
        if left.is_empty() { "It has no machine any more.".to_owned() } else { left.join(" ") }
    }

    fn used_with(&self, machine: Option<&JobMachine>, until: Timestamp) -> JobUsage {
        let (seconds, usd) = machine.map(|machine| most(machine, until)).unwrap_or_default();
        JobUsage { seconds: self.used.seconds.saturating_add(seconds), usd: self.used.usd + usd }
    }
}

/// The last sync of a box's home. Where Curfew ends the machine, it syncs the home after this message.
fn describe_last_sync(gpu_box: &BoxState) -> String {
    gpu_box.synced_at.map_or_else(
        || " No sync of its home was known by then.".to_owned(),
        |at| format!(" As far as its machine said, its home was last synced at {at}."),
    )
}
