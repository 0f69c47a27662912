//! Thrift's compact protocol, as far as the metadata of a Parquet file need it (Apache Thrift, "Thrift Compact protocol").

/// Types of fields and of items of a list.
const TRUE: u8 = 1;
const FALSE: u8 = 2;
const I32: u8 = 5;
const I64: u8 = 6;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const STRUCT: u8 = 12;

/// Fields of one structure, in the order of their ids.
pub(super) struct ThriftFields<'a> {
    bytes: &'a mut Vec<u8>,
    last_id: u8,
}

/// Writes a structure.
pub(super) fn write_struct(bytes: &mut Vec<u8>, write: impl FnOnce(&mut ThriftFields<'_>)) {
    write(&mut ThriftFields { bytes, last_id: 0 });
    bytes.push(0);
}

impl ThriftFields<'_> {
    /// An id is written as the distance to the one before, which is 1 to 15 in all structures of Parquet's metadata.
    fn header(&mut self, id: u8, kind: u8) {
        let distance = id.saturating_sub(self.last_id);
        self.bytes.push((distance << 4) | kind);
        self.last_id = id;
    }

    pub(super) fn i32(&mut self, id: u8, value: i32) {
        self.header(id, I32);
        write_zigzag(self.bytes, value.into());
    }

    pub(super) fn i64(&mut self, id: u8, value: usize) {
        self.header(id, I64);
        write_zigzag(self.bytes, i64::try_from(value).unwrap_or(i64::MAX));
    }

    pub(super) fn flag(&mut self, id: u8, value: bool) {
        self.header(id, if value { TRUE } else { FALSE });
    }

    pub(super) fn text(&mut self, id: u8, text: &str) {
        self.header(id, BINARY);
        write_text(self.bytes, text);
    }

    pub(super) fn structure(&mut self, id: u8, write: impl FnOnce(&mut ThriftFields<'_>)) {
        self.header(id, STRUCT);
        write_struct(self.bytes, write);
    }

    pub(super) fn list_of_i32(&mut self, id: u8, items: &[i32]) {
        self.list(id, I32, items, |bytes, item| write_zigzag(bytes, (*item).into()));
    }

    pub(super) fn list_of_text(&mut self, id: u8, items: &[&str]) {
        self.list(id, BINARY, items, |bytes, item| write_text(bytes, item));
    }

    pub(super) fn list_of_structures<T>(&mut self, id: u8, items: &[T], write: impl Fn(&mut ThriftFields<'_>, &T)) {
        self.list(id, STRUCT, items, |bytes, item| write_struct(bytes, |fields| write(fields, item)));
    }

    fn list<T>(&mut self, id: u8, kind: u8, items: &[T], write: impl Fn(&mut Vec<u8>, &T)) {
        self.header(id, LIST);
        match u8::try_from(items.len()) {
            Ok(short) if short < 15 => self.bytes.push((short << 4) | kind),
            _ => {
                self.bytes.push(0xF0 | kind);
                write_varint(self.bytes, items.len() as u64);
            }
        }
        for item in items {
            write(self.bytes, item);
        }
    }
}

fn write_text(bytes: &mut Vec<u8>, text: &str) {
    write_varint(bytes, text.len() as u64);
    bytes.extend_from_slice(text.as_bytes());
}

/// Small numbers of either sign in few bytes.
fn write_zigzag(bytes: &mut Vec<u8>, value: i64) {
    write_varint(bytes, ((value << 1) ^ (value >> 63)).cast_unsigned());
}

/// Seven bits a byte, the lowest first; the highest bit of a byte says that there are more.
pub(super) fn write_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(u8::try_from(value & 0x7F).unwrap_or_default() | 0x80);
        value >>= 7;
    }
    bytes.push(u8::try_from(value).unwrap_or_default());
}
