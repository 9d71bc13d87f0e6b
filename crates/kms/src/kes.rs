//! Keys of a KES server.
//!
//! KES identifies this process by its client certificate. Its policy must allow `/v1/key/generate/`
//! and `/v1/key/decrypt/` of the names in use. For example, `/v1/key/generate/ashlar-*`.

use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use serde_json::{Value, json};

use crate::error::{KmsError, KmsErrorKind, KmsSettingsError};
use crate::http_client::{Answer, HttpClient, KmsEndpoint, shown};
use crate::key_name::KmsKeyName;
use crate::service::{DataKey, Kms, PlainKey, WRAPPED_BYTES_MAX};

/// A KES server.
#[derive(Debug)]
pub struct KesKms {
    http: HttpClient,
}

impl KesKms {
    /// Returns a client of a KES server. It does not connect yet.
    ///
    /// # Errors
    /// Fails if the URL or a certificate cannot be used, or if there is no client certificate.
    pub fn new(endpoint: &KmsEndpoint) -> Result<KesKms, KmsSettingsError> {
        if endpoint.identity.is_none() {
            let text = "KES needs a client certificate and its key";
            return Err(KmsSettingsError::new(text));
        }
        Ok(KesKms { http: HttpClient::new(endpoint)? })
    }

    async fn post(&self, verb: &str, name: &KmsKeyName, body: &Value) -> Result<Value, KmsError> {
        let path = format!("/v1/key/{verb}/{name}");
        let answer = self.http.send(&path, &[], Some(body)).await;
        let answer = answer.map_err(|cause| unavailable(name, cause))?;
        if answer.status == StatusCode::OK {
            let strange = || unavailable(name, "the answer of KES is not JSON");
            return answer.json().ok_or_else(strange);
        }
        Err(failure(name, &answer))
    }
}

#[async_trait]
impl Kms for KesKms {
    async fn generate(&self, name: &KmsKeyName) -> Result<DataKey, KmsError> {
        let answer = self.post("generate", name, &json!({})).await?;
        let wrapped = answer["ciphertext"].as_str().and_then(|text| STANDARD.decode(text).ok());
        let wrapped = wrapped.filter(|wrapped| (1..=WRAPPED_BYTES_MAX).contains(&wrapped.len()));
        let wrapped = wrapped
            .ok_or_else(|| unavailable(name, "KES returns no ciphertext of a usable size"))?;
        Ok(DataKey { plain: plain(name, &answer)?, wrapped })
    }

    async fn decrypt(&self, name: &KmsKeyName, wrapped: &[u8]) -> Result<PlainKey, KmsError> {
        let body = json!({ "ciphertext": STANDARD.encode(wrapped) });
        plain(name, &self.post("decrypt", name, &body).await?)
    }

    async fn describe(&self, name: &KmsKeyName) -> Result<(), KmsError> {
        // The policy of this process need not allow `/v1/key/describe/`.
        self.generate(name).await.map(|_| ())
    }

    async fn keep_login(&self) {
        std::future::pending::<()>().await;
    }
}

/// Returns the key in an answer.
fn plain(name: &KmsKeyName, answer: &Value) -> Result<PlainKey, KmsError> {
    let strange = || unavailable(name, "KES does not return a key of 32 bytes");
    PlainKey::from_base64(answer["plaintext"].as_str().unwrap_or_default()).ok_or_else(strange)
}

/// Returns the error in an answer.
fn failure(name: &KmsKeyName, answer: &Answer) -> KmsError {
    let message = answer.json().and_then(|json| json["message"].as_str().map(shown));
    let message = message.unwrap_or_default();
    let (kind, cause) = match answer.status {
        StatusCode::NOT_FOUND => (KmsErrorKind::NotFound, "KES has no such key"),
        StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED => {
            (KmsErrorKind::Refused, "KES refuses: its policy must allow generate and decrypt")
        }
        StatusCode::BAD_REQUEST => (
            KmsErrorKind::Invalid,
            "KES does not open the wrapped key: another key of this name made it, or it was changed",
        ),
        status => return unavailable(name, format!("KES answers {status}: {message}")),
    };
    KmsError::new(name, kind, format!("{cause} ({message})"))
}

fn unavailable(name: &KmsKeyName, cause: impl Into<String>) -> KmsError {
    KmsError::new(name, KmsErrorKind::Unavailable, cause)
}

#[cfg(test)]
mod tests;
