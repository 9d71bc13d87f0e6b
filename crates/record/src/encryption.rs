//! The encryption of an object's content, as its record and its bucket have it.
//!
//! The record names the mode and not the key of the content. Blocks and inline content name the
//! *ring key* under which they are encrypted. For example, an object of the mode `S3` keeps its
//! mode when a rotation moves its blocks to another ring key.

use crate::codec::{DecodeError, Reader, Writer};

/// The mode in which the content of an object is encrypted, as a client or the bucket requested it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Encryption {
    /// Under a key that the volume manages (SSE-S3).
    S3,
    /// Under a key that a key management service protects (SSE-KMS). The text is the name of the
    /// service's key.
    Kms(String),
    /// Under a key that the client sends with each request (SSE-C). The volume never stores it.
    Customer(Box<CustomerSeal>),
}

/// The stored part of an object's own key in the mode [`Encryption::Customer`]. Only the client's
/// key opens it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CustomerSeal {
    /// Random bytes, from which the keys of this seal are derived together with the client's key.
    pub salt: [u8; 16],
    /// The object's own key of 32 bytes, encrypted under the client's key, with its tag.
    pub wrapped: [u8; 48],
    /// The first bytes of a MAC of the salt under the client's key, so that a wrong key is
    /// detected.
    pub check: [u8; 16],
}

const NONE: u8 = 0;
const S3: u8 = 1;
const KMS: u8 = 2;
const CUSTOMER: u8 = 3;

impl Encryption {
    pub(crate) fn write(&self, to: &mut Writer) {
        match self {
            Encryption::S3 => to.u8(S3),
            Encryption::Kms(name) => to.u8(KMS).bytes(name.as_bytes()),
            Encryption::Customer(seal) => {
                let CustomerSeal { salt, wrapped, check } = &**seal;
                to.u8(CUSTOMER).fixed(salt).fixed(wrapped).fixed(check)
            }
        };
    }

    /// Writes an optional mode as a field of a record that has no sections.
    pub(crate) fn write_optional(mode: Option<&Encryption>, to: &mut Writer) {
        match mode {
            None => _ = to.u8(NONE),
            Some(mode) => mode.write(to),
        }
    }

    pub(crate) fn read_optional(from: &mut Reader<'_>) -> Result<Option<Encryption>, DecodeError> {
        Ok(Some(match from.u8("encryption")? {
            NONE => return Ok(None),
            S3 => Encryption::S3,
            KMS => Encryption::Kms(from.string("name of a key")?),
            CUSTOMER => Encryption::Customer(Box::new(CustomerSeal {
                salt: from.fixed("salt")?,
                wrapped: from.fixed("wrapped key")?,
                check: from.fixed("check of the key")?,
            })),
            mode => return Err(DecodeError::Format(mode)),
        }))
    }

    /// Reads a section, which is written only if there is a mode.
    pub(crate) fn read(from: &mut Reader<'_>) -> Result<Encryption, DecodeError> {
        Encryption::read_optional(from)?.ok_or(DecodeError::Field("encryption"))
    }
}
