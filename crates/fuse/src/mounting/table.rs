//! The kernel's table of mounts, read without touching a mount.
//!
//! The last line for a folder is the mount that one sees there. A line that cannot be understood is
//! passed over.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mounted {
    /// The numbers of its device, as `MAJOR:MINOR`.
    pub(super) device: String,
    /// The type of the file system.
    pub(super) kind: String,
    /// What is mounted.
    pub(super) source: String,
}

/// What is mounted exactly on this folder, given by its full path.
pub(super) fn find(folder: &Path) -> io::Result<Option<Mounted>> {
    Ok(find_in(&std::fs::read("/proc/self/mountinfo")?, folder))
}

fn find_in(table: &[u8], folder: &Path) -> Option<Mounted> {
    let mut found = None;
    for line in table.split(|byte| *byte == b'\n') {
        if let Some((place, mounted)) = parse(line)
            && place.as_bytes() == folder.as_os_str().as_bytes()
        {
            found = Some(mounted);
        }
    }
    found
}

fn parse(line: &[u8]) -> Option<(OsString, Mounted)> {
    let mut fields = line.split(|byte| *byte == b' ');
    let device = fields.nth(2)?;
    let place = unescape(fields.nth(1)?);
    // Any number of optional fields end with a dash.
    let mut fields = fields.skip_while(|field| *field != b"-").skip(1);
    let (kind, source) = (fields.next()?, unescape(fields.next()?));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mounted =
        Mounted { device: text(device), kind: text(kind), source: text(source.as_bytes()) };
    Some((place, mounted))
}

/// Undoes what the kernel does to spaces and the like: `\040`.
fn unescape(field: &[u8]) -> OsString {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, behind @ ..] = rest {
        if *first == b'\\'
            && let [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', behind @ ..] = behind
        {
            plain.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
            rest = behind;
        } else {
            plain.push(*first);
            rest = behind;
        }
    }
    OsString::from_vec(plain)
}

#[cfg(test)]
mod tests;
