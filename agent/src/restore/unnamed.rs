//! Checkpoints that head does not name, in a bucket that was a copy. S3 replicates each object alone, so head may be there before the files of what it
//! names; and it replicates no deletion of a version, so older checkpoints that head no longer names are still there.

use jobs::Checkpoint;

use super::RestoreCandidates;
use crate::agent::{Agent, StartError};
use crate::retry_timeout::read_with_retries;

/// The most of them that are tried: each is read to its first damaged file.
const TRIED_MAX: usize = 5;

/// The newest of those with a manifest, after all that are `named` were damaged. No head vouches for them, so they count as unverified.
pub(super) async fn find(
    agent: &Agent,
    named: &[Checkpoint],
    damaged: RestoreCandidates,
) -> Result<RestoreCandidates, StartError> {
    let job = &agent.identity.job;
    let listed =
        read_with_retries(agent, "the list of checkpoints", async || agent.store().list_checkpoints(job).await);
    let listed = listed.await;
    let listed =
        listed.map_err(|error| StartError::from_store(&error, format!("the checkpoints cannot be listed: {error}")))?;
    let is_new = |one: &Checkpoint| one.attempt <= agent.identity.attempt && !named.contains(one);
    let whole = listed.into_iter().filter(|stored| stored.whole).map(|stored| stored.checkpoint);
    let mut in_order: Vec<Checkpoint> = whole.filter(is_new).collect();
    in_order.sort_unstable_by_key(|one| std::cmp::Reverse((one.attempt, one.step, one.rewrite)));
    in_order.truncate(TRIED_MAX);
    let unverified = damaged.unverified.iter().chain(&in_order).copied().collect();
    Ok(RestoreCandidates { in_order, unverified, ..damaged })
}
