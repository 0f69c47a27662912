//! An answer as a tree: for calls that a person makes, whose answers are short and of many kinds.

use quick_xml::events::Event;

use super::{XmlError, XmlReader, name, read_root, resolved};

/// The deepest nesting; the answers that Curfew reads have 9 levels.
const DEPTH_MAX: usize = 32;

/// One element, with all that is in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct XmlElement {
    name: String,
    /// The unescaped text, without that of the children.
    text: String,
    children: Vec<Self>,
}

impl XmlElement {
    /// The outermost element, which has this name.
    pub(crate) fn read(body: &[u8], root: &str) -> Result<Self, XmlError> {
        read_root(body, root, |document| element(document, root, DEPTH_MAX))
    }

    /// The child of that name. AWS's SDKs take the last of several as well.
    pub(crate) fn child(&self, name: &str) -> Option<&Self> {
        self.children.iter().rfind(|child| child.name == name)
    }

    pub(crate) fn into_child(self, name: &str) -> Option<Self> {
        self.children.into_iter().rfind(|child| child.name == name)
    }

    /// The text of the child of that name.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.child(name).map(|child| child.text.as_str())
    }

    /// The members of the list of that name; none if the answer leaves the list out (Smithy, "AWS Query protocol", "Shape serialization").
    pub(crate) fn members(&self, list: &str) -> impl DoubleEndedIterator<Item = &Self> {
        let children = self.child(list).map_or_else(Default::default, |list| list.children.as_slice());
        children.iter().filter(|child| child.name == "member")
    }
}

/// Reads the open element to its end.
fn element(document: &mut XmlReader<'_>, own_name: &str, depth_left: usize) -> Result<XmlElement, XmlError> {
    let Some(depth_left) = depth_left.checked_sub(1) else { return Err(XmlError::TooDeep) };
    let mut read = XmlElement { name: own_name.to_owned(), ..XmlElement::default() };
    loop {
        match document.reader.read_event()? {
            Event::Start(child) => read.children.push(element(document, name(&child), depth_left)?),
            Event::End(_) => return Ok(read),
            Event::Eof => return Err(XmlError::CutOff),
            Event::Text(more) => read.text.push_str(&more),
            Event::CData(more) => read.text.push_str(&more),
            Event::GeneralRef(reference) => read.text.push_str(&resolved(&reference)?),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
