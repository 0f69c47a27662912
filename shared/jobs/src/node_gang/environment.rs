//! The environment by which `torchrun train.py` joins the nodes of a round, without an argument.

use std::collections::BTreeMap;

use jiff::SignedDuration;

use super::{GangMember, GangRound, Node};

/// Directories of NCCL's plugin for EFA and of libfabric (NVIDIA-NeMo/RL#1973).
const EFA_LIBRARIES: &str = "/opt/amazon/aws-ofi-nccl/lib:/opt/amazon/efa/lib";

/// The facts of a node's environment.
#[derive(Debug, Clone, Copy)]
pub struct NodeEnvironment<'a> {
    pub node: Node,
    pub member: &'a GangMember,
    pub round: &'a GangRound,
    /// Time that the command gets to end after its signal.
    pub grace: SignedDuration,
    /// `LD_LIBRARY_PATH` of the agent, if it has one.
    pub library_path: Option<&'a str>,
}

/// The variables of a node, in a fixed order, without those that the job's own `env` sets.
// torchrun reads `PET_…` (torch, argparse_util.py). Measured with torch 2.15: with these it joins two nodes without an argument, by the static
// rendezvous, where the rank is the node's number. A local restart cannot rejoin it, hence `PET_MAX_RESTARTS`. `TORCH_ELASTIC_SHUTDOWN_TIMEOUT`:
// pytorch/pytorch#172596; older releases ignore it.
#[must_use]
pub fn node_variables(node: NodeEnvironment<'_>, job_env: &BTreeMap<String, String>) -> Vec<(String, String)> {
    let NodeEnvironment { node, member, round, grace, library_path } = node;
    let address = round.addresses.first().map(ToString::to_string).unwrap_or_default();
    let (nodes, rank, port) = (round.addresses.len().to_string(), node.to_string(), round.port.to_string());
    let interface = member.interface.clone();
    let mut all = vec![
        ("MASTER_ADDR", address.clone()),
        ("MASTER_PORT", port.clone()),
        ("NNODES", nodes.clone()),
        ("NODE_RANK", rank.clone()),
        ("PET_NNODES", nodes),
        ("PET_NODE_RANK", rank),
        ("PET_NPROC_PER_NODE", member.gpus.max(1).to_string()),
        ("PET_MASTER_ADDR", address),
        ("PET_MASTER_PORT", port),
        ("PET_MAX_RESTARTS", "0".to_owned()),
        ("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", grace.as_secs().max(1).to_string()),
        ("GLOO_SOCKET_IFNAME", interface.clone()),
        ("NCCL_SOCKET_IFNAME", interface),
    ];
    if member.efa_cards > 0 {
        let libraries = match library_path.filter(|path| !path.is_empty()) {
            Some(path) => format!("{EFA_LIBRARIES}:{path}"),
            None => EFA_LIBRARIES.to_owned(),
        };
        all.push(("FI_PROVIDER", "efa".to_owned()));
        all.push(("LD_LIBRARY_PATH", libraries));
    }
    let own = all.into_iter().filter(|(name, _)| !job_env.contains_key(*name));
    own.map(|(name, value)| (name.to_owned(), value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node_gang::tests::member;

    fn variables(efa_cards: u32, job_env: &[(&str, &str)]) -> Vec<String> {
        let member = GangMember { efa_cards, ..member(1) };
        let round =
            GangRound { addresses: vec![[10, 0, 1, 10].into(), member.address], port: 29_501, checkpoint: None };
        let grace = SignedDuration::from_secs(110);
        let node = NodeEnvironment { node: 1, member: &member, round: &round, grace, library_path: Some("/lib") };
        let job_env = job_env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        node_variables(node, &job_env).into_iter().map(|(name, value)| format!("{name}={value}")).collect()
    }

    #[test]
    fn torchrun_joins_without_an_argument() {
        let plain = "MASTER_ADDR=10.0.1.10 MASTER_PORT=29501 NNODES=2 NODE_RANK=1 PET_NNODES=2 PET_NODE_RANK=1 \
                     PET_NPROC_PER_NODE=4 PET_MASTER_ADDR=10.0.1.10 PET_MASTER_PORT=29501 PET_MAX_RESTARTS=0 \
                     TORCH_ELASTIC_SHUTDOWN_TIMEOUT=110 GLOO_SOCKET_IFNAME=ens5 NCCL_SOCKET_IFNAME=ens5";
        assert_eq!(variables(0, &[]).join(" "), plain);
        let efa = "FI_PROVIDER=efa LD_LIBRARY_PATH=/opt/amazon/aws-ofi-nccl/lib:/opt/amazon/efa/lib:/lib";
        assert_eq!(variables(1, &[]).join(" "), format!("{plain} {efa}"));
    }

    #[test]
    fn the_job_s_own_variables_win() {
        let own = variables(1, &[("NCCL_SOCKET_IFNAME", "^lo"), ("LD_LIBRARY_PATH", "/x")]);
        assert!(!own.iter().any(|line| line.starts_with("NCCL_SOCKET") || line.starts_with("LD_LIBRARY")));
        assert_eq!(own.len(), 13);
    }
}
