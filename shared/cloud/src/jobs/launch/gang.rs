//! The launch of a gang: all of its machines, or none.

use std::collections::BTreeMap;

use aws_sdk_ec2::Client;
use aws_sdk_ec2::operation::describe_instances::builders::DescribeInstancesFluentBuilder;
use aws_sdk_ec2::types::{Instance as Ec2Instance, InstanceStateName};
use jiff::Timestamp;
use jobs::{LaunchOrder, LaunchResult};
use model::id::{Region, ResourceId};
use model::image_source::check_id;
use model::instance::InstanceState;

use super::launched_by;
use crate::convert::timestamp;
use crate::describe::{self, DESCRIBE_INSTANCES};
use crate::error::{CallError, CallErrorKind};
use crate::observe::pages::{PAGE_SIZE, all_pages};

/// A machine of a launch.
#[derive(Debug, Clone)]
pub(super) struct LaunchedNode {
    instance: ResourceId,
    launched_at: Timestamp,
    /// Its place in the launch. The answer is in another order.
    index: Option<u8>,
    is_ending: bool,
}

/// Reads the machines in an answer to `RunInstances`. What lacks its id or its time is left out.
pub(super) fn read_nodes(instances: &[Ec2Instance]) -> Vec<LaunchedNode> {
    let read = |instance: &Ec2Instance| {
        let id = instance.instance_id().filter(|id| check_id(id, "i", "an instance").is_ok())?;
        let state = instance.state().and_then(|state| state.name());
        Some(LaunchedNode {
            instance: ResourceId::from(id),
            launched_at: timestamp(instance.launch_time()?)?,
            index: instance.ami_launch_index().and_then(|index| u8::try_from(index).ok()),
            is_ending: matches!(state, Some(InstanceStateName::ShuttingDown | InstanceStateName::Terminated)),
        })
    };
    instances.iter().filter_map(read).collect()
}

/// The result of a launch that EC2 has accepted. An answer with fewer machines than were launched says nothing of the others, so they are looked
/// for by the token.
pub(super) async fn complete(ec2: &Client, order: &LaunchOrder<'_>, nodes: Vec<LaunchedNode>) -> LaunchResult {
    match judge(order.terms.gpu.nodes, &nodes) {
        launched @ LaunchResult::Launched { .. } => launched,
        incomplete => match launched_by(ec2, order).await {
            Ok(found) => found.unwrap_or(incomplete),
            Err(error) => LaunchResult::Unknown(error.to_string()),
        },
    }
}

/// Finds the machines of a launch, on all pages; `None` if EC2 shows none.
pub(super) async fn find(
    call: DescribeInstancesFluentBuilder,
    region: &Region,
    nodes: u8,
) -> Result<Option<LaunchResult>, CallError> {
    let call = call.max_results(PAGE_SIZE);
    let (mut found, mut incomplete) = (Vec::new(), 0_usize);
    all_pages(DESCRIBE_INSTANCES, region, async |token| {
        let page = describe::page(call.clone().set_next_token(token), region).await?;
        incomplete = incomplete.saturating_add(page.incomplete);
        found.extend(page.described.into_iter().map(|one| LaunchedNode {
            index: page.launch_indexes.get(&one.instance.id).copied(),
            is_ending: matches!(one.instance.state, InstanceState::ShuttingDown | InstanceState::Terminated),
            instance: one.instance.id,
            launched_at: one.instance.launched_at,
        }));
        Ok(page.next_token)
    })
    .await?;
    if incomplete > 0 {
        let message = "the answer about this token is incomplete";
        return Err(CallError::new(DESCRIBE_INSTANCES, region, CallErrorKind::Incomplete, message));
    }
    Ok((!found.is_empty()).then(|| judge(nodes, &found)))
}

/// A launch is complete with one machine at each place, in whatever state.
fn judge(nodes: u8, found: &[LaunchedNode]) -> LaunchResult {
    let by_index: BTreeMap<u8, &LaunchedNode> = found.iter().filter_map(|node| Some((node.index?, node))).collect();
    let is_complete = found.len() == usize::from(nodes) && by_index.keys().copied().eq(0..nodes);
    let mut instances = by_index.values().map(|node| node.instance.clone());
    let launched_at = found.iter().map(|node| node.launched_at).min();
    if let (true, Some(instance), Some(launched_at)) = (is_complete, instances.next(), launched_at) {
        return LaunchResult::Launched { instance, members: instances.collect(), launched_at };
    }
    let left = found.iter().filter(|node| !node.is_ending);
    LaunchResult::Incomplete(left.map(|node| node.instance.clone()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(id: &str, index: u8, is_ending: bool) -> LaunchedNode {
        let launched_at = "2026-09-01T12:00:00Z".parse().unwrap();
        LaunchedNode { instance: id.into(), launched_at, index: Some(index), is_ending }
    }

    fn check(nodes: u8, found: &[LaunchedNode], expect: Result<&[&str], &[&str]>) {
        let ids = |ids: &[ResourceId]| ids.iter().map(ToString::to_string).collect::<Vec<_>>();
        let judged = match judge(nodes, found) {
            LaunchResult::Launched { instance, members, .. } => Ok(ids(&[vec![instance], members].concat())),
            LaunchResult::Incomplete(left) => Err(ids(&left)),
            other => panic!("{other:?}"),
        };
        let texts = |expect: &[&str]| expect.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>();
        assert_eq!(judged, expect.map(texts).map_err(texts));
    }

    #[test]
    fn nodes_are_numbered_by_the_index_and_not_by_the_order_of_the_answer() {
        check(3, &[node("i-c", 2, false), node("i-a", 0, false), node("i-b", 1, true)], Ok(&["i-a", "i-b", "i-c"]));
    }

    #[test]
    fn a_part_is_no_gang() {
        check(3, &[node("i-a", 0, true), node("i-c", 2, false)], Err(&["i-c"]));
        check(2, &[node("i-a", 0, false), node("i-b", 0, false)], Err(&["i-a", "i-b"]));
        check(2, &[node("i-a", 0, false), node("i-b", 1, false), node("i-c", 1, false)], Err(&["i-a", "i-b", "i-c"]));
        check(2, &[node("i-a", 0, false), LaunchedNode { index: None, ..node("i-b", 1, false) }], Err(&["i-a", "i-b"]));
        check(2, &[], Err(&[]));
    }
}
