//! The key that a client sends with each request for an object of its own encryption (SSE-C).

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hashing::Md5;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use super::fault::missing_customer_key;
use super::headers::{AES256, CustomerHeaders, MODE, invalid, refuse_modes, refuse_unknown};
use crate::fields::Fields;
use crate::{Code, Fault};

/// A key of a client: 32 bytes.
///
/// It is overwritten when it is dropped, it has no `Clone`, and its `Debug` shows no byte of it.
/// Requests share it in an [`Arc`]. The headers of the request still contain it as long as the
/// request is served.
pub struct CustomerKey {
    key: Zeroizing<[u8; CustomerKey::BYTES]>,
    md5: [u8; 16],
}

impl CustomerKey {
    /// The length of a key in bytes.
    pub const BYTES: usize = 32;

    /// Parses the headers of a request that reads an object: `GetObject`, `HeadObject` and
    /// `GetObjectAttributes`. Returns `None` if the request has no key.
    ///
    /// Fails with `InvalidArgument` or `InvalidEncryptionAlgorithmError` for a missing or wrong
    /// header, and with `InvalidArgument` for headers that select the encryption of a new object.
    pub fn for_read(fields: Fields<'_>) -> Result<Option<Arc<CustomerKey>>, Fault> {
        refuse_unknown(fields, false)?;
        refuse_modes(fields)?;
        CustomerKey::parse(fields, CustomerHeaders::OBJECT)
    }

    /// Parses the headers about the source of a copy. Returns `None` if the request has no key for
    /// it. Fails as [`CustomerKey::for_read`].
    pub fn of_copy_source(fields: Fields<'_>) -> Result<Option<Arc<CustomerKey>>, Fault> {
        CustomerKey::parse(fields, CustomerHeaders::COPY_SOURCE)
    }

    pub(super) fn parse(
        fields: Fields<'_>,
        names: CustomerHeaders,
    ) -> Result<Option<Arc<CustomerKey>>, Fault> {
        if !names.any(fields) {
            return Ok(None);
        }
        // S3 checks the headers in this order, and names the same argument for each of them.
        match fields.get(names.algorithm)?.filter(|algorithm| !algorithm.is_empty()) {
            Some(AES256) => {}
            None => {
                return Err(invalid(
                    "Requests specifying Server Side Encryption with Customer provided keys must \
                     provide a valid encryption algorithm.",
                    "null",
                ));
            }
            Some(other) => {
                let shown: String = other.chars().take(100).collect();
                return Err(Fault::new(Code::InvalidEncryptionAlgorithmError)
                    .with("ArgumentName", MODE)
                    .with("ArgumentValue", shown));
            }
        }
        let Some(text) = fields.get(names.key)?.filter(|key| !key.is_empty()) else {
            return Err(invalid(
                "Requests specifying Server Side Encryption with Customer provided keys must \
                 provide an appropriate secret key.",
                "null",
            ));
        };
        let Some(sent) = fields.get(names.md5)?.filter(|md5| !md5.is_empty()) else {
            return Err(invalid(
                "Requests specifying Server Side Encryption with Customer provided keys must \
                 provide the client calculated MD5 of the secret key.",
                "null",
            ));
        };
        CustomerKey::decode(text, sent).map(|key| Some(Arc::new(key)))
    }

    /// Decodes a key and compares its MD5 with the one that the client sent. No fault repeats any
    /// part of the key.
    fn decode(text: &str, sent: &str) -> Result<CustomerKey, Fault> {
        let wrong = || invalid("The secret key was invalid for the specified algorithm.", "null");
        let bytes = Zeroizing::new(STANDARD.decode(text).map_err(|_| wrong())?);
        let mut md5 = Md5::new();
        md5.update(&bytes);
        let md5 = md5.finish();
        // S3 compares the MD5 first, so a key of a wrong length with a wrong MD5 has this fault.
        if STANDARD.decode(sent).ok().as_deref() != Some(&md5[..]) {
            return Err(invalid(
                "The calculated MD5 hash of the key did not match the hash that was provided.",
                "null",
            ));
        }
        let mut key = Zeroizing::new([0; CustomerKey::BYTES]);
        if bytes.len() != key.len() {
            return Err(wrong());
        }
        key.copy_from_slice(&bytes);
        Ok(CustomerKey { key, md5 })
    }

    /// Returns the bytes of the key. The caller must not store, log or cache them.
    pub fn expose(&self) -> &[u8; CustomerKey::BYTES] {
        &self.key
    }

    /// Returns the MD5 of the key in base64, which answers repeat. It is not a secret.
    pub fn md5_base64(&self) -> String {
        STANDARD.encode(self.md5)
    }
}

impl fmt::Debug for CustomerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CustomerKey(…)")
    }
}

/// Compares the keys in a time that does not depend on them.
impl PartialEq for CustomerKey {
    fn eq(&self, other: &CustomerKey) -> bool {
        self.key[..].ct_eq(&other.key[..]).into()
    }
}

impl Eq for CustomerKey {}

/// Checks that a request has a key of the client if and only if the object that it reads needs one.
/// `needs_key` is true for an object of SSE-C.
///
/// Fails with `InvalidRequest`. The caller compares the key itself: see
/// [`wrong_customer_key`](super::wrong_customer_key).
pub fn check_read(needs_key: bool, key: Option<&CustomerKey>) -> Result<(), Fault> {
    let why = match (needs_key, key) {
        (true, Some(_)) | (false, None) => return Ok(()),
        (true, None) => return Err(missing_customer_key()),
        (false, Some(_)) => "The encryption parameters are not applicable to this object.",
    };
    Err(Fault::because(Code::InvalidRequest, why))
}
