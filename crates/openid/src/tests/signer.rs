//! Keys that sign tokens, independent of the library that verifies them.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair as RsaKeyPair, KeySize};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair,
    KeyPair, RSA_PKCS1_SHA256, RSA_PKCS1_SHA384, RSA_PKCS1_SHA512, RSA_PSS_SHA256, RSA_PSS_SHA384,
    RSA_PSS_SHA512, RsaEncoding, RsaPublicKeyComponents,
};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

/// A key pair.
pub(crate) enum Signer {
    Rsa(RsaKeyPair),
    P256(EcdsaKeyPair),
    P384(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

impl Signer {
    pub(crate) fn rsa() -> Signer {
        Signer::Rsa(RsaKeyPair::generate(KeySize::Rsa2048).unwrap())
    }

    pub(crate) fn p256() -> Signer {
        Signer::P256(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap())
    }

    pub(crate) fn p384() -> Signer {
        Signer::P384(EcdsaKeyPair::generate(&ECDSA_P384_SHA384_FIXED_SIGNING).unwrap())
    }

    pub(crate) fn ed25519() -> Signer {
        Signer::Ed25519(Ed25519KeyPair::generate().unwrap())
    }

    /// Returns the public key as an issuer publishes it.
    pub(crate) fn jwk(&self, id: &str) -> Value {
        let curve = |name: &str, pair: &EcdsaKeyPair| {
            let point = &pair.public_key().as_ref()[1..];
            let (x, y) = point.split_at(point.len() / 2);
            json!({"kty": "EC", "crv": name, "kid": id, "x": base64(x), "y": base64(y)})
        };
        match self {
            Signer::Rsa(pair) => {
                let public = RsaPublicKeyComponents::<Vec<u8>>::from(pair.public_key());
                let (n, e) = (base64(public.n), base64(public.e));
                json!({"kty": "RSA", "kid": id, "use": "sig", "n": n, "e": e})
            }
            Signer::P256(pair) => curve("P-256", pair),
            Signer::P384(pair) => curve("P-384", pair),
            Signer::Ed25519(pair) => {
                let x = base64(pair.public_key());
                json!({"kty": "OKP", "crv": "Ed25519", "kid": id, "x": x})
            }
        }
    }

    /// Returns a token whose header names `algorithm` and the key `id`.
    pub(crate) fn token(&self, algorithm: &str, id: Option<&str>, claims: &Value) -> String {
        let mut header = json!({"alg": algorithm, "typ": "JWT"});
        if let Some(id) = id {
            header["kid"] = id.into();
        }
        let message = message(&header, claims);
        format!("{message}.{}", base64(self.sign(algorithm, message.as_bytes())))
    }

    fn sign(&self, algorithm: &str, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Signer::Rsa(pair) => {
                let encoding: &'static dyn RsaEncoding = match algorithm {
                    "RS384" => &RSA_PKCS1_SHA384,
                    "RS512" => &RSA_PKCS1_SHA512,
                    "PS256" => &RSA_PSS_SHA256,
                    "PS384" => &RSA_PSS_SHA384,
                    "PS512" => &RSA_PSS_SHA512,
                    _ => &RSA_PKCS1_SHA256,
                };
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(encoding, &random, message, &mut signature).unwrap();
                signature
            }
            Signer::P256(pair) | Signer::P384(pair) => {
                pair.sign(&random, message).unwrap().as_ref().to_vec()
            }
            Signer::Ed25519(pair) => pair.sign(message).as_ref().to_vec(),
        }
    }
}

/// Returns the signed text of a token.
pub(crate) fn message(header: &Value, claims: &Value) -> String {
    format!("{}.{}", base64(header.to_string()), base64(claims.to_string()))
}

pub(crate) fn base64(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}
