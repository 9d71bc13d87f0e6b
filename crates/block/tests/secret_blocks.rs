//! Encrypted blocks: the contract of block stores, the golden bytes, every kind of damage, and the
//! errors of ring keys.

mod damages;

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};
use block::{
    BlockError, BlockErrorKind, BlockId, BlockPage, BlockStore, ByteSource, Encrypting,
    FolderBlocks, MemoryBlocks, Nonce, Observed, SealedBlock, Stored, sealed,
};
use bytes::Bytes;
use damages::{RING, content, each_damage_is_corrupt, id, object, read, ring, seal};
use futures::executor::block_on;
use keyring::{FixedRing, RingError, RingErrorKind, RingKey, RingKeys};
use proptest::prelude::*;
use record::RingNumber;
use tempfile::TempDir;

mod memory {
    use std::future::{Ready, ready};

    use super::*;

    fn fresh() -> Ready<Option<((), Encrypting<MemoryBlocks>)>> {
        ready(Some(((), Encrypting::new(MemoryBlocks::new(), ring()))))
    }

    block::conformance!(fresh, secret);

    mod plain_blocks {
        use super::*;

        block::conformance!(fresh);
    }
}

mod folder {
    use super::*;

    async fn fresh() -> Option<(TempDir, Encrypting<FolderBlocks>)> {
        let root = TempDir::new().expect("a folder for the test");
        let blocks = FolderBlocks::open(root.path()).await.expect("a fresh folder opens");
        Some((root, Encrypting::new(blocks, ring())))
    }

    block::conformance!(fresh, secret);
}

/// A store of which the objects can be replaced, and which returns them in frames of some length.
#[derive(Debug)]
struct Altered {
    inner: MemoryBlocks,
    planted: Mutex<HashMap<BlockId, Bytes>>,
    frame_bytes: usize,
}

impl Altered {
    fn new(frame_bytes: usize) -> Arc<Altered> {
        let (inner, planted) = (MemoryBlocks::new(), Mutex::default());
        Arc::new(Altered { inner, planted, frame_bytes })
    }

    fn planted(&self) -> MutexGuard<'_, HashMap<BlockId, Bytes>> {
        self.planted.lock().expect("no test panics while it has the lock")
    }
}

struct Frames(Bytes, usize);

#[async_trait]
impl ByteSource for Frames {
    async fn next(&mut self) -> Result<Option<Bytes>, BlockError> {
        Ok(self.arrived())
    }

    fn arrived(&mut self) -> Option<Bytes> {
        let frame = self.0.split_to(self.0.len().min(self.1));
        Some(frame).filter(|frame| !frame.is_empty())
    }
}

#[async_trait]
impl BlockStore for Altered {
    async fn put(&self, block: &SealedBlock) -> Result<Stored, BlockError> {
        self.inner.put(block).await
    }

    async fn get(&self, id: BlockId, bytes: Range<u64>) -> Result<Bytes, BlockError> {
        if let Some(object) = self.planted().get(&id) {
            let place = |at: u64| usize::try_from(at).expect("a range in memory").min(object.len());
            return Ok(object.slice(place(bytes.start)..place(bytes.end)));
        }
        self.inner.get(id, bytes).await
    }

    fn streams(&self) -> bool {
        true
    }

    async fn open(
        &self,
        id: BlockId,
        bytes: Range<u64>,
    ) -> Result<Box<dyn ByteSource>, BlockError> {
        Ok(Box::new(Frames(self.get(id, bytes).await?, self.frame_bytes)))
    }

    async fn size(&self, id: BlockId) -> Result<Option<u64>, BlockError> {
        match self.planted().get(&id) {
            Some(object) => Ok(Some(object.len() as u64)),
            None => Ok(None),
        }
    }

    async fn delete(&self, id: BlockId) -> Result<(), BlockError> {
        self.inner.delete(id).await
    }

    async fn sessions(&self) -> Result<Vec<Nonce>, BlockError> {
        self.inner.sessions().await
    }

    async fn list(&self, _: Nonce, _: Option<String>) -> Result<BlockPage, BlockError> {
        let planted = self.planted();
        let blocks = planted.iter().map(|(id, object)| (*id, object.len() as u64)).collect();
        Ok(BlockPage { blocks, resume: None })
    }

    async fn mark(&self) -> Result<Option<Bytes>, BlockError> {
        self.inner.mark().await
    }

    async fn set_mark(&self, mark: Bytes) -> Result<(), BlockError> {
        self.inner.set_mark(mark).await
    }

    async fn remove_mark(&self, mark: Bytes) -> Result<(), BlockError> {
        self.inner.remove_mark(mark).await
    }

    async fn probe(&self) -> Result<(), BlockError> {
        self.inner.probe().await
    }
}

#[tokio::test]
async fn each_damage_in_memory_is_corrupt() {
    let inner = Altered::new(10_000);
    let plant = |id, object: Vec<u8>| {
        inner.planted().insert(id, object.into());
        std::future::ready(())
    };
    each_damage_is_corrupt(Arc::clone(&inner), plant).await;
}

#[tokio::test]
async fn each_damage_in_a_folder_is_corrupt() {
    let root = TempDir::new().expect("a folder for the test");
    let inner = FolderBlocks::open(root.path()).await.expect("a fresh folder opens");
    let plant = |id: BlockId, object: Vec<u8>| {
        let group = format!("{:09x}", id.counter() / 4_096);
        let path = root.path().join(id.session().to_string()).join(group).join(id.to_string());
        assert!(path.exists(), "the object of the block");
        std::fs::write(path, object).expect("the object can be replaced");
        std::future::ready(())
    };
    each_damage_is_corrupt(Arc::new(inner), plant).await;
}

#[tokio::test]
async fn damaged_object_has_no_size_and_does_not_hide_others_in_a_listing() {
    let inner = Altered::new(10_000);
    let store = Encrypting::new(Arc::clone(&inner), ring());
    let block = seal(id(1), Some(RING), &content(1, 100_000));
    store.put(&block).await.expect("it can be put");
    let raw = object(&*inner, id(1)).await;
    inner.planted().insert(id(1), raw.clone().into());
    assert_eq!(store.size(id(1)).await.expect("it is whole"), Some(block.sealed_bytes()));
    inner.planted().insert(id(1), raw[..90].to_vec().into());
    let error = store.size(id(1)).await.expect_err("no block has such an object");
    assert_eq!(error.kind(), BlockErrorKind::Corrupt);
    let listed = store.list(id(1).session(), None).await.expect("the listing is complete");
    assert_eq!(listed.blocks, [(id(1), 0)]);
}

#[tokio::test]
async fn other_content_under_the_id_of_a_block_is_found_by_its_record() {
    let (ours, theirs) = (Altered::new(10_000), MemoryBlocks::new());
    let block = seal(id(1), Some(RING), &content(1, 100_000));
    let replay = seal(id(1), Some(RING), &content(2, 100_000));
    let store = Encrypting::new(Arc::clone(&ours), ring());
    store.put(&block).await.expect("it can be put");
    let other = Encrypting::new(theirs, ring());
    other.put(&replay).await.expect("it can be put");
    let theirs = object(other.inner(), id(1)).await;
    ours.planted().insert(id(1), theirs.into());
    let error = read(&store, &block, 0..100_000, false).await.expect_err("the CRC differs");
    assert_eq!(error.kind(), BlockErrorKind::Corrupt, "{error}");
    read(&store, &replay, 0..100_000, false).await.expect("it is a valid block");
}

#[tokio::test]
async fn small_encrypted_block_has_the_golden_bytes() {
    let inner = Arc::new(MemoryBlocks::new());
    let store = Encrypting::new(Arc::clone(&inner), ring());
    let text = b"Ashlar is dressed stone cut into square blocks.\n";
    store.put(&seal(id(7), Some(RingNumber(3)), text)).await.expect("it can be put");
    let golden: String = include_str!("golden/secret.hex").split_whitespace().collect();
    assert_eq!(hex::encode(object(&*inner, id(7)).await), golden);
}

#[tokio::test]
async fn places_refuse_a_block_that_is_to_be_encrypted() {
    let root = TempDir::new().expect("a folder for the test");
    let folder = FolderBlocks::open(root.path()).await.expect("a fresh folder opens");
    let block = seal(id(1), Some(RING), b"marker");
    for store in [&folder as &dyn BlockStore, &MemoryBlocks::new()] {
        let error = store.put(&block).await.expect_err("it would be stored in the clear");
        assert_eq!(error.kind(), BlockErrorKind::Refused, "{error}");
        assert_eq!(store.size(id(1)).await.expect("an answer"), None);
    }
}

#[tokio::test]
async fn id_and_ring_key_of_a_block_must_agree() {
    let store = Encrypting::new(MemoryBlocks::new(), ring());
    let session = Nonce([1; Nonce::BYTES]);
    let both = BlockId::new(session, BlockId::SECRET_BIT | BlockId::BARE_BIT);
    let (secret, plain) = (BlockId::secret(session, 1), BlockId::plain(session, 1));
    for (id, ring) in [(both, Some(RING)), (both, None), (secret, None), (plain, Some(RING))] {
        let error = store.put(&seal(id, ring, b"marker")).await.expect_err("they do not agree");
        assert_eq!(error.kind(), BlockErrorKind::Refused, "{error}");
        assert_eq!(store.inner().size(id).await.expect("an answer"), None);
    }
    store.put(&seal(plain, None, b"marker")).await.expect("it is stored in the clear");
    assert!(object(store.inner(), plain).await.windows(6).any(|bytes| bytes == b"marker"));
    store.put(&seal(secret, Some(RING), b"marker")).await.expect("it is encrypted");
    assert!(!object(store.inner(), secret).await.windows(6).any(|bytes| bytes == b"marker"));
}

/// Ring keys of which each call fails while an error is set.
#[derive(Debug)]
struct Failing(Mutex<Option<RingErrorKind>>);

#[async_trait]
impl RingKeys for Failing {
    async fn key(&self, number: RingNumber) -> Result<Arc<RingKey>, RingError> {
        match *self.0.lock().expect("no test panics while it has the lock") {
            Some(kind) => Err(RingError { number, kind, cause: "planted".to_owned() }),
            None => Ok(Arc::new(RingKey::new([1; 32]))),
        }
    }
}

#[tokio::test]
async fn an_unusable_ring_key_is_named_and_leads_to_the_kind_of_its_error() {
    let keys = Arc::new(Failing(Mutex::new(None)));
    let store = Encrypting::new(MemoryBlocks::new(), Arc::clone(&keys) as Arc<dyn RingKeys>);
    let block = seal(id(1), Some(RingNumber(7)), &content(1, 200_000));
    store.put(&block).await.expect("it can be put");
    let cases = [
        (RingErrorKind::Unknown, BlockErrorKind::Corrupt, BlockErrorKind::Refused),
        (RingErrorKind::Foreign, BlockErrorKind::Corrupt, BlockErrorKind::Refused),
        (RingErrorKind::Refused, BlockErrorKind::Refused, BlockErrorKind::Refused),
        (RingErrorKind::Unavailable, BlockErrorKind::Unavailable, BlockErrorKind::Unavailable),
    ];
    for (planted, reading, writing) in cases {
        *keys.0.lock().unwrap() = Some(planted);
        for range in [0..200_000, 70_000..70_001] {
            for streamed in [false, true] {
                let error =
                    read(&store, &block, range.clone(), streamed).await.expect_err("no key");
                assert_eq!(error.kind(), reading, "{error}");
                assert!(error.to_string().contains("ring key 7"), "{error}");
            }
        }
        let error = store.put(&block).await.expect_err("no key");
        assert_eq!(error.kind(), writing, "{error}");
        assert!(error.to_string().contains("ring key 7"), "{error}");
        *keys.0.lock().unwrap() = None;
        read(&store, &block, 70_000..70_001, false).await.expect("the key can be used again");
    }
}

#[tokio::test]
async fn the_header_tells_the_ring_key_without_the_key() {
    let ring = FixedRing::new([(RingNumber(7), [1; 32])]);
    let place = Arc::new(MemoryBlocks::new());
    let store = Encrypting::new(Arc::clone(&place), Arc::new(ring));
    let block = seal(id(1), Some(RingNumber(7)), &content(1, 200_000));
    assert_eq!(store.ring_of(block.id()).await.unwrap(), None, "there is no such block yet");
    store.put(&block).await.expect("it can be put");
    let other = Encrypting::new(Arc::clone(&place), Arc::new(FixedRing::default()));
    assert_eq!(other.ring_of(block.id()).await.unwrap(), Some(RingNumber(7)));
    let refused = place.ring_of(block.id()).await.expect_err("no layer knows it");
    assert_eq!(refused.kind(), BlockErrorKind::Refused);
}

#[tokio::test]
async fn the_header_is_read_only_if_no_guess_is_right() {
    let inner = Arc::new(Observed::new(MemoryBlocks::new()));
    let writer = Encrypting::new(Arc::clone(&inner), ring());
    let block = |n: u32| seal(id(n.into()), Some(RingNumber(n)), &content(1, 200_000));
    for n in 1..=20 {
        writer.put(&block(n)).await.expect("it can be put");
    }
    let store = Encrypting::new(Arc::clone(&inner), ring());
    let mut requests = Vec::new();
    let mut reads = vec![(1, 0..200_000), (1, 70_000..70_001), (2, 70_000..70_001)];
    reads.extend([1, 2, 3, 2, 1].map(|n| (n, 70_000..70_001)));
    // A block whose ring key is no recent one is remembered itself.
    reads.extend((4..=20).map(|n| (n, 0..200_000)));
    reads.push((1, 70_000..70_001));
    for (n, range) in reads {
        let before = inner.meters().get.requests.get();
        read(&store, &block(n), range, false).await.expect("it can be read");
        requests.push(inner.meters().get.requests.get() - before);
    }
    assert_eq!(requests[..8], [1, 1, 2, 1, 1, 2, 1, 1]);
    assert_eq!(requests[8..], [1; 18]);
}

/// The key and the nonce of a unit.
type Pair = ([u8; 32], [u8; 12]);

/// Decrypts the units of an object by definition, and returns the key and nonce of each with its
/// plaintext.
fn pairs(id: BlockId, ring: u8, object: &[u8]) -> Vec<(Pair, Vec<u8>)> {
    let extracted = Salt::new(HKDF_SHA256, &id.0).extract(&[ring; 32]);
    let mut key = [0; 32];
    let info: [&[u8]; 1] = [b"block"];
    let expanded = extracted.expand(&info, HKDF_SHA256).expect("a key of 32 bytes");
    expanded.fill(&mut key).expect("a key of 32 bytes");
    let cipher = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &key).expect("32 bytes"));
    let (first, rest) = object[32..].split_at(48);
    let units = [first].into_iter().chain(rest.chunks(65_556));
    let open = |(index, unit): (u32, &[u8])| {
        let mut nonce = [0; 12];
        nonce[8..].copy_from_slice(&index.to_be_bytes());
        let number = u32::from(ring).to_be_bytes();
        let associated = [&id.0[..], &number, &index.to_be_bytes()].concat();
        let mut bytes = unit.to_vec();
        let nonce_of = aws_lc_rs::aead::Nonce::assume_unique_for_key(nonce);
        let opened = cipher.open_in_place(nonce_of, Aad::from(associated), &mut bytes);
        ((key, nonce), opened.expect("a unit opens by its definition").to_vec())
    };
    (0..).zip(units).map(open).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn no_key_and_nonce_encrypt_two_plaintexts(
        puts in prop::collection::vec((0_u64..30, 1_u8..5, 1_u32..150_000), 1..20),
    ) {
        let inner = Arc::new(MemoryBlocks::new());
        let store = Encrypting::new(Arc::clone(&inner), ring());
        let mut plaintexts = BTreeMap::new();
        let mut blocks = BTreeMap::new();
        for (counter, ring, length) in puts {
            // An id names one content for ever, so a second draw of a counter repeats the put.
            let (ring, length) = *blocks.entry(counter).or_insert((ring, length));
            let content = content(u8::try_from(counter).unwrap(), length);
            let block = seal(id(counter), Some(RingNumber(ring.into())), &content);
            // The store refuses other bytes under the same id.
            block_on(store.put(&block)).unwrap();
            let object = block_on(object(&*inner, id(counter)));
            let units = pairs(id(counter), ring, &object);
            let sealed: Vec<u8> = units.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
            prop_assert!(sealed == block.to_bytes(), "the units are the sealed bytes");
            for (pair, bytes) in units {
                let owner = plaintexts.entry(pair).or_insert_with(|| (counter, bytes.clone()));
                prop_assert!(*owner == (counter, bytes), "a pair is used twice");
            }
        }
    }

    #[test]
    fn any_range_equals_that_of_the_same_block_in_the_clear(
        length in prop_oneof![1_u32..100, 1_u32..300_000, 65_530_u32..65_545, 131_060_u32..131_085],
        ranges in prop::collection::vec((0_u64..310_000, 1_u64..140_000), 1..6),
        frame_bytes in prop_oneof![1_usize..100, 1_000_usize..200_000],
        learned in any::<bool>(),
    ) {
        let (plain, inner) = (MemoryBlocks::new(), Altered::new(frame_bytes));
        let content = content(3, length);
        let mut store = Encrypting::new(Arc::clone(&inner), ring());
        block_on(plain.put(&seal(id(1), None, &content))).unwrap();
        block_on(store.put(&seal(id(1), Some(RING), &content))).unwrap();
        prop_assert_eq!(block_on(object(&plain, id(1))).len() as u64, sealed::sealed_bytes(length));
        for (start, bytes) in ranges {
            let range = start..start + bytes;
            if !learned {
                store = Encrypting::new(Arc::clone(&inner), ring());
            }
            let expected = block_on(plain.get(id(1), range.clone())).unwrap();
            let found = block_on(store.get(id(1), range.clone())).unwrap();
            prop_assert!(found == expected, "{:?} at once", range);
            let mut source = block_on(store.open(id(1), range.clone())).unwrap();
            let mut found = Vec::new();
            // Alternately as a reader that waits and as one that takes what is there.
            while let Some(frame) = block_on(source.next()).unwrap() {
                found.extend_from_slice(&frame);
                found.extend(source.arrived().into_iter().flatten());
            }
            prop_assert!(found == expected, "{:?} as a stream", range);
        }
    }
}
