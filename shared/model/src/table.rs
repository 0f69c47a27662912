//! Tables of figures: the files of `data/`, which `data/README.md` describes.
//!
//! A file is comma-separated, and its first line names the columns. Values have neither commas nor quotes.

use std::str::FromStr;

use thiserror::Error;

/// A line or a value that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("data/{file}, line {line}, column {column}: {problem}")]
pub struct TableError {
    file: &'static str,
    /// Line of the file, from 1.
    line: usize,
    column: String,
    problem: String,
}

/// One line below the first.
#[derive(Debug)]
pub struct TableRow<'a> {
    file: &'static str,
    line: usize,
    columns: &'a [&'static str],
    values: Vec<&'static str>,
}

impl TableRow<'_> {
    /// Returns the text of a column; `None` if it is empty.
    ///
    /// # Errors
    /// If the file has no such column.
    pub fn optional_text(&self, column: &str) -> Result<Option<&'static str>, TableError> {
        let place = self.columns.iter().position(|name| *name == column);
        let value = place.and_then(|place| self.values.get(place));
        value.map(|text| Some(*text).filter(|text| !text.is_empty())).ok_or_else(|| self.error(column, "it is missing"))
    }

    /// Returns the text of a column.
    ///
    /// # Errors
    /// If the file has no such column, or the value is empty.
    pub fn text(&self, column: &str) -> Result<&'static str, TableError> {
        self.optional_text(column)?.ok_or_else(|| self.error(column, "it is empty"))
    }

    /// Reads the value of a column; `None` if it is empty.
    ///
    /// # Errors
    /// If the file has no such column, or the value is no `T`.
    pub fn optional<T: FromStr>(&self, column: &str) -> Result<Option<T>, TableError> {
        self.optional_text(column)?.map(|_| self.value(column)).transpose()
    }

    /// Reads the value of a column.
    ///
    /// # Errors
    /// If the file has no such column, or the value is empty or no `T`.
    pub fn value<T: FromStr>(&self, column: &str) -> Result<T, TableError> {
        self.value_by(column, |text| text.parse().ok())
    }

    /// Reads the value of a column by a function that returns `None` for a wrong one.
    ///
    /// # Errors
    /// If the file has no such column, or the value is empty or wrong.
    pub fn value_by<T>(&self, column: &str, read: impl FnOnce(&'static str) -> Option<T>) -> Result<T, TableError> {
        let text = self.text(column)?;
        read(text).ok_or_else(|| self.error(column, &format!("{text:?} is no legal value")))
    }

    fn error(&self, column: &str, problem: &str) -> TableError {
        TableError { file: self.file, line: self.line, column: column.to_owned(), problem: problem.to_owned() }
    }
}

/// Reads every row of a file of `data/`, of that name and text.
///
/// # Errors
/// The first line or value that cannot be read.
pub fn read_table<T>(
    file: &'static str,
    text: &'static str,
    read: impl Fn(&TableRow<'_>) -> Result<T, TableError>,
) -> Result<Vec<T>, TableError> {
    let mut lines = text.lines().zip(1..).map(|(line, number)| (number, line.split(',').collect::<Vec<_>>()));
    let (_, columns) = lines.next().unwrap_or_default();
    let read_line = |(line, values): (usize, Vec<&'static str>)| {
        let row = TableRow { file, line, columns: &columns, values };
        let last = columns.last().copied().unwrap_or_default();
        if let Some(missing) = columns.get(row.values.len()) {
            return Err(row.error(missing, "the line ends before it"));
        } else if row.values.len() > columns.len() {
            return Err(row.error(last, "more values follow it; write values without commas"));
        }
        for (column, value) in columns.iter().zip(&row.values) {
            if value.contains('"') {
                return Err(row.error(column, "it has a quote; write values without commas and quotes"));
            }
        }
        read(&row)
    };
    lines.map(read_line).collect()
}

/// Reads a file of `data/` that is part of the program.
///
/// # Panics
/// If the file cannot be read, which the tests of each file exclude.
#[expect(clippy::panic, reason = "the file is part of the program, and tests read every row of it")]
pub fn embedded_table<T>(
    file: &'static str,
    text: &'static str,
    read: impl Fn(&TableRow<'_>) -> Result<T, TableError>,
) -> Vec<T> {
    read_table(file, text, read).unwrap_or_else(|error| panic!("{error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &'static str, expect: Result<&[(&str, Option<u8>)], &str>) {
        let read = |row: &TableRow<'_>| Ok((row.text("name")?, row.optional("count")?));
        let found = read_table("x.csv", text, read).map_err(|error| error.to_string());
        assert_eq!(found.as_deref().map_err(String::as_str), expect, "{text}");
    }

    #[test]
    fn columns_are_found_by_their_names() {
        check("name,count\na b,1\nc,\n", Ok(&[("a b", Some(1)), ("c", None)]));
        check("count,other,name\r\n1,,a\r\n", Ok(&[("a", Some(1))]));
        check("name,count\n", Ok(&[]));
        check("", Ok(&[]));
    }

    #[test]
    fn an_error_names_file_line_and_column() {
        check("name,count\na,1\n,2\n", Err("data/x.csv, line 3, column name: it is empty"));
        check("name,count\na,256\n", Err("data/x.csv, line 2, column count: \"256\" is no legal value"));
        check("name\na\n", Err("data/x.csv, line 2, column count: it is missing"));
        check("name,count\n\na,1\n", Err("data/x.csv, line 2, column count: the line ends before it"));
        check(
            "name,count\na,1,2\n",
            Err("data/x.csv, line 2, column count: more values follow it; write values without commas"),
        );
        check(
            "name,count\n\"a\",1\n",
            Err("data/x.csv, line 2, column name: it has a quote; write values without commas and quotes"),
        );
    }
}
