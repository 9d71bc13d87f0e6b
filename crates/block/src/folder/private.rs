//! File permissions: new files and folders are accessible to their owner only, and existing ones
//! are restricted.
//!
//! For example, a folder that an earlier release created with mode 755 gets mode 700.

use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tracing::warn;

const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// The permission bits of all users but the owner.
const OTHERS: u32 = 0o077;

/// Creates a folder and its missing parents.
pub(super) fn make_folders(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(path)
}

/// Creates a folder.
pub(super) fn make_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(FOLDER_MODE).create(path)
}

/// Sets the options to write a file that, if it is created, is accessible to its owner only.
pub(super) fn owner_only(options: &mut OpenOptions) -> &mut OpenOptions {
    options.write(true).mode(FILE_MODE)
}

/// Removes the permissions of other users from existing files and folders, and logs that. A path
/// that does not exist is skipped. If this user may not change the permissions, a warning is
/// logged.
pub(super) fn restrict_to_owner(root: &Path, paths: impl Iterator<Item = PathBuf>) {
    let (mut closed, mut open) = (0_u32, 0_u32);
    for path in paths {
        // A path that another process removed meanwhile needs no change.
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
        warn!(%root, closed, "others could read blocks; their permissions were removed");
    }
    if open > 0 {
        warn!(
            %root, open,
            "others can read blocks, and this user may not change that; run chmod -R go= there",
        );
    }
}
