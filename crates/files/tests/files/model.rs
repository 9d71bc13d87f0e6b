//! A file compared with an array of bytes, under random writes, truncations, copies, flushes and
//! reopens.

use std::sync::Arc;

use files::{HandleId, OpenMode, SetNode};
use proptest::prelude::*;
use rustix::io::Errno;
use volume::SeekTarget;

use super::{Bench, WRITES, bytes};

/// The maximum file size in these tests: several blocks.
const SPAN: usize = 300 << 10;

#[derive(Clone, Debug)]
enum Act {
    Write(usize, usize, u8),
    Append(usize, u8),
    Resize(usize),
    Zero(usize, usize),
    /// Copy from another file, or from the same one.
    Copy {
        from: usize,
        to: usize,
        length: usize,
        same: bool,
    },
    /// Copy the whole file to another one.
    CopyAway,
    Seek(usize),
    Sync,
    Reopen(bool),
    Read(usize, usize),
    Put(usize, u8),
    Destage,
    Reap,
}

fn act() -> impl Strategy<Value = Act> {
    let long = || prop_oneof![1..100_usize, 60_000..SPAN];
    let length = || prop_oneof![1..100_usize, 1..20_000_usize, 60_000..70_000_usize];
    prop_oneof![
        8 => (0..SPAN, length(), any::<u8>()).prop_map(|(at, n, seed)| Act::Write(at, n, seed)),
        3 => (length(), any::<u8>()).prop_map(|(n, seed)| Act::Append(n, seed)),
        3 => (0..SPAN).prop_map(Act::Resize),
        2 => (0..SPAN, long()).prop_map(|(at, n)| Act::Zero(at, n)),
        4 => (0..SPAN, 0..SPAN, long(), any::<bool>())
            .prop_map(|(from, to, length, same)| Act::Copy { from, to, length, same }),
        1 => Just(Act::CopyAway),
        3 => (0..SPAN).prop_map(Act::Seek),
        4 => Just(Act::Sync),
        2 => any::<bool>().prop_map(Act::Reopen),
        4 => (0..SPAN, length()).prop_map(|(at, n)| Act::Read(at, n)),
        1 => (0..SPAN, any::<u8>()).prop_map(|(n, seed)| Act::Put(n, seed)),
        1 => Just(Act::Destage),
        1 => Just(Act::Reap),
    ]
}

/// Writes to the model, which grows with zeros.
fn lay(model: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    let end = at + bytes.len();
    if model.len() < end {
        model.resize(end, 0);
    }
    model[at..end].copy_from_slice(bytes);
}

/// The file in both views, and its expected content.
struct Subject {
    bench: Bench,
    handle: HandleId,
    model: Vec<u8>,
    /// The expected content of the other file.
    other: Vec<u8>,
}

impl Subject {
    async fn new() -> Subject {
        let bench = Bench::new().await;
        bench.write("f", b"").await;
        let other = bytes(SPAN, 77);
        bench.write("other", &other).await;
        let handle = bench.open("f", WRITES).await;
        Subject { bench, handle, model: Vec::new(), other }
    }

    /// Copies a range in as many steps as necessary.
    async fn copy(&mut self, from: usize, to: usize, length: usize, same: bool) {
        let files = Arc::clone(&self.bench.files);
        let source = if same { self.handle } else { self.bench.open("other", WRITES).await };
        let bytes = if same { &self.model } else { &self.other };
        let end = (from + length).min(bytes.len());
        let expected = bytes.get(from..end).unwrap_or_default().to_vec();
        let mut copied = 0;
        loop {
            let (from, to) =
                ((source, (from + copied) as u64), (self.handle, (to + copied) as u64));
            // The first step asks for more than there is.
            let asked = if copied == 0 { length } else { expected.len() - copied };
            match files.copy(from, to, asked as u64).await {
                Ok(0) => break,
                Ok(step) => copied += usize::try_from(step).unwrap(),
                Err(error) => {
                    let overlaps = from.1 < to.1 + expected.len() as u64
                        && to.1 < from.1 + expected.len() as u64;
                    assert!(error == Errno::INVAL && same && overlaps && copied == 0);
                    return;
                }
            }
        }
        assert_eq!(copied, expected.len());
        if copied > 0 {
            lay(&mut self.model, to, &expected);
        }
        if !same {
            self.bench.close(source).await;
        }
    }

    /// Copies the whole file over the other one.
    async fn copy_away(&mut self) {
        let files = Arc::clone(&self.bench.files);
        let other = self
            .bench
            .open("other", OpenMode { writes: true, truncates: true, ..OpenMode::default() })
            .await;
        let mut copied = 0;
        while let step @ 1.. =
            files.copy((self.handle, copied), (other, copied), 1 << 40).await.unwrap()
        {
            copied += step;
        }
        self.bench.close(other).await;
        self.other.clone_from(&self.model);
        assert!(self.bench.get("other").await.unwrap() == self.other);
    }

    /// Bytes between data ranges must be zeros, and data between holes must be found.
    async fn seek(&self, at: usize) {
        let size = self.model.len() as u64;
        let seek = |at, sought| self.bench.files.seek(self.handle, at, sought);
        let mut at = at as u64;
        if at >= size {
            assert_eq!(seek(at, SeekTarget::Hole).await, Err(Errno::NXIO));
            assert_eq!(seek(at, SeekTarget::Data).await, Err(Errno::NXIO));
        }
        while at < size {
            let data = match seek(at, SeekTarget::Data).await {
                Ok(data) => data,
                Err(error) => {
                    assert_eq!(error, Errno::NXIO);
                    size
                }
            };
            let hole = usize::try_from(at).unwrap()..usize::try_from(data).unwrap();
            assert!(self.model[hole].iter().all(|byte| *byte == 0));
            if data == size {
                break;
            }
            assert_eq!(seek(data, SeekTarget::Data).await, Ok(data));
            at = seek(data, SeekTarget::Hole).await.unwrap();
            assert!(at > data && at <= size);
        }
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
            Act::Copy { from, to, length, same } => self.copy(from, to, length, same).await,
            Act::CopyAway => self.copy_away().await,
            Act::Seek(at) => self.seek(at).await,
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
                self.bench.volume.upkeep().destage_now().await.unwrap();
            }
            Act::Reap => {
                // The reaper does not delete blocks while a handle is open.
                self.bench.close(handle).await;
                self.bench.volume.upkeep().reap_now().await.unwrap();
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
    let Subject { bench, handle, model, other } = &subject;
    assert!(subject.read(0, u64::MAX).await == *model, "at the end, before the close");
    bench.close(*handle).await;
    assert!(bench.get("f").await.unwrap() == *model, "at the end");
    assert!(bench.cat("f").await.unwrap() == *model, "at the end, through the other view");
    bench.volume.upkeep().reap_now().await.unwrap();
    assert!(bench.get("f").await.unwrap() == *model, "after the reaper");
    assert!(bench.get("other").await.unwrap() == *other, "the other one after the reaper");
    bench.check("after the reaper").await;
    for name in ["f", "other"] {
        assert!(bench.delete(name).await);
        bench.volume.upkeep().reap_now().await.unwrap();
        bench.check("when one is gone").await;
    }
    bench.volume.close().await;
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn file_behaves_like_an_array_of_bytes(acts in prop::collection::vec(act(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(run(acts));
    }
}
