//! Secrets of access keys: drawn here, sealed by whoever holds the master key.

use std::fmt::Debug;

use crate::AdminError;

/// Characters of a secret that is drawn.
pub const SECRET_CHARS: usize = 40;

/// Bytes of the nonce that a secret is sealed with.
pub const NONCE_BYTES: usize = 12;

/// What random bytes come from: the operating system, or what a test says.
pub trait Random: Debug + Send + Sync + 'static {
    /// Fills all of it with bytes that nobody can guess, or says in a sentence why not.
    fn fill(&self, bytes: &mut [u8]) -> Result<(), String>;
}

/// Whoever holds the master key, under which secrets rest.
pub trait SecretSealer: Sync {
    /// The secret as it may stand in the record of this access key. The nonce is random, and is
    /// never used again.
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
        // Bytes beyond the alphabet's end are drawn again, so that all characters are as likely.
        let drawn = bytes.iter().filter_map(|&byte| ALPHABET.get(usize::from(byte & 63)));
        text.extend(drawn.take(chars - text.len()).map(|&byte| char::from(byte)));
    }
    Ok(text)
}
