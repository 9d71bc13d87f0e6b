//! Connections that do not leave the machine.
//!
//! With a congestion control that paces, such as BBR, each connection has a timer that sends a few
//! packets at a time, at the measured rate. Between two processes of one machine that only costs: the
//! timers take processor time, wake the reader more often, and hold data back. So pacing is turned off
//! for such connections. All others keep the system's setting.

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
