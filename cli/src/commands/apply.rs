//! `curfew apply`: carries out what a run left for a person to review.
//!
//! 1. Find the record and what of it waits.
//! 2. Refuse where nothing may be ended: [`gate`].
//! 3. Look again and judge again, as the function does: what is no longer as it was reviewed is left alone.
//! 4. Show the list, and ask.
//! 5. Act, tell, record and remember, as the function does.

mod carry;
mod gate;
mod output;
mod review;
mod unsent_notifications;

use std::collections::BTreeSet;

use clap::Args;
use jiff::SignedDuration;
use plan::report::{RecordedStep, RunRecord, StepOutcome};

use super::plans::find;
use crate::command_error::CommandError;
use crate::command_status::CommandStatus;
use crate::context::CommandContext;
use crate::screen;
use crate::world::clock;
use gate::ApplyGate;
use output::ApplyOutput;
use review::{ApplyTask, ReviewedPlan};

/// Time at the question after which the list is checked again before anything is stopped.
const ANSWER_WITHIN: SignedDuration = SignedDuration::from_secs(10);

/// Carry out what a run left for approval: exactly that list, each item checked again
///
/// It skips what has changed since, and everything that is not on the list. After an interruption the same command
/// continues where it was.
#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 everything was done; 1 some of it was not; 2 refused, nothing was done.\n\n\
                        Example:\n  curfew apply 5f1c2a7e\n  curfew apply 5f1c2a7e --only i-0123456789abcdef0 --yes")]
pub(crate) struct Apply {
    /// Id of the run or its beginning, or its record's key in the state bucket: `curfew plans` lists them
    #[arg(value_name = "PLAN")]
    pub(crate) plan: String,
    /// Act only on this resource of the list; may be repeated
    #[arg(long, value_name = "RESOURCE")]
    pub(crate) only: Vec<String>,
    /// Act without asking
    #[arg(long, short)]
    pub(crate) yes: bool,
}

impl Apply {
    pub(crate) async fn run(self, context: &CommandContext) -> Result<CommandStatus, CommandError> {
        let deployed = context.needs_deployed().await?;
        if let Some(reason) = &deployed.standby {
            return Err(CommandError::with(reason, "apply the plan of the stack that acts (docs/region.md)"));
        }
        let record = find(context, &deployed, &self.plan).await?;
        let items = self.items(&record)?;
        if items.is_empty() {
            return nothing_waits(context, &record);
        }
        let gate = ApplyGate::pass(context, &deployed, &record, clock()).await?;
        let task = ApplyTask { context, deployed: &deployed, record: &record, gate, narrowed: !self.only.is_empty() };
        if let Some(observed) = only_observed(&record) {
            screen::progress(format!("{observed}."));
        }
        screen::progress(format!("Checking {} again …", screen::counted(items.len(), "action")));
        let Some((task, again)) = Box::pin(self.confirmed(task, &items)).await? else {
            screen::progress("Nothing was done.");
            return Ok(CommandStatus::Findings);
        };
        let (run, outcomes) = task.carry_out(again, &items).await;
        ApplyOutput::from_outcomes(&record, run, &outcomes).show(context.global.json)
    }

    /// Returns the items that await approval, or the named ones among them.
    fn items(&self, record: &RunRecord) -> Result<Vec<RecordedStep>, CommandError> {
        if record.is_of_apply() {
            let advice = "apply the plan itself again: its run is the middle of that one's id";
            return Err(CommandError::with(format!("{} is itself the record of an apply", record.run), advice));
        }
        let waiting: Vec<RecordedStep> = record.waiting().cloned().collect();
        let mut named = BTreeSet::new();
        if let Some(twice) = waiting.iter().find(|item| !named.insert((&item.region, &item.resource))) {
            let problem = format!("{} is on the list of run {} twice", twice.resource, record.run);
            return Err(CommandError::with(problem, "no run wrote that: look at who did"));
        }
        if self.only.is_empty() {
            return Ok(waiting);
        }
        let listed: BTreeSet<&str> = waiting.iter().map(|item| item.resource.as_str()).collect();
        if let Some(stranger) = self.only.iter().find(|only| !listed.contains(only.as_str())) {
            let problem = format!("{stranger} is not on the list of what waits in run {}", record.run);
            return Err(CommandError::with(problem, format!("curfew plans {} shows the list", record.run)));
        }
        Ok(waiting.into_iter().filter(|item| self.only.iter().any(|only| only == item.resource.as_str())).collect())
    }

    /// Returns the plan to carry out, as it is now; `None` if the person does not want it. A person who took their time gets a second
    /// observation, by the configuration as it is by then, which can only leave out more.
    async fn confirmed<'t>(
        &self,
        task: ApplyTask<'t>,
        items: &[RecordedStep],
    ) -> Result<Option<(ApplyTask<'t>, ReviewedPlan)>, CommandError> {
        let again = task.review_again(items).await;
        again.show(task.context.global.json);
        if again.is_empty() {
            return Ok(Some((task, again)));
        }
        if !screen::confirm(again.question(), self.yes)? {
            return Ok(None);
        }
        if clock().duration_since(again.began) <= ANSWER_WITHIN {
            return Ok(Some((task, again)));
        }
        screen::progress("That took a while: checking again …");
        let gate = ApplyGate::pass(task.context, task.deployed, task.record, clock()).await?;
        let task = ApplyTask { gate, ..task };
        let approved = again.approved(items);
        let second = task.review_again(&approved).await;
        Ok(Some((task, ReviewedPlan { left: [again.left, second.left].concat(), ..second })))
    }
}

fn only_observed(record: &RunRecord) -> Option<String> {
    let observed = record.tally().observed;
    let were = if observed == 1 { "was" } else { "were" };
    (observed > 0).then(|| {
        format!(
            "{} {were} only observed, and nothing that is in observe mode is applied",
            screen::counted(observed, "step")
        )
    })
}

fn nothing_waits(context: &CommandContext, record: &RunRecord) -> Result<CommandStatus, CommandError> {
    let observed = only_observed(record).map(|observed| format!("; {observed}")).unwrap_or_default();
    screen::progress(format!("Nothing of run {} awaits approval{observed}.", record.run));
    if context.global.json {
        ApplyOutput::from_outcomes(record, None, &Vec::new()).show(true)
    } else {
        Ok(CommandStatus::Success)
    }
}

type ItemOutcomes = Vec<(RecordedStep, StepOutcome)>;
