//! The names of actions, rules, outcomes, reasons and severities.

use std::fmt::Debug;

use jiff::Timestamp;
use model::instance::Tags;
use model::notification_log::Severity;
use model::rule::Rule;
use plan::report::OutcomeKind;
use plan::{
    Action, AnnouncedActions, Announcement, BudgetAction, InstanceAction, NotifyOnlyReason, SkipReason, VolumeAction,
};
use serde::de::DeserializeOwned;

use super::{check_names, every, instance, quoted, rows, volume};

#[test]
fn actions() {
    let on_instance = |action| Some(Action::Instance(instance("i-0abc"), action));
    let on_volume = |action| Some(Action::Volume(volume(1, 0, 0), action));
    let (at, expiring) = (Timestamp::UNIX_EPOCH, Vec::new());
    let first = Action::Instance(instance("i-0abc"), Announcement::Mark(AnnouncedActions::new()).into());
    let all = every(first, |action| match action {
        Action::Instance(_, InstanceAction::Announce(announcement)) => on_instance(match announcement {
            Announcement::Mark(_) => Announcement::Unmark { remaining: None, also: None }.into(),
            Announcement::Unmark { .. } => Announcement::Notify.into(),
            Announcement::Notify => InstanceAction::Stop { mark: None, stopped: String::new() },
        }),
        Action::Instance(_, InstanceAction::Stop { .. }) => on_instance(InstanceAction::Terminate { mark: None }),
        Action::Instance(_, InstanceAction::Terminate { .. }) => on_instance(InstanceAction::Start),
        Action::Instance(_, InstanceAction::Start) => on_volume(VolumeAction::TagUnattachedSince(at)),
        Action::Volume(_, VolumeAction::TagUnattachedSince(_)) => {
            on_volume(VolumeAction::Snapshot { tags: Tags::new() })
        }
        Action::Volume(_, VolumeAction::Snapshot { .. }) => {
            on_volume(VolumeAction::Delete { safety: None, expiring: expiring.clone(), at, kept_until: at })
        }
        Action::Volume(_, VolumeAction::Delete { .. }) => Some(Action::Budget(BudgetAction::Notify)),
        Action::Budget(BudgetAction::Notify) => Some(Action::Budget(BudgetAction::Hold)),
        // Those of a snapshot and of SageMaker are called like those of a volume and of an instance.
        Action::Budget(BudgetAction::Hold)
        | Action::SageMaker(..)
        | Action::Volume(_, VolumeAction::Announce(_))
        | Action::Snapshot(_, _) => None,
    });
    let written = |action| serde_json::to_value(action).unwrap().as_str().unwrap().to_owned();
    check_names("### Actions", all.into_iter().map(written));
}

#[test]
fn rules_in_their_order() {
    let documented: Vec<_> = rows("### Rules").into_iter().map(|(name, _)| name.to_owned()).collect();
    assert_eq!(documented, variants::<Rule>(), "documented on the left");
}

#[test]
fn outcomes_reasons_and_severities() {
    check_names("### Outcomes", variants::<OutcomeKind>());
    check_names("### Skip reasons", variants::<SkipReason>());
    check_names("### Notify-only reasons", variants::<NotifyOnlyReason>());
    check_names("### Severities", variants::<Severity>());
}

/// The names of an enum, by its refusal of another one.
fn variants<T: DeserializeOwned + Debug>() -> Vec<String> {
    let refusal = serde_json::from_str::<T>("\"?\"").unwrap_err().to_string();
    let expected = refusal.split_once("expected one of ").unwrap_or_else(|| panic!("{refusal}")).1;
    quoted(expected).map(str::to_owned).collect()
}
