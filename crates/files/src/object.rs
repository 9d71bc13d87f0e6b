//! What S3 keeps with a file, as extended attributes of it.
//!
//! `user.ashlar.content-type` and its like say content headers, `user.ashlar.meta.NAME` user metadata,
//! `user.ashlar.tag.KEY` tags. They are not kept beside what S3 keeps, they are that; so they take what
//! S3 takes, and no more. `user.ashlar.etag` says the entity tag and is no name of the list, because
//! whoever copies a file with its attributes would fail to give it to the copy.

use bytes::Bytes;
use record::{Header, Ino, ObjectHeaders};
use rustix::io::Errno;
use s3::metadata::STANDARD;
use s3::{Metadata, TagSet, Tagged};
use volume::{OBJECT_TAGS_MAX, ObjectItem, USER_METADATA_BYTES_MAX};

use crate::files::Files;

const _: () = assert!(USER_METADATA_BYTES_MAX == Metadata::USER_BYTES_MAX);
const _: () = assert!(OBJECT_TAGS_MAX == TagSet::OBJECT_TAGS_MAX);

const PREFIX: &[u8] = b"user.ashlar.";
const USER: &str = "meta.";
const TAG: &str = "tag.";
const ETAG: &str = "etag";

/// What an attribute is of a file as S3 has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ObjectAttribute {
    /// The entity tag.
    Etag,
    /// Something that S3 keeps with it.
    Item(ObjectItem),
    /// Nothing: no attribute of this name can be.
    Unknown,
}

impl ObjectAttribute {
    /// What the attribute of this name is; none for one that does not belong to S3.
    pub(crate) fn of(attribute: &[u8]) -> Option<ObjectAttribute> {
        let name = attribute.strip_prefix(PREFIX)?;
        let Ok(name) = std::str::from_utf8(name) else { return Some(ObjectAttribute::Unknown) };
        let item = if name == ETAG {
            return Some(ObjectAttribute::Etag);
        } else if let Some(name) = name.strip_prefix(USER) {
            is_metadata_name(name).then(|| ObjectItem::User(name.to_owned()))
        } else if let Some(key) = name.strip_prefix(TAG) {
            is_tag(key, "").then(|| ObjectItem::Tag(key.to_owned()))
        } else {
            let header = Header::ALL.into_iter().find(|header| header.name() == name);
            header.map(ObjectItem::Header)
        };
        Some(item.map_or(ObjectAttribute::Unknown, ObjectAttribute::Item))
    }

    /// Whether the attribute of this name can be asked for: some that S3 takes are too long.
    fn is_to_be_had(attribute: &[u8]) -> bool {
        attribute.len() <= record::XATTR_NAME_BYTES_MAX
            && !matches!(ObjectAttribute::of(attribute), None | Some(ObjectAttribute::Unknown))
    }
}

/// The names of the attributes that say what S3 keeps with a file.
pub(crate) fn names(object: &ObjectHeaders) -> Vec<Vec<u8>> {
    let name = |item: &ObjectItem| match item {
        ObjectItem::Header(header) => header.name().to_owned(),
        ObjectItem::User(name) => format!("{USER}{name}"),
        ObjectItem::Tag(key) => format!("{TAG}{key}"),
    };
    let names = ObjectItem::all(object);
    let names = names.iter().map(|item| [PREFIX, name(item).as_bytes()].concat());
    names.filter(|name| ObjectAttribute::is_to_be_had(name)).collect()
}

impl Files {
    /// What such an attribute says.
    pub(crate) async fn object_attribute(
        &self,
        ino: Ino,
        attribute: &ObjectAttribute,
    ) -> Result<Bytes, Errno> {
        let node = self.retry_until_deadline(|| self.volume.find_node(ino)).await?;
        let file = node.inode.file().ok_or(Errno::NODATA)?;
        match attribute {
            ObjectAttribute::Etag => Ok(file.tag.to_string().into()),
            ObjectAttribute::Item(item) => {
                let value = item.value(&file.object).ok_or(Errno::NODATA)?;
                Ok(value.to_owned().into())
            }
            ObjectAttribute::Unknown => Err(Errno::NODATA),
        }
    }

    /// Changes what such an attribute says; without a value, takes it away. `had` says whether the
    /// file must have it before.
    pub(crate) async fn set_object_attribute(
        &self,
        ino: Ino,
        attribute: &ObjectAttribute,
        value: Option<&[u8]>,
        had: Option<bool>,
    ) -> Result<(), Errno> {
        let item = match (attribute, value) {
            (ObjectAttribute::Item(item), _) => item,
            (ObjectAttribute::Etag, _) => return Err(Errno::PERM),
            (ObjectAttribute::Unknown, Some(_)) => return Err(Errno::INVAL),
            (ObjectAttribute::Unknown, None) => return Err(Errno::NODATA),
        };
        let value = value.map(|value| text(item, value)).transpose()?;
        let set = || self.changing().set_object_item(ino, item, value, had);
        self.retry_until_deadline(set).await.map(drop)
    }
}

/// A value that S3 would take for this.
fn text<'v>(item: &ObjectItem, value: &'v [u8]) -> Result<&'v str, Errno> {
    let text = std::str::from_utf8(value).map_err(|_| Errno::INVAL)?;
    let is_legal = match item {
        // S3 takes the usual storage class, too, and does not show it.
        ObjectItem::Header(Header::StorageClass) if text == STANDARD => true,
        ObjectItem::Header(header) => {
            Metadata::accepts(header.name(), text) && is_header_text(text)
        }
        ObjectItem::User(_) => is_header_text(text),
        ObjectItem::Tag(key) => is_tag(key, text),
    };
    if is_legal { Ok(text) } else { Err(Errno::INVAL) }
}

/// Whether a header can say this, and would come back as it is.
fn is_header_text(text: &str) -> bool {
    text.trim_matches([' ', '\t']) == text && !text.chars().any(|c| c.is_control() && c != '\t')
}

/// Whether a header can have this name, in the case in which S3 tells it.
fn is_metadata_name(name: &str) -> bool {
    let is_legal =
        |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"!#$%&'*+-.^_`|~".contains(&b);
    !name.is_empty() && name.bytes().all(is_legal)
}

fn is_tag(key: &str, value: &str) -> bool {
    TagSet::new(vec![(key.to_owned(), value.to_owned())], Tagged::Object).is_ok()
}
