//! Keys of the Transit engine of Vault, or of `OpenBao`, which has the same interface.
//!
//! The URL is the one of the server and, if the engine is not mounted at `transit`, ends in its
//! mount. The policy of this process must allow `update` of `transit/datakey/plaintext/NAME` and
//! `transit/decrypt/NAME`.

mod login;

use async_trait::async_trait;
use http::StatusCode;
use serde_json::{Value, json};

use crate::error::{KmsError, KmsErrorKind, KmsSettingsError};
use crate::http_client::{Answer, HttpClient, KmsEndpoint};
use crate::key_name::KmsKeyName;
use crate::service::{DataKey, Kms, PlainKey, WRAPPED_BYTES_MAX};
use login::{Logins, TOKEN, Token, errors};

pub use login::VaultLogin;

/// The mount of the engine if the settings name none.
const MOUNT_DEFAULT: &str = "transit";

/// The Transit engine of a Vault server.
#[derive(Debug)]
pub struct VaultKms {
    http: HttpClient,
    /// The mount of the engine: a path without slashes at its ends.
    mount: String,
    logins: Logins,
}

impl VaultKms {
    /// Returns a client of a server. It neither connects nor logs in yet. `mount` is the path at
    /// which the Transit engine is mounted; `None` for `transit`.
    ///
    /// # Errors
    /// Fails if the URL, a certificate or the mount cannot be used.
    pub fn new(
        endpoint: &KmsEndpoint,
        mount: Option<&str>,
        login: VaultLogin,
    ) -> Result<VaultKms, KmsSettingsError> {
        let mount = mount.unwrap_or(MOUNT_DEFAULT).trim_matches('/');
        // Each segment is checked as a name is, so that none leaves the path or starts a query.
        if mount.split('/').any(|segment| segment.parse::<KmsKeyName>().is_err()) {
            return Err(KmsSettingsError::new("the mount of the Transit engine is not a path"));
        }
        let http = HttpClient::new(endpoint)?;
        Ok(VaultKms { http, mount: mount.to_owned(), logins: Logins::new(login) })
    }

    /// Posts to the engine with a token. If the server refuses the token, it may have expired, so
    /// the client logs in again once.
    async fn post(&self, verb: &str, name: &KmsKeyName, body: &Value) -> Result<Value, KmsError> {
        let path = format!("/v1/{}/{verb}/{name}", self.mount);
        let token = self.logins.token(&self.http).await;
        let token = token.map_err(|error| error.of(name))?;
        let mut answer = self.with_token(name, &path, &token, body).await?;
        if answer.status == StatusCode::FORBIDDEN {
            let token = self.logins.replaced(&self.http, &token).await;
            if let Some(token) = token.map_err(|error| error.of(name))? {
                answer = self.with_token(name, &path, &token, body).await?;
            }
        }
        if answer.status == StatusCode::OK {
            let strange = || unavailable(name, "the answer of Vault is not JSON");
            return answer.json().map(|mut json| json["data"].take()).ok_or_else(strange);
        }
        Err(failure(name, &self.mount, &answer))
    }

    async fn with_token(
        &self,
        name: &KmsKeyName,
        path: &str,
        token: &Token,
        body: &Value,
    ) -> Result<Answer, KmsError> {
        let answer = self.http.send(path, &[(TOKEN, token.header())], Some(body)).await;
        answer.map_err(|cause| unavailable(name, cause))
    }
}

#[async_trait]
impl Kms for VaultKms {
    async fn generate(&self, name: &KmsKeyName) -> Result<DataKey, KmsError> {
        let answer = self.post("datakey/plaintext", name, &json!({ "bits": 256 })).await?;
        // The ciphertext is a text, `vault:v1:…`, and is kept as it is.
        let wrapped = answer["ciphertext"].as_str().unwrap_or_default().as_bytes().to_vec();
        if !(1..=WRAPPED_BYTES_MAX).contains(&wrapped.len()) {
            return Err(unavailable(name, "Vault returns no ciphertext of a usable size"));
        }
        Ok(DataKey { plain: plain(name, &answer)?, wrapped })
    }

    async fn decrypt(&self, name: &KmsKeyName, wrapped: &[u8]) -> Result<PlainKey, KmsError> {
        let text = std::str::from_utf8(wrapped).map_err(|_| {
            KmsError::new(name, KmsErrorKind::Invalid, "Vault did not make the wrapped key")
        })?;
        plain(name, &self.post("decrypt", name, &json!({ "ciphertext": text })).await?)
    }

    async fn describe(&self, name: &KmsKeyName) -> Result<(), KmsError> {
        // The policy of this process need not allow to read `transit/keys/NAME`.
        self.generate(name).await.map(|_| ())
    }

    async fn keep_login(&self) {
        self.logins.keep(&self.http).await;
    }
}

/// Returns the key in an answer.
fn plain(name: &KmsKeyName, answer: &Value) -> Result<PlainKey, KmsError> {
    let strange = || unavailable(name, "Vault does not return a key of 32 bytes");
    PlainKey::from_base64(answer["plaintext"].as_str().unwrap_or_default()).ok_or_else(strange)
}

/// Returns the error in an answer. Vault answers 400 for several causes, which only its texts
/// distinguish.
fn failure(name: &KmsKeyName, mount: &str, answer: &Answer) -> KmsError {
    let message = errors(answer);
    let has = |part: &str| message.contains(part);
    let (kind, cause) = match answer.status {
        StatusCode::FORBIDDEN => (KmsErrorKind::Refused, "Vault refuses the token".to_owned()),
        StatusCode::BAD_REQUEST if has("key not found") => {
            (KmsErrorKind::NotFound, "Vault has no such key".to_owned())
        }
        StatusCode::BAD_REQUEST if has("disallowed by policy") || has("not supported") => {
            (KmsErrorKind::Refused, "Vault does not permit this version or use".to_owned())
        }
        StatusCode::BAD_REQUEST => {
            let cause = "Vault does not open the wrapped key: another key of this name made it, or \
                         it was changed";
            (KmsErrorKind::Invalid, cause.to_owned())
        }
        StatusCode::NOT_FOUND => {
            let cause = format!("Vault has no Transit engine at {mount}");
            (KmsErrorKind::Unavailable, cause)
        }
        status => (KmsErrorKind::Unavailable, format!("Vault answers {status}")),
    };
    KmsError::new(name, kind, format!("{cause} ({message})"))
}

fn unavailable(name: &KmsKeyName, cause: impl Into<String>) -> KmsError {
    KmsError::new(name, KmsErrorKind::Unavailable, cause)
}

#[cfg(test)]
mod tests;
