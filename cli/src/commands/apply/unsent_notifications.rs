//! The notifications that an earlier apply of the same plan owes: it stopped or deleted something, and was cut off before it sent them.
//!
//! A run writes its record before it stops or deletes anything, and again after all notifications. A record with actions that were not
//! reached, and without the reason, belongs to a run that was cut off in between.

use std::collections::BTreeSet;

use jiff::SignedDuration;
use model::id::{Region, ResourceId};
use model::mode::Mode;
use model::moment::before;
use model::notification_log::{
    Headline, HeadlineObject, NO_TEAM, Notification, NotificationFacts, NotificationKind, Paragraph, Severity,
};
use model::rule::{ResourceAction, Rule};
use plan::report::{OutcomeKind, RecordedStep, RunRecord};
use reaping::rules::summarize;
use store::StoreError;

use super::ItemOutcomes;
use super::review::{ApplyTask, NARROWED};
use crate::screen;
use crate::world::clock;

impl ApplyTask<'_> {
    /// Returns the notifications of earlier actions that may not have been sent. A run that carries out a part of the list leaves them to
    /// the run that carries out the rest.
    pub(super) async fn unsent_notifications(&self, left: &ItemOutcomes) -> Vec<Notification> {
        let gone = left.iter().filter(|(_, outcome)| outcome.kind == OutcomeKind::AlreadyGone);
        let gone: Vec<&RecordedStep> = gone.map(|(item, _)| item).collect();
        if gone.is_empty() || self.narrowed {
            return Vec::new();
        }
        match self.begun_without_notification().await {
            Ok(begun) => gone
                .into_iter()
                .filter(|item| begun.contains(&(item.region.clone(), item.resource.clone())))
                .map(to_notification)
                .collect(),
            Err(error) => {
                screen::warn(format!("an interrupted earlier apply cannot be found: {error}"));
                Vec::new()
            }
        }
    }

    /// Everything that runs which were cut off had begun, or were about to begin, since the last one that was not.
    async fn begun_without_notification(&self) -> Result<BTreeSet<(Region, ResourceId)>, StoreError> {
        let mut begun = BTreeSet::new();
        let now = clock();
        for day in [before(now, SignedDuration::from_hours(24)), now] {
            let mut keys = self.deployed.store.list_plans(day, Some(self.gate.function.as_str())).await?;
            keys.retain(|key| key.run.as_str().starts_with(&self.ids()));
            // Each begins with the time at which it began.
            keys.sort_by(|one, other| one.run.cmp(&other.run));
            for key in keys {
                let Some(record) = self.deployed.store.read_plan(&key.key).await? else { continue };
                let was_cut_off = record.steps.iter().any(is_unexplained);
                if !was_cut_off && !record.run.as_str().ends_with(NARROWED) {
                    begun.clear();
                }
                begun.extend(unexplained(&record));
            }
        }
        Ok(begun)
    }
}

fn is_unexplained(step: &RecordedStep) -> bool {
    step.outcome == OutcomeKind::NotReached && step.error.is_none()
}

fn unexplained(record: &RunRecord) -> impl Iterator<Item = (Region, ResourceId)> {
    let steps = record.steps.iter().filter(|step| is_unexplained(step));
    steps.map(|step| (step.region.clone(), step.resource.clone()))
}

fn to_notification(item: &RecordedStep) -> Notification {
    let RecordedStep { region, resource, team, action, evidence, what, name, saves_usd_per_hour, .. } = item;
    let ending = ResourceAction::read(action);
    let ended = ending.map_or("ended", ResourceAction::past_tense);
    let text = Paragraph::new(&format!(
        "{resource} ({region}): it has ended ({action}, {}: {}). The `curfew apply` that did it was interrupted before it could say so.",
        evidence.rule,
        summarize(evidence, action)
    ));
    let text = if action == "terminate" { text } else { text.with_command("Undo", &format!("curfew undo {resource}")) };
    Notification {
        team: team.clone().unwrap_or_else(|| NO_TEAM.to_owned()),
        severity: Severity::Action,
        region: region.clone(),
        resource: Some(resource.clone()),
        kind: NotificationKind::Event,
        text,
        happened: true,
        mode: Some(Mode::Enforce),
        loses: None,
        headline: Headline::new(
            format!("Curfew {ended} {{}} before it was interrupted"),
            HeadlineObject::from_id(resource),
            resource.as_str(),
        )
        .with_details(what.as_deref().unwrap_or_default(), name.as_deref()),
        facts: NotificationFacts {
            action: ending.map(ResourceAction::as_str),
            rule: Rule::read(&evidence.rule),
            what: what.clone(),
            name: name.clone(),
            saves_usd_per_hour: *saves_usd_per_hour,
            ..NotificationFacts::default()
        },
    }
}
