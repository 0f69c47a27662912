//! Replays Spot availability and prints what each policy for jobs with a deadline costs, beside what could have been known afterwards.
//!
//! `deadline-simulator [FOLDER] [--step SECONDS] [--starts COUNT]`: the folder holds traces as `skypilot-org/spot-traces`
//! has them. Without it, availability is made up, from exponential stays and absences.

mod optimum;
mod replay;
mod strategies;
mod traces;

use std::error::Error;
use std::path::PathBuf;

use jobs::Capacity;
use model::money::Rate;
use replay::{Market, Outcome, Strategy, Task, replay};
use strategies::{Curfew, Greedy, OnDemandOnly, UniformProgress};
use traces::{Trace, read_traces, synthetic_traces};

const HOUR: i64 = 3600;
const WORK: i64 = 48 * HOUR;
const DEADLINES: [i64; 2] = [52 * HOUR, 70 * HOUR];
const RESTARTS: [i64; 2] = [3 * 60, 12 * 60];
/// p3.2xlarge, the type of the traces.
const ON_DEMAND: Rate = Rate::from_usd_micros_per_hour(3_060_000);
const SPOT: Rate = Rate::from_usd_micros_per_hour(973_100);

const NAMES: [&str; 5] = ["on-demand", "greedy", "uniform", "curfew", "optimum"];

/// Scores in %, by strategy.
type Scores = [f64; NAMES.len()];

struct Settings {
    folder: Option<PathBuf>,
    step: i64,
    starts: usize,
}

fn settings() -> Result<Settings, Box<dyn Error>> {
    let mut settings = Settings { folder: None, step: 600, starts: 40 };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--step" => settings.step = arguments.next().ok_or("--step needs seconds.")?.parse()?,
            "--starts" => settings.starts = arguments.next().ok_or("--starts needs a count.")?.parse()?,
            folder => settings.folder = Some(folder.into()),
        }
    }
    Ok(settings)
}

/// Sums over all starts of one row of the table.
#[derive(Clone, Copy, Default)]
struct Row {
    runs: f64,
    usd: [f64; NAMES.len()],
    late: [u32; NAMES.len()],
}

impl Row {
    fn add(&mut self, other: &Self) {
        self.runs += other.runs;
        for n in 0..NAMES.len() {
            self.usd[n] += other.usd[n];
            self.late[n] += other.late[n];
        }
    }

    fn mean_usd(&self, n: usize) -> f64 {
        self.usd[n] / self.runs
    }

    /// 0 is on-demand only, and 100 all on Spot without an interruption.
    fn score(&self, n: usize) -> f64 {
        let cost = |rate: Rate| replay::usd(rate, WORK);
        100.0 * (cost(ON_DEMAND) - self.mean_usd(n)) / (cost(ON_DEMAND) - cost(SPOT))
    }

    fn print(&self, label: &str) {
        print!("{label:34}");
        for (n, name) in NAMES.iter().enumerate() {
            print!("  {name} {:6.2} {:5.1}", self.mean_usd(n), self.score(n));
            if self.late[n] > 0 {
                print!(" ({} LATE)", self.late[n]);
            }
        }
        println!("  share of the optimum {:3.0} {:3.0}", self.share(2), self.share(3));
    }

    fn share(&self, n: usize) -> f64 {
        100.0 * self.score(n) / self.score(4)
    }
}

fn run_one(zones: &[&[bool]], task: Task, &Settings { step, .. }: &Settings) -> Row {
    let market = Market { zones, step, on_demand: ON_DEMAND, spot: SPOT };
    let mut strategies: [Box<dyn Strategy>; 4] = [
        Box::new(OnDemandOnly),
        Box::new(Greedy::new(task, step)),
        Box::new(UniformProgress::new(task, step)),
        Box::new(Curfew::new(task, &market)),
    ];
    let mut row = Row { runs: 1.0, ..Row::default() };
    for (n, strategy) in strategies.iter_mut().enumerate() {
        let Outcome { usd, is_late } = replay(&market, task, strategy.as_mut());
        row.usd[n] = usd;
        row.late[n] = u32::from(is_late);
    }
    row.usd[4] = optimum::optimal_usd(&market, task);
    row
}

/// Starts are spread evenly over the trace.
fn run_all(zones: &[&Trace], task: Task, settings: &Settings) -> Row {
    let needed = usize::try_from(task.deadline / settings.step + 2).unwrap_or(usize::MAX);
    let length = zones.iter().map(|zone| zone.is_available.len()).min().unwrap_or_default();
    let mut row = Row::default();
    for start in 0..settings.starts {
        let from = length.saturating_sub(needed) * start / settings.starts.saturating_sub(1).max(1);
        let windows: Vec<&[bool]> = zones.iter().map(|zone| &zone.is_available[from..]).collect();
        row.add(&run_one(&windows, task, settings));
    }
    row
}

fn print_table(title: &str, runs: &[Vec<&Trace>], settings: &Settings) -> Scores {
    println!("{title}: mean cost in USD and score in %");
    let (mut scores, mut worst) = (Scores::default(), (f64::INFINITY, String::new()));
    for deadline in DEADLINES {
        for restart in RESTARTS {
            let task = Task { work: WORK, deadline, restart };
            let case = format!("{} h, {} min", deadline / HOUR, restart / 60);
            let mut total = Row::default();
            for zones in runs {
                let row = run_all(zones, task, settings);
                let label = format!("{} {case}", zones.iter().map(|z| z.name.as_str()).collect::<Vec<_>>().join("+"));
                let margin = row.score(3) - row.score(2);
                if margin < worst.0 {
                    worst = (margin, label.clone());
                }
                if runs.len() > 1 {
                    row.print(&format!("  {label}"));
                }
                total.add(&row);
            }
            total.print(&case);
            for (n, score) in scores.iter_mut().enumerate() {
                *score += total.score(n) / 4.0;
            }
        }
    }
    print_scores("mean score", &scores);
    println!("least advantage over uniform: {:.1} points ({})\n", worst.0, worst.1);
    scores
}

fn print_scores(title: &str, scores: &Scores) {
    let [_, greedy, uniform, curfew, optimum] = scores;
    println!(
        "{title}: greedy {greedy:.1}, uniform {uniform:.1}, curfew {curfew:.1}, optimum {optimum:.1}; share of the optimum: \
         uniform {:.1} %, curfew {:.1} %",
        100.0 * uniform / optimum,
        100.0 * curfew / optimum
    );
}

fn main() -> Result<(), Box<dyn Error>> {
    let settings = settings()?;
    let real =
        settings.folder.as_ref().map(|folder| read_traces(folder, settings.step)).transpose()?.unwrap_or_default();
    let traces = if real.is_empty() {
        println!(
            "No traces of real availability were found, so these are synthetic. Pass the folder that holds them.\n"
        );
        synthetic_traces(settings.step)
    } else {
        real
    };
    let (high, low): (Vec<&Trace>, Vec<&Trace>) = traces.iter().partition(|trace| trace.share_available() > 0.5);
    let mut means = Scores::default();
    let groups = [("Low", low), ("High", high)];
    for (level, zones) in groups.iter().filter(|(_, zones)| !zones.is_empty()) {
        let one_by_one: Vec<Vec<&Trace>> = zones.iter().map(|zone| vec![*zone]).collect();
        let scores = print_table(&format!("{level} availability, one zone at a time"), &one_by_one, &settings);
        for (mean, score) in means.iter_mut().zip(scores) {
            *mean += score / 2.0;
        }
    }
    if groups.iter().all(|(_, zones)| !zones.is_empty()) {
        print_scores("Mean score of low and high availability", &means);
        println!();
    }
    for (level, zones) in groups.iter().filter(|(_, zones)| zones.len() > 1) {
        print_table(&format!("{level} availability, all zones at once"), std::slice::from_ref(zones), &settings);
    }
    Ok(())
}

/// The choice of a strategy, with the zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Machine {
    None,
    Spot(usize),
    OnDemand,
}

impl Machine {
    fn capacity(self) -> Capacity {
        match self {
            Self::None => Capacity::None,
            Self::Spot(_) => Capacity::Spot,
            Self::OnDemand => Capacity::OnDemand,
        }
    }
}
