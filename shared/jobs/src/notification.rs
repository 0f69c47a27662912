//! Notifications to the owner of a job: level-triggered, from its state. Curfew sends each fingerprint once, and a fingerprint changes only with
//! the facts: not with each retry, and not with the figures in the words.

mod ended;
mod faults;
mod gpu_box;
mod member;

use std::borrow::Cow;

use jiff::{SignedDuration, Timestamp};
use model::foreign_text::{describe_owner, harmless};
use model::id::{Region, ResourceId};
use model::mode::Mode;
use model::notification_log::{
    Headline, HeadlineCost, HeadlineObject, Notification, NotificationFacts, NotificationKey, NotificationKind,
    Paragraph, RepeatPolicy, Severity,
};

pub use faults::HeartbeatSigns;

use super::next::{after, most, on_demand_from};
use super::{
    CapacityWait, HoldReason, Job, JobMachine, LaunchHold, LaunchInProgress, Lifecycle, LossReason, MachineHold,
    MachineReplacement, Phase, RetryWait,
};

/// A notification about a job, and the fingerprint by which the job remembers it.
#[derive(Debug, Clone, PartialEq)]
pub struct JobNotification {
    /// The value of [`Job::notified`] after this notification; Curfew sends only what differs from it.
    pub fingerprint: String,
    /// The paragraph. Its resource is the machine's id if there is one, or else the job's `<job>`; its region is where the machine is, was or may
    /// be, and empty while that is unknown.
    pub notification: Notification,
}

/// A paragraph before it is about a job.
struct NotificationDraft {
    fingerprint: String,
    severity: Severity,
    text: Paragraph,
    /// Data that Curfew's own action loses, if it acts.
    loses: Option<String>,
    headline: Headline,
}

impl Job {
    /// The notification that its owner should have; `None` if there is none now.
    #[must_use]
    pub fn notification(&self) -> Option<JobNotification> {
        self.notification_in(true)
    }

    /// Returns the same notification as [`Self::notification`] in a mode: in observe mode people are notified that the machine is not
    /// terminated.
    #[must_use]
    pub fn notification_in(&self, may_act: bool) -> Option<JobNotification> {
        if self.is_said_by_sweep(may_act) {
            return None;
        }
        let paragraph = match &self.phase {
            Phase::Running(machine)
            | Phase::Interrupted(MachineReplacement { machine, .. })
            | Phase::Retrying(RetryWait { machine: Some(machine), .. })
                if self.machine_hold.is_some() =>
            {
                self.draft_machine_held(machine, self.machine_hold.as_ref()?)
            }
            Phase::Launching(launching) if launching.unanswered => self.draft_unanswered(launching),
            Phase::Launching(launching) if launching.replaces.is_some() => return None,
            Phase::Submitted | Phase::Reserving | Phase::Launching(_) => self.draft_lost()?,
            // People were notified of the failed launches in a row; they are notified of the next one once its machine sends a heartbeat.
            Phase::Running(_) if self.launches_without_heartbeat > 1 => return None,
            Phase::Running(placed) => match &self.gpu_box {
                Some(gpu_box) => self.draft_box(gpu_box, placed),
                None => self.draft_running(placed),
            },
            Phase::Interrupted(replacing) => self.draft_interrupted(replacing),
            Phase::Waiting(waiting) => self.draft_waiting(waiting),
            Phase::Retrying(waiting) => self.draft_retrying(waiting),
            Phase::Held(held) => self.draft_held(held),
            Phase::Ended(ended) => self.draft_ended(ended, may_act),
        };
        let is_end_near = self.gpu_box.as_ref().is_some_and(|gpu_box| gpu_box.end_is_near);
        let NotificationDraft { fingerprint, severity, text, loses, headline } = paragraph;
        let machine = self.machine().or(self.previous_attempt.as_ref());
        let named = self.machine().map_or_else(|| ResourceId::new(&self.job.job), |placed| placed.instance.clone());
        let candidates = self.ranking.iter().flat_map(|ranking| &ranking.candidates);
        let region = machine.map(|placed| &placed.region).or_else(|| self.terms.machine.regions.first());
        let region = region.or_else(|| candidates.map(|candidate| &candidate.region).next());
        let notification = Notification {
            team: self.job.team.as_str().to_owned(),
            severity,
            region: region.cloned().unwrap_or_else(|| Region::new("")),
            resource: Some(named),
            kind: NotificationKind::State {
                topic: NotificationKey::named("job"),
                what: fingerprint.clone(),
                repeat: RepeatPolicy::Never,
            },
            text,
            happened: false,
            mode: loses.is_some().then_some(Mode::Enforce),
            loses,
            headline,
            facts: NotificationFacts {
                ending_box: self.ending_box().filter(|_| may_act && is_end_near),
                ..self.facts()
            },
        };
        Some(JobNotification { fingerprint, notification })
    }

    fn headline(&self, sentence: impl Into<Cow<'static, str>>) -> Headline {
        Headline::new(sentence, HeadlineObject::Job, format!("job {}", self.job.job))
    }

    fn facts(&self) -> NotificationFacts {
        NotificationFacts {
            job: Some(self.job.to_string()),
            owner: self.owner.clone(),
            what: self.machine().map(|machine| machine.instance_type.to_string()),
            ..NotificationFacts::default()
        }
    }

    /// Returns the number of attempts that had a machine.
    #[must_use]
    pub const fn attempts_launched(&self) -> u32 {
        self.machines
    }

    /// A machine was lost, and the next launch has no answer yet. Usually the answer arrives a second later, and one notification covers both.
    fn draft_lost(&self) -> Option<NotificationDraft> {
        let lost = self.lost.filter(|_| self.passes <= 1)?;
        let text = format!(
            "{}: its machine {}. It is launched again{}; {}.",
            self.named(),
            lost.describe(),
            if matches!(self.phase, Phase::Launching(_)) { "" } else { ", if its limits allow" },
            self.resume_point()
        );
        Some(NotificationDraft {
            fingerprint: self.in_spell("lost"),
            severity: Severity::Warning,
            text: self.with_stop(Paragraph::new(&text)),
            loses: None,
            headline: self.headline("The machine{s} of {} {was} lost"),
        })
    }

    /// Returns a fingerprint by which each kind is notified once until a machine sends a heartbeat again, even if the kinds alternate: the
    /// notified kinds are part of the fingerprint. There are few, so it stays short.
    fn in_spell(&self, kind: &str) -> String {
        let spell = format!("unplaced {}: ", self.machines.saturating_sub(self.launches_without_heartbeat));
        match self.notified.as_deref().and_then(|notified| notified.strip_prefix(&spell)) {
            None => format!("{spell}{kind}"),
            Some(notified) if notified.split(", ").any(|one| one == kind) => format!("{spell}{notified}"),
            Some(notified) => format!("{spell}{notified}, {kind}"),
        }
    }

    fn draft_unanswered(&self, launching: &LaunchInProgress) -> NotificationDraft {
        let text = format!(
            "{}: EC2 has not answered the launch request of {}. Curfew repeats the same request each \
             minute, so nothing is launched twice; a machine that it may have launched shuts itself down at {}.",
            self.named(),
            launching.at,
            launching.ends_at
        );
        let headline = self.headline("EC2 has not answered the launch request{s} of {}");
        NotificationDraft {
            fingerprint: self.in_spell("unanswered"),
            severity: Severity::Warning,
            text: self.with_stop(Paragraph::new(&text)),
            loses: None,
            headline: Headline { at: Some(launching.at), ..headline },
        }
    }

    fn draft_running(&self, placed: &JobMachine) -> NotificationDraft {
        let (_, usd) = most(placed, placed.ends_at);
        let machine = format!(
            "{} ({}, {}, {}) since {}. It costs {} now and {} at most, which is {usd} until its end at {}",
            placed.name_instances(),
            placed.name_type(),
            bought(placed.lifecycle),
            placed.zone,
            placed.launched_at,
            placed.rate,
            placed.show_cost_max(),
            placed.ends_at,
        );
        let (severity, before) = match self.lost {
            Some(lost) if self.machines > 1 => {
                let lost = format!("its previous machine {}; ", lost.describe());
                (Severity::Warning, lost)
            }
            _ => (Severity::Action, String::new()),
        };
        let resume_point = if before.is_empty() { String::new() } else { format!("; {}", self.resume_point()) };
        let text = format!("{}: {before}attempt {} runs on {machine}{resume_point}.", self.named(), placed.attempt);
        let sentence = if self.machines > 1 { "Curfew launched {} again" } else { "Curfew launched {}" };
        let (at, cost) = (Some(placed.launched_at), HeadlineCost::Hourly(Some(placed.rate)));
        let headline = Headline { at, cost, ..self.headline(sentence) };
        NotificationDraft {
            fingerprint: format!("runs {}", placed.attempt),
            severity,
            text: self.with_stop(Paragraph::new(&text)),
            loses: None,
            headline,
        }
    }

    fn draft_interrupted(&self, replacing: &MachineReplacement) -> NotificationDraft {
        let machine = &replacing.machine;
        let (named, lost) = (machine.name_lost(), replacing.lost.describe());
        let next = match machine.members.len() {
            0 => "It is terminated, and once it is gone another one is launched",
            _ => "The others end, and once all are gone they are launched anew",
        };
        let text = format!("{}: {named} {lost}. {next}; {}.", self.named(), self.resume_point());
        let fingerprint = format!("interrupted {}", replacing.machine.attempt);
        let loses = Some(self.loses(&replacing.machine));
        let headline = self.headline("Curfew terminates the lost machine{s} of {}");
        NotificationDraft {
            fingerprint,
            severity: Severity::Warning,
            text: self.with_stop(Paragraph::new(&text)),
            loses,
            headline,
        }
    }

    fn draft_machine_held(&self, machine: &JobMachine, hold: &MachineHold) -> NotificationDraft {
        let JobMachine { attempt, rate_max, ends_at, .. } = machine;
        let named = machine.name_lost();
        let text = format!(
            "{}: {named} is lost, and Curfew neither terminates nor replaces it: it {}. It costs \
             {rate_max} at most, and its own timer ends it at {ends_at}. Remove or correct the tag, and the job continues.",
            self.named(),
            hold.describe()
        );
        let fingerprint = format!("machine-held {attempt} {}", hold.as_str());
        let cost = HeadlineCost::Hourly(Some(*rate_max));
        let headline = self.headline("Curfew may not end the lost machine{s} of {}");
        let headline = Headline { cost, ..headline };
        NotificationDraft {
            fingerprint,
            severity: Severity::Warning,
            text: self.with_stop(Paragraph::new(&text)),
            loses: None,
            headline,
        }
    }

    fn draft_waiting(&self, waiting: &CapacityWait) -> NotificationDraft {
        let since = self.unplaced_since.unwrap_or(self.submitted_at);
        let lost = self.in_place_of(&waiting.message);
        let text = format!(
            "{}: {lost}nothing can be launched for it since {since}: {}. Curfew retries{}{}.",
            self.named(),
            waiting.message.trim_end_matches('.'),
            self.costs_nothing(),
            self.falls_back(since)
        );
        let headline = self.headline("Curfew cannot launch {} yet");
        NotificationDraft {
            fingerprint: self.in_spell("waits"),
            severity: Severity::Warning,
            text: self.with_stop(Paragraph::new(&text)),
            loses: None,
            headline,
        }
    }

    fn draft_retrying(&self, waiting: &RetryWait) -> NotificationDraft {
        let failed = self.retries.attempt;
        let text = format!("{}: {}; {}.", self.named(), waiting.why, self.resume_point());
        let text = Paragraph::new(&text).with_command("Its log", &self.log_command(failed));
        let headline = self.headline("The command{s} of {} failed; Curfew retries");
        NotificationDraft {
            fingerprint: format!("retries {failed}"),
            severity: Severity::Warning,
            text: self.with_stop(text),
            loses: None,
            headline: Headline { at: Some(waiting.until), ..headline },
        }
    }

    fn draft_held(&self, held: &LaunchHold) -> NotificationDraft {
        let (again, mend) = match held.by {
            HoldReason::Budget => {
                (true, "Ask for a larger budget, or submit it with a smaller max_usd or max_runtime.")
            }
            HoldReason::Quota => (true, "Once the quota is raised, it is launched by itself."),
            HoldReason::Permission => {
                (true, "Look at the policy of Curfew's role run-jobs, and at what the account's organisation forbids.")
            }
            HoldReason::SpotRole => (true, "Once the role exists, the job is launched by itself."),
            HoldReason::InstanceProfile => (
                true,
                "Create the instance profile, or submit the job with another one. Then it is launched by itself.",
            ),
            HoldReason::Role => (true, "It is launched by itself then."),
            HoldReason::NotAllowed => {
                (true, "Once an administrator allows it in the configuration, it is launched by itself.")
            }
            HoldReason::Observing => (false, "It is launched once enforce mode is on and a subscription is confirmed."),
            HoldReason::Deadline => (false, "Cancel it, and submit it with a later deadline."),
            HoldReason::Unplaceable => {
                (true, "Look at its [gpu], [spot] and [machine]: submit it anew if they ask for too much.")
            }
        };
        let severity = match held.by {
            HoldReason::Observing => Severity::Info,
            HoldReason::Permission | HoldReason::SpotRole | HoldReason::InstanceProfile => Severity::Error,
            HoldReason::Budget
            | HoldReason::Quota
            | HoldReason::Role
            | HoldReason::NotAllowed
            | HoldReason::Unplaceable
            | HoldReason::Deadline => Severity::Warning,
        };
        let again = if again { format!("; Curfew checks again from {} on", held.until) } else { String::new() };
        let text = format!(
            "{}: {}it is not launched: {}{again}{}. {mend}",
            self.named(),
            self.in_place_of(&held.why),
            held.why.trim_end_matches('.'),
            self.costs_nothing()
        );
        NotificationDraft {
            fingerprint: self.in_spell(&format!("held {}", held.by.as_str())),
            severity,
            text: self.with_stop(Paragraph::new(&text)),
            loses: None,
            headline: self.headline(format!("Curfew does not launch {{}} ({})", held.by.as_str())),
        }
    }

    /// `vision/llama-1a2b3c4d (owner "ada")`.
    fn named(&self) -> String {
        let (team, owner) = (harmless(self.job.team.as_str()), describe_owner(self.owner.as_deref()));
        format!("{team}/{} ({owner})", self.job.job)
    }

    fn with_stop(&self, text: Paragraph) -> Paragraph {
        text.with_command("To stop it", &format!("curfew cancel {}", self.job.to_shell_word()))
    }

    fn log_command(&self, attempt: u32) -> String {
        format!("curfew logs {} --attempt {attempt}", self.job.to_shell_word())
    }

    /// Explains why there is no machine, where there was one, unless the text says so itself.
    fn in_place_of(&self, text: &str) -> String {
        let lost = self.lost.map(LossReason::describe).filter(|lost| !text.contains(lost));
        lost.map(|lost| format!("its machine {lost}; ")).unwrap_or_default()
    }

    /// Says that the job costs nothing, as long as no machine of it runs.
    const fn costs_nothing(&self) -> &'static str {
        if self.previous_attempt.is_none() { ", and it costs nothing meanwhile" } else { "" }
    }

    /// Describes the data that is lost with a machine that Curfew ends.
    fn loses(&self, machine: &JobMachine) -> String {
        let since = if self.terms.checkpoint.is_some() { " since its newest complete checkpoint" } else { "" };
        let whose = if machine.members.is_empty() { "its" } else { "their" };
        format!("what {} wrote to {whose} own disks{since}", machine.name_instances())
    }

    /// Describes the point from which the next attempt resumes.
    fn resume_point(&self) -> String {
        match (&self.terms.checkpoint, self.progress.step) {
            (None, _) => "it has no [checkpoint], so it starts at zero".to_owned(),
            (Some(_), Some(step)) => format!("it resumes from its newest complete checkpoint, step {step} or later"),
            (Some(_), None) => {
                "it resumes from its newest complete checkpoint, if there is one: none is known yet".to_owned()
            }
        }
    }

    fn falls_back(&self, since: Timestamp) -> String {
        if let Some(at) = on_demand_from(self, since) {
            return format!("; the deadline lets it wait until {at:.0} at the latest, then it is launched on demand");
        }
        let spot = self.terms.spot.as_ref();
        let seconds = spot.and_then(|spot| spot.fallback_to_on_demand_after_seconds);
        let at = seconds.map(|seconds| after(since, SignedDuration::from_secs(seconds)));
        at.map(|at| format!("; from {at} on it is launched on demand as well")).unwrap_or_default()
    }
}

const fn bought(lifecycle: Lifecycle) -> &'static str {
    match lifecycle {
        Lifecycle::Spot => "Spot",
        Lifecycle::OnDemand => "on demand",
    }
}

#[cfg(test)]
mod tests;
