//! One frame: a head line, the panels, and a foot line. The same panels make the text of `--once`.

use jiff::Timestamp;
use operator::watch::{Dashboard, RunLine, format_moment};
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};

use super::palette::{Emphasis, Palette};
use super::panel::{Panel, PanelView, allocate, draw_text};
use super::panels::{describe_totals, panels};
use super::text::{cut, safe, width};
use super::view::{RefreshStatus, View};

/// A smaller screen shows no useful panel.
const WIDTH_MIN: u16 = 40;
const HEIGHT_MIN: u16 = 8;
/// Height of the screen from which on a line names the newest runs.
const HEIGHT_OF_RUNS: u16 = 16;

const HELP: [&str; 15] = [
    "q, Esc, Ctrl-C     quit",
    "r                  refresh now",
    "Tab, Shift-Tab     next, previous panel: the marked one gets the most lines",
    "Up, Down           scroll by a line",
    "PgUp, PgDn         scroll by ten lines",
    "Home, End          the first, the last line",
    "?                  show or hide this help",
    "",
    "Times are UTC. GPU use is what Curfew last saw, and when: `unknown` is not",
    "zero, `held` is idle with GPU memory held. A price of `?` is unknown.",
    "An announced action is carried out only if a later run finds the same rule",
    "violated. `would stop` is what enforce mode would do.",
    "",
    "Explain one instance:  curfew explain ID",
    "Keep it:               curfew keep ID 3d",
];

/// Draws the dashboard, and stores in the view how much of each panel is visible.
pub(super) fn draw(
    dashboard: Option<&Dashboard>,
    view: &mut View,
    status: &RefreshStatus,
    buffer: &mut Buffer,
    palette: Palette,
) {
    let area = buffer.area;
    if area.width < WIDTH_MIN || area.height < HEIGHT_MIN {
        return draw_too_small(dashboard, area, buffer);
    }
    let runs_height = u16::from(area.height >= HEIGHT_OF_RUNS);
    let [head, runs, body, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(runs_height),
        Constraint::Min(0),
        Constraint::Length(1),
    ])
    .areas(area);
    let line = head_line(dashboard, &status.describe());
    draw_text(&line, head, buffer, Palette::title(false));
    if view.has_help {
        for (text, line) in HELP.iter().zip(body.rows().skip(1)) {
            draw_text(text, line, buffer, palette.emphasis(Emphasis::Normal));
        }
        return draw_foot(status, "", foot, buffer, palette);
    }
    let Some(dashboard) = dashboard else { return draw_foot(status, "", foot, buffer, palette) };
    if runs_height > 0 {
        draw_text(&runs_line(dashboard), runs, buffer, palette.emphasis(Emphasis::Dim));
    }
    let panels = panels(dashboard);
    view.fit(&panels);
    let lines = allocate(&panels, view.focus, usize::from(body.height));
    let mut from = body.y;
    let mut hidden = Vec::new();
    for (place, (panel, lines)) in panels.iter().zip(&lines).enumerate() {
        if *lines == 0 {
            hidden.push(panel.name.to_lowercase());
            view.shown[place] = 0;
            continue;
        }
        let height = u16::try_from(*lines).unwrap_or(u16::MAX);
        let area = Rect { y: from, height, ..body }.intersection(body);
        let of_panel = PanelView { offset: view.offsets[place], is_focused: place == view.focus, palette };
        view.shown[place] = panel.draw(area, buffer, of_panel);
        from = from.saturating_add(height);
    }
    let hidden = if hidden.is_empty() { String::new() } else { format!(" ({} hidden)", hidden.join(", ")) };
    draw_foot(status, &hidden, foot, buffer, palette);
}

/// The error of the last refresh; without one, the keys.
fn draw_foot(status: &RefreshStatus, hidden: &str, line: Rect, buffer: &mut Buffer, palette: Palette) {
    let (text, style) = match &status.error {
        Some(error) => (format!("error: {error}"), palette.emphasis(Emphasis::Alert)),
        None => (
            format!("q quit  r refresh  Tab next panel{hidden}  arrows scroll  ? help"),
            palette.emphasis(Emphasis::Dim),
        ),
    };
    draw_text(&text, line, buffer, style);
}

/// A screen that is too small shows the most important line.
fn draw_too_small(dashboard: Option<&Dashboard>, area: Rect, buffer: &mut Buffer) {
    let size = format!("too small: {}x{}, needs {WIDTH_MIN}x{HEIGHT_MIN}", area.width, area.height);
    let money = dashboard.map(describe_totals);
    let next = dashboard.and_then(|dashboard| {
        let event = dashboard.next.first()?;
        Some(format!("{} {} {}", format_moment(event.at, dashboard.at), event.what, event.subject))
    });
    for (text, line) in [Some(size), money, next, Some("q quit".to_owned())].into_iter().flatten().zip(area.rows()) {
        draw_text(&text, line, buffer, Palette { has_colors: false }.emphasis(Emphasis::Normal));
    }
}

fn head_line(dashboard: Option<&Dashboard>, status: &str) -> String {
    let Some(dashboard) = dashboard else { return format!("curfew watch  {status}") };
    let mode = dashboard.mode.map_or("mode unknown".to_owned(), |mode| format!("{} mode", mode.as_str()));
    format!("curfew  {}  {status}  {mode}", describe_totals(dashboard))
}

fn runs_line(dashboard: &Dashboard) -> String {
    let run = |run: &RunLine| {
        let late = if run.is_late { " (late)" } else { "" };
        format!("{} {}{late}", run.function, format_moment(run.at, dashboard.at))
    };
    let runs: Vec<String> = dashboard.runs.iter().map(run).collect();
    format!("newest runs: {}", if runs.is_empty() { "none".to_owned() } else { runs.join(", ") })
}

/// Formats the dashboard as plain lines: each panel with every row, up to this width.
pub(super) fn lines(dashboard: &Dashboard, columns: Option<usize>) -> Vec<String> {
    let palette = Palette { has_colors: false };
    let panels = panels(dashboard);
    let head = safe(&head_line(Some(dashboard), &format!("as of {}", second(dashboard.at))));
    let runs = safe(&runs_line(dashboard));
    let natural = panels.iter().map(Panel::natural_width).chain([width(&head), width(&runs)]).max().unwrap_or_default();
    let columns = columns.unwrap_or(natural).clamp(1, usize::from(u16::MAX));
    let mut lines = vec![cut(&head, columns), cut(&runs, columns)];
    for panel in panels {
        lines.push(String::new());
        lines.extend(panel_lines(&panel, u16::try_from(columns).unwrap_or(u16::MAX), palette));
    }
    lines
}

/// Row by row: one picture of a large account would take a lot of memory.
fn panel_lines(panel: &Panel, columns: u16, palette: Palette) -> Vec<String> {
    let view = PanelView { offset: 0, is_focused: false, palette };
    let overhead = u16::try_from(panel.overhead() + usize::from(panel.rows.is_empty())).unwrap_or(u16::MAX);
    let mut top = Buffer::empty(Rect::new(0, 0, columns, overhead));
    panel.draw_top(top.area, &mut top, view, None);
    let mut lines: Vec<String> = (0..overhead).map(|y| line_of(&top, y)).collect();
    let widths = panel.widths(usize::from(columns));
    for row in &panel.rows {
        let mut line = Buffer::empty(Rect::new(0, 0, columns, 1));
        panel.draw_row(row, &widths, line.area, &mut line, palette);
        lines.push(line_of(&line, 0));
    }
    lines
}

/// A line as text: a wide letter covers the cells after it.
pub(super) fn line_of(buffer: &Buffer, y: u16) -> String {
    let mut line = String::new();
    let mut skipped = 0;
    for x in buffer.area.left()..buffer.area.right() {
        if skipped > 0 {
            skipped -= 1;
            continue;
        }
        let symbol = buffer[(x, y)].symbol();
        line.push_str(symbol);
        skipped = width(symbol).saturating_sub(1);
    }
    line.trim_end().to_owned()
}

/// `12:03:15 UTC`.
pub(super) fn second(at: Timestamp) -> String {
    at.strftime("%H:%M:%S UTC").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_fits_a_usual_terminal() {
        assert!(HELP.len() < 22 && HELP.iter().all(|line| width(line) <= 80));
    }
}
