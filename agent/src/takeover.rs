//! The takeover of the state bucket by a stack in another region: the attempt moves to the copy of the bucket there.
//!
//! The record of a takeover lies where no job's machine may write: a machine's role writes below `attempts/`, `checkpoints/` and `outputs/` alone, and
//! into the copy only replication writes before the takeover (`template.yaml`, `deploy/replica/replica.yaml`). The copy that may be named is in the
//! user data, which the launch has set.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join;
use jiff::SignedDuration;
use jobs::node_gang::NODES_MIN;
use jobs::takeover::find_takeover;
use model::home::{HomeRecord, StateBucket};
use store::Store;
use tokio::task::JoinHandle;

use crate::agent::{Agent, EndCause};
use crate::fence::FenceError;

/// Interval at which the records are read.
const LOOK_EVERY: SignedDuration = SignedDuration::from_mins(3);

/// The timeout of one read: a region that does not answer must not hide what the other says.
const TIMEOUT: Duration = Duration::from_secs(45);

/// Looks once, so that a restarted agent writes to the bucket to which the attempt had moved, and goes on looking. `None` without a copy.
pub(crate) async fn begin(agent: &Arc<Agent>) -> Option<JoinHandle<()>> {
    agent.buckets.copy()?;
    let mut watch = TakeoverWatch { agent: Arc::clone(agent), said: String::new() };
    (!Box::pin(watch.look()).await).then(|| tokio::spawn(watch.run()))
}

struct TakeoverWatch {
    agent: Arc<Agent>,
    said: String,
}

impl TakeoverWatch {
    async fn run(mut self) {
        loop {
            self.agent.pace.sleep(LOOK_EVERY).await;
            if Box::pin(self.look()).await {
                return;
            }
        }
    }

    /// Reads both records, and moves if one says so. Returns `true` once there is nothing left to look for.
    async fn look(&mut self) -> bool {
        let agent = Arc::clone(&self.agent);
        let (Some(replica), Some(copy)) = (&agent.identity.replica, agent.buckets.copy()) else { return true };
        let own = StateBucket { bucket: agent.identity.bucket.clone(), region: agent.identity.region.clone() };
        let (in_own, in_copy) = join(read(agent.buckets.own()), read(copy)).await;
        let records: Vec<HomeRecord> = in_own.into_iter().chain(in_copy).collect();
        let Some(record) = find_takeover(&own, replica, &records) else { return false };
        let words = format!("the stack of {} has taken over (term {})", record.stack, record.term);
        if agent.identity.nodes >= NODES_MIN {
            let words = format!("{words}, and replaces this gang as a whole, from the checkpoints of its bucket");
            agent.end(EndCause::fenced(words));
            return true;
        }
        match agent.fence.move_to_copy().await {
            Ok(()) => {
                agent.log.write_line(&format!("{words}: everything is written there from now on"));
                true
            }
            Err(FenceError::Fenced(why)) => {
                agent.end(EndCause::fenced(format!("{words}: {why}")));
                true
            }
            Err(FenceError::Store(error)) => {
                let words = format!("{words}, but the attempt cannot go on there yet: {error}");
                if self.said != words {
                    agent.log.write_line(&words);
                    self.said = words;
                }
                false
            }
        }
    }
}

/// The record of a bucket; `None` too while that is not known.
async fn read(store: &Store) -> Option<HomeRecord> {
    let read = tokio::time::timeout(TIMEOUT, Box::pin(store.read_home())).await;
    read.ok()?.ok()?.value
}
