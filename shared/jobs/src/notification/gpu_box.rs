//! What the owner of a box is told while its machine runs: that it is up, that its end is near, and that its agent is silent.

use model::notification_log::{HeadlineCost, Paragraph, Severity};

use super::{Job, JobMachine, NotificationDraft, bought, most};
use crate::boxes::BoxState;

impl Job {
    pub(super) fn draft_box(&self, gpu_box: &BoxState, machine: &JobMachine) -> NotificationDraft {
        let JobMachine { instance, instance_type, zone, lifecycle, rate, launched_at, .. } = machine;
        let times = gpu_box.times(machine.ends_at);
        let (_, usd) = most(machine, times.ended_from_outside_at());
        let ends = format!("it ends at {}. To keep it: curfew box extend {} 3h", times.soft_end, self.job.name());
        let again = self.lost.filter(|_| self.machines > 1).map(|lost| {
            format!(
                "its previous machine {}: what ran there, and what was outside of the home, is lost; ",
                lost.describe()
            )
        });
        let (fingerprint, severity, text, sentence) = match (gpu_box.silent_since, gpu_box.end_is_near) {
            (_, true) => (format!("ends {}", times.soft_end), Severity::Warning, ends, "{} end{s} within ten minutes"),
            (Some(since), false) => (
                format!("silent {}", machine.attempt),
                Severity::Warning,
                format!("its agent has sent no heartbeat since {since}. That ends no box: {ends}"),
                "{} send{s} no heartbeat",
            ),
            (None, false) => (
                format!("runs {}", machine.attempt),
                if again.is_some() { Severity::Warning } else { Severity::Action },
                format!(
                    "{}it is up on {instance} ({instance_type}, {}, {zone}) since {launched_at}. It costs {rate} now, and at most {usd} until \
                     its end; {ends}",
                    again.unwrap_or_default(),
                    bought(*lifecycle)
                ),
                "Curfew brought up {}",
            ),
        };
        let headline = self.headline(sentence);
        NotificationDraft {
            fingerprint,
            severity,
            text: self.with_stop(Paragraph::new(&format!("{}: {text}.", self.named()))),
            loses: None,
            headline: super::Headline { at: Some(*launched_at), cost: HeadlineCost::Hourly(Some(*rate)), ..headline },
        }
    }
}
