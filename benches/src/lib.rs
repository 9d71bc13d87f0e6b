//! The cases of the benchmark of pure code. Each case is a closure that does one unit of work.
//!
//! For example, one case decodes an inode record. A test runs each closure once, so that the cases
//! keep working; it does not measure times.

use std::collections::HashMap;
use std::hint::black_box;

use block::{BlockRef, Sealer};
use bytes::Bytes;
use namespace::{Env, Hints, NoHints, Path, Publish, Run, WriteCondition};
use record::{
    Attributes, BlockId, Content, Dentry, File, Ino, Inode, InodeBody, Nonce, Origin, Slice,
    SortKey, Tag, Timestamp, key,
};
use s3::response::{ListObjectsV2Output, ObjectEntry};
use store::{Key, Value};

/// A piece of code to time.
pub struct Case {
    /// The unit of work, as the output names it.
    pub name: &'static str,
    /// The bytes that one unit of work processes; 0 if a rate in bytes makes no sense.
    pub bytes: u64,
    /// Does one unit of work.
    pub work: Box<dyn FnMut()>,
}

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Case").field("name", &self.name).finish_non_exhaustive()
    }
}

const BLOCK_BYTES: u32 = 4 << 20;
const PAGE_KEYS: usize = 1_000;

/// Returns all cases.
pub fn cases() -> Vec<Case> {
    vec![encode_inode(), decode_inode(), plan_publish(), seal_block(), open_block(), write_page()]
}

fn inode() -> Inode {
    let slice = |number: u32| Slice {
        position: u64::from(number) * u64::from(BLOCK_BYTES),
        block: BlockId::new(Nonce([7; 10]), u64::from(number)),
        block_length: BLOCK_BYTES,
        block_crc32c: 0x1234_5678 ^ number,
        offset: 0,
        length: BLOCK_BYTES,
    };
    let now = Timestamp(1_790_000_000_000_000_000);
    Inode {
        attributes: Attributes::new(0o644, 1, 1, now),
        bucket: Ino(2_000),
        xattrs: Vec::new(),
        body: InodeBody::File(Box::new(File::new(
            4 * u64::from(BLOCK_BYTES),
            Tag::Md5([9; 16]),
            Content::Slices((0..4).map(slice).collect()),
        ))),
    }
}

fn encode_inode() -> Case {
    let (inode, key) = (inode(), key::inode(Ino(5_000)));
    let work = move || drop(black_box(inode.encode(&key)));
    Case { name: "encode an inode of four slices", bytes: 0, work: Box::new(work) }
}

fn decode_inode() -> Case {
    let key = key::inode(Ino(5_000));
    let record = inode().encode(&key);
    let work = move || drop(black_box(Inode::decode(&key, &record)));
    Case { name: "decode an inode of four slices", bytes: 0, work: Box::new(work) }
}

/// The records of a bucket and two directories, as in a gateway's record cache.
#[derive(Debug, Default)]
struct CachedRecords(HashMap<Key, Value>);

impl Hints for CachedRecords {
    fn record(&self, key: &Key) -> Option<Option<Value>> {
        self.0.get(key).cloned().map(Some)
    }

    fn sibling(&self, directory: Ino, not: &[u8]) -> Option<Key> {
        NoHints.sibling(directory, not)
    }
}

fn plan_publish() -> Case {
    let mut hints = CachedRecords::default();
    let names: [(&[u8], Origin); 3] =
        [(b"bucket", Origin::Made), (b"a", Origin::Implied), (b"b", Origin::Implied)];
    let mut parent = Ino::ROOT;
    // With all parents cached, the planner must need no read, so the case measures planning only.
    for (ino, (name, origin)) in (2_000..).zip(names) {
        let slot = key::dentry(parent, SortKey::directory(name).as_bytes());
        hints.0.insert(slot.clone(), Dentry::directory(Ino(ino), origin).encode(&slot));
        parent = Ino(ino);
    }
    let (path, inode) = (Path::new(b"bucket", b"a/b/file"), inode());
    let now = Timestamp(1_790_000_000_000_000_000);
    let env = Env { now, earliest_now: now, session: Nonce([7; 10]), random: 7 };
    let work = move || {
        let operation = Publish {
            path: &path,
            ino: Ino(5_000),
            fresh: &[Ino(5_001), Ino(5_002)],
            inode: &inode,
            condition: &WriteCondition::None,
            assumptions: &[],
            writes: &[],
        };
        let next = Run::new(&operation, env).advance(&hints);
        assert!(matches!(black_box(next), namespace::Next::Commit(..)), "hints suffice");
    };
    Case { name: "plan a put below cached directories", bytes: 0, work: Box::new(work) }
}

fn content() -> Vec<u8> {
    (0..BLOCK_BYTES).map(|at| at.to_le_bytes()[0] ^ at.to_le_bytes()[1]).collect()
}

fn seal(content: &[u8]) -> block::SealedBlock {
    let mut sealer = Sealer::new(BlockId::new(Nonce([7; 10]), 1), BLOCK_BYTES);
    sealer.push_copy(content);
    sealer.finish()
}

fn seal_block() -> Case {
    let content = content();
    let work = move || drop(black_box(seal(&content)));
    Case { name: "seal a block", bytes: BLOCK_BYTES.into(), work: Box::new(work) }
}

fn open_block() -> Case {
    let sealed = seal(&content());
    let (reference, bytes): (BlockRef, Bytes) = (sealed.reference(), sealed.to_bytes());
    let work = move || {
        let opened = block::sealed::open(reference, 0..BLOCK_BYTES, bytes.clone());
        assert!(black_box(opened).is_ok(), "a sealed block opens");
    };
    Case { name: "open a block", bytes: BLOCK_BYTES.into(), work: Box::new(work) }
}

fn write_page() -> Case {
    let entry = |number: usize| ObjectEntry {
        key: format!("data/year=2026/part-{number:06}.parquet"),
        last_modified: time::OffsetDateTime::UNIX_EPOCH,
        etag: "d41d8cd98f00b204e9800998ecf8427e".to_owned(),
        size: 123_456,
        storage_class: None,
        checksum: None,
        owner: None,
    };
    let page = ListObjectsV2Output {
        name: "bucket".to_owned(),
        prefix: Some("data/year=2026/".to_owned()),
        delimiter: Some("/".to_owned()),
        max_keys: 1_000,
        url_encoded: true,
        token: None,
        next_token: None,
        start_after: None,
        contents: (0..PAGE_KEYS).map(entry).collect(),
        common_prefixes: Vec::new(),
    };
    let work = move || drop(black_box(page.to_xml()));
    Case { name: "write a page of 1,000 keys", bytes: 0, work: Box::new(work) }
}

#[cfg(test)]
mod tests;
