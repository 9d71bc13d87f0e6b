//! Random bytes: entity tags without a relation to the content, identifiers, keys and salts.
//!
//! For example, a file that a program has changed in the middle gets an opaque entity tag.

use crate::VolumeError;

/// Returns the bytes of an opaque entity tag: 128 random bits, so that no two contents have the
/// same one. Fails with `Unavailable` if the machine gives no random numbers.
pub fn opaque_tag() -> Result<[u8; 16], VolumeError> {
    random()
}

/// Returns random bytes, for identifiers that must be unique, and for keys.
pub(super) fn random<const N: usize>() -> Result<[u8; N], VolumeError> {
    let mut bytes = [0; N];
    let none =
        |error| VolumeError::Unavailable(format!("the machine gives no random numbers: {error}"));
    getrandom::fill(&mut bytes).map_err(none)?;
    Ok(bytes)
}
