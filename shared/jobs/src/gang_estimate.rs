//! The estimate of a launch of several machines together, on the candidate that is tried first.

use model::id::TypeName;
use model::money::Rate;
use serde::Serialize;

use super::efa::EfaChoice;
use super::rank::show_exactly;
use super::{CandidateNetwork, CapacityPool, JobTerms, Lifecycle, Placement, QuotaCode, Ranking};

const BYTES_PER_GB: u64 = 1_000_000_000;
const BYTES_PER_GIB: u64 = 1 << 30;

/// The machines of a job on several machines, as they would be launched now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GangEstimate {
    pub nodes: u8,
    #[serde(rename = "type")]
    pub instance_type: TypeName,
    pub zone: String,
    pub lifecycle: Lifecycle,
    /// Highest price that they can cost, all together.
    pub rate_max: Rate,
    pub quota: Option<QuotaCode>,
    /// Number of vCPUs of all machines.
    pub vcpus: Option<u32>,
    /// Size of the root volume of each machine; `None` where EC2 does not say.
    pub root_volume_gib: Option<u32>,
    /// Network of each machine.
    #[serde(skip)]
    pub network: Option<Box<CandidateNetwork>>,
}

impl GangEstimate {
    /// Looks up the first candidate; `None` if there is none, or the job runs on one machine.
    #[must_use]
    pub fn from_ranking(terms: &JobTerms, ranking: &Ranking, pools: &[CapacityPool]) -> Option<Self> {
        let candidate = ranking.candidates.first().filter(|_| terms.is_gang())?;
        let pool = pools.iter().find(|pool| pool.instance_type == candidate.instance_type);
        let image = ranking.images.get(usize::from(candidate.image));
        let image_gib = image.map(|image| image.root_gib).filter(|gib| *gib > 0);
        Some(Self {
            nodes: terms.gpu.nodes,
            instance_type: candidate.instance_type.clone(),
            zone: candidate.zone.clone(),
            lifecycle: candidate.lifecycle,
            rate_max: candidate.rate_max,
            quota: candidate.quota.clone(),
            vcpus: pool.map(|pool| pool.vcpus.saturating_mul(u32::from(terms.gpu.nodes))),
            root_volume_gib: terms.machine.root_volume_gib.or(image_gib),
            network: candidate.network.clone(),
        })
    }

    /// One line each: the machines and their price, and their quota.
    #[must_use]
    pub fn describe(&self) -> Vec<String> {
        let bought = match self.lifecycle {
            Lifecycle::Spot => "on Spot",
            Lifecycle::OnDemand => "on demand",
        };
        let Self { nodes, instance_type, zone, .. } = self;
        let price = show_exactly(self.rate_max);
        let machines = format!(
            "{nodes} machines, all or nothing: {nodes} × {instance_type} {bought} in {zone}, at most {price} together"
        );
        let quota = self.quota.as_ref().zip(self.vcpus).map(|(QuotaCode(code), vcpus)| {
            // AWS takes no machine back that was bought on demand.
            let twice = match self.lifecycle {
                Lifecycle::Spot => {
                    format!(", {} to replace a warned gang without waiting", vcpus.saturating_mul(2))
                }
                Lifecycle::OnDemand => String::new(),
            };
            format!("quota {code}: {vcpus} vCPUs{twice}")
        });
        std::iter::once(machines).chain(quota).collect()
    }

    /// Warns of checkpoints that do not fit on the disk: each node restores the parts of all, beside the next one that is written.
    #[must_use]
    pub fn warn_of_disk(&self, terms: &JobTerms) -> Option<String> {
        let size_gb = terms.checkpoint.as_ref()?.size_gb?;
        let gib = self.root_volume_gib?;
        let needed_gb = u64::from(size_gb).saturating_mul(2);
        (needed_gb.saturating_mul(BYTES_PER_GB) > u64::from(gib).saturating_mul(BYTES_PER_GIB)).then(|| {
            format!(
                "each machine holds two checkpoints of {size_gb} GB, the one that it restores and the next: {needed_gb} GB, and its root volume \
                 has {gib} GiB; write `machine.root_volume_gib`"
            )
        })
    }
}

impl JobTerms {
    /// Describes the network and the checkpoints of a job on several machines; `None` for any other job. Without a place for its machines, by the
    /// wish alone: type and subnet decide what it can have.
    #[must_use]
    pub fn describe_network(&self, placed: Option<&CandidateNetwork>) -> Option<String> {
        let wish = self.network.filter(|_| self.is_gang())?;
        let network = placed.map_or_else(
            || {
                let efa = match wish.efa {
                    EfaChoice::Auto => "EFA unknown",
                    EfaChoice::Required => "EFA, which is required",
                    EfaChoice::Off => "no EFA",
                };
                let is_clustered = wish.placement == Some(Placement::Cluster)
                    || (wish.placement.is_none() && wish.efa == EfaChoice::Required);
                CandidateNetwork { efa: Some(efa.to_owned()), is_clustered, ..CandidateNetwork::default() }.describe()
            },
            CandidateNetwork::describe,
        );
        let checkpoints = match self.checkpoint {
            Some(_) => "checkpoints: all nodes restore all parts",
            None => "no checkpoints: a lost machine begins it anew",
        };
        Some(format!("network: {network}; {checkpoints}"))
    }
}

#[cfg(test)]
mod tests {
    use model::fixture::time;

    use super::*;
    use crate::PoolNetwork;
    use crate::next::tests::fixture::{ranking, terms};
    use crate::{CheckpointSpec, NetworkSpec};

    const NOW: &str = "2026-11-22T05:00:00Z";

    fn four() -> JobTerms {
        let alone = terms();
        JobTerms {
            gpu: crate::GpuSpec { nodes: 4, ..alone.gpu.clone() },
            network: Some(NetworkSpec::default()),
            ..alone
        }
    }

    fn estimate(change: impl FnOnce(&mut Ranking)) -> GangEstimate {
        let mut ranking = ranking(time(NOW));
        ranking.candidates[0].rate_max = Rate::from_usd_micros_per_hour(18_406_400);
        change(&mut ranking);
        let pool = CapacityPool {
            region: "us-east-1".into(),
            zone: "us-east-1a".to_owned(),
            subnet: "subnet-1".into(),
            instance_type: ranking.candidates[0].instance_type.clone(),
            architecture: "x86_64".to_owned(),
            gpus: 4,
            gpu_name: String::new(),
            gpu_memory_mib: 22_888,
            vcpus: 48,
            memory_mib: 1,
            spot: true,
            network: PoolNetwork::default(),
        };
        GangEstimate::from_ranking(&four(), &ranking, &[pool]).unwrap()
    }

    #[test]
    fn the_machines_their_price_and_their_quota_are_named() {
        let on_spot = estimate(|ranking| ranking.candidates[0].quota = Some(QuotaCode("L-3819A6DF".to_owned())));
        let zone = &on_spot.zone;
        assert_eq!(
            on_spot.describe(),
            [
                format!("4 machines, all or nothing: 4 × g6.xlarge on Spot in {zone}, at most $18.4064/h together"),
                "quota L-3819A6DF: 192 vCPUs, 384 to replace a warned gang without waiting".to_owned(),
            ]
        );
        let on_demand = GangEstimate { lifecycle: Lifecycle::OnDemand, ..on_spot.clone() };
        assert_eq!(on_demand.describe()[1], "quota L-3819A6DF: 192 vCPUs");
        // What is unknown is left out.
        assert_eq!(GangEstimate { vcpus: None, ..on_spot }.describe().len(), 1);
        assert_eq!(GangEstimate::from_ranking(&terms(), &ranking(time(NOW)), &[]), None);
    }

    #[test]
    fn two_checkpoints_have_to_fit_on_the_root_volume() {
        let of = |size_gb: Option<u32>| {
            let checkpoint = terms().checkpoint.map(|checkpoint| CheckpointSpec { size_gb, ..checkpoint });
            JobTerms { checkpoint, ..four() }
        };
        let estimate = estimate(|ranking| ranking.images[0].root_gib = 100);
        assert_eq!(estimate.root_volume_gib, Some(100));
        // 100 GiB are 107.4 GB.
        assert_eq!(estimate.warn_of_disk(&of(Some(53))), None);
        let words = "each machine holds two checkpoints of 54 GB, the one that it restores and the next: 108 GB, and its root volume has 100 GiB; \
                     write `machine.root_volume_gib`";
        assert_eq!(estimate.warn_of_disk(&of(Some(54))).as_deref(), Some(words));
        assert_eq!(estimate.warn_of_disk(&of(None)), None);
        assert_eq!(GangEstimate { root_volume_gib: None, ..estimate }.warn_of_disk(&of(Some(u32::MAX))), None);
    }

    #[test]
    fn the_network_is_that_of_the_first_candidate() {
        let placed = |efa: Option<&str>, is_clustered| {
            let network = CandidateNetwork { efa: efa.map(str::to_owned), is_clustered, ..CandidateNetwork::default() };
            let estimate = estimate(|ranking| ranking.candidates[0].network = Some(Box::new(network)));
            four().describe_network(estimate.network.as_deref()).unwrap()
        };
        let checkpoints = "checkpoints: all nodes restore all parts";
        let full = format!("network: EFA, 1 card each, placement group; {checkpoints}");
        assert_eq!(placed(Some("EFA, 1 card each"), true), full);
        let fewer = "EFA: 1 of 4 cards, because subnet-1 gives public addresses only to machines with one interface";
        assert_eq!(placed(Some(fewer), false), format!("network: {fewer}; {checkpoints}"));
        assert_eq!(placed(None, true), format!("network: no EFA, placement group; {checkpoints}"));
    }

    #[test]
    fn a_network_without_a_place_is_described_by_the_wish() {
        let check = |efa, placement, expect: &str| {
            let network = Some(NetworkSpec { efa, placement });
            let described = JobTerms { network, ..four() }.describe_network(None).unwrap();
            assert_eq!(described, format!("network: {expect}; checkpoints: all nodes restore all parts"));
        };
        check(EfaChoice::Auto, None, "EFA unknown");
        check(EfaChoice::Required, None, "EFA, which is required, placement group");
        check(EfaChoice::Off, None, "no EFA");
        check(EfaChoice::Off, Some(Placement::Cluster), "no EFA, placement group");
        check(EfaChoice::Auto, Some(Placement::None), "EFA unknown");
        assert_eq!(terms().describe_network(None), None);
    }
}
