//! Names: create, look up, list, rename and remove.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _, symlink};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, linkat, mknodat, renameat_with,
};

use crate::stage::{LONG, Stage};

#[test]
fn missing_name_is_not_found_until_created() {
    let stage = Stage::new(LONG);
    let path = stage.path("file");
    assert_eq!(fs::read(&path).unwrap_err().kind(), ErrorKind::NotFound);
    fs::write(&path, "content").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "content");
    let exists = OpenOptions::new().write(true).create_new(true).open(&path).unwrap_err();
    assert_eq!(exists.kind(), ErrorKind::AlreadyExists);
    fs::remove_file(&path).unwrap();
    assert!(!path.exists());
}

#[test]
fn names_of_any_bytes_and_of_any_number_are_listed() {
    let stage = Stage::new(LONG);
    let folder = stage.path("folder");
    fs::create_dir(&folder).unwrap();
    let mut expected: BTreeSet<_> =
        (0..3000).map(|number| format!("a-name-to-list-{number}").into()).collect();
    expected.insert(OsStr::from_bytes(b"\xff not utf-8 \n").to_owned());
    expected.insert(OsStr::from_bytes(&[b'x'; 255]).to_owned());
    for name in &expected {
        File::create(folder.join(name)).unwrap();
    }
    let listed = || {
        let entries: Vec<_> = fs::read_dir(&folder).unwrap().map(Result::unwrap).collect();
        assert!(entries.iter().all(|entry| entry.file_type().unwrap().is_file()));
        assert!(entries.iter().all(|entry| entry.metadata().unwrap().len() == 0));
        entries.iter().map(fs::DirEntry::file_name).collect::<BTreeSet<_>>()
    };
    assert_eq!(listed(), expected);
    assert_eq!(listed(), expected, "with everything remembered");
    assert_eq!(fs::remove_dir(&folder).unwrap_err().kind(), ErrorKind::DirectoryNotEmpty);
    fs::remove_dir_all(&folder).unwrap();
    let long = OsStr::from_bytes(&[b'x'; 256]);
    assert_eq!(
        File::create(stage.folder().join(long)).unwrap_err().kind(),
        ErrorKind::InvalidFilename
    );
}

#[test]
fn a_rename_replaces_exchanges_or_refuses() {
    let stage = Stage::new(LONG);
    let (one, two) = (stage.path("one"), stage.path("folder/two"));
    fs::create_dir(stage.path("folder")).unwrap();
    fs::write(&one, "1").unwrap();
    fs::write(&two, "2").unwrap();
    let refused = renameat_with(CWD, &one, CWD, &two, RenameFlags::NOREPLACE);
    assert_eq!(refused, Err(rustix::io::Errno::EXIST));
    renameat_with(CWD, &one, CWD, &two, RenameFlags::EXCHANGE).unwrap();
    assert_eq!(fs::read_to_string(&one).unwrap() + &fs::read_to_string(&two).unwrap(), "21");
    fs::rename(&one, &two).unwrap();
    assert_eq!(fs::read_to_string(&two).unwrap(), "2");
    assert!(!one.exists());
    fs::rename(stage.path("folder"), stage.path("moved")).unwrap();
    assert_eq!(fs::read_to_string(stage.path("moved/two")).unwrap(), "2");
}

#[test]
fn link_count_equals_the_number_of_names() {
    let stage = Stage::new(LONG);
    let (one, two) = (stage.path("one"), stage.path("two"));
    fs::write(&one, "content").unwrap();
    fs::hard_link(&one, &two).unwrap();
    let (first, second) = (fs::metadata(&one).unwrap(), fs::metadata(&two).unwrap());
    assert_eq!((first.ino(), second.nlink()), (second.ino(), 2));
    fs::remove_file(&one).unwrap();
    assert_eq!(fs::read_to_string(&two).unwrap(), "content");
    symlink("two", stage.path("link")).unwrap();
    assert_eq!(fs::read_link(stage.path("link")).unwrap(), OsStr::new("two"));
    assert_eq!(fs::read_to_string(stage.path("link")).unwrap(), "content");
}

#[test]
fn an_open_file_outlives_its_name() {
    let stage = Stage::new(LONG);
    let path = stage.path("file");
    let mut file = File::create_new(&path).unwrap();
    fs::remove_file(&path).unwrap();
    file.write_all(b"still here").unwrap();
    let mut again = File::open(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap();
    let mut content = String::new();
    again.read_to_string(&mut content).unwrap();
    assert_eq!(content, "still here");
}

#[test]
fn a_file_without_a_name_can_be_given_one() {
    let stage = Stage::new(LONG);
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    let file = rustix::fs::open(stage.folder(), flags, Mode::from_raw_mode(0o600)).unwrap();
    rustix::io::write(&file, b"written before").unwrap();
    assert_eq!(fs::read_dir(stage.folder()).unwrap().count(), 0);
    let nameless = format!("/proc/self/fd/{}", file.as_raw_fd());
    linkat(CWD, nameless, CWD, stage.path("named"), AtFlags::SYMLINK_FOLLOW).unwrap();
    assert_eq!(fs::read_to_string(stage.path("named")).unwrap(), "written before");
}

#[test]
fn pipes_and_devices_are_nodes_too() {
    let stage = Stage::new(LONG);
    let mode = Mode::from_raw_mode(0o640);
    mknodat(CWD, stage.path("fifo"), FileType::Fifo, mode, 0).unwrap();
    let device = rustix::fs::makedev(259, 300);
    mknodat(CWD, stage.path("block"), FileType::BlockDevice, mode, device).unwrap();
    assert!(fs::metadata(stage.path("fifo")).unwrap().file_type().is_fifo());
    let block = fs::metadata(stage.path("block")).unwrap();
    assert!(block.file_type().is_block_device());
    assert_eq!(block.rdev(), device);
    assert_eq!(block.permissions().mode() & 0o777, 0o640);
}
