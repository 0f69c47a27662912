//! Figures as a Parquet file, with a type for each column: one row group, in which each column is one page of plain values, uncompressed (Apache
//! Parquet, "File Format", "Metadata" and "Encodings"). That is all that a hundred rows need, and every reader knows it.

mod thrift;

use jiff::Timestamp;
use model::money::Amount;

use thrift::{ThriftFields, write_struct, write_varint};

/// Type of a column of figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ColumnType {
    Text,
    /// USD with six digits after the point, exactly.
    Usd,
    Flag,
    Moment,
}

/// One value of a row; `None` is unknown, or without a budget.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum FigureValue {
    Text(Option<String>),
    Usd(Option<Amount>),
    Flag(bool),
    Moment(Option<Timestamp>),
}

/// First and last bytes of a file.
const MAGIC: &[u8] = b"PAR1";

/// Digits of an amount, of which six are after the point: an integer of 64 bits holds no more for sure.
const USD_PRECISION: i32 = 18;
const USD_SCALE: i32 = 6;
/// A trillion USD less a millionth: more than all figures of an account can be.
const USD_MICROS_MAX: u64 = 999_999_999_999_999_999;

// Numbers of Parquet's enumerations.
const BOOLEAN: i32 = 0;
const INT64: i32 = 2;
const BYTE_ARRAY: i32 = 6;
const OPTIONAL: i32 = 1;
const CONVERTED_UTF8: i32 = 0;
const CONVERTED_DECIMAL: i32 = 5;
const CONVERTED_TIMESTAMP_MILLIS: i32 = 9;
const DATA_PAGE: i32 = 0;
const PLAIN: i32 = 0;
const RLE: i32 = 3;
const UNCOMPRESSED: i32 = 0;

impl ColumnType {
    /// The type in a table of Athena.
    pub(super) fn athena_type(self) -> String {
        match self {
            Self::Text => "string".to_owned(),
            Self::Usd => format!("decimal({USD_PRECISION},{USD_SCALE})"),
            Self::Flag => "boolean".to_owned(),
            Self::Moment => "timestamp".to_owned(),
        }
    }

    const fn physical_type(self) -> i32 {
        match self {
            Self::Text => BYTE_ARRAY,
            Self::Usd | Self::Moment => INT64,
            Self::Flag => BOOLEAN,
        }
    }

    /// `SchemaElement`: the type as older readers know it, then as newer ones do.
    fn write_schema(self, fields: &mut ThriftFields<'_>, name: &str) {
        fields.i32(1, self.physical_type());
        fields.i32(3, OPTIONAL);
        fields.text(4, name);
        match self {
            Self::Text => {
                fields.i32(6, CONVERTED_UTF8);
                fields.structure(10, |logical| logical.structure(1, |_| ()));
            }
            Self::Usd => {
                fields.i32(6, CONVERTED_DECIMAL);
                fields.i32(7, USD_SCALE);
                fields.i32(8, USD_PRECISION);
                fields.structure(10, |logical| {
                    logical.structure(5, |decimal| {
                        decimal.i32(1, USD_SCALE);
                        decimal.i32(2, USD_PRECISION);
                    });
                });
            }
            Self::Flag => {}
            Self::Moment => {
                fields.i32(6, CONVERTED_TIMESTAMP_MILLIS);
                fields.structure(10, |logical| {
                    logical.structure(8, |timestamp| {
                        // Adjusted to UTC, in milliseconds.
                        timestamp.flag(1, true);
                        timestamp.structure(2, |unit| unit.structure(1, |_| ()));
                    });
                });
            }
        }
    }
}

/// A column within the file.
struct ColumnChunk<'a> {
    name: &'a str,
    kind: ColumnType,
    offset: usize,
    bytes: usize,
}

/// The file of these rows. A value of another type than its column is null.
pub(super) fn write_parquet(columns: &[(&str, ColumnType)], rows: &[Vec<FigureValue>]) -> Vec<u8> {
    let mut file = MAGIC.to_vec();
    let mut chunks = Vec::new();
    for (place, (name, kind)) in columns.iter().enumerate() {
        let offset = file.len();
        write_page(&mut file, rows.len(), &page(*kind, rows.iter().map(|row| row.get(place))));
        let bytes = file.len().saturating_sub(offset);
        chunks.push(ColumnChunk { name, kind: *kind, offset, bytes });
    }
    let footer = file.len();
    write_metadata(&mut file, &chunks, rows.len());
    let footer = u32::try_from(file.len().saturating_sub(footer)).unwrap_or(u32::MAX);
    file.extend(footer.to_le_bytes());
    file.extend(MAGIC);
    file
}

/// A page: which values there are, and then these.
fn page<'a>(kind: ColumnType, values: impl Iterator<Item = Option<&'a FigureValue>>) -> Vec<u8> {
    let (mut levels, mut known, mut flags) = (Vec::new(), Vec::new(), Vec::new());
    for value in values {
        let before = (known.len(), flags.len());
        match (kind, value) {
            (ColumnType::Text, Some(FigureValue::Text(Some(text)))) => {
                known.extend(u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes());
                known.extend(text.as_bytes());
            }
            (ColumnType::Usd, Some(FigureValue::Usd(Some(usd)))) => {
                known.extend(usd.usd_micros().min(USD_MICROS_MAX).to_le_bytes());
            }
            (ColumnType::Flag, Some(FigureValue::Flag(flag))) => flags.push(*flag),
            (ColumnType::Moment, Some(FigureValue::Moment(Some(at)))) => {
                known.extend(at.as_millisecond().to_le_bytes());
            }
            _ => {}
        }
        levels.push(before != (known.len(), flags.len()));
    }
    // Eight flags a byte, the first one lowest.
    let bits = |eight: &[bool]| eight.iter().rev().fold(0_u8, |byte, flag| (byte << 1) | u8::from(*flag));
    known.extend(flags.chunks(8).map(bits));
    let levels = run_lengths(&levels);
    let length = u32::try_from(levels.len()).unwrap_or(u32::MAX);
    [length.to_le_bytes().as_slice(), &levels, &known].concat()
}

/// Definition levels of one bit, as runs of equal ones.
fn run_lengths(levels: &[bool]) -> Vec<u8> {
    let mut runs = Vec::new();
    for run in levels.chunk_by(|one, next| one == next) {
        write_varint(&mut runs, (run.len() as u64) << 1);
        runs.extend(run.first().map(|level| u8::from(*level)));
    }
    runs
}

/// `PageHeader`, and the page.
fn write_page(file: &mut Vec<u8>, values: usize, page: &[u8]) {
    let size = i32::try_from(page.len()).unwrap_or(i32::MAX);
    write_struct(file, |header| {
        header.i32(1, DATA_PAGE);
        header.i32(2, size);
        header.i32(3, size);
        header.structure(5, |data| {
            data.i32(1, i32::try_from(values).unwrap_or(i32::MAX));
            data.i32(2, PLAIN);
            data.i32(3, RLE);
            data.i32(4, RLE);
        });
    });
    file.extend(page);
}

/// `FileMetaData`.
fn write_metadata(file: &mut Vec<u8>, chunks: &[ColumnChunk<'_>], rows: usize) {
    let schema: Vec<Option<&ColumnChunk<'_>>> = std::iter::once(None).chain(chunks.iter().map(Some)).collect();
    let total = chunks.iter().map(|chunk| chunk.bytes).sum();
    write_struct(file, |metadata| {
        metadata.i32(1, 1);
        metadata.list_of_structures(2, &schema, |element, chunk| {
            if let Some(chunk) = chunk {
                chunk.kind.write_schema(element, chunk.name);
            } else {
                element.text(4, "figures");
                element.i32(5, i32::try_from(chunks.len()).unwrap_or(i32::MAX));
            }
        });
        metadata.i64(3, rows);
        metadata.list_of_structures(4, &[()], |group, ()| {
            group.list_of_structures(1, chunks, |column, chunk| {
                column.i64(2, chunk.offset);
                column.structure(3, |metadata| {
                    metadata.i32(1, chunk.kind.physical_type());
                    metadata.list_of_i32(2, &[PLAIN, RLE]);
                    metadata.list_of_text(3, &[chunk.name]);
                    metadata.i32(4, UNCOMPRESSED);
                    metadata.i64(5, rows);
                    metadata.i64(6, chunk.bytes);
                    metadata.i64(7, chunk.bytes);
                    metadata.i64(9, chunk.offset);
                });
            });
            group.i64(2, total);
            group.i64(3, rows);
        });
        metadata.text(6, "curfew");
    });
}

#[cfg(test)]
pub(super) mod tests;
