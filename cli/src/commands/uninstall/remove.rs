//! Removes what a person has named and confirmed.

use cloud::operator::{delete_snapshot, delete_stack, remove_labels};
use cloud::{CallError, CallErrorKind};
use futures::{StreamExt as _, stream};
use model::id::Region;

use super::find::Leftovers;
use super::{Removal, Uninstall};
use crate::command_error::{CommandError, describe_call_error};
use crate::context::CommandContext;
use crate::screen;
use crate::stack_wait::{explain_failure, operation_token, wait};
use crate::world::clock;

/// Calls at once: EC2 throttles an account that changes many resources in a second.
const AT_ONCE: usize = 4;

#[derive(Debug, Default)]
pub(super) struct RemovalReport {
    pub(super) removed: Vec<String>,
    pub(super) failures: Vec<String>,
}

impl RemovalReport {
    /// A resource that is gone already counts as removed.
    fn add(&mut self, what: String, answer: Result<(), CallError>) {
        match answer {
            Ok(()) => self.removed.push(what),
            Err(error) if error.kind == CallErrorKind::NotFound => self.removed.push(format!("{what} (gone already)")),
            Err(error) => self.failures.push(format!("{what}: {}", describe_call_error(&error))),
        }
    }
}

impl Uninstall {
    /// The stack goes first: its functions would act on the rest.
    ///
    /// # Errors
    /// If the stack could not be deleted: then nothing else is removed.
    pub(super) async fn carry_out(
        &self,
        context: &CommandContext,
        found: &Leftovers,
    ) -> Result<RemovalReport, CommandError> {
        let mut report = RemovalReport::default();
        let mut resources = None;
        if let Some(stack) = found.stack.as_ref().filter(|_| self.delete_stack) {
            delete_whole_stack(context, &stack.name).await?;
            report.removed.push(format!("the stack {}", stack.name));
            if self.remove.iter().any(|removal| matches!(removal, Removal::Labels | Removal::Snapshots)) {
                let again = found.find_again(context).await;
                report.failures.extend(again.gaps.iter().filter(|gap| !found.gaps.contains(gap)).cloned());
                resources = Some(again);
            }
        }
        let resources = resources.as_ref().unwrap_or(found);
        for removal in &self.remove {
            match removal {
                Removal::Labels => remove_all_labels(context, resources, &mut report).await,
                Removal::Snapshots => delete_own_snapshots(context, resources, &mut report).await,
                Removal::TeamStacks | Removal::ReplyUrls => {
                    let home = context.aws.home();
                    let stacks = if *removal == Removal::TeamStacks { &found.team_stacks } else { &found.reply_urls };
                    let stacks = stacks.iter().map(|stack| (home, stack.name.as_str()));
                    begin_deletions(context, stacks, &mut report).await;
                }
                Removal::Forwarders => {
                    let stacks = found.forwarders().map(|(region, stack)| (region, stack.name.as_str()));
                    begin_deletions(context, stacks, &mut report).await;
                }
            }
        }
        Ok(report)
    }
}

async fn delete_whole_stack(context: &CommandContext, name: &str) -> Result<(), CommandError> {
    let token = operation_token(context.now);
    delete_stack(&context.aws, context.aws.home(), name, &token).await?;
    match wait(context, name).await? {
        None => Ok(()),
        Some(gone) if gone.status == "DELETE_COMPLETE" => Ok(()),
        found => Err(explain_failure(context, name, found.as_ref(), &token).await),
    }
}

async fn remove_all_labels(context: &CommandContext, found: &Leftovers, report: &mut RemovalReport) {
    let calls = found.labelled().map(|(region, one)| async move {
        let what = format!("{} of {} in {region}", one.labels.join(", "), screen::plain(one.resource.as_str()));
        (what, remove_labels(&context.aws, region, &one.resource, &one.labels).await)
    });
    let answers: Vec<_> = stream::iter(calls).buffered(AT_ONCE).collect().await;
    for (what, answer) in answers {
        report.add(what, answer);
    }
}

async fn delete_own_snapshots(context: &CommandContext, found: &Leftovers, report: &mut RemovalReport) {
    let calls = found.own_snapshots().map(|(region, snapshot)| async move {
        (format!("{snapshot} in {region}"), delete_snapshot(&context.aws, region, snapshot).await)
    });
    let answers: Vec<_> = stream::iter(calls).buffered(AT_ONCE).collect().await;
    for (what, answer) in answers {
        report.add(what, answer);
    }
}

async fn begin_deletions<'a>(
    context: &CommandContext,
    stacks: impl Iterator<Item = (&'a Region, &'a str)>,
    report: &mut RemovalReport,
) {
    for (region, name) in stacks {
        let answer = delete_stack(&context.aws, region, name, &operation_token(clock())).await;
        report.add(format!("the stack {name} in {region} (its deletion has begun)"), answer);
    }
}
