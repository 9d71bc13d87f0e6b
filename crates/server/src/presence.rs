//! Questions about folders of a volume: if they exist, and if the disk that belongs there is
//! mounted.
//!
//! For example, `/etc/fstab` names `/mnt/data`, and the disk is not mounted after a reboot. The
//! folder is empty then, and a gateway must not create a volume below it.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use block::MARK_NAME;
use problem::Problem;

/// The tables of the mount points that should exist, and of those that do.
const FSTAB: &str = "/etc/fstab";
const MOUNTED: &str = "/proc/self/mountinfo";

/// Returns true if a file or folder exists. Fails with the cause if that cannot be found out: for
/// example, if this user may not enter the folder above it.
pub(crate) fn is_present(path: &Path) -> Result<bool, Problem> {
    let error = match path.try_exists() {
        Ok(exists) => return Ok(exists),
        Err(error) => error,
    };
    let remedy = match error.kind() {
        // A path below a file does not exist.
        io::ErrorKind::NotADirectory => return Ok(false),
        io::ErrorKind::PermissionDenied => {
            Some("run as the owner of the data directory, for example with sudo -u")
        }
        io::ErrorKind::NotConnected => Some(
            "the mount above it has no server any more: unmount it with `umount -l`, and mount it again",
        ),
        // Other causes, for example an I/O error, have no remedy here.
        _ => None,
    };
    Err(Problem::new(format!("look for {}", path.display()), error).remedy_if(remedy))
}

/// Returns the mount point at or above `path` that `/etc/fstab` names and at which nothing is
/// mounted. The root is never returned.
pub(crate) fn unmounted(path: &Path) -> Option<PathBuf> {
    let fstab = fs::read_to_string(FSTAB).ok()?;
    // Without the table of the kernel nothing is known.
    let mounted = fs::read_to_string(MOUNTED).ok()?;
    unmounted_in(&fstab, &mounted, &complete(path)?)
}

/// As [`unmounted`], with the content of both tables and a complete path.
fn unmounted_in(fstab: &str, mounted: &str, path: &Path) -> Option<PathBuf> {
    let lines = fstab.lines().filter(|line| !line.trim_start().starts_with('#'));
    let wanted: Vec<_> = lines.filter_map(|line| folder_of(line, 1)).collect();
    let present: Vec<_> = mounted.lines().filter_map(|line| folder_of(line, 4)).collect();
    let above = path.ancestors().filter(|folder| folder.parent().is_some());
    let mut missing = above
        .filter(|folder| wanted.iter().any(|it| it == folder))
        .filter(|folder| !present.iter().any(|it| it == folder));
    missing.next().map(Path::to_owned)
}

/// Returns the folder in a field of a line of such a table. Spaces and other special characters are
/// written as `\` with three octal digits.
fn folder_of(line: &str, field: usize) -> Option<PathBuf> {
    let field = line.split_ascii_whitespace().nth(field).filter(|field| field.starts_with('/'))?;
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let escaped = (first == b'\\').then(|| after.get(..3)).flatten();
        let value = escaped
            .and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        bytes.push(value.unwrap_or(first));
        rest = if value.is_some() { after.get(3..).unwrap_or_default() } else { after };
    }
    // `components` removes a slash at the end.
    Some(PathBuf::from(std::ffi::OsString::from_vec(bytes)).components().collect())
}

/// Returns the folder of blocks at or above `path` that has the mark of a volume.
pub(crate) fn blocks_above(path: &Path) -> Option<PathBuf> {
    let path = complete(path)?;
    let is_mark = |folder: &&Path| {
        fs::read(folder.join(MARK_NAME)).is_ok_and(|content| volume::is_mark(&content))
    };
    path.ancestors().find(is_mark).map(Path::to_owned)
}

/// Returns the absolute path without symbolic links. The last folders of the path need not exist.
fn complete(path: &Path) -> Option<PathBuf> {
    let absolute = std::path::absolute(path).ok()?;
    for folder in absolute.ancestors() {
        if let Ok(found) = fs::canonicalize(folder) {
            let rest = absolute.strip_prefix(folder).ok()?;
            return Some(found.join(rest).components().collect());
        }
    }
    None
}

#[cfg(test)]
mod tests;
