//! How a running mount is told to go on with another program.
//!
//! The keeper listens on a socket that is named by the number which the kernel has given the mount.
//! It listens to root and to its own user, and says what it does to them alone.

use std::io::{self, BufRead, BufReader, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::sockopt::socket_peercred;

use super::program::this_program;
use crate::problem::Problem;

/// How long whoever connects may take to say what it wants.
const ASK_PATIENCE: Duration = Duration::from_secs(5);

/// How long a replacement may take.
const REPLACE_PATIENCE: Duration = Duration::from_mins(4);

/// How long the keeper of a mount that is gone may take to end, and how often it is looked for.
const PREDECESSOR_PATIENCE: Duration = Duration::from_mins(5);
const PREDECESSOR_PAUSE: Duration = Duration::from_millis(500);

const DONE: &str = "done";

/// The longest request.
const REQUEST_BYTES_MAX: u64 = 8 << 10;

#[derive(Debug)]
pub(super) struct ControlSocket;

/// Somebody who wants another program to serve a mount, and waits for it.
#[derive(Debug)]
pub(super) struct ReplaceRequest {
    program: PathBuf,
    socket: UnixStream,
}

fn address(folder: &Path) -> io::Result<SocketAddr> {
    let device = fuse::device_of(folder)?.ok_or_else(|| io::Error::other("nothing is mounted"))?;
    SocketAddr::from_abstract_name(format!("ashlar-mount-{device}"))
}

/// Whether the one at the other end is root or this user.
fn is_trusted(socket: &UnixStream) -> bool {
    socket_peercred(socket)
        .is_ok_and(|peer| peer.uid.is_root() || peer.uid == rustix::process::geteuid())
}

/// Listens at an address. The kernel gives the number of a mount that is gone to the next one, maybe
/// before the keeper of the one that is gone has ended.
fn listener(address: &SocketAddr) -> io::Result<UnixListener> {
    let until = Instant::now() + PREDECESSOR_PATIENCE;
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
    /// Listens for those who want something of the mount on a folder.
    /// `hear` answers whether it hears any more.
    pub(super) fn listen(
        folder: &Path,
        hear: impl Fn(ReplaceRequest) -> bool + Send + 'static,
    ) -> io::Result<ControlSocket> {
        let address = address(folder)?;
        let listen = move || {
            let listener = match listener(&address) {
                Ok(listener) => listener,
                Err(error) => return tracing::warn!(%error, "nobody can replace this program"),
            };
            for socket in listener.incoming().filter_map(Result::ok) {
                // Whoever says nothing sensible is left alone.
                if is_trusted(&socket)
                    && let Ok(request) = ReplaceRequest::read(socket)
                    && !hear(request)
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
    fn read(socket: UnixStream) -> io::Result<ReplaceRequest> {
        socket.set_read_timeout(Some(ASK_PATIENCE))?;
        let mut program = Vec::new();
        let mut words = BufReader::new(io::Read::take(&socket, REQUEST_BYTES_MAX));
        words.read_until(0, &mut program)?;
        if program.pop() != Some(0) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let program = PathBuf::from(std::ffi::OsString::from_vec(program));
        Ok(ReplaceRequest { program, socket })
    }

    pub(super) fn program(&self) -> &Path {
        &self.program
    }

    /// The program serves.
    pub(super) fn done(self) {
        self.answer(DONE);
    }

    /// It does not.
    pub(super) fn refuse(self, why: &str) {
        self.answer(why);
    }

    /// Whoever asked may have gone.
    fn answer(mut self, what: &str) {
        let _gone = self.socket.write_all(what.as_bytes());
    }
}

/// Has the mount on a folder served by this program from now on. Returns when it is.
pub(crate) fn replace(folder: &Path) -> Result<(), Problem> {
    let doing = || format!("replace the program that serves {}", folder.display());
    let failed = |error: io::Error| {
        Problem::new(doing(), error).remedy("name the folder of a mount that ashlar mount made")
    };
    let program = this_program()?;
    let mut socket = UnixStream::connect_addr(&address(folder).map_err(failed)?).map_err(failed)?;
    if !is_trusted(&socket) {
        return Err(Problem::new(doing(), "another user made the mount").remedy("do it as root"));
    }
    let ask = [program.as_os_str().as_bytes(), &[0]].concat();
    socket.write_all(&ask).map_err(failed)?;
    socket.set_read_timeout(Some(REPLACE_PATIENCE)).map_err(failed)?;
    let mut answer = String::new();
    io::Read::read_to_string(&mut socket, &mut answer).map_err(failed)?;
    match answer.as_str() {
        DONE => Ok(()),
        "" => Err(Problem::new(doing(), "the mount has ended")),
        why => Err(Problem::new(doing(), why)),
    }
}
