//! Every type that a job may use, the zones where the region offers it, and the account's subnets.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::time::Duration;

use aws_sdk_ec2::Client;
use aws_sdk_ec2::types::{
    ArchitectureType, GpuDeviceInfo, GpuInfo, InstanceTypeInfo, LocationType, NetworkCardInfo, NetworkInfo, Subnet,
    SubnetState, UsageClassType,
};
use jobs::efa::{InterfaceKind, NetworkCard, NetworkCards, SubnetAddresses};
use jobs::{MachineKind, TypeOffering, TypeOfferings, ZoneSubnet, ZoneSubnets};
use model::id::{Region, ResourceId, TypeName};

use crate::aws::Aws;
use crate::error::{CallError, call_error};
use crate::observe::pages::{PAGE_SIZE, all_pages};
use crate::observe::{DESCRIBE_TYPES, FILTER_VALUES_MAX, filter};

/// A longer ranking is useless: the next minute asks again.
const TIMEOUT: Duration = Duration::from_mins(1);
/// Families of every NVIDIA GPU (EC2 instance types guide, "Specifications for Amazon EC2 accelerated computing instances"). The list only
/// saves pages of the answer: the description decides what a type is.
const FAMILIES: [&str; 2] = ["g*", "p*"];
/// Compute, general purpose and memory optimised: the others have disks, or credits, that cost more than they give a job.
const CPU_FAMILIES: [&str; 3] = ["c*", "m*", "r*"];

const DESCRIBE_OFFERINGS: &str = "ec2:DescribeInstanceTypeOfferings";
const DESCRIBE_SUBNETS: &str = "ec2:DescribeSubnets";

/// The named types, or all of a kind except bare metal; and their zones.
pub(super) async fn offers(
    aws: &Aws,
    region: &Region,
    machine: MachineKind,
    named: &BTreeSet<TypeName>,
) -> Result<TypeOfferings, CallError> {
    let ec2 = aws.ec2(region);
    let asked = async {
        let kinds = kinds(&ec2, region, machine, named).await?;
        let zones = zones(&ec2, region, &kinds).await?;
        Ok(TypeOfferings { kinds, zones })
    };
    with_timeout(DESCRIBE_TYPES, region, asked).await
}

async fn with_timeout<T>(
    call: &'static str,
    region: &Region,
    asked: impl Future<Output = Result<T, CallError>>,
) -> Result<T, CallError> {
    let too_long = |_| Err(CallError::timed_out(call, region, TIMEOUT));
    tokio::time::timeout(TIMEOUT, asked).await.unwrap_or_else(too_long)
}

/// A type with what decides whether a job may get it without naming it.
struct DescribedType {
    offering: TypeOffering,
    /// `true` if it is no bare metal; a CPU type must be of this generation too, and without credits for its CPU.
    is_usual: bool,
}

/// Every type of a region with whole NVIDIA GPUs, except bare metal.
pub(crate) async fn all_kinds(aws: &Aws, region: &Region) -> Result<BTreeMap<TypeName, TypeOffering>, CallError> {
    let ec2 = aws.ec2(region);
    with_timeout(DESCRIBE_TYPES, region, kinds(&ec2, region, MachineKind::Gpu, &BTreeSet::new())).await
}

/// The named types, or all; by a filter, because one unknown name in `InstanceTypes` fails the whole call.
async fn kinds(
    ec2: &Client,
    region: &Region,
    machine: MachineKind,
    named: &BTreeSet<TypeName>,
) -> Result<BTreeMap<TypeName, TypeOffering>, CallError> {
    if !named.is_empty() {
        let mut kinds = Vec::new();
        for names in named.iter().map(TypeName::as_str).collect::<Vec<_>>().chunks(FILTER_VALUES_MAX) {
            kinds.extend(kinds_like(ec2, region, machine, names.iter().copied()).await?);
        }
        return Ok(kinds.into_iter().map(|(name, kind)| (name, kind.offering)).collect());
    }
    let families = match machine {
        MachineKind::Gpu => &FAMILIES[..],
        MachineKind::Cpu => &CPU_FAMILIES[..],
    };
    let mut kinds = kinds_like(ec2, region, machine, families.iter().copied()).await?;
    if kinds.is_empty() {
        // An emulator of EC2 may not know wildcards, and AWS may add a family with another name.
        kinds = kinds_like(ec2, region, machine, []).await?;
    }
    let usual = kinds.into_iter().filter(|(_, kind)| kind.is_usual);
    Ok(usual.map(|(name, kind)| (name, kind.offering)).collect())
}

/// The types with a name that matches one of the patterns; all, without patterns.
async fn kinds_like<'a>(
    ec2: &Client,
    region: &Region,
    machine: MachineKind,
    patterns: impl IntoIterator<Item = &'a str>,
) -> Result<BTreeMap<TypeName, DescribedType>, CallError> {
    let patterns: Vec<&str> = patterns.into_iter().collect();
    let mut call = ec2.describe_instance_types();
    if !patterns.is_empty() {
        call = call.filters(filter("instance-type", patterns));
    }
    let mut kinds = BTreeMap::new();
    all_pages(DESCRIBE_TYPES, region, async |token| {
        let page = call.clone().set_next_token(token).send().await;
        let page = page.map_err(|error| call_error(DESCRIBE_TYPES, region, &error))?;
        let named =
            |info: &InstanceTypeInfo| Some((TypeName::from(info.instance_type()?.as_str()), kind(info, machine)?));
        kinds.extend(page.instance_types().iter().filter_map(named));
        Ok(page.next_token)
    })
    .await?;
    Ok(kinds)
}

/// `None` for types that no job of that kind can use: with an accelerator, or without an NVIDIA GPU; with a part of one (it needs another driver
/// than that of the Deep Learning AMI); of an architecture without an agent; or sold only in Capacity Blocks.
fn kind(info: &InstanceTypeInfo, machine: MachineKind) -> Option<DescribedType> {
    let devices = info.gpu_info.as_ref().map(GpuInfo::gpus).unwrap_or_default();
    let is_nvidia = |gpu: &GpuDeviceInfo| gpu.manufacturer().is_some_and(|name| name.eq_ignore_ascii_case("nvidia"));
    let is_whole = |gpu: &GpuDeviceInfo| gpu.gpu_partition_size.is_none_or(|size| size >= 1.0);
    let gpus = devices.iter().map(|gpu| whole(gpu.count)).sum();
    let is_of_kind = match machine {
        MachineKind::Gpu => gpus > 0 && devices.iter().all(|gpu| is_nvidia(gpu) && is_whole(gpu)),
        MachineKind::Cpu => !has_accelerator(info),
    };
    let memory = |gpu: &GpuDeviceInfo| whole(gpu.memory_info.as_ref().and_then(|memory| memory.size_in_mib));
    let runs_on = info.processor_info.as_ref()?.supported_architectures();
    let architecture = match () {
        () if runs_on.contains(&ArchitectureType::X8664) => "x86_64",
        () if runs_on.contains(&ArchitectureType::Arm64) => "arm64",
        () => return None,
    };
    let sold = |class| info.supported_usage_classes().contains(&class);
    let memory_mib = info.memory_info.as_ref().and_then(|memory| memory.size_in_mib);
    let is_usual = machine == MachineKind::Gpu
        || info.current_generation == Some(true) && info.burstable_performance_supported != Some(true);
    (is_of_kind && sold(UsageClassType::OnDemand)).then(|| DescribedType {
        offering: TypeOffering {
            architecture,
            vcpus: whole(info.v_cpu_info.as_ref().and_then(|vcpus| vcpus.default_v_cpus)),
            memory_mib: memory_mib.and_then(|mib| u32::try_from(mib).ok()).unwrap_or_default(),
            gpus,
            gpu_name: devices.iter().find_map(GpuDeviceInfo::name).unwrap_or_default().to_owned(),
            gpu_memory_mib: devices.iter().map(memory).min().unwrap_or_default(),
            spot: sold(UsageClassType::Spot),
            cards: info.network_info.as_ref().map(network_cards).unwrap_or_default(),
        },
        is_usual: is_usual && info.bare_metal != Some(true),
    })
}

/// Never tried on AWS: that `InterfaceTypes` names `efa` and `efa-only` for each card that has EFA.
fn network_cards(info: &NetworkInfo) -> NetworkCards {
    let card = |card: &NetworkCardInfo| {
        let has = |kind: InterfaceKind| card.interface_types().iter().any(|one| one.as_str() == kind.as_str());
        Some(NetworkCard {
            index: u32::try_from(card.network_card_index?).ok()?,
            interfaces_max: whole(card.maximum_network_interfaces),
            has_efa: has(InterfaceKind::Efa),
            has_efa_only: has(InterfaceKind::EfaOnly),
        })
    };
    let mut cards: Vec<NetworkCard> = info.network_cards().iter().filter_map(card).collect();
    cards.sort_by_key(|card| card.index);
    let efas_max = info.efa_info.as_ref().and_then(|efa| efa.maximum_efa_interfaces);
    NetworkCards { cards, efas_max: whole(efas_max.filter(|_| info.efa_supported == Some(true))) }
}

fn has_accelerator(info: &InstanceTypeInfo) -> bool {
    info.gpu_info.is_some()
        || info.neuron_info.is_some()
        || info.inference_accelerator_info.is_some()
        || info.fpga_info.is_some()
        || info.media_accelerator_info.is_some()
}

fn whole(count: Option<i32>) -> u32 {
    count.and_then(|count| u32::try_from(count).ok()).unwrap_or_default()
}

/// The zones that offer these types. By exact names: a region has fewer than a filter takes.
async fn zones(
    ec2: &Client,
    region: &Region,
    kinds: &BTreeMap<TypeName, TypeOffering>,
) -> Result<BTreeSet<(TypeName, String)>, CallError> {
    let names: Vec<&str> = kinds.keys().map(TypeName::as_str).collect();
    let mut zones = BTreeSet::new();
    for names in names.chunks(FILTER_VALUES_MAX) {
        let call = ec2
            .describe_instance_type_offerings()
            .location_type(LocationType::AvailabilityZone)
            .filters(filter("instance-type", names.iter().copied()))
            .max_results(PAGE_SIZE);
        all_pages(DESCRIBE_OFFERINGS, region, async |token| {
            let page = call.clone().set_next_token(token).send().await;
            let page = page.map_err(|error| call_error(DESCRIBE_OFFERINGS, region, &error))?;
            let offers = page.instance_type_offerings().iter();
            let offered = offers.filter_map(|offer| Some((offer.instance_type()?, offer.location()?)));
            zones.extend(offered.map(|(name, zone)| (TypeName::from(name.as_str()), zone.to_owned())));
            Ok(page.next_token)
        })
        .await?;
    }
    Ok(zones)
}

/// One subnet a zone: from the named ones, or the default ones. By a filter, because the named subnets may be in several regions.
pub(super) async fn subnets(
    aws: &Aws,
    region: &Region,
    named: &BTreeSet<ResourceId>,
) -> Result<ZoneSubnets, CallError> {
    with_timeout(DESCRIBE_SUBNETS, region, all_subnets(&aws.ec2(region), region, named)).await
}

async fn all_subnets(ec2: &Client, region: &Region, named: &BTreeSet<ResourceId>) -> Result<ZoneSubnets, CallError> {
    let named: Vec<&str> = named.iter().map(ResourceId::as_str).collect();
    let wanted = if named.is_empty() {
        vec![filter("default-for-az", ["true"])]
    } else {
        named.chunks(FILTER_VALUES_MAX).map(|ids| filter("subnet-id", ids.iter().copied())).collect()
    };
    let mut best: BTreeMap<String, (i32, ZoneSubnet)> = BTreeMap::new();
    for wanted in wanted {
        let call = ec2.describe_subnets().filters(wanted).max_results(PAGE_SIZE);
        all_pages(DESCRIBE_SUBNETS, region, async |token| {
            let page = call.clone().set_next_token(token).send().await;
            let page = page.map_err(|error| call_error(DESCRIBE_SUBNETS, region, &error))?;
            for (zone, free, subnet) in page.subnets().iter().filter_map(usable) {
                let kept = best.entry(zone).or_insert_with(|| (free, subnet.clone()));
                if (free, &kept.1.addresses.subnet) > (kept.0, &subnet.addresses.subnet) {
                    *kept = (free, subnet);
                }
            }
            Ok(page.next_token)
        })
        .await?;
    }
    Ok(best.into_iter().map(|(zone, (_, subnet))| (zone, subnet)).collect())
}

/// Zone and free addresses of a subnet that can be launched in.
fn usable(subnet: &Subnet) -> Option<(String, i32, ZoneSubnet)> {
    let is_available = subnet.state.as_ref().is_none_or(|state| *state == SubnetState::Available);
    let free = subnet.available_ip_address_count.unwrap_or_default();
    let addresses = SubnetAddresses {
        subnet: ResourceId::new(subnet.subnet_id.clone()?),
        are_public: subnet.map_public_ip_on_launch,
    };
    let vpc = subnet.vpc_id.clone().map(ResourceId::new);
    is_available.then_some((subnet.availability_zone.clone()?, free, ZoneSubnet { addresses, vpc }))
}

#[cfg(test)]
mod tests;
