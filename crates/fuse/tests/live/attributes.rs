//! Attributes: permissions, times, extended attributes, space.

use std::fs::{self, File, FileTimes, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{XattrFlags, getxattr, listxattr, removexattr, setxattr};
use rustix::io::Errno;

use crate::stage::{LONG, Stage};

#[test]
fn times_are_kept_to_the_nanosecond_and_before_1970() {
    let stage = Stage::new(LONG);
    let path = stage.path("file");
    let file = File::create(&path).unwrap();
    let early = UNIX_EPOCH - Duration::new(1000, 250_000_001);
    let late = UNIX_EPOCH + Duration::new(5_000_000_000, 999_999_999);
    file.set_times(FileTimes::new().set_accessed(early).set_modified(late)).unwrap();
    drop(file);
    let check = |metadata: &fs::Metadata| {
        assert_eq!((metadata.accessed().unwrap(), metadata.modified().unwrap()), (early, late));
    };
    check(&fs::metadata(&path).unwrap());
    // Read again, from the file system.
    let node = fs::metadata(&path).unwrap().ino();
    stage.session().notifier().inval_inode(fuse::NodeId(node), 0, 0).unwrap();
    check(&fs::metadata(&path).unwrap());
}

#[test]
fn statx_returns_the_creation_time() {
    let stage = Stage::new(LONG);
    let before = SystemTime::UNIX_EPOCH + Duration::from_secs(1_600_000_000);
    fs::write(stage.path("file"), "").unwrap();
    let metadata = fs::metadata(stage.path("file")).unwrap();
    let born = metadata.created().unwrap();
    assert!(born > before);
    assert!(born <= metadata.modified().unwrap());
}

#[test]
fn owner_and_permissions_change() {
    let stage = Stage::new(LONG);
    let path = stage.path("file");
    fs::write(&path, "").unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o4711)).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o4711);
    chown(&path, Some(12), Some(34)).unwrap();
    let metadata = fs::metadata(&path).unwrap();
    assert_eq!((metadata.uid(), metadata.gid()), (12, 34));
    assert_eq!(metadata.mode() & 0o7777, 0o711, "the set-user-id bit went with the owner");
}

#[test]
fn extended_attributes_are_set_read_listed_and_removed() {
    let stage = Stage::new(LONG);
    let path = stage.path("file");
    fs::write(&path, "").unwrap();
    let large = vec![b'v'; 60_000];
    setxattr(&path, "user.one", b"value", XattrFlags::empty()).unwrap();
    setxattr(&path, "user.large", &large, XattrFlags::CREATE).unwrap();
    let again = setxattr(&path, "user.one", b"other", XattrFlags::CREATE);
    assert_eq!(again, Err(Errno::EXIST));
    let mut buffer = vec![0; 65_536];
    assert_eq!(getxattr(&path, "user.one", &mut buffer[..]), Ok(5));
    assert_eq!(getxattr(&path, "user.one", &mut buffer[..3]), Err(Errno::RANGE));
    let length = getxattr(&path, "user.large", &mut buffer[..]).unwrap();
    assert_eq!(buffer[..length], large);
    let length = listxattr(&path, &mut buffer[..]).unwrap();
    assert_eq!(&buffer[..length], b"user.large\0user.one\0");
    removexattr(&path, "user.one").unwrap();
    assert_eq!(getxattr(&path, "user.one", &mut buffer[..]), Err(Errno::NODATA));
}

#[test]
fn statfs_returns_the_space() {
    let stage = Stage::new(LONG);
    let space = rustix::fs::statvfs(stage.folder()).unwrap();
    assert_eq!((space.f_blocks, space.f_bavail), (1 << 30, 1 << 29));
    assert_eq!((space.f_bsize, space.f_namemax), (4096, 255));
    assert!(space.f_ffree < space.f_files);
}
