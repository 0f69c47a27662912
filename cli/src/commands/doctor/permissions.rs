//! The permissions of each function's role, by IAM's policy simulator.

use cloud::operator::{Deployment, has_role, simulate};
use model::mode::Mode;
use operator::doctor::permissions::{DeploymentArns, SPOT_ROLE, creates_spot_role};
use operator::doctor::runs::FUNCTIONS;
use operator::doctor::{DoctorFinding, permissions};

use super::section::{DoctorSection, unanswered};
use crate::context::CommandContext;

/// Simulates every function of the stack, one after the other: IAM accepts few calls a second.
pub(super) async fn check(
    context: &CommandContext,
    stack: &Result<Deployment, DoctorFinding>,
    mode: Option<Mode>,
) -> DoctorSection {
    let stack = match stack {
        Ok(stack) => stack,
        Err(unknown) => return DoctorSection::new(permissions::CHECK, vec![unknown.clone()], ""),
    };
    let Some(place) = place(stack) else {
        let unknown = DoctorFinding::unknown(
            &stack.topic_arn,
            "this is not the ARN of a topic",
            "check the resources of the stack",
        );
        return DoctorSection::new(permissions::CHECK, vec![unknown], "");
    };
    let (mut findings, mut asked) = (Vec::new(), 0);
    let lacking = FUNCTIONS.iter().filter(|scheduled| !stack.functions.contains_key(scheduled.function));
    findings.extend(lacking.map(|scheduled| {
        let found = format!("the stack {} has no such function", stack.stack);
        DoctorFinding::unknown(
            scheduled.function,
            found,
            "deploy the version of this `curfew`, or use that of the deployment",
        )
    }));
    for (function, deployed) in &stack.functions {
        let cases = permissions::cases(function, &place);
        if cases.is_empty() {
            let found = "this `curfew` does not know what it may do";
            findings.push(DoctorFinding::unknown(function, found, "use the `curfew` of the version that is deployed"));
            continue;
        }
        let (mut answers, error) = simulate(&context.aws, &place.role_arn(&deployed.role), &cases).await;
        asked += answers.len();
        if answers.len() < cases.len() && error.is_none() {
            let found = format!("IAM answered {} of {} questions", answers.len(), cases.len());
            findings.push(DoctorFinding::unknown(function, found, "ask again"));
        }
        findings.extend(error.as_ref().map(unanswered));
        // Only if the role may not be created it matters whether it exists.
        if mode == Some(Mode::Enforce) && answers.iter().any(|(case, allowed)| creates_spot_role(case) && !allowed) {
            match Box::pin(has_role(&context.aws, SPOT_ROLE)).await {
                Ok(false) => {}
                Ok(true) => answers.retain(|(case, _)| !creates_spot_role(case)),
                Err(error) => {
                    answers.retain(|(case, _)| !creates_spot_role(case));
                    findings.push(unanswered(&error));
                }
            }
        }
        findings.extend(permissions::check(function, &deployed.role, mode, answers));
    }
    if mode.is_none() && asked > 0 {
        let found = "the deployment's mode is unknown, so its permissions for enforce mode were not judged";
        findings.push(DoctorFinding::unknown("mode", found, "set CURFEW_MODE to the mode of the deployment"));
    }
    let summary = format!("{asked} answers of IAM's policy simulator; it asks no policies of buckets, topics and keys");
    DoctorSection::new(permissions::CHECK, findings, summary)
}

/// The location of the stack, and its resources.
fn place(stack: &Deployment) -> Option<DeploymentArns> {
    let place = DeploymentArns::of_topic(&stack.topic_arn, &stack.bucket)?;
    let DeploymentArns { partition, region, account, .. } = &place;
    let made = |logical_id: &str| stack.made.get(logical_id);
    // The physical id of a queue is its URL, and its last part the name (CloudFormation user guide, `AWS::SQS::Queue`).
    let queue = made("FailedEvents").and_then(|url| url.rsplit('/').next());
    let key_arn = made("TopicKey").map(|id| format!("arn:{partition}:kms:{region}:{account}:key/{id}"));
    let queue_arn = queue.map(|name| format!("arn:{partition}:sqs:{region}:{account}:{name}"));
    Some(DeploymentArns { key_arn, queue_arn, log_groups: stack.log_groups().collect(), ..place })
}
