//! Answers to the message about a box's end: the one choice of its link, which asks as `curfew box extend` does.

use jobs::boxes::{ExtendRequest, KEPT_BY_LINK, box_name, latest_box_end};
use jobs::{Job, JobId, Phase};
use model::foreign_text::shell_word;
use model::mode::Mode;
use model::reply_link::BoxLink;

use super::{ReplyChoice, ReplyOffer, ReplyState, ReplyStep, ReplyTerms};

/// [`ExtendRequest::by`].
const BY_LINK: &str = "a link";

/// The job of a link's box; `None` if the link names none, or not the box that such a job has.
#[must_use]
pub fn linked_job(link: &BoxLink) -> Option<JobId> {
    JobId::read(&link.ending.job).ok().filter(|job| box_name(job) == link.ending.name)
}

/// The state of a link's box. `job`: its job now, if there is one. A box has one job with a machine at most, so while that of the link has one, no
/// other job holds the box.
#[must_use]
pub fn box_reply_state(link: &BoxLink, job: Option<&Job>, terms: &ReplyTerms) -> ReplyState {
    let again = format!("To bring it up again: curfew box up {}", shell_word(&link.ending.name));
    let is_of_link = |job: &&Job| job.gpu_box.is_some() && linked_job(link).as_ref() == Some(&job.job);
    let Some(job) = job.filter(is_of_link) else {
        return ReplyState::without_offers(format!("Nothing is known of it any more. {again}"));
    };
    let Some(gpu_box) = &job.gpu_box else { return ReplyState::without_offers(again) };
    let machine = match &job.phase {
        Phase::Running(machine) => machine,
        Phase::Ended(ended) => {
            return ReplyState::without_offers(format!(
                "It went down at {}. If it is up again by now, this link is not about that. {again}",
                terms.local(ended.at)
            ));
        }
        _ => {
            return ReplyState::without_offers(
                "It has no machine at the moment, so there is nothing to keep. Look at it: curfew box ls",
            );
        }
    };
    let (end, latest) = (gpu_box.soft_end.min(machine.ends_at), latest_box_end(machine));
    let ends = terms.local(end);
    if end <= terms.now {
        return ReplyState::without_offers(format!("Its end, {ends}, has passed: it goes down. {again}"));
    }
    if terms.mode == Mode::Observe {
        return ReplyState::without_offers(format!(
            "It ends at {ends} at the latest. Curfew is in observe mode by now, and extends no box."
        ));
    }
    let request = ExtendRequest::new(terms.now, KEPT_BY_LINK, Some(BY_LINK.to_owned()));
    if request.until > latest {
        return ReplyState::without_offers(format!(
            "It ends at {ends}, and cannot be kept for 3 hours: its machine ends at {} at the latest, which was fixed at its launch.",
            terms.local(latest)
        ));
    }
    if gpu_box.asked.is_some() {
        return ReplyState::without_offers(format!(
            "It ends at {ends} at the latest. Somebody has asked to keep it longer; the answer comes within a minute."
        ));
    }
    let until = terms.local(request.until);
    if gpu_box.soft_end.min(gpu_box.kept_until) >= request.until {
        return ReplyState::without_offers(format!("It is kept until {until} and longer already."));
    }
    let offer = ReplyOffer {
        choice: ReplyChoice::KeepHours,
        label: format!("Keep it for 3 hours (until {until})"),
        step: ReplyStep::ExtendBox { job: job.job.clone(), request },
        result: format!(
            "Curfew was asked to keep it until {until}. It reserves the cost first, and answers within some minutes: a message tells the new end or \
             why it is refused, and `curfew box ls` shows the end."
        ),
    };
    ReplyState {
        situation: format!("It ends at {ends} at the latest, and sooner once it is idle for its time."),
        offers: vec![offer],
    }
}
