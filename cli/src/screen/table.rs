//! Tables for people.

use std::fmt;

use super::{BOLD, columns, plain};

/// The space between two columns.
const GAP: usize = 2;
/// Before each line of the notes of a row.
const NOTE_INDENT: &str = "    ";
/// In a terminal that is too narrow, only the last column is wider: one long name must not cost every row.
const WIDTH_MAX: usize = 24;
/// On a narrower terminal, optional columns are left out first.
const WIDTH_READABLE: usize = 11;
/// A narrower column is useless.
const WIDTH_MIN: usize = 6;

/// The alignment of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ColumnAlignment {
    /// Words, cut if the terminal is too narrow.
    Left,
    /// Names that are useful only in full, such as ids.
    Whole,
    /// Figures.
    Right,
}

/// Rows under headings, each column as wide as its widest cell. The last column is not padded. If `COLUMNS` or the terminal limits the width, words
/// are cut to fit, the longest first.
#[derive(Debug, Clone)]
pub(crate) struct Table<const COLUMNS: usize> {
    headings: [(&'static str, ColumnAlignment); COLUMNS],
    rows: Vec<TableRow<COLUMNS>>,
    spare: usize,
}

/// Its cells, and the notes that stand below them.
#[derive(Debug, Clone)]
struct TableRow<const COLUMNS: usize> {
    cells: [String; COLUMNS],
    notes: String,
}

impl<const COLUMNS: usize> Table<COLUMNS> {
    pub(crate) const fn new(headings: [(&'static str, ColumnAlignment); COLUMNS]) -> Self {
        Self { headings, rows: Vec::new(), spare: 0 }
    }

    /// How many of the last columns may be left out, one by one, before the others become unreadable.
    pub(crate) fn sparing(self, spare: usize) -> Self {
        Self { spare, ..self }
    }

    /// Adds a row. Control characters in it are replaced.
    pub(crate) fn row(&mut self, cells: [String; COLUMNS]) {
        self.row_with_notes(cells, "");
    }

    /// The same with notes below it, which are broken between words instead of cut.
    pub(crate) fn row_with_notes(&mut self, cells: [String; COLUMNS], notes: &str) {
        self.rows.push(TableRow { cells: cells.map(|cell| plain(&cell)), notes: plain(notes) });
    }

    /// Whether there is no row.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The width of each column that is shown.
    fn widths(&self, available: Option<usize>) -> Vec<usize> {
        let mut natural = self.headings.map(|(heading, _)| heading.chars().count());
        for row in &self.rows {
            for (width, cell) in natural.iter_mut().zip(&row.cells) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let Some(available) = available.filter(|available| whole(&natural) > *available) else {
            return natural.to_vec();
        };
        for shown in (1..=COLUMNS).rev() {
            let min = if COLUMNS - shown < self.spare { WIDTH_READABLE } else { WIDTH_MIN };
            let fits = (min..=WIDTH_MAX).rev().map(|max| self.cut(&natural[..shown], max));
            if let Some(mut widths) = fits.into_iter().find(|widths| whole(widths) <= available) {
                // The remaining width goes to cut columns, the last one first.
                let mut over = available - whole(&widths);
                for (place, width) in widths.iter_mut().enumerate().rev() {
                    let max =
                        if place + 1 == shown { natural[place] } else { natural[place].min(WIDTH_MAX).max(*width) };
                    let more = over.min(max - *width);
                    *width += more;
                    over -= more;
                }
                return widths;
            }
        }
        natural[..1].to_vec()
    }

    fn cut(&self, natural: &[usize], max: usize) -> Vec<usize> {
        let width = |(natural, (_, side)): (&usize, &(&str, ColumnAlignment))| match side {
            ColumnAlignment::Left => (*natural).min(max),
            ColumnAlignment::Whole | ColumnAlignment::Right => *natural,
        };
        natural.iter().zip(&self.headings).map(width).collect()
    }

    fn line(&self, cells: [&str; COLUMNS], widths: &[usize]) -> String {
        let mut line = Vec::new();
        for (place, ((cell, &width), (_, side))) in cells.into_iter().zip(widths).zip(self.headings).enumerate() {
            let cell = shortened(cell, width);
            let last = place + 1 == widths.len();
            line.push(match side {
                ColumnAlignment::Left | ColumnAlignment::Whole if last => cell,
                ColumnAlignment::Left | ColumnAlignment::Whole => format!("{cell:width$}"),
                ColumnAlignment::Right => format!("{cell:>width$}"),
            });
        }
        line.join(&" ".repeat(GAP))
    }

    fn show(&self, available: Option<usize>) -> String {
        let widths = self.widths(available);
        let headings = self.line(self.headings.map(|(heading, _)| heading), &widths);
        let mut lines = vec![format!("{BOLD}{headings}{BOLD:#}")];
        for TableRow { cells, notes } in &self.rows {
            lines.push(self.line(cells.each_ref().map(String::as_str), &widths));
            lines.extend(indented(notes, available));
        }
        lines.join("\n")
    }
}

fn whole(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
}

fn shortened(cell: &str, width: usize) -> String {
    if cell.chars().count() <= width {
        return cell.to_owned();
    }
    let kept: String = cell.chars().take(width.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

/// The words in lines of this width, each behind [`NOTE_INDENT`].
fn indented(notes: &str, available: Option<usize>) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in notes.split(' ').filter(|word| !word.is_empty()) {
        let fits = |line: &&mut String| {
            available.is_none_or(|available| line.chars().count() + 1 + word.chars().count() <= available)
        };
        match lines.last_mut().filter(fits) {
            Some(line) => line.extend([" ", word]),
            None => lines.push(format!("{NOTE_INDENT}{word}")),
        }
    }
    lines
}

impl<const COLUMNS: usize> fmt::Display for Table<COLUMNS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.show(columns()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<const COLUMNS: usize>(table: &Table<COLUMNS>, available: Option<usize>, expect: &str) {
        assert_eq!(anstream::adapter::strip_str(&table.show(available)).to_string(), expect);
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new([
            ("name", ColumnAlignment::Left),
            ("USD/h", ColumnAlignment::Right),
            ("why", ColumnAlignment::Left),
        ]);
        table.row(["zürich".to_owned(), "1.00".to_owned(), "idle".to_owned()]);
        table.row(["a\u{1b}[31m".to_owned(), "113.93".to_owned(), String::new()]);
        check(&table, None, "name     USD/h  why\nzürich    1.00  idle\na?[31m  113.93  ");
        check(&table, Some(20), "name     USD/h  why\nzürich    1.00  idle\na?[31m  113.93  ");
    }

    #[test]
    fn notes_stand_below_their_row_and_are_broken_between_words() {
        let mut table = Table::new([("id", ColumnAlignment::Whole), ("USD", ColumnAlignment::Right)]);
        table.row_with_notes(["i-1".to_owned(), "1.00".to_owned()], "the quota refuses it\nuntil tomorrow");
        table.row(["i-2".to_owned(), "2.00".to_owned()]);
        check(&table, None, "id    USD\ni-1  1.00\n    the quota refuses it until tomorrow\ni-2  2.00");
        check(&table, Some(20), "id    USD\ni-1  1.00\n    the quota\n    refuses it until\n    tomorrow\ni-2  2.00");
    }

    fn long(name: &str, why: &str) -> Table<4> {
        let columns = [
            ("id", ColumnAlignment::Whole),
            ("name", ColumnAlignment::Left),
            ("USD", ColumnAlignment::Right),
            ("why", ColumnAlignment::Left),
        ];
        let mut table = Table::new(columns);
        table.row(["i-0123456789abcdef0".to_owned(), name.to_owned(), "1,000.00".to_owned(), why.to_owned()]);
        table
    }

    #[test]
    fn a_narrow_terminal_cuts_the_longest_words_and_no_id() {
        let table = long("llama", "it does nothing at all");
        check(
            &table,
            Some(50),
            "id                   name        USD  why\ni-0123456789abcdef0  llama  1,000.00  it does not…",
        );
        let name = "n".repeat(200);
        for width in 44..300 {
            let shown = anstream::adapter::strip_str(&long(&name, "why").show(Some(width))).to_string();
            assert!(shown.lines().all(|line| line.chars().count() <= width), "{width}: {shown}");
            assert!(shown.contains("i-0123456789abcdef0") && shown.contains("why"), "{width}: {shown}");
            let row = shown.lines().last().unwrap_or_default();
            let fits = long(&name, "why").widths(None).iter().sum::<usize>() + 3 * GAP <= width;
            assert!(fits || row.matches('n').count() < WIDTH_MAX, "{width}: {shown}");
        }
    }

    #[test]
    fn optional_columns_are_left_out_before_others_are_cut() {
        let (name, why) = ("a-name-of-twenty-two-c", "twenty-five characters of");
        let shown = |width| anstream::adapter::strip_str(&long(name, why).sparing(1).show(Some(width))).to_string();
        assert!(shown(55).contains("why") && !shown(54).contains("why"), "{}", shown(54));
        assert!(long(name, why).show(Some(54)).contains("why"));
    }
}
