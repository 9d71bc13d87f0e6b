//! Versions of records, for changes that two operators could make at the same time.
//!
//! For example, two consoles show the user `anna`. The first one changes her policies, and the
//! change of the second one fails with [`AdminError::Changed`](crate::AdminError::Changed), because
//! it gives the etag of the earlier record.

use std::fmt;
use std::str::FromStr;

use namespace::{Expected, RecordHash};
use sha2::{Digest, Sha256};

/// The version of a record: a hash of its bytes. Equal records have equal etags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Etag(RecordHash);

impl Etag {
    /// Returns the etag of a record with these bytes.
    pub(crate) fn of(bytes: &[u8]) -> Etag {
        Etag(hash(bytes))
    }

    /// Returns the condition of a plan that the record has this etag.
    pub(crate) fn expected(etag: Option<&Etag>) -> Option<Expected> {
        etag.map(Etag::version)
    }

    /// Returns the version of the record that has this etag.
    pub(crate) fn version(&self) -> Expected {
        Expected { seen: self.0, hash }
    }
}

/// Returns the first half of the SHA-256 sum of these bytes.
fn hash(bytes: &[u8]) -> RecordHash {
    let mut half = RecordHash::default();
    let sum = Sha256::digest(bytes);
    half.iter_mut().zip(sum).for_each(|(to, from)| *to = from);
    half
}

/// 32 hexadecimal digits in lower case, without quotes.
impl fmt::Display for Etag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The error for a text that is not an etag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an etag has 32 hexadecimal digits in lower case")]
pub struct EtagError;

impl FromStr for Etag {
    type Err = EtagError;

    /// Parses the form that `Display` writes, and no other.
    fn from_str(text: &str) -> Result<Etag, EtagError> {
        let digit = |byte: u8| char::from(byte).to_digit(16).filter(|_| !byte.is_ascii_uppercase());
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        let bytes = pairs.iter().map(|pair| {
            let [high, low] = pair.map(digit);
            u8::try_from(high? << 4 | low?).ok()
        });
        let bytes = bytes.collect::<Option<Vec<u8>>>().filter(|_| rest.is_empty());
        bytes.and_then(|bytes| bytes.try_into().ok()).map(Etag).ok_or(EtagError)
    }
}
