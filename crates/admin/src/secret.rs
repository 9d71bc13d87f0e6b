//! Secrets of access keys. They are made here, and sealed by the caller, who has the master key.

use std::fmt::Debug;

use crate::AdminError;

/// Characters of a random secret.
pub const SECRET_CHARS: usize = 40;

/// Bytes of the nonce that a secret is sealed with.
pub const NONCE_BYTES: usize = 12;

/// A source of random bytes.
pub trait Random: Debug + Send + Sync + 'static {
    /// Fills a buffer with bytes that nobody can guess, or says in a sentence why not.
    fn fill(&self, bytes: &mut [u8]) -> Result<(), String>;
}

/// Seals secrets under the master key.
pub trait SecretSealer: Sync {
    /// The sealed secret for the record of an access key. The nonce is random and never used again.
    fn seal(&self, access_key: &str, secret: &str, nonce: [u8; NONCE_BYTES]) -> Vec<u8>;
}

/// Random letters and digits, which need no quotes in any shell, file or URL.
///
/// # Errors
/// [`AdminError::Random`].
pub fn random_text(random: &dyn Random, chars: usize) -> Result<String, AdminError> {
    const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut text = String::with_capacity(chars);
    while text.len() < chars {
        let mut bytes = [0; 64];
        random.fill(&mut bytes).map_err(AdminError::Random)?;
        // Bytes beyond the end of the alphabet are skipped, so that all characters are equally
        // likely.
        let drawn = bytes.iter().filter_map(|&byte| ALPHABET.get(usize::from(byte & 63)));
        text.extend(drawn.take(chars - text.len()).map(|&byte| char::from(byte)));
    }
    Ok(text)
}
