//! The few fields of a `DescribeInstances` answer that decisions need, by their path in its XML.
//!
//! Everything else is skipped, at any depth: an `instanceId` of a network interface is not the instance's. An answer that
//! is not well-formed to its end is an error, never a shorter list.

use std::borrow::Cow;
use std::str::Utf8Error;

use aws_sdk_ec2::primitives::{DateTime, DateTimeFormat};
use domain::instance::Tags;
use quick_xml::Reader;
use quick_xml::escape::resolve_xml_entity;
use quick_xml::events::{BytesRef, BytesStart, Event};

const ROOT: &str = "DescribeInstancesResponse";

/// One instance in EC2's words (EC2 API reference, `Instance`). `None` where the answer leaves the element out.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Told<'a> {
    pub(super) instance_id: Option<Cow<'a, str>>,
    pub(super) instance_type: Option<Cow<'a, str>>,
    pub(super) launch_time: Option<DateTime>,
    /// `instanceState.name`
    pub(super) state: Option<Cow<'a, str>>,
    /// `stateReason.code`
    pub(super) state_reason: Option<Cow<'a, str>>,
    pub(super) private_dns_name: Option<Cow<'a, str>>,
    pub(super) root_device_type: Option<Cow<'a, str>>,
    pub(super) platform: Option<Cow<'a, str>>,
    pub(super) platform_details: Option<Cow<'a, str>>,
    /// `placement.tenancy`
    pub(super) tenancy: Option<Cow<'a, str>>,
    pub(super) lifecycle: Option<Cow<'a, str>>,
    pub(super) spot_request: Option<Cow<'a, str>>,
    pub(super) capacity_block: Option<Cow<'a, str>>,
    pub(super) capacity_reservation: Option<Cow<'a, str>>,
    /// `operator.managed`
    pub(super) managed: Option<bool>,
    /// `operator.principal`
    pub(super) principal: Option<Cow<'a, str>>,
    /// All of them, those of AWS (`aws:*`) included; one without a value has an empty one.
    pub(super) tags: Tags,
}

/// Why an answer could not be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unreadable {
    #[error("the answer is not UTF-8")]
    NotUtf8(#[from] Utf8Error),
    #[error("the answer is not well-formed XML")]
    IllFormed(#[from] quick_xml::Error),
    #[error("the answer ends within an element")]
    CutOff,
    #[error("the answer is not a {ROOT}: {0}")]
    SomethingElse(String),
    #[error("the answer has a {element} of {value:?}")]
    Value { element: &'static str, value: String },
    #[error("the answer has the unknown reference &{0};")]
    Reference(String),
}

/// Every instance of the page, in order, to `each`; and the token of the next page. Where this fails, `each` may have had
/// some of the page.
pub(super) fn read<'a>(body: &'a [u8], mut each: impl FnMut(Told<'a>)) -> Result<Option<String>, Unreadable> {
    let mut document = Document::of(str::from_utf8(body)?);
    match document.outermost()? {
        Some(root) if is(&root, ROOT) => {}
        Some(root) => return Err(Unreadable::SomethingElse(format!("<{}>", name(&root)))),
        None => return Err(Unreadable::CutOff),
    }
    let mut next_token = None;
    while let Some(child) = document.child()? {
        match name(&child) {
            "nextToken" => next_token = Some(document.text()?.into_owned()),
            "reservationSet" => document.items(|document| reservation(document, &mut each))?,
            _ => document.skip(&child)?,
        }
    }
    match document.outermost()? {
        None => Ok(next_token),
        Some(more) => Err(Unreadable::SomethingElse(format!("it is followed by <{}>", name(&more)))),
    }
}

fn reservation<'a>(document: &mut Document<'a>, each: &mut impl FnMut(Told<'a>)) -> Result<(), Unreadable> {
    while let Some(child) = document.child()? {
        match name(&child) {
            "instancesSet" => document.items(|document| {
                each(instance(document)?);
                Ok(())
            })?,
            _ => document.skip(&child)?,
        }
    }
    Ok(())
}

fn instance<'a>(document: &mut Document<'a>) -> Result<Told<'a>, Unreadable> {
    let mut told = Told::default();
    while let Some(child) = document.child()? {
        match name(&child) {
            "instanceId" => told.instance_id = Some(document.text()?),
            "instanceType" => told.instance_type = Some(document.text()?),
            "launchTime" => told.launch_time = Some(document.time("launchTime")?),
            "instanceState" => told.state = document.text_within("name")?,
            "stateReason" => told.state_reason = document.text_within("code")?,
            "privateDnsName" => told.private_dns_name = Some(document.text()?),
            "rootDeviceType" => told.root_device_type = Some(document.text()?),
            "platform" => told.platform = Some(document.text()?),
            "platformDetails" => told.platform_details = Some(document.text()?),
            "placement" => told.tenancy = document.text_within("tenancy")?,
            "instanceLifecycle" => told.lifecycle = Some(document.text()?),
            "spotInstanceRequestId" => told.spot_request = Some(document.text()?),
            "capacityBlockId" => told.capacity_block = Some(document.text()?),
            "capacityReservationId" => told.capacity_reservation = Some(document.text()?),
            "operator" => (told.managed, told.principal) = operator(document)?,
            "tagSet" => document.items(|document| tag(document, &mut told.tags))?,
            _ => document.skip(&child)?,
        }
    }
    Ok(told)
}

fn operator<'a>(document: &mut Document<'a>) -> Result<(Option<bool>, Option<Cow<'a, str>>), Unreadable> {
    let (mut managed, mut principal) = (None, None);
    while let Some(child) = document.child()? {
        match name(&child) {
            "managed" => managed = Some(document.truth("managed")?),
            "principal" => principal = Some(document.text()?),
            _ => document.skip(&child)?,
        }
    }
    Ok((managed, principal))
}

fn tag(document: &mut Document<'_>, tags: &mut Tags) -> Result<(), Unreadable> {
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

/// A place in the answer. What opens an element is followed by what reads it to its end.
struct Document<'a>(Reader<&'a [u8]>);

impl<'a> Document<'a> {
    fn of(text: &'a str) -> Self {
        let mut reader = Reader::from_str(text);
        reader.config_mut().expand_empty_elements = true;
        Self(reader)
    }

    /// Opens the next element that lies in no other.
    fn outermost(&mut self) -> Result<Option<BytesStart<'a>>, Unreadable> {
        loop {
            match self.0.read_event()? {
                Event::Start(element) => return Ok(Some(element)),
                Event::Eof => return Ok(None),
                Event::Text(text) if !text.trim_ascii().is_empty() => {
                    return Err(Unreadable::SomethingElse("it has text around it".to_owned()));
                }
                _ => {}
            }
        }
    }

    /// Opens the next child of the open element; `None` closes that.
    fn child(&mut self) -> Result<Option<BytesStart<'a>>, Unreadable> {
        loop {
            match self.0.read_event()? {
                Event::Start(child) => return Ok(Some(child)),
                Event::End(_) => return Ok(None),
                Event::Eof => return Err(Unreadable::CutOff),
                _ => {}
            }
        }
    }

    fn skip(&mut self, child: &BytesStart<'_>) -> Result<(), Unreadable> {
        self.0.read_to_end(child.name())?;
        Ok(())
    }

    /// The text of the open element, as it was before it was escaped.
    fn text(&mut self) -> Result<Cow<'a, str>, Unreadable> {
        let mut text = Cow::Borrowed("");
        loop {
            match self.0.read_event()? {
                Event::Text(more) => text += more.into_inner(),
                Event::CData(more) => text += more.into_inner(),
                Event::GeneralRef(reference) => text.to_mut().push_str(&resolved(&reference)?),
                Event::End(_) => return Ok(text),
                Event::Start(child) => {
                    let value = format!("<{}>", name(&child));
                    return Err(Unreadable::Value { element: "text", value });
                }
                Event::Eof => return Err(Unreadable::CutOff),
                _ => {}
            }
        }
    }

    /// The text of the child of that name.
    fn text_within(&mut self, wanted: &str) -> Result<Option<Cow<'a, str>>, Unreadable> {
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
    fn items(&mut self, mut read: impl FnMut(&mut Self) -> Result<(), Unreadable>) -> Result<(), Unreadable> {
        while let Some(child) = self.child()? {
            if is(&child, "item") { read(self)? } else { self.skip(&child)? }
        }
        Ok(())
    }

    fn time(&mut self, element: &'static str) -> Result<DateTime, Unreadable> {
        let text = self.text()?;
        DateTime::from_str(&text, DateTimeFormat::DateTimeWithOffset)
            .map_err(|_| Unreadable::Value { element, value: text.into_owned() })
    }

    fn truth(&mut self, element: &'static str) -> Result<bool, Unreadable> {
        let text = self.text()?;
        text.parse().map_err(|_| Unreadable::Value { element, value: text.into_owned() })
    }
}

/// The five entities of XML, and characters by their number.
fn resolved(reference: &BytesRef<'_>) -> Result<String, Unreadable> {
    if let Some(character) = reference.resolve_char_ref()? {
        return Ok(character.to_string());
    }
    match resolve_xml_entity(reference) {
        Some(text) => Ok(text.to_owned()),
        None => Err(Unreadable::Reference(reference.to_string())),
    }
}

fn is(element: &BytesStart<'_>, wanted: &str) -> bool {
    name(element) == wanted
}

fn name<'a>(element: &'a BytesStart<'_>) -> &'a str {
    element.local_name().into_inner()
}

#[cfg(test)]
mod tests;
