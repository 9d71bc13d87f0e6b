//! Access times of files that programs read.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use crate::kept::{Kept, can_mount, eventually};

fn accessed(path: &Path) -> SystemTime {
    fs::metadata(path).unwrap().accessed().unwrap()
}

#[test]
fn reads_update_access_times_unless_noatime_is_given() {
    if !can_mount() {
        return;
    }
    let kept = Kept::new(None);
    fs::create_dir(kept.path("bucket")).unwrap();
    fs::write(kept.path("bucket/file"), b"hello").unwrap();
    let file = |kept: &Kept| kept.path("bucket/file");
    let before = accessed(&file(&kept));
    let mut kept = kept;
    for option in ["--noatime", "--read-only"] {
        kept = kept.anew_with(&[option]);
        assert_eq!(fs::read(file(&kept)).unwrap(), b"hello");
        assert_eq!(accessed(&file(&kept)), before, "{option}");
    }
    kept = kept.anew_with(&[]);
    assert_eq!(fs::read(file(&kept)).unwrap(), b"hello");
    let noted = accessed(&file(&kept));
    assert!(noted > before);
    // The end of the mount has committed the access time, and no read has changed it since.
    kept = kept.anew();
    assert_eq!(accessed(&file(&kept)), noted);
    assert_eq!(fs::read(file(&kept)).unwrap(), b"hello");
    assert_eq!(accessed(&file(&kept)), noted);
    // The kernel has the pages cached, and the attributes for a moment.
    fs::set_permissions(file(&kept), fs::metadata(file(&kept)).unwrap().permissions()).unwrap();
    assert_eq!(fs::read(file(&kept)).unwrap(), b"hello");
    eventually("it was read", || accessed(&file(&kept)) > noted);
}
