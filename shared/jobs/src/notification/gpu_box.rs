//! What the owner of a box is told while its machine runs: that it is up, that its end is near, and that its agent is silent.

use model::notification_log::{HeadlineCost, Paragraph, Severity};

use super::{Job, JobMachine, NotificationDraft, bought, most};
use crate::boxes::BoxState;
use crate::boxes::terms::Extension;

impl Job {
    pub(super) fn draft_box(&self, gpu_box: &BoxState, machine: &JobMachine) -> NotificationDraft {
        let JobMachine { instance, instance_type, zone, lifecycle, rate, launched_at, .. } = machine;
        let times = gpu_box.times(machine.ends_at);
        let (_, usd) = most(machine, times.ended_from_outside_at());
        let ends = format!("it ends at {}. To keep it: curfew box extend {} 3h", times.soft_end, self.job.name());
        let again = self.lost.filter(|_| self.machines > 1).map(|lost| {
            let (how, sync) = (lost.describe(), describe_sync(gpu_box));
            format!(
                "its previous machine {how}: what ran there, and what was outside of the home, is lost, and {sync}; "
            )
        });
        // A refusal is told once, whoever asked, and by a link nobody waits for the answer.
        let (refused, refused_at) = match &gpu_box.extended {
            Some(Extension { asked_at, refused: Some(why) }) => {
                (format!("the request to keep it longer is refused: {why}; "), format!(" refused {asked_at}"))
            }
            _ => (String::new(), String::new()),
        };
        let (fingerprint, severity, text, sentence) = match (gpu_box.silent_since, gpu_box.end_is_near) {
            (_, true) => (
                format!("ends {}{refused_at}", times.soft_end),
                Severity::Warning,
                format!("{refused}{ends}"),
                "{} {is} about to end",
            ),
            (Some(since), false) => (
                format!("silent {}", machine.attempt),
                Severity::Warning,
                format!("its agent has sent no heartbeat since {since}. That ends no box: {ends}"),
                "The heartbeats of {} stopped",
            ),
            (None, false) => (
                format!("runs {}{refused_at}", machine.attempt),
                if again.is_some() || !refused.is_empty() { Severity::Warning } else { Severity::Action },
                format!(
                    "{refused}{}it is up on {instance} ({instance_type}, {}, {zone}) since {launched_at}. It costs {rate} now, and at most {usd} until \
                     its end; {ends}",
                    again.unwrap_or_default(),
                    bought(*lifecycle)
                ),
                if refused.is_empty() { "Curfew brought up {}" } else { "Curfew does not keep {} longer" },
            ),
        };
        let at = match (gpu_box.silent_since, gpu_box.end_is_near) {
            (_, true) => times.soft_end,
            (Some(since), false) => since,
            (None, false) => {
                gpu_box.extended.as_ref().filter(|_| !refused.is_empty()).map_or(*launched_at, |one| one.asked_at)
            }
        };
        let headline = self.headline(sentence);
        NotificationDraft {
            fingerprint,
            severity,
            text: self.with_stop(Paragraph::new(&format!("{}: {text}.", self.named()))),
            loses: None,
            headline: super::Headline { at: Some(at), cost: HeadlineCost::Hourly(Some(*rate)), ..headline },
        }
    }
}

/// The last sync of the home, as far as its machines said so.
fn describe_sync(gpu_box: &BoxState) -> String {
    gpu_box
        .synced_at
        .map_or_else(|| "no sync of its home is known".to_owned(), |at| format!("its home was last synced at {at}"))
}
