//! An account in memory that implements the traits of `ports`.

use std::cell::{RefCell, RefMut};
use std::collections::{BTreeMap, BTreeSet};

use billing::price::PriceDocument;
use execution::{Run, Subscribers};
use jiff::{SignedDuration, Timestamp};
use model::channels::{MessageTopics, NotificationChannels};
use model::config::Config;
use model::fixture;
use model::id::{Region, ResourceId, RunId};
use model::instance::{Instance, InstanceState, Tags};
use model::notification_log::{NotificationLog, NotificationLogs};
use model::observation::Observation;
use model::reply_link::LinkDocument;
use model::subscriptions::TopicSubscriptions;
use model::volume::{ObservedStorage, Snapshot, SnapshotState, Volume};
use notify::{Event, Message};
use plan::Plan;
use plan::report::{Report, RunUsage};
use ports::{CallError, CallErrorKind, Cloud, ConfigLoadError, Documents, Ec2Write, StoreError, Versioned};
use reaping::policy::Policy;
use serde::Serialize;

const HOME: &str = "us-east-1";
pub(crate) const FUNCTION: &str = "reap";
const TOPIC_ARN: &str = "arn:aws:sns:us-east-1:123456789012:curfew";

/// The contents of EC2, SNS and the bucket.
pub(crate) struct AwsInMemory {
    pub(crate) instances: Vec<Instance>,
    pub(crate) storage: ObservedStorage,
    pub(crate) memory: NotificationLogs,
    pub(crate) channels: NotificationChannels,
    /// Teams whose messages SNS refuses.
    pub(crate) deaf: BTreeSet<&'static str>,
    /// Whether the chat topic and the event bus refuse everything.
    pub(crate) refuses_copies: bool,
    /// The error of every write to EC2, if it refuses them.
    pub(crate) refuses: Option<&'static str>,
    /// The code and words by which EC2 refuses one kind of call for good.
    pub(crate) refuses_for_good: Option<(RefusedCall, &'static str, &'static str)>,
    /// Whether the bucket refuses to write the log of notifications.
    pub(crate) refuses_log: bool,
    /// The address in the error of every write of a link, if the bucket refuses them.
    pub(crate) refuses_links: Option<&'static str>,
    /// Whether the next write to EC2 panics.
    pub(crate) panics_once: bool,
    /// The state of a new snapshot.
    pub(crate) new_snapshots: SnapshotState,
    /// The audit record of each run, as last written, by its key.
    pub(crate) audits: BTreeMap<String, String>,
    /// What the topic, the chat topic, and the event bus accepted in the last run.
    pub(crate) messages: Vec<Message>,
    pub(crate) chat: Vec<Message>,
    pub(crate) events: Vec<Event>,
    /// The links of all runs, by the hashes of their tokens.
    pub(crate) links: BTreeMap<String, LinkDocument>,
    pub(crate) now: Timestamp,
}

impl AwsInMemory {
    pub(crate) fn new(instances: Vec<Instance>, volumes: Vec<Volume>, now: Timestamp) -> Self {
        let mut storage = ObservedStorage::default();
        storage.volumes.items = volumes;
        Self {
            instances,
            storage,
            memory: NotificationLogs::from([(HOME.into(), NotificationLog::default())]),
            channels: NotificationChannels::topic(TOPIC_ARN.to_owned()),
            deaf: BTreeSet::new(),
            refuses_copies: false,
            refuses: None,
            refuses_for_good: None,
            refuses_log: false,
            refuses_links: None,
            panics_once: false,
            new_snapshots: SnapshotState::Completed,
            audits: BTreeMap::new(),
            messages: Vec::new(),
            chat: Vec::new(),
            events: Vec::new(),
            links: BTreeMap::new(),
            now,
        }
    }

    /// Carries a plan out as a function does.
    pub(crate) fn carry_out(&mut self, plan: Plan, policy: &Policy) -> Report {
        self.messages.clear();
        self.chat.clear();
        self.events.clear();
        let (now, channels) = (self.now, self.channels.clone());
        let seam = Seam { aws: RefCell::new(self), home: HOME.into() };
        let run = Run {
            cloud: &seam,
            store: &seam,
            channels: &channels,
            function: FUNCTION,
            id: RunId::new(format!("run-{}", now.as_second())),
            mode: policy.ceiling.of_deployment(),
            now,
            deadline: now + SignedDuration::from_mins(5),
            clock: &|| now,
            chosen: None,
            progress: &|_, _| (),
            halted: None,
            metrics: None,
            home: model::home::HomeStatus::default(),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let regions = vec![seam.home.clone()];
            let recalled = run.recall(&regions).await;
            run.carry_out(plan, regions, Subscribers::checked(policy.ceiling.clone(), None), recalled).await
        })
    }

    fn tags_of(&mut self, id: &ResourceId) -> Option<&mut Tags> {
        let Self { instances, storage, .. } = self;
        let of_instances = instances.iter_mut().map(|instance| (&instance.id, &mut instance.tags));
        let of_volumes = storage.volumes.items.iter_mut().map(|volume| (&volume.id, &mut volume.tags));
        let of_snapshots = storage.snapshots.iter_mut().map(|snapshot| (&snapshot.id, &mut snapshot.tags));
        let mut all = of_instances.chain(of_volumes).chain(of_snapshots);
        all.find(|(other, _)| *other == id).map(|(_, tags)| tags)
    }

    fn write(&mut self, write: &Ec2Write<'_>) {
        let now = self.now;
        let instance = |instances: &mut Vec<Instance>, id: &ResourceId, state: InstanceState| {
            let instance = instances.iter_mut().find(|instance| instance.id == *id).unwrap();
            instance.state = state;
            if instance.state == InstanceState::Running {
                instance.launched_at = now;
            }
        };
        match write {
            Ec2Write::CreateTags { resources, tags } => {
                for id in *resources {
                    let written = tags.iter().map(|(key, value)| ((*key).to_owned(), value.clone()));
                    self.tags_of(id).unwrap().extend(written);
                }
            }
            Ec2Write::DeleteTags { resource, keys } => {
                self.tags_of(resource).unwrap().retain(|key, _| !keys.contains(&key.as_str()));
            }
            Ec2Write::StopInstance(id) => instance(&mut self.instances, id, InstanceState::Stopped),
            Ec2Write::StartInstance(id) => instance(&mut self.instances, id, InstanceState::Running),
            Ec2Write::TerminateInstance(id) => self.instances.retain(|instance| instance.id != **id),
            Ec2Write::CreateSnapshot { volume, description, tags } => {
                let numbers =
                    self.storage.snapshots.iter().filter_map(|one| one.id.as_str().split_once('-')?.1.parse().ok());
                let number = numbers.max().unwrap_or(0_usize) + 1;
                let volume = self.storage.volumes.items.iter().find(|one| one.id == **volume).unwrap();
                self.storage.snapshots.push(Snapshot {
                    id: ResourceId::new(format!("snap-{number}")),
                    region: volume.region.clone(),
                    of_volume: volume.id.clone(),
                    state: self.new_snapshots,
                    started_at: now,
                    size_gib: volume.size_gib,
                    tags: (*tags).clone(),
                    description: (*description).to_owned(),
                });
            }
            Ec2Write::DeleteVolume(id) => self.storage.volumes.items.retain(|volume| volume.id != **id),
            Ec2Write::DeleteSnapshot(id) => self.storage.snapshots.retain(|snapshot| snapshot.id != **id),
        }
    }
}

/// A kind of call that EC2 refuses.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RefusedCall {
    Tag,
    Stop,
    /// The stop of this instance alone.
    StopOf(&'static str),
    DeleteSnapshot,
}

impl RefusedCall {
    fn is_of(self, write: &Ec2Write<'_>) -> bool {
        match self {
            Self::Tag => matches!(write, Ec2Write::CreateTags { .. }),
            Self::Stop => matches!(write, Ec2Write::StopInstance(_)),
            Self::StopOf(id) => matches!(write, Ec2Write::StopInstance(stopped) if stopped.as_str() == id),
            Self::DeleteSnapshot => matches!(write, Ec2Write::DeleteSnapshot(_)),
        }
    }
}

struct Seam<'a> {
    aws: RefCell<&'a mut AwsInMemory>,
    home: Region,
}

impl<'a> Seam<'a> {
    fn aws(&self) -> RefMut<'_, &'a mut AwsInMemory> {
        self.aws.borrow_mut()
    }

    fn error(&self, call: &'static str, kind: CallErrorKind, message: &str) -> CallError {
        CallError::new(call, &self.home, kind, message)
    }

    fn find<T: Clone>(&self, all: &[T], is_it: impl Fn(&T) -> bool) -> Result<T, CallError> {
        let not_found = || self.error("ec2:Describe", CallErrorKind::NotFound, "NotFound");
        all.iter().find(|one| is_it(one)).cloned().ok_or_else(not_found)
    }
}

impl Cloud for Seam<'_> {
    fn home(&self) -> &Region {
        &self.home
    }

    async fn regions(&self, _config: &Config) -> Observation<Region> {
        Observation { items: vec![self.home.clone()], gaps: Vec::new() }
    }

    async fn subscriptions(&self, _topics: &MessageTopics) -> Result<TopicSubscriptions, CallError> {
        Ok(fixture::subscriptions(&[None]))
    }

    async fn mail(&self, _sender: &str, _recipient: &str, _message: &Message) -> Result<(), CallError> {
        Err(CallError::new("ses:SendEmail", &self.home, CallErrorKind::Other, "this account mails nobody"))
    }

    async fn publish(&self, topic_arn: &str, message: &Message) -> Result<(), CallError> {
        let is_copy = topic_arn != TOPIC_ARN;
        if self.aws().deaf.contains(message.team.as_str()) || (is_copy && self.aws().refuses_copies) {
            return Err(self.error("sns:Publish", CallErrorKind::Throttled, "Throttled"));
        }
        let mut aws = self.aws();
        let accepted = if is_copy { &mut aws.chat } else { &mut aws.messages };
        accepted.push(message.clone());
        Ok(())
    }

    async fn put_events(&self, _bus: &str, events: &[Event]) -> Result<(), CallError> {
        if self.aws().refuses_copies {
            return Err(self.error("events:PutEvents", CallErrorKind::Throttled, "ThrottlingException"));
        }
        self.aws().events.extend_from_slice(events);
        Ok(())
    }

    fn take_usage(&self) -> RunUsage {
        RunUsage::default()
    }

    // Nothing is billed here.
    fn add_usage(&self, _: RunUsage) {}

    async fn describe_instance(&self, _region: &Region, id: &ResourceId) -> Result<Instance, CallError> {
        self.find(&self.aws().instances, |instance| instance.id == *id)
    }

    async fn describe_volume(&self, _region: &Region, id: &ResourceId) -> Result<Volume, CallError> {
        self.find(&self.aws().storage.volumes.items, |volume| volume.id == *id)
    }

    async fn describe_snapshot(&self, _region: &Region, id: &ResourceId) -> Result<Snapshot, CallError> {
        self.find(&self.aws().storage.snapshots, |snapshot| snapshot.id == *id)
    }

    async fn describe_snapshots_of(&self, _region: &Region, volume: &ResourceId) -> Result<Vec<Snapshot>, CallError> {
        let aws = self.aws();
        Ok(aws.storage.snapshots.iter().filter(|snapshot| snapshot.of_volume == *volume).cloned().collect())
    }

    async fn write(&self, _region: &Region, write: Ec2Write<'_>) -> Result<(), CallError> {
        assert!(!std::mem::take(&mut self.aws().panics_once), "planted for a test");
        if let Some(error) = self.aws().refuses {
            return Err(self.error("ec2:Write", CallErrorKind::Other, error));
        }
        if let Some((refused, code, words)) = self.aws().refuses_for_good
            && refused.is_of(&write)
        {
            let error = self.error("ec2:Write", CallErrorKind::Other, &format!("{code}: {words}"));
            return Err(CallError { code: Some(code.to_owned()), ..error });
        }
        self.aws().write(&write);
        Ok(())
    }
}

impl Documents for Seam<'_> {
    async fn read_config(&self) -> Result<Config, ConfigLoadError> {
        panic!("the plan was made by a configuration")
    }

    async fn read_notices(&self, _function: &str, region: &Region) -> Result<Versioned<NotificationLog>, StoreError> {
        Ok(Versioned { value: self.aws().memory.get(region).cloned().unwrap_or_default(), etag: None })
    }

    async fn write_notices(
        &self,
        _function: &str,
        region: &Region,
        notices: &NotificationLog,
        _last: Option<&str>,
    ) -> Result<Option<String>, StoreError> {
        if self.aws().refuses_log {
            return Err(StoreError::Lost { address: "s3://curfew/notices".to_owned() });
        }
        self.aws().memory.insert(region.clone(), notices.clone());
        Ok(None)
    }

    async fn restart_notices(&self, _function: &str, _region: &Region) -> Result<bool, StoreError> {
        panic!("each document can be read")
    }

    async fn write_audit(&self, key: &str, record: &impl Serialize) -> Result<(), StoreError> {
        let json = serde_json::to_string(record).unwrap();
        self.aws().audits.insert(key.to_owned(), json);
        Ok(())
    }

    async fn write_reply_link(&self, hash: &str, link: &LinkDocument, _last: Option<&str>) -> Result<(), StoreError> {
        if let Some(address) = self.aws().refuses_links {
            return Err(StoreError::Lost { address: address.to_owned() });
        }
        self.aws().links.insert(hash.to_owned(), link.clone());
        Ok(())
    }

    async fn read_prices(&self) -> Result<Versioned<PriceDocument>, StoreError> {
        panic!("a plan has its prices")
    }

    async fn write_prices(&self, _prices: &PriceDocument, _last: Option<&str>) -> Result<Option<String>, StoreError> {
        panic!("no reaper asks for prices")
    }
}
