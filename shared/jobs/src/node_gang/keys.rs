//! The keys of a gang's documents. Below the folder of a launch lies all that its members tell each other; a log and outputs lie outside, so that
//! one LIST page has all of it.

use model::team_folder::team_folder;

use super::{NODES_MAX, Node};
use crate::checkpoints::MANIFEST_FILE;
use crate::keys::{ATTEMPTS, outputs_folder, path};
use crate::{Checkpoint, JobId};

/// The digits of a launch ([`launch_id`](crate::launch_id)).
const LAUNCH_DIGITS: usize = 16;

/// One launch of a gang. A stray launch of the same attempt has a folder of its own.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct GangLaunch {
    pub job: JobId,
    pub attempt: u32,
    /// Its [`MachineIdentity::launch`](crate::MachineIdentity::launch).
    pub launch: String,
    pub nodes: Node,
}

/// A document below the folder of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GangDocument {
    Member(Node),
    Round(u32),
    Ready { round: u32, node: Node },
    Ended { round: u32, node: Node },
    Stop,
    Beat(Node),
    Exit(Node),
}

/// The folder of all launches of an attempt, `attempts/<team>/<job>/<n>/`.
#[must_use]
pub fn launches_folder(job: &JobId, attempt: u32) -> String {
    format!("{ATTEMPTS}{}/{attempt}/", path(job))
}

impl GangLaunch {
    /// The launch of a folder below that of an attempt; `None` if it is none that Curfew made.
    #[must_use]
    pub fn from_folder(job: &JobId, attempt: u32, nodes: Node, folder: &str) -> Option<Self> {
        let launch = folder.strip_prefix(&launches_folder(job, attempt))?.strip_suffix('/')?;
        let gang = Self { job: job.clone(), attempt, launch: launch.to_owned(), nodes };
        gang.is_valid().then_some(gang)
    }

    /// The folder of its documents, `attempts/<team>/<job>/<n>/<launch>/`.
    #[must_use]
    pub fn folder(&self) -> String {
        format!("{}{}/", launches_folder(&self.job, self.attempt), self.launch)
    }

    /// `true` if its launch is one that Curfew made, and its nodes are a gang.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let is_launch = self.launch.len() == LAUNCH_DIGITS && self.launch.bytes().all(is_digit);
        is_launch && (super::NODES_MIN..=NODES_MAX).contains(&self.nodes) && self.attempt > 0
    }

    #[must_use]
    pub fn key(&self, document: GangDocument) -> String {
        let folder = self.folder();
        match document {
            GangDocument::Member(node) => format!("{folder}member/{node}.json"),
            GangDocument::Round(round) => format!("{folder}round/{round}.json"),
            GangDocument::Ready { round, node } => format!("{folder}round/{round}/ready-{node}"),
            GangDocument::Ended { round, node } => format!("{folder}round/{round}/ended-{node}"),
            GangDocument::Stop => format!("{folder}stop.json"),
            GangDocument::Beat(node) => format!("{folder}beat/{node}.json"),
            GangDocument::Exit(node) => format!("{folder}exit/{node}.json"),
        }
    }

    /// The document of a key; `None` for all that no member of this gang can have written.
    #[must_use]
    pub fn parse(&self, key: &str) -> Option<GangDocument> {
        let rest = key.strip_prefix(&self.folder())?;
        let number = |text: &str| text.strip_suffix(".json")?.parse().ok();
        let document = match rest.split_once('/') {
            None => (rest == "stop.json").then_some(GangDocument::Stop)?,
            Some(("member", node)) => GangDocument::Member(Node::try_from(number(node)?).ok()?),
            Some(("beat", node)) => GangDocument::Beat(Node::try_from(number(node)?).ok()?),
            Some(("exit", node)) => GangDocument::Exit(Node::try_from(number(node)?).ok()?),
            Some(("round", round)) => match round.split_once('/') {
                None => GangDocument::Round(number(round)?),
                Some((round, name)) => {
                    let (what, node) = name.split_once('-')?;
                    let (round, node) = (round.parse().ok()?, node.parse().ok()?);
                    match what {
                        "ready" => GangDocument::Ready { round, node },
                        "ended" => GangDocument::Ended { round, node },
                        _ => return None,
                    }
                }
            },
            Some(_) => return None,
        };
        let node = match document {
            GangDocument::Member(node)
            | GangDocument::Beat(node)
            | GangDocument::Exit(node)
            | GangDocument::Ready { node, .. }
            | GangDocument::Ended { node, .. } => node,
            GangDocument::Round(_) | GangDocument::Stop => 0,
        };
        // Only Curfew's own spelling counts.
        (node < self.nodes && self.key(document) == key).then_some(document)
    }
}

/// The log of a node.
#[must_use]
pub fn node_log_key(job: &JobId, attempt: u32, node: Node) -> String {
    format!("{ATTEMPTS}{}/{attempt}/nodes/{node}/log", path(job))
}

/// A part of that log.
#[must_use]
pub fn node_log_part_key(job: &JobId, attempt: u32, node: Node, part: u32) -> String {
    format!("{}.{part}", node_log_key(job, attempt, node))
}

/// The manifest of a node's part of a step.
#[must_use]
pub fn node_manifest_key(job: &JobId, checkpoint: Checkpoint, node: Node) -> String {
    let Checkpoint { attempt, step, rewrite } = checkpoint;
    let place = if rewrite == 0 { step.to_string() } else { format!("{step}.{rewrite}") };
    let team = team_folder(&job.team);
    format!("checkpoints/{team}/{}/{attempt}/{place}/{node}/{MANIFEST_FILE}", job.job)
}

/// The outputs of a node: those of node 0 lie where those of a single machine do.
#[must_use]
pub fn node_outputs_folder(job: &JobId, attempt: u32, node: Node) -> String {
    let folder = outputs_folder(job, attempt);
    if node == 0 { folder } else { format!("{folder}nodes/{node}/") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node_gang::tests::gang;

    #[test]
    fn a_key_names_one_document_and_has_one_spelling() {
        let gang = gang(4);
        let (round, node) = (12, 3);
        let all = [
            (GangDocument::Member(3), "member/3.json"),
            (GangDocument::Round(12), "round/12.json"),
            (GangDocument::Ready { round, node }, "round/12/ready-3"),
            (GangDocument::Ended { round, node }, "round/12/ended-3"),
            (GangDocument::Stop, "stop.json"),
            (GangDocument::Beat(0), "beat/0.json"),
            (GangDocument::Exit(0), "exit/0.json"),
        ];
        for (document, name) in all {
            let key = gang.key(document);
            assert_eq!(key, format!("attempts/a%2Fb/c-0123abcd/2/0123456789abcdef/{name}"));
            assert_eq!(gang.parse(&key), Some(document));
        }
        let foreign = [
            "member/4.json",
            "member/03.json",
            "member/+3.json",
            "member/3",
            "round/1/ready-4",
            "round/01/ready-1",
            "stop",
            "round/1/ready-1.json",
            "round/1/left-1",
            "x/1.json",
            "member/300.json",
            "round/4294967296.json",
            "",
        ];
        for name in foreign {
            assert_eq!(gang.parse(&format!("{}{name}", gang.folder())), None, "{name}");
        }
        assert_eq!(gang.parse("attempts/a%2Fb/c-0123abcd/2/0123456789abcdee/stop.json"), None);
        let found = |folder: &str| GangLaunch::from_folder(&gang.job, gang.attempt, gang.nodes, folder);
        assert_eq!(found(&gang.folder()), Some(gang.clone()));
        for other in ["attempts/a%2Fb/c-0123abcd/2/nodes/", "attempts/a%2Fb/c-0123abcd/3/0123456789abcdef/", "x/"] {
            assert_eq!(found(other), None, "{other}");
        }
        assert!(gang.is_valid() && !GangLaunch { nodes: 33, ..gang.clone() }.is_valid());
        assert!(!GangLaunch { launch: "0123456789ABCDEF".to_owned(), ..gang }.is_valid());
    }

    #[test]
    fn what_is_large_lies_outside_of_the_folder() {
        let job = gang(4).job;
        let checkpoint = Checkpoint { attempt: 2, step: 40, rewrite: 0 };
        assert_eq!(node_log_part_key(&job, 2, 3, 1), "attempts/a%2Fb/c-0123abcd/2/nodes/3/log.1");
        assert_eq!(node_manifest_key(&job, checkpoint, 3), "checkpoints/a%2Fb/c-0123abcd/2/40/3/manifest.json");
        let again = Checkpoint { rewrite: 1, ..checkpoint };
        assert_eq!(node_manifest_key(&job, again, 0), "checkpoints/a%2Fb/c-0123abcd/2/40.1/0/manifest.json");
        assert_eq!(node_outputs_folder(&job, 2, 0), "outputs/a%2Fb/c-0123abcd/2/");
        assert_eq!(node_outputs_folder(&job, 2, 3), "outputs/a%2Fb/c-0123abcd/2/nodes/3/");
    }
}
