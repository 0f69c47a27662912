//! What there is to say of one resource: what every rule finds, on what evidence, and what becomes of it when.
//!
//! It is made of the very verdicts and announcements that a plan is made of, and its decision is a plan's own: so that what is
//! explained is what happens.

mod held;
mod words;

use std::fmt;

use jiff::Timestamp;
use serde::Serialize;

pub use held::Held;

use super::follow::Track;
use super::{Due, ModeFrom, Verdict};
use crate::instance::Tags;
use crate::mark::Announced;
use crate::mode::Mode;
use crate::plan::{OnlyTold, Plan, Spared, SparedBecause, Step, Target};
use crate::price::Quote;
use crate::rule::{Ending, Rule};
use crate::vocabulary::{Unreadable, explained, kept_until};

/// Everything there is to say of one resource.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// What it is, and whose.
    pub target: Target,
    /// What it is doing, in EC2's word.
    pub state: String,
    /// When it was launched, created or begun.
    pub since: Timestamp,
    /// What it costs, or what ending it saves, where that is known.
    pub price: Option<Quote>,
    /// Its mode for reasons that Curfew infers.
    pub mode: InMode,
    /// Why it is left alone whatever the rules find.
    pub spared: Option<SparedAtSight>,
    /// Every rule for such a resource.
    pub rules: Vec<RuleExplained>,
    /// What a run does now.
    pub decision: Decision,
}

/// A mode, and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InMode {
    /// What holds, under the ceiling.
    pub mode: Mode,
    /// What tags and configuration want.
    pub wanted: Mode,
    /// Which of them.
    pub from: ModeFrom,
}

/// Why something is left alone before any rule is looked at, and what ends that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SparedAtSight {
    /// The reason.
    pub because: SparedBecause,
    /// For people.
    pub words: String,
}

/// What a rule finds, in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Finds {
    /// The rule holds, or does not apply.
    Kept,
    /// Nobody can say.
    Unknown,
    /// The rule is broken.
    Broken,
    /// The rule does not look at it as it is.
    NotJudged,
}

/// One rule and what follows.
#[derive(Debug, Clone, PartialEq)]
pub struct RuleExplained {
    /// The rule.
    pub rule: Rule,
    /// What it finds.
    pub finds: Finds,
    /// Broken at a moment that its owner wrote down and that lies ahead, as the end of its hours.
    pub is_ahead: bool,
    /// The evidence, for people.
    pub evidence: String,
    /// The resource's mode for this rule.
    pub mode: InMode,
    /// What is due: an end, or `notify`.
    pub action: Option<&'static str>,
    /// From when on the end is due; where it is not announced yet, if a run announced it now.
    pub deadline: Option<Timestamp>,
    /// Whether people have been told.
    pub announced: bool,
    /// Why no more is done than telling, or not yet.
    pub only_told: Option<OnlyTold>,
    /// When it would be acted on, for people.
    pub when: String,
}

/// Where a plan has the resource.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// Something is done.
    Step(Box<Step>),
    /// It is left alone.
    Spared(Box<Spared>),
}

/// When a rule that is kept can be broken at the earliest, and what is due then.
pub(super) struct Coming {
    pub(super) at: Timestamp,
    pub(super) due: Option<Due>,
}

/// One rule's verdict with everything that it is told by.
pub(super) struct Judged<'a> {
    pub(super) rule: Rule,
    pub(super) verdict: &'a Verdict,
    pub(super) mode: InMode,
    pub(super) track: &'a Track,
    pub(super) evidence: String,
    pub(super) coming: Option<Coming>,
    pub(super) now: Timestamp,
}

impl Judged<'_> {
    pub(super) fn explained(self) -> RuleExplained {
        let said = self.track.settled.entries.get(&self.rule).copied();
        let before = self.track.before.get(&self.rule);
        let announced = said.is_some_and(|said| before.is_some_and(|before| before.deadline == said.deadline));
        let due = match self.verdict {
            Verdict::Broken(broken) => Some(broken.due),
            Verdict::Kept | Verdict::Unknown => None,
        };
        let only_told = match due {
            Some(Due::Tell(why)) => Some(why),
            _ => None,
        };
        let notify = only_told.map(|_| "notify");
        RuleExplained {
            rule: self.rule,
            finds: match self.verdict {
                Verdict::Kept => Finds::Kept,
                Verdict::Unknown => Finds::Unknown,
                Verdict::Broken(_) => Finds::Broken,
            },
            is_ahead: matches!(self.verdict, Verdict::Broken(broken) if broken.because.is_ahead(self.now)),
            action: said.map(|said| said.ending.as_str()).or(notify),
            deadline: said.map(|said| said.deadline),
            announced,
            only_told,
            when: self.when(said, announced, due),
            evidence: self.evidence,
            mode: self.mode,
        }
    }

    fn when(&self, said: Option<Announced>, announced: bool, due: Option<Due>) -> String {
        match (self.verdict, said, due) {
            (Verdict::Kept, ..) => self.when_kept(),
            (Verdict::Unknown, Some(said), _) => {
                format!("not while nobody can say; announced for {}", said.deadline)
            }
            (_, Some(said), Some(Due::Tell(why))) => {
                format!("not while that is so ({}); announced for {}", why.explained(), said.deadline)
            }
            (_, _, Some(Due::Tell(why))) => format!("never while that is so, only told: {}", why.explained()),
            (_, Some(said), due) => self.when_said(said, announced, matches!(due, Some(Due::Now(..)))),
            (_, None, _) => "not while nobody can say".to_owned(),
        }
    }

    fn when_kept(&self) -> String {
        let coming = self.coming.as_ref().map(|coming| coming.words(self.mode.mode));
        let when = coming.unwrap_or_else(|| "not while that is so".to_owned());
        match self.track.before.get(&self.rule) {
            Some(before) => format!("what was announced for {} is called off; {when}", before.deadline),
            None => when,
        }
    }

    fn when_said(&self, said: Announced, announced: bool, owners_moment: bool) -> String {
        let Announced { ending, deadline } = said;
        let ended = ended(ending);
        match self.mode.mode {
            Mode::Observe => format!("never in observe mode; it would be {ended} from {deadline} on"),
            Mode::Enforce if owners_moment || (announced && deadline <= self.now) => {
                // What else a run ends is not to be known from one resource.
                let unless = if self.rule.is_owners_own() { "" } else { ", unless [limits] hold what it ends" };
                match ending {
                    Ending::SnapshotAndDelete => format!(
                        "its snapshot is begun by the next run, and the first that finds it whole deletes the volume{unless}"
                    ),
                    _ => format!("{ended} by the next run{unless}"),
                }
            }
            Mode::Enforce if announced => {
                format!("{ended} by the first run from {deadline} on that finds it still so")
            }
            Mode::Enforce => {
                format!("told and marked by the next run; {ended} from {deadline} on, counted from now")
            }
        }
    }
}

impl Coming {
    pub(super) fn words(&self, mode: Mode) -> String {
        let at = self.at;
        match self.due {
            None => format!("not before {at}"),
            Some(Due::Tell(why)) => format!("not before {at}, and then only told: {}", why.explained()),
            Some(Due::Now(ending, _) | Due::From(ending, _)) if mode == Mode::Observe => {
                format!("not before {at}, and then only observed, not {}", ended(ending))
            }
            Some(Due::Now(ending, _)) => format!("{} by the first run from {at} on", ended(ending)),
            Some(Due::From(ending, deadline)) => {
                format!("announced from {at} on at the earliest, {} from {deadline} on", ended(ending))
            }
        }
    }
}

const fn ended(ending: Ending) -> &'static str {
    match ending {
        Ending::Stop => "stopped",
        Ending::Terminate => "terminated",
        Ending::SnapshotAndDelete => "snapshotted and deleted",
        Ending::Delete => "deleted",
    }
}

impl RuleExplained {
    /// A rule that does not look at the resource as it is.
    pub(super) const fn not_judged(rule: Rule, mode: InMode, evidence: String, when: String) -> Self {
        Self {
            rule,
            finds: Finds::NotJudged,
            is_ahead: false,
            evidence,
            mode,
            action: None,
            deadline: None,
            announced: false,
            only_told: None,
            when,
        }
    }

    /// As of something that is spared at sight.
    pub(super) fn while_spared(self) -> Self {
        let when = match self.finds {
            Finds::Broken | Finds::Unknown | Finds::Kept => "not while it is spared".to_owned(),
            Finds::NotJudged => self.when,
        };
        Self { when, ..self }
    }
}

impl Decision {
    /// Of a plan that is about one resource alone.
    pub(super) fn of(plan: Plan, resource: &str) -> Option<Self> {
        let step = plan.steps.into_iter().find(|step| step.target.resource.as_str() == resource);
        let spared = || plan.spared.into_iter().find(|spared| spared.target.resource.as_str() == resource);
        step.map(|step| Self::Step(Box::new(step))).or_else(|| Some(Self::Spared(Box::new(spared()?))))
    }

    /// To whom.
    #[must_use]
    pub const fn target(&self) -> &Target {
        match self {
            Self::Step(step) => &step.target,
            Self::Spared(spared) => &spared.target,
        }
    }
}

impl fmt::Display for InMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |mode: Mode| if mode == Mode::Enforce { "enforce" } else { "observe" };
        write!(f, "{}", name(self.mode))?;
        if self.mode == self.wanted {
            write!(f, ", by {}", self.from)
        } else {
            write!(f, ", the most that Curfew may do at present; else {}, by {}", name(self.wanted), self.from)
        }
    }
}

impl fmt::Display for ModeFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tag => f.write_str("its tag curfew:mode"),
            Self::OwnersOwnEnd => f.write_str("its owner's own tag"),
            Self::Untagged => f.write_str("[untagged] mode"),
            Self::Team(team) => write!(f, "[teams.{team}] mode"),
            Self::Account => f.write_str("mode at the top of the configuration"),
        }
    }
}

/// What the tag that spares something says, for people; `None` where it is spared for another reason.
pub(super) fn sparing_tag(because: SparedBecause, tags: &Tags, unreadable: Option<&Vec<Unreadable>>) -> Option<String> {
    match because {
        SparedBecause::Protected => {
            Some("it carries curfew:protected: never touched until that tag is removed".to_owned())
        }
        SparedBecause::Kept => {
            let until = kept_until(tags).map(|until| until.to_string()).unwrap_or_default();
            Some(format!("its curfew:keep-until spares it until {until}"))
        }
        SparedBecause::Unreadable => {
            let unreadable = unreadable.map_or(String::new(), |unreadable| explained(unreadable));
            Some(format!("{unreadable}: spared until that is mended"))
        }
        _ => None,
    }
}

/// EC2's word for a state.
pub(super) fn state_of(state: &impl Serialize) -> String {
    let word = serde_json::to_value(state).unwrap_or_default();
    word.as_str().unwrap_or_default().to_owned()
}
