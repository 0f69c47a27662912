//! One list of the dashboard: a title, headings and rows, in as many columns as fit.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::palette::{Emphasis, Palette};
use super::text::{cut, safe, width};

/// The space between two columns.
const GAP: usize = 2;

/// The way in which a column shrinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ColumnWidth {
    /// Figures, right-aligned; never cut.
    Figure,
    /// Ids and times; never cut.
    Whole,
    /// Words, cut to this width at least.
    Words(usize),
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Column {
    pub(super) heading: &'static str,
    pub(super) width: ColumnWidth,
    /// If there is no room, the highest is left out first; 0 never is.
    pub(super) rank: u8,
}

pub(super) const fn column(heading: &'static str, width: ColumnWidth, rank: u8) -> Column {
    Column { heading, width, rank }
}

pub(super) struct PanelRow {
    cells: Vec<String>,
    emphasis: Emphasis,
}

impl PanelRow {
    /// Creates a row. It takes as many cells as the panel has columns.
    pub(super) fn new(cells: impl IntoIterator<Item = String>, emphasis: Emphasis) -> Self {
        Self { cells: cells.into_iter().map(|cell| safe(&cell)).collect(), emphasis }
    }
}

pub(super) struct Panel {
    pub(super) name: &'static str,
    /// The totals in figures, after the name.
    pub(super) summary: String,
    /// A panel of sentences has one, without heading.
    pub(super) columns: Vec<Column>,
    pub(super) rows: Vec<PanelRow>,
    /// Shown if there are no rows.
    pub(super) nothing: &'static str,
}

/// The visible rows, and the style of the panel.
#[derive(Debug, Clone, Copy)]
pub(super) struct PanelView {
    pub(super) offset: usize,
    pub(super) is_focused: bool,
    pub(super) palette: Palette,
}

impl Panel {
    fn has_headings(&self) -> bool {
        !self.rows.is_empty() && self.columns.iter().any(|column| !column.heading.is_empty())
    }

    /// The lines besides rows.
    pub(super) fn overhead(&self) -> usize {
        1 + usize::from(self.has_headings())
    }

    /// The lines that show all of it.
    pub(super) fn height(&self) -> usize {
        self.overhead() + self.rows.len().max(1)
    }

    /// The columns that show all of it.
    pub(super) fn natural_width(&self) -> usize {
        let all: usize = (0..self.columns.len()).map(|place| self.natural(place)).sum();
        (all + GAP * self.columns.len().saturating_sub(1)).max(width(&self.title(None, 0)))
    }

    fn natural(&self, place: usize) -> usize {
        let heading = self.columns.get(place).map_or(0, |column| width(column.heading));
        let cells = self.rows.iter().filter_map(|row| row.cells.get(place)).map(|cell| width(cell));
        cells.fold(heading, usize::max)
    }

    /// The width of each column; `None` if it is left out.
    pub(super) fn widths(&self, available: usize) -> Vec<Option<usize>> {
        let naturals: Vec<usize> = (0..self.columns.len()).map(|place| self.natural(place)).collect();
        let mut widths: Vec<Option<usize>> = self
            .columns
            .iter()
            .zip(&naturals)
            .map(|(column, natural)| {
                Some(match column.width {
                    ColumnWidth::Words(min) => min.min(*natural),
                    ColumnWidth::Figure | ColumnWidth::Whole => *natural,
                })
            })
            .collect();
        while total(&widths) > available {
            let places = (0..widths.len()).filter(|place| widths[*place].is_some() && self.columns[*place].rank > 0);
            let Some(place) = places.max_by_key(|place| self.columns[*place].rank) else { break };
            widths[place] = None;
        }
        let mut left = available.saturating_sub(total(&widths));
        for (width, natural) in
            widths.iter_mut().zip(&naturals).filter_map(|(width, natural)| Some((width.as_mut()?, natural)))
        {
            let more = left.min(natural.saturating_sub(*width));
            *width += more;
            left -= more;
        }
        widths
    }

    /// `INSTANCES 12, $34.50/h  1-6 of 12, 2 columns hidden`.
    fn title(&self, shown: Option<(usize, usize)>, hidden: usize) -> String {
        let all = self.rows.len();
        let shown = shown
            .filter(|(first, last)| last - first < all)
            .map(|(first, last)| format!("{}-{last} of {all}", first + 1));
        let hidden = match hidden {
            0 => None,
            1 => Some("1 column hidden".to_owned()),
            hidden => Some(format!("{hidden} columns hidden")),
        };
        let place: Vec<String> = shown.into_iter().chain(hidden).collect();
        let place = if place.is_empty() { String::new() } else { format!("  [{}]", place.join(", ")) };
        let summary = if self.summary.is_empty() { String::new() } else { format!("  {}", self.summary) };
        format!("{}{summary}{place}", self.name)
    }

    /// Draws it, and returns how many rows are shown.
    pub(super) fn draw(&self, area: Rect, buffer: &mut Buffer, view: PanelView) -> usize {
        let room = usize::from(area.height).saturating_sub(self.overhead());
        let first = view.offset.min(self.rows.len().saturating_sub(room));
        let last = (first + room).min(self.rows.len());
        let widths = self.widths(usize::from(area.width));
        self.draw_top(area, buffer, view, Some((first, last)));
        for (row, line) in self.rows[first..last].iter().zip(area.rows().skip(self.overhead())) {
            self.draw_row(row, &widths, line, buffer, view.palette);
        }
        last - first
    }

    /// Title and headings; without rows a note.
    pub(super) fn draw_top(&self, area: Rect, buffer: &mut Buffer, view: PanelView, shown: Option<(usize, usize)>) {
        let PanelView { is_focused, palette, .. } = view;
        let widths = self.widths(usize::from(area.width));
        let hidden = if self.rows.is_empty() { 0 } else { widths.iter().filter(|width| width.is_none()).count() };
        let marker = if is_focused { "> " } else { "" };
        let title = format!("{marker}{}", self.title(shown, hidden));
        let mut lines = area.rows();
        if let Some(line) = lines.next() {
            draw_text(&title, line, buffer, Palette::title(is_focused));
        }
        if let Some(line) = lines.next() {
            if self.has_headings() {
                let headings = self.columns.iter().map(|column| column.heading);
                self.draw_cells(headings, &widths, line, buffer, palette.heading());
            } else if self.rows.is_empty() {
                draw_text(self.nothing, line, buffer, palette.emphasis(Emphasis::Dim));
            }
        }
    }

    pub(super) fn draw_row(
        &self,
        row: &PanelRow,
        widths: &[Option<usize>],
        line: Rect,
        buffer: &mut Buffer,
        palette: Palette,
    ) {
        self.draw_cells(row.cells.iter().map(String::as_str), widths, line, buffer, palette.emphasis(row.emphasis));
    }

    /// Each cell at its own place, so that no content moves another one.
    fn draw_cells<'a>(
        &self,
        cells: impl Iterator<Item = &'a str>,
        widths: &[Option<usize>],
        line: Rect,
        buffer: &mut Buffer,
        style: ratatui::style::Style,
    ) {
        let mut from = 0;
        for ((cell, columns), column) in cells.zip(widths).zip(&self.columns) {
            let Some(columns) = *columns else { continue };
            let room = usize::from(line.width).saturating_sub(from).min(columns);
            let cell = cut(cell, room);
            let indent = if column.width == ColumnWidth::Figure { room.saturating_sub(width(&cell)) } else { 0 };
            let x = line.x.saturating_add(u16::try_from(from + indent).unwrap_or(u16::MAX));
            if x < line.right() {
                let width = u16::try_from(room - indent).unwrap_or(u16::MAX);
                draw_text(&cell, Rect { x, width, ..line }, buffer, style);
            }
            from += columns + GAP;
        }
    }
}

fn total(widths: &[Option<usize>]) -> usize {
    let shown: Vec<usize> = widths.iter().flatten().copied().collect();
    shown.iter().sum::<usize>() + GAP * shown.len().saturating_sub(1)
}

/// The only place that puts text on the screen.
#[expect(clippy::disallowed_methods, reason = "it cleans the text")]
pub(super) fn draw_text(text: &str, line: Rect, buffer: &mut Buffer, style: ratatui::style::Style) {
    let width = usize::from(line.width);
    buffer.set_stringn(line.x, line.y, cut(&safe(text), width), width, style);
}

/// The number of lines of each panel; 0 for one that has no room. The one in focus comes first, and gets twice as much of the rest.
pub(super) fn allocate(panels: &[Panel], focus: usize, height: usize) -> Vec<usize> {
    let mut lines = vec![0; panels.len()];
    let mut left = height;
    let others = (0..panels.len()).filter(|place| *place != focus);
    let order: Vec<usize> = std::iter::once(focus).filter(|place| *place < panels.len()).chain(others).collect();
    for place in &order {
        let least = panels[*place].overhead() + 1;
        if least <= left {
            lines[*place] = least;
            left -= least;
        }
    }
    loop {
        let before = left;
        for place in &order {
            let share = if *place == focus { 2 } else { 1 };
            let wanted = panels[*place].height().saturating_sub(lines[*place]);
            let more = if lines[*place] == 0 { 0 } else { share.min(wanted).min(left) };
            lines[*place] += more;
            left -= more;
        }
        if left == before {
            return lines;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn panel(rows: usize, cells: &[&str; 3]) -> Panel {
        let columns = vec![
            column("usd", ColumnWidth::Figure, 0),
            column("id", ColumnWidth::Whole, 1),
            column("why", ColumnWidth::Words(4), 2),
        ];
        let row = || PanelRow::new(cells.map(str::to_owned), Emphasis::Normal);
        Panel { name: "X", summary: String::new(), columns, rows: (0..rows).map(|_| row()).collect(), nothing: "none" }
    }

    fn drawn(panel: &Panel, width: u16, height: u16) -> Vec<String> {
        let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
        let view = PanelView { offset: 0, is_focused: false, palette: Palette { has_colors: false } };
        panel.draw(buffer.area, &mut buffer, view);
        (0..height).map(|y| super::super::frame::line_of(&buffer, y)).collect()
    }

    #[test]
    fn columns_without_room_are_left_out_and_counted() {
        let panel = panel(3, &["1.00", "i-0123", "it is idle"]);
        assert_eq!(
            drawn(&panel, 24, 5),
            [
                "X",
                " usd  id      why",
                "1.00  i-0123  it is idle",
                "1.00  i-0123  it is idle",
                "1.00  i-0123  it is idle"
            ]
        );
        assert_eq!(drawn(&panel, 20, 4)[2], "1.00  i-0123  it is…");
        assert_eq!(drawn(&panel, 17, 3), ["X  [1-1 of 3, 1…", " usd  id", "1.00  i-0123"]);
        assert_eq!(drawn(&panel, 5, 3)[2], "1.00");
    }

    #[test]
    fn no_cell_moves_another() {
        let hostile = panel(1, &["1.00", "\u{1b}[2J\u{202e}東京\u{1f1e9}\u{1f1ea}", "\u{26a0}\u{fe0f}!"]);
        assert_eq!(drawn(&hostile, 40, 3)[1..], [" usd  id           why", "1.00  ?[2J?東京??  \u{26a0}!"]);
    }

    proptest! {
        #[test]
        fn no_panel_gets_more_lines_than_there_are(sizes in proptest::collection::vec(0_usize..30, 1..6), focus in 0_usize..6, height in 0_usize..60) {
            let panels: Vec<Panel> = sizes.iter().map(|rows| panel(*rows, &["1", "i", "w"])).collect();
            let lines = allocate(&panels, focus, height);
            prop_assert!(lines.iter().sum::<usize>() <= height);
            for (lines, panel) in lines.iter().zip(&panels) {
                prop_assert!(*lines == 0 || (panel.overhead() < *lines && *lines <= panel.height()));
            }
            let wanted: usize = panels.iter().map(Panel::height).sum();
            prop_assert!(lines.iter().sum::<usize>() == height.min(wanted) || lines.contains(&0));
        }

        #[test]
        fn any_text_in_any_width_stays_in_its_place(texts in proptest::array::uniform3("\\PC{0,30}"), width in 1_u16..60) {
            let cells = texts.each_ref().map(String::as_str);
            let lines = drawn(&panel(1, &cells), width, 3);
            prop_assert_eq!(lines.len(), 3);
        }
    }
}
