//! The plan: what will be done to each observed thing and why, or why it is spared. Plain data.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::{Serialize, Serializer};

use crate::id::{Region, ResourceId, TeamName, TypeName};
use crate::instance::{Instance, State};
use crate::limits::LimitsExceeded;
use crate::mark::Mark;
use crate::mode::Mode;
use crate::money::Rate;
use crate::notices::Topic;
use crate::observed::Gap;
use crate::rule::Rule;
use crate::usage::Quiet;

/// What a run will do. Every observed thing is in `steps` or in `spared`, exactly once.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// What will be done.
    pub steps: Vec<Step>,
    /// What will not be touched.
    pub spared: Vec<Spared>,
    /// What could not be seen.
    pub gaps: Vec<Gap>,
}

/// One thing to do to one resource.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// To whom.
    pub target: Target,
    /// What.
    pub action: Action,
    /// Why.
    pub because: Because,
    /// From when on the announced end is due, or was.
    pub deadline: Option<Timestamp>,
    /// Why it is only told.
    pub only_told: Option<OnlyTold>,
    /// What else was found at the same time, each with its deadline, in a mark.
    pub besides: Vec<(Because, Timestamp)>,
    /// Observe: nothing is written.
    pub mode: Mode,
    /// What the end saves, where the price is known.
    pub saves: Option<Rate>,
    /// Why it must wait for a person.
    pub held: Option<LimitsExceeded>,
    /// Whether people have heard of it, so that only the write is missing.
    pub told_before: bool,
    /// What its owner should hear besides.
    pub finding: Option<Finding>,
    /// What stays remembered about the resource.
    pub memo: Memo,
    /// The resource as it was seen; it must not have changed when the step is carried out.
    pub seen: Instance,
}

/// Whom a step or a finding is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Where it is.
    pub region: Region,
    /// Its id.
    pub resource: ResourceId,
    /// Its team, where its tags say.
    pub team: Option<TeamName>,
    /// Its owner, where its tags say.
    pub owner: Option<String>,
    /// Its `Name` tag.
    pub name: Option<String>,
    /// Its type.
    pub instance_type: TypeName,
    /// NVMe instance storage in GB.
    pub instance_storage_gb: u64,
}

/// Everything that can be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Write the mark: its end has been announced.
    Mark(Mark),
    /// Take back what no longer holds.
    Unmark {
        /// What is still announced.
        remaining: Option<Mark>,
        /// Whether a `curfew:stopped` of an earlier stop goes too.
        clear_stopped: bool,
    },
    /// Say so, and no more.
    Notify,
    /// Stop the instance.
    Stop {
        /// Written first, where the end is announced and carried out in one run.
        mark: Option<Mark>,
        /// What `curfew:stopped` will say.
        stopped: String,
    },
    /// Terminate the instance.
    Terminate {
        /// Written first, where the end is announced and carried out in one run.
        mark: Option<Mark>,
    },
    /// Start the instance.
    Start,
}

impl Action {
    /// The name in responses.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Mark(_) => "mark",
            Self::Unmark { .. } => "unmark",
            Self::Notify => "notify",
            Self::Stop { .. } => "stop",
            Self::Terminate { .. } => "terminate",
            Self::Start => "start",
        }
    }

    /// Whether it ends something.
    #[must_use]
    pub const fn is_end(&self) -> bool {
        matches!(self, Self::Stop { .. } | Self::Terminate { .. })
    }
}

/// The evidence of a broken rule.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "rule", rename_all = "kebab-case")]
pub enum Because {
    /// Its `curfew:expires-at` has passed.
    Expired {
        /// When it did.
        expires_at: Timestamp,
    },
    /// Required tags are missing.
    Untagged {
        /// Which.
        missing: Vec<String>,
    },
    /// Idle over the whole window.
    Idle(Quiet),
    /// Outside its hours, or soon; or, for a start, within them.
    Hours {
        /// As its owner wrote them.
        hours: String,
        /// The end of its hours; for a start, their beginning.
        at: Timestamp,
    },
    /// Too old.
    Lifetime {
        /// Since when it runs.
        launched_at: Timestamp,
        /// How long it may, in seconds.
        #[serde(rename = "max_seconds", serialize_with = "seconds")]
        max: SignedDuration,
    },
    /// Nothing is broken any more; or the mark was another's, or of an earlier life.
    #[serde(untagged)]
    Mended(Mended),
}

/// Why something that was announced is taken back.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Mended {
    /// The rule that was announced.
    pub rule: Rule,
    /// `true`: what happened to it.
    pub mended: bool,
}

fn seconds<S: Serializer>(duration: &SignedDuration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_i64(duration.as_secs())
}

impl Because {
    /// The rule.
    #[must_use]
    pub const fn rule(&self) -> Rule {
        match self {
            Self::Expired { .. } => Rule::Expired,
            Self::Untagged { .. } => Rule::Untagged,
            Self::Idle(_) => Rule::Idle,
            Self::Hours { .. } => Rule::Hours,
            Self::Lifetime { .. } => Rule::Lifetime,
            Self::Mended(mended) => mended.rule,
        }
    }
}

/// Why a broken rule is told and not acted on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnlyTold {
    /// Tag or configuration says notify.
    Configured,
    /// One-time Spot or an instance-store root, and nothing says terminate.
    CannotBeStopped,
    /// Its Spot request would launch it again.
    PersistentSpot,
    /// Nobody could read whether its Spot request would launch it again.
    SpotRequestUnknown,
    /// Its capacity is paid for anyway.
    SavesNothing,
    /// NVMe storage that is to be kept would be lost.
    LocalDisk,
    /// GPU memory is held: a notebook, a waiting server.
    Reserved,
    /// It works.
    Busy,
}

impl OnlyTold {
    /// For people.
    #[must_use]
    pub const fn explained(self) -> &'static str {
        match self {
            Self::Configured => "the configured action is notify",
            Self::CannotBeStopped => {
                "it cannot be stopped, only terminated (curfew:on-idle=terminate allows that for idleness)"
            }
            Self::PersistentSpot => "its persistent Spot request would launch it again: cancel the request first",
            Self::SpotRequestUnknown => "its Spot request could not be read, and might launch it again",
            Self::SavesNothing => {
                "its capacity is reserved or dedicated and paid for anyway, so ending it saves nothing until that is released"
            }
            Self::LocalDisk => {
                "stopping loses its NVMe instance storage, which is to be kept (curfew:local-disk=expendable allows it)"
            }
            Self::Reserved => "GPU memory is held, as a notebook or a waiting server does",
            Self::Busy => "it is at work",
        }
    }
}

impl Serialize for Action {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// Something that is not touched, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct Spared {
    /// Who.
    pub target: Target,
    /// Why.
    pub because: SparedBecause,
    /// What its owner should hear about it.
    pub finding: Option<Finding>,
    /// What stays remembered about it.
    pub memo: Memo,
}

/// What stays remembered about one resource after a run; everything else about it is forgotten.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Memo {
    /// Topics that, once told, need not be told again: those that still stand, or that nobody can say anything about.
    pub standing: Vec<Topic>,
    /// What was announced in observe mode before, and still binds.
    pub shadow_mark: Option<Mark>,
    /// What was announced before, still binds, and could not be written on it yet.
    pub unwritten_mark: Option<Mark>,
    /// What is written on it and binds nobody any more: it was mended while nothing could be written.
    pub void_mark: Option<Mark>,
}

/// Why something is spared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SparedBecause {
    /// It carries `curfew:protected`.
    Protected,
    /// Its `curfew:keep-until` lies ahead.
    Kept,
    /// A tag of it cannot be read.
    Unreadable,
    /// Another controller owns it.
    ForeignOwned,
    /// It does not run.
    NotRunning,
    /// Its end is announced, and its deadline lies ahead.
    Marked,
    /// People have been told, and nothing more is due.
    Told,
    /// It works.
    Busy,
    /// Launched too recently to be judged.
    Young,
    /// Nobody can say whether it works.
    UsageUnknown,
    /// No rule is broken.
    Compliant,
}

/// What an owner should hear about something that is spared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What it is about; told again when `what` changes.
    pub topic: Topic,
    /// A fingerprint of what was found.
    pub what: String,
    /// For people.
    pub text: String,
}

impl Step {
    /// Whether it ends something for a reason that Curfew inferred, for real: what the limits count.
    #[must_use]
    pub fn is_inferred_end(&self) -> bool {
        self.mode == Mode::Enforce && self.action.is_end() && !self.because.rule().is_owners_own()
    }
}

/// Whether the reason for a step still stands, by the resource as it is now. Whatever has changed since the look, be it a
/// tag, the state or a new life, the next run looks at again.
///
/// # Errors
/// What keeps the step from being carried out.
pub fn still_holds(step: &Step, fresh: &Instance) -> Result<(), NoLonger> {
    let seen = &step.seen;
    if matches!(fresh.state, State::Terminated | State::ShuttingDown) {
        return Err(NoLonger::AlreadyGone);
    }
    let same = fresh.state == seen.state
        && fresh.launched_at == seen.launched_at
        && fresh.tags == seen.tags
        && fresh.instance_type == seen.instance_type
        && fresh.operator == seen.operator
        && fresh.prepaid == seen.prepaid;
    if same { Ok(()) } else { Err(NoLonger::Changed) }
}

/// What became of a reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoLonger {
    /// The resource has ended by itself.
    AlreadyGone,
    /// It is not what it was.
    Changed,
}

/// How many are spared, by reason.
#[must_use]
pub fn spared_counts(spared: &[Spared]) -> BTreeMap<SparedBecause, usize> {
    let mut counts = BTreeMap::new();
    for one in spared {
        *counts.entry(one.because).or_default() += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{InstanceBuilder, enforcing, idle, instance, time};
    use crate::instance::Prepaid;
    use crate::observed::Observed;
    use crate::policy::instances::{Memory, decide};

    /// Whether a mark of the usual instance is still written on what it has become.
    fn check(fresh: InstanceBuilder, expect: Result<(), NoLonger>) {
        let seen = Observed { items: vec![instance().build()], gaps: Vec::new() };
        let usages = BTreeMap::from([("i-0abc".into(), idle())]);
        let now = time(crate::fixture::NOW);
        let plan = decide(&seen, &usages, &Memory::new(), &enforcing("mode = \"enforce\""), now);
        assert_eq!(still_holds(&plan.steps[0], &fresh.build()), expect);
    }

    #[test]
    fn what_is_as_it_was_seen_is_acted_on() {
        check(instance(), Ok(()));
    }

    #[test]
    fn what_has_changed_since_is_left_to_the_next_run() {
        for changed in [
            instance().tag("curfew:protected", ""),
            instance().tag("curfew:keep-until", "2026-12-31"),
            instance().tag("Name", "renamed"),
            instance().state(State::Stopped),
            instance().state(State::Stopping),
            instance().launched("2026-09-01T11:59:00Z"),
            instance().of_type("g5.2xlarge"),
            instance().operator("eks.amazonaws.com"),
            instance().prepaid(Prepaid::CapacityReservation),
        ] {
            check(changed, Err(NoLonger::Changed));
        }
    }

    #[test]
    fn what_has_ended_by_itself_is_gone() {
        check(instance().state(State::Terminated), Err(NoLonger::AlreadyGone));
        check(instance().state(State::ShuttingDown), Err(NoLonger::AlreadyGone));
    }
}
