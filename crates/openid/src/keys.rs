//! The public keys of an issuer.

use jsonwebtoken::jwk::{
    AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, KeyOperations, PublicKeyUse,
};
use jsonwebtoken::{Algorithm, DecodingKey, crypto};
use serde::Deserialize;
use serde_json::Value;

use crate::error::TokenError;
use crate::token::UnverifiedToken;

/// The maximum number of keys in the key set of an issuer, unusable ones included. A larger set is
/// refused.
pub const KEYS_MAX: usize = 64;

/// The public keys of an issuer that can verify tokens; never empty after `parse`.
#[derive(Debug, Default)]
pub(crate) struct KeySet {
    keys: Vec<Key>,
}

/// A public key of an issuer, its id if the issuer gives one, and the signature algorithms that its
/// type allows.
#[derive(Debug)]
pub(crate) struct Key {
    id: Option<String>,
    algorithms: &'static [Algorithm],
    /// The only signature algorithm that the issuer allows for the key; `None` if the issuer names
    /// none.
    named: Option<KeyAlgorithm>,
    public: DecodingKey,
}

const RSA: &[Algorithm] = &[
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
];

#[derive(Deserialize)]
struct Document {
    keys: Vec<Value>,
}

impl KeySet {
    /// Parses a JSON web key set (RFC 7517). Unusable keys are skipped, because issuers publish
    /// keys of many kinds. The error is a text for the operator.
    pub(crate) fn parse(document: &[u8]) -> Result<KeySet, String> {
        let document: Document = serde_json::from_slice(document)
            .map_err(|error| format!("its keys are not a JSON web key set: {error}"))?;
        // The limit counts unusable keys, too, because each key is parsed.
        if document.keys.len() > KEYS_MAX {
            return Err(format!("it has {} keys, more than {KEYS_MAX}", document.keys.len()));
        }
        let keys: Vec<Key> = document.keys.into_iter().filter_map(Key::read).collect();
        if keys.is_empty() {
            return Err("it has no key that can verify tokens".to_owned());
        }
        Ok(KeySet { keys })
    }

    /// Returns the key that the token names, or `None` if there is no such key for its algorithm.
    /// If the token names no key, returns the only key for its algorithm, or `None` if there are
    /// several.
    pub(crate) fn find(&self, token: &UnverifiedToken<'_>) -> Option<&Key> {
        // Only keys for the token's algorithm count, so a token cannot select another algorithm for
        // a key.
        let mut candidates = self.keys.iter().filter(|key| key.accepts(token.algorithm));
        match &token.key_id {
            Some(id) => candidates.find(|key| key.id.as_ref() == Some(id)),
            None => candidates.next().filter(|_| candidates.next().is_none()),
        }
    }
}

impl Key {
    /// Reads a public key from a JSON web key. Returns `None` if it cannot verify tokens: for
    /// example, a key for encryption.
    fn read(value: Value) -> Option<Key> {
        let jwk = Jwk::deserialize(value).ok()?;
        let algorithms: &[Algorithm] = match &jwk.algorithm {
            AlgorithmParameters::RSA(_) => RSA,
            AlgorithmParameters::EllipticCurve(it) if it.curve == EllipticCurve::P256 => {
                &[Algorithm::ES256]
            }
            AlgorithmParameters::EllipticCurve(it) if it.curve == EllipticCurve::P384 => {
                &[Algorithm::ES384]
            }
            AlgorithmParameters::OctetKeyPair(it) if it.curve == EllipticCurve::Ed25519 => {
                &[Algorithm::EdDSA]
            }
            // A symmetric key in a public document is not secret.
            _ => return None,
        };
        let signs =
            jwk.common.public_key_use.as_ref().is_none_or(|it| *it == PublicKeyUse::Signature);
        let operations = jwk.common.key_operations.as_ref();
        let verifies = operations.is_none_or(|them| them.contains(&KeyOperations::Verify));
        // A key for encryption, or only for signing, must not verify tokens.
        let public = DecodingKey::from_jwk(&jwk).ok().filter(|_| signs && verifies)?;
        Some(Key { id: jwk.common.key_id, algorithms, named: jwk.common.key_algorithm, public })
    }

    /// Returns true if the key may verify signatures of this algorithm.
    fn accepts(&self, algorithm: Algorithm) -> bool {
        // An issuer can restrict a key to one algorithm of its kind.
        let named = self.named.is_none_or(|named| named.to_string() == format!("{algorithm:?}"));
        named && self.algorithms.contains(&algorithm)
    }

    /// Verifies only the signature of a token. Fails with `Signature`.
    pub(crate) fn verify(&self, token: &UnverifiedToken<'_>) -> Result<(), TokenError> {
        let signed = token.signed.as_bytes();
        match crypto::verify(token.signature, signed, &self.public, token.algorithm) {
            Ok(true) => Ok(()),
            Ok(false) | Err(_) => Err(TokenError::Signature),
        }
    }
}
