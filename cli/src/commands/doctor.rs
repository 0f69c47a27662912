//! `curfew doctor`: is the deployment alive and safe.
//!
//! Every check is made, whatever becomes of the others, and what could not be looked at is a finding that names the permission
//! that lacks: `cloudformation:DescribeStackResources`; `s3:ListBucket` and `s3:GetObject` on the state bucket;
//! `cloudwatch:DescribeAlarms` and `cloudwatch:ListMetrics`; `sns:ListSubscriptionsByTopic`; `iam:SimulatePrincipalPolicy`;
//! `servicequotas:ListServiceQuotas`; `ec2:DescribeRegions`, `ec2:DescribeInstances`, `ec2:DescribeInstanceTypes`,
//! `ec2:DescribeSpotInstanceRequests`, `ec2:DescribeVolumes` and `ec2:DescribeTags`. Nothing is ever written.

mod account;
mod deployment;
mod permissions;
mod section;
mod show;
mod tags;

use clap::Args;
use domain::config::Config;
use domain::doctor::{State, runs, verdict};
use domain::mode::Mode;
use futures::future::join_all;
use futures::join;
use serde::Serialize;

use crate::context::{Context, own_ceiling};
use crate::ending::Ending;
use crate::failure::Failure;
use crate::screen;

use section::Section;

/// Say whether the deployment is alive and safe
///
/// Looks at the last runs, alarms, subscriptions, the configuration, the telemetry of GPUs, the permissions of each function
/// (by IAM's policy simulator), GPU quotas, and tags that nothing owns any more. Each finding comes with its remedy. Nothing
/// is changed.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 all is well (there may be notes); 1 something was found, or could not be looked at; \
                        2 nothing could be looked at.\n\n\
                        Permissions: it reads CloudFormation, the state bucket, CloudWatch, SNS, EC2, Service Quotas and \
                        iam:SimulatePrincipalPolicy. What lacks is named, and the rest is checked all the same.\n\n\
                        Example:\n  curfew doctor"
)]
pub(crate) struct Doctor {}

/// The result for scripts.
#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    at: jiff::Timestamp,
    stack: Option<&'a str>,
    bucket: &'a str,
    checks: &'a [Section],
}

impl Doctor {
    pub(crate) async fn run(self, context: &Context) -> Result<Ending, Failure> {
        let deployed = context.needs_deployed().await?;
        screen::progress(format!("Looking at the deployment of {} …", deployed.bucket));
        let (stack, config, last) = join!(
            deployment::stack(context, &deployed),
            deployed.store.read_config(),
            join_all(runs::FUNCTIONS.map(|scheduled| deployment::last_run(context, &deployed, scheduled))),
        );
        let ceiling = ceiling(&last)?;
        let judged = config.as_ref().map_or_else(|_| Config::default(), Config::clone);
        let (alarms, subscriptions, permissions, account) = join!(
            deployment::alarms(context, &stack),
            deployment::subscriptions(context, &deployed),
            permissions::check(context, &stack, ceiling),
            account::look(context, &deployed, &judged, ceiling),
        );
        let mut sections = vec![
            deployment::runs(context, &stack, &last),
            alarms,
            subscriptions,
            deployment::configuration(&config, ceiling),
            permissions,
        ];
        sections.extend(account);
        let found = stack.as_ref().ok().map(|stack| stack.stack.as_str());
        if context.global.json {
            let (at, bucket) = (context.now, deployed.bucket.as_str());
            screen::json(&Document { schema: screen::SCHEMA, at, stack: found, bucket, checks: &sections })?;
        } else {
            show::all(&sections);
        }
        let checks: Vec<_> = sections.into_iter().map(|section| section.checked).collect();
        Ok(match verdict(&checks) {
            State::Ok => Ending::Fine,
            State::Finding => Ending::Found,
            State::Unknown => Ending::Trouble,
        })
    }
}

/// `CURFEW_MODE` of the deployment, as its newest run says; where none does, as the command's own environment says.
fn ceiling(last: &[deployment::Last]) -> Result<Option<Mode>, Failure> {
    let runs = last.iter().filter_map(|(_, run)| run.as_ref().ok()?.as_ref());
    let newest = runs.max_by_key(|run| run.at).map(|run| run.mode);
    let own = own_ceiling()?;
    Ok(newest.or(own))
}
