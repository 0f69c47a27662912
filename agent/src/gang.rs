//! A job of several nodes: this machine as one of them.
//!
//! The rules are in [`jobs::node_gang`]: the driver lists what all nodes have written, asks for the next act, and carries it out. The command, a
//! restore and uploads go on meanwhile, each in a task of its own. A command hears of its end at once, before any other node.

mod driver;
mod moments;
mod node_work;
mod previous;
mod seat;
mod started;
mod steps;

use std::sync::Arc;

use jiff::SignedDuration;

use self::driver::GangDriver;
use crate::agent::Agent;
use crate::{command, heartbeat};

pub(crate) use self::seat::GangSeat;

/// The timeout of the last writes. It does not shrink with the pace, because S3 does not get faster.
const LAST_WRITES_TIMEOUT: SignedDuration = SignedDuration::from_secs(15);

/// Takes part in the gang until the node leaves it. The machine shuts down afterwards.
pub(crate) async fn run(agent: &Arc<Agent>) {
    agent.set_activity("starting");
    let seat = match seat::find_seat(agent).await {
        Ok(seat) => agent.take_seat(seat),
        // No key is this machine's: the others end because it does not join.
        Err(why) => {
            return agent
                .log
                .write_line(&format!("this machine takes no part, because its number is not known: {why}"));
        }
    };
    let member = &seat.member;
    agent.log.write_line(&format!(
        "node {} of {}: {} at {} ({}), {} GPUs, {} EFA cards",
        seat.node, seat.launch.nodes, member.instance, member.address, member.interface, member.gpus, member.efa_cards
    ));
    if member.efa_cards > 0 {
        agent.log.watch_for(driver::NCCL_USES_TCP);
    }
    let heartbeats = tokio::spawn(heartbeat::beat(Arc::clone(agent)));
    let mut driver = GangDriver::new(agent, seat);
    let why = Box::pin(driver.run()).await;
    heartbeats.abort();
    agent.log.write_line(&format!("node {} leaves: {why}", seat.node));
    driver.end_all().await;
    command::kill_leftovers(false).await;
    send_last_words(agent).await;
}

/// Sends the log, and what a heartbeat may not have yet, unless another launch may.
async fn send_last_words(agent: &Agent) {
    agent.log.release_lines();
    let (mut uploaded, timeout) = (None, LAST_WRITES_TIMEOUT.unsigned_abs());
    let words = async {
        if agent.fence.check().await.is_ok() {
            let (beat, log) =
                tokio::join!(heartbeat::send_heartbeat(agent), heartbeat::upload_log(agent, &mut uploaded));
            for error in beat.err().into_iter().chain(log.err()) {
                agent.log.write_line(&format!("the last words of the node are incomplete: {error}"));
            }
        }
    };
    if tokio::time::timeout(timeout, Box::pin(words)).await.is_err() {
        agent.log.write_line("the last words of the node are incomplete: S3 did not answer");
    }
}
