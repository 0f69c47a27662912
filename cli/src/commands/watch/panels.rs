//! The dashboard as panels: the columns of each, and their cells.

use jiff::Timestamp;
use model::duration::format_duration;
use model::money::{Amount, Rate};
use operator::watch::{
    BudgetLine, Dashboard, EventKind, GpuState, InstanceRow, JobRow, OutlookKind, UpcomingEvent, format_moment,
};

use super::palette::Emphasis;
use super::panel::ColumnWidth::{Figure, Whole, Words};
use super::panel::{Panel, PanelRow, column};
use crate::screen::counted;

/// The width of a budget's gauge.
const GAUGE: u64 = 10;

/// Every panel, in the order of Tab. The one about problems is there only if there is a problem.
pub(super) fn panels(dashboard: &Dashboard) -> Vec<Panel> {
    let mut panels = vec![instances(dashboard), next(dashboard), jobs(dashboard), budgets(dashboard)];
    let problems = problems(dashboard);
    if !problems.rows.is_empty() {
        panels.push(problems);
    }
    panels
}

/// `12 running, at least $34.50/h; 1 without a price`.
pub(super) fn describe_totals(dashboard: &Dashboard) -> String {
    let totals = dashboard.totals;
    let costs = totals
        .costs
        .known()
        .map_or_else(|| "price unknown".to_owned(), |_| totals.costs.describe(|rate| rate.to_string()));
    format!("{} running, {costs}", totals.running)
}

fn instances(dashboard: &Dashboard) -> Panel {
    let row = |one: &InstanceRow| {
        let emphasis = match one.outlook.kind {
            OutlookKind::AwaitsApproval => Emphasis::Alert,
            OutlookKind::Stop | OutlookKind::Terminate => Emphasis::Warning,
            _ if one.gpu.state == GpuState::Off => Emphasis::Dim,
            _ => Emphasis::Normal,
        };
        let cells = [
            rate(one.usd_per_hour),
            one.instance.to_string(),
            one.instance_type.clone(),
            one.team.as_ref().map_or("-".to_owned(), ToString::to_string),
            one.gpu.describe(dashboard.at),
            one.outlook.describe(dashboard.at),
            one.name.clone().unwrap_or_default(),
            one.region.to_string(),
        ];
        PanelRow::new(cells, emphasis)
    };
    let others = dashboard.totals.others;
    let others = if others > 0 { format!(", {others} not running") } else { String::new() };
    Panel {
        name: "INSTANCES",
        summary: format!("{}{others}", describe_totals(dashboard)),
        columns: vec![
            column("USD/h", Figure, 0),
            column("instance", Whole, 0),
            column("type", Words(9), 3),
            column("team", Words(6), 4),
            column("GPU use", Whole, 2),
            column("next", Words(16), 1),
            column("name", Words(8), 5),
            column("region", Words(9), 6),
        ],
        rows: dashboard.instances.iter().map(row).collect(),
        nothing: "no instance with an accelerator",
    }
}

fn next(dashboard: &Dashboard) -> Panel {
    let row = |event: &UpcomingEvent| {
        let is_due = event.at <= dashboard.at;
        let when = if is_due { "next run".to_owned() } else { format_moment(event.at, dashboard.at) };
        let money = match event.kind {
            EventKind::Budget if event.usd_per_hour.is_none() => "-".to_owned(),
            _ => rate(event.usd_per_hour),
        };
        let cells = [when, money, event.what.to_owned(), event.subject.clone(), event.detail.clone()];
        PanelRow::new(cells, if is_due { Emphasis::Warning } else { Emphasis::Normal })
    };
    Panel {
        name: "NEXT",
        summary: "if nothing changes until then".to_owned(),
        columns: vec![
            column("when", Whole, 0),
            column("USD/h", Figure, 2),
            column("what", Whole, 0),
            column("of", Words(12), 0),
            column("why", Words(8), 1),
        ],
        rows: dashboard.next.iter().map(row).collect(),
        nothing: "nothing is due",
    }
}

fn jobs(dashboard: &Dashboard) -> Panel {
    let row = |job: &JobRow| {
        let cells = [
            job.usd_per_hour.to_string().trim_start_matches('$').trim_end_matches("/h").to_owned(),
            job.job.to_string(),
            job.state.to_owned(),
            job.describe_progress(),
            job.gpu.describe(dashboard.at),
            cost(job),
            job.finish_by.map_or("-".to_owned(), |at| deadline(at, job.slack_seconds, dashboard.at)),
            job.attempts.to_string(),
            job.describe_type(),
            job.heartbeat_at.map_or("-".to_owned(), |at| ago(at, dashboard.at)),
            job.why.clone(),
        ];
        let is_late = job.slack_seconds.is_some_and(|slack| slack < 0);
        PanelRow::new(cells, if is_late || job.state == "held" { Emphasis::Warning } else { Emphasis::Normal })
    };
    Panel {
        name: "JOBS",
        summary: format!("{} unfinished", dashboard.jobs.len()),
        columns: vec![
            column("USD/h", Figure, 0),
            column("job", Words(16), 0),
            column("state", Whole, 0),
            column("step", Words(8), 1),
            column("GPU use", Whole, 2),
            column("cost at most", Figure, 3),
            column("deadline", Whole, 4),
            column("attempts", Figure, 6),
            column("type", Words(9), 7),
            column("heartbeat", Whole, 8),
            column("why", Words(12), 5),
        ],
        rows: dashboard.jobs.iter().map(row).collect(),
        nothing: "no unfinished job",
    }
}

fn budgets(dashboard: &Dashboard) -> Panel {
    let row = |line: &BudgetLine| {
        let money = |amount: Option<Amount>| match amount {
            Some(amount) => amount.to_string(),
            None if line.spent_usd.is_some() => "-".to_owned(),
            None => "unknown".to_owned(),
        };
        let plus = if line.at_least { "+" } else { "" };
        let cells = [
            line.holder.clone(),
            line.spent_usd.map_or("unknown".to_owned(), |spent| format!("{spent}{plus}")),
            money(line.budget_usd),
            line.percent.map(gauge).unwrap_or_default(),
            money(line.forecast_usd),
            line.consequence.to_owned(),
            line.age.clone(),
        ];
        let emphasis = match line.forecast_percent {
            _ if line.over => Emphasis::Alert,
            Some(100..) => Emphasis::Warning,
            _ => Emphasis::Normal,
        };
        PanelRow::new(cells, emphasis)
    };
    Panel {
        name: "BUDGETS",
        summary: String::new(),
        columns: vec![
            column("of", Words(9), 0),
            column("spent", Figure, 0),
            column("budget", Figure, 1),
            column("used", Whole, 2),
            column("forecast", Figure, 3),
            column("verdict", Words(8), 4),
            column("as of", Whole, 5),
        ],
        rows: dashboard.budgets.iter().map(row).collect(),
        nothing: "no budget",
    }
}

fn problems(dashboard: &Dashboard) -> Panel {
    let awaiting = dashboard.awaiting_approval.iter().map(|one| {
        let verb = if one.actions == 1 { "awaits" } else { "await" };
        let words =
            format!("{} of {} {verb} approval: curfew plans {}", counted(one.actions, "action"), one.function, one.run);
        PanelRow::new([words], Emphasis::Alert)
    });
    let unknown = dashboard.problems.iter().map(|problem| PanelRow::new([problem.clone()], Emphasis::Warning));
    Panel {
        name: "ATTENTION",
        summary: String::new(),
        columns: vec![column("", Words(20), 0)],
        rows: awaiting.chain(unknown).collect(),
        nothing: "",
    }
}

/// `[########--]  84 %`.
fn gauge(percent: u64) -> String {
    let full = percent.saturating_mul(GAUGE).div_euclid(100).min(GAUGE);
    let [full, empty] = [full, GAUGE.saturating_sub(full)].map(|cells| usize::try_from(cells).unwrap_or_default());
    format!("[{}{}] {percent:>3} %", "#".repeat(full), "-".repeat(empty))
}

fn rate(rate: Option<Rate>) -> String {
    rate.map_or("?".to_owned(), |rate| rate.to_string().trim_start_matches('$').trim_end_matches("/h").to_owned())
}

fn cost(job: &JobRow) -> String {
    let of = job.max_usd.map(|most| format!(" of {most}")).unwrap_or_default();
    format!("{}{of}", job.cost_usd_max)
}

fn deadline(at: Timestamp, slack_seconds: Option<i64>, now: Timestamp) -> String {
    let late = if slack_seconds.is_some_and(|slack| slack < 0) { " late" } else { "" };
    format!("{}{late}", format_moment(at, now))
}

fn ago(at: Timestamp, now: Timestamp) -> String {
    format!("{} ago", format_duration(now.duration_since(at)))
}
