use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::*;

/// A message that madmin-go decrypts: see `tests/vectors/README.md`.
#[derive(Debug, Deserialize)]
struct Vector {
    algorithm: u8,
    secret: String,
    plain_bytes: i64,
    header: String,
    message: Option<String>,
    sha256: String,
}

fn vectors() -> Vec<Vector> {
    serde_json::from_str(include_str!("../../tests/vectors/messages.json")).unwrap()
}

/// The content of a vector.
fn content(vector: &Vector) -> Vec<u8> {
    match usize::try_from(vector.plain_bytes) {
        Ok(bytes) => (0..bytes).map(|at| u8::try_from(at % 251).unwrap()).collect(),
        Err(_) => br#"{"secretKey":"of-anna-1","status":"enabled"}"#.to_vec(),
    }
}

#[test]
fn messages_are_those_of_madmin_go() {
    let vectors = vectors();
    assert_eq!(vectors.len(), 19);
    for vector in vectors {
        let header = hex::decode(&vector.header).unwrap();
        let salt = header[..SALT_BYTES].try_into().unwrap();
        let nonce = header[SALT_BYTES + 1..].try_into().unwrap();
        let cipher = Cipher::of(vector.algorithm).unwrap();
        let plain = content(&vector);
        let message = seal(cipher, &vector.secret, &plain, &salt, nonce).unwrap();
        assert_eq!(hex::encode(Sha256::digest(&message)), vector.sha256, "{vector:?}");
        assert_eq!(open(&vector.secret, &message).unwrap(), plain);
        if let Some(known) = &vector.message {
            assert_eq!(hex::encode(&message), *known);
        }
    }
}

#[test]
fn changed_cut_and_foreign_messages_do_not_open() {
    let plain: Vec<u8> = (0..40_000_u32).map(|at| at.to_le_bytes()[0]).collect();
    let message = seal(Cipher::Pbkdf2Aes, "secret", &plain, &[1; 32], [2; 8]).unwrap();
    assert_eq!(open("secret", &message).unwrap(), plain);
    assert_eq!(open("Secret", &message), Err(NotAuthentic));
    for at in [0, 31, 32, 33, 40, 41, 5_000, 20_000, message.len() - 1] {
        let mut changed = message.clone();
        changed[at] ^= 4;
        assert_eq!(open("secret", &changed), Err(NotAuthentic), "byte {at}");
    }
    let chunk = CHUNK_BYTES + TAG_BYTES;
    // The last one ends at a chunk, so only the mark of the last chunk tells that it was cut.
    for bytes in [0, 8, 40, 41, 42, 56, 57, HEADER_BYTES + chunk, HEADER_BYTES + 2 * chunk] {
        assert_eq!(open("secret", &message[..bytes]), Err(NotAuthentic), "{bytes} bytes");
    }
    let mut swapped = message[..HEADER_BYTES].to_vec();
    swapped.extend_from_slice(&message[HEADER_BYTES + chunk..HEADER_BYTES + 2 * chunk]);
    swapped.extend_from_slice(&message[HEADER_BYTES..HEADER_BYTES + chunk]);
    swapped.extend_from_slice(&message[HEADER_BYTES + 2 * chunk..]);
    assert_eq!(open("secret", &swapped), Err(NotAuthentic));
}

#[test]
fn any_bytes_are_refused_without_a_panic() {
    for bytes in 0..200 {
        let message: Vec<u8> = (0..bytes).map(|at: u8| if at == 32 { 2 } else { at }).collect();
        assert_eq!(open("secret", &message), Err(NotAuthentic));
    }
}
