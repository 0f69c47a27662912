//! Instances, volumes and usages for tests, by the verbs in which tests think. It is noon on Tuesday, 2026-09-01.

#![expect(
    clippy::unwrap_used,
    clippy::must_use_candidate,
    clippy::missing_panics_doc,
    clippy::return_self_not_must_use,
    reason = "only tests use it"
)]

mod sagemaker;

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::capacity_reservation::{CapacityReservation, ReservationKind};
use crate::channels::Audience;
use crate::file_system::LustreFileSystem;
use crate::instance::{Accelerator, Instance, InstanceState, InstanceTypeFacts, PrepaidCapacity, PurchaseOption};
use crate::observation::ObservedResource;
use crate::reply_link::{BoxLink, EndingBox, LinkRecipient, ReplyLink, life};
use crate::rule::{ResourceAction, Rule};
use crate::subscriptions::{Subscription, SubscriptionFilter, SubscriptionState, TopicSubscriptions};
use crate::usage::{BusyEvidence, DeviceReport, IdleEvidence, PERIOD, UnknownUsage, Usage, UsageWindow};
use crate::volume::{Volume, VolumeState};

pub use sagemaker::{SageMakerBuilder, app, endpoint, inference_component, notebook, training_job};

pub const NOW: &str = "2026-09-01T12:00:00Z";

pub fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// A topic with one confirmed subscription for each of these filter policies; one without a policy receives everything.
pub fn subscriptions(policies: &[Option<&str>]) -> TopicSubscriptions {
    let subscription = |policy: Option<&str>| Subscription {
        audience: Audience::Team,
        protocol: "email".to_owned(),
        endpoint: "ada@example.com".to_owned(),
        state: SubscriptionState::Confirmed,
        filter: SubscriptionFilter::from_attributes(policy, None),
    };
    TopicSubscriptions::new(policies.iter().copied().map(subscription).collect(), true)
}

/// A running, tagged, on-demand g5.xlarge of team vision, launched a day ago, without instance storage.
pub fn instance() -> InstanceBuilder {
    untagged().tag("Team", "vision").tag("Owner", "ada")
}

/// A running, on-demand g5.xlarge without any tag, launched a day ago, without instance storage.
pub fn untagged() -> InstanceBuilder {
    InstanceBuilder(Instance {
        id: "i-0abc".into(),
        region: "us-east-1".into(),
        zone: None,
        instance_type: "g5.xlarge".into(),
        state: InstanceState::Running,
        launched_at: time("2026-08-31T12:00:00Z"),
        tags: BTreeMap::new(),
        purchase: PurchaseOption::OnDemand,
        root_on_instance_storage: false,
        operator: None,
        prepaid: None,
        capacity_reservation: None,
        placement_group: None,
        plain_linux: true,
        host: None,
        state_reason: None,
        machine: InstanceTypeFacts {
            accelerator: Accelerator::Nvidia,
            accelerators: 1,
            accelerator_memory_mib: 22_888,
            vcpus: 4,
            instance_storage_gb: 0,
        },
    })
}

/// A link about a stop for idleness in an hour, which works for a week after it.
pub fn reply_link(seen: &ObservedResource) -> ReplyLink {
    let deadline = time("2026-09-01T13:00:00Z");
    ReplyLink {
        region: seen.region().clone(),
        resource: seen.id().clone(),
        since: life(seen).unwrap(),
        what: "g5.xlarge".to_owned(),
        name: None,
        owner: Some("ada".to_owned()),
        action: ResourceAction::Stop,
        rule: Rule::Idle,
        why: "it has been idle since 2026-09-01T10:00:00Z".to_owned(),
        loses: None,
        deadline,
        sent_to: LinkRecipient {
            function: "reap-instances".to_owned(),
            team: "vision".to_owned(),
            topic: "arn:aws:sns:us-east-1:123456789012:curfew".to_owned(),
            at: time(NOW),
        },
        expires_at: ReplyLink::expiry(deadline),
        used: None,
    }
}

/// A link about a box whose end is at one o'clock, and that of its machine in the evening.
pub fn box_link() -> BoxLink {
    let ending = EndingBox {
        job: "vision/my-box-0123abcd".to_owned(),
        name: "vision/my-box".to_owned(),
        owner: Some("ada".to_owned()),
        ends_at: time("2026-09-01T13:00:00Z"),
        expires_at: time("2026-09-01T20:00:00Z"),
    };
    let sent_to = LinkRecipient {
        function: "run-jobs".to_owned(),
        team: "vision".to_owned(),
        topic: "arn:aws:sns:us-east-1:123456789012:curfew".to_owned(),
        at: time(NOW),
    };
    BoxLink { ending, sent_to, used: None }
}

/// An unattached gp3 volume of 500 GiB of team vision, created a month ago.
pub fn volume() -> VolumeBuilder {
    VolumeBuilder(Volume {
        id: "vol-0abc".into(),
        region: "us-east-1".into(),
        zone: "us-east-1a".to_owned(),
        volume_type: "gp3".to_owned(),
        size_gib: 500,
        iops: Some(3000),
        throughput_mibps: Some(125),
        state: VolumeState::Available,
        attached_to: Vec::new(),
        multi_attach: false,
        created_at: time("2026-08-01T12:00:00Z"),
        tags: BTreeMap::new(),
        from_snapshot: None,
        operator: None,
    })
    .tag("Team", "vision")
    .tag("Owner", "ada")
}

/// A file system of 1,200 GiB of team vision, made a month ago.
pub fn file_system() -> LustreFileSystem {
    LustreFileSystem {
        id: "fs-0abc".into(),
        region: "us-east-1".into(),
        created_at: time("2026-08-01T12:20:00Z"),
        capacity_gib: 1_200,
        storage_type: "SSD".to_owned(),
        deployment: "PERSISTENT_2".to_owned(),
        throughput_mbps_per_tib: Some(125),
        tags: [("Team", "vision"), ("Owner", "ada")].map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
    }
}

/// An open on-demand reservation of p5.48xlarge of team vision, begun a month ago, with so many instances, of which so many are unused.
pub fn reservation(total: u32, unused: u32) -> CapacityReservation {
    CapacityReservation {
        id: "cr-0abc".into(),
        region: "us-east-1".into(),
        zone: Some("us-east-1a".to_owned()),
        instance_type: "p5.48xlarge".into(),
        kind: ReservationKind::OnDemand,
        total,
        unused,
        is_targeted: false,
        plain_linux: true,
        starts_at: Some(time("2026-08-01T12:00:00Z")),
        ends_at: None,
        billed_to: Some("111111111111".to_owned()),
        tags: BTreeMap::from(
            [("Team", "vision"), ("Owner", "ada")].map(|(key, value)| (key.to_owned(), value.to_owned())),
        ),
    }
}

pub struct VolumeBuilder(Volume);

impl VolumeBuilder {
    pub fn build(self) -> Volume {
        self.0
    }

    pub fn with(mut self, change: impl FnOnce(&mut Volume)) -> Self {
        change(&mut self.0);
        self
    }

    pub fn id(self, id: &str) -> Self {
        self.with(|volume| volume.id = id.into())
    }

    pub fn tag(self, key: &str, value: &str) -> Self {
        self.with(|volume| {
            volume.tags.insert(key.to_owned(), value.to_owned());
        })
    }

    pub fn untagged(self) -> Self {
        self.with(|volume| volume.tags.clear())
    }

    pub fn on(self, instance: &str) -> Self {
        self.with(|volume| {
            volume.state = VolumeState::InUse;
            volume.attached_to = vec![instance.into()];
        })
    }
}

pub struct InstanceBuilder(Instance);

impl InstanceBuilder {
    pub fn build(self) -> Instance {
        self.0
    }

    pub fn with(mut self, change: impl FnOnce(&mut Instance)) -> Self {
        change(&mut self.0);
        self
    }

    pub fn id(self, id: &str) -> Self {
        self.with(|instance| instance.id = id.into())
    }

    pub fn tag(self, key: &str, value: &str) -> Self {
        self.with(|instance| {
            instance.tags.insert(key.to_owned(), value.to_owned());
        })
    }

    pub fn region(self, region: &str) -> Self {
        self.with(|instance| instance.region = region.into())
    }

    pub fn in_zone(self, zone: &str) -> Self {
        self.with(|instance| instance.zone = Some(zone.to_owned()))
    }

    pub fn of_type(self, name: &str) -> Self {
        self.with(|instance| instance.instance_type = name.into())
    }

    pub fn state(self, state: InstanceState) -> Self {
        self.with(|instance| instance.state = state)
    }

    pub fn launched(self, at: &str) -> Self {
        self.with(|instance| instance.launched_at = time(at))
    }

    pub fn purchase(self, purchase: PurchaseOption) -> Self {
        self.with(|instance| instance.purchase = purchase)
    }

    pub fn prepaid(self, prepaid: PrepaidCapacity) -> Self {
        self.with(|instance| instance.prepaid = Some(prepaid))
    }

    pub fn in_reservation(self, id: &str) -> Self {
        let reserved = self.prepaid(PrepaidCapacity::CapacityReservation);
        reserved.with(|instance| instance.capacity_reservation = Some(id.into()))
    }

    pub fn operator(self, principal: &str) -> Self {
        self.with(|instance| instance.operator = Some(principal.to_owned()))
    }

    pub fn root_on_instance_storage(self) -> Self {
        self.with(|instance| instance.root_on_instance_storage = true)
    }

    pub fn instance_storage(self, gb: u64) -> Self {
        self.with(|instance| instance.machine.instance_storage_gb = gb)
    }

    pub fn accelerators(self, accelerator: Accelerator, count: u32) -> Self {
        self.with(|instance| {
            instance.machine = InstanceTypeFacts { accelerator, accelerators: count, ..instance.machine.clone() }
        })
    }

    pub fn host(self, host: &str) -> Self {
        self.with(|instance| instance.host = Some(host.to_owned()))
    }
}

fn quiet() -> IdleEvidence {
    let window = UsageWindow::ending_before(time(NOW), jiff::SignedDuration::from_hours(1));
    IdleEvidence {
        from: window.from,
        to: window.to,
        devices: 1,
        coverage_percent: 100,
        gpu_max_percent: Some(0.0),
        gpu_power_max_percent: None,
        cpu_max_vcpus: 0.1,
        network_max_mbps: 0.1,
        disk_max_mbps: None,
        gpu_memory_held_mib: None,
        reserved: false,
    }
}

pub fn idle() -> Usage {
    Usage::Idle(quiet())
}

pub fn reserved() -> Usage {
    Usage::Idle(IdleEvidence { gpu_memory_held_mib: Some(20_000.0), reserved: true, ..quiet() })
}

/// Idle by its power alone.
pub fn idle_by_power() -> Usage {
    Usage::Idle(IdleEvidence { gpu_max_percent: None, gpu_power_max_percent: Some(3.0), ..quiet() })
}

pub fn busy() -> Usage {
    Usage::Busy(BusyEvidence { until: crate::moment::before(time(NOW), PERIOD), shown: None })
}

pub fn unknown() -> Usage {
    Usage::Unknown(UnknownUsage::Uninstrumented(DeviceReport { devices: 1, ..DeviceReport::default() }))
}
