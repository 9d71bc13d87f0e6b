//! The content of files.

use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};

use rustix::fs::{FallocateFlags, SeekFrom as SeekTo, copy_file_range, fallocate, seek};
use rustix::io::Errno;

use crate::stage::{LONG, Stage};

/// Returns bytes that depend on their position.
fn pattern(length: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

#[test]
fn written_bytes_are_read_with_and_without_the_cache() {
    let stage = Stage::new(LONG);
    let path = stage.path("file");
    let bytes = pattern((5 << 20) + 777);
    fs::write(&path, &bytes).unwrap();
    assert!(fs::read(&path).unwrap() == bytes);
    // Drops the pages that the write left in the cache.
    stage.session().notifier().inval_inode(fuse::NodeId(2), 0, 0).unwrap();
    assert!(fs::read(&path).unwrap() == bytes);
    let direct = OpenOptions::new()
        .read(true)
        .custom_flags(rustix::fs::OFlags::DIRECT.bits().cast_signed())
        .open(&path)
        .unwrap();
    let mut buffer = vec![0; 8192];
    let aligned = buffer.as_ptr().align_offset(4096);
    direct.read_exact_at(&mut buffer[aligned..aligned + 4096], 1 << 20).unwrap();
    assert!(buffer[aligned..aligned + 4096] == bytes[1 << 20..(1 << 20) + 4096]);
}

#[test]
fn appends_from_two_descriptors_follow_each_other() {
    let stage = Stage::new(LONG);
    let open = || OpenOptions::new().append(true).create(true).open(stage.path("log")).unwrap();
    let (mut one, mut two) = (open(), open());
    for _ in 0..10 {
        one.write_all(b"one ").unwrap();
        two.write_all(b"two ").unwrap();
    }
    assert_eq!(fs::read_to_string(stage.path("log")).unwrap(), "one two ".repeat(10));
}

#[test]
fn truncated_and_extended_range_reads_as_zeros() {
    let stage = Stage::new(LONG);
    let path = stage.path("file");
    fs::write(&path, "abcdef").unwrap();
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(2).unwrap();
    file.set_len(4).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"ab\0\0");
    let reopened = File::create(&path).unwrap();
    assert_eq!(reopened.metadata().unwrap().len(), 0);
}

#[test]
fn holes_are_found_punched_and_filled() {
    const CHUNK: u64 = 256 << 10;
    let stage = Stage::new(LONG);
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create(true).truncate(true);
    let file = file.open(stage.path("sparse")).unwrap();
    file.write_all_at(b"end", 10 * CHUNK).unwrap();
    assert_eq!(seek(&file, SeekTo::Data(0)), Ok(10 * CHUNK));
    assert_eq!(seek(&file, SeekTo::Hole(10 * CHUNK)), Ok(10 * CHUNK + 3));
    assert_eq!(seek(&file, SeekTo::Data(11 * CHUNK)), Err(Errno::NXIO));
    file.write_all_at(&pattern(3 * (256 << 10)), 0).unwrap();
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(&file, punch, CHUNK, CHUNK).unwrap();
    assert_eq!(seek(&file, SeekTo::Hole(0)), Ok(CHUNK));
    let mut byte = [1];
    file.read_exact_at(&mut byte, CHUNK + 5).unwrap();
    assert_eq!(byte, [0]);
    fallocate(&file, FallocateFlags::empty(), 0, 20 * CHUNK).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 20 * CHUNK);
    let refused = fallocate(&file, FallocateFlags::COLLAPSE_RANGE, 0, CHUNK);
    assert_eq!(refused, Err(Errno::OPNOTSUPP));
}

#[test]
fn bytes_are_copied_by_the_file_system() {
    let stage = Stage::new(LONG);
    let bytes = pattern(3_000_000);
    fs::write(stage.path("from"), &bytes).unwrap();
    let from = File::open(stage.path("from")).unwrap();
    let to = File::create(stage.path("to")).unwrap();
    let transfers = stage.transfers();
    assert!(transfers > 0, "writes are counted");
    let (mut source, mut target) = (1000, 5);
    let copied = copy_file_range(&from, Some(&mut source), &to, Some(&mut target), 2_000_000);
    assert_eq!(copied, Ok(2_000_000));
    assert_eq!(stage.transfers(), transfers, "no reading and writing");
    let written = fs::read(stage.path("to")).unwrap();
    assert!(written[5..] == bytes[1000..2_001_000] && written[..5] == [0; 5]);
}

#[test]
fn many_threads_read_and_write_at_once() {
    let stage = Stage::new(LONG);
    std::thread::scope(|scope| {
        for number in 0..8_u8 {
            let path = stage.path(&format!("file-{number}"));
            scope.spawn(move || {
                for round in 0..20_u8 {
                    let content = vec![number ^ round; 50_000 + usize::from(round) * 1000];
                    fs::write(&path, &content).unwrap();
                    let mut file = File::open(&path).unwrap();
                    file.seek(SeekFrom::Start(1)).unwrap();
                    let mut read = Vec::new();
                    file.read_to_end(&mut read).unwrap();
                    assert!(read == content[1..]);
                }
            });
        }
    });
    assert_eq!(fs::read_dir(stage.folder()).unwrap().count(), 8);
}
