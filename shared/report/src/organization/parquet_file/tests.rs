use std::collections::BTreeMap;

use super::*;

/// A value of Thrift's compact protocol.
#[derive(Debug, PartialEq)]
enum Thrift {
    Flag(bool),
    Number(i64),
    Text(String),
    List(Vec<Thrift>),
    Struct(BTreeMap<u8, Thrift>),
}

/// A reader of the protocol that shares nothing with the writer.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap();
        self.0 = rest;
        *first
    }

    fn take(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.byte()).collect()
    }

    fn varint(&mut self) -> u64 {
        let byte = self.byte();
        let low = u64::from(byte & 0x7F);
        if byte < 0x80 { low } else { low + 128 * self.varint() }
    }

    fn number(&mut self) -> i64 {
        let written = self.varint();
        let half = i64::try_from(written / 2).unwrap();
        if written.is_multiple_of(2) { half } else { -half - 1 }
    }

    fn value(&mut self, kind: u8) -> Thrift {
        match kind {
            1 | 2 => Thrift::Flag(kind == 1),
            5 | 6 => Thrift::Number(self.number()),
            8 => {
                let length = usize::try_from(self.varint()).unwrap();
                Thrift::Text(String::from_utf8(self.take(length)).unwrap())
            }
            9 => {
                let header = self.byte();
                let count = if header >> 4 == 15 { self.varint() } else { u64::from(header >> 4) };
                Thrift::List((0..count).map(|_| self.value(header & 15)).collect())
            }
            12 => Thrift::Struct(self.fields()),
            other => panic!("type {other}"),
        }
    }

    fn fields(&mut self) -> BTreeMap<u8, Thrift> {
        let (mut fields, mut id) = (BTreeMap::new(), 0);
        loop {
            let header = self.byte();
            if header == 0 {
                return fields;
            }
            assert!(header >> 4 > 0, "a distance of more than 15");
            id += header >> 4;
            fields.insert(id, self.value(header & 15));
        }
    }
}

impl Thrift {
    fn at(&self, path: &[u8]) -> &Self {
        path.iter().fold(self, |value, step| match value {
            Self::Struct(fields) => &fields[step],
            Self::List(items) => &items[usize::from(*step)],
            other => panic!("{other:?}"),
        })
    }

    fn number(&self, path: &[u8]) -> usize {
        let Self::Number(number) = self.at(path) else { panic!("{self:?}") };
        usize::try_from(*number).unwrap()
    }

    fn text(&self, path: &[u8]) -> &str {
        let Self::Text(text) = self.at(path) else { panic!("{self:?}") };
        text
    }

    fn len(&self, path: &[u8]) -> usize {
        let Self::List(items) = self.at(path) else { panic!("{self:?}") };
        items.len()
    }
}

/// A file as a reader by the specification finds it: name and Athena type of each column, and its cells, as the CSV writes them.
pub(in crate::organization) fn read_parquet(file: &[u8]) -> (Vec<(String, String)>, Vec<Vec<String>>) {
    let (body, length) =
        file.strip_prefix(MAGIC).unwrap().strip_suffix(MAGIC).unwrap().split_last_chunk::<4>().unwrap();
    let length = usize::try_from(u32::from_le_bytes(*length)).unwrap();
    let metadata = Thrift::Struct(Reader(&body[body.len() - length..]).fields());
    let rows = metadata.number(&[3]);
    let columns = metadata.number(&[2, 0, 5]);
    assert_eq!((metadata.len(&[2]), metadata.len(&[4]), metadata.number(&[4, 0, 3])), (columns + 1, 1, rows));
    let read = |place: usize| {
        let (element, chunk) = ([2, u8::try_from(place + 1).unwrap()], [4, 0, 1, u8::try_from(place).unwrap(), 3]);
        let element = metadata.at(&element);
        let chunk = metadata.at(&chunk);
        assert_eq!((element.number(&[1]), element.text(&[4])), (chunk.number(&[1]), chunk.text(&[3, 0])));
        assert_eq!((chunk.number(&[4]), chunk.number(&[5]), chunk.number(&[6])), (0, rows, chunk.number(&[7])));
        let offset = chunk.number(&[9]);
        let mut page = Reader(&file[offset..offset + chunk.number(&[7])]);
        let header = Thrift::Struct(page.fields());
        assert_eq!((header.number(&[2]), header.number(&[3])), (page.0.len(), page.0.len()));
        assert_eq!((header.number(&[1]), header.number(&[5, 1]), header.number(&[5, 2])), (0, rows, 0));
        let kind = athena_type(element);
        let column = cells(&kind, page, rows);
        ((element.text(&[4]).to_owned(), kind), column)
    };
    let (schema, by_column): (Vec<_>, Vec<Vec<String>>) = (0..columns).map(read).unzip();
    (schema, (0..rows).map(|row| by_column.iter().map(|column| column[row].clone()).collect()).collect())
}

/// The type in Athena (Amazon Athena user guide, "Data types in Amazon Athena"), by the physical, the converted and the logical type.
fn athena_type(element: &Thrift) -> String {
    let Thrift::Struct(fields) = element else { panic!("{element:?}") };
    assert_eq!(element.number(&[3]), 1, "optional");
    match (element.number(&[1]), fields.contains_key(&6).then(|| element.number(&[6]))) {
        (6, Some(0)) => {
            assert_eq!(element.at(&[10, 1]), &Thrift::Struct(BTreeMap::new()));
            "string".to_owned()
        }
        (2, Some(5)) => {
            let digits = (element.number(&[8]), element.number(&[7]));
            assert_eq!(digits, (element.number(&[10, 5, 2]), element.number(&[10, 5, 1])));
            format!("decimal({},{})", digits.0, digits.1)
        }
        (2, Some(9)) => {
            assert_eq!(
                (element.at(&[10, 8, 1]), element.at(&[10, 8, 2, 1])),
                (&Thrift::Flag(true), &Thrift::Struct(BTreeMap::new()))
            );
            "timestamp".to_owned()
        }
        (0, None) => "boolean".to_owned(),
        other => panic!("{other:?}"),
    }
}

/// The values of a page: definition levels as runs, then plain values.
fn cells(kind: &str, mut page: Reader<'_>, rows: usize) -> Vec<String> {
    let length = u32::from_le_bytes(page.take(4).try_into().unwrap());
    let mut levels = Vec::new();
    let rest = page.0.len() - usize::try_from(length).unwrap();
    while page.0.len() > rest {
        let header = page.varint();
        assert!(header.is_multiple_of(2), "a run of equal levels");
        let level = page.byte() == 1;
        levels.extend(std::iter::repeat_n(level, usize::try_from(header / 2).unwrap()));
    }
    assert_eq!(levels.len(), rows);
    let (mut bit, mut bits) = (0, 0);
    let mut value = || match kind {
        "string" => {
            let length = u32::from_le_bytes(page.take(4).try_into().unwrap());
            String::from_utf8(page.take(usize::try_from(length).unwrap())).unwrap()
        }
        "boolean" => {
            bits = if bit % 8 == 0 { page.byte() } else { bits >> 1 };
            bit += 1;
            (bits & 1 == 1).to_string()
        }
        "timestamp" => {
            let at = i64::from_le_bytes(page.take(8).try_into().unwrap());
            Timestamp::from_millisecond(at).unwrap().to_string()
        }
        _ => {
            let micros = u64::from_le_bytes(page.take(8).try_into().unwrap());
            format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)
        }
    };
    let cells = levels.iter().map(|is_known| if *is_known { value() } else { String::new() }).collect();
    assert_eq!(page.0.len(), 0, "nothing is left of the page");
    cells
}

const COLUMNS: [(&str, ColumnType); 4] = [
    ("team", ColumnType::Text),
    ("spent_usd", ColumnType::Usd),
    ("is_complete", ColumnType::Flag),
    ("as_of", ColumnType::Moment),
];

fn usd(micros: u64) -> FigureValue {
    FigureValue::Usd(Some(Amount::from_usd_micros(micros)))
}

fn rows(count: usize) -> Vec<Vec<FigureValue>> {
    let row = |number: usize| {
        let text = (!number.is_multiple_of(3)).then(|| format!("téam {number}"));
        let amount = if number.is_multiple_of(7) { FigureValue::Usd(None) } else { usd(12_500_001) };
        let at = (!number.is_multiple_of(5)).then(|| "2026-11-20T12:00:00Z".parse().unwrap());
        vec![FigureValue::Text(text), amount, FigureValue::Flag(number.is_multiple_of(2)), FigureValue::Moment(at)]
    };
    (0..count).map(row).collect()
}

#[test]
fn every_value_is_read_back_and_an_unknown_one_is_null() {
    let types = ["string", "decimal(18,6)", "boolean", "timestamp"];
    for count in [0, 1, 8, 9, 101, 300] {
        let (schema, found) = read_parquet(&write_parquet(&COLUMNS, &rows(count)));
        let expect = COLUMNS.iter().zip(types).map(|((name, _), kind)| ((*name).to_owned(), kind.to_owned()));
        assert_eq!(schema, expect.collect::<Vec<_>>());
        let cells = |number: usize| {
            let known = |is_known: bool, text: &str| if is_known { text.to_owned() } else { String::new() };
            vec![
                known(!number.is_multiple_of(3), &format!("téam {number}")),
                known(!number.is_multiple_of(7), "12.500001"),
                number.is_multiple_of(2).to_string(),
                known(!number.is_multiple_of(5), "2026-11-20T12:00:00Z"),
            ]
        };
        assert_eq!(found, (0..count).map(cells).collect::<Vec<_>>());
    }
}

#[test]
fn what_no_column_can_hold_is_bounded_or_null() {
    let columns = [("spent_usd", ColumnType::Usd), ("team", ColumnType::Text)];
    let rows = [vec![usd(u64::MAX), usd(1)], vec![FigureValue::Flag(true)]];
    let (_, found) = read_parquet(&write_parquet(&columns, &rows));
    assert_eq!(found, [["999999999999.999999", ""], ["", ""]]);
}

/// pyarrow 26.0 and the crate parquet 60.1 have read exactly these bytes.
#[test]
fn a_file_is_written_as_other_readers_have_read_it() {
    let file = write_parquet(&COLUMNS, &rows(9));
    let sum = file
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    assert_eq!((file.len(), sum), (574, 8_270_733_449_871_542_942));
}
