//! Reads the meaning of a parsed document. TOML's own deserializer says what is wrong in one sentence for programmers; this one keeps what
//! was found, what is legal, and where.

use std::borrow::Cow;
use std::fmt::{self, Display};
use std::iter::Enumerate;
use std::ops::Range;
use std::slice;

use serde::de::value::StrDeserializer;
use serde::de::{DeserializeSeed, Error as _, Expected, MapAccess, SeqAccess, Unexpected, Visitor};
use serde::{Deserializer, forward_to_deserialize_any};
use toml::Spanned;
use toml::de::{DeInteger, DeValue};

use super::words::listed;

/// One step of the way to a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PathSegment {
    Key(String),
    Index(usize),
}

#[derive(Debug)]
pub(super) enum MeaningProblem {
    UnknownKey {
        unknown: String,
        legal: &'static [&'static str],
    },
    /// A sentence for people.
    Value(String),
}

/// A mistake in the meaning of a document, with its place.
#[derive(Debug)]
pub(super) struct MeaningError {
    pub(super) problem: MeaningProblem,
    /// Path to the mistake, from the innermost segment outwards.
    reversed_path: Vec<PathSegment>,
    /// The bytes of it.
    pub(super) at: Range<usize>,
}

impl MeaningError {
    fn new(problem: MeaningProblem) -> Self {
        Self { problem, reversed_path: Vec::new(), at: 0..0 }
    }

    /// Adds an enclosing segment to the path. The innermost place counts.
    pub(super) fn within(mut self, segment: PathSegment, at: Range<usize>) -> Self {
        if self.reversed_path.is_empty() {
            self.at = at;
        }
        self.reversed_path.push(segment);
        self
    }

    /// The way to it from the top of the document.
    pub(super) fn path(&self) -> impl Iterator<Item = &PathSegment> {
        self.reversed_path.iter().rev()
    }

    /// The full key, such as `teams.vision.notify_at_percent[0]`.
    pub(super) fn key(&self) -> String {
        self.path().fold(String::new(), |key, segment| match segment {
            PathSegment::Key(name) if key.is_empty() => name.clone(),
            PathSegment::Key(name) => format!("{key}.{name}"),
            PathSegment::Index(index) => format!("{key}[{index}]"),
        })
    }
}

impl Display for MeaningError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.problem {
            MeaningProblem::UnknownKey { unknown, legal } => {
                write!(f, "there is no key `{unknown}`; there are {}", listed(legal))
            }
            MeaningProblem::Value(problem) => f.write_str(problem),
        }
    }
}

impl std::error::Error for MeaningError {}

impl serde::de::Error for MeaningError {
    fn custom<T: Display>(problem: T) -> Self {
        Self::new(MeaningProblem::Value(problem.to_string()))
    }

    fn invalid_type(found: Unexpected<'_>, wanted: &dyn Expected) -> Self {
        Self::custom(format!("write {wanted}, not {}", shown(found)))
    }

    fn invalid_value(found: Unexpected<'_>, wanted: &dyn Expected) -> Self {
        Self::invalid_type(found, wanted)
    }

    fn unknown_variant(word: &str, legal: &'static [&'static str]) -> Self {
        Self::custom(format!("`{word}` is none of {}", listed(legal)))
    }

    fn unknown_field(unknown: &str, legal: &'static [&'static str]) -> Self {
        Self::new(MeaningProblem::UnknownKey { unknown: unknown.to_owned(), legal })
    }
}

/// A value as people write it.
fn shown(found: Unexpected<'_>) -> String {
    match found {
        Unexpected::Bool(value) => value.to_string(),
        Unexpected::Signed(value) => value.to_string(),
        Unexpected::Float(value) => format!("{value:?}"),
        Unexpected::Str(value) => format!("the text {value:?}"),
        Unexpected::Seq => "a list".to_owned(),
        Unexpected::Map => "a table".to_owned(),
        other => other.to_string(),
    }
}

/// A value of the document. What is asked for by a plain type of Rust is checked here, so that the error says what to write; a visitor that
/// says so itself asks for any.
pub(super) struct ValueDeserializer<'a, 'i>(pub(super) &'a DeValue<'i>);

impl ValueDeserializer<'_, '_> {
    fn refuse<T>(&self, wanted: &str) -> Result<T, MeaningError> {
        let found = match self.0 {
            DeValue::String(text) => Unexpected::Str(text),
            DeValue::Integer(number) => match to_i64(number) {
                Some(number) => Unexpected::Signed(number),
                None => Unexpected::Other(number.as_str()),
            },
            DeValue::Float(number) => Unexpected::Other(number.as_str()),
            DeValue::Boolean(value) => Unexpected::Bool(*value),
            DeValue::Datetime(_) => Unexpected::Other("a date or a time"),
            DeValue::Array(_) => Unexpected::Seq,
            DeValue::Table(_) => Unexpected::Map,
        };
        Err(MeaningError::invalid_type(found, &wanted))
    }
}

fn to_i64(number: &DeInteger<'_>) -> Option<i64> {
    i64::from_str_radix(number.as_str(), number.radix()).ok()
}

impl<'de> Deserializer<'de> for ValueDeserializer<'_, '_> {
    type Error = MeaningError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, MeaningError> {
        match self.0 {
            DeValue::String(text) => visitor.visit_str(text),
            DeValue::Integer(number) => match to_i64(number) {
                Some(number) => visitor.visit_i64(number),
                None => self.refuse("a smaller number"),
            },
            DeValue::Float(number) => match number.as_str().parse() {
                Ok(number) => visitor.visit_f64(number),
                Err(_) => self.refuse("a number"),
            },
            DeValue::Boolean(value) => visitor.visit_bool(*value),
            DeValue::Datetime(moment) => visitor.visit_string(moment.to_string()),
            DeValue::Array(items) => visitor.visit_seq(Items(items.iter().enumerate())),
            DeValue::Table(table) => visitor.visit_map(Entries { rest: table.iter(), value: None }),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, MeaningError> {
        match self.0 {
            DeValue::Boolean(_) => self.deserialize_any(visitor),
            _ => self.refuse("true or false"),
        }
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, MeaningError> {
        let DeValue::Integer(number) = self.0 else { return self.refuse("a whole number, 0 or more") };
        match to_i64(number).map(u32::try_from) {
            Some(Ok(number)) => visitor.visit_u32(number),
            _ if number.as_str().starts_with('-') => self.refuse("a whole number, 0 or more"),
            _ => self.refuse("a smaller whole number"),
        }
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, MeaningError> {
        match self.0 {
            DeValue::Integer(_) | DeValue::Float(_) => self.deserialize_any(visitor),
            _ => self.refuse("a number"),
        }
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, MeaningError> {
        match self.0 {
            DeValue::String(_) => self.deserialize_any(visitor),
            _ => self.refuse("a text"),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, MeaningError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, MeaningError> {
        match self.0 {
            DeValue::Array(_) => self.deserialize_any(visitor),
            _ => self.refuse("a list"),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, MeaningError> {
        match self.0 {
            DeValue::Table(_) => self.deserialize_any(visitor),
            _ => self.refuse("a table of keys and values"),
        }
    }

    /// Only a table: a list would be taken for the values of the keys, in the order of their declaration.
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _keys: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, MeaningError> {
        self.deserialize_map(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        words: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, MeaningError> {
        match self.0 {
            DeValue::String(word) => visitor.visit_enum(StrDeserializer::new(word)),
            _ => self.refuse(&format!("one of {}", listed(words))),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, MeaningError> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, MeaningError> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u64 u128 f32 char bytes byte_buf unit unit_struct tuple tuple_struct identifier ignored_any
    }
}

/// The items of a list that are left.
struct Items<'a, 'i>(Enumerate<slice::Iter<'a, Spanned<DeValue<'i>>>>);

impl<'de> SeqAccess<'de> for Items<'_, '_> {
    type Error = MeaningError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, MeaningError> {
        let Some((index, item)) = self.0.next() else { return Ok(None) };
        let read = seed.deserialize(ValueDeserializer(item.get_ref()));
        read.map(Some).map_err(|error| error.within(PathSegment::Index(index), item.span()))
    }
}

/// The entries of a table that are left.
struct Entries<I, V> {
    rest: I,
    /// Value of the key that was read last.
    value: Option<V>,
}

impl<'a, 'i: 'a, 'de, I> MapAccess<'de> for Entries<I, TableEntry<'a, 'i>>
where
    I: Iterator<Item = TableEntry<'a, 'i>>,
{
    type Error = MeaningError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, MeaningError> {
        let Some((key, value)) = self.rest.next() else { return Ok(None) };
        self.value = Some((key, value));
        let read = seed.deserialize(StrDeserializer::new(key.get_ref()));
        read.map(Some).map_err(|error: MeaningError| error.within(segment_of(key), key.span()))
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, MeaningError> {
        let (key, value) =
            self.value.take().ok_or_else(|| MeaningError::custom("a value was asked for before its key"))?;
        let read = seed.deserialize(ValueDeserializer(value.get_ref()));
        read.map_err(|error| error.within(segment_of(key), value.span()))
    }
}

type TableEntry<'a, 'i> = (&'a Spanned<Cow<'i, str>>, &'a Spanned<DeValue<'i>>);

fn segment_of(key: &Spanned<Cow<'_, str>>) -> PathSegment {
    PathSegment::Key(key.get_ref().to_string())
}
