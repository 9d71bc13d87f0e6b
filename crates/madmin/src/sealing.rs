//! The encryption of bodies within limits of memory and time.
//!
//! A derivation of a key takes 64 MiB and about a tenth of a second. For example, a hundred clients
//! that list users at once take [`AT_ONCE_MAX`] times 64 MiB, and wait in turn.

use std::sync::Arc;
use std::time::Duration;

use admin::Random;
use adminapi::ApiError;
use http::StatusCode;
use identity::Secret;
use tokio::sync::Semaphore;

use crate::error;
use crate::sealed::{self, Cipher, NONCE_BYTES, NotAuthentic, SALT_BYTES};

/// The limit of derivations that run at once.
const AT_ONCE_MAX: usize = 2;

/// The limit of time to wait for the others.
const WAIT: Duration = Duration::from_secs(10);

/// Encrypts and decrypts bodies.
#[derive(Debug)]
pub(crate) struct Sealing {
    turns: Arc<Semaphore>,
    random: Arc<dyn Random>,
}

impl Sealing {
    pub(crate) fn new(random: Arc<dyn Random>) -> Sealing {
        Sealing { turns: Arc::new(Semaphore::new(AT_ONCE_MAX)), random }
    }

    /// Returns the content of a body that the owner of `secret` has encrypted. Fails with
    /// `XMinioAdminConfigBadJSON` for any other body, as MinIO does.
    pub(crate) async fn open(
        &self,
        secret: &Secret,
        message: bytes::Bytes,
    ) -> Result<Vec<u8>, ApiError> {
        let secret = secret.clone();
        let opened = self.in_turn(move || sealed::open(secret.expose(), &message)).await?;
        opened.map_err(|NotAuthentic| error::bad_json("The body was not made with your secret."))
    }

    /// Returns a body that only the owner of `secret` can read.
    pub(crate) async fn seal(
        &self,
        secret: &Secret,
        content: Vec<u8>,
    ) -> Result<Vec<u8>, ApiError> {
        let (mut salt, mut nonce) = ([0; SALT_BYTES], [0; NONCE_BYTES]);
        let filled = self.random.fill(&mut salt).and_then(|()| self.random.fill(&mut nonce));
        filled.map_err(|error| {
            tracing::error!(%error, "cannot get random bytes");
            ApiError::from(s3::Code::InternalError)
        })?;
        let secret = secret.clone();
        let seal = move || sealed::seal(Cipher::Argon2Aes, secret.expose(), &content, &salt, nonce);
        let sealed = self.in_turn(seal).await?;
        sealed.map_err(|NotAuthentic| s3::Code::InternalError.into())
    }

    /// Runs a derivation on a thread for blocking work, after others have ended.
    async fn in_turn<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        let turn = tokio::time::timeout(WAIT, Arc::clone(&self.turns).acquire_owned()).await;
        let Ok(Ok(turn)) = turn else {
            let why = "Too many requests with encrypted bodies run. Try again.";
            return Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "SlowDown", why));
        };
        // The turn ends with the work, also if the client disconnects meanwhile.
        let worked = tokio::task::spawn_blocking(move || {
            let result = work();
            drop(turn);
            result
        });
        worked.await.map_err(|_panicked| s3::Code::InternalError.into())
    }
}

#[cfg(test)]
mod tests;
