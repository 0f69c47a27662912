//! The network of a job on several machines, in a pool.

use std::collections::BTreeSet;

use super::CapacityPool;
use crate::efa::{SubnetAddresses, choose_interfaces};
use crate::{CandidateNetwork, JobTerms, LaunchObstacle, NetworkSpec};

/// The most reasons that are given.
const REASONS_MAX: usize = 3;

/// Chooses the network of each machine in that pool; `None` for a job on one machine.
pub(super) fn choose_network(
    terms: &JobTerms,
    pool: &CapacityPool,
) -> Option<Result<CandidateNetwork, LaunchObstacle>> {
    if !terms.is_gang() {
        return None;
    }
    let network = &pool.network;
    let subnet = SubnetAddresses { subnet: pool.subnet.clone(), are_public: network.are_addresses_public };
    let NetworkSpec { efa, placement } = terms.network.unwrap_or_default();
    let layout = choose_interfaces(efa, &pool.instance_type, &network.cards, &subnet);
    Some(layout.map(|layout| CandidateNetwork::new(network.vpc.clone(), layout, placement)))
}

/// Explains why no pool has the network that is required.
pub(super) fn describe_refusals(terms: &JobTerms, pools: &[&CapacityPool]) -> String {
    let refusals = pools.iter().filter_map(|pool| choose_network(terms, pool)?.err());
    let refusals: BTreeSet<String> = refusals.map(|why| why.to_string()).collect();
    let more = refusals.len().saturating_sub(REASONS_MAX);
    let mut shown: Vec<String> = refusals.into_iter().take(REASONS_MAX).collect();
    if more > 0 {
        shown.push(format!("{more} more"));
    }
    shown.join("; ")
}
