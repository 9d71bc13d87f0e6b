//! XML documents: a parsed document is no larger than its input, and means the same after it is
//! written.

use s3::Code;
use s3::xml::{Element, Writer, XmlLimits};

/// Limit of the nesting of elements, which the parser enforces, as it does their number.
const DEPTH_MAX: usize = 16;

pub(crate) fn check(input: &[u8]) {
    // The input also decides the name of the root element.
    let name = outermost(input).unwrap_or_else(|| "R".to_owned());
    let small = XmlLimits { bytes: 256, elements: 4 };
    let parsed = Element::parse(input, &name, XmlLimits::SMALL);
    match Element::parse(input, &name, small) {
        Ok(root) => {
            assert!(input.len() <= small.bytes && count(&root) <= small.elements);
            assert_eq!(parsed.as_ref().ok(), Some(&root), "limits only refuse");
        }
        Err(fault) if input.len() > small.bytes => {
            assert_eq!(fault.code, Code::MaxMessageLengthExceeded);
        }
        Err(fault) => assert_eq!(fault.code, Code::MalformedXML),
    }
    let Ok(root) = parsed else { return };
    assert!(depth(&root) <= DEPTH_MAX);
    assert!(bytes(&root) <= input.len(), "no text is made up: entities are not the sender's");
    assert!(Element::parse(input, "anything-else", XmlLimits::SMALL).is_err());
    let mut out = Writer::document();
    write(&mut out, &root);
    let again = out.finish();
    let again =
        Element::parse(again.as_bytes(), &name, XmlLimits::SMALL).expect("our own document");
    assert!(says_the_same(&again, &root), "{again:?} is not {root:?}");
}

/// Returns the local name of the first element, as far as it can be found.
fn outermost(input: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(input).ok()?;
    let starts = text.match_indices('<').map(|(at, _)| &text[at + 1..]);
    let start = starts.into_iter().find(|rest| !rest.starts_with(['!', '?', '/']))?;
    let end = start.find([' ', '\t', '\r', '\n', '>', '/']).unwrap_or(start.len());
    let name = start[..end].rsplit_once(':').map_or(&start[..end], |(_, local)| local);
    let writable = |character: char| character.is_ascii_alphanumeric();
    (!name.is_empty() && name.chars().all(writable)).then(|| name.to_owned())
}

fn write(out: &mut Writer, element: &Element) {
    out.element(element.name(), |out| {
        out.characters(element.text());
        element.children().iter().for_each(|child| write(out, child));
    });
}

/// Returns true if both documents are equal, apart from types of grantees. The writer replaces NUL.
fn says_the_same(again: &Element, first: &Element) -> bool {
    let legal = |character: char| if character == '\0' { '\u{fffd}' } else { character };
    again.name() == first.name()
        && again.text().chars().eq(first.text().chars().map(legal))
        && again.children().len() == first.children().len()
        && again.children().iter().zip(first.children()).all(|(a, b)| says_the_same(a, b))
}

fn count(element: &Element) -> usize {
    1 + element.children().iter().map(count).sum::<usize>()
}

fn depth(element: &Element) -> usize {
    1 + element.children().iter().map(depth).max().unwrap_or_default()
}

fn bytes(element: &Element) -> usize {
    let own = element.name().len() + element.text().len();
    own + element.xsi_type().map_or(0, str::len)
        + element.children().iter().map(bytes).sum::<usize>()
}
