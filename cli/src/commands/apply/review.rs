//! Looking again, and judging again.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use billing::budget::BudgetStatuses;
use billing::price;
use billing::price::Quote;
use cloud::Aws;
use cloud::operator::{LocateResult, ResourceKind, locate};
use execution::{ChosenResources, RecalledLogs, Run};
use futures::stream::{self, StreamExt as _};
use jiff::{SignedDuration, Timestamp};
use model::foreign_text::describe_name;
use model::gang::Gangs;
use model::instance::Instance;
use model::known_sum::KnownSum;
use model::mark::whole_second;
use model::mode::Mode;
use model::moment::after;
use model::notification_log::NotificationLogs;
use model::observation::{Gap, GapKind, ObservedResource};
use notify::would_lose;
use operator::review::{CurrentState, ReviewResult, review};
use plan::report::{APPLIED, RecordedEvidence, RecordedStep, RunRecord, StepOutcome};
use plan::{Plan, Step, Target};
use reaping::job_ownership::JobStates;
use reaping::policy::Policy;
use reaping::rules::summarize;
use reaping::{instances, sagemaker, volumes};
use store::Store;

use super::ItemOutcomes;
use super::gate::{ApplyGate, ReapFunction};
use crate::commands::plans::worth;
use crate::context::{CommandContext, DeployedResources};
use crate::screen::{self, ColumnAlignment, Table};
use crate::world::clock;

/// Looking takes a third of it at most. What is not done by then is left to the next try.
const RUN_MAX: SignedDuration = SignedDuration::from_mins(30);

/// The end of the ids of runs that carried out a part of a plan.
pub(super) const NARROWED: &str = "-only";

/// The list to carry out, and its deployment.
pub(super) struct ApplyTask<'a> {
    pub(super) context: &'a CommandContext,
    pub(super) deployed: &'a DeployedResources,
    pub(super) record: &'a RunRecord,
    pub(super) gate: ApplyGate,
    /// `true` if the task is about a part of the list.
    pub(super) narrowed: bool,
}

/// A list, looked at again.
pub(super) struct ReviewedPlan {
    /// Time when the observation began.
    pub(super) began: Timestamp,
    /// The steps to carry out, and no others.
    pub(super) plan: Plan,
    /// The regions that were observed.
    pub(super) regions: Vec<model::id::Region>,
    /// The notifications of earlier runs.
    pub(super) recalled: RecalledLogs,
    /// The items that are skipped.
    pub(super) left: ItemOutcomes,
    pub(super) function: &'static str,
}

impl ApplyTask<'_> {
    /// A run about these resources alone.
    pub(super) fn run<'r>(
        &'r self,
        began: Timestamp,
        chosen: &'r ChosenResources,
        progress: &'r dyn Fn(&Step, &StepOutcome),
        halted: Option<&'r AtomicBool>,
    ) -> Run<'r, Aws, Store> {
        let narrowed = if self.narrowed { NARROWED } else { "" };
        let at = clock();
        let millisecond = at.subsec_millisecond();
        let id = format!("{}{}{millisecond:03}Z{narrowed}", self.ids(), at.strftime("%Y%m%dT%H%M%S"));
        Run {
            cloud: &self.context.aws,
            store: &self.deployed.store,
            channels: &self.gate.channels,
            function: self.gate.function.as_str(),
            id: id.as_str().into(),
            mode: Mode::Enforce,
            now: began,
            deadline: after(clock(), RUN_MAX),
            clock: &clock,
            chosen: Some(chosen),
            progress,
            halted,
            metrics: None,
            home: model::home::HomeStatus::default(),
        }
    }

    /// Returns the beginning of the ids of all runs that carried out this plan, or a part of it.
    pub(super) fn ids(&self) -> String {
        format!("{APPLIED}{}-", self.record.run)
    }

    /// Looks at the items as the function does, and judges them again.
    pub(super) async fn review_again(&self, items: &[RecordedStep]) -> ReviewedPlan {
        let began = whole_second(clock());
        let chosen = items.iter().map(|item| (item.region.clone(), item.resource.clone())).collect();
        let run = self.run(began, &chosen, &|_, _| (), None);
        let config = self.gate.config.clone();
        let prices = execution::prices::load(&self.deployed.store, &config, began).await;
        let policy = &Policy {
            config,
            ceiling: self.gate.ceiling.clone(),
            prices,
            budgets: BudgetStatuses::default(),
            jobs: JobStates::default(),
            gangs: Gangs::default(),
        };
        let (mut fresh, recalled) = match self.gate.function {
            ReapFunction::Instances => {
                let account = execution::instances::observe(&run, policy).await;
                let memory = &without_refusals(&account.recalled.memory);
                let plan = instances::decide(&account.instances, &account.usages, memory, &account.policy, began);
                let seen = account.instances.items.into_iter().map(ObservedResource::Instance).collect();
                (CurrentState { regions: account.regions, seen, plan }, account.recalled)
            }
            ReapFunction::Volumes => {
                let account = execution::volumes::observe(&run, policy).await;
                let memory = &without_refusals(&account.recalled.memory);
                let (storage, uses) = (&account.storage, &account.uses);
                let plan = volumes::decide(storage, uses, &account.live_jobs, memory, policy, began);
                let seen = account.storage.volumes.items.into_iter().map(ObservedResource::Volume).collect();
                (CurrentState { regions: account.regions, seen, plan }, account.recalled)
            }
            ReapFunction::SageMaker => {
                let account = execution::sagemaker::observe(&run, policy).await;
                let memory = &without_refusals(&account.recalled.memory);
                let plan = sagemaker::decide(&account.resources, &account.activities, memory, &account.policy, began);
                let seen = account.resources.items.into_iter().map(ObservedResource::SageMaker).collect();
                (CurrentState { regions: account.regions, seen, plan }, account.recalled)
            }
        };
        if self.gate.function == ReapFunction::Instances {
            self.locate_unseen(items, &mut fresh).await;
        }
        let regions = fresh.regions.clone();
        for gap in &fresh.plan.gaps {
            screen::warn(format!("{}, {}: {}", gap.region, gap.call, gap.in_command()));
        }
        let ReviewResult { plan, left } = review(items, fresh);
        ReviewedPlan { began, plan, regions, recalled, left, function: self.gate.function.as_str() }
    }
}

impl ReviewedPlan {
    /// Returns `true` if nothing is to be carried out.
    pub(super) fn is_empty(&self) -> bool {
        self.plan.steps.is_empty()
    }

    /// The items that are to be carried out.
    pub(super) fn approved(&self, items: &[RecordedStep]) -> Vec<RecordedStep> {
        let targets: Vec<&Target> = self.plan.steps.iter().map(|step| &step.target).collect();
        let is_approved = |item: &&RecordedStep| {
            targets.iter().any(|target| target.region == item.region && target.resource == item.resource)
        };
        items.iter().filter(is_approved).cloned().collect()
    }

    /// Formats the total saving, with the caveats of its prices.
    fn saves(&self) -> String {
        let quotes = || self.plan.steps.iter().map(|step| step.saves);
        let sum = KnownSum::from_parts(quotes().map(price::rate));
        price::with_caveats(worth(self.function, sum), quotes().flatten())
    }

    pub(super) fn question(&self) -> String {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for step in &self.plan.steps {
            *counts.entry(step.action.as_str()).or_default() += 1;
        }
        let counts = counts.iter().map(|(action, count)| format!("{action} {count}"));
        format!("Carry this out ({})?", counts.collect::<Vec<_>>().join(", "))
    }

    /// Shows each action with its resource, owner, reason, saving and loss; and the skipped items.
    pub(super) fn show(&self, json: bool) {
        let show = |text: &dyn std::fmt::Display| if json { screen::progress(text) } else { screen::print_line(text) };
        if !self.is_empty() {
            if json {
                self.table().propose();
            } else {
                self.table().print();
            }
            let actions = screen::counted(self.plan.steps.len(), "action");
            show(&format!("total: {actions}, saving {}", self.saves()));
        }
        for loss in self.plan.steps.iter().filter_map(would_lose) {
            show(&format!("lost for good: {loss}"));
        }
        for (item, outcome) in &self.left {
            let (region, resource) = (&item.region, &item.resource);
            let why = outcome.error.as_deref().unwrap_or_default();
            screen::progress(format!("skipped: {resource} ({region}): {why}"));
        }
    }

    fn table(&self) -> Table<7> {
        let mut steps: Vec<&Step> = self.plan.steps.iter().collect();
        steps.sort_by_key(|step| std::cmp::Reverse(price::rate(step.saves)));
        let mut table = Table::new([
            ("resource", ColumnAlignment::Whole),
            ("do", ColumnAlignment::Whole),
            ("saves", ColumnAlignment::Right),
            ("what", ColumnAlignment::Left),
            ("owner", ColumnAlignment::Left),
            ("region", ColumnAlignment::Left),
            ("why", ColumnAlignment::Left),
        ]);
        for step in steps {
            let Target { region, resource, team, owner, name, what } = &step.target;
            let name = describe_name(name.as_deref());
            let team = team.as_ref().map_or("-", |team| team.as_str());
            let owner = owner.as_ref().map(|owner| format!(", {owner}")).unwrap_or_default();
            table.row([
                resource.to_string(),
                step.action.as_str().to_owned(),
                step.saves.map_or("?".to_owned(), |Quote { rate, .. }| worth(self.function, KnownSum::new(rate, 0))),
                format!("{what}{name}"),
                format!("{team}{owner}"),
                region.to_string(),
                format!(
                    "{}: {}",
                    step.evidence.rule(),
                    summarize(&RecordedEvidence::from_step(step), step.action.as_str())
                ),
            ]);
        }
        table
    }
}

/// Removes earlier refusals from the logs: an action that a person approves is tried, whatever AWS refused before.
fn without_refusals(memory: &NotificationLogs) -> NotificationLogs {
    let mut memory = memory.clone();
    for record in memory.values_mut().flat_map(|log| log.resources.values_mut()) {
        record.refused.clear();
        record.label_refused = None;
    }
    memory
}

const LOOKS_AT_ONCE: usize = 8;

impl ApplyTask<'_> {
    /// Looks for each by its id, where its region answered.
    pub(super) async fn locate_unseen(&self, items: &[RecordedStep], fresh: &mut CurrentState) {
        let unseen: Vec<&RecordedStep> = items.iter().filter(|item| is_unseen(item, fresh)).collect();
        let looks = stream::iter(unseen).map(|item| async move {
            let regions = std::slice::from_ref(&item.region);
            locate(&self.context.aws, regions, ResourceKind::Instance, &item.resource).await
        });
        for located in looks.buffer_unordered(LOOKS_AT_ONCE).collect::<Vec<_>>().await {
            match located {
                LocateResult::Here(seen) => fresh.seen.push(*seen),
                LocateResult::Nowhere => {}
                LocateResult::Unknown(gaps) => {
                    fresh.plan.gaps.extend(gaps.into_iter().map(|gap| Gap { kind: GapKind::Listing, ..gap }));
                }
            }
        }
    }
}

fn is_unseen(item: &RecordedStep, CurrentState { regions, seen, plan }: &CurrentState) -> bool {
    let is_it = |instance: &Instance| instance.region == item.region && instance.id == item.resource;
    let has_failed = plan.gaps.iter().any(|gap| gap.region == item.region && gap.kind.hides_region());
    ResourceKind::from_id(&item.resource) == Some(ResourceKind::Instance)
        && regions.contains(&item.region)
        && !has_failed
        && !seen.iter().filter_map(ObservedResource::instance).any(is_it)
}
