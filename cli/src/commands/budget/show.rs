//! The result for people.

use billing::budget::overview::{BudgetDataState, BudgetOverview, BudgetRow};
use billing::budget::{Budget, Spender, overview};
use model::foreign_text::shell_word;
use model::money::{Amount, Rate};

use crate::commands::plans::minute;
use crate::screen::{self, ColumnAlignment, Table, plain};

/// The time and the reservations: a narrow terminal shows the rest of the budget first.
const SPARED: usize = 2;

/// Shows all budgets in a table, or one in detail.
pub(super) fn show(overview: &BudgetOverview, is_one: bool) {
    if is_one {
        for row in &overview.rows {
            detail(overview, row);
        }
    } else {
        screen::print_line(format!("{}\n", overview.period.month));
        table(overview).print();
        if let Some(footnote) = overview.footnote() {
            screen::print_line(footnote);
        }
        for note in overview.shared_notes() {
            screen::print_line(plain(&note));
        }
        let dearest = overview.rows.iter().find(|row| row.over).or_else(|| overview.rows.get(1));
        if let Some(team) = dearest.and_then(|row| row.team.as_ref()) {
            screen::progress(format!("\nDetails:  curfew budget {}", shell_word(team.as_str())));
        }
    }
}

fn table(overview: &BudgetOverview) -> Table<8> {
    let table = Table::new([
        ("team", ColumnAlignment::Left),
        ("budget", ColumnAlignment::Right),
        ("spent", ColumnAlignment::Right),
        ("%", ColumnAlignment::Right),
        ("forecast", ColumnAlignment::Right),
        ("verdict", ColumnAlignment::Left),
        ("reserved", ColumnAlignment::Right),
        ("as of", ColumnAlignment::Left),
    ]);
    let mut table = table.sparing(SPARED);
    for row in &overview.rows {
        let figures = row.budget.as_ref().filter(|_| row.state != BudgetDataState::Absent);
        let money = |of: &dyn Fn(&Budget) -> Option<Amount>| {
            figures.map_or_else(
                || "?".to_owned(),
                |budget| of(budget).map_or_else(|| "-".to_owned(), |usd| usd.to_string()),
            )
        };
        table.row([
            row.name(),
            money(&|budget| budget.budget_usd),
            row.spent().unwrap_or_else(|| "?".to_owned()),
            row.percent.map_or_else(|| "-".to_owned(), |percent| percent.to_string()),
            money(&|budget| budget.forecast_usd),
            row.consequence().to_owned(),
            money(&|budget| Some(budget.reserved_usd)),
            overview.how_old(row),
        ]);
    }
    table
}

fn detail(overview: &BudgetOverview, row: &BudgetRow) {
    let BudgetOverview { period, .. } = overview;
    let Some(budget) = row.budget.as_ref().filter(|_| row.state != BudgetDataState::Absent) else {
        return screen::print_line(format!("{}, {}: unknown", row.name(), period.month));
    };
    let at = budget.as_of.map(|as_of| format!(", as of {} UTC ({})", minute(as_of), overview.how_old(row)));
    screen::print_line(format!("{}, {}{}\n", row.name(), period.month, at.unwrap_or_default()));
    let facts = row.facts();
    let wide = |width: fn(&billing::budget::overview::BudgetFigure) -> usize| {
        facts.iter().map(width).max().unwrap_or_default()
    };
    let (labels, figures) = (wide(|fact| fact.label.len()), wide(|fact| fact.figure.chars().count()));
    for fact in &facts {
        let line = format!("{:labels$}  {:>figures$}  {}", fact.label, fact.figure, plain(&fact.words));
        screen::print_line(line.trim_end());
    }
    spenders(budget);
    teams(budget);
    unpriced(row);
    reservations(budget);
    if !budget.remedy.is_empty() {
        screen::print_line(format!("\n{}:", row.remedy_is()));
        for remedy in &budget.remedy {
            screen::print_line(format!("- {remedy}"));
        }
    }
}

fn spenders(budget: &Budget) {
    if budget.top.is_empty() {
        return;
    }
    let mut table = Table::new([
        ("spent", ColumnAlignment::Right),
        ("burn rate", ColumnAlignment::Right),
        ("resource", ColumnAlignment::Whole),
        ("what", ColumnAlignment::Left),
        ("name", ColumnAlignment::Left),
        ("owner", ColumnAlignment::Left),
        ("region", ColumnAlignment::Left),
    ]);
    for spender in &budget.top {
        let Spender { resource, region, what, name, owner, usd, .. } = spender;
        let text = |of: &Option<String>| of.clone().unwrap_or_else(|| "-".to_owned());
        table.row([
            usd.to_string(),
            burn_rate(spender),
            resource.to_string(),
            what.clone(),
            text(name),
            text(owner),
            region.to_string(),
        ]);
    }
    screen::print_line("");
    table.print();
    if budget.others.count > 0 {
        screen::print_line(format!("and {} for {}", screen::counted(budget.others.count, "other"), budget.others.usd));
    }
}

fn burn_rate(spender: &Spender) -> String {
    match spender.usd_per_hour {
        _ if !spender.running => "ended".to_owned(),
        None => "?".to_owned(),
        Some(usd) => Rate::from_usd_micros_per_hour(Amount::from_usd(usd).usd_micros()).to_string(),
    }
}

/// The account's, the most expensive first.
fn teams(budget: &Budget) {
    let mut teams: Vec<_> = budget.teams.iter().filter(|(_, usd)| usd.is_a_cent()).collect();
    teams.sort_by(|(one, usd), (other, more)| more.cmp(usd).then_with(|| one.cmp(other)));
    if teams.is_empty() {
        return;
    }
    let mut table = Table::new([("spent", ColumnAlignment::Right), ("team", ColumnAlignment::Left)]);
    for (team, usd) in teams {
        table.row([usd.to_string(), overview::shown(team)]);
    }
    screen::print_line("");
    table.print();
}

fn unpriced(row: &BudgetRow) {
    let lines = row.describe_unpriced();
    if !lines.is_empty() {
        screen::print_line("\nOf unknown price, not counted:");
        for one in &lines {
            screen::print_line(format!("- {one}"));
        }
    }
}

fn reservations(budget: &Budget) {
    if budget.reservations.is_empty() {
        return;
    }
    let mut table = Table::new([
        ("at most", ColumnAlignment::Right),
        ("job", ColumnAlignment::Left),
        ("from (UTC)", ColumnAlignment::Left),
        ("until", ColumnAlignment::Left),
    ]);
    for (job, reservation) in &budget.reservations {
        table.row([reservation.usd.to_string(), job.clone(), minute(reservation.since), minute(reservation.until)]);
    }
    screen::print_line("\nReserved for jobs:");
    table.print();
}
