//! AWS calls of a run, except those to the state bucket.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use billing::budget::billed::{BilledDays, CostExplorerBill};
use billing::ledger::{RegionObservation, SageMakerObservation};
use billing::price::{PriceDocument, PriceQueries};
use jiff::Timestamp;
use model::capacity_reservation::CapacityReservation;
use model::channels::MessageTopics;
use model::config::{Config, SeriesNames};
use model::file_system::{FileSystemQuestion, FileSystemSignal, LustreFileSystem};
use model::id::{Region, ResourceId};
use model::instance::{Instance, Tags};
use model::observation::{Gap, Observation, Observed};
use model::sagemaker::{ActivityQuestion, ActivitySamples, ObservedSageMaker, SageMakerResource};
use model::subscriptions::TopicSubscriptions;
use model::usage::{MetricQuestion, MetricSamples, MetricSeries, SeriesOwners};
use model::volume::{ObservedStorage, Snapshot, Volume, VolumeHost, VolumeUse, VolumeUseQuery};
use notify::{Event, Message};
use plan::report::RunUsage;

use crate::{CallError, CallErrorKind};

/// The instances of a region by their id.
pub type Hosts = BTreeMap<ResourceId, VolumeHost>;

/// One call that changes a resource of EC2.
#[derive(Debug, Clone, PartialEq)]
pub enum Ec2Write<'a> {
    /// `CreateTags`.
    CreateTags {
        /// Resources to tag. The call tags all of them, or none.
        resources: &'a [ResourceId],
        /// The tags.
        tags: &'a [(&'a str, String)],
    },
    /// `DeleteTags`, whatever their values.
    DeleteTags {
        /// Resource that loses the tags.
        resource: &'a ResourceId,
        /// The keys, of which there is one at least: without any, all tags would go (EC2 API reference, "`DeleteTags`").
        keys: &'a [&'a str],
    },
    /// `StopInstances` of one.
    StopInstance(&'a ResourceId),
    /// `TerminateInstances` of one.
    TerminateInstance(&'a ResourceId),
    /// `StartInstances` of one.
    StartInstance(&'a ResourceId),
    /// `CreateSnapshot`, asked for once: it has no token by which a repeat is known (EC2 API reference, "Ensuring idempotency").
    CreateSnapshot {
        /// Volume to copy.
        volume: &'a ResourceId,
        /// The snapshot's description.
        description: &'a str,
        /// The snapshot's tags.
        tags: &'a Tags,
    },
    /// `DeleteVolume`.
    DeleteVolume(&'a ResourceId),
    /// `DeleteSnapshot`.
    DeleteSnapshot(&'a ResourceId),
}

/// One call that changes a resource of `SageMaker`.
#[derive(Debug, Clone, PartialEq)]
pub enum SageMakerWrite<'a> {
    /// `AddTags`.
    AddTags(&'a [(&'a str, String)]),
    /// `DeleteTags`, whatever their values: one key at least.
    DeleteTags(&'a [&'a str]),
    /// `StopNotebookInstance`, or the call that stops a job of its kind.
    Stop,
    /// `StartNotebookInstance`.
    Start,
    /// `DeleteApp` or `DeleteEndpoint`.
    Delete,
}

/// AWS calls of every run.
pub trait Cloud {
    /// The region where Curfew is deployed.
    fn home(&self) -> &Region;

    /// The configured regions; without any, all that the account has enabled.
    async fn regions(&self, config: &Config) -> Observation<Region>;

    /// The subscriptions of the topics with their filter policies, as far as the readers of a message depend on them.
    async fn subscriptions(&self, topics: &MessageTopics) -> Result<TopicSubscriptions, CallError>;

    /// Sends one message to a topic that people subscribe to, by e-mail too, at a pace that SNS accepts.
    async fn publish(&self, topic_arn: &str, message: &Message) -> Result<(), CallError>;

    /// Sends one message to the topic of chats, at once.
    async fn publish_to_chat(&self, topic_arn: &str, message: &Message) -> Result<(), CallError> {
        self.publish(topic_arn, message).await
    }

    /// Mails one message to an address, in the home region.
    async fn mail(&self, sender: &str, recipient: &str, message: &Message) -> Result<(), CallError>;

    /// Sends events to a bus of the home region. An error says how many of them were not accepted.
    async fn put_events(&self, bus: &str, events: &[Event]) -> Result<(), CallError>;

    /// Usage that AWS bills for all calls since the last time, those to the bucket included.
    fn take_usage(&self) -> RunUsage;

    /// Counts usage that is in no record yet: what a run took without a call, or has taken and left in no record.
    fn add_usage(&self, more: RunUsage);

    /// One instance.
    async fn describe_instance(&self, region: &Region, instance: &ResourceId) -> Result<Instance, CallError>;

    /// One volume.
    async fn describe_volume(&self, region: &Region, volume: &ResourceId) -> Result<Volume, CallError>;

    /// One snapshot.
    async fn describe_snapshot(&self, region: &Region, snapshot: &ResourceId) -> Result<Snapshot, CallError>;

    /// The snapshots that Curfew took of a volume.
    async fn describe_snapshots_of(&self, region: &Region, volume: &ResourceId) -> Result<Vec<Snapshot>, CallError>;

    /// Changes one resource of EC2: the only call that does.
    async fn write(&self, region: &Region, write: Ec2Write<'_>) -> Result<(), CallError>;

    /// A resource of `SageMaker` as it is now, with the facts that `seen` has. A simulated account may have none.
    async fn describe_sagemaker(&self, seen: &SageMakerResource) -> Result<SageMakerResource, CallError> {
        Err(without_sagemaker(&seen.region))
    }

    /// Changes one resource of `SageMaker`: the only call that does.
    async fn write_sagemaker(&self, resource: &SageMakerResource, _: SageMakerWrite<'_>) -> Result<(), CallError> {
        Err(without_sagemaker(&resource.region))
    }
}

fn without_sagemaker(region: &Region) -> CallError {
    CallError::new("sagemaker", region, CallErrorKind::Unsupported, "this account is simulated without SageMaker")
}

/// Answers of `CloudWatch`, and the resources with unanswered questions.
#[derive(Debug, Default)]
pub struct Answered {
    /// A signal that was asked for and has no samples has an empty entry.
    pub answers: MetricSamples,
    /// Resources with at least one question that was not answered in full.
    pub missed: BTreeSet<ResourceId>,
    /// Reasons for the missing answers, one for each call.
    pub errors: Vec<CallError>,
}

/// AWS calls of a run about instances.
pub trait InstanceCloud: Cloud {
    /// Every instance with an accelerator that is not terminated, of these regions.
    async fn instances(&self, regions: &[Region], timeout: Duration) -> Observation<Instance>;

    /// The samples of these questions, from their beginnings to `until`.
    async fn metric_data(
        &self,
        region: &Region,
        questions: impl Iterator<Item = MetricQuestion>,
        until: Timestamp,
    ) -> Answered;

    /// Every series of this metric that somebody owns, and some that name no instance; with `of_late` only those that reported within three
    /// hours or so.
    async fn series(
        &self,
        region: &Region,
        names: &SeriesNames,
        of_late: bool,
        owners: &SeriesOwners<'_>,
    ) -> Result<BTreeSet<MetricSeries>, CallError>;

    /// Some series of any metric that have this dimension, and reported within three hours or so.
    async fn published(&self, region: &Region, dimension: &str, value: &str) -> Result<Vec<MetricSeries>, CallError>;
}

/// AWS calls of a run about volumes.
pub trait VolumeCloud: Cloud {
    /// Every volume of these regions, with what decisions about it need: its tags where `tags` says that they tell anything, the
    /// snapshot that it came from where `source` says so.
    async fn storage(
        &self,
        regions: &[Region],
        timeout: Duration,
        tags: impl Fn(&Volume, &Hosts) -> bool,
        source: impl Fn(&Volume) -> bool,
    ) -> ObservedStorage;

    /// Use of the volumes of this region among `asks`.
    async fn volume_uses(
        &self,
        region: &Region,
        asks: &[VolumeUseQuery],
        now: Timestamp,
        timeout: Duration,
    ) -> Observed<BTreeMap<ResourceId, VolumeUse>>;

    /// The active capacity reservations of these regions with unused accelerated capacity for which this account pays.
    async fn unused_reservations(
        &self,
        regions: &[Region],
        account: Option<&str>,
        timeout: Duration,
    ) -> Observation<CapacityReservation>;

    /// The `FSx` for Lustre file systems of these regions.
    async fn file_systems(&self, regions: &[Region], timeout: Duration) -> Observation<LustreFileSystem>;

    /// The answers to these questions about one region.
    async fn file_system_samples(
        &self,
        region: &Region,
        questions: &[FileSystemQuestion],
        timeout: Duration,
    ) -> (ActivitySamples<FileSystemSignal>, Vec<Gap>);
}

/// AWS calls of a run about `SageMaker`.
pub trait SageMakerCloud: Cloud {
    /// Everything of these regions that runs on an accelerator, or may. `wants_facts` says whether an endpoint has to be looked up.
    async fn sagemaker(
        &self,
        regions: &[Region],
        timeout: Duration,
        wants_facts: impl Fn(&SageMakerResource) -> bool,
    ) -> ObservedSageMaker;

    /// The answers to these questions about one region.
    async fn activity(
        &self,
        region: &Region,
        questions: &[ActivityQuestion],
        timeout: Duration,
    ) -> (ActivitySamples, Vec<Gap>);
}

/// Prices of AWS.
pub trait PriceCloud: Cloud {
    /// Asks for all that is wanted of prices, and takes the answers in.
    async fn prices(
        &self,
        known: &mut PriceDocument,
        wanted: &PriceQueries,
        now: Timestamp,
        timeout: Duration,
    ) -> Vec<Gap>;
}

/// AWS calls of a beat of the budgets.
pub trait BudgetCloud: PriceCloud {
    /// One look of the ledger at each of these regions.
    async fn looks(&self, regions: &[Region], timeout: Duration) -> Observation<RegionObservation>;

    /// One look of the ledger at `SageMaker` in each of these regions.
    async fn sagemaker_bills(
        &self,
        regions: &[Region],
        now: Timestamp,
        timeout: Duration,
    ) -> Observation<SageMakerObservation>;

    /// Amount that AWS billed for those days, by Cost Explorer.
    async fn billed(&self, days: BilledDays) -> Result<CostExplorerBill, CallError>;
}
