//! Entity tags. For example, an upload of 3 parts has a tag of the form `0123…cdef-3`.

use std::fmt;

use crate::codec::{DecodeError, Reader, Writer};
use crate::hex::write_hex;

/// The entity tag of one content of an object: the `ETag` of S3, which changes with the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tag {
    /// The MD5 of the bytes.
    Md5([u8; 16]),
    /// The MD5 of the MD5s of the parts of a multipart upload, and the number of parts.
    Multipart([u8; 16], u16),
    /// Random bytes, and a number that grows with each change of content. Used if no MD5 was
    /// computed, as for files that programs write in place.
    Opaque([u8; 16], u32),
}

impl Tag {
    /// The opaque tag of a first content: these random bytes, and the number 1.
    pub fn opaque(id: [u8; 16]) -> Tag {
        Tag::Opaque(id, 1)
    }
}

/// The form that clients see, without quotes: 32 hexadecimal digits, and for two of the kinds `-`
/// and the number.
impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Tag::Md5(bytes) | Tag::Multipart(bytes, _) | Tag::Opaque(bytes, _)) = self;
        // All kinds begin with 32 hexadecimal digits.
        write_hex(f, bytes)?;
        match self {
            Tag::Md5(_) => Ok(()),
            Tag::Multipart(_, count) => write!(f, "-{count}"),
            Tag::Opaque(_, version) => write!(f, "-{version}"),
        }
    }
}

const TAG_MD5: u8 = 1;
const TAG_MULTIPART: u8 = 2;
const TAG_OPAQUE: u8 = 3;

pub(crate) fn write_tag(to: &mut Writer, tag: &Tag) {
    match tag {
        Tag::Md5(md5) => to.u8(TAG_MD5).fixed(md5),
        Tag::Multipart(md5, parts) => to.u8(TAG_MULTIPART).fixed(md5).varint(u64::from(*parts)),
        Tag::Opaque(id, version) => to.u8(TAG_OPAQUE).fixed(id).varint(u64::from(*version)),
    };
}

pub(crate) fn read_tag(from: &mut Reader<'_>) -> Result<Tag, DecodeError> {
    let kind = from.u8("entity tag")?;
    let bytes = from.fixed("entity tag")?;
    match kind {
        TAG_MD5 => Ok(Tag::Md5(bytes)),
        TAG_MULTIPART => Ok(Tag::Multipart(bytes, from.narrow("entity tag")?)),
        TAG_OPAQUE => Ok(Tag::Opaque(bytes, from.narrow("entity tag")?)),
        _ => Err(DecodeError::Field("entity tag")),
    }
}
