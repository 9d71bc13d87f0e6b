//! INIT: what the kernel and this server agree on, once for the life of a mount.
//!
//! The table of flags is here and nowhere else. What is asked for suits a file system whose content
//! others change, too: no cache that writes back, no pages that outlive a change of size, no time
//! limit that ends the mount. A kernel gets only what it offered.

use std::io::IoSlice;

use thiserror::Error;
use zerocopy::{FromBytes, IntoBytes};

use crate::abi::{self, InitOut, init};
use crate::channel::Channel;
use crate::errno::Errno;

/// The size of a page in the kernel's requests.
const PAGE_BYTES: u32 = 4096;
/// The largest WRITE; the kernel makes none larger without being told to.
pub const WRITE_BYTES_MAX: u32 = 1 << 20;
/// Requests without a program behind them that may be under way: read-ahead and RELEASE.
pub const BACKGROUND_MIN: u16 = 64;
/// The most of them.
pub const BACKGROUND_MAX: u16 = 256;

/// What a session asks for and how much it may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelOptions {
    /// Threads that read requests, at least 2.
    pub readers: usize,
    /// Requests of more than 4 KiB that may be in this process at a time; each holds a buffer a
    /// little larger than `write_bytes_max`. At least as many as there are readers and one more.
    pub large_requests_max: usize,
    /// The largest WRITE: a multiple of 4096, at most [`WRITE_BYTES_MAX`].
    pub write_bytes_max: u32,
    /// Requests without a program behind them that may be under way, from [`BACKGROUND_MIN`] to
    /// [`BACKGROUND_MAX`].
    pub background_max: u16,
    /// Access control lists are kept, and folded into the mode, by the file system.
    pub posix_acl: bool,
    /// The target of a symbolic link never changes.
    pub cache_symlinks: bool,
}

impl Default for KernelOptions {
    fn default() -> KernelOptions {
        KernelOptions {
            readers: 2,
            large_requests_max: 64,
            write_bytes_max: WRITE_BYTES_MAX,
            background_max: 128,
            posix_acl: true,
            cache_symlinks: true,
        }
    }
}

impl KernelOptions {
    /// The options with every value moved to where it is allowed.
    pub(crate) fn within_limits(self) -> KernelOptions {
        let readers = self.readers.max(2);
        let pages = (self.write_bytes_max.min(WRITE_BYTES_MAX) / PAGE_BYTES).max(1);
        KernelOptions {
            readers,
            large_requests_max: self.large_requests_max.max(readers + 1),
            write_bytes_max: pages * PAGE_BYTES,
            background_max: self.background_max.clamp(BACKGROUND_MIN, BACKGROUND_MAX),
            ..self
        }
    }

    /// Every flag that is wanted, if the kernel has it.
    fn wanted(self) -> u64 {
        let always = init::ASYNC_READ
            | init::POSIX_LOCKS
            | init::ATOMIC_O_TRUNC
            | init::EXPORT_SUPPORT
            | init::BIG_WRITES
            | init::DONT_MASK
            | init::FLOCK_LOCKS
            | init::AUTO_INVAL_DATA
            | init::DO_READDIRPLUS
            | init::READDIRPLUS_AUTO
            | init::ASYNC_DIO
            | init::PARALLEL_DIROPS
            | init::MAX_PAGES
            | init::HANDLE_KILLPRIV_V2
            | init::INIT_EXT
            | init::HAS_EXPIRE_ONLY
            | init::DIRECT_IO_ALLOW_MMAP
            | init::HAS_RESEND;
        let acl = if self.posix_acl { init::POSIX_ACL | init::SETXATTR_EXT } else { 0 };
        always | acl | if self.cache_symlinks { init::CACHE_SYMLINKS } else { 0 }
    }
}

/// What was agreed on. Whoever takes the mount over needs it, since INIT is not said again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Negotiated {
    /// The minor version that both sides speak.
    pub minor: u32,
    /// The largest WRITE.
    pub write_bytes_max: u32,
    /// How far the kernel reads ahead, unless told otherwise after the mount.
    pub read_ahead_bytes: u32,
    /// Requests without a program behind them that may be under way.
    pub background_max: u16,
    /// Flags that both sides have, as numbers of the protocol.
    pub flags: u64,
}

/// The format of a `Negotiated`'s bytes.
const FORMAT: u8 = 1;
/// Their number.
const NEGOTIATED_BYTES: usize = 1 + 4 + 4 + 4 + 2 + 8;

/// Bytes that are no `Negotiated`, or one of a later release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("these bytes do not say what was negotiated for a mount")]
pub struct NotNegotiated;

impl Negotiated {
    /// The bytes to hand over.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(NEGOTIATED_BYTES);
        bytes.push(FORMAT);
        bytes.extend_from_slice(&self.minor.to_le_bytes());
        bytes.extend_from_slice(&self.write_bytes_max.to_le_bytes());
        bytes.extend_from_slice(&self.read_ahead_bytes.to_le_bytes());
        bytes.extend_from_slice(&self.background_max.to_le_bytes());
        bytes.extend_from_slice(&self.flags.to_le_bytes());
        bytes
    }

    /// What was handed over.
    pub fn from_bytes(bytes: &[u8]) -> Result<Negotiated, NotNegotiated> {
        let bytes: &[u8; NEGOTIATED_BYTES] = bytes.try_into().map_err(|_| NotNegotiated)?;
        let [FORMAT, rest @ ..] = bytes else { return Err(NotNegotiated) };
        let (minor, rest) = u32::read_from_prefix(rest).map_err(|_| NotNegotiated)?;
        let (write, rest) = u32::read_from_prefix(rest).map_err(|_| NotNegotiated)?;
        let (read_ahead, rest) = u32::read_from_prefix(rest).map_err(|_| NotNegotiated)?;
        let (background, rest) = u16::read_from_prefix(rest).map_err(|_| NotNegotiated)?;
        let (flags, _) = u64::read_from_prefix(rest).map_err(|_| NotNegotiated)?;
        let negotiated = Negotiated {
            minor: u32::from_le(minor),
            write_bytes_max: u32::from_le(write),
            read_ahead_bytes: u32::from_le(read_ahead),
            background_max: u16::from_le(background),
            flags: u64::from_le(flags),
        };
        let plausible = (PAGE_BYTES..=WRITE_BYTES_MAX).contains(&negotiated.write_bytes_max);
        if plausible { Ok(negotiated) } else { Err(NotNegotiated) }
    }
}

/// What INIT demands next.
#[derive(Debug)]
pub(crate) enum Answer {
    /// This, and then the session begins.
    Agree(Negotiated, Box<InitOut>),
    /// This, and then the kernel says INIT once more.
    SpeakOlder(Box<InitOut>),
    /// EPROTO: nothing in common.
    Refuse {
        /// The kernel's version.
        major: u32,
        /// The kernel's version.
        minor: u32,
    },
}

/// Decides what INIT is answered. The kernel's older INIT is shorter; what it lacks is 0.
pub(crate) fn decide(body: &[u8], options: KernelOptions) -> Answer {
    let mut padded = [0; size_of::<abi::InitIn>()];
    let known = body.len().min(padded.len());
    padded[..known].copy_from_slice(&body[..known]);
    let kernel = abi::InitIn::read_from_bytes(&padded).expect("the array has the struct's size");
    if kernel.major > abi::MAJOR {
        let ours = InitOut { major: abi::MAJOR, minor: abi::MINOR, ..InitOut::default() };
        return Answer::SpeakOlder(Box::new(ours));
    }
    if kernel.major < abi::MAJOR || kernel.minor < abi::MINOR_MIN {
        return Answer::Refuse { major: kernel.major, minor: kernel.minor };
    }
    let options = options.within_limits();
    let extended = u64::from(kernel.flags) & init::INIT_EXT != 0;
    let high = if extended { u64::from(kernel.flags2) << 32 } else { 0 };
    let flags = options.wanted() & (u64::from(kernel.flags) | high);
    let pages = options.write_bytes_max / PAGE_BYTES;
    let background = options.background_max;
    let low_half = |number: u64| u32::try_from(number & u64::from(u32::MAX)).unwrap_or(0);
    let answer = InitOut {
        major: abi::MAJOR,
        minor: abi::MINOR.min(kernel.minor),
        max_readahead: kernel.max_readahead,
        flags: low_half(flags),
        max_background: background,
        congestion_threshold: background / 4 * 3,
        max_write: options.write_bytes_max,
        time_gran: 1,
        max_pages: u16::try_from(pages).unwrap_or(u16::MAX),
        flags2: low_half(flags >> 32),
        ..InitOut::default()
    };
    let negotiated = Negotiated {
        minor: answer.minor,
        write_bytes_max: answer.max_write,
        read_ahead_bytes: answer.max_readahead,
        background_max: background,
        flags,
    };
    Answer::Agree(negotiated, Box::new(answer))
}

/// Writes the answer to an INIT.
pub(crate) fn send(channel: &Channel, unique: u64, answer: &Answer) -> Result<(), Errno> {
    match answer {
        Answer::Agree(_, body) | Answer::SpeakOlder(body) => {
            channel.send(unique, 0, &[IoSlice::new(body.as_bytes())])
        }
        Answer::Refuse { .. } => channel.send(unique, -Errno::EPROTO.number(), &[]),
    }
}

#[cfg(test)]
mod tests;
