//! Documents that the members of a gang leave for each other. Any command on a machine can write them, so each is hostile until it is checked.

use std::net::IpAddr;

use jiff::Timestamp;
use model::fault::InvalidValue;
use model::id::ResourceId;
use serde::{Deserialize, Serialize};

use super::{NODES_MAX, NODES_MIN, Node};
use crate::{Checkpoint, clean_machine_text};

/// The port of round 0. Each round has the next one, so that no process of the round before takes part in it.
pub const FIRST_PORT: u16 = 29_500;

/// The longest name of an instance or an interface, in characters.
const NAME_CHARACTERS_MAX: usize = 64;

/// More than any type has: p5 has 32 network cards (`DescribeInstanceTypes`).
const DEVICES_MAX: u32 = 64;

/// `member/<k>.json`: the machine of a node.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GangMember {
    pub instance: ResourceId,
    /// Address of its primary interface.
    pub address: IpAddr,
    /// Name of the interface of the default route.
    pub interface: String,
    pub gpus: u32,
    /// The cards with EFA that the machine has seen.
    #[serde(default)]
    pub efa_cards: u32,
}

impl GangMember {
    /// Checks that an agent can have written it.
    ///
    /// # Errors
    /// What cannot be.
    pub fn check(&self) -> Result<(), InvalidValue> {
        check_address(self.address)?;
        let is_name = |text: &str, more: &[u8]| {
            let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || more.contains(&byte);
            !text.is_empty() && text.len() <= NAME_CHARACTERS_MAX && text.bytes().all(is_legal)
        };
        if !is_name(self.instance.as_str(), b"-") {
            return Err(InvalidValue::new("it names no instance"));
        }
        if !is_name(&self.interface, b"-_.") {
            return Err(InvalidValue::new("it names no network interface"));
        }
        if self.gpus > DEVICES_MAX || self.efa_cards > DEVICES_MAX {
            return Err(InvalidValue::new(format!("it says more than {DEVICES_MAX} GPUs or EFA cards")));
        }
        Ok(())
    }
}

/// Refuses the addresses that no interface of a VPC has, such as the loopback of the reader. A VPC may have public ranges.
fn check_address(address: IpAddr) -> Result<(), InvalidValue> {
    let address = address.to_canonical();
    let is_link_local = match address {
        IpAddr::V4(address) => address.is_link_local() || address.is_broadcast(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    if is_link_local || address.is_loopback() || address.is_multicast() || address.is_unspecified() {
        return Err(InvalidValue::new(format!("{address} is no address of a VPC")));
    }
    Ok(())
}

/// `round/<r>.json`: one try of all members to restore and to run.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GangRound {
    /// The addresses of all members, by node.
    pub addresses: Vec<IpAddr>,
    pub port: u16,
    /// The checkpoint that all restore; `None`: they begin anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Checkpoint>,
}

impl GangRound {
    /// The port of a round.
    #[must_use]
    pub fn port_of(round: u32) -> u16 {
        FIRST_PORT.saturating_add(u16::try_from(round).unwrap_or(u16::MAX))
    }

    /// Checks that a member of the gang can have written it for this round of that attempt.
    ///
    /// # Errors
    /// What cannot be.
    pub fn check(&self, round: u32, nodes: Node, attempt: u32) -> Result<(), InvalidValue> {
        if self.addresses.len() != usize::from(nodes) || !(NODES_MIN..=NODES_MAX).contains(&nodes) {
            return Err(InvalidValue::new(format!("it has {} addresses, for {nodes} nodes", self.addresses.len())));
        }
        if self.port != Self::port_of(round) {
            return Err(InvalidValue::new(format!("its port {} is not that of round {round}", self.port)));
        }
        if self.checkpoint.is_some_and(|checkpoint| checkpoint.attempt == 0 || checkpoint.attempt > attempt) {
            return Err(InvalidValue::new("it names a checkpoint of a later attempt"));
        }
        self.addresses.iter().try_for_each(|address| check_address(*address))
    }
}

/// `round/<r>/ready-<k>`: the end of a node's restore.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "restore", rename_all = "kebab-case")]
pub enum NodeReady {
    /// The checkpoint is there as a whole, or there is none to restore.
    Restored,
    /// The checkpoint cannot be used on this node.
    Damaged {
        #[serde(default)]
        why: String,
    },
}

impl NodeReady {
    /// Makes the texts fit to be shown.
    #[must_use]
    pub fn shown(self) -> Self {
        match self {
            Self::Restored => Self::Restored,
            Self::Damaged { why } => Self::Damaged { why: clean_machine_text(&why) },
        }
    }
}

/// `round/<r>/ended-<k>`: the command of a round is over on a node, or never began there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NodeEnded {
    /// The command's exit code; `None` if a signal or the agent ended it, or it was never run.
    #[serde(default)]
    pub code: Option<i32>,
    /// Time by the machine's own clock.
    pub at: Timestamp,
    /// `true` if Curfew ended it, or kept it from beginning, for what another node said.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_curfew: bool,
    /// `true` if the end of the log says that a peer is gone ([`says_peer_is_gone`]).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_peer_gone: bool,
}

impl NodeEnded {
    /// `true` if the command ended by itself with success.
    #[must_use]
    pub fn succeeded(&self) -> bool {
        self.code == Some(0) && !self.by_curfew
    }

    /// `true` if the command failed by itself.
    #[must_use]
    pub fn failed(&self) -> bool {
        !self.by_curfew && !self.succeeded()
    }
}

/// The reason for which all members end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StopCause {
    /// AWS takes the machine of a node back.
    Warned,
    /// The command failed on a node, or its agent gave up.
    Failed,
    /// A node stopped sending heartbeats.
    Lost,
    /// A node did not join in time.
    NeverJoined,
    /// No checkpoint could be restored by all.
    Damaged,
}

impl StopCause {
    /// `true` if a machine, and not the command, is why: whatever the command says then is no result.
    #[must_use]
    pub const fn is_loss(self) -> bool {
        matches!(self, Self::Warned | Self::Lost | Self::NeverJoined)
    }
}

/// `stop.json`: the first cause stays.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GangStop {
    pub cause: StopCause,
    /// The node that is why, as far as the one that wrote it knew: a failure that was seen first need not have been the first.
    pub node: Node,
    /// The moment until which that node has time.
    pub until: Timestamp,
    /// The explanation, for the job's owner.
    #[serde(default)]
    pub why: String,
}

impl GangStop {
    /// Checks that a member of a gang of so many nodes can have written it.
    ///
    /// # Errors
    /// What cannot be.
    pub fn check(&self, nodes: Node) -> Result<(), InvalidValue> {
        if self.node < nodes {
            return Ok(());
        }
        Err(InvalidValue::new(format!("it names node {} of a gang of {nodes}, which are counted from 0", self.node)))
    }

    /// Makes the texts fit to be shown.
    #[must_use]
    pub fn shown(self) -> Self {
        Self { why: clean_machine_text(&self.why), ..self }
    }
}

/// The reason for the end of a node. A type of its own beside [`ExitReason`](crate::ExitReason): the decisions about a single machine know no
/// `stopped`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeExitReason {
    Succeeded,
    Failed,
    /// A machine of the gang is lost: no result, whatever the command said.
    Interrupted,
    /// Curfew ended it because of another node.
    Stopped,
    /// The attempt's time is over.
    Expired,
    /// Another launch has taken over.
    Fenced,
    /// The agent had to give up.
    Broken,
}

/// Texts by which a command says that a peer is gone. Measured with torch 2.15 and gloo: the connection is reset where a rank is killed, and closed
/// where it ends by itself. The store of torch and NCCL 2.30 have the last three in their libraries; no run has shown them yet.
const PEER_GONE: [&str; 7] = [
    "Connection reset by peer",
    "Connection closed by peer",
    "Broken pipe",
    "Connection refused",
    "Connection was likely closed. Did the remote server shutdown or crash?",
    "Connection closed by remote peer",
    "remote process exiting prematurely",
];

/// Returns `true` if the end of a log says that a peer is gone. After a signal the log says nothing of the reason, and is not asked.
#[must_use]
pub fn says_peer_is_gone(log_end: &str) -> bool {
    PEER_GONE.iter().any(|text| log_end.contains(text))
}

/// `exit/<k>.json`: the last that an agent leaves behind.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NodeExit {
    pub reason: NodeExitReason,
    /// The command's exit code.
    #[serde(default)]
    pub code: Option<i32>,
    /// End of the command by the machine's own clock.
    pub at: Timestamp,
    /// `true` if the end of the log says that a peer is gone, so that the peer failed before ([`says_peer_is_gone`]).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_peer_gone: bool,
    /// The explanation, for the job's owner.
    #[serde(default)]
    pub why: String,
}

impl NodeExit {
    /// Makes the texts fit to be shown.
    #[must_use]
    pub fn shown(self) -> Self {
        Self { why: clean_machine_text(&self.why), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node_gang::tests::{at, member};

    #[test]
    fn an_address_is_one_of_the_vpc() {
        let check = |address: &str, expect: bool| {
            let member = GangMember { address: address.parse().unwrap(), ..member(0) };
            assert_eq!(member.check().is_ok(), expect, "{address}");
        };
        for address in ["10.0.1.11", "100.64.0.1", "8.8.8.8", "2001:db8::1"] {
            check(address, true);
        }
        for address in ["127.0.0.1", "::ffff:127.0.0.1", "169.254.169.254", "224.0.0.1", "0.0.0.0", "::1", "fe80::1"] {
            check(address, false);
        }
        assert!(
            serde_json::from_str::<GangMember>(r#"{"instance":"i-1","address":"host; rm","interface":"a","gpus":1}"#)
                .is_err()
        );
        assert!(GangMember { interface: "eth0;x".to_owned(), ..member(0) }.check().is_err());
        assert!(GangMember { instance: "i-1\n".into(), ..member(0) }.check().is_err());
        assert!(GangMember { gpus: 65, ..member(0) }.check().is_err());
    }

    #[test]
    fn a_round_is_that_of_its_number() {
        let round = GangRound {
            addresses: vec![member(0).address, member(1).address],
            port: 29_501,
            checkpoint: Some(Checkpoint { attempt: 2, step: 1, rewrite: 0 }),
        };
        assert_eq!(round.check(1, 2, 2), Ok(()));
        assert!(round.check(0, 2, 2).is_err() && round.check(1, 3, 2).is_err() && round.check(1, 2, 1).is_err());
        assert_eq!(GangRound::port_of(u32::MAX), u16::MAX);
    }

    #[test]
    fn documents_have_the_words_of_the_design() {
        let stop = GangStop { cause: StopCause::NeverJoined, node: 2, until: at(0), why: String::new() };
        let text = serde_json::to_string(&stop).unwrap();
        assert!(text.contains(r#""cause":"never-joined","node":2"#), "{text}");
        assert!(stop.check(3).is_ok() && stop.check(2).is_err());
        let damaged = NodeReady::Damaged { why: "x\ny".to_owned() };
        assert_eq!(serde_json::to_string(&damaged.shown()).unwrap(), r#"{"restore":"damaged","why":"x y"}"#);
        let reset =
            "pair.cc:545] Read error [172.31.0.11]:35482: Connection reset by peer. This is typically caused by";
        let closed =
            "RuntimeError: [pair.cc:561] Connection closed by peer [172.31.0.11]:62158. This is typically caused by";
        assert!(says_peer_is_gone(reset) && says_peer_is_gone(closed) && !says_peer_is_gone("CUDA out of memory"));
    }
}
