//! Extended attributes.
//!
//! Short values are in the record of their inode, which every operation on the inode reads anyway.
//! Long values have a record each, and the inode has their lengths. For example, a value of 1,025
//! bytes is long.

use bytes::Bytes;

use crate::codec::{DecodeError, Reader, Writer, record};

/// The longest value of an extended attribute that may be in the inode's record, in bytes. Longer
/// values have records of their own.
pub const XATTR_INLINE_BYTES_MAX: usize = 1 << 10;

/// The most bytes of names and values of extended attributes in an inode's record.
pub const XATTRS_INLINE_BYTES_MAX: usize = 8 << 10;

/// The longest name of an extended attribute, in bytes: `XATTR_NAME_MAX` of Linux.
pub const XATTR_NAME_BYTES_MAX: usize = 255;

/// The longest value of an extended attribute, in bytes: `XATTR_SIZE_MAX` of Linux.
pub const XATTR_BYTES_MAX: usize = 64 << 10;

/// The most bytes of the names of an inode, each with a NUL behind it: `XATTR_LIST_MAX` of Linux.
pub const XATTR_NAMES_BYTES_MAX: usize = 64 << 10;

/// An extended attribute of an inode, as the inode's record has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Xattr {
    /// Its name, with its prefix: `user.colour`.
    pub name: Vec<u8>,
    /// The value, or the length of a value that has a record of its own.
    pub value: XattrPlace,
}

/// The place of an extended attribute's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum XattrPlace {
    /// In the inode's record: these bytes.
    Inline(Vec<u8>),
    /// In a record of its own, an `XattrValue`. The number is the value's length in bytes.
    Apart(u32),
}

/// The record of a long value of an extended attribute. Its key has the inode number and the name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XattrValue(pub Bytes);

record!(
    XattrValue,
    1,
    |this, to| {
        to.bytes(&this.0);
    },
    |from| { XattrValue(Bytes::copy_from_slice(from.bytes("value")?)) }
);

const INLINE: u8 = 0;
const APART: u8 = 1;

pub(crate) fn write(to: &mut Writer, xattrs: &[Xattr]) {
    for Xattr { name, value } in xattrs {
        to.bytes(name);
        match value {
            XattrPlace::Inline(value) => to.u8(INLINE).bytes(value),
            // fsck compares the length with the separate record.
            XattrPlace::Apart(length) => to.u8(APART).varint(u64::from(*length)),
        };
    }
}

pub(crate) fn read(from: &mut Reader<'_>) -> Result<Vec<Xattr>, DecodeError> {
    let mut xattrs = Vec::new();
    while !from.is_empty() {
        let name = from.bytes("attribute name")?.into();
        let value = match from.u8("attribute")? {
            INLINE => XattrPlace::Inline(from.bytes("attribute")?.into()),
            APART => XattrPlace::Apart(from.narrow("attribute")?),
            _ => return Err(DecodeError::Field("attribute")),
        };
        xattrs.push(Xattr { name, value });
    }
    Ok(xattrs)
}
