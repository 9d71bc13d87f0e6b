//! A mount with `--uid`, `--gid` and `--umask`.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use crate::kept::{Kept, can_mount};

/// A user other than root.
const SOMEBODY: &str = "12345";

fn shown(path: &Path) -> (u32, u32, u32) {
    let seen = fs::metadata(path).unwrap();
    (seen.uid(), seen.gid(), seen.mode() & 0o7777)
}

/// Runs a program as that user, and returns true if it succeeds.
fn as_somebody(script: &str, at: &Path) -> bool {
    let groups = ["--clear-groups", "--reuid", SOMEBODY, "--regid", SOMEBODY];
    let mut command = Command::new("setpriv");
    command.args(groups).args(["sh", "-ec", script]).current_dir(at);
    command.status().unwrap().success()
}

#[test]
fn uid_gid_and_umask_options_replace_owner_and_mode() {
    if !can_mount() {
        return;
    }
    let kept = Kept::new(None);
    fs::create_dir(kept.path("bucket")).unwrap();
    fs::write(kept.path("bucket/file"), b"root's").unwrap();
    fs::set_permissions(kept.path("bucket/file"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::set_permissions(kept.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(shown(&kept.path("bucket/file")), (0, 0, 0o600));

    let options = ["--uid", SOMEBODY, "--gid=54321", "--umask", "027", "--allow-other"];
    let kept = kept.anew_with(&options);
    assert_eq!(shown(&kept.path("")), (12_345, 54_321, 0o750));
    assert_eq!(shown(&kept.path("bucket/file")), (12_345, 54_321, 0o640));
    assert!(as_somebody("cat bucket/file && echo more >> bucket/file", &kept.path("")));
    assert!(as_somebody("mkdir bucket/made; printf '#!/bin/sh\n' > bucket/run", &kept.path("")));
    assert!(as_somebody("chmod 700 bucket/run && bucket/run", &kept.path("")));
    assert_eq!(shown(&kept.path("bucket/made")), (12_345, 54_321, 0o750));
    assert_eq!(shown(&kept.path("bucket/run")), (12_345, 54_321, 0o750));
    // Access control lists have no effect.
    let mut acl = Command::new("setfacl");
    acl.args(["-m", "u:77:rwx"]).arg(kept.path("bucket/file"));
    assert!(!acl.output().is_ok_and(|done| done.status.success()));

    let kept = kept.anew_with(&[]);
    assert_eq!(shown(&kept.path("bucket/file")), (0, 0, 0o600), "what is kept of it has stayed");
    assert_eq!(shown(&kept.path("bucket/run")), (12_345, 54_321, 0o700));
    assert_eq!(fs::read(kept.path("bucket/file")).unwrap(), b"root'smore\n");
}
