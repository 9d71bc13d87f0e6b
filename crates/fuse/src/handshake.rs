//! INIT: the negotiation of version and features, once in the life of a mount.
//!
//! All feature flags are chosen here. They suit a file system whose content other clients change
//! too: no write-back cache, no cached pages after a change of size or modification time, no
//! request timeout that ends the mount. Only features that the kernel offers are used. For example,
//! a kernel of ABI 7.38 does not offer `HAS_RESEND`, so the reply to INIT does not have the flag.

use std::io::IoSlice;

use thiserror::Error;
use zerocopy::{FromBytes, IntoBytes};

use crate::abi::{self, InitOut, init};
use crate::channel::Channel;
use crate::errno::Errno;

/// The page size in the kernel's requests, in bytes.
const PAGE_BYTES: u32 = 4096;
/// The largest WRITE request that can be negotiated with the kernel, in bytes.
pub const WRITE_BYTES_MAX: u32 = 1 << 20;
/// The minimum of [`KernelOptions::background_max`], the number of requests for which no program
/// waits.
pub const BACKGROUND_MIN: u16 = 64;
/// The maximum of [`KernelOptions::background_max`], the number of requests for which no program
/// waits.
pub const BACKGROUND_MAX: u16 = 256;

/// The options of a session with the kernel. Values outside their limits are moved into them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelOptions {
    /// The number of threads that read requests, at least 2.
    pub readers: usize,
    /// The maximum number of requests of more than 4 KiB that this process has read and not
    /// finished. Each holds a buffer a little larger than `write_bytes_max`. At least `readers +
    /// 1`.
    pub large_requests_max: usize,
    /// The largest WRITE in bytes: a multiple of 4096, at most [`WRITE_BYTES_MAX`].
    pub write_bytes_max: u32,
    /// The maximum number of requests in flight for which no program waits (read-ahead and
    /// RELEASE): from [`BACKGROUND_MIN`] to [`BACKGROUND_MAX`].
    pub background_max: u16,
    /// True if the file system keeps access control lists and updates the mode for them.
    pub posix_acl: bool,
    /// True if the targets of symbolic links never change, so that the kernel may cache them.
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
    /// Returns the options with each value moved into its limits.
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

    /// Returns the feature flags that the reply to INIT has if the kernel offers them.
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

/// The result of the negotiation with the kernel, from its INIT request and the reply. A process
/// that takes over the mount needs it, because the kernel sends INIT only once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Negotiated {
    /// The minor version of the protocol that both sides use; the major version is 7.
    pub minor: u32,
    /// The largest WRITE that the kernel sends, in bytes.
    pub write_bytes_max: u32,
    /// The number of bytes that the kernel reads ahead, unless `raise_read_ahead` changes it.
    pub read_ahead_bytes: u32,
    /// The maximum number of background requests in flight, that is, of requests for which no
    /// program waits, such as read-ahead.
    pub background_max: u16,
    /// The feature flags that both sides have, as numbers of the protocol.
    pub flags: u64,
}

/// The number of the format in which a `Negotiated` is encoded, as its first byte.
const FORMAT: u8 = 1;
/// The length of an encoded [`Negotiated`], in bytes.
const NEGOTIATED_BYTES: usize = 1 + 4 + 4 + 4 + 2 + 8;

/// The error if bytes are not an encoded [`Negotiated`] (the result of the negotiation with the
/// kernel), or have a later format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the negotiated options of the mount cannot be decoded")]
pub struct NotNegotiated;

impl Negotiated {
    /// Encodes the result of the negotiation, to hand it to a process that takes over the mount.
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

    /// Decodes the result of a negotiation that another process made. Fails with `NotNegotiated`
    /// if the bytes have another length or format, or sizes beyond the limits of this process.
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
        // Buffers are allocated by this size, so it must be in the limits that this process knows.
        let plausible = (PAGE_BYTES..=WRITE_BYTES_MAX).contains(&negotiated.write_bytes_max);
        if plausible { Ok(negotiated) } else { Err(NotNegotiated) }
    }
}

/// The reaction to an INIT, the request by which the kernel offers its version and features.
///
/// ```text
///   INIT ──a version that we speak────▶ Agree       (the session begins)
///        ──a newer major version──────▶ SpeakOlder  (the kernel sends INIT again)
///        ──too old────────────────────▶ Refuse      (EPROTO, the mount fails)
/// ```
#[derive(Debug)]
pub(crate) enum Answer {
    /// Both sides have a common version: send this reply, and the session begins.
    Agree(Negotiated, Box<InitOut>),
    /// The kernel's major version is newer: send this reply with our version, and the kernel sends
    /// INIT once more in it.
    SpeakOlder(Box<InitOut>),
    /// The kernel's version is too old: reply with EPROTO, and the mount fails.
    Refuse {
        /// The major version of the kernel.
        major: u32,
        /// The minor version of the kernel.
        minor: u32,
    },
}

/// Decides the reaction to an INIT. `body` are the bytes of the request after its header, and
/// `options` are the wishes of the file system. An older kernel sends a shorter body; missing
/// fields count as 0.
pub(crate) fn decide(body: &[u8], options: KernelOptions) -> Answer {
    let mut padded = [0; size_of::<abi::InitIn>()];
    let known = body.len().min(padded.len());
    padded[..known].copy_from_slice(&body[..known]);
    let kernel = abi::InitIn::read_from_bytes(&padded).expect("the array has the struct's size");
    // As the protocol demands: reply with our version, and the kernel sends INIT again in it.
    if kernel.major > abi::MAJOR {
        let ours = InitOut { major: abi::MAJOR, minor: abi::MINOR, ..InitOut::default() };
        return Answer::SpeakOlder(Box::new(ours));
    }
    if kernel.major < abi::MAJOR || kernel.minor < abi::MINOR_MIN {
        return Answer::Refuse { major: kernel.major, minor: kernel.minor };
    }
    let options = options.within_limits();
    // The upper 32 flags are valid only if the kernel says so.
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

/// Sends the reply to the INIT with the number `unique`.
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
