//! A block store whose directory is missing for a while.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use crate::kept::{Kept, can_mount};

/// Longer than the block store repeats a request by itself.
const AWAY: Duration = Duration::from_secs(12);

const BYTES: usize = 4 << 20;

#[test]
fn a_read_waits_while_the_blocks_are_missing() {
    if !can_mount() {
        return;
    }
    let kept = Kept::new(None);
    fs::create_dir(kept.path("bucket")).unwrap();
    let content = vec![4; BYTES];
    fs::write(kept.path("bucket/file"), &content).unwrap();
    // The new mount has an empty cache.
    let kept = kept.anew();
    let data = kept.path("../data");
    let (blocks, away) = (data.join("blocks"), data.join("away"));
    fs::rename(&blocks, &away).unwrap();
    let began = Instant::now();
    thread::scope(|scope| {
        let reading = scope.spawn(|| fs::read(kept.path("bucket/file")));
        thread::sleep(AWAY);
        assert!(!reading.is_finished(), "it waits");
        fs::rename(&away, &blocks).unwrap();
        assert!(reading.join().unwrap().unwrap() == content);
    });
    assert!(began.elapsed() >= AWAY);
}
