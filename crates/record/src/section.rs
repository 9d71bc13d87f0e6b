//! The tags of *sections* in the records of inodes and uploads. A section is a field that most
//! records lack, written as a tag, a length and its bytes. A record with an unknown section is
//! refused, because a newer release wrote it. The fields before the sections change by formats
//! instead. For example, a file without user metadata has no section `USER`.

pub(crate) const SUMS: u8 = 1;
pub(crate) const HEADERS: u8 = 2;
pub(crate) const USER: u8 = 3;
pub(crate) const TAGS: u8 = 4;
pub(crate) const PARTS: u8 = 5;
pub(crate) const ACL: u8 = 7;
pub(crate) const XATTRS: u8 = 8;
pub(crate) const PAGES_MADE: u8 = 9;
pub(crate) const RENAMED_BY: u8 = 10;
pub(crate) const LOCK: u8 = 11;
pub(crate) const ENCRYPTION: u8 = 12;
