//! The termination of all machines of a gang.

use aws_sdk_ec2::Client;
use jiff::Timestamp;
use jobs::{JobId, JobMachine, MachineHold};
use model::id::ResourceId;
use model::instance::{Instance, InstanceState};

use super::{TERMINATE_INSTANCES, refusal_to_terminate};
use crate::describe::{self, DESCRIBE_INSTANCES};
use crate::error::{CallError, CallErrorKind, call_error};
use crate::observe::filter;

/// Terminates the machines of a gang. A tag that holds one of them holds all; one that is not the job's own is left out, and the others end. An id
/// that EC2 refuses keeps none of the others from their end.
///
/// # Errors
/// If one of them was not terminated.
pub(super) async fn terminate(ec2: &Client, job: &JobId, placed: &JobMachine, now: Timestamp) -> Result<(), CallError> {
    let region = &placed.region;
    // A filter, because one unknown id in `InstanceIds` fails the whole call. A gang is less than a page.
    let wanted = filter("instance-id", placed.instances().map(ResourceId::as_str));
    let page = describe::page(ec2.describe_instances().filters(wanted), region).await?;
    let found: Vec<Instance> = page.described.into_iter().map(|one| one.instance).collect();
    let is_ending = |one: &Instance| matches!(one.state, InstanceState::ShuttingDown | InstanceState::Terminated);
    let refused = |id: &ResourceId, why: &str| {
        let message = format!("{id} was not terminated: {why}");
        CallError::new(TERMINATE_INSTANCES, region, CallErrorKind::Other, message)
    };
    for one in found.iter().filter(|one| !is_ending(one)) {
        if let Some(hold) = MachineHold::read(one, now) {
            return Err(refused(&one.id, &format!("it {}, which holds all machines of the job", hold.describe())));
        }
    }
    let (mut ending, mut failed) = (Vec::new(), None);
    for id in placed.instances() {
        match found.iter().find(|one| one.id == *id) {
            None => {
                failed = Some(CallError::without(DESCRIBE_INSTANCES, region, id, page.incomplete > 0));
            }
            Some(one) if is_ending(one) => {}
            Some(one) => match refusal_to_terminate(one, job, now) {
                Some(why) => failed = Some(refused(id, &why)),
                None => ending.push(id.as_str().to_owned()),
            },
        }
    }
    let end = async |ids: Vec<String>| {
        let answer = ec2.terminate_instances().set_instance_ids(Some(ids)).send().await;
        answer.map(drop).map_err(|error| call_error(TERMINATE_INSTANCES, region, &error))
    };
    if !ending.is_empty()
        && let Err(error) = end(ending.clone()).await
    {
        // Of several one may be why, and EC2 then terminates none (EC2 API reference, `TerminateInstances`).
        if error.kind.is_passing() {
            return Err(error);
        }
        for id in ending {
            failed = end(vec![id]).await.err().or(failed);
        }
    }
    failed.map_or(Ok(()), Err)
}
