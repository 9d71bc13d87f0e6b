//! The reader: a whole document as a tree, or a fault.

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};
use time::format_description::well_known::Rfc3339;
use time::{OffsetDateTime, UtcOffset};

use crate::{Code, Fault};

/// Elements may nest this deep.
const DEPTH_MAX: usize = 16;
/// An element may have this many attributes.
const ATTRIBUTES_MAX: usize = 100;

/// How large a document may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XmlLimits {
    /// Bytes of the body.
    pub bytes: usize,
    /// Elements in the document.
    pub elements: usize,
}

impl XmlLimits {
    /// `DeleteObjects` and `CompleteMultipartUpload`: 4 MiB.
    pub const LARGE: XmlLimits = XmlLimits { bytes: 4 << 20, elements: 100_000 };
    /// All others: 1 MiB.
    pub const SMALL: XmlLimits = XmlLimits { bytes: 1 << 20, elements: 10_000 };
}

/// An element: its local name, the text directly in it, and its children in order.
///
/// Namespaces and attributes carry no meaning in S3's requests and are dropped, but for the type of
/// a grantee.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Element {
    name: String,
    text: String,
    xsi_type: Option<String>,
    children: Vec<Element>,
}

impl Element {
    /// Reads a document whose outermost element is called `root`.
    ///
    /// Faults: `MaxMessageLengthExceeded` beyond the limit in bytes, `MalformedXML` otherwise.
    pub fn parse(body: &[u8], root: &str, limits: XmlLimits) -> Result<Element, Fault> {
        if body.len() > limits.bytes {
            return Err(Fault::too_long(limits.bytes));
        }
        let text = std::str::from_utf8(body).map_err(|_| malformed("it is not UTF-8"))?;
        let element = tree(text.trim_start_matches('\u{feff}'), limits)?;
        if element.name != root {
            return Err(malformed(&format!("the outermost element is not {root}")));
        }
        Ok(element)
    }

    /// The element's local name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the attribute `xsi:type` says.
    pub fn xsi_type(&self) -> Option<&str> {
        self.xsi_type.as_deref()
    }

    /// The text directly in the element, as it stands.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The children, in order.
    pub fn children(&self) -> &[Element] {
        &self.children
    }

    /// The only child of this name. More than one is `MalformedXML`.
    pub fn child(&self, name: &str) -> Result<Option<&Element>, Fault> {
        let mut found = self.children.iter().filter(|child| child.name == name);
        let first = found.next();
        match found.next() {
            Some(_) => Err(malformed(&format!("{name} stands twice in {}", self.name))),
            None => Ok(first),
        }
    }

    /// The text of the only child of this name, without surrounding white space.
    pub fn value(&self, name: &str) -> Result<Option<&str>, Fault> {
        Ok(self.child(name)?.map(|child| child.text.trim()))
    }

    /// Like `value`, but the child must be there.
    pub fn required(&self, name: &str) -> Result<&str, Fault> {
        self.value(name)?.ok_or_else(|| malformed(&format!("{name} is missing in {}", self.name)))
    }

    /// Refuses children of other names, and text between them, so that what is not understood is
    /// never passed over.
    pub(crate) fn refuse_unknown(&self, names: &[&str]) -> Result<(), Fault> {
        if !self.children.iter().all(|child| names.contains(&child.name.as_str())) {
            return Err(malformed(&format!("{} holds an element that is not known", self.name)));
        }
        if !self.text.trim().is_empty() {
            return Err(malformed(&format!("{} holds text", self.name)));
        }
        Ok(())
    }
}

/// Reads a time as XML Schema has it, `2026-01-02T03:04:05Z`, with a fraction, an offset, or
/// neither `Z` nor an offset, which S3 takes for UTC. The time is in UTC, of the years 0 to 9999.
pub(crate) fn parse_time(text: &str) -> Option<OffsetDateTime> {
    // RFC 3339 lets any character stand between date and time.
    if text.as_bytes().get(10) != Some(&b'T') {
        return None;
    }
    let time = OffsetDateTime::parse(text, &Rfc3339)
        .or_else(|_| OffsetDateTime::parse(&format!("{text}Z"), &Rfc3339));
    // An offset may lead out of the years that there are.
    time.ok()?.checked_to_offset(UtcOffset::UTC).filter(|time| time.year() >= 0)
}

/// The one fault for documents that are not as they should be.
pub(crate) fn malformed(why: &str) -> Fault {
    Fault::new(Code::MalformedXML).detail(why.to_owned())
}

fn tree(text: &str, limits: XmlLimits) -> Result<Element, Fault> {
    let mut reader = Reader::from_str(text);
    reader.config_mut().check_end_names = true;
    let mut open: Vec<Element> = Vec::new();
    let mut root = None;
    let mut elements = 0_usize;
    loop {
        let event = reader.read_event().map_err(|_| malformed("it does not parse"))?;
        match event {
            Event::Start(start) => {
                check_limits(&start, open.len(), &mut elements, limits)?;
                open.push(element_from(&start));
            }
            Event::Empty(start) => {
                check_limits(&start, open.len(), &mut elements, limits)?;
                close(element_from(&start), &mut open, &mut root)?;
            }
            Event::End(_) => {
                let element = open.pop().ok_or_else(|| malformed("an end without a start"))?;
                close(element, &mut open, &mut root)?;
            }
            Event::Text(chunk) => append(&mut open, &chunk.xml10_content())?,
            Event::CData(chunk) => append(&mut open, &chunk.xml10_content())?,
            Event::GeneralRef(reference) => {
                let character = match reference.resolve_char_ref() {
                    Ok(Some(character)) => character,
                    Ok(None) => predefined(&reference.xml10_content())?,
                    Err(_) => return Err(malformed("a character reference is invalid")),
                };
                append(&mut open, character.encode_utf8(&mut [0; 4]))?;
            }
            Event::DocType(_) => return Err(malformed("document types are not allowed")),
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) => {}
            Event::Eof => break,
        }
    }
    match root {
        Some(root) if open.is_empty() => Ok(root),
        _ => Err(malformed("it ends early")),
    }
}

fn check_limits(
    start: &BytesStart<'_>,
    depth: usize,
    elements: &mut usize,
    limits: XmlLimits,
) -> Result<(), Fault> {
    *elements += 1;
    if !is_name(start.name().as_ref()) {
        return Err(malformed("an element has no name that XML allows"));
    }
    if depth >= DEPTH_MAX {
        return Err(malformed("it nests too deep"));
    }
    if *elements > limits.elements {
        return Err(malformed("it has too many elements"));
    }
    // Unchecked, because looking for duplicates is quadratic and attributes mean nothing here.
    let mut attributes = start.attributes();
    attributes.with_checks(false);
    for (count, attribute) in attributes.enumerate() {
        if count >= ATTRIBUTES_MAX || attribute.is_err() {
            return Err(malformed("its attributes are too many or do not parse"));
        }
    }
    Ok(())
}

/// Whether an element may be called so, by XML 1.0, section 2.3. The parser takes what stands before a
/// space or the end. Of characters beyond ASCII, few of which are not allowed, none is looked at.
fn is_name(name: &str) -> bool {
    let begins = |c: char| c.is_ascii_alphabetic() || matches!(c, '_' | ':') || !c.is_ascii();
    let goes_on = |c: char| begins(c) || c.is_ascii_digit() || matches!(c, '-' | '.');
    name.starts_with(begins) && name.chars().all(goes_on)
}

fn element_from(start: &BytesStart<'_>) -> Element {
    let mut attributes = start.attributes();
    attributes.with_checks(false);
    let is_type = |name: &str| name == "type" || name.ends_with(":type");
    let xsi_type = attributes.flatten().find(|attribute| is_type(attribute.key.as_ref()));
    Element {
        name: start.local_name().as_ref().to_owned(),
        xsi_type: xsi_type.map(|attribute| attribute.value.into_owned()),
        ..Element::default()
    }
}

fn close(element: Element, open: &mut [Element], root: &mut Option<Element>) -> Result<(), Fault> {
    match open.last_mut() {
        Some(parent) => parent.children.push(element),
        None if root.is_none() => *root = Some(element),
        None => return Err(malformed("it has two outermost elements")),
    }
    Ok(())
}

fn append(open: &mut [Element], text: &str) -> Result<(), Fault> {
    match open.last_mut() {
        Some(element) => element.text.push_str(text),
        None if text.trim().is_empty() => {}
        None => return Err(malformed("text stands outside the outermost element")),
    }
    Ok(())
}

fn predefined(name: &str) -> Result<char, Fault> {
    match name {
        "amp" => Ok('&'),
        "lt" => Ok('<'),
        "gt" => Ok('>'),
        "quot" => Ok('"'),
        "apos" => Ok('\''),
        _ => Err(malformed("entities are not allowed")),
    }
}
