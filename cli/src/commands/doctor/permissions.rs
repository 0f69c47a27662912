//! The permissions of each function's role and of people, by IAM's policy simulator; and the policy of the state bucket.

use std::collections::BTreeSet;

use cloud::operator::{Deployment, caller_arn, has_role, role_arn, simulate};
use model::mode::Mode;
use operator::doctor::permissions::{
    DeploymentArns, Principal, SPOT_ROLE, administrator_case, check_bucket_policy, check_writer, creates_spot_role,
    writer_cases,
};
use operator::doctor::runs::FUNCTIONS;
use operator::doctor::{DoctorFinding, permissions};

use super::section::{DoctorSection, unanswered, unread};
use crate::context::{CommandContext, DeployedResources};

/// The function by whose role the check finds out whether somebody is an administrator.
const REAPER: &str = "reap-instances";

/// Simulates every function of the stack, one after the other: IAM accepts few calls a second. `sender`: the stack's parameter `ReportSender`.
pub(super) async fn check(
    context: &CommandContext,
    deployed: &DeployedResources,
    stack: &Result<Deployment, DoctorFinding>,
    sender: Option<&String>,
    principals: &[String],
    mode: Option<Mode>,
) -> DoctorSection {
    let stack = match stack {
        Ok(stack) => stack,
        Err(unknown) => return DoctorSection::new(permissions::CHECK, vec![unknown.clone()], ""),
    };
    let Some(mut place) = place(stack) else {
        let unknown = DoctorFinding::unknown(
            &stack.topic_arn,
            "this is not the ARN of a topic",
            "check the resources of the stack",
        );
        return DoctorSection::new(permissions::CHECK, vec![unknown], "");
    };
    place.sender = sender.cloned();
    // The stack names its roles without their path, which is the same for all. Where IAM does not tell it, there is most likely none.
    if let Some(function) = stack.functions.values().next()
        && let Ok(arn) = Box::pin(role_arn(&context.aws, &function.role)).await
    {
        place.set_role_path(&arn, &function.role);
    }
    let (mut findings, mut asked) = (check_writers(context, deployed, stack, &place, principals).await, 0);
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
    let summary = format!("{asked} answers of IAM's policy simulator; it asks no policies of topics and keys");
    DoctorSection::new(permissions::CHECK, findings, summary)
}

/// Checks who else may write what only Curfew should: by the policy of the bucket, and by those of the caller and of these principals.
async fn check_writers(
    context: &CommandContext,
    deployed: &DeployedResources,
    stack: &Deployment,
    place: &DeploymentArns,
    principals: &[String],
) -> Vec<DoctorFinding> {
    let roles = stack.functions.iter().map(|(function, deployed)| (function.clone(), deployed.role.clone())).collect();
    let mut findings = match deployed.store.read_bucket_policy().await {
        Ok(policy) => check_bucket_policy(policy.as_deref(), place, &roles),
        Err(error) => vec![unread(&error)],
    };
    let Some(reaper) = roles.get(REAPER) else { return findings };
    let mut arns: BTreeSet<String> = principals.iter().cloned().collect();
    match caller_arn(&context.aws).await {
        Ok(caller) => drop(arns.insert(caller)),
        Err(error) => findings.push(unanswered(&error)),
    }
    // A role and a session of it are one principal.
    let mut sources = BTreeSet::new();
    for arn in arns {
        match Box::pin(find_source(context, &arn)).await {
            Ok(source) => sources.extend(source),
            Err(unknown) => findings.push(unknown),
        }
    }
    for source in sources {
        findings.extend(Box::pin(check_principal(context, place, reaper, &source)).await);
    }
    findings
}

/// The ARN whose policies IAM simulates for a principal; `None` for root, which may do everything.
///
/// # Errors
/// The finding that there is no such ARN, or that it is unknown.
async fn find_source(context: &CommandContext, arn: &str) -> Result<Option<String>, DoctorFinding> {
    match Principal::from_arn(arn) {
        Principal::Root => Ok(None),
        Principal::Simulated(arn) => Ok(Some(arn)),
        Principal::OfRole(name) => role_arn(&context.aws, &name).await.map(Some).map_err(|error| unanswered(&error)),
        Principal::Other => {
            let found = "what it may write is unknown: it is no user, and no session of a role";
            let remedy = "name the users and roles of people: curfew doctor --principal ARN";
            Err(DoctorFinding::unknown(arn, found, remedy))
        }
    }
}

async fn check_principal(
    context: &CommandContext,
    place: &DeploymentArns,
    reaper: &str,
    source: &str,
) -> Vec<DoctorFinding> {
    let is_administrator = administrator_case(place, reaper);
    let (answers, error) = simulate(&context.aws, source, &is_administrator).await;
    if let Some(error) = error {
        return vec![unanswered(&error)];
    }
    if answers.iter().any(|(_, allowed)| *allowed) {
        return Vec::new();
    }
    let cases = writer_cases(place);
    let (answers, error) = simulate(&context.aws, source, &cases).await;
    check_writer(source, answers).into_iter().chain(error.as_ref().map(unanswered)).collect()
}

/// The location of the stack, and its resources.
fn place(stack: &Deployment) -> Option<DeploymentArns> {
    let place = DeploymentArns::from_topic_arn(&stack.topic_arn, &stack.bucket)?;
    let DeploymentArns { partition, region, account, .. } = &place;
    let made = |logical_id: &str| stack.made.get(logical_id);
    // The physical id of a queue is its URL, and its last part the name (CloudFormation user guide, `AWS::SQS::Queue`).
    let queue = made("FailedEvents").and_then(|url| url.rsplit('/').next());
    let key_arn = made("TopicKey").map(|id| format!("arn:{partition}:kms:{region}:{account}:key/{id}"));
    let queue_arn = queue.map(|name| format!("arn:{partition}:sqs:{region}:{account}:{name}"));
    let account_topic_arn = made("AccountTopic").cloned();
    Some(DeploymentArns { account_topic_arn, key_arn, queue_arn, log_groups: stack.log_groups().collect(), ..place })
}
