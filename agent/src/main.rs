//! The agent of a job, on the machine that was launched for it.
//!
//! It takes the fence, restores the newest complete checkpoint, runs the command, keeps its checkpoints, sends heartbeats, passes a warning on
//! and flushes, writes the result, and shuts the machine down, after any failure as well. If it does not, the machine's own timer or
//! `reap-instances` ends the machine.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod agent;
mod agent_error;
mod arguments;
mod attempt;
mod aws;
mod buckets;
mod command;
mod container;
mod directory;
mod disk;
mod fence;
mod gang;
mod gpu;
mod gpu_box;
mod heartbeat;
mod inputs;
mod keeper;
mod log;
mod metadata;
mod notice;
mod outputs;
mod processes;
mod restore;
mod retry_timeout;
mod secrets;
mod shutdown;
mod takeover;
mod user;
mod variables;
mod workdir;
mod world;

use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use aws_config::timeout::TimeoutConfig;
use jiff::SignedDuration;
use jobs::node_gang::NODES_MIN;
use jobs::{ExitReason, ExitRecord, MachineIdentity, clean_machine_text, documents};
use model::id::Region;
use store::{MachineDocument, MachineDocuments as _, Store, StoreError};
use tokio::signal::unix::Signal;
use tokio::task::LocalSet;

use crate::agent::{Agent, AttemptEnd};
use crate::agent_error::AgentError;
use crate::arguments::Arguments;
use crate::buckets::StateBuckets;
use crate::fence::ResultOwner;
use crate::log::Log;
use crate::world::now;

/// The timeout of each last write. It does not shrink with the pace, because S3 does not get faster.
const EXIT_TIMEOUT: SignedDuration = SignedDuration::from_secs(15);
const EXIT_TIMEOUT_MIN: Duration = Duration::from_secs(3);

/// The timeout for the last of the log in the agent's own output.
const LOG_DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    match begin() {
        Ok(()) => ExitCode::SUCCESS,
        Err(words) => {
            eprintln!("error: {words}");
            ExitCode::FAILURE
        }
    }
}

/// An agent without an identity must not end the machine: it may belong to another user.
fn begin() -> Result<(), AgentError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| AgentError::new(format!("the agent cannot run: {error}")))?;
    // Before anything else: until then a machine that shuts down ends the agent without a word.
    let shutdown = runtime.block_on(async { notice::shutdown() });
    let arguments = arguments::read(std::env::args().skip(1)).map_err(AgentError::new)?;
    let identity = read_identity(&arguments)?;
    processes::inherit();
    let log = Log::new();
    runtime.block_on(LocalSet::new().run_until(run_agent(identity, &arguments, log.clone(), shutdown)));
    log.written_within(LOG_DRAIN_TIMEOUT);
    // It does not wait for threads that still read or write a disk.
    runtime.shutdown_background();
    Ok(())
}

fn read_identity(arguments: &Arguments) -> Result<MachineIdentity, AgentError> {
    let path = arguments.identity.display();
    let text = std::fs::read_to_string(&arguments.identity).map_err(|error| {
        AgentError::new(format!("{path} cannot be read ({error}); it is written when the machine boots"))
    })?;
    let identity: MachineIdentity =
        serde_json::from_str(&text).map_err(|error| AgentError::new(format!("{path} is not an identity: {error}")))?;
    if identity.schema != documents::SCHEMA {
        let (found, known) = (identity.schema, documents::SCHEMA);
        let why = format!("{path} has schema {found}, and this agent knows schema {known}");
        return Err(AgentError::new(why));
    }
    Ok(identity)
}

async fn run_agent(identity: MachineIdentity, arguments: &Arguments, log: Log, shutdown: io::Result<Signal>) {
    let own = store_in(&identity.region, &identity.bucket).await;
    let copy = match &identity.replica {
        Some(replica) => Some(store_in(&replica.region, &replica.bucket).await),
        None => None,
    };
    log.write_line(&format!("attempt {} of the job {}, until {:.0}", identity.attempt, identity.job, identity.ends_at));
    let agent = Agent::new(identity, StateBuckets::new(own, copy), log, arguments);
    let watching = [
        tokio::spawn(notice::wait_for_shutdown(Arc::clone(&agent), shutdown)),
        tokio::spawn(notice::wait_for_deadline(Arc::clone(&agent))),
        tokio::spawn(notice::watch(Arc::clone(&agent))),
    ];
    let orphans = command::kill_orphans(&agent.identity).await;
    if orphans > 0 {
        agent
            .log
            .write_line(&format!("an earlier start of this agent left {orphans} processes running, which were killed"));
    }
    // Before the fence is read: after a restart the attempt may have moved already.
    let moves = takeover::begin(&agent).await;
    if agent.identity.nodes >= NODES_MIN {
        Box::pin(gang::run(&agent)).await;
    } else {
        run_alone(&agent).await;
    }
    for watch in watching.into_iter().chain(moves) {
        watch.abort();
    }
    shutdown::go_dark(&agent.log, &arguments.shutdown).await;
}

/// The attempt of a single machine.
async fn run_alone(agent: &Arc<Agent>) {
    let heartbeats = tokio::spawn(heartbeat::beat(Arc::clone(agent)));
    let end = attempt::run(agent).await;
    heartbeats.abort();
    Box::pin(write_exit(agent, &end)).await;
}

async fn store_in(region: &Region, bucket: &str) -> Store {
    let few = TimeoutConfig::builder().connect_timeout(Duration::from_secs(5)).read_timeout(Duration::from_secs(30));
    let few = few.operation_attempt_timeout(Duration::from_mins(2)).build();
    let config = aws::loader(region.to_string());
    Store::new(&config.timeout_config(few).load().await, bucket.to_owned()).for_machine()
}

/// Uploads the log, and last of all the exit record, which ends the writes of this attempt. It writes neither if another machine of the attempt
/// may.
async fn write_exit(agent: &Agent, end: &AttemptEnd) {
    let MachineIdentity { job, attempt, .. } = &agent.identity;
    let exit = ExitRecord {
        attempt: *attempt,
        at: now(),
        reason: end.reason,
        code: end.code,
        why: clean_machine_text(&end.why),
        is_final: end.is_final,
    };
    agent.log.write_line(&format!("attempt {attempt} ends ({}): {}", name_of(end.reason), end.why));
    let timeout = agent.pace.wait(EXIT_TIMEOUT).max(EXIT_TIMEOUT_MIN);
    let whose = tokio::time::timeout(timeout, check_exit_owner(agent, exit)).await;
    let exit = match whose.unwrap_or_else(|_| Err(AgentError::new("no exit record is written: S3 did not answer"))) {
        Ok(exit) => exit,
        Err(why) => return agent.log.write_line(&why.to_string()),
    };
    agent.log.release_lines();
    // The last findings and the last checkpoint may not be in a heartbeat yet.
    let mut uploaded = None;
    let (heartbeat, log) = tokio::join!(
        tokio::time::timeout(timeout, heartbeat::send_heartbeat(agent)),
        tokio::time::timeout(timeout, heartbeat::upload_log(agent, &mut uploaded)),
    );
    let left = tokio::time::timeout(timeout, agent.store().leave_exit(job, &exit)).await;
    for done in [heartbeat, log, left] {
        let problem = match done {
            Ok(Ok(())) => continue,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "S3 did not answer".to_owned(),
        };
        agent.log.write_line(&format!("the last writes of the attempt are incomplete: {problem}"));
    }
}

/// The exit record if this process may write it, or else why not. After an earlier start that ended right after its result, the record has that
/// result.
async fn check_exit_owner(agent: &Agent, exit: ExitRecord) -> Result<ExitRecord, AgentError> {
    let MachineIdentity { job, attempt, .. } = &agent.identity;
    let unknown = |error: StoreError| AgentError::new(format!("no exit record is written: {error}"));
    match agent.fence.find_result_owner().await.map_err(unknown)? {
        ResultOwner::ThisProcess => Ok(exit),
        ResultOwner::AnotherMachine => Err(AgentError::new("another machine of this attempt writes the exit record")),
        ResultOwner::EarlierStart(result) => match agent.store().read_exit(job, *attempt).await.map_err(unknown)? {
            MachineDocument::Believed(_) => {
                Err(AgentError::new("an earlier start of this attempt has written the exit record"))
            }
            MachineDocument::Absent | MachineDocument::Refused(_) => {
                let is_final = result.is_final;
                Ok(ExitRecord { reason: result.reason(), code: result.code, why: result.why, is_final, ..exit })
            }
        },
    }
}

const fn name_of(reason: ExitReason) -> &'static str {
    match reason {
        ExitReason::Succeeded => "succeeded",
        ExitReason::Failed => "failed",
        ExitReason::Interrupted => "interrupted",
        ExitReason::Expired => "expired",
        ExitReason::Fenced => "fenced",
        ExitReason::Broken => "broken",
    }
}
