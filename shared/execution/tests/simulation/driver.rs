//! Simulates the requested number of accounts, or repeats one of them.

use std::fmt::Debug;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use model::fault::InvalidValue;
use plan::{Action, Plan, SkipReason, Step};

const HELP: &str = "\
--account-days N   live accounts until so many days have passed (default 24)
--base-seed N      the first account's seed; the others follow (default 20260901)
--threads N        accounts at once (default: one a core)
--seed N           live exactly this account, and log its life
--days N           with --seed: only so many days of it
--verbose          with --seed: log spared ones too";

struct Arguments {
    account_days: u64,
    base_seed: u64,
    threads: usize,
    seed: Option<u64>,
    days: Option<u64>,
    verbose: bool,
}

/// A bug in a plan: a run goes on without what it is about, but a simulation fails.
pub(crate) fn find_bug(plan: &Plan) -> Option<String> {
    let skipped = plan.skipped.iter().find(|one| one.reason == SkipReason::Bug).map(|one| format!("{one:?}"));
    let gap = plan.gaps.iter().find(|gap| gap.error.starts_with("a bug in Curfew")).map(|gap| format!("{gap:?}"));
    skipped.or(gap)
}

/// What is simulated: an account by its seed, and the total of many accounts.
pub(crate) struct Simulation<L, T> {
    /// The test target's.
    pub(crate) name: &'static str,
    /// How many days a seed's account lasts.
    pub(crate) days_of: fn(u64) -> u64,
    /// Simulates an account, by seed, days and verbosity.
    pub(crate) live: fn(u64, u64, u8) -> L,
    /// Adds an account to the tally.
    pub(crate) add: fn(&mut T, L),
    /// Prints the tally. Returns whether it passes.
    pub(crate) print: fn(T, Duration) -> bool,
}

pub(crate) fn run<L, T: Default + Send>(simulation: &Simulation<L, T>) -> ExitCode {
    let arguments = match arguments(simulation.name) {
        Ok(Some(arguments)) => arguments,
        Ok(None) => return ExitCode::SUCCESS,
        Err(problem) => {
            println!("{problem}\n{HELP}");
            return ExitCode::FAILURE;
        }
    };
    let begin = Instant::now();
    let mut tally = T::default();
    if let Some(seed) = arguments.seed {
        let days = arguments.days.unwrap_or_else(|| (simulation.days_of)(seed));
        (simulation.add)(&mut tally, (simulation.live)(seed, days, 1 + u8::from(arguments.verbose)));
    } else {
        println!("base seed {}", arguments.base_seed);
        tally = live_all(simulation, &arguments);
    }
    if (simulation.print)(tally, begin.elapsed()) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Simulates accounts until their days are enough. The same arguments give the same result with any number of threads.
fn live_all<L, T: Default + Send>(simulation: &Simulation<L, T>, arguments: &Arguments) -> T {
    let mut plan = Vec::new();
    let mut days_left = arguments.account_days;
    // A short simulation still has several accounts.
    let days_max = days_left.div_ceil(8);
    for seed in arguments.base_seed.. {
        if days_left == 0 {
            break;
        }
        let days = (simulation.days_of)(seed).min(days_left).min(days_max);
        days_left -= days;
        plan.push((seed, days));
    }
    let next = AtomicUsize::new(0);
    let tally = Mutex::new(T::default());
    std::thread::scope(|scope| {
        for _ in 0..arguments.threads {
            scope.spawn(|| {
                while let Some((seed, days)) = plan.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let life = (simulation.live)(*seed, *days, 0);
                    if let Ok(mut tally) = tally.lock() {
                        (simulation.add)(&mut tally, life);
                    }
                }
            });
        }
    });
    tally.into_inner().unwrap_or_default()
}

fn arguments(target: &str) -> Result<Option<Arguments>, InvalidValue> {
    let mut arguments = Arguments {
        account_days: 24,
        base_seed: 20_260_901,
        threads: std::thread::available_parallelism().map_or(1, usize::from),
        seed: None,
        days: None,
        verbose: false,
    };
    let mut given = std::env::args().skip(1);
    while let Some(name) = given.next() {
        let mut number = || -> Result<u64, InvalidValue> {
            let value = given.next().unwrap_or_default();
            let wrong = |_| InvalidValue::new(format!("{name} takes a whole number, and not `{value}`"));
            value.replace('_', "").parse().map_err(wrong)
        };
        match name.as_str() {
            "--account-days" => arguments.account_days = number()?,
            "--base-seed" => arguments.base_seed = number()?,
            "--threads" => arguments.threads = usize::try_from(number()?.clamp(1, 256)).unwrap_or(1),
            "--seed" => arguments.seed = Some(number()?),
            "--days" => arguments.days = Some(number()?),
            "--verbose" => arguments.verbose = true,
            "--help" => {
                println!("{HELP}");
                return Ok(None);
            }
            // `cargo test` passes its own arguments to every target; there is only one test to list or to leave out.
            "--list" | "--ignored" => return Ok(None),
            "--skip" | "--test-threads" | "--format" | "--color" => drop(given.next()),
            "--nocapture" | "--no-capture" | "--exact" | "--quiet" | "-q" | "--include-ignored" | "--show-output" => {}
            _ if name.starts_with('-') && name.len() > 1 => {
                return Err(InvalidValue::new(format!("there is no {name}")));
            }
            filter if target.contains(filter) => {}
            _ => return Ok(None),
        }
    }
    Ok(Some(arguments))
}

/// The effect of a step, without the resource, for logs.
pub(crate) fn debug_action(step: &Step) -> &dyn Debug {
    match &step.action {
        Action::Instance(_, action) => action,
        Action::Volume(_, action) => action,
        Action::Snapshot(_, action) => action,
        Action::SageMaker(_, action) => action,
        Action::Budget(action) => action,
    }
}
