//! AWS of the simulated account, and the faults of each call.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use billing::budget::billed::{BilledDays, CostExplorerBill};
use billing::ledger::{RegionObservation, SageMakerObservation};
use billing::price::{PriceDocument, PriceQueries, PriceQuery, SpotPrice};
use jiff::{SignedDuration, Timestamp};
use jobs::boxes::{GpuBox, HomeEffect, HomeSight};
use jobs::efa::{NetworkCards, SubnetAddresses};
use jobs::takeover::FoundMachine;
use jobs::{
    GroupKey, JobId, JobMachine, LaunchObstacle, LaunchOrder, LaunchResult, ListedGroup, ListedQuota, MachineHold,
    MachineImage, MachineKind, MachineObservation, MachineSight, TypeOffering, TypeOfferings, VpcGroups, ZoneSubnet,
    ZoneSubnets, placement_group_name, security_group_name,
};
use model::channels::MessageTopics;
use model::config::Config;
use model::curfew_tags::{ATTEMPT, EXPIRES_AT, JOB};
use model::fixture;
use model::id::{Region, ResourceId, TypeName};
use model::image_source::ImageSource;
use model::instance::{Instance, Tags};
use model::observation::{Gap, Observation};
use model::subscriptions::TopicSubscriptions;
use model::volume::{Snapshot, Volume};
use notify::{Event, Message};
use plan::report::RunUsage;
use ports::{
    BudgetCloud, CallError, CallErrorKind, Cloud, Ec2Write, GroupOrder, JobCloud, PriceCloud, StoreError,
    VcpuQuotaExceeded,
};

use crate::world::{BY_CALL, JobsWorld, ON_DEMAND_MICROS, SPOT_MICROS, SimulatedMachine, TYPE, ZONES};

/// What a box needs is nowhere simulated here.
pub(crate) const NO_BOXES: &str = "no job of this world is a box";

pub(crate) struct Account<'a> {
    pub(crate) world: &'a RefCell<JobsWorld>,
    pub(crate) home: Region,
}

impl Account<'_> {
    /// Lets another run continue, or this one be cut off. Returns `true` if the call fails.
    async fn fails(&self) -> bool {
        tokio::task::yield_now().await;
        let mut world = self.world.borrow_mut();
        let count = world.faults;
        let fails = count > 0 && world.one_in(count);
        world.tally.faults += u64::from(fails);
        fails
    }

    pub(crate) async fn store_call(&self) -> Result<(), StoreError> {
        let unreached = || StoreError::unreached("s3:GetObject", "s3://curfew-state/x".to_owned(), "it was lost");
        if self.fails().await { Err(unreached()) } else { Ok(()) }
    }

    async fn call(&self, call: &'static str) -> Result<(), CallError> {
        let throttled = || CallError::new(call, &self.home, CallErrorKind::Throttled, "Rate exceeded");
        if self.fails().await { Err(throttled()) } else { Ok(()) }
    }
}

impl Cloud for Account<'_> {
    fn home(&self) -> &Region {
        &self.home
    }

    async fn regions(&self, _: &Config) -> Observation<Region> {
        Observation { items: vec![self.home.clone()], gaps: Vec::new() }
    }

    async fn subscriptions(&self, _: &MessageTopics) -> Result<TopicSubscriptions, CallError> {
        self.call("sns:ListSubscriptionsByTopic").await?;
        Ok(fixture::subscriptions(&[None]))
    }

    async fn mail(&self, _: &str, _: &str, _: &Message) -> Result<(), CallError> {
        unreachable!("nobody is mailed")
    }

    async fn publish(&self, _: &str, _: &Message) -> Result<(), CallError> {
        self.call("sns:Publish").await
    }

    async fn put_events(&self, bus: &str, _: &[Event]) -> Result<(), CallError> {
        unreachable!("there is no bus {bus}")
    }

    fn take_usage(&self) -> RunUsage {
        RunUsage::default()
    }

    // Nothing is billed here.
    fn add_usage(&self, _: RunUsage) {}

    async fn describe_instance(&self, _: &Region, instance: &ResourceId) -> Result<Instance, CallError> {
        unreachable!("neither run looks at a single instance: {instance}")
    }

    async fn describe_volume(&self, _: &Region, volume: &ResourceId) -> Result<Volume, CallError> {
        unreachable!("neither run looks at a volume: {volume}")
    }

    async fn describe_snapshot(&self, _: &Region, snapshot: &ResourceId) -> Result<Snapshot, CallError> {
        unreachable!("neither run looks at a snapshot: {snapshot}")
    }

    async fn describe_snapshots_of(&self, _: &Region, volume: &ResourceId) -> Result<Vec<Snapshot>, CallError> {
        unreachable!("neither run looks at a snapshot: {volume}")
    }

    async fn write(&self, _: &Region, write: Ec2Write<'_>) -> Result<(), CallError> {
        unreachable!("neither run changes anything else: {write:?}")
    }
}

impl PriceCloud for Account<'_> {
    async fn prices(&self, known: &mut PriceDocument, wanted: &PriceQueries, now: Timestamp, _: Duration) -> Vec<Gap> {
        for question in &wanted.listed {
            let PriceQuery::Instance(region, name) = question else { continue };
            known.learn_listed(region.clone(), name.clone(), Some(ON_DEMAND_MICROS), now);
        }
        for (region, (types, _)) in &wanted.spot {
            let change = |(name, zone): (&TypeName, &str)| SpotPrice {
                instance_type: name.clone(),
                zone: zone.to_owned(),
                from: now - SignedDuration::from_hours(24),
                usd_micros_per_hour: SPOT_MICROS,
            };
            let changes = types.iter().flat_map(|name| ZONES.map(|zone| change((name, zone)))).collect();
            known.learn_spot(region, types, changes, now);
        }
        Vec::new()
    }
}

impl BudgetCloud for Account<'_> {
    async fn looks(&self, _: &[Region], _: Duration) -> Observation<RegionObservation> {
        let world = self.world.borrow();
        let instances = world.machines.iter().filter_map(|machine| machine.describe(world.now)).collect();
        let look = RegionObservation { region: self.home.clone(), whole: true, instances, volumes: Vec::new() };
        Observation { items: vec![look], gaps: Vec::new() }
    }

    async fn sagemaker_bills(&self, _: &[Region], _: Timestamp, _: Duration) -> Observation<SageMakerObservation> {
        Observation::default()
    }

    async fn billed(&self, days: BilledDays) -> Result<CostExplorerBill, CallError> {
        Ok(CostExplorerBill { days, by_type: BTreeMap::new() })
    }
}

impl JobCloud for Account<'_> {
    async fn has_confirmed_subscription(&self, _: &MessageTopics) -> Result<bool, CallError> {
        self.call("sns:ListSubscriptionsByTopic").await?;
        Ok(true)
    }

    async fn observe_machines(
        &self,
        _: &Region,
        instances: &[ResourceId],
        now: Timestamp,
    ) -> Result<Vec<MachineObservation>, CallError> {
        self.call("ec2:DescribeInstances").await?;
        let world = self.world.borrow();
        let observe = |id: &ResourceId| {
            let machine = world.machines.iter().find(|machine| machine.id == *id);
            let seen = machine.and_then(|machine| machine.describe(world.now)).map(|seen| seen.instance);
            let sight = seen.as_ref().map_or(MachineSight::Absent, |seen| MachineSight::Seen {
                state: seen.state,
                reason: seen.state_reason.clone(),
            });
            MachineObservation {
                instance: id.clone(),
                sight,
                launched_at: seen.as_ref().map(|seen| seen.launched_at),
                job: seen.as_ref().and_then(|seen| seen.tags.get(JOB).cloned()),
                attempt: seen.as_ref().and_then(|seen| seen.tags.get(ATTEMPT)?.parse().ok()),
                hold: seen.as_ref().and_then(|seen| MachineHold::read(seen, now)),
            }
        };
        Ok(instances.iter().map(observe).collect())
    }

    async fn find_job_machines(&self, _: &Region) -> Result<Vec<FoundMachine>, CallError> {
        self.call("ec2:DescribeInstances").await?;
        let mut world = self.world.borrow_mut();
        let now = world.now;
        let found = |machine: &SimulatedMachine| {
            let Instance { id, region, instance_type, launched_at, tags, .. } = machine.describe(now)?.instance;
            Some(FoundMachine {
                instance: id,
                region,
                zone: Some(machine.zone.clone()),
                instance_type,
                lifecycle: Some(machine.lifecycle),
                launched_at,
                job: tags.get(JOB)?.clone(),
                attempt: tags.get(ATTEMPT)?.parse().ok(),
                expires_at: tags.get(EXPIRES_AT)?.parse().ok(),
                token: Some(machine.token.clone()),
                profile: machine.profile.clone(),
            })
        };
        let alive = world.machines.iter().filter(|machine| machine.lives_at(now));
        let found: Vec<FoundMachine> = alive.filter_map(found).collect();
        world.searches += 1;
        Ok(found)
    }

    async fn list_offerings(
        &self,
        _: &Region,
        _: MachineKind,
        _: &BTreeSet<TypeName>,
    ) -> Result<TypeOfferings, CallError> {
        self.call("ec2:DescribeInstanceTypes").await?;
        let offering = TypeOffering {
            architecture: "x86_64",
            vcpus: 4,
            memory_mib: 16_384,
            gpus: 1,
            gpu_name: "A10G".to_owned(),
            gpu_memory_mib: 22_888,
            spot: true,
            cards: NetworkCards::default(),
        };
        let name = TypeName::from(TYPE);
        let zones = ZONES.into_iter().map(|zone| (name.clone(), zone.to_owned())).collect();
        Ok(TypeOfferings { kinds: [(name, offering)].into(), zones })
    }

    async fn list_subnets(&self, _: &Region, _: &BTreeSet<ResourceId>) -> Result<ZoneSubnets, CallError> {
        self.call("ec2:DescribeSubnets").await?;
        let subnet = |zone: &str| ZoneSubnet {
            addresses: SubnetAddresses { subnet: ResourceId::new(format!("subnet-{zone}")), are_public: Some(true) },
            vpc: Some("vpc-1".into()),
        };
        Ok(ZONES.into_iter().map(|zone| (zone.to_owned(), subnet(zone))).collect())
    }

    async fn find_image(
        &self,
        _: &Region,
        architecture: &str,
        _: &ImageSource,
        agent_sha256: &str,
    ) -> Result<MachineImage, LaunchObstacle> {
        Ok(MachineImage {
            ami: "ami-0d".into(),
            architecture: architecture.to_owned(),
            agent_sha256: agent_sha256.to_owned(),
            root_device: "/dev/xvda".to_owned(),
            root_gib: 65,
            is_for_all: true,
            other_devices: Vec::new(),
        })
    }

    async fn list_quotas(&self, _: &Region) -> Result<Vec<ListedQuota>, CallError> {
        self.call("servicequotas:ListServiceQuotas").await?;
        Ok(Vec::new())
    }

    /// A known token gives the machine that was launched by it. The answer may be lost after the launch.
    async fn launch(&self, order: &LaunchOrder<'_>) -> Result<LaunchResult, VcpuQuotaExceeded> {
        let is_lost_before = self.fails().await;
        if is_lost_before {
            return Ok(LaunchResult::Unknown("it was throttled".to_owned()));
        }
        let token = &order.launch.token;
        {
            let mut world = self.world.borrow_mut();
            let is_known = !world.launched_by(token).is_empty();
            if !is_known && order.launch.only_find {
                return Ok(LaunchResult::NoCapacity("there is none".to_owned()));
            }
            if !is_known && world.one_in(6) {
                world.tally.without_capacity += 1;
                return Ok(LaunchResult::NoCapacity("no capacity".to_owned()));
            }
            if !is_known && world.one_in(20) {
                world.tally.over_quota += 1;
                let refused = CallError::new("ec2:RunInstances", &self.home, CallErrorKind::Other, "vCPU limit");
                return Err(VcpuQuotaExceeded(refused));
            }
            if !is_known {
                let job = JobId::read(&order.tags[JOB]).unwrap();
                let placement = order.launch.placement_group.clone().map(GroupKey::Placement);
                assert!(placement.is_none_or(|group| world.groups.contains_key(&group)), "{job} has no such group");
                world.launch(order, &job);
            }
        }
        if self.fails().await || self.world.borrow_mut().one_in(15) {
            self.world.borrow_mut().tally.unanswered_launches += 1;
            return Ok(LaunchResult::Unknown("the answer was lost".to_owned()));
        }
        let world = self.world.borrow();
        let launched = world.launched_by(token);
        let mut instances = launched.iter().map(|machine| machine.id.clone());
        let instance = instances.next().unwrap();
        Ok(LaunchResult::Launched { instance, members: instances.collect(), launched_at: launched[0].launched_at })
    }

    async fn ensure_placement_group(&self, group: &GroupOrder<'_>) -> Result<(), CallError> {
        self.call("ec2:CreatePlacementGroup").await?;
        self.world.borrow_mut().groups.insert(GroupKey::Placement(group.name.to_owned()), group.job.clone());
        Ok(())
    }

    async fn ensure_security_group(&self, group: &GroupOrder<'_>, _: &ResourceId) -> Result<VpcGroups, CallError> {
        self.call("ec2:CreateSecurityGroup").await?;
        let own = ResourceId::new(format!("sg-{}", group.name));
        self.world.borrow_mut().groups.insert(GroupKey::Security(own.clone()), group.job.clone());
        Ok(VpcGroups { own, default: None })
    }

    async fn delete_group(&self, _: &Region, key: &GroupKey, job: &JobId) -> Result<(), CallError> {
        self.call("ec2:DeleteSecurityGroup").await?;
        let mut world = self.world.borrow_mut();
        let uses = |machine: &SimulatedMachine| match key {
            GroupKey::Security(_) => true,
            GroupKey::Placement(name) => *name == placement_group_name(job, machine.attempt),
        };
        let now = world.now;
        if world.machines.iter().any(|machine| machine.job == *job && machine.lives_at(now) && uses(machine)) {
            return Err(CallError::new("ec2:DeleteSecurityGroup", &self.home, CallErrorKind::InUse, "it is in use"));
        }
        world.groups.remove(key);
        Ok(())
    }

    async fn list_groups(&self, _: &Region) -> Result<Vec<ListedGroup>, CallError> {
        self.call("ec2:DescribePlacementGroups").await?;
        let world = self.world.borrow();
        let listed = |(key, job): (&GroupKey, &JobId)| {
            let name = match key {
                GroupKey::Security(_) => security_group_name(job),
                GroupKey::Placement(name) => name.clone(),
            };
            ListedGroup { key: key.clone(), name, job: job.to_string() }
        };
        Ok(world.groups.iter().map(listed).collect())
    }

    async fn observe_home(&self, _: &GpuBox, _: Timestamp) -> Result<HomeSight, CallError> {
        unreachable!("{NO_BOXES}")
    }

    async fn change_home(&self, _: &GpuBox, _: &HomeEffect, _: &Tags) -> Result<Option<ResourceId>, CallError> {
        unreachable!("{NO_BOXES}")
    }

    async fn keep_home(&self, _: &GpuBox, _: Timestamp) -> Result<(), CallError> {
        unreachable!("{NO_BOXES}")
    }

    async fn terminate(&self, job: &JobId, machine: &JobMachine, _: Timestamp) -> Result<(), CallError> {
        self.call("ec2:TerminateInstances").await?;
        let mut world = self.world.borrow_mut();
        let now = world.now;
        for instance in machine.instances() {
            let found = world.machines.iter_mut().find(|one| one.id == *instance).unwrap();
            assert_eq!(found.job, *job, "{instance} is of another job");
            if found.ended.is_none_or(|(at, _)| at > now) {
                found.ended = Some((now, BY_CALL));
            }
        }
        Ok(())
    }
}
