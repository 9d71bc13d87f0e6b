//! Messages that are encrypted with a secret, in the form of MinIO's clients.
//!
//! ```text
//! salt (32 bytes) | algorithm (1) | nonce (8) | chunk | chunk | … | last chunk
//! ```
//!
//! The key follows from the secret and the salt. A chunk has 16 KiB of content and a tag; the last
//! one may have less. The nonce of a chunk is that of the message and the number of the chunk. Each
//! chunk authenticates whether it is the last one, so a message that was cut does not open. For
//! example, a message of 40,000 bytes has three chunks.
//!
//! The module is pure. The derivation of a key with Argon2 takes 64 MiB, so callers limit how many
//! run at once: see `sealing`.

use argon2::{Algorithm, Argon2, Params, Version};
use aws_lc_rs::aead::{self, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::pbkdf2;
use std::num::NonZeroU32;

/// The bytes of the salt.
pub(crate) const SALT_BYTES: usize = 32;

/// The bytes of the nonce of a message.
pub(crate) const NONCE_BYTES: usize = 8;

/// The bytes before the first chunk.
const HEADER_BYTES: usize = SALT_BYTES + 1 + NONCE_BYTES;

/// The bytes of content of a chunk.
const CHUNK_BYTES: usize = 1 << 14;

/// The bytes of the tag of a chunk.
const TAG_BYTES: usize = 16;

/// The bytes of a derived key.
const KEY_BYTES: usize = 32;

/// The cost of Argon2id: memory in KiB, passes and lanes.
const ARGON2_KIB: u32 = 64 * 1024;
const ARGON2_PASSES: u32 = 1;
const ARGON2_LANES: u32 = 4;

/// The passes of PBKDF2, which clients with FIPS cryptography use.
const PBKDF2_PASSES: NonZeroU32 = NonZeroU32::new(8192).expect("it is not zero");

/// The derivation of the key, and the cipher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cipher {
    /// Argon2id and AES-256-GCM.
    Argon2Aes,
    /// Argon2id and ChaCha20-Poly1305, which clients without AES instructions use.
    Argon2ChaCha,
    /// PBKDF2 and AES-256-GCM.
    Pbkdf2Aes,
}

impl Cipher {
    /// Returns the byte that names the cipher in a message.
    fn id(self) -> u8 {
        match self {
            Cipher::Argon2Aes => 0,
            Cipher::Argon2ChaCha => 1,
            Cipher::Pbkdf2Aes => 2,
        }
    }

    fn of(id: u8) -> Option<Cipher> {
        [Cipher::Argon2Aes, Cipher::Argon2ChaCha, Cipher::Pbkdf2Aes]
            .into_iter()
            .find(|cipher| cipher.id() == id)
    }

    fn key(self, secret: &str, salt: &[u8]) -> Result<LessSafeKey, NotAuthentic> {
        let mut key = [0; KEY_BYTES];
        match self {
            Cipher::Argon2Aes | Cipher::Argon2ChaCha => {
                let params = Params::new(ARGON2_KIB, ARGON2_PASSES, ARGON2_LANES, Some(KEY_BYTES));
                let params = params.map_err(|_| NotAuthentic)?;
                let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
                let derived = argon2.hash_password_into(secret.as_bytes(), salt, &mut key);
                derived.map_err(|_| NotAuthentic)?;
            }
            Cipher::Pbkdf2Aes => {
                let algorithm = pbkdf2::PBKDF2_HMAC_SHA256;
                pbkdf2::derive(algorithm, PBKDF2_PASSES, salt, secret.as_bytes(), &mut key);
            }
        }
        let algorithm = match self {
            Cipher::Argon2Aes | Cipher::Pbkdf2Aes => &aead::AES_256_GCM,
            Cipher::Argon2ChaCha => &aead::CHACHA20_POLY1305,
        };
        UnboundKey::new(algorithm, &key).map(LessSafeKey::new).map_err(|_| NotAuthentic)
    }
}

/// The error of a message that was not made with this secret, or that was changed or cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotAuthentic;

/// The chunks of one message, encrypted or decrypted in order.
struct Chunks<'a> {
    key: LessSafeKey,
    nonce: &'a [u8],
    /// The tag of an empty text, which binds all chunks to the message.
    bound: [u8; TAG_BYTES],
    number: u32,
}

impl Chunks<'_> {
    fn new<'a>(
        cipher: Cipher,
        secret: &str,
        salt: &[u8],
        nonce: &'a [u8],
    ) -> Result<Chunks<'a>, NotAuthentic> {
        let mut chunks =
            Chunks { key: cipher.key(secret, salt)?, nonce, bound: [0; TAG_BYTES], number: 0 };
        let nonce = chunks.next()?;
        let tag = chunks.key.seal_in_place_separate_tag(nonce, Aad::empty(), &mut []);
        let tag = tag.map_err(|_| NotAuthentic)?;
        chunks.bound = tag.as_ref().try_into().map_err(|_| NotAuthentic)?;
        Ok(chunks)
    }

    /// Returns the nonce of the next chunk. Fails after 2^32 chunks, more than a limit of bodies
    /// allows.
    fn next(&mut self) -> Result<Nonce, NotAuthentic> {
        let mut bytes = [0; aead::NONCE_LEN];
        bytes[..NONCE_BYTES].copy_from_slice(self.nonce);
        bytes[NONCE_BYTES..].copy_from_slice(&self.number.to_le_bytes());
        self.number = self.number.checked_add(1).ok_or(NotAuthentic)?;
        Ok(Nonce::assume_unique_for_key(bytes))
    }

    /// Returns the associated text of a chunk.
    fn aad(&self, is_last: bool) -> Aad<[u8; 1 + TAG_BYTES]> {
        let mut bytes = [0; 1 + TAG_BYTES];
        bytes[0] = if is_last { 0x80 } else { 0 };
        bytes[1..].copy_from_slice(&self.bound);
        Aad::from(bytes)
    }
}

/// Returns a message with this content. A salt and a nonce must be random, and never used twice.
pub(crate) fn seal(
    cipher: Cipher,
    secret: &str,
    content: &[u8],
    salt: &[u8; SALT_BYTES],
    nonce: [u8; NONCE_BYTES],
) -> Result<Vec<u8>, NotAuthentic> {
    let mut chunks = Chunks::new(cipher, secret, salt, &nonce)?;
    let mut message = Vec::with_capacity(HEADER_BYTES + content.len() + TAG_BYTES);
    message.extend_from_slice(salt);
    message.push(cipher.id());
    message.extend_from_slice(&nonce);
    let mut rest = content;
    loop {
        let (chunk, after) = rest.split_at(rest.len().min(CHUNK_BYTES));
        let (nonce, aad) = (chunks.next()?, chunks.aad(after.is_empty()));
        let mut chunk = chunk.to_vec();
        chunks.key.seal_in_place_append_tag(nonce, aad, &mut chunk).map_err(|_| NotAuthentic)?;
        message.extend_from_slice(&chunk);
        if after.is_empty() {
            return Ok(message);
        }
        rest = after;
    }
}

/// Returns the content of a message.
pub(crate) fn open(secret: &str, message: &[u8]) -> Result<Vec<u8>, NotAuthentic> {
    let (header, mut rest) = message.split_at_checked(HEADER_BYTES).ok_or(NotAuthentic)?;
    let (salt, header) = header.split_at(SALT_BYTES);
    let (id, nonce) = header.split_first().ok_or(NotAuthentic)?;
    let cipher = Cipher::of(*id).ok_or(NotAuthentic)?;
    // Checked before the derivation of the key, which is expensive.
    if rest.len() < TAG_BYTES {
        return Err(NotAuthentic);
    }
    let mut chunks = Chunks::new(cipher, secret, salt, nonce)?;
    let mut content = Vec::with_capacity(rest.len());
    loop {
        let (chunk, after) = rest.split_at(rest.len().min(CHUNK_BYTES + TAG_BYTES));
        let (nonce, aad) = (chunks.next()?, chunks.aad(after.is_empty()));
        let mut chunk = chunk.to_vec();
        let opened = chunks.key.open_in_place(nonce, aad, &mut chunk);
        content.extend_from_slice(opened.map_err(|_| NotAuthentic)?);
        if after.is_empty() {
            return Ok(content);
        }
        rest = after;
    }
}

#[cfg(test)]
mod tests;
