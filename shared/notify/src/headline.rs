//! Headline of a step or a finding: a few words, and fields for machines.

use billing::price::{PriceSource, Quote};
use jiff::Timestamp;
use model::mark::AnnouncedAction;
use model::mode::Mode;
use model::notification_log::{Headline, HeadlineCost, HeadlineObject, NotificationFacts};
use model::rule::ResourceAction;
use plan::report::{FailedPart, OutcomeKind, StepOutcome};
use plan::{
    Action, Announcement, BudgetAction, Facts, FindingKind, InstanceAction, SnapshotAction, Step, Target, VolumeAction,
};

use crate::data_loss::DataLoss;

pub(super) fn step_headline(
    step: &Step,
    step_outcome: &StepOutcome,
    loss: Option<&DataLoss>,
    now: Timestamp,
) -> Headline {
    let outcome = step_outcome.kind;
    if let (Action::Budget(action), Facts::OverBudget(over)) = (&step.action, &step.evidence.facts) {
        let spent = format!("{} of {} for {} spent ({} %)", over.spent_usd, over.budget_usd, over.month, over.percent);
        let sentence = match (action, step.mode) {
            (BudgetAction::Hold, Mode::Enforce) => format!("Curfew holds the jobs of {{}}: {spent}"),
            (BudgetAction::Hold, Mode::Observe) => format!("Curfew would hold the jobs of {{}}: {spent}"),
            (BudgetAction::Notify, _) => format!("Budget of {{}}: {spent}"),
        };
        let holder = step.target.team.as_ref().map_or("the account".to_owned(), |team| format!("team {team}"));
        return Headline { at: Some(over.as_of), ..Headline::new(sentence, HeadlineObject::Budget, holder) };
    }
    let object = headline_object(&step.action);
    // Of what is paid for anyway: what it costs. No action saves that.
    let rate = match step.saves {
        Some(Quote { source: PriceSource::Prepaid { costs }, .. }) => costs,
        saves => billing::price::rate(saves),
    };
    let cost = match (&step.action, step.action.announcement()) {
        (_, Some(Announcement::Unmark { .. })) | (Action::Snapshot(_, SnapshotAction::AnnounceExpiry(_)), _) => {
            HeadlineCost::Unsaid
        }
        (action, _) if action.is_start() => HeadlineCost::Unsaid,
        (Action::Instance(..) | Action::SageMaker(..), _) => HeadlineCost::Hourly(rate),
        _ => HeadlineCost::Monthly(rate),
    };
    let first = first_announced(step, now).filter(|_| outcome != OutcomeKind::Failed);
    let headline = Headline::new(sentence(step, step_outcome, first), object, step.target.resource.as_str());
    Headline {
        at: first.map(|first| first.deadline),
        announces: first.map(|first| first.ending),
        cost,
        loss: loss.map(|loss| loss.brief.clone()),
        ..headline.with_details(&step.target.what, step.target.name.as_deref())
    }
}

/// The announced action that comes first, of all rules: an earlier announcement may end the resource before a new one does.
fn first_announced(step: &Step, now: Timestamp) -> Option<AnnouncedAction> {
    let actions = step.action.announced_actions()?;
    let to_come = actions.values().filter(|announced| announced.deadline > now);
    let own = actions.get(&step.evidence.rule());
    to_come.min_by_key(|announced| announced.deadline).or(own).copied()
}

/// Action that the step's own rule announces.
fn announced(step: &Step) -> Option<ResourceAction> {
    let announced = step.action.announced_actions()?.get(&step.evidence.rule());
    announced.map(|announced| announced.ending)
}

fn headline_object(action: &Action) -> HeadlineObject {
    match action {
        Action::Instance(..) => HeadlineObject::Instance,
        Action::Volume(..) => HeadlineObject::Volume,
        Action::Snapshot(..) => HeadlineObject::Snapshot,
        Action::SageMaker(..) => HeadlineObject::SageMaker,
        Action::Budget(_) => HeadlineObject::Budget,
    }
}

/// Sentence of the headline, for the same cases as the paragraph.
fn sentence(step: &Step, step_outcome: &StepOutcome, first: Option<AnnouncedAction>) -> String {
    use OutcomeKind::{Failed, NotReached, Observed};
    let (rule, outcome) = (step.evidence.rule(), step_outcome.kind);
    match (step.action.announcement(), &step.action, outcome) {
        (Some(Announcement::Unmark { .. }), ..) if outcome != Failed || !step.already_notified => {
            "Curfew called off what it announced for {}".to_owned()
        }
        (_, action, Failed) => failure_sentence(action.as_str(), step_outcome.failed_part),
        (_, action, NotReached) if step.held.is_some() => {
            format!("Curfew needs approval to {} {{}}", action.ending().map_or("end".to_owned(), verb))
        }
        (Some(Announcement::Mark(_)), ..) => {
            let would = if step.mode == Mode::Observe { "would" } else { "will" };
            format!("Curfew {would} {} {{}}", first.map_or("end".to_owned(), |first| verb(first.ending)))
        }
        (Some(Announcement::Notify), ..) => format!("Curfew only notifies ({rule}): {{}}"),
        (_, action, Observed) if action.is_start() => "Curfew would start {}".to_owned(),
        (_, Action::Instance(seen, InstanceAction::Start), _) if seen.last_start_failed().is_some() => {
            "Curfew requested another start of {} after a failed one".to_owned()
        }
        (_, action, _) if action.is_start() => "Curfew requested the start{s} of {}".to_owned(),
        (_, Action::Snapshot(_, SnapshotAction::AnnounceExpiry(_)), _) => {
            "Curfew noticed that the volume{s} of {} {is} gone".to_owned()
        }
        (_, action, Observed) => {
            format!("Curfew would {} {{}}", action.ending().map_or("end".to_owned(), verb))
        }
        (_, Action::Volume(_, VolumeAction::Snapshot { .. }), _) => "Curfew began the snapshot{s} of {}".to_owned(),
        // Its snapshot was begun by an earlier run.
        (
            _,
            Action::Volume(_, VolumeAction::Delete { .. }) | Action::Snapshot(_, SnapshotAction::DeleteFailed { .. }),
            _,
        ) => "Curfew deleted {}".to_owned(),
        (_, action, _) => format!("Curfew {} {{}}", action.ending().map_or("ended", ResourceAction::past_tense)),
    }
}

fn failure_sentence(verb: &str, part: FailedPart) -> String {
    match part {
        FailedPart::Call => format!("Curfew could not {verb} {{}}"),
        FailedPart::Check => format!("Curfew did not {verb} {{}} because the check before it failed"),
        FailedPart::Label => format!("Curfew did not {verb} {{}} because the label before it failed"),
        FailedPart::Answer => format!("AWS did not answer when Curfew wanted to {verb} {{}}"),
        FailedPart::Bug => format!("A bug in Curfew kept it from its plan to {verb} {{}}"),
    }
}

fn verb(ending: ResourceAction) -> String {
    ending.as_str().replace('-', " ")
}

pub(super) fn finding_headline(target: &Target, kind: FindingKind) -> Headline {
    let sentence = match kind {
        FindingKind::Unreadable => "Curfew skips {} because of an unreadable tag",
        FindingKind::Bug => "Curfew skips {} because of a bug in Curfew",
        FindingKind::ForeignOwned => "Curfew skips {} because of another controller",
        FindingKind::Disowned => "Curfew finds no job that owns {}",
        FindingKind::UsageUnknown => "Curfew cannot judge whether {} {is} idle",
        FindingKind::StartFailed => "EC2 gave up the start{s} of {}",
        FindingKind::OnStoppedInstance => "A long stopped instance still holds {}",
        FindingKind::SnapshotFailed => "The snapshot{s} of {} failed",
        FindingKind::IdleNode => "Another controller runs {} without work",
        FindingKind::RetiredFamily => "AWS retires the instance family of {}",
        FindingKind::OnDemandTraining => "Managed Spot could run what trains on demand in {}",
        FindingKind::LowUse => "Few requests reach {}",
        FindingKind::IdleFileSystem => "No client uses {}",
        FindingKind::UnusedCapacity => "Nothing runs in reserved capacity of {}",
    };
    Headline::new(sentence, HeadlineObject::from_id(&target.resource), target.resource.as_str())
        .with_details(&target.what, target.name.as_deref())
}

pub(super) fn step_facts(step: &Step, outcome: OutcomeKind) -> NotificationFacts {
    NotificationFacts {
        action: Some(announced(step).map_or(step.action.as_str(), ResourceAction::as_str)),
        outcome: step.action.announced_actions().is_none().then(|| outcome.as_str()),
        rule: Some(step.evidence.rule()),
        deadline: step.deadline,
        saves_usd_per_hour: billing::price::rate(step.saves),
        ..target_facts(&step.target)
    }
}

pub(super) fn target_facts(target: &Target) -> NotificationFacts {
    NotificationFacts {
        what: Some(target.what.clone()),
        name: target.name.clone(),
        owner: target.owner.clone(),
        ..NotificationFacts::default()
    }
}
