//! Permissions of files and folders: no other user of the machine may read what is ours.
//!
//! What this program makes is for its owner alone. If something exists already and others can read
//! it, its permissions are changed and a warning is logged. Where this user may not change them,
//! the command fails, unless they do no harm. A folder is changed only if it contains nothing but
//! files of this program: otherwise somebody else may need it.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::problem::Problem;

/// The permissions of everybody but the owner.
const OTHERS: u32 = 0o077;

/// The permissions of users who are not in the owner's group either.
const STRANGERS: u32 = 0o007;

/// The permissions with which others could replace our files with theirs.
const STRANGERS_WRITE: u32 = 0o002;

/// Names that may be in a folder of ours without being made by this program.
const EVERYWHERE: &str = "lost+found";

/// What to do about a folder that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Fine,
    /// Take others' permissions away.
    Close,
    /// Leave it as it is: the secret files in it have permissions of their own.
    Leave,
    /// Fail: anybody could replace the secret files.
    Refuse,
}

/// Decides what to do about a folder with this mode; `foreign` if it has files that are not ours.
fn judge(mode: u32, foreign: bool) -> Verdict {
    match (mode & OTHERS, foreign) {
        (0, _) => Verdict::Fine,
        (_, false) => Verdict::Close,
        (others, true) if others & STRANGERS_WRITE != 0 => Verdict::Refuse,
        (_, true) => Verdict::Leave,
    }
}

/// Checks and changes the permissions of a folder, if it exists. `ours` says which names this
/// program gives to files in it.
pub(crate) fn folder(path: &Path, ours: impl Fn(&str) -> bool) -> Result<(), Problem> {
    let doing = || format!("use the folder {}", path.display());
    let problem = |error| Problem::new(doing(), error);
    let mode = fs::metadata(path).map_err(problem)?.permissions().mode();
    if judge(mode, true) == Verdict::Fine {
        return Ok(());
    }
    let mut foreign = false;
    for found in fs::read_dir(path).map_err(problem)? {
        let name = found.map_err(problem)?.file_name();
        foreign |= !name.to_str().is_some_and(|name| name == EVERYWHERE || ours(name));
    }
    let verdict = match judge(mode, foreign) {
        Verdict::Close => match fs::set_permissions(path, Permissions::from_mode(mode & !OTHERS)) {
            Ok(()) => Verdict::Close,
            Err(_) => judge(mode, true),
        },
        other => other,
    };
    let path = path.display();
    match verdict {
        Verdict::Fine => {}
        Verdict::Close => {
            tracing::warn!(%path, "others could look into the folder, and cannot any more");
        }
        Verdict::Leave => tracing::warn!(
            %path,
            "others can look into the folder, though not into what Ashlar keeps there; if nobody \
             else needs it, run chmod 700 on it",
        ),
        Verdict::Refuse => {
            return Err(Problem::new(doing(), "everybody may write there")
                .remedy("run chmod 700 on it, or choose a folder for Ashlar alone"));
        }
    }
    Ok(())
}

/// Checks and changes the permissions of a file with a secret of our own, if it exists: only its
/// owner may read it.
pub(crate) fn secret(path: &Path) -> Result<(), Problem> {
    file(path, OTHERS)
}

/// Checks and changes the permissions of a file with a secret that came from elsewhere, if it
/// exists: its owner's group may read it too, as is common for TLS keys.
pub(crate) fn given(path: &Path) -> Result<(), Problem> {
    file(path, STRANGERS)
}

/// Returns true if only its owner may read a file that exists.
pub(crate) fn is_closed(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.permissions().mode() & OTHERS == 0)
}

fn file(path: &Path, closed: u32) -> Result<(), Problem> {
    // If the file is missing, the code that needs it reports that.
    let Ok(found) = fs::metadata(path) else { return Ok(()) };
    let mode = found.permissions().mode();
    if mode & closed == 0 {
        return Ok(());
    }
    match fs::set_permissions(path, Permissions::from_mode(mode & !closed)) {
        Ok(()) => {
            let path = path.display();
            tracing::warn!(%path, "others could read this secret, and cannot any more: change it \
                if they may have");
            Ok(())
        }
        // Only its group may read it, and the group was chosen by whoever made the file.
        Err(_) if mode & STRANGERS == 0 => Ok(()),
        Err(error) => {
            let wrong =
                format!("everybody may read it, and this user may not change that: {error}");
            Err(Problem::new(format!("use the secret in {}", path.display()), wrong)
                .remedy("run chmod o= on it; of a Kubernetes secret, set defaultMode to 0440"))
        }
    }
}

#[cfg(test)]
mod tests;
