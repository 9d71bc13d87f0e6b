//! Connections that do not leave the machine.
//!
//! Where the system paces what is sent, as it does with BBR, each connection has a timer that lets a
//! few packets go at a time, at the rate that was measured. On the way to another process of the
//! same machine there is no rate to keep to: the timers take processor time, wake the reader up for
//! less at a time, and hold data back. So such connections are told to do without; all others are
//! left to what the system's owner has chosen.

use tokio::net::TcpStream;

/// A congestion control that does not pace. Linux always has it, and lets every user choose it.
#[cfg(target_os = "linux")]
const UNPACED: &[u8] = b"reno";

/// Lets a connection send without pacing if its other end is on this machine. A system that does not
/// allow it is left as it is: nothing depends on it but time.
pub fn unpace(stream: &TcpStream) {
    #[cfg(target_os = "linux")]
    if stream.peer_addr().is_ok_and(|peer| peer.ip().to_canonical().is_loopback())
        && let Err(error) = socket2::SockRef::from(stream).set_tcp_congestion(UNPACED)
    {
        tracing::debug!(%error, "a connection within this machine stays paced");
    }
    #[cfg(not(target_os = "linux"))]
    let _ = stream;
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
