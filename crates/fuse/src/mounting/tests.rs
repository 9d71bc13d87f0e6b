use std::fs;
use std::os::unix::fs::symlink;

use super::{MountError, MountOptions, UnmountError, UnmountMode, mount, resolve, unmount};

fn options() -> MountOptions {
    MountOptions::new("test", "ashlar-test")
}

#[test]
fn only_an_empty_folder_is_mountable() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing");
    assert!(matches!(mount(&missing, &options()), Err(MountError::Missing)));
    let file = folder.path().join("file");
    fs::write(&file, "x").unwrap();
    assert!(matches!(mount(&file, &options()), Err(MountError::NotAFolder)));
    assert!(matches!(mount(&file.join("below"), &options()), Err(MountError::NotAFolder)));
    assert!(matches!(mount(folder.path(), &options()), Err(MountError::NotEmpty)));
}

#[test]
fn option_with_a_separator_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for subtype in ["", "a,b", "a b", "a\0"] {
        let options = MountOptions::new("test", subtype);
        assert!(matches!(mount(folder.path(), &options), Err(MountError::Options)));
    }
    let options = MountOptions::new("te\0st", "ashlar");
    assert!(matches!(mount(folder.path(), &options), Err(MountError::Options)));
}

#[test]
fn unmounting_a_plain_folder_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refused = unmount(folder.path(), UnmountMode::Lazy);
    assert!(matches!(refused, Err(UnmountError::NotMounted)));
}

#[test]
fn a_path_is_resolved_through_links_and_dots() {
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().canonicalize().unwrap();
    let inner = whole.join("inner");
    fs::create_dir(&inner).unwrap();
    symlink("inner", whole.join("link")).unwrap();
    assert_eq!(resolve(&whole.join("link")).unwrap(), inner);
    assert_eq!(resolve(&whole.join("link/")).unwrap(), inner);
    assert_eq!(resolve(&inner.join("..")).unwrap(), whole);
    assert_eq!(resolve(&inner.join(".")).unwrap(), inner);
    assert_eq!(resolve("/".as_ref()).unwrap(), std::path::Path::new("/"));
}

#[test]
fn error_texts_name_a_remedy() {
    let missing = MountError::DeviceMissing.to_string();
    assert!(missing.contains("modprobe fuse"));
    assert!(missing.contains("--device /dev/fuse --cap-add SYS_ADMIN"));
}
