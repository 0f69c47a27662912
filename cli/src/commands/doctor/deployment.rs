//! What is looked up of the deployment itself: its stack, its last runs, its alarms, its topic, its configuration.

use cloud::operator::Deployment;
use domain::config::Config;
use domain::doctor::runs::Scheduled;
use domain::doctor::{Finding, alarms, configuration, runs, subscriptions};
use domain::mode::Mode;
use domain::report::Recorded;
use store::{ConfigFault, StoreError};

use super::section::{Section, unanswered, unread};
use crate::context::{Context, Deployed};

/// Each function with what is known of its last run.
pub(super) type Last = (Scheduled, Result<Option<Recorded>, StoreError>);

/// The stack of this bucket; else why it is not known.
pub(super) async fn stack(context: &Context, deployed: &Deployed) -> Result<Deployment, Finding> {
    let name = &context.global.stack;
    let remedy = "name the deployment's --stack and --region";
    let unknown = |found: String| Finding::unknown(format!("stack {name}"), found, remedy);
    match cloud::operator::deployment(&context.aws, name).await {
        Ok(Some(stack)) if stack.bucket == deployed.bucket => Ok(stack),
        Ok(Some(stack)) => {
            Err(unknown(format!("its bucket is {}, and the one asked about is {}", stack.bucket, deployed.bucket)))
        }
        Ok(None) => Err(unknown(format!("there is no such stack in {}", context.aws.home()))),
        Err(error) => Err(unanswered(&error)),
    }
}

pub(super) async fn last_run(context: &Context, deployed: &Deployed, scheduled: Scheduled) -> Last {
    (scheduled, deployed.store.newest_plan(scheduled.function, context.now).await)
}

pub(super) fn runs(context: &Context, stack: &Result<Deployment, Finding>, last: &[Last]) -> Section {
    let (mut findings, mut summaries) = (Vec::new(), Vec::new());
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
    Section::of(runs::CHECK, findings, summaries.join("; "))
}

pub(super) async fn alarms(context: &Context, stack: &Result<Deployment, Finding>) -> Section {
    let stack = match stack {
        Ok(stack) => &stack.stack,
        Err(unknown) => return Section::of(alarms::CHECK, vec![unknown.clone()], ""),
    };
    match cloud::operator::alarms(&context.aws, stack).await {
        Ok(all) => {
            let summary = format!("{} alarms", all.len());
            Section::of(alarms::CHECK, alarms::check(stack, &all, context.now), summary)
        }
        Err(error) => Section::of(alarms::CHECK, vec![unanswered(&error)], ""),
    }
}

pub(super) async fn subscriptions(context: &Context, deployed: &Deployed) -> Section {
    let Some(topic_arn) = &deployed.topic_arn else {
        let found = "the topic of messages is not named, so nobody knows who listens";
        let unknown =
            Finding::unknown("topic", found, "name it by --topic-arn, or name the --stack instead of the bucket");
        return Section::of(subscriptions::CHECK, vec![unknown], "");
    };
    match cloud::operator::subscriptions(&context.aws, topic_arn).await {
        Ok(all) => {
            let summary = subscriptions::summary(&all);
            Section::of(subscriptions::CHECK, subscriptions::check(topic_arn, &all), summary)
        }
        Err(error) => Section::of(subscriptions::CHECK, vec![unanswered(&error)], ""),
    }
}

pub(super) fn configuration(config: &Result<Config, ConfigFault>, ceiling: Option<Mode>) -> Section {
    let findings = match config {
        Ok(config) => configuration::check(config, ceiling),
        Err(ConfigFault::Refused(error)) => vec![configuration::refused(error)],
        Err(ConfigFault::Unreachable(error)) => vec![unread(error)],
    };
    Section::of(configuration::CHECK, findings, "it is legal")
}
