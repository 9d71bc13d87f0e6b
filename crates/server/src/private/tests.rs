use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::*;

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn ours(name: &str) -> bool {
    name == "ours"
}

#[test]
fn the_verdict_on_a_directory_follows_from_its_mode_and_content() {
    for (mode, foreign, verdict) in [
        (0o40_700, false, Verdict::Fine),
        (0o40_700, true, Verdict::Fine),
        (0o40_755, false, Verdict::Close),
        (0o40_777, false, Verdict::Close),
        (0o40_755, true, Verdict::Leave),
        (0o42_775, true, Verdict::Leave),
        (0o41_777, true, Verdict::Refuse),
        (0o40_777, true, Verdict::Refuse),
    ] {
        assert_eq!(judge(mode, foreign), verdict, "{mode:o} {foreign}");
    }
}

#[test]
fn a_directory_is_closed_only_if_all_files_in_it_are_ours() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    chmod(path, 0o755);
    super::folder(path, ours).unwrap();
    assert_eq!(mode(path), 0o700);
    fs::write(path.join("ours"), "").unwrap();
    fs::create_dir(path.join("lost+found")).unwrap();
    chmod(path, 0o2755);
    super::folder(path, ours).unwrap();
    assert_eq!(mode(path), 0o2700);
    fs::write(path.join("theirs"), "").unwrap();
    chmod(path, 0o755);
    super::folder(path, ours).unwrap();
    assert_eq!(mode(path), 0o755, "another program may need it");
    chmod(path, 0o1777);
    let refused = super::folder(path, ours).unwrap_err().to_string();
    assert!(refused.contains("any user can write there; run chmod 700"), "{refused}");
    assert_eq!(mode(path), 0o1777);
}

#[test]
fn secrets_are_closed_and_a_provided_secret_stays_open_to_its_group() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    secret(&path).unwrap();
    assert!(!path.exists(), "no file was created");
    fs::write(&path, "").unwrap();
    for (before, see, after) in [
        (0o644, secret as fn(&Path) -> Result<(), Problem>, 0o600),
        (0o640, secret, 0o600),
        (0o400, secret, 0o400),
        (0o644, given, 0o640),
        (0o440, given, 0o440),
    ] {
        chmod(&path, before);
        see(&path).unwrap();
        assert_eq!(mode(&path), after, "{before:o}");
    }
}

#[test]
fn a_directory_that_is_given_as_a_secret_keeps_its_permissions() {
    let folder = tempfile::tempdir().unwrap();
    chmod(folder.path(), 0o755);
    for see in [secret as fn(&Path) -> Result<(), Problem>, given] {
        see(folder.path()).unwrap();
        assert_eq!(mode(folder.path()), 0o755);
    }
}

/// Files of the kernel are readable for all users, and their mode cannot be changed.
#[test]
fn a_secret_that_cannot_be_closed_is_refused() {
    let path = Path::new("/proc/sys/kernel/random/uuid");
    assert_ne!(mode(path) & 0o004, 0, "any user can read it");
    let refused = given(path).unwrap_err().to_string();
    assert!(refused.contains("any user can read it"), "{refused}");
    assert!(refused.contains("defaultMode"), "{refused}");
}
