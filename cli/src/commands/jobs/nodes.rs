//! The nodes of a job on several machines.

use jiff::Timestamp;
use jobs::node_gang::NodeOverview;
use jobs::{Job, JobOverview};
use model::duration::format_duration;

use super::read::JobDetails;
use crate::screen;

/// `: attempt 1, 4 of 4 nodes, step 120 (8s ago, complete on all 4)`; nothing for a job on one machine, or without machines.
pub(super) fn describe_progress(overview: &JobOverview, details: &JobDetails, now: Timestamp) -> String {
    let Some(machine) = overview.machine.as_ref().filter(|_| !overview.over && !details.nodes.is_empty()) else {
        return String::new();
    };
    let all = details.nodes.len();
    let alive = details.nodes.iter().filter(|node| node.is_alive(now)).count();
    let age = overview.step_at.map(|at| format!("{} ago, ", format_duration(now.duration_since(at))));
    let age = age.unwrap_or_default();
    let step = overview.step.map(|step| format!(", step {step} ({age}complete on all {all})")).unwrap_or_default();
    format!(": attempt {}, {alive} of {all} nodes{step}", machine.attempt)
}

/// Prints a line for each node, and an empty one.
pub(super) fn print(job: &Job, details: &JobDetails, now: Timestamp) {
    let has_gpus = !job.terms.is_cpu_job();
    let rows: Vec<Vec<String>> = details.nodes.iter().map(|node| cells(node, has_gpus, now)).collect();
    for row in &rows {
        let padded = row.iter().enumerate().map(|(column, cell)| {
            let widths = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
            format!("{cell:width$}", width = widths.max().unwrap_or_default())
        });
        screen::print_line(padded.collect::<Vec<_>>().join("  ").trim_end());
    }
    if !rows.is_empty() {
        screen::print_line("");
    }
}

/// `node 0`, `i-0a…`, `10.0.1.11`, `running`, `gpu 97 %`.
fn cells(node: &NodeOverview, has_gpus: bool, now: Timestamp) -> Vec<String> {
    let address = node.address.map_or_else(|| "no address yet".to_owned(), |address| address.to_string());
    let silent = node.at.filter(|_| !node.has_exited && !node.is_alive(now));
    let silent = silent.map(|at| format!("no heartbeat for {}", format_duration(now.duration_since(at))));
    let doing = match (&node.doing, silent) {
        (Some(doing), Some(silent)) => format!("{doing}, {silent}"),
        (None, Some(silent)) => silent,
        (Some(doing), None) => doing.clone(),
        (None, None) if node.at.is_some() => "activity unknown".to_owned(),
        (None, None) => "no heartbeat yet".to_owned(),
    };
    let gpu = match node.gpu_percent {
        _ if !has_gpus || node.has_exited => String::new(),
        Some(percent) => format!("gpu {percent:.0} %"),
        None => "gpu unknown".to_owned(),
    };
    vec![format!("node {}", node.node), node.instance.to_string(), address, doing, gpu]
}
