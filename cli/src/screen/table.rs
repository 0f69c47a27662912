//! Tables for people.

use super::{BOLD, NORMAL, StyledText, aside, columns, plain, print_styled, progress, wrapped};

/// The space between two columns.
const GAP: usize = 2;
/// The indent of each line of a row's notes.
const NOTE_INDENT: &str = "    ";
/// Width up to which cut columns grow before any of them gets what remains: one long name must not cost every row.
const WIDTH_MAX: usize = 24;
/// Width of cut columns below which optional columns are left out first.
const WIDTH_READABLE: usize = 11;
/// A narrower column is useless.
const WIDTH_MIN: usize = 6;

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
    /// The places of the columns, in the order in which they are left out.
    left_out_first: [usize; COLUMNS],
    /// The number of columns that are left out before a word is cut below [`WIDTH_MAX`].
    spare_first: usize,
    spare: usize,
}

/// Its cells, and the notes that stand below them.
#[derive(Debug, Clone)]
struct TableRow<const COLUMNS: usize> {
    cells: [String; COLUMNS],
    notes: String,
}

impl<const COLUMNS: usize> Table<COLUMNS> {
    pub(crate) fn new(headings: [(&'static str, ColumnAlignment); COLUMNS]) -> Self {
        let last_first = std::array::from_fn(|place| COLUMNS - 1 - place);
        Self { headings, rows: Vec::new(), left_out_first: last_first, spare_first: 0, spare: 0 }
    }

    /// Allows the last `spare` columns to be left out, one by one, before the others become unreadable.
    pub(crate) fn sparing(self, spare: usize) -> Self {
        Self { spare, ..self }
    }

    /// These columns may be left out, in this order, before the last ones, and before words become short.
    pub(crate) fn sparing_first(mut self, headings: &[&str]) -> Self {
        let rank = |place: &usize| {
            let heading = self.headings[*place].0;
            headings.iter().position(|first| *first == heading).unwrap_or(headings.len())
        };
        // Stable: the others stay the last first.
        self.left_out_first.sort_by_key(rank);
        Self { spare: self.spare + headings.len(), spare_first: headings.len(), ..self }
    }

    /// Prints it, and below it which columns the terminal is too narrow for.
    pub(crate) fn print(&self) {
        self.print_indented("");
    }

    /// Prints the table behind this indent.
    pub(crate) fn print_indented(&self, indent: &str) {
        self.show(indent, print_styled);
    }

    /// Prints the table on stderr: the subject of a question whose answer is a document.
    pub(crate) fn propose(&self) {
        self.show("", aside);
    }

    fn show(&self, indent: &str, print: impl Fn(&[StyledText<'_>])) {
        let available = columns();
        for (place, line) in self.lines(available).iter().enumerate() {
            print(&[(NORMAL, indent), (if place == 0 { BOLD } else { NORMAL }, line)]);
        }
        let shown = self.widths(available);
        let left_out =
            self.headings.iter().enumerate().filter(|(place, _)| shown.iter().all(|(kept, _)| kept != place));
        let left_out: Vec<&str> = left_out.map(|(_, (heading, _))| *heading).collect();
        if !left_out.is_empty() {
            progress(format!("\nThe terminal is too narrow for: {}", left_out.join(", ")));
        }
    }

    /// Adds a row. Control characters in it are replaced.
    pub(crate) fn row(&mut self, cells: [String; COLUMNS]) {
        self.row_with_notes(cells, "");
    }

    /// Adds a row with notes below it, which are broken between words instead of cut.
    pub(crate) fn row_with_notes(&mut self, cells: [String; COLUMNS], notes: &str) {
        self.rows.push(TableRow { cells: cells.map(|cell| plain(&cell)), notes: plain(notes) });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The columns that are shown, by their places, with their widths.
    fn widths(&self, available: Option<usize>) -> Vec<(usize, usize)> {
        let mut natural = self.headings.map(|(heading, _)| heading.chars().count());
        for row in &self.rows {
            for (width, cell) in natural.iter_mut().zip(&row.cells) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let mut shown: Vec<(usize, usize)> = natural.into_iter().enumerate().collect();
        let Some(available) = available.filter(|available| whole(&shown) > *available) else {
            return shown;
        };
        for (count, left_out) in self.left_out_first.into_iter().enumerate() {
            let min = match count {
                _ if count < self.spare_first => WIDTH_MAX,
                _ if count < self.spare => WIDTH_READABLE,
                _ => WIDTH_MIN,
            };
            let fits = (min..=WIDTH_MAX).rev().map(|max| self.cut(&shown, max));
            if let Some(mut widths) = fits.into_iter().find(|widths| whole(widths) <= available) {
                // The remaining width goes to cut columns, the last one first, and first to those that it makes readable.
                let mut over = available - whole(&widths);
                for limit in [WIDTH_MAX, usize::MAX] {
                    for (place, width) in widths.iter_mut().rev() {
                        let more = over.min(natural[*place].min(limit).saturating_sub(*width));
                        *width += more;
                        over -= more;
                    }
                }
                return widths;
            }
            if shown.len() > 1 {
                shown.retain(|(place, _)| *place != left_out);
            }
        }
        shown
    }

    fn cut(&self, natural: &[(usize, usize)], max: usize) -> Vec<(usize, usize)> {
        let width = |(place, natural): &(usize, usize)| match self.headings[*place].1 {
            ColumnAlignment::Left => (*place, (*natural).min(max)),
            ColumnAlignment::Whole | ColumnAlignment::Right => (*place, *natural),
        };
        natural.iter().map(width).collect()
    }

    fn line(&self, cells: [&str; COLUMNS], widths: &[(usize, usize)]) -> String {
        let mut line = Vec::new();
        for (index, &(place, width)) in widths.iter().enumerate() {
            let cell = shortened(cells[place], width);
            let last = index + 1 == widths.len();
            line.push(match self.headings[place].1 {
                ColumnAlignment::Left | ColumnAlignment::Whole if last => cell,
                ColumnAlignment::Left | ColumnAlignment::Whole => format!("{cell:width$}"),
                ColumnAlignment::Right => format!("{cell:>width$}"),
            });
        }
        line.join(&" ".repeat(GAP))
    }

    fn lines(&self, available: Option<usize>) -> Vec<String> {
        let widths = self.widths(available);
        let mut lines = vec![self.line(self.headings.map(|(heading, _)| heading), &widths)];
        for TableRow { cells, notes } in &self.rows {
            lines.push(self.line(cells.each_ref().map(String::as_str), &widths));
            lines.extend(indented(notes, available));
        }
        lines
    }
}

fn whole(widths: &[(usize, usize)]) -> usize {
    widths.iter().map(|(_, width)| width).sum::<usize>() + GAP * widths.len().saturating_sub(1)
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
    let lines = wrapped(notes, available.map(|available| available.saturating_sub(NOTE_INDENT.len())));
    lines.into_iter().filter(|line| !line.is_empty()).map(|line| format!("{NOTE_INDENT}{line}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<const COLUMNS: usize>(table: &Table<COLUMNS>, available: Option<usize>, expect: &str) {
        assert_eq!(table.lines(available).join("\n"), expect);
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
            let shown = long(&name, "why").lines(Some(width)).join("\n");
            assert!(shown.lines().all(|line| line.chars().count() <= width), "{width}: {shown}");
            assert!(shown.contains("i-0123456789abcdef0") && shown.contains("why"), "{width}: {shown}");
        }
    }

    #[test]
    fn no_width_stays_free_where_a_word_is_cut() {
        let (name, why) = ("n".repeat(60), "eight GPUs at 0 %; belongs to an Auto Scaling group");
        for width in 60..200 {
            let shown = long(&name, why).lines(Some(width)).join("\n");
            let row = shown.lines().last().unwrap_or_default();
            assert!(!row.contains('…') || row.trim_end().chars().count() + 1 >= width, "{width}: {shown}");
        }
    }

    #[test]
    fn optional_columns_are_left_out_before_others_are_cut() {
        let (name, why) = ("a-name-of-twenty-two-c", "twenty-five characters of");
        let shown = |width| long(name, why).sparing(1).lines(Some(width)).join("\n");
        assert!(shown(55).contains("why") && !shown(54).contains("why"), "{}", shown(54));
        assert!(long(name, why).lines(Some(54)).join("\n").contains("why"));
    }

    #[test]
    fn named_columns_are_left_out_before_the_last_ones() {
        let table =
            long("a-name-of-twenty-two-c", "twenty-five characters of").sparing(1).sparing_first(&["USD", "name"]);
        let shown = |width| table.lines(Some(width)).join("\n");
        let heading =
            |width| shown(width).lines().next().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
        for (width, expect) in [
            (79, "id name USD why"),
            (78, "id name why"),
            (69, "id name why"),
            (68, "id why"),
            (32, "id why"),
            (31, "id"),
            (5, "id"),
        ] {
            assert_eq!(heading(width), expect, "{width}");
        }
    }
}
