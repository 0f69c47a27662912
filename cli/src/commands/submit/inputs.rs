//! The check that the machines of a job may read its inputs.

use cloud::operator::{profile_role_arn, simulate};
use jobs::{InputSource, JobSpec};
use model::id::TeamName;
use model::partition::Partition;
use model::team_role::{grant_read_command, team_role};
use operator::input_access::{InputAccess, cases, judge};
use store::InputBucket;

use super::role::JobRole;
use crate::command_error::{CommandError, describe_call_error};
use crate::context::CommandContext;
use crate::screen;

/// The logical id of the instance profile in Curfew's own stack.
const SHARED_PROFILE: &str = "JobProfile";

/// The inputs that the role may certainly not read. What is unknown is only a warning.
pub(super) async fn find_denied(
    context: &CommandContext,
    team: &TeamName,
    role: &JobRole,
    spec: &JobSpec,
) -> Vec<String> {
    if spec.work.inputs.is_empty() || matches!(role, JobRole::Missing(_)) {
        return Vec::new();
    }
    let arn = match role_arn(context, role).await {
        Ok(arn) => arn,
        Err(error) => {
            screen::warn(format!("whether its machines may read its inputs is unknown: {}", error.problem));
            return Vec::new();
        }
    };
    let mut denied = Vec::new();
    for input in &spec.work.inputs {
        let source = &input.from;
        let grant = describe_grant(team, role, source);
        match find_access(context, &arn, source).await {
            Ok(InputAccess::Allowed) => {}
            Ok(InputAccess::Denied) => denied.push(format!("the role of its machines may not read {source}; {grant}")),
            Ok(InputAccess::DependsOnBucket) => screen::warn(format!(
                "the role of its machines may not read {source}, unless the policy of that bucket allows it; {grant}"
            )),
            Ok(InputAccess::Unknown) => {
                screen::warn(format!("whether its machines may read {source} is unknown"));
            }
            Err(error) => {
                screen::warn(format!("whether its machines may read {source} is unknown: {}", error.problem));
            }
        }
    }
    denied
}

/// Describes how to let the role read a source.
fn describe_grant(team: &TeamName, role: &JobRole, source: &InputSource) -> String {
    let (grant, own) = (grant_read_command(team, &source.to_string()), team_role(team).ok());
    match (role, own) {
        (JobRole::Profile(profile), Some(own)) if *profile == own => format!("let it: {grant}"),
        (JobRole::Shared, Some(own)) => format!(
            "all teams have this role. Make one of its own: {grant}; allow it by instance_profiles = [{own:?}] under [teams.{team}] of the \
             configuration, and name it by instance_profile under [machine]"
        ),
        _ => "give the role of its instance profile a policy that allows s3:GetObject and s3:ListBucket".to_owned(),
    }
}

async fn role_arn(context: &CommandContext, role: &JobRole) -> Result<String, CommandError> {
    let profile = match role {
        JobRole::Profile(profile) => profile.clone(),
        JobRole::Shared => {
            let stack = context.stack().await?;
            let profile = stack.and_then(|stack| stack.made.get(SHARED_PROFILE).cloned());
            profile.ok_or_else(|| CommandError::new("there is no stack of Curfew that says which role they get"))?
        }
        JobRole::Missing(_) | JobRole::Unknown => return Err(CommandError::new("their role is unknown")),
    };
    let arn = profile_role_arn(&context.aws, &profile).await?;
    arn.ok_or_else(|| CommandError::new(format!("the instance profile {profile} has no role")))
}

async fn find_access(
    context: &CommandContext,
    role_arn: &str,
    source: &InputSource,
) -> Result<InputAccess, CommandError> {
    let partition = Partition::supported(context.aws.home().as_str()).map_err(CommandError::new)?;
    let cases = cases(source, partition.name);
    let (answers, error) = Box::pin(simulate(&context.aws, role_arn, &cases)).await;
    if let Some(error) = error {
        return Err(CommandError::new(describe_call_error(&error)));
    }
    // Only where it decides anything.
    if judge(source, &answers, Some(false)) != InputAccess::Denied {
        return Ok(judge(source, &answers, None));
    }
    let has_policy = match Box::pin(InputBucket::open(context.aws.sdk_config(), &source.bucket)).await {
        Ok(bucket) => bucket.has_policy().await.ok(),
        Err(_) => None,
    };
    Ok(judge(source, &answers, has_policy))
}
