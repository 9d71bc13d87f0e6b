//! Connections within the machine, without pacing.
//!
//! A congestion control that paces, such as BBR, gives each connection a timer that sends a few
//! packets at a time, at the measured rate. Between two processes of one machine, pacing has only
//! costs: the timers use processor time, wake the reader more often, and delay data. So it is
//! disabled for such connections, for example between a gateway and a MinIO on the same machine.
//! Other connections keep the system's congestion control.

use tokio::net::TcpStream;

/// A congestion control without pacing. Each Linux has it, and allows each user to set it.
#[cfg(target_os = "linux")]
const UNPACED: &[u8] = b"reno";

/// Disables pacing of a connection whose peer is on this machine. A failure is ignored, because
/// only speed depends on it.
pub fn disable_pacing(stream: &TcpStream) {
    #[cfg(target_os = "linux")]
    // An IPv4 address that is mapped to IPv6 counts, too.
    if stream.peer_addr().is_ok_and(|peer| peer.ip().to_canonical().is_loopback())
        && let Err(error) = socket2::SockRef::from(stream).set_tcp_congestion(UNPACED)
    {
        tracing::debug!(%error, "cannot disable pacing of a connection within this machine");
    }
    #[cfg(not(target_os = "linux"))]
    let _ = stream;
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
