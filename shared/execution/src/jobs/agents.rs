//! The agents in the function's package: each machine runs one first.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use jobs::LaunchObstacle;
use model::digest::sha256_hex;
use ports::{ReconcilerDocuments, StoreError};
use tokio::sync::{Mutex, OnceCell};

/// The most bytes of an agent. The deployed one has a few megabytes; an unoptimised one, with its line tables, 130.
const BYTES_MAX: u64 = 256 * 1024 * 1024;

/// The agents in the function's package, read and hashed once, when a job is first ranked.
#[derive(Debug)]
pub struct AgentBinaries {
    files: Vec<(&'static str, PathBuf)>,
    read: OnceCell<BTreeMap<&'static str, AgentBinary>>,
    /// The hashes of those in the bucket.
    kept: Mutex<BTreeSet<String>>,
}

#[derive(Debug)]
struct AgentBinary {
    sha256: String,
    bytes: Vec<u8>,
}

impl AgentBinaries {
    /// The files, by architecture.
    #[must_use]
    pub fn new(files: Vec<(&'static str, PathBuf)>) -> Self {
        Self { files, read: OnceCell::new(), kept: Mutex::default() }
    }

    /// The SHA-256 of each agent, by architecture.
    ///
    /// # Errors
    /// There is none at all, or one cannot be read.
    pub(super) async fn hashes(&self) -> Result<BTreeMap<&'static str, String>, LaunchObstacle> {
        let read = self.read.get_or_try_init(|| async { read(&self.files) }).await?;
        if read.is_empty() {
            let paths: Vec<String> = self.files.iter().map(|(_, path)| path.display().to_string()).collect();
            return Err(LaunchObstacle::new(format!(
                "this deployment has no agent to run the job with ({} is missing); deploy Curfew as it was built",
                paths.join(", ")
            )));
        }
        Ok(read.iter().map(|(architecture, agent)| (*architecture, agent.sha256.clone())).collect())
    }

    /// Copies that agent to the bucket, where machines download it, if it is not there.
    ///
    /// # Errors
    /// The bucket refuses it.
    pub(super) async fn keep(&self, sha256: &str, store: &impl ReconcilerDocuments) -> Result<(), StoreError> {
        let mut kept = self.kept.lock().await;
        let mut all = self.read.get().into_iter().flat_map(BTreeMap::values);
        let agent = all.find(|agent| agent.sha256 == sha256);
        if let Some(agent) = agent.filter(|_| !kept.contains(sha256)) {
            store.keep_agent(sha256, &agent.bytes).await?;
            kept.insert(sha256.to_owned());
        }
        Ok(())
    }
}

fn read(files: &[(&'static str, PathBuf)]) -> Result<BTreeMap<&'static str, AgentBinary>, LaunchObstacle> {
    let mut agents = BTreeMap::new();
    for (architecture, path) in files {
        if agents.contains_key(architecture) {
            continue;
        }
        let unread = |error: std::io::Error| {
            LaunchObstacle::new(format!("the agent {} cannot be read: {error}", path.display()))
        };
        let bytes = match std::fs::metadata(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(unread(error)),
            Ok(file) if file.len() > BYTES_MAX => {
                let why = format!("{} has {} bytes, which is too large for an agent", path.display(), file.len());
                return Err(LaunchObstacle::new(why));
            }
            Ok(_) => std::fs::read(path).map_err(unread)?,
        };
        agents.insert(*architecture, AgentBinary { sha256: sha256_hex(&bytes), bytes });
    }
    Ok(agents)
}
