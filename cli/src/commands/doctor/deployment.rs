//! Checks of the deployment itself: its stack, its last runs, its alarms, its topic, its configuration.

use std::collections::BTreeSet;

use cloud::CallError;
use cloud::operator::{Deployment, Stack, stacks_named};
use model::channels::MessageTopics;
use model::config::Config;
use model::instance::Instance;
use model::mode::Mode;
use operator::doctor::roles::team_roles;
use operator::doctor::runs::ScheduledFunction;
use operator::doctor::{
    DoctorFinding, alarms, channels, configuration, partition, roles, runs, subscriptions, version,
};
use plan::report::RunRecord;
use store::{ConfigLoadError, ReconcilerDocuments as _, StoreError};

use super::super::version::{COMMAND_VERSION, check_bucket};
use super::section::{DoctorSection, unanswered, unread};
use crate::context::{CommandContext, DeployedResources};

/// The stack with its parameters and outputs; `None` if there is none.
pub(super) type DescribedStack = Result<Option<Stack>, CallError>;
/// Each function with its last run.
pub(super) type LastRun = (ScheduledFunction, Result<Option<RunRecord>, StoreError>);

/// The stack of this bucket, or why it is unknown.
pub(super) async fn stack(context: &CommandContext, deployed: &DeployedResources) -> Result<Deployment, DoctorFinding> {
    let name = &context.global.stack;
    let remedy = "name the deployment's --stack and --region";
    let unknown = |found: String| DoctorFinding::unknown(format!("stack {name}"), found, remedy);
    match cloud::operator::deployment(&context.aws, name).await {
        Ok(Some(stack)) if stack.bucket == deployed.bucket => Ok(stack),
        Ok(Some(stack)) => {
            Err(unknown(format!("its bucket is {}, and the one asked about is {}", stack.bucket, deployed.bucket)))
        }
        Ok(None) => Err(unknown(format!("there is no such stack in {}", context.aws.home()))),
        Err(error) => Err(unanswered(&error)),
    }
}

pub(super) async fn last_run(
    context: &CommandContext,
    deployed: &DeployedResources,
    scheduled: ScheduledFunction,
) -> LastRun {
    (scheduled, deployed.store.newest_plan(scheduled.function, context.now).await)
}

pub(super) fn runs(
    context: &CommandContext,
    resources: &DeployedResources,
    stack: &Result<Deployment, DoctorFinding>,
    last: &[LastRun],
) -> DoctorSection {
    let (mut findings, mut summaries) = (Vec::new(), Vec::new());
    findings.extend(resources.standby.as_ref().map(|reason| {
        let remedy = "see docs/region.md, \"Which stack acts\"";
        DoctorFinding::problem(format!("s3://{}/{}", resources.bucket, model::home::HOME_KEY), reason, remedy)
    }));
    for (scheduled, last) in last {
        let deployed = stack.as_ref().ok().and_then(|stack| stack.functions.get(scheduled.function));
        let deployed = deployed.map(|function| function.name.as_str());
        match last {
            Ok(last) => {
                findings.extend(runs::check(*scheduled, deployed, last.as_ref(), context.now));
                summaries.push(runs::summary(*scheduled, last.as_ref(), context.now));
            }
            Err(error) => findings.push(unread(error)),
        }
    }
    DoctorSection::new(runs::CHECK, findings, summaries.join("; "))
}

pub(super) async fn alarms(context: &CommandContext, stack: &Result<Deployment, DoctorFinding>) -> DoctorSection {
    let stack = match stack {
        Ok(stack) => &stack.stack,
        Err(unknown) => return DoctorSection::new(alarms::CHECK, vec![unknown.clone()], ""),
    };
    match cloud::operator::alarms(&context.aws, stack).await {
        Ok(all) => {
            let summary = format!("{} alarms", all.len());
            DoctorSection::new(alarms::CHECK, alarms::check(stack, &all, context.now), summary)
        }
        Err(error) => DoctorSection::new(alarms::CHECK, vec![unanswered(&error)], ""),
    }
}

pub(super) async fn subscriptions(
    context: &CommandContext,
    deployed: &DeployedResources,
    stack: &Result<Deployment, DoctorFinding>,
    config: Option<&Config>,
) -> DoctorSection {
    let Some(topics) = &deployed.topics else {
        let found = "the topic is not named, so its subscriptions are unknown";
        let unknown =
            DoctorFinding::unknown("topic", found, "name it by --topic-arn, or name the --stack instead of the bucket");
        return DoctorSection::new(subscriptions::CHECK, vec![unknown], "");
    };
    match cloud::sns::subscriptions(&context.aws, topics).await {
        Ok(all) => {
            let summary = subscriptions::summary(&all);
            let mut findings = subscriptions::check(&topics.teams, &all, config);
            findings.extend(chat_subscriptions(context, deployed).await);
            findings.extend(alarm_subscriptions(context, stack).await);
            DoctorSection::new(subscriptions::CHECK, findings, summary)
        }
        Err(error) => DoctorSection::new(subscriptions::CHECK, vec![unanswered(&error)], ""),
    }
}

async fn alarm_subscriptions(
    context: &CommandContext,
    stack: &Result<Deployment, DoctorFinding>,
) -> Option<DoctorFinding> {
    let topic_arn = stack.as_ref().ok()?.made.get("AlarmTopic")?;
    match cloud::sns::subscriptions(&context.aws, &MessageTopics::teams(topic_arn.clone())).await {
        Ok(all) => subscriptions::check_alarms(topic_arn, &all),
        Err(error) => Some(unanswered(&error)),
    }
}

async fn chat_subscriptions(context: &CommandContext, deployed: &DeployedResources) -> Option<DoctorFinding> {
    let topic_arn = deployed.chat_topic_arn.as_ref()?;
    match cloud::sns::subscriptions(&context.aws, &MessageTopics::teams(topic_arn.clone())).await {
        Ok(all) => subscriptions::check_chat(topic_arn, &all),
        Err(error) => Some(unanswered(&error)),
    }
}

/// Links are only looked for if the stack says that there are some.
pub(super) async fn channels(
    context: &CommandContext,
    stack: &Result<Deployment, DoctorFinding>,
    described: &DescribedStack,
    config: &Config,
) -> DoctorSection {
    let parameters = match (stack, described) {
        (Ok(_), Ok(Some(described))) => &described.parameters,
        (Ok(stack), Ok(None)) => {
            let unknown = DoctorFinding::unknown(&stack.stack, "the stack is gone", "run the check again");
            return DoctorSection::new(channels::CHECK, vec![unknown], "");
        }
        (Ok(_), Err(error)) => return DoctorSection::new(channels::CHECK, vec![unanswered(error)], ""),
        (Err(unknown), _) => return DoctorSection::new(channels::CHECK, vec![unknown.clone()], ""),
    };
    let mut findings: Vec<DoctorFinding> = channels::check_mail(config, parameters).into_iter().collect();
    if let Some(url) = channels::reply_url(parameters) {
        match stacks_named(&context.aws, context.aws.home(), channels::REPLY_URL_STACKS).await {
            Ok(stacks) => {
                let addresses = stacks.iter().filter_map(|stack| stack.outputs.get("ReplyUrl").map(String::as_str));
                findings.extend(channels::check_links(url, &addresses.collect::<Vec<_>>()));
            }
            Err(error) => findings.push(unanswered(&error)),
        }
    }
    DoctorSection::new(channels::CHECK, findings, channels::summary(parameters))
}

/// The configuration, and the partition in which it holds: that one needs no call, so it is no check of its own, which would always be answered.
pub(super) fn configuration(
    context: &CommandContext,
    config: &Result<Config, ConfigLoadError>,
    ceiling: Option<Mode>,
    left_out: &[Instance],
    withheld: Option<DoctorFinding>,
) -> DoctorSection {
    let mut findings = match config {
        Ok(config) => configuration::check(config, ceiling),
        Err(ConfigLoadError::Refused(error)) => vec![configuration::refused(error)],
        Err(ConfigLoadError::Unreachable(error)) => vec![unread(error)],
    };
    findings.extend(configuration::check_regions(left_out));
    findings.extend(withheld.filter(|_| config.is_ok()));
    findings.extend(partition::check(context.aws.home()));
    DoctorSection::new(configuration::CHECK, findings, "it is legal")
}

/// A deployment that is named by its bucket alone, and has no stack here, is judged by its documents.
pub(super) async fn versions(
    context: &CommandContext,
    deployed: &DeployedResources,
    described: &DescribedStack,
) -> DoctorSection {
    let (_, mut findings) = check_bucket(context, &deployed.store).await;
    let mut summary = format!("command {COMMAND_VERSION}; there is no stack to compare it with");
    match described {
        Ok(Some(stack)) => {
            let stated = stack.outputs.get(version::OUTPUT).map(String::as_str);
            findings.extend(version::check_stack(COMMAND_VERSION, stated));
            summary = format!("command {COMMAND_VERSION}, stack {}", stated.unwrap_or("unknown"));
        }
        Ok(None) => {}
        Err(error) => findings.push(unanswered(error)),
    }
    DoctorSection::new(version::CHECK, findings, summary)
}

/// IAM is only queried if a team needs its own role.
pub(super) async fn roles(context: &CommandContext, deployed: &DeployedResources, config: &Config) -> DoctorSection {
    let with_jobs = match deployed.store.teams_with_jobs().await {
        Ok(teams) => teams,
        Err(error) => return DoctorSection::new(roles::CHECK, vec![unread(&error)], ""),
    };
    let without_iam = team_roles(config, &with_jobs, &BTreeSet::new());
    if without_iam.iter().all(|role| !role.is_needed) {
        return DoctorSection::new(roles::CHECK, Vec::new(), roles::summary(&without_iam));
    }
    match cloud::operator::machine_profiles(&context.aws).await {
        Ok(profiles) => {
            let found = team_roles(config, &with_jobs, &profiles);
            DoctorSection::new(roles::CHECK, roles::check(&found), roles::summary(&found))
        }
        Err(error) => DoctorSection::new(roles::CHECK, vec![unanswered(&error)], ""),
    }
}
