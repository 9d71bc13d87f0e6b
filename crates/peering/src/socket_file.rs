//! Unix sockets as files of a folder: their names, their creation, and their removal.
//!
//! Invariant: a file with the name of a peer socket accepts connections from the moment when it
//! exists until its process removes it or ends. So a refused connection proves that its process
//! has ended, and another process may remove the file. For this reason a socket is bound under
//! another name, and gets its name when it listens.
//!
//! The address of a socket has at most 107 bytes. A socket in a folder with a longer path is bound
//! and reached through `/proc/self/fd`, for example as
//! `/proc/self/fd/9/peer-0123456789abcdef.sock`.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixListener as StdListener;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use tracing::debug;

const PREFIX: &str = "peer-";
const SUFFIX: &str = ".sock";

/// The suffix of a socket that does not listen yet.
const UNFINISHED: &str = ".new";

/// The number of random bytes in a name.
pub(crate) const NAME_BYTES: usize = 8;

/// The longest path in the address of a Unix socket, in bytes: `sun_path` without its NUL.
const ADDRESS_BYTES_MAX: usize = 107;

/// Connections that the kernel queues for the listener.
pub(crate) const BACKLOG: i32 = 64;

/// The most files of a folder among which a new session looks for those of ended processes.
pub const STALE_SCANNED_MAX: usize = 1_024;

/// The most files of ended processes that one new session removes.
pub const STALE_REMOVED_MAX: usize = 64;

/// Returns true for the name of a peer socket: `peer-`, 16 hexadecimal digits, `.sock`.
pub(crate) fn is_socket_name(name: &str) -> bool {
    let digits = name.strip_prefix(PREFIX).and_then(|rest| rest.strip_suffix(SUFFIX));
    digits.is_some_and(|it| it.len() == 2 * NAME_BYTES && it.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// A socket file of this process, which is removed when this value is dropped.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
}

impl SocketFile {
    /// Makes a socket file in `folder` that only this user may open, and listens on it. `name` is
    /// random.
    pub(crate) fn listen(
        folder: &Path,
        name: [u8; NAME_BYTES],
    ) -> io::Result<(SocketFile, StdListener)> {
        let folder = fs::canonicalize(folder)?;
        let digits = format!("{:016x}", u64::from_be_bytes(name));
        let path = folder.join(format!("{PREFIX}{digits}{SUFFIX}"));
        let unfinished = folder.join(format!("{PREFIX}{digits}{UNFINISHED}"));
        let socket = stream_socket()?;
        // The kernel gives the file the mode of the socket, so the file never has a wider one.
        rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
        let address = ShortAddress::of(&unfinished)?;
        rustix::net::bind(&socket, &address.address)?;
        let listen = || -> io::Result<()> {
            rustix::net::listen(&socket, BACKLOG)?;
            fs::rename(&unfinished, &path)
        };
        if let Err(error) = listen() {
            // The first error is the one to report.
            let _ = fs::remove_file(&unfinished);
            return Err(error);
        }
        Ok((SocketFile { path }, StdListener::from(socket)))
    }

    /// Returns the absolute path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.path) {
            debug!(path = %self.path.display(), %error, "cannot remove a peer socket");
        }
    }
}

fn stream_socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?)
}

/// The address of a socket whose path may be long.
struct ShortAddress {
    address: SocketAddrUnix,
    /// The folder to which the address leads while this is open.
    _folder: Option<File>,
}

impl ShortAddress {
    fn of(path: &Path) -> io::Result<ShortAddress> {
        if path.as_os_str().len() <= ADDRESS_BYTES_MAX {
            return Ok(ShortAddress { address: SocketAddrUnix::new(path)?, _folder: None });
        }
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::InvalidFilename.into());
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = File::from(rustix::fs::open(folder, flags, Mode::empty())?);
        let through = Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(name);
        Ok(ShortAddress { address: SocketAddrUnix::new(through)?, _folder: Some(folder) })
    }
}

/// Connects to a socket file without waiting. Fails with `WouldBlock` if the listener's queue is
/// full, and with `ConnectionRefused` if its process has ended.
pub(crate) fn connect(path: &Path) -> io::Result<std::os::unix::net::UnixStream> {
    let socket = stream_socket()?;
    rustix::net::connect(&socket, &ShortAddress::of(path)?.address)?;
    Ok(socket.into())
}

/// Removes socket files of ended processes from a folder, within limits. Files that it cannot
/// examine or remove stay.
pub(crate) fn remove_stale(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let names = entries.take(STALE_SCANNED_MAX).flatten();
    let sockets = names.filter(|entry| entry.file_name().to_str().is_some_and(is_socket_name));
    let is_stale = |path: &PathBuf| {
        connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
    };
    for path in sockets.map(|entry| entry.path()).filter(is_stale).take(STALE_REMOVED_MAX) {
        let removed = fs::remove_file(&path);
        debug!(path = %path.display(), ?removed, "the process of a peer socket has ended");
    }
}

#[cfg(test)]
mod tests;
