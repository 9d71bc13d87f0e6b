//! Reads through a cache with a disk.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use block::{BlockId, BlockReader, BlockRef, SUB_BLOCK_BYTES};
use bytes::Bytes;
use cache::{Cache, CacheOptions, DISK_BYTES_MIN, DISK_PAUSE, DiskOptions};

use crate::odd::{Odd, block, part};

const MIB: u32 = 1 << 20;
/// Four times the capacity of the memory, and less than the write queue.
const BLOCKS: u64 = 8;
/// A timeout that is long enough for a machine that is busy with other tests.
const PATIENT: Duration = Duration::from_secs(20);

async fn open(dir: &Path, timeout: Duration) -> Cache<Odd> {
    let disk = DiskOptions { dir: dir.to_owned(), bytes: DISK_BYTES_MIN, timeout };
    let options = CacheOptions { memory_bytes: 2 << 20, disk: Some(disk) };
    Cache::open(Odd::default(), options).await.unwrap()
}

/// Puts and reads blocks of 1 MiB.
async fn blocks(cache: &Cache<Odd>, numbers: std::ops::Range<u64>) -> Vec<(BlockRef, Bytes)> {
    let mut blocks = Vec::new();
    for number in numbers {
        blocks.push(block(cache.inner(), number, MIB).await);
    }
    blocks
}

async fn check(cache: &Cache<Odd>, blocks: &[(BlockRef, Bytes)]) {
    for (reference, content) in blocks {
        let pieces = cache.read(*reference, 0..MIB).await.unwrap();
        assert!(pieces.concat() == *content, "block {} differs", reference.id);
    }
}

/// The files that hold pages.
fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let layout = found.find(|path| path.is_dir()).expect("a layout");
    fs::read_dir(layout).unwrap().map(|entry| entry.unwrap().path()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn disk_pages_survive_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open(dir.path(), PATIENT).await;
    assert!(cache.has_disk());
    let before = blocks(&cache, 0..BLOCKS).await;
    check(&cache, &before).await;
    assert!(cache.counters().evicted > 80, "memory was too small for all");
    cache.close().await;
    assert_eq!(cache.counters().disk_dropped, 0);
    drop(cache);

    let cache = open(dir.path(), PATIENT).await;
    let again = blocks(&cache, 0..BLOCKS).await;
    assert_eq!(again, before);
    check(&cache, &again).await;
    let seen = cache.counters();
    assert_eq!((cache.inner().asked().0, seen.misses, seen.corrupt), (0, 0, 0), "{seen:?}");
    assert_eq!(seen.disk_hits + seen.memory_hits, BLOCKS * 16);
    cache.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_encrypted_blocks_are_never_on_the_disk() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open(dir.path(), PATIENT).await;
    let secret = BlockId::SECRET_BIT;
    let encrypted = blocks(&cache, secret..secret + BLOCKS).await;
    let clear = blocks(&cache, 0..BLOCKS).await;
    // The second read makes the pages worth a place on the disk.
    for _ in 0..2 {
        check(&cache, &encrypted).await;
        check(&cache, &clear).await;
    }
    assert!(cache.counters().evicted > 80, "memory was too small for all");
    cache.close().await;
    drop(cache);
    let written: Vec<u8> = files(dir.path()).iter().flat_map(|it| fs::read(it).unwrap()).collect();
    let starts = |blocks: &[(BlockRef, Bytes)]| -> HashSet<Vec<u8>> {
        let pages = blocks.iter().flat_map(|(_, content)| content.chunks(SUB_BLOCK_BYTES as usize));
        pages.map(|page| page[..16].to_vec()).collect()
    };
    // Most of the files is empty, and the first two bytes exclude most places.
    let sectors = || written.chunks(4096).filter(|sector| **sector != [0; 4096]);
    let on_disk = |starts: &HashSet<Vec<u8>>| {
        let two = |bytes: &[u8]| usize::from(bytes[0]) << 8 | usize::from(bytes[1]);
        let mut possible = vec![false; 1 << 16];
        starts.iter().for_each(|start| possible[two(start)] = true);
        let places = sectors().flat_map(|sector| sector.windows(16));
        places.filter(|bytes| possible[two(bytes)] && starts.contains(*bytes)).count()
    };
    assert_eq!(on_disk(&starts(&encrypted)), 0);
    assert!(on_disk(&starts(&clear)) > 40, "other pages are on the disk");
}

#[tokio::test(flavor = "multi_thread")]
async fn flipped_bytes_on_the_disk_are_never_served() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open(dir.path(), PATIENT).await;
    let before = blocks(&cache, 0..BLOCKS).await;
    check(&cache, &before).await;
    cache.close().await;
    drop(cache);
    let mut flipped = 0;
    for path in files(dir.path()) {
        let file = fs::File::options().read(true).write(true).open(path).unwrap();
        let length = file.metadata().unwrap().len();
        // In the middle of every other page, wherever it begins.
        for place in (40_000..length).step_by(2 * SUB_BLOCK_BYTES as usize) {
            let mut byte = [0];
            file.read_exact_at(&mut byte, place).unwrap();
            file.write_all_at(&[byte[0] ^ 0x40], place).unwrap();
            flipped += 1;
        }
    }
    assert!(flipped > 30);

    let cache = open(dir.path(), PATIENT).await;
    let again = blocks(&cache, 0..BLOCKS).await;
    check(&cache, &again).await;
    let seen = cache.counters();
    assert!(seen.corrupt > 30, "the damage was detected: {seen:?}");
    assert!(seen.misses >= seen.corrupt, "and damaged pages were fetched: {seen:?}");
    assert!(seen.disk_hits > 30, "{seen:?}");
    check(&cache, &again).await;
    cache.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_disk_files_break_no_read() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open(dir.path(), PATIENT).await;
    let blocks = blocks(&cache, 0..BLOCKS).await;
    check(&cache, &blocks).await;
    cache.close().await;
    for path in files(dir.path()) {
        fs::File::options().write(true).open(path).unwrap().set_len(0).unwrap();
    }
    let before = cache.counters();
    check(&cache, &blocks).await;
    let seen = cache.counters();
    assert!(seen.disk_errors > 0, "{seen:?}");
    assert!(seen.misses > before.misses, "the store was asked instead");
}

#[tokio::test(flavor = "multi_thread")]
async fn late_disk_is_not_used_for_a_while() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open(dir.path(), PATIENT).await;
    let before = blocks(&cache, 0..BLOCKS).await;
    check(&cache, &before).await;
    cache.close().await;
    drop(cache);

    let cache = open(dir.path(), Duration::ZERO).await;
    let again = blocks(&cache, 0..BLOCKS).await;
    check(&cache, &again[..4]).await;
    let late = cache.counters().disk_late;
    assert!(late > 0, "the disk was late");
    assert!(late < 4 * 16, "and was not used for each read: {late}");
    tokio::time::sleep(DISK_PAUSE).await;
    check(&cache, &again[4..]).await;
    assert!(cache.counters().disk_late > late, "but it was used after the pause");
}

#[tokio::test(flavor = "multi_thread")]
async fn unusable_disk_is_skipped() {
    let dir = tempfile::tempdir().unwrap();
    let occupied = dir.path().join("file");
    fs::write(&occupied, b"not a folder").unwrap();
    let first = open(&dir.path().join("cache"), PATIENT).await;
    for unusable in [occupied.join("below"), occupied, dir.path().join("cache")] {
        let cache = open(&unusable, PATIENT).await;
        assert!(!cache.has_disk(), "{}", unusable.display());
        let blocks = blocks(&cache, 0..2).await;
        check(&cache, &blocks).await;
        let (reference, content) = &blocks[1];
        let known = cache.in_memory(*reference, 5..9).unwrap();
        assert!(known.concat() == part(content, 5..9));
        cache.close().await;
    }
    assert!(first.has_disk(), "one process at a time may use a folder");
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_disk_size_replaces_the_old_files() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open(dir.path(), PATIENT).await;
    let before = blocks(&cache, 0..BLOCKS).await;
    check(&cache, &before).await;
    cache.close().await;
    drop(cache);
    let bytes = 2 * DISK_BYTES_MIN;
    let disk = DiskOptions { dir: dir.path().to_owned(), bytes, timeout: PATIENT };
    let options = CacheOptions { memory_bytes: 2 << 20, disk: Some(disk) };
    let cache = Cache::open(Odd::default(), options).await.unwrap();
    let again = blocks(&cache, 0..BLOCKS).await;
    check(&cache, &again).await;
    assert_eq!(cache.counters().disk_hits, 0);
    let layouts = fs::read_dir(dir.path())
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_type().unwrap().is_dir());
    assert_eq!(layouts.count(), 1);
    cache.close().await;
}
