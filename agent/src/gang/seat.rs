//! The machine's place in its gang, as the instance metadata and the kernel say it, and its parts of checkpoints.

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use jobs::checkpoints::Tracker;
use jobs::node_gang::{GangLaunch, GangMember, JOIN_TIMEOUT, Node, POLL_EVERY};
use jobs::{Checkpoint, MachineIdentity};
use model::fault::shortened;
use store::NodePart;
use tokio::sync::Notify;

use crate::agent::Agent;
use crate::agent_error::AgentError;
use crate::{gpu, notice};

const LAUNCH_INDEX: &str = "/latest/meta-data/ami-launch-index";
const ADDRESS: &str = "/latest/meta-data/local-ipv4";

/// The routes of IPv4 (Linux manual, `proc_pid_net(5)`), and the devices of RDMA.
const ROUTES: &str = "/proc/net/route";
const RDMA_DEVICES: &str = "/sys/class/infiniband";

/// `RTF_UP` of `linux/route.h`.
const ROUTE_IS_UP: u32 = 1;

#[derive(Debug)]
pub(crate) struct GangSeat {
    pub(crate) launch: GangLaunch,
    pub(crate) node: Node,
    pub(crate) member: GangMember,
    /// The reason for which the machine cannot be a member.
    pub(crate) problem: Option<String>,
    /// Signals that work in the background has ended.
    pub(crate) wake: Notify,
    /// Held by the one upload of the log.
    pub(crate) uploads_log: tokio::sync::Mutex<()>,
    parts: Mutex<OwnParts>,
}

/// The node's own parts of this attempt's steps.
#[derive(Debug, Default)]
struct OwnParts {
    put: Vec<Checkpoint>,
    has_written: bool,
    has_news: bool,
    /// True if the directory has a step, whole or not, that is not uploaded.
    has_unkept: bool,
    /// Number of the command's processes; 0: not known.
    processes: u32,
    /// Steps of which peers have put their parts, and this node has not.
    awaited: BTreeSet<u64>,
    /// Number of the empty parts that this node has put: peers write those steps.
    empty_parts: u32,
}

impl GangSeat {
    fn parts(&self) -> MutexGuard<'_, OwnParts> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The facts of a part that is uploaded now.
    pub(crate) fn part(&self, unverified: bool, trackers: Vec<Tracker>) -> NodePart {
        let processes = self.parts().processes;
        NodePart { gang: self.launch.clone(), node: self.node, processes, unverified, trackers }
    }

    pub(crate) fn note_part(&self, checkpoint: Checkpoint) {
        let mut parts = self.parts();
        parts.put.push(checkpoint);
        (parts.has_written, parts.has_news) = (true, true);
        drop(parts);
        self.wake.notify_one();
    }

    pub(crate) fn has_put(&self, checkpoint: Checkpoint) -> bool {
        self.parts().put.contains(&checkpoint)
    }

    /// The own parts that head does not name.
    pub(crate) fn unnamed_parts(&self, named: &[Checkpoint]) -> Vec<Checkpoint> {
        self.parts().put.iter().filter(|part| !named.contains(part)).copied().collect()
    }

    /// True if an own part is newer than the newest step of this attempt in head.
    pub(crate) fn is_ahead_of(&self, newest: Option<Checkpoint>) -> bool {
        let place = |part: &Checkpoint| (part.step, part.rewrite);
        let newest = newest.filter(|newest| newest.attempt == self.launch.attempt);
        self.parts().put.iter().any(|part| newest.is_none_or(|newest| place(&newest) < place(part)))
    }

    /// Forgets a part that was deleted.
    pub(crate) fn forget_part(&self, checkpoint: Checkpoint) {
        self.parts().put.retain(|part| *part != checkpoint);
    }

    /// Returns once whether a part was put since the last call.
    pub(crate) fn take_news(&self) -> bool {
        std::mem::take(&mut self.parts().has_news)
    }

    pub(crate) fn set_unkept(&self, has_unkept: bool) {
        self.parts().has_unkept = has_unkept;
    }

    pub(crate) fn has_unkept(&self) -> bool {
        self.parts().has_unkept
    }

    /// True if this node has written a step, or may be writing one.
    pub(crate) fn writes(&self) -> bool {
        let parts = self.parts();
        parts.has_written || parts.has_unkept
    }

    pub(crate) fn note_empty_part(&self) {
        let mut parts = self.parts();
        parts.empty_parts = parts.empty_parts.saturating_add(1);
    }

    /// True if this node tells the owner of steps that are missing. One that writes none, as all but rank 0's with `torch.save`, leaves that to those
    /// that do; where no node is known to write any, node 0 tells it.
    pub(crate) fn answers_for_steps(&self) -> bool {
        self.writes() || (self.node == 0 && self.parts().empty_parts == 0)
    }

    /// Sets the number of the command's processes, unless it is not known.
    pub(crate) fn set_processes(&self, processes: u32) {
        if processes > 0 {
            self.parts().processes = processes;
        }
    }

    pub(crate) fn set_awaited(&self, awaited: BTreeSet<u64>) {
        self.parts().awaited = awaited;
    }

    pub(crate) fn is_awaited(&self, step: u64) -> bool {
        self.parts().awaited.contains(&step)
    }
}

/// Finds the place, and retries while the metadata do not answer.
///
/// # Errors
/// The machine's number is not known, so it can leave no word.
pub(super) async fn find_seat(agent: &Agent) -> Result<GangSeat, AgentError> {
    let MachineIdentity { job, attempt, launch, nodes, .. } = agent.identity.clone();
    let launch = GangLaunch { job, attempt, launch, nodes };
    if !launch.is_valid() {
        return Err(AgentError::new(format!("its identity names no launch of a gang of {nodes} machines")));
    }
    let node = read_metadata(agent, LAUNCH_INDEX).await?;
    let node = parse_node(&node, nodes)?;
    let instance = read_metadata(agent, notice::INSTANCE_ID).await?;
    let address = match read_metadata(agent, ADDRESS).await {
        Ok(text) => text.trim().parse::<IpAddr>().map_err(|_| format!("`{}` is no address", shortened(&text, 100))),
        Err(error) => Err(error.to_string()),
    };
    let interface = fs::read_to_string(ROUTES).ok().and_then(|routes| find_interface(&routes));
    let interface = interface.ok_or_else(|| format!("{ROUTES} has no default route, so its interface is not known"));
    let (address, no_address) = or_problem(address, Ipv4Addr::UNSPECIFIED.into());
    let (interface, no_interface) = or_problem(interface, "none".to_owned());
    let gpus = u32::try_from(gpu::count().await).unwrap_or(0);
    let efa_cards = count_efa_cards(Path::new(RDMA_DEVICES));
    let member = GangMember { instance: instance.trim().into(), address, interface, gpus, efa_cards };
    let unfit = || member.check().err().map(|wrong| wrong.to_string());
    let problem = no_address.or(no_interface).or_else(unfit);
    let problem = problem.map(|why| format!("the machine cannot be a member of its gang: {why}"));
    Ok(GangSeat {
        launch,
        node,
        member,
        problem,
        wake: Notify::new(),
        uploads_log: tokio::sync::Mutex::default(),
        parts: Mutex::default(),
    })
}

fn or_problem<T>(found: Result<T, String>, otherwise: T) -> (T, Option<String>) {
    match found {
        Ok(found) => (found, None),
        Err(why) => (otherwise, Some(why)),
    }
}

async fn read_metadata(agent: &Agent, path: &'static str) -> Result<String, AgentError> {
    let begun = Instant::now();
    loop {
        let why = match notice::get(&notice::client(), path).await {
            Ok(Some(text)) => return Ok(text),
            Ok(None) => "they do not have it".to_owned(),
            Err(error) => error.to_string(),
        };
        if begun.elapsed() >= agent.pace.wait(JOIN_TIMEOUT) || agent.end_cause().is_some() {
            return Err(AgentError::new(format!("the instance metadata do not say {path}: {why}")));
        }
        agent.pace.sleep(POLL_EVERY).await;
    }
}

fn parse_node(text: &str, nodes: Node) -> Result<Node, AgentError> {
    let node = text.trim().parse().ok().filter(|node| *node < nodes);
    node.ok_or_else(|| AgentError::new(format!("`{}` is no number of {nodes} nodes", shortened(text, 100))))
}

/// The interface of the default route with the lowest metric.
fn find_interface(routes: &str) -> Option<String> {
    let default = routes.lines().skip(1).filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (interface, flags, metric) = (fields.first()?, fields.get(3)?, fields.get(6)?.parse::<u32>().ok()?);
        let is_up = u32::from_str_radix(flags, 16).is_ok_and(|flags| flags & ROUTE_IS_UP != 0);
        let is_default = *fields.get(1)? == "00000000" && *fields.get(7)? == "00000000";
        (is_up && is_default).then(|| (metric, (*interface).to_owned()))
    });
    default.min_by_key(|(metric, _)| *metric).map(|(_, interface)| interface)
}

/// Number of the devices with the driver of EFA.
fn count_efa_cards(devices: &Path) -> u32 {
    let is_efa = |device: &fs::DirEntry| {
        let driver = fs::read_link(device.path().join("device/driver")).unwrap_or_default();
        device.file_name().to_string_lossy().starts_with("efa") || driver.file_name().is_some_and(|name| name == "efa")
    };
    let found = fs::read_dir(devices).into_iter().flatten().flatten().filter(is_efa).count();
    u32::try_from(found).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interface_is_that_of_the_default_route() {
        let head = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n";
        let route = |name: &str, to: &str, flags: &str, metric: u32| {
            format!("{name}\t{to}\t010200C0\t{flags}\t0\t0\t{metric}\t{to}\t0\t0\t0\n")
        };
        let lines = [
            route("ens6", "00000000", "0003", 200),
            route("ens5", "00000000", "0003", 100),
            route("lo", "0000007F", "0001", 0),
        ];
        assert_eq!(find_interface(&format!("{head}{}", lines.concat())).as_deref(), Some("ens5"));
        assert_eq!(find_interface(&format!("{head}{}", route("ens5", "00000000", "0002", 0))), None);
        assert_eq!(find_interface(head), None);
        assert_eq!(find_interface("x\nens5 00000000 1"), None);
    }

    #[test]
    fn a_number_is_that_of_a_node() {
        assert_eq!(parse_node(" 3\n", 4).unwrap(), 3);
        for text in ["4", "-1", "", "<html>", "256"] {
            assert!(parse_node(text, 4).is_err(), "{text}");
        }
    }

    #[test]
    fn cards_are_counted_by_name_or_driver() {
        let scratch = tempfile::tempdir().unwrap();
        for (name, driver) in [("efa_0", "x"), ("rdmap0s6", "efa"), ("mlx5_0", "mlx5_core")] {
            let device = scratch.path().join(name).join("device");
            fs::create_dir_all(&device).unwrap();
            std::os::unix::fs::symlink(format!("/sys/bus/pci/drivers/{driver}"), device.join("driver")).unwrap();
        }
        assert_eq!(count_efa_cards(scratch.path()), 2);
        assert_eq!(count_efa_cards(&scratch.path().join("none")), 0);
    }
}
