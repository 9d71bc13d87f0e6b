//! Mounting without root, through the set-user-ID program `fusermount3`.
//!
//! It opens the device, mounts, and sends the descriptor over a socket. The socket is its standard
//! input, so that it inherits no other descriptor of this process. Its error output becomes part of
//! the error. For example, `fusermount3: user has no write access to mountpoint` becomes
//! [`MountError::Fusermount`].

use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

use super::failure::{MountError, UnmountError, UnmountMode};
use super::options::MountOptions;
use crate::device::{Device, receive_descriptor};

const PROGRAM: &str = "fusermount3";
/// The environment variable by which `fusermount3` gets the descriptor number of the socket over
/// which it sends the device.
const SOCKET_VARIABLE: &str = "_FUSE_COMMFD";
/// The number of bytes of the error output of `fusermount3` that are kept.
const MESSAGE_BYTES_MAX: u64 = 4096;

/// The file in which root permits `allow_other` to users, and the line that does so.
const CONFIGURATION: &str = "/etc/fuse.conf";
const PERMITS_OTHERS: &str = "user_allow_other";

/// Checks, as far as that is known before, whether `fusermount3` will mount on a folder, given as a
/// full path. Changes nothing.
pub(super) fn check(folder: &Path, options: &MountOptions) -> Result<(), MountError> {
    let mut version = Command::new(PROGRAM);
    version.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match version.status() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(MountError::NoFusermount);
        }
        // The mount itself reports any other error.
        Ok(_) | Err(_) => {}
    }
    let refused = |message: String| Err(MountError::Fusermount { message });
    if options.allow_other {
        // A file that cannot be read permits nothing.
        let configuration = std::fs::read_to_string(CONFIGURATION).unwrap_or_default();
        if !permits_others(&configuration) {
            return refused(format!(
                "a user may give allow_other only if {CONFIGURATION} has the line {PERMITS_OTHERS}"
            ));
        }
    }
    match rustix::fs::access(folder, rustix::fs::Access::WRITE_OK) {
        // Any other error, for example of a dead mount, is reported by the mount itself.
        Err(rustix::io::Errno::ACCESS) => {
            refused("this user may not write to the directory".to_owned())
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Returns true if the content of the configuration permits `allow_other` to users.
fn permits_others(configuration: &str) -> bool {
    configuration.lines().any(|line| line.trim() == PERMITS_OTHERS)
}

/// Returns the options in the format of `fusermount3`.
fn options_text(options: &MountOptions) -> String {
    let access = if options.read_only { "ro" } else { "rw" };
    let source = options.source.replace('\\', "\\\\").replace(',', "\\,");
    let subtype = &options.subtype;
    format!("{access},nosuid,nodev,fsname={source},subtype={subtype}{}", options.text())
}

/// Mounts on a folder, given as a full path, by running `fusermount3`. Returns the device of the
/// mount.
pub(super) fn mount(folder: &Path, options: &MountOptions) -> Result<Device, MountError> {
    let (ours, theirs) = UnixStream::pair().map_err(MountError::other("creating a socket pair"))?;
    let mut command = Command::new(PROGRAM);
    // A folder may begin with a dash, so `--` ends the options.
    command.arg("-o").arg(options_text(options)).arg("--").arg(folder);
    command.env(SOCKET_VARIABLE, "0").stdin(OwnedFd::from(theirs)).stderr(Stdio::piped());
    let child = command.spawn();
    // The command holds the other end of the socket. If it stayed open, a failure would not show as
    // end of file.
    drop(command);
    let mut child = child.map_err(|error| {
        if error.kind() == io::ErrorKind::NotFound {
            MountError::NoFusermount
        } else {
            MountError::Other { step: "starting fusermount3", source: error }
        }
    })?;
    // The message is one byte and the descriptor. If the program fails, this returns at end of
    // file.
    let received = receive_descriptor(&ours, &mut [0]);
    let mut message = Vec::new();
    if let Some(stderr) = child.stderr.take() {
        // Read before waiting: the pipe can be full, and then the program would not end.
        let read = stderr.take(MESSAGE_BYTES_MAX).read_to_end(&mut message);
        read.map_err(MountError::other("reading the output of fusermount3"))?;
    }
    child.wait().map_err(MountError::other("waiting for fusermount3"))?;
    match received {
        Ok((descriptor, _)) => Ok(Device::new(descriptor)),
        Err(_) => Err(MountError::Fusermount { message: text(&message) }),
    }
}

/// Removes the mount on a folder, given as a full path, by running `fusermount3`.
pub(super) fn unmount(folder: &Path, mode: UnmountMode) -> Result<(), UnmountError> {
    let flags = match mode {
        UnmountMode::IfUnused => "-u",
        UnmountMode::Lazy => "-uz",
        // Only root can abort a session; `fusermount3` has no option for it.
        UnmountMode::Abort => return Err(UnmountError::NotPermitted),
    };
    let done = Command::new(PROGRAM).arg(flags).arg("--").arg(folder).stdin(Stdio::null()).output();
    let done = done.map_err(|error| {
        if error.kind() == io::ErrorKind::NotFound {
            UnmountError::NoFusermount
        } else {
            UnmountError::Other { step: "starting fusermount3", source: error }
        }
    })?;
    if done.status.success() {
        return Ok(());
    }
    let message = text(&done.stderr);
    if message.contains("busy") {
        return Err(UnmountError::Busy);
    }
    if message.contains("not permitted") || message.contains("not owned") {
        return Err(UnmountError::NotPermitted);
    }
    Err(UnmountError::Other { step: "fusermount3", source: io::Error::other(message) })
}

fn text(message: &[u8]) -> String {
    let message = String::from_utf8_lossy(message);
    let message = message.trim();
    message.strip_prefix("fusermount3: ").unwrap_or(message).to_owned()
}

#[cfg(test)]
mod tests;
