//! A session for a few changes of a command, while gateways may run.
//!
//! It runs operations as each session does, with idempotency slots that prove the outcome of a plan
//! whose answer was lost. It has no heartbeat, reads no change feed and remembers no records, so
//! its changes must take less time than [`crate::SESSION_SILENCE`].
//!
//! For example, the connection breaks after the COMMIT of `ashlar user add`. The slot of the plan
//! shows that it was committed, and the command prints the secret.

use std::collections::HashMap;
use std::sync::Arc;

use namespace::Planner;
use record::{Nonce, SessionFacts};
use runtime::Clock;
use store::MetaStore;
use tokio::time::{Instant, timeout};
use tracing::debug;

use crate::error::VolumeError;
use crate::options::SessionOptions;
use crate::peers;
use crate::session::Session;
use crate::state::{self, Resumed, Started};
use crate::times::{CLOSE_PATIENCE, JOIN_PATIENCE, META_READ_DEADLINE, SHORT_CONTENTION_DEADLINE};

/// A session for a few changes of a command.
///
/// Dropping it without [`ShortSession::end`] has the effect of a killed process: another session
/// ends it after [`crate::SESSION_SILENCE`] and cleans up.
#[derive(Debug)]
pub struct ShortSession {
    session: Session,
}

impl ShortSession {
    /// Begins a session in the volume of `store`. `place` is the host and process, for operators.
    ///
    /// # Errors
    /// [`VolumeError::Refused`] if there is no volume, [`VolumeError::Unavailable`] if this release
    /// does not know the volume's format, and if the store cannot be read or written.
    pub async fn begin(
        store: Arc<dyn MetaStore>,
        place: &str,
        clock: Arc<dyn Clock>,
    ) -> Result<ShortSession, VolumeError> {
        let volume = state::existing_volume(&*store).await?;
        let (nonce, beat, epoch) =
            state::begin(&*store, (place, &SessionFacts::default()), clock.now()).await?;
        let started = Started { volume, nonce, beat, epoch };
        let (slots, holds) = (Vec::new(), HashMap::new());
        let resumed = Resumed { started, slots, holds, reuses_session: false };
        let options = SessionOptions { record_cache_bytes: 0, clock, ..SessionOptions::default() };
        let (session, _heartbeat) = Session::assemble(&options, store, resumed);
        Ok(ShortSession { session })
    }

    /// Waits until no other session answers from its memory: [`JOIN_PATIENCE`], if there are other
    /// sessions. Necessary before a change of records that sessions remember.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn join(&self) -> Result<(), VolumeError> {
        Ok(peers::join(&*self.session.store, self.nonce(), JOIN_PATIENCE).await?)
    }

    /// Returns the random name of the session.
    pub fn nonce(&self) -> Nonce {
        self.session.nonce()
    }

    /// Runs an operation until it has a result, as [`Session::run`] does. After
    /// [`SHORT_CONTENTION_DEADLINE`] the result is [`namespace::FsError::Contended`].
    ///
    /// # Errors
    /// [`VolumeError::Fenced`] if another process has ended the session, [`VolumeError::Unknown`]
    /// if the outcome was not known in time, and the errors of the operation and of the store.
    pub async fn run<O>(&self, operation: &O) -> Result<O::Output, VolumeError>
    where
        O: Planner + Sync,
        O::Output: Send,
    {
        self.session.run_until(operation, Instant::now() + SHORT_CONTENTION_DEADLINE).await
    }

    /// Ends the session: deletes its records and its idempotency slots. After that no plan of the
    /// session can commit. If the store does not answer, another session ends this one after
    /// [`crate::SESSION_SILENCE`].
    pub async fn end(self) {
        let session = &self.session;
        session.closing.cancel();
        // A plan with an unknown outcome is not resolved any further, because its caller was
        // answered.
        session.gone.cancel();
        let running = session.tasks.close_and_wait(CLOSE_PATIENCE).await;
        if running > 0 || session.is_fenced() {
            debug!(running, "a short session is left to another session");
            return;
        }
        let ending = state::end_at_once(&*session.store, &session.state, session.committer.slots());
        match timeout(META_READ_DEADLINE, ending).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => debug!(%error, "cannot end a short session: another session ends it"),
            Err(_late) => debug!("cannot end a short session in time: another session ends it"),
        }
    }
}
