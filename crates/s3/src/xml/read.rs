//! The reader: it returns a whole document as a tree, or a fault.

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};
use time::format_description::well_known::Rfc3339;
use time::{OffsetDateTime, UtcOffset};

use crate::{Code, Fault};

/// The maximum nesting depth of elements in an XML document.
const DEPTH_MAX: usize = 16;
/// The maximum number of attributes of an XML element.
const ATTRIBUTES_MAX: usize = 100;

/// The maximum size of an XML document that a request may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XmlLimits {
    /// The maximum size of the body in bytes.
    pub bytes: usize,
    /// The maximum number of elements of the document.
    pub elements: usize,
}

impl XmlLimits {
    /// The limits of `DeleteObjects` and `CompleteMultipartUpload`: 4 MiB.
    pub const LARGE: XmlLimits = XmlLimits { bytes: 4 << 20, elements: 100_000 };
    /// The limits of all other documents: 1 MiB.
    pub const SMALL: XmlLimits = XmlLimits { bytes: 1 << 20, elements: 10_000 };
}

/// An XML element: its local name, its direct text, and its children in order.
///
/// Namespaces and attributes have no meaning in S3's requests and are ignored, except the type of a
/// grantee.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Element {
    name: String,
    text: String,
    xsi_type: Option<String>,
    children: Vec<Element>,
}

impl Element {
    /// Parses a document whose root element is `root`.
    ///
    /// Fails with `MaxMessageLengthExceeded` for a document beyond the limit in bytes, otherwise
    /// with `MalformedXML`.
    pub fn parse(body: &[u8], root: &str, limits: XmlLimits) -> Result<Element, Fault> {
        // The size is checked first, so that no larger document is parsed.
        if body.len() > limits.bytes {
            return Err(Fault::too_long(limits.bytes));
        }
        let text = std::str::from_utf8(body).map_err(|_| malformed("the document is not UTF-8"))?;
        // A document may begin with a byte order mark.
        let element = tree(text.trim_start_matches('\u{feff}'), limits)?;
        if element.name != root {
            return Err(malformed(&format!("the root element is not {root}")));
        }
        Ok(element)
    }

    /// Returns the local name of the element, without a namespace prefix.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the value of the attribute `xsi:type`.
    pub fn xsi_type(&self) -> Option<&str> {
        self.xsi_type.as_deref()
    }

    /// Returns the direct text of the element, white space included, without that of its children.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the child elements, in order.
    pub fn children(&self) -> &[Element] {
        &self.children
    }

    /// Returns the only child element with this name; `None` if there is none. Fails with
    /// `MalformedXML` if there are several.
    pub fn child(&self, name: &str) -> Result<Option<&Element>, Fault> {
        let mut found = self.children.iter().filter(|child| child.name == name);
        let first = found.next();
        match found.next() {
            Some(_) => Err(malformed(&format!("{name} is repeated in {}", self.name))),
            None => Ok(first),
        }
    }

    /// Returns the text of the only child with this name, without surrounding white space.
    pub fn value(&self, name: &str) -> Result<Option<&str>, Fault> {
        Ok(self.child(name)?.map(|child| child.text.trim()))
    }

    /// Returns the same value as `value`, but fails if there is no such child.
    pub fn required(&self, name: &str) -> Result<&str, Fault> {
        self.value(name)?.ok_or_else(|| malformed(&format!("{name} is missing in {}", self.name)))
    }

    /// Refuses children with other names, and text between them, so that an unknown setting is
    /// never ignored.
    pub(crate) fn refuse_unknown(&self, names: &[&str]) -> Result<(), Fault> {
        if !self.children.iter().all(|child| names.contains(&child.name.as_str())) {
            return Err(malformed(&format!("{} contains an unknown element", self.name)));
        }
        if !self.text.trim().is_empty() {
            return Err(malformed(&format!("{} contains text", self.name)));
        }
        Ok(())
    }
}

/// Parses a time in XML Schema format, `2026-01-02T03:04:05Z`, with an optional fraction. An offset
/// may replace `Z`; without both, the time is UTC, as in S3. Returns the time in UTC, with a year
/// from 0 to 9999.
pub(crate) fn parse_time(text: &str) -> Option<OffsetDateTime> {
    // The RFC 3339 parser accepts any character between date and time.
    if text.as_bytes().get(10) != Some(&b'T') {
        return None;
    }
    let time = OffsetDateTime::parse(text, &Rfc3339)
        .or_else(|_| OffsetDateTime::parse(&format!("{text}Z"), &Rfc3339));
    // The conversion to UTC can leave the range of valid years.
    time.ok()?.checked_to_offset(UtcOffset::UTC).filter(|time| time.year() >= 0)
}

/// Returns the fault of a malformed document. `why` is a fragment in our own words.
pub(crate) fn malformed(why: &str) -> Fault {
    Fault::new(Code::MalformedXML).detail(why.to_owned())
}

/// Parses a document into its root element.
fn tree(text: &str, limits: XmlLimits) -> Result<Element, Fault> {
    let mut reader = Reader::from_str(text);
    reader.config_mut().check_end_names = true;
    // The stack of open elements replaces recursion, so that a deeply nested document cannot
    // overflow the call stack.
    let mut open: Vec<Element> = Vec::new();
    let mut root = None;
    let mut elements = 0_usize;
    loop {
        let event =
            reader.read_event().map_err(|_| malformed("the document is not well-formed"))?;
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
                let element = open.pop().ok_or_else(|| malformed("an end tag has no start tag"))?;
                close(element, &mut open, &mut root)?;
            }
            Event::Text(chunk) => append(&mut open, &chunk.xml10_content())?,
            Event::CData(chunk) => append(&mut open, &chunk.xml10_content())?,
            // Only character references and the five predefined entities are accepted, so no text
            // can expand to a longer one.
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
        _ => Err(malformed("the document is incomplete")),
    }
}

/// Checks the name, the depth and the attributes of an element, and counts it.
fn check_limits(
    start: &BytesStart<'_>,
    depth: usize,
    elements: &mut usize,
    limits: XmlLimits,
) -> Result<(), Fault> {
    *elements += 1;
    if !is_name(start.name().as_ref()) {
        return Err(malformed("an element has an invalid name"));
    }
    // The depth is limited, because a tree is dropped recursively.
    if depth >= DEPTH_MAX {
        return Err(malformed("elements are nested too deep"));
    }
    if *elements > limits.elements {
        return Err(malformed("the document has too many elements"));
    }
    // The parser's check for duplicate attributes is quadratic, and attributes have no meaning
    // here, so it is off.
    let mut attributes = start.attributes();
    attributes.with_checks(false);
    for (count, attribute) in attributes.enumerate() {
        if count >= ATTRIBUTES_MAX || attribute.is_err() {
            return Err(malformed("an element has too many or malformed attributes"));
        }
    }
    Ok(())
}

/// Returns true if XML 1.0, section 2.3, allows the name. The XML parser accepts any text up to a
/// space or the end of the tag. Characters that are not ASCII are not checked, because XML allows
/// almost all of them.
fn is_name(name: &str) -> bool {
    let begins = |c: char| c.is_ascii_alphabetic() || matches!(c, '_' | ':') || !c.is_ascii();
    let goes_on = |c: char| begins(c) || c.is_ascii_digit() || matches!(c, '-' | '.');
    name.starts_with(begins) && name.chars().all(goes_on)
}

/// Returns an element with the name and type of a start tag.
fn element_from(start: &BytesStart<'_>) -> Element {
    let mut attributes = start.attributes();
    attributes.with_checks(false);
    // The prefix of the namespace is not fixed, so any prefix is accepted.
    let is_type = |name: &str| name == "type" || name.ends_with(":type");
    let xsi_type = attributes.flatten().find(|attribute| is_type(attribute.key.as_ref()));
    Element {
        name: start.local_name().as_ref().to_owned(),
        xsi_type: xsi_type.map(|attribute| attribute.value.into_owned()),
        ..Element::default()
    }
}

/// Adds a complete element to its parent, the last of the `open` elements, or makes it the root of
/// the document. Fails if there is a root already.
fn close(element: Element, open: &mut [Element], root: &mut Option<Element>) -> Result<(), Fault> {
    match open.last_mut() {
        Some(parent) => parent.children.push(element),
        None if root.is_none() => *root = Some(element),
        None => return Err(malformed("the document has two root elements")),
    }
    Ok(())
}

/// Appends text to the innermost open element. Fails for text outside the root element, except
/// white space.
fn append(open: &mut [Element], text: &str) -> Result<(), Fault> {
    match open.last_mut() {
        Some(element) => element.text.push_str(text),
        // White space around the root element is allowed.
        None if text.trim().is_empty() => {}
        None => return Err(malformed("text is outside the root element")),
    }
    Ok(())
}

/// Returns the character of one of the five predefined entities of XML, for example `<` for `lt`.
/// Fails for any other name.
fn predefined(name: &str) -> Result<char, Fault> {
    match name {
        "amp" => Ok('&'),
        "lt" => Ok('<'),
        "gt" => Ok('>'),
        "quot" => Ok('"'),
        "apos" => Ok('\''),
        _ => Err(malformed("only the predefined entities are allowed")),
    }
}
