//! Permissions of the program's files and directories: other users of the machine must not read
//! them.
//!
//! The program creates files and directories for their owner alone. If an existing one is open to
//! others, its permissions are changed, and a warning is logged. If this user may not change them,
//! the command fails, unless they do no harm. A directory is changed only if all files in it belong
//! to this program, because other programs may need it otherwise. For example, a data directory
//! with mode 755 and only our files becomes 700, and one with a stranger's file stays 755.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use problem::Problem;

/// The permissions of all users except the owner.
const OTHERS: u32 = 0o077;

/// The permissions of users outside the owner's group.
const WORLD: u32 = 0o007;

/// The permission with which any user could replace the files in a directory.
const WORLD_WRITE: u32 = 0o002;

/// A name that file systems create in their root directory.
const LOST_AND_FOUND: &str = "lost+found";

/// The action for an existing directory whose permissions were checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// Only the owner has permissions: do nothing.
    Fine,
    /// Remove the permissions of others.
    Close,
    /// Keep the permissions: the secret files in it have permissions of their own.
    Leave,
    /// Fail: any user could replace the secret files.
    Refuse,
}

/// Returns the action for an existing directory with this mode, that is, its permission bits.
/// `foreign` is true if it has files of other programs.
fn judge(mode: u32, foreign: bool) -> Verdict {
    match (mode & OTHERS, foreign) {
        (0, _) => Verdict::Fine,
        (_, false) => Verdict::Close,
        (others, true) if others & WORLD_WRITE != 0 => Verdict::Refuse,
        (_, true) => Verdict::Leave,
    }
}

/// Checks a directory, and removes the permissions of others if necessary. `ours` returns true for
/// names that this program gives to files in it.
pub(crate) fn folder(path: &Path, ours: impl Fn(&str) -> bool) -> Result<(), Problem> {
    let doing = || format!("use the directory {}", path.display());
    let problem = |error| Problem::new(doing(), error);
    let mode = fs::metadata(path).map_err(problem)?.permissions().mode();
    // The usual case needs no listing of the directory.
    if judge(mode, true) == Verdict::Fine {
        return Ok(());
    }
    let mut foreign = false;
    for found in fs::read_dir(path).map_err(problem)? {
        let name = found.map_err(problem)?.file_name();
        foreign |= !name.to_str().is_some_and(|name| name == LOST_AND_FOUND || ours(name));
    }
    let verdict = match judge(mode, foreign) {
        Verdict::Close => match fs::set_permissions(path, Permissions::from_mode(mode & !OTHERS)) {
            Ok(()) => Verdict::Close,
            // This user does not own the directory, so it counts as one with foreign files.
            Err(_) => judge(mode, true),
        },
        other => other,
    };
    let path = path.display();
    match verdict {
        Verdict::Fine => {}
        Verdict::Close => {
            tracing::warn!(%path, "removed the permissions of other users from the directory");
        }
        Verdict::Leave => tracing::warn!(
            %path,
            "other users can list the directory, but cannot read the files of Ashlar in it; if no \
             other program needs it, run chmod 700 on it",
        ),
        Verdict::Refuse => {
            return Err(Problem::new(doing(), "any user can write there")
                .remedy("run chmod 700 on it, or give a directory for Ashlar alone"));
        }
    }
    Ok(())
}

/// Checks a file with a secret of this program, if it exists: only its owner may read it. Removes
/// other permissions. The caller has checked that the content is a secret, unless the program chose
/// the file's name: a mistyped option may name any file of the machine.
pub(crate) fn secret(path: &Path) -> Result<(), Problem> {
    file(path, OTHERS)
}

/// Checks a file with a secret that the operator provides, if it exists: its owner and group may
/// read it, as is common for TLS keys. Removes other permissions.
pub(crate) fn given(path: &Path) -> Result<(), Problem> {
    file(path, WORLD)
}

/// Returns true if a file exists and only its owner may read it.
pub(crate) fn is_closed(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.permissions().mode() & OTHERS == 0)
}

/// Removes the permissions in `closed` from a file, if it exists. Fails if any user can read the
/// file and this user may not change that.
fn file(path: &Path, closed: u32) -> Result<(), Problem> {
    // The caller reports a missing file when it reads it.
    let Ok(found) = fs::metadata(path) else { return Ok(()) };
    // A mistyped name can be a directory or a device that other programs need. Reading it fails, or
    // its content is no secret.
    if !found.is_file() {
        return Ok(());
    }
    let mode = found.permissions().mode();
    if mode & closed == 0 {
        return Ok(());
    }
    match fs::set_permissions(path, Permissions::from_mode(mode & !closed)) {
        Ok(()) => {
            let path = path.display();
            tracing::warn!(%path, "other users could read this secret; removed their permissions. \
                Change the secret if they may have read it");
            Ok(())
        }
        // Only the group may read it, and the creator of the file has chosen the group.
        Err(_) if mode & WORLD == 0 => Ok(()),
        Err(error) => {
            let wrong = format!("any user can read it, and this user may not change that: {error}");
            Err(Problem::new(format!("use the secret in {}", path.display()), wrong)
                .remedy("run chmod o= on it; for a Kubernetes secret, set defaultMode to 0440"))
        }
    }
}

#[cfg(test)]
mod tests;
