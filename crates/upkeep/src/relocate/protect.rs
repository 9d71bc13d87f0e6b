//! The ring key of content that moves to a new block.
//!
//! Moved content is encrypted under the current key of its mode, and never loses encryption. For
//! example, a file without a mode whose old block is encrypted gets a new block under the volume's
//! key, also if the volume has ceased to encrypt everything.

use keyring::Protection;
use record::Encryption;

/// Returns the protection of the new block of a file in this mode. `was_encrypted` is true if some
/// of its content is encrypted under a ring key now. Returns `None` for content that cannot move,
/// because its key depends on its block.
pub(super) fn protection(
    encryption: Option<&Encryption>,
    was_encrypted: bool,
) -> Option<Protection> {
    match encryption {
        Some(Encryption::Customer(_)) => None,
        Some(Encryption::Kms(name)) => Some(Protection::Kms(name.clone())),
        Some(Encryption::S3) => Some(Protection::S3),
        None if was_encrypted => Some(Protection::S3),
        None => Some(Protection::Volume),
    }
}
