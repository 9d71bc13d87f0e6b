//! The control socket of a keeper, for `ashlar mount --replace`.
//!
//! The keeper listens on an abstract Unix socket, `ashlar-mount-DEVICE`, where DEVICE is the device
//! number of the mount. It accepts requests of root and of its own user. A request is the path of a
//! program and a NUL byte. The response is `done` when a worker of that program serves, or else the
//! reason of a failure.

use std::io::{self, BufRead, BufReader, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use problem::Problem;
use rustix::net::sockopt::socket_peercred;

use super::program::this_program;

/// The limit of time for a client to send its request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// The limit of time of a replacement.
pub(super) const REPLACE_TIMEOUT: Duration = Duration::from_mins(4);

/// The time to wait for the keeper of an earlier mount with the same device number, and the
/// interval between attempts.
pub(super) const PREDECESSOR_TIMEOUT: Duration = Duration::from_mins(5);
const PREDECESSOR_PAUSE: Duration = Duration::from_millis(500);

/// The response when a worker of the requested program serves the mount.
const DONE: &str = "done";

/// The limit of bytes of a request.
const REQUEST_BYTES_MAX: u64 = 8 << 10;

/// The control socket of a keeper, with a thread that accepts requests.
#[derive(Debug)]
pub(super) struct ControlSocket;

/// A request of `ashlar mount --replace` to serve the mount with another program. Its sender waits
/// for the response.
#[derive(Debug)]
pub(super) struct ReplaceRequest {
    program: PathBuf,
    socket: UnixStream,
}

/// Returns the address of the control socket of the mount on a directory.
fn address(folder: &Path) -> io::Result<SocketAddr> {
    let device = fuse::device_of(folder)?.ok_or_else(|| io::Error::other("nothing is mounted"))?;
    SocketAddr::from_abstract_name(format!("ashlar-mount-{device}"))
}

/// Returns true if the peer is root or this user.
fn is_trusted(socket: &UnixStream) -> bool {
    socket_peercred(socket)
        .is_ok_and(|peer| peer.uid.is_root() || peer.uid == rustix::process::geteuid())
}

/// Listens at an address. The kernel reuses device numbers, so the keeper of an earlier mount may
/// still have the address until it ends.
fn listener(address: &SocketAddr) -> io::Result<UnixListener> {
    let until = Instant::now() + PREDECESSOR_TIMEOUT;
    loop {
        match UnixListener::bind_addr(address) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && Instant::now() < until => {
                thread::sleep(PREDECESSOR_PAUSE);
            }
            listener => return listener,
        }
    }
}

impl ControlSocket {
    /// Listens for requests about the mount on a directory. `handle` gets each request, and returns
    /// false to stop.
    pub(super) fn listen(
        folder: &Path,
        handle: impl Fn(ReplaceRequest) -> bool + Send + 'static,
    ) -> io::Result<ControlSocket> {
        let address = address(folder)?;
        let listen = move || {
            let listener = match listener(&address) {
                Ok(listener) => listener,
                Err(error) => {
                    return tracing::warn!(%error, "cannot listen for requests of `ashlar mount --replace`");
                }
            };
            for socket in listener.incoming().filter_map(Result::ok) {
                // Invalid requests are ignored.
                if is_trusted(&socket)
                    && let Ok(request) = ReplaceRequest::read(socket)
                    && !handle(request)
                {
                    return;
                }
            }
        };
        thread::Builder::new().name("control".to_owned()).spawn(listen)?;
        Ok(ControlSocket)
    }
}

impl ReplaceRequest {
    /// Reads a request from a connection.
    pub(super) fn read(socket: UnixStream) -> io::Result<ReplaceRequest> {
        socket.set_read_timeout(Some(REQUEST_TIMEOUT))?;
        let mut program = Vec::new();
        let mut input = BufReader::new(io::Read::take(&socket, REQUEST_BYTES_MAX));
        input.read_until(0, &mut program)?;
        if program.pop() != Some(0) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let program = PathBuf::from(std::ffi::OsString::from_vec(program));
        Ok(ReplaceRequest { program, socket })
    }

    /// Returns the path of the program with which the mount is to be served.
    pub(super) fn program(&self) -> &Path {
        &self.program
    }

    /// Responds that a worker of the requested program serves the mount.
    pub(super) fn done(self) {
        self.respond(DONE);
    }

    /// Responds with the reason for which the mount is not served by the requested program.
    pub(super) fn refuse(self, why: &str) {
        self.respond(why);
    }

    /// Sends a response. The sender of the request may have ended.
    fn respond(mut self, response: &str) {
        let _gone = self.socket.write_all(response.as_bytes());
    }
}

/// Asks the keeper of the mount on a directory to serve it with this program. Returns when a worker
/// of this program serves.
pub fn replace(folder: &Path) -> Result<(), Problem> {
    let doing = || format!("replace the program that serves {}", folder.display());
    let failed = |error: io::Error| {
        Problem::new(doing(), error).remedy("give the directory of a mount that ashlar mount made")
    };
    let program = this_program()?;
    let mut socket = UnixStream::connect_addr(&address(folder).map_err(failed)?).map_err(failed)?;
    // Any user can listen at a free abstract address, and could pretend to be the keeper.
    if !is_trusted(&socket) {
        return Err(Problem::new(doing(), "another user made the mount").remedy("run this as root"));
    }
    let request = [program.as_os_str().as_bytes(), &[0]].concat();
    socket.write_all(&request).map_err(failed)?;
    socket.set_read_timeout(Some(REPLACE_TIMEOUT)).map_err(failed)?;
    let mut response = String::new();
    io::Read::read_to_string(&mut socket, &mut response).map_err(failed)?;
    match response.as_str() {
        DONE => Ok(()),
        "" => Err(Problem::new(doing(), "the mount has ended")),
        why => Err(Problem::new(doing(), why)),
    }
}
