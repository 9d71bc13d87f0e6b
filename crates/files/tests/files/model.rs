//! One file against an array of bytes: whatever is written, cut, synced and opened anew.

use std::sync::Arc;

use files::{HandleId, OpenMode, SetNode};
use proptest::prelude::*;

use super::{Bench, WRITES, bytes};

/// Files here grow to at most this: several blocks.
const SPAN: usize = 300 << 10;

#[derive(Clone, Debug)]
enum Act {
    Write(usize, usize, u8),
    Append(usize, u8),
    Resize(usize),
    Zero(usize, usize),
    Sync,
    Reopen(bool),
    Read(usize, usize),
    Put(usize, u8),
    Destage,
    Reap,
}

fn act() -> impl Strategy<Value = Act> {
    let length = || prop_oneof![1..100_usize, 1..20_000_usize, 60_000..70_000_usize];
    prop_oneof![
        8 => (0..SPAN, length(), any::<u8>()).prop_map(|(at, n, seed)| Act::Write(at, n, seed)),
        3 => (length(), any::<u8>()).prop_map(|(n, seed)| Act::Append(n, seed)),
        3 => (0..SPAN).prop_map(Act::Resize),
        1 => (0..SPAN, length()).prop_map(|(at, n)| Act::Zero(at, n)),
        4 => Just(Act::Sync),
        2 => any::<bool>().prop_map(Act::Reopen),
        4 => (0..SPAN, length()).prop_map(|(at, n)| Act::Read(at, n)),
        1 => (0..SPAN, any::<u8>()).prop_map(|(n, seed)| Act::Put(n, seed)),
        1 => Just(Act::Destage),
        1 => Just(Act::Reap),
    ]
}

/// Writes to the model, which grows by zeros.
fn lay(model: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    let end = at + bytes.len();
    if model.len() < end {
        model.resize(end, 0);
    }
    model[at..end].copy_from_slice(bytes);
}

/// The file in both views, and what it should be.
struct Subject {
    bench: Bench,
    handle: HandleId,
    model: Vec<u8>,
}

impl Subject {
    async fn new() -> Subject {
        let bench = Bench::new().await;
        bench.write("f", b"").await;
        let handle = bench.open("f", WRITES).await;
        Subject { bench, handle, model: Vec::new() }
    }

    async fn reopen(&mut self, mode: OpenMode) {
        self.bench.close(self.handle).await;
        self.handle = self.bench.open("f", mode).await;
    }

    async fn read(&self, at: u64, length: u64) -> Vec<u8> {
        self.bench.files.read(self.handle, at, length).await.unwrap().concat()
    }

    async fn act(&mut self, act: &Act) {
        let (files, handle) = (Arc::clone(&self.bench.files), self.handle);
        match *act {
            Act::Write(at, length, seed) => {
                let bytes = bytes(length, seed);
                files.write(handle, at as u64, &bytes, false, false).await.unwrap();
                lay(&mut self.model, at, &bytes);
            }
            Act::Append(length, seed) => {
                let bytes = bytes(length, seed);
                files.write(handle, 0, &bytes, true, false).await.unwrap();
                let end = self.model.len();
                lay(&mut self.model, end, &bytes);
            }
            Act::Resize(size) => {
                let found = files.look_up(self.bench.bucket, b"f").await.unwrap();
                let change = SetNode { size: Some(size as u64), ..SetNode::default() };
                let set = files.set(found.ino, Some(handle), change).await.unwrap();
                assert_eq!(set.size, size as u64);
                self.model.resize(size, 0);
            }
            Act::Zero(at, length) => {
                files.zero(handle, at as u64, length as u64, true).await.unwrap();
                let end = (at + length).min(self.model.len());
                if at < end {
                    self.model[at..end].fill(0);
                }
            }
            Act::Sync => {
                files.flush(handle).await.unwrap();
                assert!(self.bench.get("f").await.unwrap() == self.model);
            }
            Act::Reopen(truncates) => {
                self.reopen(OpenMode { writes: true, truncates, ..OpenMode::default() }).await;
                if truncates {
                    self.model.clear();
                }
            }
            Act::Read(at, length) => {
                let read = self.read(at as u64, length as u64).await;
                let size = self.model.len();
                assert!(read == self.model[at.min(size)..(at + length).min(size)]);
            }
            Act::Put(size, seed) => {
                self.bench.close(handle).await;
                self.model = bytes(size, seed);
                self.bench.put("f", &self.model).await;
                self.handle = self.bench.open("f", WRITES).await;
            }
            Act::Destage => {
                self.bench.volume.destage_now().await.unwrap();
            }
            Act::Reap => {
                // The reaper waits for those who have something open.
                self.bench.close(handle).await;
                self.bench.volume.reap_now().await.unwrap();
                self.handle = self.bench.open("f", WRITES).await;
            }
        }
        let found = files.look_up(self.bench.bucket, b"f").await.unwrap();
        assert_eq!(found.size, self.model.len() as u64);
    }
}

async fn run(acts: Vec<Act>) {
    let mut subject = Subject::new().await;
    for act in &acts {
        subject.act(act).await;
    }
    let Subject { bench, handle, model } = &subject;
    assert!(subject.read(0, u64::MAX).await == *model, "at the end, before the close");
    bench.close(*handle).await;
    assert!(bench.get("f").await.unwrap() == *model, "at the end");
    assert!(bench.cat("f").await.unwrap() == *model, "at the end, through the other view");
    bench.volume.reap_now().await.unwrap();
    assert!(bench.get("f").await.unwrap() == *model, "after the reaper");
    bench.volume.close().await;
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn a_file_is_an_array_of_bytes(acts in prop::collection::vec(act(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(run(acts));
    }
}
