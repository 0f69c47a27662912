//! `curfew team create`.

use clap::Args;
use cloud::operator::{TeamStack, TeamStackRequest, create_team_stack, team_stack, update_team_stack};
use jobs::InputSource;
use model::id::TeamName;
use model::region::partition_of;
use model::team_role::team_stack_name;
use operator::input_access::ReadGrants;
use serde::Serialize;
use store::team_folder;

use super::{not_done, role_of, wait};
use crate::command_error::CommandError;
use crate::command_status::CommandStatus;
use crate::context::CommandContext;
use crate::screen;

const TEMPLATE: &str = include_str!("../../../../deploy/team-role.yaml");

/// Create the role of a team's machines
///
/// Deploys a CloudFormation stack with one role and its instance profile. The role reaches the team's part of the state bucket and no
/// other. Jobs of the team that wait for it continue by themselves.
#[derive(Debug, Args)]
#[command(after_help = "Run it again to update the role: options replace their earlier values.\n\n\
                  Permissions: cloudformation:CreateStack, UpdateStack and DescribeStacks; iam:CreateRole, PutRolePolicy, \
                  CreateInstanceProfile and what CloudFormation needs besides, as docs/command.md lists it.\n\n\
                  Example:\n  curfew team create vision\n  \
                  curfew team create vision --secret-arn arn:aws:ssm:us-east-1:123456789012:parameter/token\n  curfew team create vision --read s3://datasets/vision/")]
pub(crate) struct Create {
    /// Name of the team, as its folder of the inbox
    #[arg(value_name = "TEAM")]
    team: TeamName,
    /// Let its jobs read this secret or parameter of Systems Manager; may be repeated
    #[arg(long, value_name = "ARN")]
    secret_arn: Vec<String>,
    /// Let its jobs read this bucket, folder or object as inputs, besides what they may read already; may be repeated
    #[arg(long, value_name = "s3://BUCKET/PREFIX/", value_parser = read_source)]
    read: Vec<InputSource>,
    /// Forget what earlier --read has granted
    #[arg(long)]
    forget_reads: bool,
    /// Attach this IAM policy, by which its jobs reach their own data; may be repeated
    #[arg(long, value_name = "ARN")]
    policy_arn: Vec<String>,
}

/// ```json
/// {"schema": 1, "team": "vision", "outcome": "created", "role": "curfew-job-vision", "stack": "curfew-team-vision"}
/// ```
/// `outcome` is `created`, `updated` or `unchanged`. The instance profile has the name of the role.
#[derive(Serialize)]
struct TeamCreateOutput<'a> {
    schema: u32,
    team: &'a TeamName,
    outcome: &'static str,
    role: &'a str,
    stack: &'a str,
}

impl Create {
    pub(super) async fn run(self, context: &CommandContext) -> Result<CommandStatus, CommandError> {
        let (role, stack) = (role_of(&self.team)?, team_stack_name(&self.team));
        let bucket = context.needs_deployed().await?.bucket;
        let before = team_stack(&context.aws, &stack).await?;
        let is_new = before.is_none();
        let reads = self.reads(context, before.as_ref())?;
        if self.read.iter().any(|source| source.bucket == bucket) {
            let problem = format!("{bucket} is Curfew's own bucket, of which the role already reads the team's part");
            return Err(CommandError::with(problem, "leave out --read for it"));
        }
        let request = TeamStackRequest {
            stack: &stack,
            template: TEMPLATE,
            parameters: [
                ("Team", Some(team_folder(&self.team))),
                ("RoleName", Some(role.clone())),
                ("StateBucket", Some(bucket)),
                ("SecretArns", join_arns(&self.secret_arn)),
                ("PolicyArns", join_arns(&self.policy_arn)),
            ]
            .into_iter()
            .chain(reads)
            .collect(),
        };
        let is_changed = match before {
            None => create_team_stack(&context.aws, &request).await.map(|()| true)?,
            Some(found) if found.parameters.get("Team") != Some(&team_folder(&self.team)) => {
                let owner = found.parameters.get("Team").cloned().unwrap_or_else(|| "unknown".to_owned());
                let problem = format!("there is a stack {stack} already, and its team is {}", screen::plain(&owner));
                return Err(CommandError::with(problem, "find out what it is for, and delete it if it is unused"));
            }
            Some(found) if !is_done(&found.status) => return Err(not_done(&stack, Some(&found))),
            Some(_) => update_team_stack(&context.aws, &request).await?,
        };
        if is_changed {
            screen::progress(format!("Creating the stack {stack} …"));
            let found = wait(context, &stack).await?;
            if !found.as_ref().is_some_and(|found| is_done(&found.status)) {
                return Err(not_done(&stack, found.as_ref()));
            }
        }
        let outcome = match (is_new, is_changed) {
            (true, _) => "created",
            (false, true) => "updated",
            (false, false) => "unchanged",
        };
        let document =
            TeamCreateOutput { schema: screen::SCHEMA, team: &self.team, outcome, role: &role, stack: &stack };
        if context.global.json {
            screen::json(&document)?;
        } else {
            screen::print_line(format!("{}: role and instance profile {role} {outcome} (stack {stack})", self.team));
            screen::progress("Jobs that waited for it are launched within a few minutes:  curfew jobs");
        }
        Ok(CommandStatus::Success)
    }
}

impl Create {
    /// The parameters of what its jobs may read. A stack of an earlier version has none of them, so each has a value.
    fn reads(
        &self,
        context: &CommandContext,
        before: Option<&TeamStack>,
    ) -> Result<Vec<(&'static str, Option<String>)>, CommandError> {
        let before = before.filter(|_| !self.forget_reads);
        let value = |name| before.and_then(|found| found.parameters.get(name)).map_or("", String::as_str);
        let mut grants = ReadGrants::from_values(ReadGrants::PARAMETERS.map(value));
        for source in &self.read {
            grants.add(source, partition_of(context.aws.home())).map_err(CommandError::new)?;
        }
        let values = grants.to_values().map_err(CommandError::new)?;
        Ok(ReadGrants::PARAMETERS.into_iter().zip(values.map(Some)).collect())
    }
}

fn read_source(text: &str) -> Result<InputSource, String> {
    InputSource::read(text).map_err(|problem| problem.to_string())
}

/// A failed update was rolled back: the role is as before.
fn is_done(status: &str) -> bool {
    matches!(status, "CREATE_COMPLETE" | "UPDATE_COMPLETE")
}

/// An absent option is the template's default for a new stack, and the earlier value for an existing one.
fn join_arns(arns: &[String]) -> Option<String> {
    (!arns.is_empty()).then(|| arns.join(","))
}
