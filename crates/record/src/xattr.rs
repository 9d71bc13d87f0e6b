//! Extended attributes.
//!
//! Short ones stand in the record of their inode, which whoever looks at the inode reads anyway.
//! Long ones have a record each; the inode says that they are there.

use bytes::Bytes;

use crate::codec::{DecodeError, Reader, Writer, record};

/// The longest value that stands in the inode's record, in bytes, if there is room.
pub const XATTR_INLINE_BYTES_MAX: usize = 1 << 10;

/// The most bytes of names and values that stand in the inode's record.
pub const XATTRS_INLINE_BYTES_MAX: usize = 8 << 10;

/// The longest name, in bytes: `XATTR_NAME_MAX` of Linux.
pub const XATTR_NAME_BYTES_MAX: usize = 255;

/// The longest value, in bytes: `XATTR_SIZE_MAX` of Linux.
pub const XATTR_BYTES_MAX: usize = 64 << 10;

/// The most bytes of an inode's names, each with a NUL behind it: `XATTR_LIST_MAX` of Linux.
pub const XATTR_NAMES_BYTES_MAX: usize = 64 << 10;

/// An extended attribute of an inode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Xattr {
    /// Its name, with its prefix: `user.colour`.
    pub name: Vec<u8>,
    /// What it says.
    pub value: XattrPlace,
}

/// Where an extended attribute's value is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum XattrPlace {
    /// Here.
    Inline(Vec<u8>),
    /// In a record of its own, [`XattrValue`]; so many bytes.
    Apart(u32),
}

/// A long value: the key says whose it is.
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
