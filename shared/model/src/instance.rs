//! GPU instances as Curfew sees them.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::Serialize;

use crate::curfew_tags::JOB;
use crate::id::{Region, ResourceId, TypeName};
use crate::observation::{Gap, GapKind, Observation};

/// Every tag of one resource.
pub type Tags = BTreeMap<String, String>;

/// One instance, as `DescribeInstances` returns it, with the facts of its type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Instance {
    pub id: ResourceId,
    pub region: Region,
    /// Its availability zone, by name, such as `us-east-1a`, where EC2 says so.
    pub zone: Option<String>,
    pub instance_type: TypeName,
    /// State of the instance, as EC2 sees it.
    pub state: InstanceState,
    /// Launch of its present life: a start of a stopped instance sets it anew.
    pub launched_at: Timestamp,
    /// Every tag, AWS's own included.
    pub tags: Tags,
    /// Purchase option of the instance.
    pub purchase: PurchaseOption,
    /// `true` if its root lies on instance storage, so that it cannot be stopped.
    pub root_on_instance_storage: bool,
    /// The service that manages it (`Operator.Principal`), where one does.
    pub operator: Option<String>,
    /// Capacity of the instance that is paid for even if it does not run.
    pub prepaid: Option<PrepaidCapacity>,
    /// The capacity reservation that it runs in. A Capacity Block is one too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity_reservation: Option<ResourceId>,
    /// The placement group that it runs in, by name; `None` also for one of strategy `partition`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement_group: Option<String>,
    /// `true` if it runs plain Linux/UNIX on shared hardware, the subject of the price table.
    pub plain_linux: bool,
    /// The first label of its private DNS name, where no other instance of the region has the same.
    pub host: Option<String>,
    /// Reason for its state, if EC2 gives one: `StateReason.Code`.
    pub state_reason: Option<String>,
    pub machine: InstanceTypeFacts,
}

/// `InstanceState.Name`, of instances that are not terminated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum InstanceState {
    /// Starting.
    Pending,
    /// Running, and billed.
    Running,
    /// Changing to stopped.
    Stopping,
    Stopped,
    /// Changing to terminated.
    ShuttingDown,
    /// Gone; seen only when one instance is read again.
    Terminated,
    /// Something that EC2 did not have when this was written.
    Unknown,
}

/// Purchase option of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PurchaseOption {
    /// Paid by the second.
    OnDemand,
    /// Spot, for one life: it cannot be stopped.
    SpotOneTime,
    /// Spot, by a request that launches it again.
    SpotPersistent,
    /// Spot, by a request that could not be read.
    SpotUnknown,
    /// A Capacity Block, paid in advance.
    CapacityBlock,
    /// An interruptible Capacity Reservation, whose owner reclaims it like Spot (EC2 user guide, "Interruptible Capacity Reservations").
    InterruptibleReservation,
}

/// Capacity that is paid for whether or not the instance runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PrepaidCapacity {
    /// An on-demand capacity reservation.
    CapacityReservation,
    DedicatedHost,
}

/// Facts of an instance type, from `DescribeInstanceTypes`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct InstanceTypeFacts {
    /// The maker of the accelerator.
    pub accelerator: Accelerator,
    /// Number of accelerators; logical ones where the type has a fraction of a GPU.
    pub accelerators: u32,
    /// The memory of the largest of them, in MiB; 0 where EC2 does not say.
    pub accelerator_memory_mib: u32,
    /// Virtual CPUs.
    pub vcpus: u32,
    /// NVMe instance storage in GB, lost on stop; 0 if there is none.
    pub instance_storage_gb: u64,
}

/// The kinds of accelerator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Accelerator {
    /// An NVIDIA GPU.
    Nvidia,
    /// An AMD GPU.
    Amd,
    /// AWS Trainium or Inferentia.
    Neuron,
    /// Anything else, such as Habana Gaudi.
    Other,
    /// No accelerator: the machine of a CPU job.
    None,
}

/// One instance before its type is known.
#[derive(Debug, Clone)]
pub struct DescribedInstance {
    pub private_dns_name: Option<String>,
    /// The instance, with facts of its type that are not yet true.
    pub instance: Instance,
}

impl Instance {
    /// Returns the reason code of a failed last start of a stopped instance; `None` if it did not fail. A start may be accepted and still
    /// come to nothing (EC2 user guide, "Troubleshoot instance launch issues", "Instance terminates immediately").
    #[must_use]
    pub fn last_start_failed(&self) -> Option<&str> {
        self.state_reason
            .as_deref()
            .filter(|code| code.contains("InternalError") || code.contains("InsufficientInstanceCapacity"))
    }

    /// The command that gives up the on-demand capacity reservation it runs in; `None` where that is unknown. Until then AWS bills the
    /// capacity, whether or not it is used (EC2 user guide, "Capacity Reservation pricing and billing"); from then on the instance runs on
    /// demand ("Cancel a Capacity Reservation"). A Capacity Block cannot be given up, and an interruptible one is its owner's.
    #[must_use]
    pub fn release_command(&self) -> Option<String> {
        let is_on_demand =
            self.prepaid == Some(PrepaidCapacity::CapacityReservation) && self.purchase == PurchaseOption::OnDemand;
        let id = self.capacity_reservation.as_ref().filter(|_| is_on_demand)?;
        let region = &self.region;
        Some(format!("aws ec2 cancel-capacity-reservation --region {region} --capacity-reservation-id {id}"))
    }

    /// The remedy for a failed start, where no later start succeeds by itself: as a rule EC2 may not use a key (AWS re:Post, knowledge
    /// center, `kms-iam-ec2-permission`). Failures of AWS's own, `Server.*`, pass.
    #[must_use]
    pub fn start_remedy(&self) -> Option<String> {
        let Self { id, region, .. } = self;
        self.last_start_failed().filter(|code| *code == "Client.InternalError").map(|_| {
            format!(
                "as a rule EC2 may not use the KMS key of one of its encrypted volumes: name that key in the stack's parameter \
                 VolumeKeyArns (aws ec2 describe-volumes --region {region} --filters Name=attachment.instance-id,Values={id} \
                 --query 'Volumes[].KmsKeyId')"
            )
        })
    }
}

impl InstanceTypeFacts {
    /// Placeholder until the type is known.
    pub const UNKNOWN: Self = Self {
        accelerator: Accelerator::Other,
        accelerators: 0,
        accelerator_memory_mib: 0,
        vcpus: 0,
        instance_storage_gb: 0,
    };
}

/// The answer of `DescribeInstanceTypes` about the types: `None` for those without an accelerator.
pub type InstanceTypes = BTreeMap<TypeName, Option<InstanceTypeFacts>>;

/// Keeps the accelerated instances of one region, and the machines of CPU jobs by their tag, and adds to each its type's facts and, if it is
/// unique, its host name. A type that could not be described is a gap: its instances cannot be judged.
#[must_use]
pub fn accelerated(
    region: &Region,
    described: Vec<DescribedInstance>,
    machines: &InstanceTypes,
) -> Observation<Instance> {
    let hosts = unique_hosts(&described);
    let mut seen = Observation::default();
    let mut unknown_types: BTreeMap<TypeName, usize> = BTreeMap::new();
    for DescribedInstance { private_dns_name, instance } in described {
        match machines.get(&instance.instance_type) {
            Some(Some(machine)) => {
                let host = private_dns_name
                    .as_deref()
                    .map(first_label)
                    .filter(|host| hosts.contains(*host))
                    .map(str::to_owned);
                seen.items.push(Instance { machine: machine.clone(), host, ..instance });
            }
            Some(None) if instance.tags.contains_key(JOB) => {
                let machine = InstanceTypeFacts { accelerator: Accelerator::None, ..InstanceTypeFacts::UNKNOWN };
                seen.items.push(Instance { machine, host: None, ..instance });
            }
            Some(None) => {}
            None => *unknown_types.entry(instance.instance_type).or_default() += 1,
        }
    }
    seen.gaps.extend(unknown_types.into_iter().map(|(type_name, count)| {
        Gap::new(
            region,
            "ec2:DescribeInstanceTypes",
            format!("the type {type_name} was not described, so its {count} instance(s) were not judged"),
            GapKind::Listing,
        )
    }));
    seen
}

/// The `CloudWatch` agent's `host` is the host name, with or without its domain; private DNS names repeat across VPCs.
#[must_use]
pub fn first_label(host: &str) -> &str {
    host.split('.').next().unwrap_or(host)
}

fn unique_hosts(described: &[DescribedInstance]) -> BTreeSet<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for name in described.iter().filter_map(|one| one.private_dns_name.as_deref()).filter(|name| !name.is_empty()) {
        *counts.entry(first_label(name)).or_default() += 1;
    }
    counts.into_iter().filter(|(_, count)| *count == 1).map(|(host, _)| host.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{InstanceBuilder, instance};

    fn described(of: InstanceBuilder, private_dns_name: &str) -> DescribedInstance {
        let instance = Instance { machine: InstanceTypeFacts::UNKNOWN, ..of.build() };
        DescribedInstance { private_dns_name: Some(private_dns_name.to_owned()), instance }
    }

    fn machines() -> InstanceTypes {
        let g5 = InstanceTypeFacts {
            accelerator: Accelerator::Nvidia,
            accelerators: 1,
            vcpus: 4,
            instance_storage_gb: 250,
            ..InstanceTypeFacts::UNKNOWN
        };
        InstanceTypes::from([("g5.xlarge".into(), Some(g5)), ("m7i.large".into(), None)])
    }

    /// `id host`, of those that are kept, and the gaps.
    fn check(of: Vec<DescribedInstance>, expect: &[&str], gaps: &[&str]) {
        let seen = accelerated(&"us-east-1".into(), of, &machines());
        let found: Vec<String> = seen
            .items
            .iter()
            .map(|instance| format!("{} {}", instance.id, instance.host.as_deref().unwrap_or("-")))
            .collect();
        assert_eq!(found, expect);
        let found: Vec<&str> = seen.gaps.iter().map(|gap| gap.error.as_str()).collect();
        assert_eq!(found, gaps);
    }

    #[test]
    fn accelerated_instances_get_the_facts_of_their_type() {
        check(
            vec![
                described(instance().id("i-1"), "ip-10-0-0-1.ec2.internal"),
                described(instance().id("i-2").of_type("m7i.large"), "ip-10-0-0-2.ec2.internal"),
            ],
            &["i-1 ip-10-0-0-1"],
            &[],
        );
        let seen = accelerated(&"us-east-1".into(), vec![described(instance(), "")], &machines());
        assert_eq!(seen.items[0].machine, machines()[&TypeName::from("g5.xlarge")].clone().unwrap());
        assert_eq!(seen.items[0].host, None);
    }

    #[test]
    fn an_on_demand_reservation_can_be_given_up() {
        let check =
            |of: InstanceBuilder, expect: Option<&str>| assert_eq!(of.build().release_command().as_deref(), expect);
        let command = "aws ec2 cancel-capacity-reservation --region us-east-1 --capacity-reservation-id cr-0abc";
        check(instance(), None);
        check(instance().in_reservation("cr-0abc"), Some(command));
        check(instance().in_reservation("cr-0abc").purchase(PurchaseOption::CapacityBlock), None);
        check(instance().in_reservation("cr-0abc").purchase(PurchaseOption::InterruptibleReservation), None);
        check(instance().in_reservation("cr-0abc").prepaid(PrepaidCapacity::DedicatedHost), None);
        check(instance().prepaid(PrepaidCapacity::CapacityReservation), None);
    }

    #[test]
    fn the_machine_of_a_cpu_job_is_kept_by_its_tag() {
        let job = instance().id("i-3").of_type("m7i.large").tag(JOB, "vision/prepare-1a2b3c4d");
        check(
            vec![described(instance().id("i-2").of_type("m7i.large"), ""), described(job, "ip-10-0-0-3")],
            &["i-3 -"],
            &[],
        );
    }

    #[test]
    fn a_repeated_host_name_identifies_no_instance() {
        check(
            vec![
                described(instance().id("i-1"), "ip-10-0-0-1.ec2.internal"),
                described(instance().id("i-2").of_type("m7i.large"), "ip-10-0-0-1.other.internal"),
                described(instance().id("i-3"), "ip-10-0-0-3.ec2.internal"),
            ],
            &["i-1 -", "i-3 ip-10-0-0-3"],
            &[],
        );
    }

    #[test]
    fn a_type_that_was_not_described_is_a_gap() {
        check(
            vec![
                described(instance().id("i-1").of_type("p9.48xlarge"), "a"),
                described(instance().id("i-2").of_type("p9.48xlarge"), "b"),
                described(instance().id("i-3"), "c"),
            ],
            &["i-3 c"],
            &["the type p9.48xlarge was not described, so its 2 instance(s) were not judged"],
        );
    }
}
