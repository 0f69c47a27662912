//! Answers to an announcement by its link: what the link allows at a time. The choices are those of `curfew keep`, `protect`, `undo` and
//! `box extend`.

mod gpu_box;
pub mod page;

use jiff::Timestamp;
use jiff::civil::Weekday;
use jiff::tz::TimeZone;
use jobs::JobId;
use jobs::boxes::ExtendRequest;
use model::curfew_tags::{PROTECTED, kept_until};
use model::instance::InstanceState;
use model::mode::Mode;
use model::notification_log::CarriedOut;
use model::observation::ObservedResource;
use model::reply_link::ReplyLink;
use model::sagemaker::SageMakerStatus;

pub use gpu_box::{box_reply_state, linked_job};

use crate::keep::{KeepRequest, KeepUntil, TagChange, change};
use crate::undo::{NothingToUndo, describe_next_action, notebook_stop_to_undo, stop_to_undo};

/// The hour at which `keep-friday` ends.
const FRIDAY_HOUR: i8 = 18;

/// The answer of a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyChoice {
    /// Keep the resource for a day.
    KeepDay,
    /// Keep the resource until the evening of the next Friday after today.
    KeepFriday,
    /// Protect the resource for good.
    Protect,
    /// Start again what Curfew stopped.
    Undo,
    /// Keep the box for three hours.
    KeepHours,
}

impl ReplyChoice {
    /// Reads a choice from a link, or from a button of a chat.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let all = [Self::KeepDay, Self::KeepFriday, Self::Protect, Self::Undo, Self::KeepHours];
        all.into_iter().find(|choice| choice.as_str() == text)
    }

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::KeepDay => "keep-day",
            Self::KeepFriday => "keep-friday",
            Self::Protect => "protect",
            Self::Undo => "undo",
            Self::KeepHours => "keep-3h",
        }
    }
}

/// The change that a choice makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplyStep {
    WriteTag {
        key: &'static str,
        value: String,
    },
    StartInstance,
    StartNotebook,
    /// Asks as `curfew box extend` does: `run-jobs` decides.
    ExtendBox {
        job: JobId,
        request: ExtendRequest,
    },
}

/// A choice that is possible now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplyOffer {
    pub choice: ReplyChoice,
    /// Text of its button.
    pub label: String,
    pub step: ReplyStep,
    /// Sentences that say what the choice has done.
    pub result: String,
}

/// The state of the subject of a link, and the possible answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplyState {
    /// Sentences about it.
    pub situation: String,
    pub offers: Vec<ReplyOffer>,
}

impl ReplyState {
    fn without_offers(situation: impl Into<String>) -> Self {
        Self { situation: situation.into(), offers: Vec::new() }
    }

    /// The offer of this choice, if it is possible.
    #[must_use]
    pub fn offer(&self, choice: ReplyChoice) -> Option<&ReplyOffer> {
        self.offers.iter().find(|offer| offer.choice == choice)
    }
}

/// The terms of the account at a time.
#[derive(Debug, Clone)]
pub struct ReplyTerms {
    /// `CURFEW_MODE`.
    pub mode: Mode,
    pub time_zone: TimeZone,
    pub now: Timestamp,
}

impl ReplyTerms {
    /// The time in the account's time zone: `Fri 4 Sep 2026, 18:00 CEST`.
    #[must_use]
    pub fn local(&self, at: Timestamp) -> String {
        at.to_zoned(self.time_zone.clone()).strftime("%a %-d %b %Y, %H:%M %Z").to_string()
    }

    /// Evening of the next Friday. On a Friday that is the one in a week: `keep-day` ends tomorrow.
    fn next_friday(&self) -> Option<Timestamp> {
        let today = self.now.to_zoned(self.time_zone.clone()).date();
        let friday = today.nth_weekday(1, Weekday::Friday).ok()?;
        Some(friday.at(FRIDAY_HOUR, 0, 0, 0).to_zoned(self.time_zone.clone()).ok()?.timestamp())
    }
}

/// The state of a link's resource. `seen`: the resource now, if it exists. `recorded`: its last stop that Curfew's own records know.
#[must_use]
pub fn reply_state(
    link: &ReplyLink,
    seen: Option<&ObservedResource>,
    recorded: Option<CarriedOut>,
    terms: &ReplyTerms,
) -> ReplyState {
    let Some(seen) = seen else {
        let id = &link.resource;
        return ReplyState::without_offers(format!(
            "It no longer exists. If Curfew deleted it, this command restores what can be restored: curfew undo {id}"
        ));
    };
    if !link.is_about(seen) {
        return ReplyState::without_offers(
            "It was started or made again since the announcement, which no longer counts. A new announcement has a link of its own.",
        );
    }
    if terms.mode == Mode::Observe {
        return ReplyState::without_offers("Curfew is in observe mode by now: it neither stops nor deletes anything.");
    }
    // What is gone, or cannot be tagged, refuses each request alike.
    if let Err(refusal) = change(seen, KeepRequest::Protect, terms.now) {
        return ReplyState::without_offers(format!("Nothing can be changed: {refusal}."));
    }
    let undo = undo_offer(seen, recorded, terms.now);
    let offers = [
        // IAM denies every change of what is protected.
        undo.as_ref().ok().filter(|_| !seen.tags().contains_key(PROTECTED)).cloned(),
        keep_offer(seen, ReplyChoice::KeepDay, KeepUntil::read("1d", terms.now).ok(), terms),
        keep_offer(seen, ReplyChoice::KeepFriday, terms.next_friday().and_then(|at| read_until(at, terms.now)), terms),
        protect_offer(seen, terms.now),
    ];
    let situation = describe_situation(link, seen, undo.err(), recorded, terms);
    ReplyState { situation, offers: offers.into_iter().flatten().collect() }
}

fn read_until(at: Timestamp, now: Timestamp) -> Option<KeepUntil> {
    KeepUntil::read(&at.to_string(), now).ok()
}

/// A link never shortens an exemption.
fn keep_offer(
    seen: &ObservedResource,
    choice: ReplyChoice,
    until: Option<KeepUntil>,
    terms: &ReplyTerms,
) -> Option<ReplyOffer> {
    let until = until?;
    let is_exempt_longer = kept_until(seen.tags()).is_some_and(|at| at >= until.at);
    if is_exempt_longer || seen.tags().contains_key(PROTECTED) {
        return None;
    }
    let local = terms.local(until.at);
    let label = match choice {
        ReplyChoice::KeepFriday => format!("Keep it until Friday ({local})"),
        _ => format!("Keep it for a day (until {local})"),
    };
    let change = change(seen, KeepRequest::Keep(&until), terms.now).ok()?;
    tag_offer(choice, label, &format!("It is kept until {local}"), change)
}

fn protect_offer(seen: &ObservedResource, now: Timestamp) -> Option<ReplyOffer> {
    let change = change(seen, KeepRequest::Protect, now).ok()?;
    tag_offer(ReplyChoice::Protect, "Protect it for good".to_owned(), "It is protected", change)
}

fn tag_offer(choice: ReplyChoice, label: String, done: &str, change: TagChange) -> Option<ReplyOffer> {
    let (key, value) = change.written?;
    let result = [done.to_owned()].into_iter().chain(change.notes).collect::<Vec<_>>().join("; ");
    Some(ReplyOffer { choice, label, step: ReplyStep::WriteTag { key, value }, result: format!("{result}.") })
}

fn undo_offer(
    seen: &ObservedResource,
    recorded: Option<CarriedOut>,
    now: Timestamp,
) -> Result<ReplyOffer, NothingToUndo> {
    let offer = |step, next: String| ReplyOffer {
        choice: ReplyChoice::Undo,
        label: "Start it again".to_owned(),
        step,
        result: format!("Its start was requested. After it, {next}."),
    };
    match seen {
        ObservedResource::Instance(instance) => {
            let stopped = stop_to_undo(instance, recorded)?;
            Ok(offer(ReplyStep::StartInstance, describe_next_action(instance, stopped, now)))
        }
        ObservedResource::SageMaker(resource) => {
            notebook_stop_to_undo(resource, recorded)?;
            Ok(offer(ReplyStep::StartNotebook, "Curfew judges it again".to_owned()))
        }
        ObservedResource::Volume(_) | ObservedResource::Snapshot(_) => {
            Err(NothingToUndo::NeverChanged("Curfew has not deleted it".to_owned()))
        }
    }
}

fn describe_situation(
    link: &ReplyLink,
    seen: &ObservedResource,
    nothing_to_undo: Option<NothingToUndo>,
    recorded: Option<CarriedOut>,
    terms: &ReplyTerms,
) -> String {
    let is_stopped = match seen {
        ObservedResource::Instance(instance) => {
            matches!(instance.state, InstanceState::Stopped | InstanceState::Stopping)
        }
        ObservedResource::SageMaker(resource) => {
            matches!(resource.status, SageMakerStatus::Stopped | SageMakerStatus::Stopping)
        }
        ObservedResource::Volume(_) | ObservedResource::Snapshot(_) => false,
    };
    let until = kept_until(seen.tags()).filter(|until| *until > terms.now);
    match (nothing_to_undo, recorded, until) {
        (None, Some(stopped), _) => format!("Curfew stopped it: {}, for {}.", terms.local(stopped.at), stopped.rule),
        (Some(NothingToUndo::NeverChanged(why) | NothingToUndo::Gone(why)), ..) if is_stopped => {
            format!("It is stopped: {why}.")
        }
        (Some(NothingToUndo::NotByCurfew(_)), ..) if is_stopped => "It is stopped, and not by Curfew.".to_owned(),
        _ if seen.tags().contains_key(PROTECTED) => "It is protected: Curfew skips it.".to_owned(),
        (_, _, Some(until)) => format!("It is kept until {}: Curfew skips it until then.", terms.local(until)),
        _ => {
            let (action, at) = (link.action.past_tense(), terms.local(link.deadline));
            format!("It will be {action} from {at} on, unless it is used again, kept or protected.")
        }
    }
}

#[cfg(test)]
mod tests;
