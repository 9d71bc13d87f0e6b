//! The encryption of bodies within limits of memory and time.
//!
//! A derivation of a key takes 64 MiB and about a tenth of a second. For example, a hundred clients
//! that list users at once take [`AT_ONCE_MAX`] times 64 MiB, and wait in turn. A sender has one
//! turn at a time, so a sender with many requests keeps no other one waiting.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use admin::Random;
use adminapi::ApiError;
use http::StatusCode;
use identity::Secret;
use tokio::sync::{AcquireError, Semaphore};

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
    /// The turn of each sender that has a request now.
    senders: Mutex<HashMap<String, Weak<Semaphore>>>,
    random: Arc<dyn Random>,
}

impl Sealing {
    pub(crate) fn new(random: Arc<dyn Random>) -> Sealing {
        let turns = Arc::new(Semaphore::new(AT_ONCE_MAX));
        Sealing { turns, senders: Mutex::default(), random }
    }

    /// Returns the content of a body that `sender`, the owner of `secret`, has encrypted. Fails
    /// with `XMinioAdminConfigBadJSON` for any other body, as MinIO does.
    pub(crate) async fn open(
        &self,
        sender: &str,
        secret: &Secret,
        message: bytes::Bytes,
    ) -> Result<Vec<u8>, ApiError> {
        let secret = secret.clone();
        let opened = self.in_turn(sender, move || sealed::open(secret.expose(), &message)).await?;
        opened.map_err(|NotAuthentic| error::bad_json("The body was not made with your secret."))
    }

    /// Returns a body for `sender` that only the owner of `secret` can read.
    pub(crate) async fn seal(
        &self,
        sender: &str,
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
        let sealed = self.in_turn(sender, seal).await?;
        sealed.map_err(|NotAuthentic| s3::Code::InternalError.into())
    }

    /// Returns the turn of a sender, which its requests at the same time share.
    fn turn_of(&self, sender: &str) -> Arc<Semaphore> {
        let mut senders = self.senders.lock().unwrap_or_else(PoisonError::into_inner);
        senders.retain(|_, turn| turn.strong_count() > 0);
        if let Some(turn) = senders.get(sender).and_then(Weak::upgrade) {
            return turn;
        }
        let turn = Arc::new(Semaphore::new(1));
        senders.insert(sender.to_owned(), Arc::downgrade(&turn));
        turn
    }

    /// Runs a derivation on a thread for blocking work, after others of the sender and of all
    /// senders have ended.
    async fn in_turn<T: Send + 'static>(
        &self,
        sender: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        // First that of the sender: a request that waits for it takes no turn of the others.
        let turns = async {
            let own = self.turn_of(sender).acquire_owned().await?;
            Ok::<_, AcquireError>((own, Arc::clone(&self.turns).acquire_owned().await?))
        };
        let Ok(Ok(turns)) = tokio::time::timeout(WAIT, turns).await else {
            let why = "Too many requests with encrypted bodies run. Try again.";
            return Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "SlowDown", why));
        };
        // The turns end with the work, also if the client disconnects meanwhile.
        let worked = tokio::task::spawn_blocking(move || {
            let result = work();
            drop(turns);
            result
        });
        worked.await.map_err(|_panicked| s3::Code::InternalError.into())
    }
}

#[cfg(test)]
mod tests;
