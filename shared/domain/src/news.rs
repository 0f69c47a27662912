//! What people should hear of a run: one paragraph per resource, only for what changed.
//!
//! A paragraph is an **event** (something was done: it is told, and owed where SNS did not take it; a start too, which is
//! remembered like a state besides), a **state** (something
//! is so: told once, or once a day while it lasts, and remembered by topic), or an **announcement** (a mark, which is written
//! only after its message was taken).

mod message;
mod paragraph;
mod remember;
mod undo;

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::budget::{Holder, Limit, resource_of};
use crate::config::OverBudget;
use crate::id::{Region, ResourceId};
use crate::instance::Instance;
use crate::mark::Announced;
use crate::mode::Mode;
use crate::notices::{Memory, Repeat, Told, Topic, told_fingerprint, told_of_budget, would};
use crate::observed::{Gap, GapKind};
use crate::plan::{Action, Because, Finding, Seen, Spared, SparedBecause, Step, Target};
use crate::report::{OutcomeKind, Report};
use crate::rule::Ending;
use crate::vocabulary::DELETED_AT;

pub use message::{Message, messages};
pub(crate) use paragraph::why;
pub use remember::remember;

/// The `team` attribute of what belongs to no team.
pub const NO_TEAM: &str = "untagged";

/// How much it matters; for filter policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Good to know.
    Info,
    /// Something will be done, or should be.
    Warning,
    /// Something was done.
    Action,
    /// Something went wrong.
    Error,
}

impl Severity {
    /// The attribute's value.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Action => "action",
            Self::Error => "error",
        }
    }
}

/// One paragraph.
#[derive(Debug, Clone, PartialEq)]
pub struct News {
    /// The `team` attribute.
    pub team: String,
    /// How much it matters.
    pub severity: Severity,
    /// Where the resource is, and which; for a gap the region alone.
    pub region: Region,
    /// The resource.
    pub resource: Option<ResourceId>,
    /// How it is remembered.
    pub kind: NewsKind,
    /// For people.
    pub text: String,
    /// Whether something was done, which no later run sees again: it is owed where SNS did not take it.
    pub happened: bool,
    /// The mode of the step it is about; `None` where it is about none, or the step is to tell, in any mode.
    pub mode: Option<Mode>,
    /// What is lost, for the message's first line.
    pub loses: Option<String>,
}

impl News {
    /// Whether it is about the account, and not about what belongs to no team.
    fn is_of_account(&self) -> bool {
        self.team == NO_TEAM && self.resource.as_ref().is_none_or(|resource| *resource == resource_of(&Holder::Account))
    }

    /// Whether telling is all that there is to do, so that observe mode leaves nothing undone.
    fn is_all_done(&self) -> bool {
        self.mode.is_none() && matches!(&self.kind, NewsKind::State { topic, .. } if topic.is_of_budget())
    }

    /// No two of a run share it.
    fn key(&self) -> (&Region, Option<&ResourceId>, &NewsKind) {
        (&self.region, self.resource.as_ref(), &self.kind)
    }
}

/// How a paragraph is remembered.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum NewsKind {
    /// Something was done.
    Event,
    /// Something is so.
    State {
        /// What it is about.
        topic: Topic,
        /// What was said; something else is told anew.
        what: String,
        /// Whether it is told again while it lasts.
        repeat: Repeat,
    },
    /// An end is announced.
    Announcement,
}

/// Everything to say of a run that earlier runs have not said. Marks count as announced now: call this before they are
/// written, and write only those whose message was taken.
#[must_use]
pub fn news(report: &Report, memory: &Memory, home: &Region, now: Timestamp) -> Vec<News> {
    // What a person has chosen to end, no later run tries again by itself.
    let again = !report.of_chosen_only;
    let of_steps = report
        .steps
        .iter()
        .filter_map(|(step, outcome)| of_step(step, outcome.kind, outcome.error.as_deref(), again, now));
    let besides = report.steps.iter().filter_map(|(step, _)| Some(of_finding(&step.target, step.finding.as_ref()?)));
    let of_spared = report.spared.iter().filter_map(of_spared);
    // Whoever chose the resources sees the gaps, and it may be their own permission that is missing.
    let of_gaps = report.gaps.iter().filter(|_| !report.of_chosen_only).map(|gap| of_gap(gap, home));
    of_steps.chain(besides).chain(of_spared).chain(of_gaps).filter(|news| !is_known(news, memory, now)).collect()
}

/// What there is to say that was not yet so when this run's messages were sent: it is owed.
#[must_use]
pub fn late_news(report: &Report, sent: &[News], memory: &Memory, home: &Region, now: Timestamp) -> Vec<News> {
    let sent: BTreeSet<_> = sent.iter().map(News::key).collect();
    let all = news(report, memory, home, now).into_iter();
    all.filter(|one| one.kind != NewsKind::Announcement && !sent.contains(&one.key())).collect()
}

/// Of what besides a report there is to say, what earlier runs have not said.
#[must_use]
pub fn unknown(news: Vec<News>, memory: &Memory, now: Timestamp) -> Vec<News> {
    news.into_iter().filter(|one| !is_known(one, memory, now)).collect()
}

/// Gaps and account-wide faults are remembered with the home region.
fn is_known(news: &News, memory: &Memory, now: Timestamp) -> bool {
    let NewsKind::State { topic, what, repeat } = &news.kind else {
        return false;
    };
    let Some(notices) = memory.get(&news.region) else {
        // Without a memory nothing could be remembered: a fault would be told in every run.
        return news.resource.is_none();
    };
    let told = match &news.resource {
        Some(resource) => notices.told.get(resource).and_then(|topics| topics.get(topic)),
        None => notices.gaps.get(topic),
    };
    told.is_some_and(|told: &Told| told.covers(what, *repeat, now))
}

fn of_step(step: &Step, outcome: OutcomeKind, error: Option<&str>, again: bool, now: Timestamp) -> Option<News> {
    let (severity, kind) = weight(step, outcome, now)?;
    Some(News {
        team: team_attribute(&step.target),
        severity,
        region: step.target.region.clone(),
        resource: Some(step.target.resource.clone()),
        happened: kind == NewsKind::Event || (step.action == Action::Start && outcome == OutcomeKind::Done),
        kind,
        text: paragraph::of_step(step, outcome, error, again, now),
        mode: (!only_tells(step)).then_some(step.mode),
        loses: paragraph::loses(step, outcome),
    })
}

/// How much an outcome matters and how it is remembered; `None` where there is nothing to say.
fn weight(step: &Step, outcome: OutcomeKind, now: Timestamp) -> Option<(Severity, NewsKind)> {
    use OutcomeKind::{Done, Failed, NotReached, Observed};
    let rule = step.because.rule();
    let once = |topic, what| NewsKind::State { topic, what, repeat: Repeat::Never };
    let daily =
        |what: &str| NewsKind::State { topic: Topic::undone(rule), what: what.to_owned(), repeat: Repeat::Daily };
    let would_end = |ending| {
        let announced = Announced { ending, deadline: step.deadline.unwrap_or(now) };
        once(Topic::would(rule), would(announced))
    };
    let deadline = || step.deadline.map(|at| at.to_string()).unwrap_or_default();
    Some(match (&step.action, outcome) {
        // Nothing would have been done, so nothing was missed.
        (_, Failed) if step.mode == Mode::Observe => return None,
        (action, Failed) => (Severity::Error, daily(action.as_str())),
        (_, NotReached) if step.held.is_some() => (Severity::Error, daily("held")),
        (Action::Mark(_), NotReached | Observed) if !step.told_before => (announcing(step), NewsKind::Announcement),
        (Action::Unmark { .. }, Done | Observed) if !step.told_before => (Severity::Info, NewsKind::Event),
        (Action::Notify | Action::Hold, Done | Observed) if matches!(step.seen, Seen::Budget { .. }) => {
            return of_budget(step).filter(|_| !step.told_before);
        }
        (Action::Notify, Done | Observed) => {
            let what = step.only_told.map(told_fingerprint).unwrap_or_default();
            (announcing(step), once(Topic::rule(rule), what))
        }
        (Action::Stop { .. } | Action::Terminate { .. } | Action::Delete { .. }, Done) => {
            (Severity::Action, NewsKind::Event)
        }
        (Action::Snapshot { .. } | Action::Date { key: DELETED_AT, .. }, Done) => (Severity::Info, NewsKind::Event),
        (Action::Stop { .. }, Observed) => (Severity::Info, would_end(Ending::Stop)),
        (Action::Terminate { .. }, Observed) => (Severity::Info, would_end(Ending::Terminate)),
        (Action::Snapshot { .. } | Action::Delete { safety: Some(_), .. }, Observed) => {
            (Severity::Info, would_end(Ending::SnapshotAndDelete))
        }
        (Action::Delete { safety: None, .. }, Observed) => (Severity::Info, would_end(Ending::Delete)),
        (Action::Start, Done) if last_start_failed(step).is_some() => (Severity::Error, daily("start")),
        (Action::Start, Done) => (Severity::Action, once(Topic::started(), deadline())),
        (Action::Start, Observed) => (Severity::Info, once(Topic::would(rule), deadline())),
        _ => return None,
    })
}

/// Each share of a budget speaks once a month, and again only after the budget was changed, or what follows.
fn of_budget(step: &Step) -> Option<(Severity, NewsKind)> {
    let Because::OverBudget(over) = &step.because else { return None };
    let limit = Limit { budget: over.budget_usd, over_budget: over.over_budget, mode: step.mode };
    let severity = match over.over_budget {
        _ if step.mode == Mode::Observe => Severity::Info,
        OverBudget::Hold | OverBudget::Stop if step.action == Action::Hold => Severity::Action,
        _ => Severity::Warning,
    };
    let what = told_of_budget(&over.month, &limit, over.threshold_percent);
    let topic = Topic::budget(over.threshold_percent);
    Some((severity, NewsKind::State { topic, what, repeat: Repeat::Never }))
}

/// A budget at which people are told, and nothing else follows.
fn only_tells(step: &Step) -> bool {
    let of_budget = matches!(step.seen, Seen::Budget { .. });
    of_budget && matches!(&step.because, Because::OverBudget(over) if over.over_budget == OverBudget::Notify)
}

/// The `team` attribute of what is said about a resource.
#[must_use]
pub fn team_attribute(target: &Target) -> String {
    target.team.as_ref().map_or(NO_TEAM, |team| team.as_str()).to_owned()
}

/// What would be lost for good by carrying a step out.
#[must_use]
pub fn would_lose(step: &Step) -> Option<String> {
    paragraph::loses(step, OutcomeKind::NotReached)
}

fn last_start_failed(step: &Step) -> Option<&str> {
    step.seen.instance().and_then(Instance::last_start_failed)
}

fn announcing(step: &Step) -> Severity {
    match step.mode {
        Mode::Enforce => Severity::Warning,
        Mode::Observe => Severity::Info,
    }
}

fn of_spared(spared: &Spared) -> Option<News> {
    let news = of_finding(&spared.target, spared.finding.as_ref()?);
    let severity = if spared.because == SparedBecause::Unreadable { Severity::Warning } else { news.severity };
    Some(News { severity, ..news })
}

fn of_finding(target: &Target, finding: &Finding) -> News {
    News {
        team: team_attribute(target),
        severity: Severity::Info,
        region: target.region.clone(),
        resource: Some(target.resource.clone()),
        kind: NewsKind::State { topic: finding.topic.clone(), what: finding.what.clone(), repeat: Repeat::Never },
        text: format!("{}: {}.", paragraph::named(target), finding.text),
        happened: false,
        mode: None,
        loses: None,
    }
}

/// The news of a gap, remembered with the region `home`.
#[must_use]
pub fn of_gap(gap: &Gap, home: &Region) -> News {
    News {
        team: NO_TEAM.to_owned(),
        severity: Severity::Error,
        region: home.clone(),
        resource: None,
        kind: NewsKind::State {
            topic: Topic::gap(gap),
            what: format!("{:?}", gap.kind),
            repeat: if gap.kind == GapKind::ForbiddenRegion { Repeat::Never } else { Repeat::Daily },
        },
        text: format!("{}, {}: {}", gap.region, gap.call, gap.error),
        happened: false,
        mode: None,
        loses: None,
    }
}

/// The news of a configuration that was refused, or could not be read: told once a day.
#[must_use]
pub fn of_refused_configuration(home: &Region, refusal: &str, memory: &Memory, now: Timestamp) -> Option<News> {
    let news = News {
        team: NO_TEAM.to_owned(),
        severity: Severity::Error,
        region: home.clone(),
        resource: None,
        kind: NewsKind::State { topic: Topic::named("configuration"), what: refusal.to_owned(), repeat: Repeat::Daily },
        text: format!("Curfew acts on nothing until this is mended: {refusal}"),
        happened: false,
        mode: None,
        loses: None,
    };
    (!is_known(&news, memory, now)).then_some(news)
}

#[cfg(test)]
mod tests;
