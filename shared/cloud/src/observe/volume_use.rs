//! Use of volumes, from `CloudWatch`.

mod spans;

use std::collections::BTreeMap;
use std::time::Duration;

use aws_sdk_cloudwatch::Client;
use futures::{StreamExt, stream};
use jiff::Timestamp;
use model::id::{Region, ResourceId};
use model::observation::Observed;
use model::usage::{MetricSeries, Statistic};
use model::volume::{VolumeUse, VolumeUseQuery};
use plan::report::RunUsage;

use self::spans::{UseCall, calls};
use super::metric_data::{CALLS_AT_ONCE_MAX, GET_METRIC_DATA, PeriodSpan, answers, not_in_full, query};
use crate::aws::Aws;
use crate::error::{CallError, gaps};

/// Pages of one call: 500 volumes in use in each minute of 15 days.
const PAGES_MAX: usize = 120;

/// The use of these volumes of one region, by `CloudWatch`. A volume without a full answer within `timeout` is left out, with a gap.
pub async fn volume_uses(
    aws: &Aws,
    region: &Region,
    asks: &[VolumeUseQuery],
    now: Timestamp,
    timeout: Duration,
) -> Observed<BTreeMap<ResourceId, VolumeUse>> {
    let client = aws.cloudwatch(region);
    let (mut found, mut errors) = (BTreeMap::new(), Vec::new());
    let all = async {
        let asks = asks.iter().filter(|ask| ask.region == *region);
        let client = &client;
        let answers = calls(asks, now).into_iter().map(|call| async move {
            let asked = call.questions.len();
            aws.meter.add(RunUsage { metrics: u64::try_from(asked).unwrap_or(u64::MAX), ..RunUsage::default() });
            (asked, uses(client, region, call).await)
        });
        let mut answers = stream::iter(answers).buffer_unordered(CALLS_AT_ONCE_MAX);
        while let Some((asked, uses)) = answers.next().await {
            match uses {
                Ok(uses) => {
                    errors.extend(not_in_full(region, asked - uses.len(), asked));
                    found.extend(uses);
                }
                Err(error) => errors.push(error),
            }
        }
    };
    if tokio::time::timeout(timeout, all).await.is_err() {
        errors.push(CallError::timed_out(GET_METRIC_DATA, region, timeout));
    }
    Observed { items: found, gaps: gaps(errors) }
}

/// Sends one call. Returns the use of the volumes that were answered in full.
async fn uses(client: &Client, region: &Region, call: UseCall<'_>) -> Result<Vec<(ResourceId, VolumeUse)>, CallError> {
    let span = PeriodSpan { from: call.from(), until: call.until };
    let questions = call.questions.iter().enumerate();
    // Any statistic shows that the period has data, whatever its value: only an attached volume has some.
    let queries =
        questions.map(|(place, question)| query(place, &series(&question.ask.volume), Statistic::Sum, call.period));
    let mut newest: Vec<Option<Timestamp>> = vec![None; call.questions.len()];
    let complete = answers(client, region, span, queries.collect(), PAGES_MAX, |place, samples| {
        if let Some((question, newest)) = call.questions.get(place).zip(newest.get_mut(place)) {
            *newest = samples.map(|(at, _)| at).filter(|at| *at >= question.from).chain(*newest).max();
        }
    })
    .await?;
    let answered = call.questions.iter().zip(newest).enumerate().filter(|(place, _)| complete.contains(place));
    let said = answered.map(|(_, (question, newest))| {
        (question.ask.volume.clone(), newest.map_or(VolumeUse::None, VolumeUse::UsedAt))
    });
    Ok(said.collect())
}

/// EBS user guide, "Amazon CloudWatch metrics for Amazon EBS".
fn series(volume: &ResourceId) -> MetricSeries {
    MetricSeries {
        namespace: "AWS/EBS".to_owned(),
        metric: "VolumeIdleTime".to_owned(),
        dimensions: vec![("VolumeId".to_owned(), volume.as_str().to_owned())],
    }
}

#[cfg(test)]
mod tests;
