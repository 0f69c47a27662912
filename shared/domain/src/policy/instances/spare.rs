//! Whom to leave alone, and what to say about it.

use super::Case;
use crate::foreign::controller;
use crate::notices::Topic;
use crate::plan::{Finding, Memo, Spared, SparedBecause};
use crate::policy::Verdict;
use crate::policy::claim::{Claim, Stranger};
use crate::policy::follow::Track;
use crate::price;
use crate::rule::Rule;
use crate::usage::{Signal, Unknown, Usage};
use crate::vocabulary::{PROTECTED, Unreadable, Vocabulary, explained, kept_until};

pub(super) const USAGE_UNKNOWN: &str = "usage-unknown";
const UNREADABLE: &str = "unreadable";
const FOREIGN_OWNED: &str = "foreign-owned";
const DISOWNED: &str = "disowned";

impl<'a> Case<'a> {
    /// Protected, kept, unreadable and foreign-owned ones, in this order.
    pub(super) fn spared_at_sight(self) -> Option<Spared> {
        if self.instance.tags.contains_key(PROTECTED) {
            return Some(self.spared(SparedBecause::Protected, self.unjudged(Vec::new())));
        }
        let says = Vocabulary::read(self.instance);
        let unreadable = says.as_ref().err().map(|unreadable| self.unreadable(unreadable));
        if kept_until(&self.instance.tags).is_some_and(|until| self.now < until) {
            return Some(Spared {
                because: SparedBecause::Kept,
                ..unreadable.unwrap_or_else(|| self.spared(SparedBecause::Kept, self.unjudged(Vec::new())))
            });
        }
        let Ok(says) = says else { return unreadable };
        let owner = controller(self.instance, &self.policy.config.managed)?;
        Some(self.foreign_owned(&says, &owner))
    }

    fn unreadable(self, unreadable: &[Unreadable]) -> Spared {
        let text = explained(unreadable);
        self.finding(SparedBecause::Unreadable, UNREADABLE, text.clone(), text)
    }

    /// Told where a rule is broken: its controller would replace it, or miss it.
    fn foreign_owned(self, says: &Vocabulary, controller: &str) -> Spared {
        if self.instance.state != crate::instance::State::Running {
            return self.spared(SparedBecause::ForeignOwned, self.unjudged(Vec::new()));
        }
        let verdicts = self.verdicts(says);
        let broken: Vec<&str> = verdicts
            .iter()
            .filter(|(_, verdict)| matches!(verdict, Verdict::Broken(_)))
            .map(|(rule, _)| rule.as_str())
            .collect();
        let unknown = verdicts.iter().any(|(_, verdict)| *verdict == Verdict::Unknown);
        if broken.is_empty() {
            let standing = if unknown { vec![Topic::named(FOREIGN_OWNED)] } else { Vec::new() };
            return self.spared(SparedBecause::ForeignOwned, self.unjudged(standing));
        }
        let text = format!(
            "{}, and belongs to {controller}, which would replace it or miss it: Curfew leaves it alone; mend it there",
            broken.join(" and ")
        );
        // Told once a controller: which rules are known to be broken changes with what is asked.
        self.finding(SparedBecause::ForeignOwned, FOREIGN_OWNED, controller.to_owned(), text)
    }

    /// Why nothing is due for an instance that was judged.
    pub(super) fn spared_after_judging(self, tracks: &[Track], memo: Memo) -> Spared {
        let any = |found: fn(&Track) -> bool| tracks.iter().any(found);
        let because = if any(|track| !track.settled.entries.is_empty()) {
            SparedBecause::Marked
        } else if any(|track| !track.settled.only_told.is_empty()) {
            SparedBecause::Told
        } else if matches!(self.claim(), Claim::Ours(_)) {
            SparedBecause::LiveJob
        } else if matches!(self.claim(), Claim::Unsayable(_)) {
            SparedBecause::JobUnknown
        } else {
            match self.usage {
                Usage::Busy(_) => SparedBecause::Busy,
                Usage::Idle(_) => SparedBecause::Compliant,
                Usage::Unknown(Unknown::Young) => SparedBecause::Young,
                Usage::Unknown(_) if !self.is_judged_for_idleness() => SparedBecause::Compliant,
                Usage::Unknown(Unknown::NotAsked) if self.was_told_idle() => SparedBecause::Told,
                Usage::Unknown(_) => SparedBecause::UsageUnknown,
            }
        };
        Spared { finding: self.disowned().or_else(|| self.uninstrumented()), ..self.spared(because, memo) }
    }

    pub(super) fn claim(self) -> Claim<'a> {
        self.policy.jobs.claim(self.instance)
    }

    /// Said once: that its tag is not believed, why, and what it costs meanwhile.
    pub(super) fn disowned(self) -> Option<Finding> {
        let Claim::Stranger(Stranger { job, why }) = self.claim() else { return None };
        // By then a launch that was answered is in the state of its job.
        if self.now < self.instance.launched_at + self.policy.config.untagged.settle {
            return None;
        }
        let price = price::show(self.policy.prices.saved_by_ending(self.instance));
        let text = format!(
            "it says that it is of the job {job}, {}: the tag was copied, or the answer to a launch was lost. It costs \
             {price}, and no job ends it; it is judged like an untagged one. Remove curfew:job and curfew:attempt where it is \
             yours, or end it",
            why.explained()
        );
        Some(Finding { topic: Topic::named(DISOWNED), what: job.to_owned(), text })
    }

    /// Once told, it is not told again while nobody can say otherwise.
    pub(super) fn topic_of_its_job(self) -> Option<Topic> {
        matches!(self.claim(), Claim::Stranger(_) | Claim::Unsayable(_)).then(|| Topic::named(DISOWNED))
    }

    /// Found idle when last asked about, which is asked once a window.
    fn was_told_idle(self) -> bool {
        let topics = self.notices.told.get(&self.instance.id);
        topics.is_some_and(|topics| topics.contains_key(&Topic::rule(Rule::Idle)))
    }

    pub(super) fn is_judged_for_idleness(self) -> bool {
        !self.claim().knows_only_its_expiry()
            && Vocabulary::read(self.instance)
                .is_ok_and(|says| crate::policy::idle::window(&says, &self.policy.config).is_some())
    }

    /// Said whatever else was said of it: nobody else would notice that it cannot be judged.
    pub(super) fn uninstrumented(self) -> Option<Finding> {
        let why = why_unknown(self.cannot_be_judged()?);
        let price = price::show(self.policy.prices.saved_by_ending(self.instance));
        let text = format!(
            "an uninstrumented GPU, {price}: nobody can say whether it works, so it is never stopped for idleness; {why}"
        );
        Some(Finding { topic: Topic::named(USAGE_UNKNOWN), what: USAGE_UNKNOWN.to_owned(), text })
    }

    /// Why nobody can say whether it works, of one that was asked about and is old enough.
    pub(super) fn cannot_be_judged(self) -> Option<&'a Unknown> {
        let Usage::Unknown(unknown) = self.usage else {
            return None;
        };
        if !self.is_judged_for_idleness() {
            return None;
        }
        (!matches!(unknown, Unknown::NotAsked | Unknown::Young)).then_some(unknown)
    }

    fn finding(self, because: SparedBecause, topic: &str, what: String, text: String) -> Spared {
        let topic = Topic::named(topic);
        let memo = self.unjudged(vec![topic.clone()]);
        Spared { finding: Some(Finding { topic, what, text }), ..self.spared(because, memo) }
    }
}

/// Why nobody can say whether it works, for people.
pub(super) fn why_unknown(unknown: &Unknown) -> String {
    match unknown {
        Unknown::NotAsked => "nobody was asked, or nobody answered".to_owned(),
        Unknown::Young => "it was launched too recently".to_owned(),
        Unknown::NoMetric => {
            "no metric is configured for its kind of accelerator ([metrics] in the configuration)".to_owned()
        }
        Unknown::Silent { devices } => not_reporting(0, *devices),
        Unknown::Uninstrumented { reporting, devices } => not_reporting(*reporting, *devices),
        Unknown::TooFewSamples(signal) => format!("{} reported too seldom in the window", in_words(*signal)),
    }
}

/// The same in a few words, for a column of a table.
pub(super) fn why_unknown_in_short(unknown: &Unknown) -> String {
    match unknown {
        Unknown::NotAsked => "nobody answered".to_owned(),
        Unknown::Young => "launched too recently".to_owned(),
        Unknown::NoMetric => "no metric configured".to_owned(),
        Unknown::Silent { devices } => format!("0 of {devices} GPUs report"),
        Unknown::Uninstrumented { reporting, devices } => format!("{reporting} of {devices} GPUs report"),
        Unknown::TooFewSamples(signal) => format!("{} reports too seldom", in_words(*signal)),
    }
}

fn in_words(signal: Signal) -> String {
    match signal {
        Signal::Cpu => "the CPU".to_owned(),
        Signal::NetworkIn | Signal::NetworkOut => "the network".to_owned(),
        Signal::DiskRead | Signal::DiskWrite => "the disks".to_owned(),
        Signal::Gpu(place) => format!("GPU {place}"),
        Signal::GpuMemory(place) => format!("the memory of GPU {place}"),
    }
}

fn not_reporting(reporting: u32, devices: u32) -> String {
    format!(
        "{reporting} of its {devices} accelerators report: install the CloudWatch agent with its nvidia_gpu section"
    )
}
