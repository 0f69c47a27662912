//! The note on the machine's disk that a command was started, for an agent that restarts.

use std::io;
use std::path::PathBuf;

use jobs::node_gang::GangLaunch;
use serde::{Deserialize, Serialize};

use crate::agent::Agent;

/// A file in the agent's own directory.
const STARTED: &str = "gang-started.json";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct StartedCommand {
    attempt: u32,
    launch: String,
    round: u32,
}

fn path(agent: &Agent) -> PathBuf {
    agent.state.join(STARTED)
}

/// The round whose command an earlier start of the agent has started.
pub(super) fn read_started(agent: &Agent, gang: &GangLaunch) -> Option<u32> {
    let text = std::fs::read_to_string(path(agent)).ok()?;
    let started: StartedCommand = serde_json::from_str(&text).ok()?;
    (started.attempt == gang.attempt && started.launch == gang.launch).then_some(started.round)
}

pub(super) fn note_started(agent: &Agent, gang: &GangLaunch, round: u32) -> io::Result<()> {
    let started = StartedCommand { attempt: gang.attempt, launch: gang.launch.clone(), round };
    std::fs::write(path(agent), serde_json::to_vec(&started).map_err(io::Error::other)?)
}
