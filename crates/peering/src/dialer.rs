//! The task that keeps a link to one peer.
//!
//! Both sessions of a pair have such a task, because the machine of one of them may be unreachable
//! from the other one. The session with the larger nonce dials first. The other one dials if there
//! is no link for [`SECOND_DIAL_PAUSE`]. For example, a gateway in a container cannot be reached,
//! but it reaches the mount on the machine.
//!
//! If both dial at the same time, each of the two connections may end the other one. The next
//! attempts of the two sessions are at different times.
//!
//! The task tries the addresses of the peer in their order, and again after a back-off that grows
//! from [`BACKOFF_MIN`] to [`BACKOFF_MAX`]. For example, a peer that restarts is reached about 50
//! ms after it listens. A new list with other addresses begins the next attempt at once.

use std::sync::Arc;
use std::time::Duration;

use record::Nonce;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tracing::debug;

use crate::address::{self, Address};
use crate::exchange::{self, ExchangeError};
use crate::handshake::FrameKeys;
use crate::peer::Peer;
use crate::registry::{Failure, Registry};
use crate::stream;
use crate::transport::Connection;

/// The longest time for one address: connecting and the handshake together.
pub const ADDRESS_DEADLINE: Duration = Duration::from_secs(2);

/// The first wait between two attempts.
pub const BACKOFF_MIN: Duration = Duration::from_millis(50);

/// The longest wait between two attempts, and the age at which a link counts as a success: an
/// attempt after its end begins with the first wait.
pub const BACKOFF_MAX: Duration = Duration::from_secs(5);

/// The time without a link after which the session with the smaller nonce dials.
pub(crate) const SECOND_DIAL_PAUSE: Duration = Duration::from_secs(1);

/// The order in which the two sessions of a pair dial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Precedence {
    /// This session has the larger nonce, and dials at once.
    First,
    /// This session has the smaller nonce, and dials if the other one has not reached it.
    Second,
}

/// Keeps a link to a peer until the sender of its addresses is dropped or the session closes.
pub(crate) async fn keep_linked(
    registry: Arc<Registry>,
    precedence: Precedence,
    mut records: watch::Receiver<Peer>,
) {
    let mut backoff = Backoff::new();
    loop {
        let record = records.borrow_and_update().clone();
        let peer = record.nonce;
        let attempt = async {
            until_due(&registry, peer, precedence).await;
            connect(&registry, &record).await
        };
        let connected = tokio::select! {
            biased;
            () = registry.stop.cancelled() => return,
            changed = records.changed() => match changed {
                Ok(()) => { backoff = Backoff::new(); continue }
                Err(_) => return,
            },
            connected = attempt => connected,
        };
        match connected {
            Ok((connection, keys)) => {
                let began = Instant::now();
                match registry.admit(peer, connection.is_local) {
                    Ok(admission) => admission.run(connection, keys).await,
                    Err(_too_many) => registry.note_failure(peer, too_many_links()),
                }
                if began.elapsed() >= BACKOFF_MAX {
                    backoff = Backoff::new();
                }
            }
            Err(failure) => registry.note_failure(peer, failure),
        }
        tokio::select! {
            biased;
            () = registry.stop.cancelled() => return,
            changed = records.changed() => match changed {
                Ok(()) => backoff = Backoff::new(),
                Err(_) => return,
            },
            () = sleep(backoff.next()) => {}
        }
        // The addresses of the next attempt are read at its start.
    }
}

/// Waits until there is no link to the peer, and it is this session's turn to dial.
async fn until_due(registry: &Registry, peer: Nonce, precedence: Precedence) {
    loop {
        // The peer has dialled, or a link of an earlier task is still in use.
        while let Some(link) = registry.link_of(peer) {
            link.cancelled().await;
        }
        match precedence {
            Precedence::First => return,
            Precedence::Second => sleep(SECOND_DIAL_PAUSE).await,
        }
        if registry.link_of(peer).is_none() {
            return;
        }
    }
}

fn too_many_links() -> Failure {
    Failure::Failed("this session has too many links".to_owned())
}

/// Connects to the first address that leads to the peer.
async fn connect(registry: &Registry, peer: &Peer) -> Result<(Connection, FrameKeys), Failure> {
    let mut failures: Vec<String> = Vec::new();
    for address in address::in_order(&peer.reach) {
        let attempt = timeout(ADDRESS_DEADLINE, connect_to(registry, peer, &address)).await;
        match attempt.unwrap_or(Err(ExchangeError::Deadline)) {
            Ok(connected) => return Ok(connected),
            Err(error) => {
                debug!(peer = ?peer.nonce, %address, %error, "cannot connect to a peer");
                failures.push(format!("{address}: {error}"));
            }
        }
    }
    Err(if failures.is_empty() {
        Failure::Unreachable
    } else {
        Failure::Failed(failures.join("; "))
    })
}

async fn connect_to(
    registry: &Registry,
    peer: &Peer,
    address: &Address,
) -> Result<(Connection, FrameKeys), ExchangeError> {
    match address {
        Address::Unix { owner, path } => {
            let mut connection = stream::connect_unix(path, *owner)?;
            let prover = registry.provers.at_socket_file(&peer.socket_secret);
            let keys = exchange::dial(&mut connection, &prover, peer.nonce).await?;
            Ok((connection, keys))
        }
        Address::Tcp(host_port) => {
            // Without a key there is no reason to connect.
            let prover = registry.provers.over_network()?;
            let mut connection = stream::of_tcp(TcpStream::connect(host_port).await?);
            let keys = exchange::dial(&mut connection, prover, peer.nonce).await?;
            Ok((connection, keys))
        }
    }
}

/// The waits between attempts: each is random between half of a limit and the limit, which doubles.
#[derive(Debug)]
struct Backoff {
    limit: Duration,
}

impl Backoff {
    fn new() -> Backoff {
        Backoff { limit: BACKOFF_MIN }
    }

    fn next(&mut self) -> Duration {
        let half = self.limit / 2;
        self.limit = (2 * self.limit).min(BACKOFF_MAX);
        // Peers that lost one gateway at the same time do not come back at the same time.
        let jitter = exchange::random::<1>().map_or(0.0, |[byte]| f64::from(byte) / 256.0);
        half + half.mul_f64(jitter)
    }
}

#[cfg(test)]
mod tests;
