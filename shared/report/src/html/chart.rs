//! Spend by day as stacked bars, drawn by `plotters` as inline SVG.
//!
//! `plotters` writes each colour as an attribute. [`CSS_CLASSES`] turns the colours of the series into classes, so that the style of the
//! page decides them in light and dark.

use std::collections::BTreeMap;

use maud::{Markup, PreEscaped, html};
use model::money::Amount;
use plotters::prelude::{
    ChartBuilder, DrawingAreaErrorKind, IntoDrawingArea as _, IntoFont as _, RGBColor, Rectangle, SVGBackend,
};

use super::plain;
use crate::DaySpend;

/// Teams with a colour of their own; the others share one.
const SERIES_MAX: usize = 5;

/// Attributes as `plotters` writes them, and the class that replaces each.
const CSS_CLASSES: [(RGBColor, &str, &str); SERIES_MAX + 1] = [
    (RGBColor(1, 0, 0), "fill=\"#010000\"", "class=\"c0\""),
    (RGBColor(2, 0, 0), "fill=\"#020000\"", "class=\"c1\""),
    (RGBColor(3, 0, 0), "fill=\"#030000\"", "class=\"c2\""),
    (RGBColor(4, 0, 0), "fill=\"#040000\"", "class=\"c3\""),
    (RGBColor(5, 0, 0), "fill=\"#050000\"", "class=\"c4\""),
    (RGBColor(6, 0, 0), "fill=\"#060000\"", "class=\"c5\""),
];
const GRID: (RGBColor, &str, &str) = (RGBColor(7, 0, 0), "stroke=\"#070000\"", "class=\"grid\"");

const SIZE: (u32, u32) = (720, 260);

type DrawingError = DrawingAreaErrorKind<std::io::Error>;

/// The chart with its legend; `None` if nothing was spent.
pub(super) fn spend_by_day(days: &[DaySpend]) -> Option<Markup> {
    let teams = largest_teams(days);
    let highest =
        days.iter().map(|day| day.by_team.values().copied().sum::<Amount>()).max().filter(|one| one.is_a_cent())?;
    let mut svg = String::new();
    draw(&mut svg, days, &teams, highest.usd()).ok()?;
    for (_, colour, class) in CSS_CLASSES.iter().chain([&GRID]) {
        svg = svg.replace(colour, class);
    }
    let title = format!("Spend by day, from {} to {}", days.first()?.day, days.last()?.day);
    let has_others = days.iter().flat_map(|day| day.by_team.keys()).any(|team| !teams.contains(team));
    Some(html! {
        figure style="margin:0" {
            div.scroll.chart tabindex="0" role="img" aria-label=(title) { (PreEscaped(svg)) }
            figcaption {
                ul.legend {
                    @for (place, team) in teams.iter().enumerate() { li { i class={ "c" (place) } {} (plain(team)) } }
                    @if has_others { li { i class={ "c" (SERIES_MAX) } {} "other teams" } }
                }
            }
        }
    })
}

fn largest_teams(days: &[DaySpend]) -> Vec<String> {
    let mut sums: BTreeMap<&String, Amount> = BTreeMap::new();
    for (team, usd) in days.iter().flat_map(|day| &day.by_team) {
        let sum = sums.entry(team).or_default();
        *sum = *sum + *usd;
    }
    let mut sums: Vec<(&String, Amount)> = sums.into_iter().collect();
    sums.sort_by(|(one, spent), (other, other_spent)| (other_spent, one).cmp(&(spent, other)));
    sums.into_iter().take(SERIES_MAX).map(|(team, _)| team.clone()).collect()
}

/// Labels are numbers and dates alone: no text of a tag gets into the picture.
fn draw(svg: &mut String, days: &[DaySpend], teams: &[String], highest: f64) -> Result<(), DrawingError> {
    let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    let count = i32::try_from(days.len()).unwrap_or(31);
    let mut chart = ChartBuilder::on(&area)
        .margin(8)
        .x_label_area_size(24)
        .y_label_area_size(64)
        .build_cartesian_2d(0..count, 0.0..highest * 1.05)?;
    let label = |place: &i32| {
        let day = usize::try_from(*place).ok().and_then(|place| days.get(place));
        day.map_or_else(String::new, |day| day.day.day().to_string())
    };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .axis_style(GRID.0)
        .bold_line_style(GRID.0)
        .light_line_style(plotters::style::TRANSPARENT)
        .x_labels(days.len().min(16))
        .x_label_formatter(&label)
        .y_labels(5)
        .y_label_formatter(&|usd| format!("${}", whole(*usd)))
        .label_style(("sans-serif", 13).into_font())
        .draw()?;
    for (place, day) in (0_i32..).zip(days) {
        let mut base = 0.0;
        let team_usd = |team: &String| day.by_team.get(team).map_or(0.0, |usd| usd.usd());
        let named = teams.iter().map(team_usd);
        let others =
            day.by_team.iter().filter(|(team, _)| !teams.contains(team)).map(|(_, usd)| usd.usd()).sum::<f64>();
        let missing = std::iter::repeat_n(0.0, SERIES_MAX - teams.len());
        for (usd, (colour, ..)) in named.chain(missing).chain([others]).zip(&CSS_CLASSES) {
            if usd > 0.0 {
                let corners = [(place, base), (place + 1, base + usd)];
                let mut bar = Rectangle::new(corners, plotters::style::Color::filled(colour));
                bar.set_margin(0, 0, 2, 2);
                chart.draw_series([bar])?;
                base += usd;
            }
        }
    }
    area.present()
}

/// Whole USD with commas, or cents where a dollar is much.
fn whole(usd: f64) -> String {
    let text = if usd < 10.0 && usd != 0.0 { format!("{usd:.2}") } else { format!("{usd:.0}") };
    let digits = text.split('.').next().map_or(0, str::len);
    let comma = |(place, digit): (usize, char)| {
        let comma = (place > 0 && place < digits && (digits - place).is_multiple_of(3)).then_some(',');
        comma.into_iter().chain([digit])
    };
    text.chars().enumerate().flat_map(comma).collect()
}
