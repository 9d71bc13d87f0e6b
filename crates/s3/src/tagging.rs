//! Tags of objects and buckets.

use crate::query::Query;
use crate::xml::{Element, Writer, XmlLimits, malformed};
use crate::{Code, Fault};

/// What carries the tags; it decides how many there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tagged {
    /// At most 10 tags.
    Object,
    /// At most 50 tags.
    Bucket,
}

/// Tags in the order sent: distinct keys of 1 to 128 characters, values of 0 to 256.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TagSet(Vec<(String, String)>);

impl TagSet {
    /// The most tags of an object.
    pub const OBJECT_TAGS_MAX: usize = 10;

    const KEY_CHARACTERS_MAX: usize = 128;
    const VALUE_CHARACTERS_MAX: usize = 256;

    /// Checks a list of tags.
    ///
    /// Faults: `InvalidTag`; `BadRequest` for more than 10 on an object.
    pub fn new(tags: Vec<(String, String)>, tagged: Tagged) -> Result<TagSet, Fault> {
        match tagged {
            Tagged::Object if tags.len() > TagSet::OBJECT_TAGS_MAX => {
                return Err(Fault::because(
                    Code::BadRequest,
                    "Object tags cannot be greater than 10.",
                ));
            }
            Tagged::Bucket if tags.len() > 50 => {
                return Err(invalid("A bucket cannot have more than 50 tags."));
            }
            _ => {}
        }
        for (place, (key, value)) in tags.iter().enumerate() {
            if key.is_empty() || key.chars().count() > TagSet::KEY_CHARACTERS_MAX {
                return Err(
                    invalid("A tag's key must have 1 to 128 characters.").with("TagKey", key)
                );
            }
            if value.chars().count() > TagSet::VALUE_CHARACTERS_MAX {
                return Err(invalid("A tag's value must have at most 256 characters."));
            }
            if !key.chars().chain(value.chars()).all(is_allowed) {
                return Err(invalid("A tag holds a character that is not allowed."));
            }
            if key.starts_with("aws:") {
                return Err(invalid("A tag's key must not begin with aws:."));
            }
            if tags.iter().take(place).any(|(other, _)| other == key) {
                return Err(invalid("Two tags have the same key.").with("TagKey", key));
            }
        }
        Ok(TagSet(tags))
    }

    /// Reads `x-amz-tagging`: tags as a query string.
    ///
    /// Faults: as `new`; `InvalidArgument` when it does not decode.
    pub fn parse_header(header: &str) -> Result<TagSet, Fault> {
        let query = Query::parse(header).map_err(|_| {
            Fault::because(Code::InvalidArgument, "The tags are not encoded like a query string.")
                .with("ArgumentName", "x-amz-tagging")
        })?;
        let tags = query.iter().map(|tag| (tag.name.clone(), tag.value.clone())).collect();
        TagSet::new(tags, Tagged::Object)
    }

    /// Reads a `Tagging` document. Faults: as `new`, and those of XML.
    pub fn parse_xml(body: &[u8], tagged: Tagged) -> Result<TagSet, Fault> {
        let root = Element::parse(body, "Tagging", XmlLimits::SMALL)?;
        let set = root.child("TagSet")?.ok_or_else(|| malformed("TagSet is missing"))?;
        let mut tags = Vec::new();
        for tag in set.children() {
            if tag.name() != "Tag" {
                return Err(malformed("TagSet holds something other than Tag"));
            }
            // White space is part of a tag, so that the text is taken as it stands.
            let text = |name: &str| match tag.child(name)? {
                Some(element) => Ok(element.text().to_owned()),
                None => Err(malformed("a Tag needs a Key and a Value")),
            };
            tags.push((text("Key")?, text("Value")?));
        }
        TagSet::new(tags, tagged)
    }

    /// The `Tagging` document.
    pub fn to_xml(&self) -> String {
        let mut out = Writer::document();
        out.root("Tagging", |out| {
            out.element("TagSet", |out| {
                for (key, value) in &self.0 {
                    out.element("Tag", |out| {
                        out.text("Key", key);
                        out.text("Value", value);
                    });
                }
            });
        });
        out.finish()
    }

    /// The tags, in order.
    pub fn as_slice(&self) -> &[(String, String)] {
        &self.0
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many there are; the value of `x-amz-tagging-count`.
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

fn is_allowed(character: char) -> bool {
    character.is_alphanumeric()
        || matches!(character, ' ' | '+' | '-' | '=' | '.' | '_' | ':' | '/' | '@')
}

fn invalid(why: &'static str) -> Fault {
    Fault::because(Code::InvalidTag, why)
}
