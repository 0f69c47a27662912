//! `curfew doctor`: checks whether the deployment is alive and safe.
//!
//! The command makes every check, even if others fail, and a check that fails for a missing permission is a finding that names it. It writes nothing.

mod account;
mod deployment;
mod gang;
mod permissions;
pub(super) mod section;
mod show;
mod tags;

use clap::Args;
use cloud::operator::read_stack;
use futures::future::join_all;
use futures::join;
use model::config::Config;
use model::mode::Mode;
use operator::doctor::channels::mail_sender;
use operator::doctor::{CheckState, runs, verdict};
use serde::Serialize;

use crate::command_error::CommandError;
use crate::command_status::CommandStatus;
use crate::context::{CommandContext, own_ceiling};
use crate::screen;
use section::DoctorSection;
use store::Documents as _;

/// Check that the deployment is alive and safe
///
/// Checks the versions, the last runs, alarms, subscriptions, mail and links, the configuration, the telemetry of GPUs, the permissions of
/// each function (by IAM's policy simulator), what you and others may write that only Curfew should, the roles of teams' machines, GPU
/// quotas, and stray tags. Each finding comes with its remedy. Nothing is changed.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 no finding (there may be notes); 1 a finding, or something could not be checked; \
                        2 nothing could be looked at.\n\n\
                        Example:\n  curfew doctor\n  curfew doctor --principal arn:aws:iam::123456789012:role/ml-vision"
)]
pub(crate) struct Doctor {
    /// Check also what this user or role may write that only Curfew should; may be repeated
    #[arg(long = "principal", value_name = "ARN")]
    principals: Vec<String>,
    /// Check also, by dry runs, whether EC2 would launch two GPU machines together, as of a job on several machines
    #[arg(long)]
    gang: bool,
}

#[derive(Serialize)]
struct DoctorOutput<'a> {
    at: jiff::Timestamp,
    stack: Option<&'a str>,
    bucket: &'a str,
    checks: &'a [DoctorSection],
}

impl Doctor {
    pub(crate) async fn run(self, context: &CommandContext) -> Result<CommandStatus, CommandError> {
        let deployed = context.needs_deployed().await?;
        screen::progress(format!("Checking the deployment of {} …", deployed.bucket));
        let (stack, described, config, last) = join!(
            deployment::stack(context, &deployed),
            read_stack(&context.aws, &context.global.stack),
            deployed.store.read_config(),
            join_all(runs::FUNCTIONS.map(|scheduled| deployment::last_run(context, &deployed, scheduled))),
        );
        let ceiling = ceiling(&last)?;
        let sender = described.as_ref().ok().and_then(Option::as_ref).and_then(|stack| mail_sender(&stack.parameters));
        let judged = config.as_ref().map_or_else(|_| Config::default(), Config::clone);
        let (versions, alarms, subscriptions, channels, permissions, roles, account) = join!(
            Box::pin(deployment::versions(context, &deployed, &described)),
            deployment::alarms(context, &stack),
            deployment::subscriptions(context, &deployed, &stack, config.as_ref().ok()),
            deployment::channels(context, &stack, &described, &judged),
            Box::pin(permissions::check(context, &deployed, &stack, sender, &self.principals, ceiling)),
            deployment::roles(context, &deployed, &judged),
            account::check_regions(context, &deployed, &judged),
        );
        let mut sections = vec![
            versions,
            deployment::runs(context, &deployed, &stack, &last),
            alarms,
            subscriptions,
            channels,
            deployment::configuration(context, &config, ceiling, &account.left_out, account.withheld),
            permissions,
            roles,
        ];
        if self.gang {
            let quotas = account.sections.iter().find_map(|section| section.quotas.as_deref()).unwrap_or_default();
            sections.push(Box::pin(gang::check(context, &deployed, &judged, quotas)).await);
        }
        sections.extend(account.sections);
        let found = stack.as_ref().ok().map(|stack| stack.stack.as_str());
        if context.global.json {
            let (at, bucket) = (context.now, deployed.bucket.as_str());
            screen::json(&DoctorOutput { at, stack: found, bucket, checks: &sections })?;
        } else {
            show::print_sections(&sections);
        }
        let checks: Vec<_> = sections.into_iter().map(|section| section.checked).collect();
        Ok(match verdict(&checks) {
            CheckState::Ok => CommandStatus::Success,
            CheckState::Finding => CommandStatus::Findings,
            CheckState::Unknown => CommandStatus::Error,
        })
    }
}

/// `CURFEW_MODE` of the deployment, by its newest run, or else by the command's own environment.
fn ceiling(last: &[deployment::LastRun]) -> Result<Option<Mode>, CommandError> {
    let runs = last.iter().filter_map(|(_, run)| run.as_ref().ok()?.as_ref());
    let newest = runs.max_by_key(|run| run.at).map(|run| run.mode);
    let own = own_ceiling()?;
    Ok(newest.or(own))
}
