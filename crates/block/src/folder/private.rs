//! File modes: new files and folders are accessible to their owner only, and existing ones are made so.

use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tracing::warn;

const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// The rights of everybody but the owner.
const OTHERS: u32 = 0o077;

/// Makes a folder and those above it that are missing.
pub(super) fn make_folders(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(path)
}

/// Makes a folder.
pub(super) fn make_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(FOLDER_MODE).create(path)
}

/// To write a file with, which is its owner's alone if it is made.
pub(super) fn of_its_owner(options: &mut OpenOptions) -> &mut OpenOptions {
    options.write(true).mode(FILE_MODE)
}

/// Removes the rights of others on existing files and folders, and logs that. What does not exist, or is
/// not ours to change, stays as it is; the latter is logged, too.
pub(super) fn close_to_others(root: &Path, paths: impl Iterator<Item = PathBuf>) {
    let (mut closed, mut open) = (0_u32, 0_u32);
    for path in paths {
        let Ok(found) = fs::metadata(&path) else { continue };
        let mode = found.permissions().mode();
        if mode & OTHERS == 0 {
            continue;
        }
        match fs::set_permissions(&path, Permissions::from_mode(mode & !OTHERS)) {
            Ok(()) => closed += 1,
            Err(_) => open += 1,
        }
    }
    let root = root.display();
    if closed > 0 {
        warn!(%root, closed, "others could read blocks, and cannot any more");
    }
    if open > 0 {
        warn!(
            %root, open,
            "others can read blocks, and this user may not change that: run chmod -R go= there",
        );
    }
}
