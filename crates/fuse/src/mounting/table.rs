//! The kernel's table of mounts, `/proc/self/mountinfo`, read without accessing a mount.
//!
//! If a folder has several mounts, the last line is the visible one. Lines that cannot be parsed
//! are ignored. For example, the path `/mnt/a b` is written as `/mnt/a\040b`.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// A mount, as one line of the kernel's table of mounts describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mounted {
    /// The number that the kernel gave its file system (`st_dev`), as `MAJOR:MINOR`.
    pub(super) device: String,
    /// The type of its file system, for example `fuse.ashlar`.
    pub(super) kind: String,
    /// Its source, as `mount` and `df` show it.
    pub(super) source: String,
}

/// Returns the visible mount on exactly this folder, which must be a full path; `None` if there is
/// none.
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
    // The fields are: id, parent, device, root, mount point, options.
    let device = fields.nth(2)?;
    let place = unescape(fields.nth(1)?);
    // A dash ends a list of optional fields of any length.
    let mut fields = fields.skip_while(|field| *field != b"-").skip(1);
    let (kind, source) = (fields.next()?, unescape(fields.next()?));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mounted =
        Mounted { device: text(device), kind: text(kind), source: text(source.as_bytes()) };
    Some((place, mounted))
}

/// Decodes octal escapes such as `\040`, which the kernel writes for spaces.
fn unescape(field: &[u8]) -> OsString {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, after @ ..] = rest {
        if *first == b'\\'
            && let [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after_escape @ ..] = after
        {
            plain.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
            rest = after_escape;
        } else {
            plain.push(*first);
            rest = after;
        }
    }
    OsString::from_vec(plain)
}

#[cfg(test)]
mod tests;
