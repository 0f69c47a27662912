//! `curfew team create`.

use clap::Args;
use cloud::operator::{Stack, StackRequest, create_stack, read_stack, update_stack};
use jobs::InputSource;
use model::id::TeamName;
use model::partition::Partition;
use model::team_folder::team_folder;
use model::team_role::team_stack_name;
use operator::input_access::ReadGrants;
use operator::team_role_rules::{BOUNDARY, PATH, RoleOptions, StackSettings, TeamRoleRules, read_tag};
use serde::Serialize;
use store::Documents as _;

use super::role_of;
use crate::command_error::CommandError;
use crate::command_status::CommandStatus;
use crate::context::CommandContext;
use crate::screen;
use crate::stack_wait::{not_done, wait};

const TEMPLATE: &str = include_str!("../../../../deploy/team-role.yaml");

/// Create the role of a team's machines
///
/// Deploys a CloudFormation stack with one role and its instance profile. The role reaches the team's part of the state bucket and no
/// other, and lets `curfew ssh` open shells unless the configuration says `ssh = false` under `[jobs]`. Jobs of the team that wait for it
/// continue by themselves. The role has the permissions boundary, the path and the tags of Curfew's own stack, unless options name others.
#[derive(Debug, Args)]
#[command(after_help = "Run it again to update the role: options replace their earlier values.\n\n\
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
    /// Bound the role's permissions by this IAM policy
    #[arg(long, value_name = "ARN")]
    permissions_boundary: Option<String>,
    /// Make the role under this path, followed by curfew/, where Curfew's own stack cannot be read
    #[arg(long, value_name = "/PATH/")]
    role_path: Option<String>,
    /// Tag the stack and the role; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = read_tag)]
    tag: Vec<(String, String)>,
}

/// ```json
/// {"schema": 1, "team": "vision", "outcome": "created", "role": "curfew-job-vision", "stack": "curfew-team-vision"}
/// ```
/// `outcome` is `created`, `updated` or `unchanged`. The instance profile has the name of the role.
#[derive(Serialize)]
struct TeamCreateOutput<'a> {
    team: &'a TeamName,
    outcome: &'static str,
    role: &'a str,
    stack: &'a str,
}

impl Create {
    pub(super) async fn run(self, context: &CommandContext) -> Result<CommandStatus, CommandError> {
        let (role, stack) = (role_of(&self.team)?, team_stack_name(&self.team));
        let deployed = context.needs_deployed().await?;
        let (bucket, config) = (deployed.bucket, deployed.store.read_config().await?);
        let replica = deployed.replica.map_or_else(String::new, |replica| replica.bucket);
        let before = read_stack(&context.aws, &stack).await?;
        self.check_owner(&stack, before.as_ref())?;
        let is_new = before.is_none();
        let reads = self.reads(context, before.as_ref())?;
        let rules = self.rules(context, before.as_ref()).await?;
        if self.read.iter().any(|source| source.bucket == bucket) {
            let problem = format!("{bucket} is Curfew's own bucket, of which the role already reads the team's part");
            return Err(CommandError::with(problem, "leave out --read for it"));
        }
        let request = StackRequest {
            stack: &stack,
            template: TEMPLATE,
            parameters: [
                ("Team", Some(team_folder(&self.team))),
                ("RoleName", Some(role.clone())),
                ("StateBucket", Some(bucket)),
                // A stack of an earlier version has none, so it has a value.
                ("ReplicaBucket", Some(replica)),
                ("Ssh", Some(if config.jobs.ssh { "yes" } else { "no" }.to_owned())),
                ("SecretArns", join_arns(&self.secret_arn)),
                ("PolicyArns", join_arns(&self.policy_arn)),
                (BOUNDARY, Some(rules.boundary)),
                (PATH, Some(rules.path)),
            ]
            .into_iter()
            .chain(reads)
            .collect(),
            tags: rules.tags,
        };
        let is_changed = match before {
            None => create_stack(&context.aws, &request).await.map(|()| true)?,
            Some(found) if !is_done(&found.status) => return Err(not_done(&stack, Some(&found))),
            Some(_) => update_stack(&context.aws, &request).await?,
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
        let document = TeamCreateOutput { team: &self.team, outcome, role: &role, stack: &stack };
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
    /// Refuses the stack of another team, or of somebody else.
    fn check_owner(&self, stack: &str, before: Option<&Stack>) -> Result<(), CommandError> {
        let Some(found) = before.filter(|found| found.parameters.get("Team") != Some(&team_folder(&self.team))) else {
            return Ok(());
        };
        let owner = found.parameters.get("Team").map_or("unknown", String::as_str);
        let problem = format!("there is a stack {stack} already, and its team is {}", screen::plain(owner));
        Err(CommandError::with(problem, "find out what it is for, and delete it if it is unused"))
    }

    /// Resolves the rules of the role. Without a stack of Curfew by the name of --stack, as where --bucket names the deployment, the
    /// options alone count.
    async fn rules(&self, context: &CommandContext, before: Option<&Stack>) -> Result<TeamRoleRules, CommandError> {
        let own = read_stack(&context.aws, &context.global.stack).await?;
        let options = RoleOptions {
            boundary: self.permissions_boundary.clone(),
            path: self.role_path.clone(),
            tags: self.tag.clone(),
        };
        TeamRoleRules::resolve(&options, before.map(settings), own.as_ref().map(settings)).map_err(CommandError::new)
    }

    /// The parameters of what its jobs may read. A stack of an earlier version has none of them, so each has a value.
    fn reads(
        &self,
        context: &CommandContext,
        before: Option<&Stack>,
    ) -> Result<Vec<(&'static str, Option<String>)>, CommandError> {
        let before = before.filter(|_| !self.forget_reads);
        let value = |name| before.and_then(|found| found.parameters.get(name)).map_or("", String::as_str);
        let mut grants = ReadGrants::from_values(ReadGrants::PARAMETERS.map(value));
        let partition = Partition::supported(context.aws.home().as_str()).map_err(CommandError::new)?;
        for source in &self.read {
            grants.add(source, partition.name).map_err(CommandError::new)?;
        }
        let values = grants.to_values().map_err(CommandError::new)?;
        Ok(ReadGrants::PARAMETERS.into_iter().zip(values.map(Some)).collect())
    }
}

fn read_source(text: &str) -> Result<InputSource, String> {
    InputSource::read(text).map_err(|problem| problem.to_string())
}

fn settings(stack: &Stack) -> StackSettings<'_> {
    StackSettings { parameters: &stack.parameters, tags: &stack.tags }
}

/// A failed update was rolled back: the role is as before.
fn is_done(status: &str) -> bool {
    matches!(status, "CREATE_COMPLETE" | "UPDATE_COMPLETE")
}

/// An absent option is the template's default for a new stack, and the earlier value for an existing one.
fn join_arns(arns: &[String]) -> Option<String> {
    (!arns.is_empty()).then(|| arns.join(","))
}
