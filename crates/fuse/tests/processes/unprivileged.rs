//! Mounting without root.

use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use fuse::{KernelOptions, KernelSession, MountOptions, SessionEnd, UnmountMode};

use crate::files::NullFiles;

/// A user without privileges.
const NOBODY: u32 = 65534;

/// The role of that user.
pub(crate) fn play(folder: &Path) {
    let device = match fuse::mount(folder, &MountOptions::new("a,comma", "null")) {
        Ok(device) => device,
        Err(error) => return print!("{error}"),
    };
    let files = Arc::new(NullFiles::new(Duration::from_mins(1)));
    let session = KernelSession::start(device, KernelOptions::default(), files).unwrap();
    // The root of the tree belongs to root, so this user may not write there.
    let entries = std::fs::read_dir(folder).unwrap().count();
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let mounted = mounts.lines().any(|line| line.starts_with("a,comma /") && line.contains("null"));
    fuse::unmount(folder, UnmountMode::IfUnused).unwrap();
    assert_eq!(session.join(), SessionEnd::Unmounted);
    print!("{entries} {mounted}");
}

/// The expected result on this system: some lack `fusermount3`, and some restrict the device to
/// root.
fn expected() -> &'static str {
    let installed = Path::new("/usr/bin/fusermount3").exists();
    let device = std::fs::metadata("/dev/fuse").unwrap();
    match (installed, device.permissions().mode() & 0o006 == 0o006) {
        (true, true) => "0 true",
        (true, false) => "fusermount3 refused: failed to open /dev/fuse: Permission denied",
        (false, _) => "fusermount3 is missing: install the package fuse3, or mount as root",
    }
}

pub(crate) fn mounts() {
    let folder = tempfile::tempdir().unwrap();
    let everybody = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(folder.path(), everybody.clone()).unwrap();
    let mountpoint = folder.path().join("mountpoint");
    std::fs::create_dir(&mountpoint).unwrap();
    chown(&mountpoint, Some(NOBODY), Some(NOBODY)).unwrap();
    // Other users may not be able to read the folder of this program.
    let program = folder.path().join("program");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    std::fs::set_permissions(&program, everybody).unwrap();
    let mut command = Command::new(&program);
    command.arg("--part-mount").arg(&mountpoint).uid(NOBODY).gid(NOBODY).current_dir("/");
    // A folder in the search path that this user may not enter would hide that the program is
    // missing.
    command.env("PATH", "/usr/bin:/bin");
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert_eq!(said, expected(), "{complaint}");
    assert_eq!(std::fs::read_dir(&mountpoint).unwrap().count(), 0);
}
