//! Waits for CloudFormation, and says what it does.

use std::time::Duration;

use cloud::operator::{Stack, first_failure, read_stack};
use jiff::Timestamp;
use model::foreign_text::shell_word;
use operator::stack_state::is_in_progress;

use crate::command_error::CommandError;
use crate::context::CommandContext;
use crate::screen;

/// CloudFormation creates a role within a minute; an instance profile takes two, and the whole stack some minutes.
const TIMEOUT: Duration = Duration::from_mins(15);
const POLL_EVERY: Duration = Duration::from_secs(3);

/// The token of one operation on a stack, by which CloudFormation knows a repeated request, and its events are found.
pub(crate) fn operation_token(now: Timestamp) -> String {
    format!("curfew-{}", now.as_nanosecond())
}

/// Waits until CloudFormation is done with a stack. Returns its state, or that it is gone.
pub(crate) async fn wait(context: &CommandContext, stack: &str) -> Result<Option<Stack>, CommandError> {
    let poll = async {
        let mut shown = String::new();
        loop {
            let found = read_stack(&context.aws, stack).await?;
            let Some(status) = found.as_ref().map(|found| &found.status).filter(|status| is_in_progress(status)) else {
                return Ok(found);
            };
            if shown != *status {
                screen::progress(format!("The stack {stack} is {status} …"));
                shown.clone_from(status);
            }
            tokio::time::sleep(POLL_EVERY).await;
        }
    };
    let late = |_| {
        CommandError::with(
            format!("CloudFormation is still at work on the stack {stack}"),
            format!("check it: {}", events_command(stack)),
        )
    };
    tokio::time::timeout(TIMEOUT, poll).await.map_err(late)?
}

/// The error of a stack in an unexpected state.
pub(crate) fn not_done(stack: &str, found: Option<&Stack>) -> CommandError {
    let status = found.map_or("gone", |found| found.status.as_str());
    let reason =
        found.and_then(|found| found.reason.as_deref()).map(|reason| format!(": {reason}")).unwrap_or_default();
    CommandError::with(
        format!("the stack {stack} is {status}{}", screen::plain(&reason)),
        format!("its events have the reason: {}", events_command(stack)),
    )
}

/// Describes the failure with the first resource that failed in the operation of that token.
pub(crate) async fn explain_failure(
    context: &CommandContext,
    stack: &str,
    found: Option<&Stack>,
    token: &str,
) -> CommandError {
    let error = not_done(stack, found);
    if found.is_none() {
        return error;
    }
    match first_failure(&context.aws, stack, token).await {
        Ok(Some(first)) => {
            let reason = screen::plain(&first.reason);
            let problem =
                format!("{}; {} ({}) is {}: {reason}", error.problem, first.logical_id, first.kind, first.status);
            CommandError { problem, ..error }
        }
        Ok(None) => error,
        Err(unread) => {
            CommandError { problem: format!("{}; its events are unknown: {unread}", error.problem), ..error }
        }
    }
}

fn events_command(stack: &str) -> String {
    format!("aws cloudformation describe-stack-events --stack-name {}", shell_word(stack))
}
