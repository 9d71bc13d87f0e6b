//! A mount whose block store is full.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::kept::{Kept, can_mount, eventually, make};

/// The size of the file system for blocks.
const ROOM: &str = "size=32m";

const MEGABYTE: usize = 1 << 20;

/// The limit of megabytes to write: more than the space of the blocks and the memory for dirty
/// data.
const MOST: usize = 256;

/// The limit of time until a write fails: a full store answers, so the write does not wait as for
/// an unreachable one.
const TOLD_WITHIN: Duration = Duration::from_secs(30);

/// A small file system, until it is dropped.
struct Small(PathBuf);

impl Drop for Small {
    fn drop(&mut self) {
        let _gone = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn df_shows_the_usage_and_the_free_space_of_the_directory() {
    if !can_mount() {
        return;
    }
    let kept = Kept::new(None);
    let told = || rustix::fs::statvfs(kept.path("")).unwrap();
    fs::create_dir(kept.path("bucket")).unwrap();
    fs::write(kept.path("bucket/file"), vec![1; 3 * MEGABYTE]).unwrap();
    eventually("what was written is used", || {
        let told = told();
        (told.f_blocks - told.f_bfree) * told.f_frsize == 3 * MEGABYTE as u64
    });
    // A bucket and a file.
    assert_eq!(told().f_files - told().f_ffree, 2);
    let beside = rustix::fs::statvfs(kept.folder.path()).unwrap();
    let (told, beside) = (told().f_bavail * told().f_frsize, beside.f_bavail * beside.f_frsize);
    assert!(told.abs_diff(beside) < 1 << 30, "{told} free, and {beside} beside it");
}

#[test]
fn a_write_without_space_fails_with_enospc() {
    if !can_mount() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let blocks = folder.path().join("data/blocks");
    fs::create_dir_all(&blocks).unwrap();
    let mount =
        Command::new("mount").args(["-t", "tmpfs", "-o", ROOM, "none"]).arg(&blocks).status();
    assert!(mount.unwrap().success());
    let small = Small(blocks);
    let kept = Kept::over(folder, None);
    fs::create_dir(kept.path("bucket")).unwrap();
    let before = vec![1; 4 * MEGABYTE];
    fs::write(kept.path("bucket/before"), &before).unwrap();

    let (mut file, began) = (make(&kept.path("bucket/large")), Instant::now());
    let piece = vec![2; MEGABYTE];
    let told = (0..MOST).find_map(|_| file.write_all(&piece).err());
    let told = told.expect("there is neither room nor memory for all of it");
    assert_eq!(told.kind(), ErrorKind::StorageFull, "{told}");
    assert!(began.elapsed() < TOLD_WITHIN, "after {:?}", began.elapsed());
    assert_eq!(file.sync_all().unwrap_err().kind(), ErrorKind::StorageFull);
    drop(file);
    assert_eq!(fs::read(kept.path("bucket/before")).unwrap(), before);
    eventually("as much is told to be free as the folder of blocks has", || {
        let free = |place: &Path| {
            let told = rustix::fs::statvfs(place).unwrap();
            told.f_bavail * told.f_frsize
        };
        free(&kept.path("")) == free(&small.0) && free(&small.0) < 32 * MEGABYTE as u64
    });

    fs::remove_file(kept.path("bucket/large")).unwrap();
    let after = vec![3; 4 * MEGABYTE];
    eventually("there is room again", || {
        let written = File::create(kept.path("bucket/after")).and_then(|mut file| {
            file.write_all(&after)?;
            file.sync_all()
        });
        written.is_ok()
    });
    let kept = kept.anew();
    assert_eq!(fs::read(kept.path("bucket/before")).unwrap(), before);
    assert_eq!(fs::read(kept.path("bucket/after")).unwrap(), after);
}
