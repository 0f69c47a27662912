//! The truth: machines with their tags, state and work, as EC2 has them. It uses nothing of the policy.

use model::curfew_tags::LABELS;
use model::fixture::untagged;
use model::instance::{
    Accelerator, Instance, InstanceState, InstanceTypeFacts as Type, PrepaidCapacity, PurchaseOption,
};
use model::usage::MetricSeries;

use crate::chance::{DAY, RandomStream, TICK, region, stamp};
use crate::metrics::{MachinePeriods, power_series_of, series_of};
use crate::settings::MANAGED_TAG;
use crate::tags::OwnerTags;

/// How a machine reports its GPUs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Instrumentation {
    Fully,
    /// All GPUs except its last.
    Half,
    No,
}

/// The controller that owns a machine, if its team does not.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ForeignController {
    AutoScaling,
    Kubernetes,
    Operator,
    CapacityBlock,
    Managed,
}

impl ForeignController {
    fn draw(chance: &mut RandomStream) -> Option<Self> {
        let all = [Self::AutoScaling, Self::Kubernetes, Self::Operator, Self::CapacityBlock, Self::Managed];
        chance.one_in(8).then(|| chance.pick(&all))
    }
}

/// The constant properties of a machine.
pub(crate) struct MachineTraits {
    pub(crate) foreign: Option<ForeignController>,
    pub(crate) instrumented: Instrumentation,
    /// Its GPUs' utilisation series, by their place.
    pub(crate) series: Vec<MetricSeries>,
    /// The series of the power of its GPUs, which EC2 publishes for some machines.
    pub(crate) power: Vec<MetricSeries>,
    /// EC2 publishes a sample a minute instead of their mean over five.
    pub(crate) has_detailed_monitoring: bool,
}

/// What a machine does for its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MachineWork {
    Train,
    OneGpu(u32),
    /// Now and then.
    Bursts,
    Cpu,
    Network,
    Disk,
    /// Idle, but it holds GPU memory.
    HoldsMemory,
    Nothing,
}

/// Its activity in the last period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LastActivity {
    Works,
    /// Idle, but it holds GPU memory.
    Holds,
    Nothing,
}

/// Who stopped a machine last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoppedBy {
    Owner,
    Curfew(model::rule::Rule),
}

pub(crate) struct SimulatedMachine {
    /// As EC2 describes it now.
    pub(crate) ec2: Instance,
    /// Counts the changes that a listing shows.
    pub(crate) version: u32,
    pub(crate) says: OwnerTags,
    pub(crate) make: MachineTraits,
    pub(crate) periods: MachinePeriods,
    pub(crate) work: MachineWork,
    /// The end of its owner's plan.
    pub(crate) work_until: i64,
    pub(crate) next_random_action: i64,
    /// When its owner adds the missing tags.
    pub(crate) tags_at: Option<i64>,
    /// Its owner wants it to run, once it can be started.
    pub(crate) wanted_up: bool,
    pub(crate) launched: i64,
    pub(crate) stopped_by: Option<StoppedBy>,
    /// The last change of tags by people, of state by any cause.
    pub(crate) changed_at: i64,
    /// The last change of tags by people alone.
    pub(crate) retagged_at: i64,
    /// `curfew:expires-at`, and since when it says so.
    pub(crate) expiry: (Option<i64>, i64),
    /// The last change of labels by the adversary.
    pub(crate) tampered_at: i64,
    /// The team before `retagged_at`.
    pub(crate) team_before: Option<&'static str>,
    /// The end of the last period with work, or its launch.
    pub(crate) idle_since: i64,
    pub(crate) does: LastActivity,
    /// When that last changed.
    pub(crate) work_changed_at: i64,
    pub(crate) gone_at: i64,
    pub(crate) stop_protection: StopProtection,
}

#[derive(Default)]
pub(crate) struct StopProtection {
    pub(crate) is_on: bool,
    /// When EC2 last refused a stop for it; 0 for never.
    pub(crate) refused_at: i64,
}

const TYPES: [(&str, u32, u32, u64); 7] = [
    ("g5.xlarge", 1, 4, 0),
    ("g6.xlarge", 1, 4, 250),
    ("g5.12xlarge", 4, 48, 0),
    ("g4dn.12xlarge", 4, 48, 900),
    ("p4d.24xlarge", 8, 96, 8000),
    ("g6e.48xlarge", 8, 192, 0),
    ("p5.48xlarge", 8, 192, 0),
];

fn draw_purchase(foreign: Option<ForeignController>, chance: &mut RandomStream) -> PurchaseOption {
    match chance.below(12) {
        _ if foreign == Some(ForeignController::CapacityBlock) => PurchaseOption::CapacityBlock,
        0 | 1 => PurchaseOption::SpotOneTime,
        2 => PurchaseOption::SpotPersistent,
        _ => PurchaseOption::OnDemand,
    }
}

impl SimulatedMachine {
    pub(crate) fn launch(number: u32, regions: usize, says: OwnerTags, now: i64, chance: &mut RandomStream) -> Self {
        let (name, gpus, vcpus, instance_storage_gb) = chance.pick(&TYPES);
        let (name, accelerator) =
            if chance.one_in(25) { ("trn1.32xlarge", Accelerator::Neuron) } else { (name, Accelerator::Nvidia) };
        let foreign = ForeignController::draw(chance);
        let purchase = draw_purchase(foreign, chance);
        let instrumented = match chance.below(10) {
            0 => Instrumentation::No,
            1 => Instrumentation::Half,
            _ => Instrumentation::Fully,
        };
        let prepaid = chance
            .one_in(12)
            .then(|| chance.pick(&[PrepaidCapacity::CapacityReservation, PrepaidCapacity::DedicatedHost]));
        let id = format!("i-{number:017x}");
        let host = format!("ip-10-0-{}-{}", number / 250, number % 250);
        let ec2 = Instance {
            id: id.as_str().into(),
            region: region(chance.below(regions)),
            instance_type: name.into(),
            state: InstanceState::Pending,
            launched_at: stamp(now),
            tags: says.tags(),
            purchase,
            root_on_instance_storage: chance.one_in(30),
            operator: (foreign == Some(ForeignController::Operator)).then(|| "eks.amazonaws.com".to_owned()),
            prepaid,
            placement_group: chance.one_in(5).then(|| format!("gang-{}", chance.below(2))),
            host: Some(host.clone()),
            machine: Type { accelerator, accelerators: gpus, vcpus, instance_storage_gb, ..Type::UNKNOWN },
            ..untagged().build()
        };
        let reporting = match instrumented {
            Instrumentation::Fully => gpus,
            Instrumentation::Half => gpus - 1,
            Instrumentation::No => 0,
        };
        let (by_host, has_detailed_monitoring) = (chance.one_in(4), number.is_multiple_of(2));
        let series = (0..reporting).map(|gpu| series_of(if by_host { Err(&host) } else { Ok(&id) }, gpu)).collect();
        let powered = chance.pick(&[0, gpus, gpus, gpus - 1]);
        let power = (0..powered).map(|gpu| power_series_of(&id, gpu)).collect();
        let mut machine = Self {
            ec2,
            version: 0,
            team_before: says.team(),
            expiry: (says.expires_at, now),
            tampered_at: 0,
            says,
            make: MachineTraits { foreign, instrumented, series, power, has_detailed_monitoring },
            periods: MachinePeriods::default(),
            work: MachineWork::Train,
            work_until: now,
            next_random_action: now + chance.ticks(TICK, 2 * DAY),
            tags_at: None,
            wanted_up: false,
            launched: now,
            stopped_by: None,
            changed_at: now,
            retagged_at: now,
            idle_since: now,
            work_changed_at: now,
            does: LastActivity::Works,
            gone_at: i64::MAX,
            stop_protection: StopProtection::default(),
        };
        machine.retag(now);
        machine
    }

    pub(crate) fn id(&self) -> &str {
        self.ec2.id.as_str()
    }

    /// `true` if both run in one placement group: a stop of one ends the work of the other.
    pub(crate) fn works_with(&self, other: &Self) -> bool {
        self.ec2.placement_group.is_some()
            && self.ec2.placement_group == other.ec2.placement_group
            && self.ec2.region == other.ec2.region
            && self.ec2.id != other.ec2.id
            && (self.is(InstanceState::Running) || self.is(InstanceState::Pending))
    }

    pub(crate) fn is(&self, state: InstanceState) -> bool {
        self.ec2.state == state
    }

    /// Whether a listing shows it.
    pub(crate) fn is_listed(&self) -> bool {
        self.ec2.state != InstanceState::Terminated
    }

    pub(crate) fn team_attribute(&self) -> &'static str {
        self.says.team().unwrap_or("untagged")
    }

    /// Writes the tags of its owner; those of Curfew stay.
    pub(crate) fn retag(&mut self, now: i64) {
        let mut tags = self.says.tags();
        let controller = match self.make.foreign {
            Some(ForeignController::AutoScaling) => Some("aws:autoscaling:groupName"),
            Some(ForeignController::Kubernetes) => Some("kubernetes.io/cluster/ml"),
            Some(ForeignController::Managed) => Some(MANAGED_TAG),
            Some(ForeignController::Operator | ForeignController::CapacityBlock) | None => None,
        };
        tags.extend(controller.map(|key| (key.to_owned(), "x".to_owned())));
        let labels = LABELS.iter().filter_map(|key| self.ec2.tags.remove_entry(*key));
        tags.extend(labels);
        if self.says.expires_at != self.expiry.0 {
            self.expiry = (self.says.expires_at, now);
        }
        self.ec2.tags = tags;
        self.version += 1;
        self.changed_at = now;
        self.retagged_at = now;
    }

    pub(crate) fn enter(&mut self, state: InstanceState, now: i64) {
        self.ec2.state = state;
        self.version += 1;
        self.changed_at = now;
    }

    /// Starts it; EC2 counts a new start.
    pub(crate) fn start(&mut self, now: i64) {
        self.enter(InstanceState::Pending, now);
        self.ec2.launched_at = stamp(now);
        self.ec2.state_reason = None;
        self.launched = now;
        self.idle_since = now;
        self.stopped_by = None;
        self.wanted_up = false;
    }

    /// EC2's own changes, a tick later.
    pub(crate) fn settle(&mut self, now: i64) {
        match self.ec2.state {
            InstanceState::Pending => self.enter(InstanceState::Running, now),
            InstanceState::Stopping => self.enter(InstanceState::Stopped, now),
            InstanceState::ShuttingDown => {
                self.enter(InstanceState::Terminated, now);
                self.gone_at = now;
            }
            _ => {}
        }
    }

    /// An accepted start fails.
    pub(crate) fn fall_back(&mut self, now: i64) {
        self.enter(InstanceState::Stopped, now);
        self.ec2.state_reason = Some("Client.InternalError".to_owned());
    }
}
