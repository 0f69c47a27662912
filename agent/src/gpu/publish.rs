//! The call of `CloudWatch` in the machine's own region, where `reap-instances` queries; the bucket may be in another.

use std::time::Duration;

use aws_config::imds;
use aws_sdk_cloudwatch::Client;
use aws_sdk_cloudwatch::primitives::DateTime;
use aws_sdk_cloudwatch::types::{Dimension, MetricDatum};
use jiff::Timestamp;
use jobs::JobId;
use jobs::telemetry::{GpuMetric, GpuSample, data};
use model::config::JOB_METRICS_NAMESPACE;

use crate::agent_error::AgentError;
use crate::world::now;
use crate::{aws, notice};

/// The timeout of one call with everything before it: the next one is due in a minute.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

const REGION: &str = "/latest/meta-data/placement/region";

/// This machine, once the instance metadata has answered.
#[derive(Debug, Default)]
pub(super) struct Publisher(Option<PublishingMachine>);

#[derive(Debug)]
struct PublishingMachine {
    instance: String,
    client: Client,
}

impl Publisher {
    pub(super) fn instance(&self) -> Option<&str> {
        self.0.as_ref().map(|machine| machine.instance.as_str())
    }

    /// Publishes the samples since the last call.
    ///
    /// # Errors
    /// Why `CloudWatch` did not accept them.
    pub(super) async fn publish(&mut self, job: &JobId, moments: &[Vec<GpuSample>]) -> Result<(), AgentError> {
        let call = tokio::time::timeout(CALL_TIMEOUT, self.put(job, moments)).await;
        call.unwrap_or_else(|_| Err(AgentError::new("it did not answer")))
    }

    async fn put(&mut self, job: &JobId, moments: &[Vec<GpuSample>]) -> Result<(), AgentError> {
        let machine = match &mut self.0 {
            Some(machine) => machine,
            unknown => unknown.insert(PublishingMachine::find().await?),
        };
        let (data, at) = (data(moments, &machine.instance, job), now());
        if data.is_empty() {
            return Ok(());
        }
        let data = data.into_iter().map(|datum| metric_datum(datum, at)).collect();
        let call = machine.client.put_metric_data().namespace(JOB_METRICS_NAMESPACE).set_metric_data(Some(data));
        call.send().await.map_err(|error| AgentError::new(aws::said(&error)))?;
        Ok(())
    }
}

impl PublishingMachine {
    async fn find() -> Result<Self, AgentError> {
        let metadata = notice::client();
        let instance = said(&metadata, notice::INSTANCE_ID).await?;
        let region = said(&metadata, REGION).await?;
        Ok(Self { instance, client: Client::new(&aws::config(region).await) })
    }
}

async fn said(metadata: &imds::Client, path: &'static str) -> Result<String, AgentError> {
    let answer = notice::get(metadata, path).await;
    let answer = answer.map_err(|why| AgentError::new(format!("the instance metadata does not answer: {why}")))?;
    answer.ok_or_else(|| AgentError::new(format!("the instance metadata has no {path}")))
}

/// Builds a datum with each value and its number of occurrences, so that the average, the extremes and any percentile of a minute are
/// exact.
fn metric_datum(datum: GpuMetric, at: Timestamp) -> MetricDatum {
    let (values, counts) = datum.values.into_iter().map(|(value, count)| (value, f64::from(count))).unzip();
    let dimension = |(name, value)| Dimension::builder().name(name).value(value).build();
    MetricDatum::builder()
        .metric_name(datum.series.metric)
        .set_dimensions(Some(datum.series.dimensions.into_iter().map(dimension).collect()))
        .timestamp(DateTime::from_secs(at.as_second()))
        .set_values(Some(values))
        .set_counts(Some(counts))
        .build()
}
