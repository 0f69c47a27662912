//! The traits of `ports`, for AWS.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use billing::budget::billed::{BilledDays, CostExplorerBill};
use billing::ledger::{RegionObservation, SageMakerObservation};
use billing::price::{PriceDocument, PriceQueries};
use jiff::Timestamp;
use model::config::{Config, SeriesNames};
use model::id::{Region, ResourceId};
use model::instance::Instance;
use model::observation::{Gap, Observation};
use model::sagemaker::{ActivityQuestion, ActivitySamples, ObservedSageMaker, SageMakerResource};
use model::usage::{MetricQuestion, MetricSeries, SeriesOwners};
use model::volume::{ObservedStorage, Snapshot, Volume, VolumeUse, VolumeUseQuery};
use notify::{Event, Message};
use plan::report::RunUsage;
use ports::{
    Answered, BudgetCloud, Cloud, Ec2Write, Hosts, InstanceCloud, SageMakerCloud, SageMakerWrite, VolumeCloud,
};

use crate::aws::Aws;
use crate::error::CallError;
use crate::observe::metric_data;
use crate::{act, describe, events, observe, sagemaker, sns};

impl Cloud for Aws {
    fn home(&self) -> &Region {
        self.home()
    }

    async fn regions(&self, config: &Config) -> Observation<Region> {
        observe::regions(self, config).await
    }

    async fn has_confirmed_subscription(&self, topic_arn: &str) -> Result<bool, CallError> {
        sns::has_confirmed_subscription(self, topic_arn).await
    }

    async fn publish(&self, topic_arn: &str, message: &Message) -> Result<(), CallError> {
        let _slot = self.message_pace.slot().await;
        sns::publish(self, topic_arn, message).await
    }

    async fn publish_to_chat(&self, topic_arn: &str, message: &Message) -> Result<(), CallError> {
        sns::publish(self, topic_arn, message).await
    }

    fn take_usage(&self) -> RunUsage {
        self.take_usage()
    }

    async fn put_events(&self, bus: &str, events: &[Event]) -> Result<(), CallError> {
        events::put(self, bus, events).await
    }

    async fn describe_instance(&self, region: &Region, instance: &ResourceId) -> Result<Instance, CallError> {
        act::instance(self, region, instance).await
    }

    async fn describe_volume(&self, region: &Region, volume: &ResourceId) -> Result<Volume, CallError> {
        describe::volume(&self.ec2(region), region, volume).await
    }

    async fn describe_snapshot(&self, region: &Region, snapshot: &ResourceId) -> Result<Snapshot, CallError> {
        describe::snapshot(&self.ec2(region), region, snapshot).await
    }

    async fn describe_snapshots_of(&self, region: &Region, volume: &ResourceId) -> Result<Vec<Snapshot>, CallError> {
        act::snapshots_of(self, region, volume).await
    }

    async fn write(&self, region: &Region, write: Ec2Write<'_>) -> Result<(), CallError> {
        act::write(self, region, write).await
    }

    async fn describe_sagemaker(&self, seen: &SageMakerResource) -> Result<SageMakerResource, CallError> {
        // Boxed: its future is larger than those of all other steps.
        Box::pin(sagemaker::describe(self, seen)).await
    }

    async fn write_sagemaker(&self, resource: &SageMakerResource, write: SageMakerWrite<'_>) -> Result<(), CallError> {
        Box::pin(sagemaker::write(self, resource, write)).await
    }
}

impl SageMakerCloud for Aws {
    async fn sagemaker(
        &self,
        regions: &[Region],
        timeout: Duration,
        wants_facts: impl Fn(&SageMakerResource) -> bool,
    ) -> ObservedSageMaker {
        sagemaker::observe(self, regions, timeout, wants_facts).await
    }

    async fn activity(
        &self,
        region: &Region,
        questions: &[ActivityQuestion],
        timeout: Duration,
    ) -> (ActivitySamples, Vec<Gap>) {
        sagemaker::activity(self, region, questions, timeout).await
    }
}

impl InstanceCloud for Aws {
    async fn instances(&self, regions: &[Region], timeout: Duration) -> Observation<Instance> {
        observe::instances(self, regions, timeout).await
    }

    async fn metric_data(
        &self,
        region: &Region,
        questions: impl Iterator<Item = MetricQuestion>,
        until: Timestamp,
    ) -> Answered {
        let questions = questions.inspect(|_| self.add_usage(RunUsage { metrics: 1, ..RunUsage::default() }));
        metric_data::ask(&self.cloudwatch(region), region, questions, until).await
    }

    async fn series(
        &self,
        region: &Region,
        names: &SeriesNames,
        of_late: bool,
        owners: &SeriesOwners<'_>,
    ) -> Result<BTreeSet<MetricSeries>, CallError> {
        metric_data::series(&self.cloudwatch(region), region, names, of_late, owners).await
    }

    async fn published(&self, region: &Region, dimension: &str, value: &str) -> Result<Vec<MetricSeries>, CallError> {
        metric_data::published(&self.cloudwatch(region), region, dimension, value).await
    }
}

impl VolumeCloud for Aws {
    async fn storage(
        &self,
        regions: &[Region],
        timeout: Duration,
        tags: impl Fn(&Volume, &Hosts) -> bool,
        source: impl Fn(&Volume) -> bool,
    ) -> ObservedStorage {
        observe::storage(self, regions, timeout, tags, source).await
    }

    async fn volume_uses(
        &self,
        region: &Region,
        asks: &[VolumeUseQuery],
        now: Timestamp,
        timeout: Duration,
    ) -> (BTreeMap<ResourceId, VolumeUse>, Vec<Gap>) {
        observe::volume_uses(self, region, asks, now, timeout).await
    }
}

impl BudgetCloud for Aws {
    async fn looks(&self, regions: &[Region], timeout: Duration) -> Observation<RegionObservation> {
        observe::beats(self, regions, timeout).await
    }

    async fn sagemaker_bills(
        &self,
        regions: &[Region],
        now: Timestamp,
        timeout: Duration,
    ) -> Observation<SageMakerObservation> {
        sagemaker::bills(self, regions, now, timeout).await
    }

    async fn prices(
        &self,
        known: &mut PriceDocument,
        wanted: &PriceQueries,
        now: Timestamp,
        timeout: Duration,
    ) -> Vec<Gap> {
        crate::prices(self, known, wanted, now, timeout).await
    }

    async fn billed(&self, days: BilledDays) -> Result<CostExplorerBill, CallError> {
        crate::cost_explorer::billed(self, days).await
    }
}
