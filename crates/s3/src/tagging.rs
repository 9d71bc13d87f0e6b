//! Tags of objects and buckets.
//!
//! For example, the header `x-amz-tagging: project=blue&stage=test` has two tags.

use crate::query::Query;
use crate::xml::{Element, Writer, XmlLimits, malformed};
use crate::{Code, Fault};

/// The kind of resource with tags. It determines the maximum number of tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tagged {
    /// An object: at most 10 tags.
    Object,
    /// A bucket: at most 50 tags.
    Bucket,
}

/// Tags in the order sent, with distinct keys of 1 to 128 characters and values of 0 to 256
/// characters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TagSet(Vec<(String, String)>);

impl TagSet {
    /// The maximum number of tags of an object.
    pub const OBJECT_TAGS_MAX: usize = 10;

    const KEY_CHARACTERS_MAX: usize = 128;
    const VALUE_CHARACTERS_MAX: usize = 256;

    /// Creates a tag set from keys and values, after it has checked them.
    ///
    /// Fails with `InvalidTag`, or with `BadRequest` for more than 10 tags of an object or 50 tags
    /// of a bucket.
    pub fn new(tags: Vec<(String, String)>, tagged: Tagged) -> Result<TagSet, Fault> {
        match tagged {
            Tagged::Object if tags.len() > TagSet::OBJECT_TAGS_MAX => {
                return Err(Fault::because(
                    Code::BadRequest,
                    "Object tags cannot be greater than 10",
                ));
            }
            Tagged::Bucket if tags.len() > 50 => {
                return Err(Fault::because(
                    Code::BadRequest,
                    "Bucket tag count cannot be greater than 50",
                ));
            }
            Tagged::Object | Tagged::Bucket => {}
        }
        // At most 50 tags, so a quadratic comparison is fast enough.
        for (place, (key, value)) in tags.iter().enumerate() {
            check(key, value)?;
            if tags.iter().take(place).any(|(other, _)| other == key) {
                let why = "Cannot provide multiple Tags with the same key";
                return Err(invalid(why).with("TagKey", key));
            }
        }
        Ok(TagSet(tags))
    }

    /// Parses `x-amz-tagging`: tags as a query string.
    ///
    /// Fails as `new`, or with `InvalidArgument` if the header does not decode, repeats a key or
    /// has an empty key.
    pub fn parse_header(header: &str) -> Result<TagSet, Fault> {
        let refused = || {
            Fault::because(
                Code::InvalidArgument,
                "The header 'x-amz-tagging' shall be encoded as UTF-8 then URLEncoded URL query \
                 parameters without tag name duplicates.",
            )
            .with("ArgumentName", "x-amz-tagging")
            .with("ArgumentValue", header)
        };
        let query = Query::parse(header).map_err(|_| refused())?;
        let tags = query.iter().map(|tag| (tag.name.clone(), tag.value.clone()));
        let tags: Vec<(String, String)> = tags.collect();
        // The checks of `new` run here first, because the header has its own message for repeated
        // keys, and an invalid tag is reported before too many tags.
        for (place, (key, value)) in tags.iter().enumerate() {
            if key.is_empty() {
                return Err(refused());
            }
            check(key, value)?;
            if tags.iter().take(place).any(|(other, _)| other == key) {
                return Err(refused());
            }
        }
        TagSet::new(tags, Tagged::Object)
    }

    /// Parses a `Tagging` document. Fails as `new`, or with the faults of XML.
    pub fn parse_xml(body: &[u8], tagged: Tagged) -> Result<TagSet, Fault> {
        let root = Element::parse(body, "Tagging", XmlLimits::SMALL)?;
        let set = root.child("TagSet")?.ok_or_else(|| malformed("TagSet is missing"))?;
        TagSet::of_elements(set, tagged)
    }

    /// Parses the tags of an object or bucket from an element's children. Fails as `new`, or with
    /// `MalformedXML`.
    pub(crate) fn of_elements(set: &Element, tagged: Tagged) -> Result<TagSet, Fault> {
        let mut tags = Vec::new();
        for tag in set.children() {
            if tag.name() != "Tag" {
                return Err(malformed("TagSet contains an element other than Tag"));
            }
            // White space is part of a tag, so the text is not trimmed.
            let text = |name: &str| match tag.child(name)? {
                Some(element) => Ok(element.text().to_owned()),
                None => Err(malformed("a Tag needs a Key and a Value")),
            };
            tags.push((text("Key")?, text("Value")?));
        }
        TagSet::new(tags, tagged)
    }

    /// Returns the `Tagging` document.
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

    /// Returns the tags, in order.
    pub fn as_slice(&self) -> &[(String, String)] {
        &self.0
    }

    /// Returns true if there are no tags.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of tags, which is the value of `x-amz-tagging-count`.
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

/// Checks the characters and lengths of one tag. Fails with `InvalidTag`.
fn check(key: &str, value: &str) -> Result<(), Fault> {
    let length = key.chars().count();
    if !(1..=TagSet::KEY_CHARACTERS_MAX).contains(&length) || !key.chars().all(is_allowed) {
        return Err(invalid("The TagKey you have provided is invalid").with("TagKey", key));
    }
    if value.chars().count() > TagSet::VALUE_CHARACTERS_MAX || !value.chars().all(is_allowed) {
        let fault = invalid("The TagValue you have provided is invalid");
        return Err(fault.with("TagKey", key).with("TagValue", value));
    }
    // AWS reserves this prefix for its own tags.
    if key.starts_with("aws:") {
        let fault = invalid("System tags cannot be added/updated by requester");
        return Err(fault.with("TagKey", key));
    }
    Ok(())
}

fn is_allowed(character: char) -> bool {
    character.is_alphanumeric()
        || matches!(character, ' ' | '+' | '-' | '=' | '.' | '_' | ':' | '/' | '@')
}

fn invalid(why: &'static str) -> Fault {
    Fault::because(Code::InvalidTag, why)
}
