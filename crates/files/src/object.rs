//! The S3 metadata of a file, as extended attributes.
//!
//! `user.ashlar.content-type` and similar names are content headers, `user.ashlar.meta.NAME` is
//! user metadata, and `user.ashlar.tag.KEY` is a tag. They are views of the S3 metadata, not
//! copies, so they accept only values that S3 accepts. For example, `setfattr -n
//! user.ashlar.tag.team -v blue FILE` does the same as `PutObjectTagging` with one more tag.
//!
//! `user.ashlar.etag` is the entity tag. It can be read, but it is not listed: a program that
//! copies a file with all its listed attributes would fail to set it on the copy.

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

/// The meaning of the name of an extended attribute that begins with `user.ashlar.`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ObjectAttribute {
    /// The entity tag, read-only.
    Etag,
    /// A header, a user metadata entry or a tag.
    Item(ObjectItem),
    /// No S3 metadata can have this name.
    Unknown,
}

impl ObjectAttribute {
    /// Parses the name of an extended attribute. Returns `None` if it does not begin with
    /// `user.ashlar.`.
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

    /// Returns true if an attribute of this name can be read. Some S3 names are too long for one.
    fn is_readable(attribute: &[u8]) -> bool {
        attribute.len() <= record::XATTR_NAME_BYTES_MAX
            && !matches!(ObjectAttribute::of(attribute), None | Some(ObjectAttribute::Unknown))
    }
}

/// Returns the attribute names of all S3 metadata of a file.
pub(crate) fn names(object: &ObjectHeaders) -> Vec<Vec<u8>> {
    let name = |item: &ObjectItem| match item {
        ObjectItem::Header(header) => header.name().to_owned(),
        ObjectItem::User(name) => format!("{USER}{name}"),
        ObjectItem::Tag(key) => format!("{TAG}{key}"),
    };
    let names = ObjectItem::all(object);
    let names = names.iter().map(|item| [PREFIX, name(item).as_bytes()].concat());
    names.filter(|name| ObjectAttribute::is_readable(name)).collect()
}

impl Files {
    /// Returns the value of an extended attribute that shows S3 metadata. Fails with `ENODATA` if
    /// the file does not have it.
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

    /// Sets an extended attribute that shows S3 metadata, or removes it if `value` is `None`.
    /// `must_exist` is true if it must exist before, false if it must not, and `None` if either is
    /// fine.
    ///
    /// # Errors
    /// `EPERM` for the entity tag; `EINVAL` if S3 does not accept the name or the value; `ENODATA`
    /// or `EEXIST` if `must_exist` does not hold.
    pub(crate) async fn set_object_attribute(
        &self,
        ino: Ino,
        attribute: &ObjectAttribute,
        value: Option<&[u8]>,
        must_exist: Option<bool>,
    ) -> Result<(), Errno> {
        let item = match (attribute, value) {
            (ObjectAttribute::Item(item), _) => item,
            (ObjectAttribute::Etag, _) => return Err(Errno::PERM),
            (ObjectAttribute::Unknown, Some(_)) => return Err(Errno::INVAL),
            (ObjectAttribute::Unknown, None) => return Err(Errno::NODATA),
        };
        let value = value.map(|value| text(item, value)).transpose()?;
        let set = || self.changing().set_object_item(ino, item, value, must_exist);
        self.retry_until_deadline(set).await.map(drop)
    }
}

/// Returns the new value of an S3 metadata item as text. Fails with `EINVAL` if S3 would not accept
/// it.
fn text<'v>(item: &ObjectItem, value: &'v [u8]) -> Result<&'v str, Errno> {
    let text = std::str::from_utf8(value).map_err(|_| Errno::INVAL)?;
    let is_legal = match item {
        // S3 also accepts the standard storage class, and does not show it.
        ObjectItem::Header(Header::StorageClass) if text == STANDARD => true,
        ObjectItem::Header(header) => {
            Metadata::accepts(header.name(), text) && is_header_text(text)
        }
        ObjectItem::User(_) => is_header_text(text),
        ObjectItem::Tag(key) => is_tag(key, text),
    };
    if is_legal { Ok(text) } else { Err(Errno::INVAL) }
}

/// Returns true if a header can carry this value without change.
fn is_header_text(text: &str) -> bool {
    text.trim_matches([' ', '\t']) == text && !text.chars().any(|c| c.is_control() && c != '\t')
}

/// Returns true if a header can have this name, in the lower case that S3 returns.
fn is_metadata_name(name: &str) -> bool {
    let is_legal =
        |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"!#$%&'*+-.^_`|~".contains(&b);
    !name.is_empty() && name.bytes().all(is_legal)
}

fn is_tag(key: &str, value: &str) -> bool {
    TagSet::new(vec![(key.to_owned(), value.to_owned())], Tagged::Object).is_ok()
}
