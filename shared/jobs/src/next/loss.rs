//! The loss of a machine in words: of a gang those name the node that was lost.

use crate::{JobFacts, JobMachine, LossReason};

/// Names the machine that is gone, for people: of a gang its node as well.
pub(super) fn name_gone(placed: &JobMachine, facts: &JobFacts) -> String {
    let gone = facts.gang.as_ref().and_then(|gang| gang.gone.as_ref());
    let gone = gone.or(facts.warned.as_ref()).filter(|_| !placed.members.is_empty());
    match gone.and_then(|gone| Some((placed.instances().position(|own| own == gone)?, gone))) {
        Some((node, instance)) => format!("{instance} (node {node})"),
        None => placed.name_instances(),
    }
}

/// Describes the loss of a machine. Where the nodes of a gang know more of it than EC2, the node that was lost is named, and not one that ended because
/// of it.
pub(super) fn describe_loss(placed: &JobMachine, how: LossReason, facts: &JobFacts) -> String {
    if let Some(words) = describe_lost_node(placed, how, facts) {
        return words;
    }
    let words = format!("{} {}", name_gone(placed, facts), how.describe());
    match facts.gang_report.as_ref().and_then(|report| report.failed).filter(|failed| failed.is_peer_gone) {
        Some(failed) => {
            format!("{words}; node {} failed first seen, and its log says that another node was gone", failed.node)
        }
        None => words,
    }
}

/// Describes which node was lost, by what all have left behind; `None` where EC2 says it better, or it is not known.
pub(super) fn describe_lost_node(placed: &JobMachine, how: LossReason, facts: &JobFacts) -> Option<String> {
    let report = facts.gang_report.as_ref().filter(|_| !placed.members.is_empty())?;
    let (node, sign) = report.lost.filter(|_| matches!(how, LossReason::ShutDown | LossReason::HeartbeatStopped))?;
    let instance = placed.instances().nth(usize::from(node))?;
    let failed = report.failed.filter(|failed| failed.node != node);
    let failed = failed.map(|failed| format!("node {} failed first seen; ", failed.node)).unwrap_or_default();
    Some(format!("{failed}{instance} (node {node}) was lost: it has sent nothing since {}", sign.strftime("%H:%M:%S")))
}
