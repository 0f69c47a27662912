//! The check that the versions of command, stack and bucket fit together.

use cloud::operator::read_stack;
use operator::doctor::version;

use super::super::version::{COMMAND_VERSION, check_bucket};
use super::section::{DoctorSection, unanswered};
use crate::context::{CommandContext, DeployedResources};

/// A deployment that is named by its bucket alone, and has no stack here, is judged by its documents.
pub(super) async fn check(context: &CommandContext, deployed: &DeployedResources) -> DoctorSection {
    let (_, mut findings) = check_bucket(context, &deployed.store).await;
    let mut summary = format!("command {COMMAND_VERSION}; there is no stack to compare it with");
    match read_stack(&context.aws, &context.global.stack).await {
        Ok(Some(stack)) => {
            let stated = stack.outputs.get(version::OUTPUT).map(String::as_str);
            findings.extend(version::check_stack(COMMAND_VERSION, stated));
            summary = format!("command {COMMAND_VERSION}, stack {}", stated.unwrap_or("unknown"));
        }
        Ok(None) => {}
        Err(error) => findings.push(unanswered(&error)),
    }
    DoctorSection::new(version::CHECK, findings, summary)
}
