//! Streams of both kinds as connections, with their options.
//!
//! For example, a TCP connection sends small frames at once (`TCP_NODELAY`), and fails if the other
//! machine has not acknowledged data for [`SILENCE_MAX`].

use std::io;
use std::path::Path;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpStream, UnixStream};
use tracing::debug;

use crate::exchange::ExchangeError;
use crate::socket_file;
use crate::transport::Connection;

/// The time without an acknowledgement after which a TCP connection fails. A machine without power
/// sends no end of a connection.
pub const SILENCE_MAX: Duration = Duration::from_secs(10);

/// The idle time after which a TCP connection asks for an acknowledgement, and the time between two
/// questions.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(5);

/// Connects to the socket file of a peer. Does not wait: a full queue of the listener is an error.
/// Fails with `Owner` if the process that listens there is not one of the user `owner`.
pub(crate) fn connect_unix(path: &Path, owner: u32) -> Result<Connection, ExchangeError> {
    let stream = UnixStream::from_std(socket_file::connect(path)?)?;
    // The kernel took note of the user when the process began to listen.
    let found = stream.peer_cred()?.uid();
    if found != owner {
        return Err(ExchangeError::Owner { found, owner });
    }
    Ok(of_unix(stream))
}

pub(crate) fn of_unix(stream: UnixStream) -> Connection {
    let (reader, writer) = stream.into_split();
    Connection { reader: Box::new(reader), writer: Box::new(writer), is_local: true }
}

pub(crate) fn of_tcp(stream: TcpStream) -> Connection {
    if let Err(error) = set_options(&stream) {
        // The connection works without them.
        debug!(%error, "cannot set the options of a peer connection");
    }
    runtime::disable_pacing(&stream);
    let (reader, writer) = stream.into_split();
    Connection { reader: Box::new(reader), writer: Box::new(writer), is_local: false }
}

fn set_options(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE_AFTER).with_interval(KEEPALIVE_AFTER);
    socket.set_tcp_keepalive(&keepalive)?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(SILENCE_MAX))?;
    Ok(())
}
