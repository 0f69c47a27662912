//! Deletes checkpoints that head does not name.

use jobs::checkpoints::to_prune;
use jobs::{AgentWarningKind, Checkpoint};
use store::StoreError;

use super::KeeperTask;
use crate::agent::Agent;

impl KeeperTask {
    /// Deletes all checkpoints that head does not name. A failed deletion still costs money; it is retried with the next one, and reported at once,
    /// because there may be no next one.
    pub(super) async fn prune(&mut self, newest: Checkpoint, kept: &[Checkpoint]) {
        let Some(words) = delete_all_but(&self.agent, newest, kept).await else {
            return self.agent.clear_warning(AgentWarningKind::NotPruned);
        };
        self.agent.warn_owner(AgentWarningKind::NotPruned, &words);
        self.log_once(words);
    }
}

/// Deletes all that it can. Returns which failed, and why the first did.
pub(crate) async fn delete_all_but(agent: &Agent, newest: Checkpoint, kept: &[Checkpoint]) -> Option<String> {
    let (store, job) = (agent.store(), &agent.identity.job);
    let listed = match store.list_checkpoints(job).await {
        Ok(listed) => listed,
        Err(error) => return Some(format!("old checkpoints are not deleted, and still cost money: {error}")),
    };
    let mut left: Vec<(u64, StoreError)> = Vec::new();
    for old in to_prune(&listed, newest, kept, agent.identity.attempt) {
        left.extend(store.delete_checkpoint(job, old).await.err().map(|error| (old.step, error)));
    }
    let (step, error) = left.first()?;
    let others = left.len() - 1;
    let more = if others > 0 {
        format!(", and {others} more, are not deleted, and still cost money")
    } else {
        " is not deleted, and still costs money".to_owned()
    };
    Some(format!("the checkpoint of step {step}{more}: {error}"))
}
