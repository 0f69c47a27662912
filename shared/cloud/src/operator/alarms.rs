//! The alarms of a stack.

use aws_sdk_cloudwatch::types::{MetricAlarm, StateValue};
use operator::doctor::alarms::{Alarm, AlarmState, is_of_stack};

use crate::aws::Aws;
use crate::convert::timestamp;
use crate::error::{CallError, call_error};

const CALL: &str = "cloudwatch:DescribeAlarms";

/// Pages of 100 alarms (`CloudWatch` API reference, `DescribeAlarms`); a stack of Curfew has a few.
const PAGES_MAX: usize = 10;

/// Every alarm of this stack, in the home region; needs `cloudwatch:DescribeAlarms`.
///
/// # Errors
/// If they cannot be listed.
pub async fn alarms(aws: &Aws, stack: &str) -> Result<Vec<Alarm>, CallError> {
    let home = aws.home();
    let call = aws.cloudwatch(home).describe_alarms().alarm_name_prefix(format!("{stack}-")).max_records(100);
    let mut pages = call.into_paginator().send();
    let mut all = Vec::new();
    for _ in 0..PAGES_MAX {
        let Some(page) = pages.next().await else { break };
        let page = page.map_err(|error| call_error(CALL, home, &error))?;
        let of_stack = page.metric_alarms().iter().filter(|alarm| is_of_stack(name_of(alarm), stack));
        all.extend(of_stack.map(alarm));
    }
    Ok(all)
}

fn name_of(alarm: &MetricAlarm) -> &str {
    alarm.alarm_name().unwrap_or_default()
}

fn alarm(alarm: &MetricAlarm) -> Alarm {
    // StateUpdatedTimestamp also moves when an evaluation changes only the reason; the state itself is older then.
    let since = alarm.state_transitioned_timestamp().or(alarm.state_updated_timestamp());
    Alarm {
        name: name_of(alarm).to_owned(),
        description: alarm.alarm_description().map(str::to_owned),
        state: match alarm.state_value() {
            Some(StateValue::Ok) => AlarmState::Fine,
            Some(StateValue::Alarm) => AlarmState::Alarm,
            _ => AlarmState::WithoutData,
        },
        since: since.and_then(timestamp),
        actions_enabled: alarm.actions_enabled().unwrap_or(true),
    }
}
