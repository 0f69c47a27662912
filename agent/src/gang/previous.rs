//! The attempt that head names, before this one takes over.

use std::time::Instant;

use jiff::{SignedDuration, Timestamp};
use jobs::Head;
use jobs::node_gang::{CLOSING, GangLaunch, GangListing, NodeExitReason, UNWARNED_TIME};
use store::{MachineDocuments as _, StoreError};

use crate::agent::Agent;
use crate::attempt::{GPU_FAULT, PREVIOUS_EXIT_TIMEOUT, PREVIOUS_HEARTBEAT_STALE_AFTER};

#[derive(Debug, Default)]
pub(super) struct PreviousAttempt {
    since: Option<Instant>,
    launch: Option<GangLaunch>,
    listing: GangListing,
}

impl PreviousAttempt {
    /// Begins to wait for it.
    pub(super) fn begin_waiting(&mut self) {
        self.since.get_or_insert_with(Instant::now);
    }

    /// True if a node of it ended by such a fault: then it is none of a single machine.
    pub(super) fn had_gpu_fault(&self) -> bool {
        let mut exits = self.listing.exits.values().filter_map(|exit| exit.content.read());
        exits.any(|exit| exit.reason == NodeExitReason::Broken && exit.why.contains(GPU_FAULT))
    }

    /// Returns `true` if all nodes of the attempt that head names have left their exits, or it is past its time. Nodes whose last heartbeats are old,
    /// by S3's clock as `own_beat` is, do not write any more.
    pub(super) async fn is_over(
        &mut self,
        agent: &Agent,
        head: &Head,
        own_beat: Option<Timestamp>,
    ) -> Result<bool, StoreError> {
        self.begin_waiting();
        if self.since.is_some_and(|since| since.elapsed() >= agent.pace.wait(PREVIOUS_EXIT_TIMEOUT)) {
            return Ok(true);
        }
        let (job, nodes) = (agent.identity.job.clone(), agent.identity.nodes);
        let launch = GangLaunch { job, attempt: head.attempt, launch: head.launch.clone(), nodes };
        if !launch.is_valid() {
            return Ok(false);
        }
        if self.launch.as_ref() != Some(&launch) {
            (self.launch, self.listing) = (Some(launch.clone()), GangListing::default());
        }
        self.listing = agent.store().read_gang(&launch, &self.listing).await?;
        let stale_after = agent.pace.scale(PREVIOUS_HEARTBEAT_STALE_AFTER).max(SignedDuration::from_secs(2));
        let newest = self.listing.beats.values().copied().max();
        let is_stale = newest.zip(own_beat).is_some_and(|(newest, own)| own.duration_since(newest) > stale_after);
        // After a stop nobody writes for longer than that, not even a node that saves.
        let is_stopped = self.listing.stop.as_ref().zip(own_beat).is_some_and(|(stop, own)| {
            own.duration_since(stop.at) > agent.pace.scale(UNWARNED_TIME.saturating_add(CLOSING))
        });
        Ok(is_stale || is_stopped || (0..nodes).all(|node| self.listing.exits.contains_key(&node)))
    }
}
