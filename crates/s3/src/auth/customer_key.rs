//! Keys of clients (SSE-C) in texts that are signed. Faults about signatures show such texts, but
//! never these keys. For example, a presigned URL of version 2 has the key as a parameter.

/// Returns true if a text to be signed has the header with a key of the client (SSE-C), for the
/// object or for the source of a copy.
pub(super) fn has_customer_key(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text).to_lowercase();
    let name = "server-side-encryption-customer-key";
    // The MD5 of the key is no secret.
    text.match_indices(name).any(|(at, _)| !text[at + name.len()..].starts_with("-md5"))
}
