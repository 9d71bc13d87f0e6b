//! What others on the machine may read: nothing of ours.
//!
//! What this program makes is for its owner alone. What exists already and is open to others is
//! closed to them with a sentence, or, where this user may not do that, refused with one, unless it
//! can do no harm. A folder is closed only if nothing is in it but what is ours: it might be
//! somebody else's too.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::problem::Problem;

/// What anybody but the owner may do.
const OTHERS: u32 = 0o077;

/// What those may do who are not of the owner's group either.
const STRANGERS: u32 = 0o007;

/// What strangers need to put a file of theirs in the place of ours.
const STRANGERS_WRITE: u32 = 0o002;

/// Names that may stand in a folder of ours without being made by us.
const EVERYWHERE: &str = "lost+found";

/// What is done about a folder that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Fine,
    /// It is closed to others.
    Close,
    /// It stays as it is: what is secret in it is closed by itself.
    Leave,
    /// Anybody could put something else in the place of what is secret.
    Refuse,
}

/// What to do about a folder of this mode, which holds what is not ours or does not.
fn judge(mode: u32, foreign: bool) -> Verdict {
    match (mode & OTHERS, foreign) {
        (0, _) => Verdict::Fine,
        (_, false) => Verdict::Close,
        (others, true) if others & STRANGERS_WRITE != 0 => Verdict::Refuse,
        (_, true) => Verdict::Leave,
    }
}

/// Sees to a folder that exists. `ours` are the names that this program gives.
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

/// Sees to a file with a secret of our own, if it exists: it is for its owner alone.
pub(crate) fn secret(path: &Path) -> Result<(), Problem> {
    file(path, OTHERS)
}

/// Sees to a file with a secret that others gave us, if it exists: its owner's group may read it, as
/// is common for TLS keys.
pub(crate) fn given(path: &Path) -> Result<(), Problem> {
    file(path, STRANGERS)
}

fn file(path: &Path, closed: u32) -> Result<(), Problem> {
    // Whoever needs the file finds out by itself that it is not there.
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
        // Of a group that somebody else chose.
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
