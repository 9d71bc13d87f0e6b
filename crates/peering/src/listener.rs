//! The listeners of a session, which its peers dial.
//!
//! A stranger costs little: a connection without a proof has fixed buffers and a deadline, and at
//! most [`HANDSHAKES_MAX`] of them exist at one listener. For example, if a stranger opens a
//! thousand connections and sends nothing, the listener closes all but 64 at once, and these after
//! two seconds. The socket file has a listener of its own, so strangers on the network do not keep
//! sessions of the same machine out.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};
use tracing::debug;

use crate::exchange::{self, ExchangeError};
use crate::handshake::{FrameKeys, HandshakeError};
use crate::registry::{Admission, Failure, Registry};
use crate::stream;
use crate::transport::Connection;

/// The most handshakes that one listener has under way.
pub const HANDSHAKES_MAX: usize = 64;

/// The longest time for the listener's side of a handshake.
pub const HANDSHAKE_DEADLINE: Duration = Duration::from_secs(2);

/// The wait after a failure to accept, for example while the process has too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A listener of either kind.
#[derive(Debug)]
pub(crate) enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Listener {
    async fn accept(&self) -> io::Result<Accepted> {
        Ok(match self {
            Listener::Unix(listener) => Accepted::Unix(listener.accept().await?.0),
            Listener::Tcp(listener) => Accepted::Tcp(listener.accept().await?.0),
        })
    }
}

/// A connection without any memory of this process.
enum Accepted {
    Unix(tokio::net::UnixStream),
    Tcp(tokio::net::TcpStream),
}

impl Accepted {
    fn into_connection(self) -> Connection {
        match self {
            Accepted::Unix(stream) => stream::of_unix(stream),
            Accepted::Tcp(stream) => stream::of_tcp(stream),
        }
    }
}

/// Accepts connections until the session closes.
pub(crate) async fn listen(registry: Arc<Registry>, listener: Listener) {
    let handshakes = Arc::new(Semaphore::new(HANDSHAKES_MAX));
    loop {
        let accepted = tokio::select! {
            biased;
            () = registry.stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok(stream) => match Arc::clone(&handshakes).try_acquire_owned() {
                Ok(permit) => {
                    let served = serve(Arc::clone(&registry), stream.into_connection(), permit);
                    registry.tasks.spawn("peer that dialled", served);
                }
                Err(_full) => debug!("too many handshakes: a connection is closed"),
            },
            Err(error) => {
                debug!(%error, "cannot accept a peer's connection");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Serves one connection: the handshake, and the link until it ends.
async fn serve(
    registry: Arc<Registry>,
    mut connection: Connection,
    handshake: OwnedSemaphorePermit,
) {
    let accepted = tokio::select! {
        biased;
        () = registry.stop.cancelled() => return,
        accepted = timeout(HANDSHAKE_DEADLINE, accept(&registry, &mut connection)) => accepted,
    };
    drop(handshake);
    match accepted.unwrap_or(Err(ExchangeError::Deadline)) {
        Ok((admission, keys)) => admission.run(connection, keys).await,
        Err(error) => debug!(%error, "a connection is no peer link"),
    }
}

async fn accept(
    registry: &Arc<Registry>,
    connection: &mut Connection,
) -> Result<(Admission, FrameKeys), ExchangeError> {
    let prover = registry.provers.listener_side(connection.is_local)?;
    let dialer = exchange::answer(connection, prover).await?;
    let claimed = dialer.claimed();
    let verified = exchange::proved(connection, dialer).await;
    if let Err(ExchangeError::Refused(error)) = &verified {
        // The claim is not proved, so this only shows in a list of states.
        registry.note_failure(claimed, Failure::Failed(format!("its connection: {error}")));
    }
    let (peer, mut keys) = verified?;
    let Ok(mut admission) = registry.admit(peer, connection.is_local) else {
        exchange::send_verdict(connection, &mut keys, false).await?;
        return Err(HandshakeError::Full.into());
    };
    // The dialer's link opens only after the verdict, so both sides end the earlier link first.
    admission.after_previous().await;
    exchange::send_verdict(connection, &mut keys, true).await?;
    Ok((admission, keys))
}
