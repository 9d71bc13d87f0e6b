//! The creation of secrets of access keys. The caller seals them, because it has the master key.
//!
//! For example, `random_text(random, SECRET_CHARS)` returns a secret of 40 letters and digits.

use std::fmt::Debug;

use crate::AdminError;

/// The length of a random secret in characters.
pub const SECRET_CHARS: usize = 40;

/// The length of the nonce for sealing a secret, in bytes.
pub const NONCE_BYTES: usize = 12;

/// A source of random bytes.
pub trait Random: Debug + Send + Sync + 'static {
    /// Fills the buffer with cryptographically secure random bytes. The error is a sentence.
    fn fill(&self, bytes: &mut [u8]) -> Result<(), String>;
}

/// Seals secrets, that is, encrypts them under the master key.
pub trait SecretSealer: Sync {
    /// Returns the sealed secret for the record of an access key. It opens only for this access
    /// key. The caller gives a random nonce, which no other seal uses.
    fn seal(&self, access_key: &str, secret: &str, nonce: [u8; NONCE_BYTES]) -> Vec<u8>;

    /// Returns true if these bytes are this secret, sealed for this access key.
    fn is_sealed(&self, access_key: &str, secret: &str, sealed: &[u8]) -> bool;
}

/// Returns random letters and digits, which need no quotes in a shell, a file or a URL.
///
/// # Errors
/// [`AdminError::Random`].
pub fn random_text(random: &dyn Random, chars: usize) -> Result<String, AdminError> {
    const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut text = String::with_capacity(chars);
    while text.len() < chars {
        let mut bytes = [0; 64];
        random.fill(&mut bytes).map_err(AdminError::Random)?;
        // The six low bits have two values beyond the alphabet. They are skipped, so that all
        // characters have the same probability.
        let chosen = bytes.iter().filter_map(|&byte| ALPHABET.get(usize::from(byte & 63)));
        text.extend(chosen.take(chars - text.len()).map(|&byte| char::from(byte)));
    }
    Ok(text)
}
