//! XML of AWS, element by element.
//!
//! The reader skips unknown elements, at any depth. An answer that is not well-formed to its end is an error, never a shorter list.

mod skip;
#[cfg(feature = "operator")]
mod tree;

use std::borrow::Cow;
use std::str::{FromStr, Utf8Error};

use aws_sdk_ec2::primitives::{DateTime, DateTimeFormat};
use memchr::memchr2;
use model::instance::Tags;
use quick_xml::Reader;
use quick_xml::escape::resolve_xml_entity;
use quick_xml::events::{BytesRef, BytesStart, Event};

#[cfg(feature = "operator")]
pub(crate) use tree::XmlElement;

/// Reason for an unreadable answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum XmlError {
    #[error("the answer is not UTF-8")]
    NotUtf8(#[from] Utf8Error),
    #[error("the answer is not well-formed XML")]
    IllFormed(#[from] quick_xml::Error),
    #[error("the answer ends within an element")]
    CutOff,
    #[cfg(feature = "operator")]
    #[error("the answer is nested too deeply")]
    TooDeep,
    #[error("the answer is not a {root}: {found}")]
    SomethingElse { root: String, found: String },
    #[error("the answer has a {element} of {value:?}")]
    Value { element: &'static str, value: String },
    #[error("the answer has one without {0}")]
    Nameless(&'static str),
    #[error("the answer has the unknown reference &{0};")]
    Reference(String),
}

/// An answer with one set of items in it.
#[derive(Debug, Clone, Copy)]
pub(super) struct XmlAnswer {
    /// Its outermost element.
    pub(super) root: &'static str,
    /// The element of the items.
    pub(super) set: &'static str,
}

impl XmlAnswer {
    /// Calls `send_each` for every item of the set, in order; returns the token of the next page. If this fails, `send_each` may have read
    /// some of the page.
    pub(super) fn read<'a>(
        self,
        body: &'a [u8],
        mut each: impl FnMut(&mut XmlReader<'a>) -> Result<(), XmlError>,
    ) -> Result<Option<String>, XmlError> {
        read_root(body, self.root, |document| {
            let mut next_token = None;
            while let Some(child) = document.child()? {
                match name(&child) {
                    "nextToken" => next_token = Some(document.text()?.into_owned()),
                    found if found == self.set => document.items(&mut each)?,
                    _ => document.skip(&child)?,
                }
            }
            Ok(next_token)
        })
    }
}

/// Calls `read` with the outermost element open. Fails if that has another name, or if anything is around it.
fn read_root<'a, T>(
    body: &'a [u8],
    root: &'a str,
    read: impl FnOnce(&mut XmlReader<'a>) -> Result<T, XmlError>,
) -> Result<T, XmlError> {
    let mut document = XmlReader::new(str::from_utf8(body)?, root);
    match document.outermost()? {
        Some(found) if is(&found, root) => {}
        Some(found) => return Err(document.something_else(format!("<{}>", name(&found)))),
        None => return Err(XmlError::CutOff),
    }
    let answer = read(&mut document)?;
    match document.outermost()? {
        None => Ok(answer),
        Some(more) => Err(document.something_else(format!("it is followed by <{}>", name(&more)))),
    }
}

/// `managed` and `principal` of the open `operator`.
pub(super) fn operator<'a>(document: &mut XmlReader<'a>) -> Result<(Option<bool>, Option<Cow<'a, str>>), XmlError> {
    let (mut managed, mut principal) = (None, None);
    while let Some(child) = document.child()? {
        match name(&child) {
            "managed" => managed = Some(document.value("managed")?),
            "principal" => principal = Some(document.text()?),
            _ => document.skip(&child)?,
        }
    }
    Ok((managed, principal))
}

/// Adds the open tag; an absent value is empty.
pub(super) fn tag(document: &mut XmlReader<'_>, tags: &mut Tags) -> Result<(), XmlError> {
    let (mut key, mut value) = (None, None);
    while let Some(child) = document.child()? {
        match name(&child) {
            "key" => key = Some(document.text()?.into_owned()),
            "value" => value = Some(document.text()?.into_owned()),
            _ => document.skip(&child)?,
        }
    }
    tags.extend(key.map(|key| (key, value.unwrap_or_default())));
    Ok(())
}

/// A position in the answer. Every call that opens an element is followed by one that reads it to its end.
pub(super) struct XmlReader<'a> {
    reader: Reader<&'a [u8]>,
    text: &'a str,
    root: &'a str,
}

impl<'a> XmlReader<'a> {
    fn new(text: &'a str, root: &'a str) -> Self {
        let mut reader = Reader::from_str(text);
        reader.config_mut().expand_empty_elements = true;
        Self { reader, text, root }
    }

    fn something_else(&self, found: String) -> XmlError {
        XmlError::SomethingElse { root: self.root.to_owned(), found }
    }

    /// Opens the next outermost element.
    fn outermost(&mut self) -> Result<Option<BytesStart<'a>>, XmlError> {
        loop {
            match self.reader.read_event()? {
                Event::Start(element) => return Ok(Some(element)),
                Event::Eof => return Ok(None),
                Event::Text(text) if !text.trim_ascii().is_empty() => {
                    return Err(self.something_else("it has text around it".to_owned()));
                }
                _ => {}
            }
        }
    }

    /// Opens the next child of the open element that has one of these names; `None` closes that. It opens others too that are not plain.
    pub(super) fn child_of(&mut self, names: &[&str]) -> Result<Option<BytesStart<'a>>, XmlError> {
        if let Some(mut rest) = self.rest_within() {
            while let Some(start) = memchr2(b'<', b'&', rest) {
                rest = &rest[start..];
                let Some(end) = skip::find_end_of_other(rest, names) else { break };
                rest = &rest[end..];
            }
            *self.reader.get_mut() = rest;
        }
        self.child()
    }

    /// Opens the next child of the open element; `None` closes that.
    pub(super) fn child(&mut self) -> Result<Option<BytesStart<'a>>, XmlError> {
        loop {
            self.skip_text();
            match self.reader.read_event()? {
                Event::Start(child) => return Ok(Some(child)),
                Event::End(_) => return Ok(None),
                Event::Eof => return Err(XmlError::CutOff),
                _ => {}
            }
        }
    }

    /// Skips the text up to the next tag: a third of all events were indentation. After an empty tag, whose end comes first, there is none.
    fn skip_text(&mut self) {
        let Some(rest) = self.rest_within() else { return };
        if let Some(start) = memchr2(b'<', b'&', rest) {
            *self.reader.get_mut() = &rest[start..];
        }
    }

    /// The rest of the answer; `None` right after an empty tag.
    fn rest_within(&self) -> Option<&'a [u8]> {
        let rest = *self.reader.get_ref();
        let (before, _) = self.text.split_at(self.text.len().saturating_sub(rest.len()));
        (!before.ends_with("/>")).then_some(rest)
    }

    /// Reads the open child to its end.
    pub(super) fn skip(&mut self, child: &BytesStart<'_>) -> Result<(), XmlError> {
        if let Some(content) = self.rest_within()
            && let Some(end) = skip::find_end_tag(content)
        {
            *self.reader.get_mut() = &content[end..];
        }
        self.reader.read_to_end(child.name())?;
        Ok(())
    }

    /// The unescaped text of the open element.
    pub(super) fn text(&mut self) -> Result<Cow<'a, str>, XmlError> {
        let mut text = Cow::Borrowed("");
        loop {
            match self.reader.read_event()? {
                Event::Text(more) => text += more.into_inner(),
                Event::CData(more) => text += more.into_inner(),
                Event::GeneralRef(reference) => text.to_mut().push_str(&resolved(&reference)?),
                Event::End(_) => return Ok(text),
                Event::Start(child) => {
                    let value = format!("<{}>", name(&child));
                    return Err(XmlError::Value { element: "text", value });
                }
                Event::Eof => return Err(XmlError::CutOff),
                _ => {}
            }
        }
    }

    /// The text of the child of that name.
    pub(super) fn text_within(&mut self, wanted: &str) -> Result<Option<Cow<'a, str>>, XmlError> {
        let mut text = None;
        while let Some(child) = self.child()? {
            if is(&child, wanted) {
                text = Some(self.text()?);
            } else {
                self.skip(&child)?;
            }
        }
        Ok(text)
    }

    /// Reads the `item`s of the open element.
    pub(super) fn items(&mut self, mut read: impl FnMut(&mut Self) -> Result<(), XmlError>) -> Result<(), XmlError> {
        while let Some(child) = self.child()? {
            if is(&child, "item") { read(self)? } else { self.skip(&child)? }
        }
        Ok(())
    }

    pub(super) fn time(&mut self, element: &'static str) -> Result<DateTime, XmlError> {
        let text = self.text()?;
        DateTime::from_str(&text, DateTimeFormat::DateTimeWithOffset)
            .map_err(|_| XmlError::Value { element, value: text.into_owned() })
    }

    /// A number or a truth value.
    pub(super) fn value<T: FromStr>(&mut self, element: &'static str) -> Result<T, XmlError> {
        let text = self.text()?;
        text.parse().map_err(|_| XmlError::Value { element, value: text.into_owned() })
    }
}

/// The five entities of XML, and numeric characters.
fn resolved(reference: &BytesRef<'_>) -> Result<String, XmlError> {
    if let Some(character) = reference.resolve_char_ref()? {
        return Ok(character.to_string());
    }
    match resolve_xml_entity(reference) {
        Some(text) => Ok(text.to_owned()),
        None => Err(XmlError::Reference(reference.to_string())),
    }
}

pub(super) fn is(element: &BytesStart<'_>, wanted: &str) -> bool {
    name(element) == wanted
}

pub(super) fn name<'a>(element: &'a BytesStart<'_>) -> &'a str {
    element.local_name().into_inner()
}
