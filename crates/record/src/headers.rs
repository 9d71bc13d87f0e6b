//! The S3 metadata of an object. For example, a PUT with `Content-Type: text/plain` and
//! `x-amz-meta-author: jo` gives one header and one pair of user metadata.

use crate::account::S3Acl;
use crate::codec::{DecodeError, Reader, Writer};
use crate::object_lock::ObjectLock;
use crate::section;

/// The format of the bytes of an access control list.
const ACL_FORMAT: u8 = 1;

/// The headers that S3 stores with an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Header {
    /// `Content-Type`
    ContentType = 1,
    /// `Cache-Control`
    CacheControl = 2,
    /// `Content-Disposition`
    ContentDisposition = 3,
    /// `Content-Encoding`
    ContentEncoding = 4,
    /// `Content-Language`
    ContentLanguage = 5,
    /// `Expires`
    Expires = 6,
    /// `x-amz-website-redirect-location`
    WebsiteRedirect = 7,
    /// `x-amz-storage-class`, when it is not `STANDARD`
    StorageClass = 8,
}

impl Header {
    /// All headers.
    pub const ALL: [Header; 8] = [
        Header::ContentType,
        Header::CacheControl,
        Header::ContentDisposition,
        Header::ContentEncoding,
        Header::ContentLanguage,
        Header::Expires,
        Header::WebsiteRedirect,
        Header::StorageClass,
    ];

    /// The name in lowercase.
    pub const fn name(self) -> &'static str {
        match self {
            Header::ContentType => "content-type",
            Header::CacheControl => "cache-control",
            Header::ContentDisposition => "content-disposition",
            Header::ContentEncoding => "content-encoding",
            Header::ContentLanguage => "content-language",
            Header::Expires => "expires",
            Header::WebsiteRedirect => "x-amz-website-redirect-location",
            Header::StorageClass => "x-amz-storage-class",
        }
    }
}

/// The storage classes that heads of inodes can hold, each as its position in this list, counted
/// from 1. A class is only a label; `STANDARD` is not stored.
pub const STORAGE_CLASSES: [&str; 11] = [
    "REDUCED_REDUNDANCY",
    "STANDARD_IA",
    "ONEZONE_IA",
    "INTELLIGENT_TIERING",
    "GLACIER",
    "GLACIER_IR",
    "DEEP_ARCHIVE",
    "OUTPOSTS",
    "SNOW",
    "EXPRESS_ONEZONE",
    "FSX_OPENZFS",
];

/// The number of a storage class in the list; `None` for a class that is not in it.
pub(crate) fn class_number(name: &str) -> Option<u8> {
    let place = STORAGE_CLASSES.iter().position(|class| *class == name)?;
    u8::try_from(place + 1).ok()
}

/// The storage class of this number in the list; `None` if the list has no such number.
pub(crate) fn class_name(number: u8) -> Option<&'static str> {
    STORAGE_CLASSES.get(usize::from(number).checked_sub(1)?).copied()
}

/// The S3 metadata of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectHeaders {
    /// The headers that S3 stores and returns, each at most once.
    pub headers: Vec<(Header, String)>,
    /// User metadata: the names behind `x-amz-meta-`, in lowercase, and their values.
    pub user: Vec<(String, String)>,
    /// Object tags: pairs of name and value.
    pub tags: Vec<(String, String)>,
    /// The access control list. `None` grants the owner full control, and no others.
    pub acl: Option<S3Acl>,
    /// The protection of the object by a retention and a legal hold.
    pub lock: ObjectLock,
}

impl ObjectHeaders {
    /// Writes five sections. An empty one is left out.
    pub(crate) fn write(&self, to: &mut Writer) {
        to.section(section::HEADERS, |to| {
            for (header, value) in &self.headers {
                to.u8(*header as u8).bytes(value.as_bytes());
            }
        });
        // User metadata and tags have the same form.
        for (tag, pairs) in [(section::USER, &self.user), (section::TAGS, &self.tags)] {
            to.section(tag, |to| write_pairs(to, pairs));
        }
        if let Some(acl) = &self.acl {
            // A list without grants differs from no list, so it has a section.
            to.section(section::ACL, |to| {
                to.u8(ACL_FORMAT);
                acl.write(to);
            });
        }
        to.section(section::LOCK, |to| self.lock.write(to));
    }

    pub(crate) fn read_section(
        &mut self,
        tag: u8,
        section: &mut Reader<'_>,
    ) -> Result<(), DecodeError> {
        match tag {
            section::HEADERS => {
                while !section.is_empty() {
                    // The number of each header is fixed, also if others are added.
                    let id = section.u8("header")?;
                    let header = Header::ALL.into_iter().find(|header| *header as u8 == id);
                    let header = header.ok_or(DecodeError::Field("header"))?;
                    self.headers.push((header, section.string("header")?));
                }
            }
            section::USER => self.user = read_pairs(section)?,
            section::TAGS => self.tags = read_pairs(section)?,
            section::ACL => match section.u8("acl")? {
                ACL_FORMAT => self.acl = Some(S3Acl::read(section)?),
                other => return Err(DecodeError::Format(other)),
            },
            section::LOCK => self.lock = ObjectLock::read(section)?,
            // An unknown section is never skipped: it may change the meaning of the others.
            _ => return Err(DecodeError::Format(tag)),
        }
        Ok(())
    }

    /// The value of a header; `None` if the object has no such header.
    pub fn header(&self, header: Header) -> Option<&str> {
        self.headers.iter().find(|(h, _)| *h == header).map(|(_, value)| value.as_str())
    }
}

pub(crate) fn write_pairs(to: &mut Writer, pairs: &[(String, String)]) {
    for (name, value) in pairs {
        to.bytes(name.as_bytes()).bytes(value.as_bytes());
    }
}

pub(crate) fn read_pairs(from: &mut Reader<'_>) -> Result<Vec<(String, String)>, DecodeError> {
    let mut pairs = Vec::new();
    while !from.is_empty() {
        pairs.push((from.string("name")?, from.string("value")?));
    }
    Ok(pairs)
}
