//! Error numbers of replies.
//!
//! Invariant: a value is between 1 and 511. The kernel refuses replies with other numbers, and the
//! request would wait for ever. The file system decides which error an operation returns. For
//! example, `Errno::new(512)` is `None`.

use std::fmt;
use std::io;

/// A Linux error number from 1 to 511, as a reply to the kernel carries it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(u16);

/// Defines the constants together with their names.
macro_rules! errnos {
    ($($name:ident = $number:literal, $text:literal;)*) => {
        impl Errno {
            $(#[doc = $text] pub const $name: Errno = Errno($number);)*

            /// Returns the name of the constant, as in errno(3); `None` for other numbers.
            pub fn name(self) -> Option<&'static str> {
                match self {
                    $(Errno::$name => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }
    };
}

errnos! {
    EPERM = 1, "Operation not permitted.";
    ENOENT = 2, "No such file or directory.";
    EINTR = 4, "Interrupted by a signal.";
    EIO = 5, "Input or output failed.";
    ENXIO = 6, "No such address: for `SEEK_DATA` and `SEEK_HOLE`, beyond the end.";
    E2BIG = 7, "Argument list too long.";
    EBADF = 9, "The file is not open that way.";
    EAGAIN = 11, "Try again; another owner holds a conflicting lock.";
    ENOMEM = 12, "Out of memory.";
    EACCES = 13, "Permission denied.";
    EBUSY = 16, "In use.";
    EEXIST = 17, "The name exists.";
    EXDEV = 18, "On another file system.";
    ENODEV = 19, "No such device.";
    ENOTDIR = 20, "Not a directory.";
    EISDIR = 21, "Is a directory.";
    EINVAL = 22, "Invalid argument.";
    ENOTTY = 25, "No such ioctl.";
    EFBIG = 27, "The file would be too large.";
    ENOSPC = 28, "No space left.";
    ESPIPE = 29, "Cannot seek.";
    EROFS = 30, "The file system is read-only.";
    EMLINK = 31, "Too many links.";
    ERANGE = 34, "The result does not fit into the caller's buffer.";
    EDEADLK = 35, "Waiting for the lock would be a deadlock.";
    ENAMETOOLONG = 36, "The name is too long.";
    ENOLCK = 37, "No locks available.";
    ENOSYS = 38, "Not implemented; the kernel does not ask again.";
    ENOTEMPTY = 39, "The directory is not empty.";
    ELOOP = 40, "Too many symbolic links.";
    ENODATA = 61, "No such extended attribute.";
    EPROTO = 71, "The other side speaks another protocol.";
    EOVERFLOW = 75, "The value does not fit.";
    EOPNOTSUPP = 95, "Not supported here.";
    ENOTCONN = 107, "The server of the mount has ended.";
    ESTALE = 116, "The node does not exist any more; the kernel looks up its name again.";
    EDQUOT = 122, "The quota is used up.";
}

impl Errno {
    /// The largest number that a reply can carry.
    pub const MAX: u16 = 511;

    /// Returns the error with this number; `None` if a reply cannot carry it.
    pub fn new(number: i32) -> Option<Errno> {
        let number = u16::try_from(number).ok()?;
        (1..=Errno::MAX).contains(&number).then_some(Errno(number))
    }

    /// Returns the number, which is positive.
    pub fn number(self) -> i32 {
        i32::from(self.0)
    }
}

impl From<rustix::io::Errno> for Errno {
    fn from(error: rustix::io::Errno) -> Errno {
        Errno::new(error.raw_os_error()).unwrap_or(Errno::EIO)
    }
}

impl From<Errno> for io::Error {
    fn from(error: Errno) -> io::Error {
        io::Error::from_raw_os_error(error.number())
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "Errno({})", self.0),
        }
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        io::Error::from(*self).fmt(f)
    }
}

impl std::error::Error for Errno {}

#[cfg(test)]
mod tests;
