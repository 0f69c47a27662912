//! The policy for jobs with a deadline, for other simulators: one JSON object a line in, one decision a line out.
//!
//! `{"reset": {"work_s": 172800, "deadline_s": 187200, "restart_s": 180, "on_demand_usd_h": 3.06, "spot_usd_h": 0.9731}}` begins a job and
//! is not answered. `{"elapsed_s": 600, "gap_s": 600, "done_s": 420, "last": "spot", "spot": true}` is answered by
//! `{"run": "none"}`, `{"run": "spot"}` or `{"run": "on_demand"}`. `done_s` is work done, without restarts. `last` is what ran in the last
//! step, even if it has just been lost. `spot` is whether Spot can be had in the coming step.

use std::error::Error;
use std::io::{self, BufRead, Write};

use jiff::{SignedDuration, Timestamp};
use jobs::{Capacity, DeadlineSituation, SpotHistory, choose_by_launch};
use model::money::Rate;
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
#[serde(untagged)]
enum Input {
    Reset { reset: Task },
    Observation(Observation),
}

#[derive(Deserialize)]
struct Task {
    work_s: f64,
    deadline_s: f64,
    restart_s: f64,
    on_demand_usd_h: f64,
    spot_usd_h: f64,
}

#[derive(Deserialize)]
struct Observation {
    elapsed_s: f64,
    gap_s: f64,
    done_s: f64,
    last: Capacity,
    spot: bool,
}

#[derive(Serialize)]
struct Output {
    run: Capacity,
}

#[expect(clippy::cast_possible_truncation, reason = "a cast of floats saturates")]
fn seconds_up(seconds: f64) -> i64 {
    // A sum of steps may lie a little above a whole second.
    (seconds - 1e-6).ceil() as i64
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast of floats saturates")]
fn rate(usd_per_hour: f64) -> Rate {
    Rate::from_usd_micros_per_hour((usd_per_hour * 1e6).round() as u64)
}

/// Only whole steps count: whether work that ends within a step that passes the deadline is late is for the simulator to say.
fn whole_steps(time_left: f64, step: f64) -> f64 {
    if step > 0.0 { ((time_left + 1e-6) / step).floor() * step } else { time_left }
}

fn decide(task: &Task, seen: &Observation, history: &mut SpotHistory) -> Output {
    let now = Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds_up(seen.elapsed_s));
    let situation = DeadlineSituation {
        work_left_seconds: seconds_up(task.work_s - seen.done_s),
        time_left_seconds: -seconds_up(-whole_steps(task.deadline_s - seen.elapsed_s, seen.gap_s)),
        restart_seconds: seconds_up(task.restart_s),
        interval_seconds: seconds_up(seen.gap_s),
        on_demand: rate(task.on_demand_usd_h),
        spot: rate(task.spot_usd_h),
        running: seen.last,
        spot_is_refused: false,
    };
    Output { run: choose_by_launch(&situation, history, seen.spot, now).capacity }
}

#[expect(clippy::disallowed_methods, reason = "its reader is a program")]
fn main() -> Result<(), Box<dyn Error>> {
    let mut job: Option<(Task, SpotHistory)> = None;
    let mut out = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        match serde_json::from_str(&line)? {
            Input::Reset { reset } => job = Some((reset, SpotHistory::default())),
            Input::Observation(seen) => {
                let (task, history) = job.as_mut().ok_or("The first line must be a reset.")?;
                serde_json::to_writer(&mut out, &decide(task, &seen, history))?;
                writeln!(out)?;
                out.flush()?;
            }
        }
    }
    Ok(())
}
