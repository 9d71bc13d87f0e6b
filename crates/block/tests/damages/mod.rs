//! The damages of an encrypted block, for each store.

use std::future::Future;
use std::ops::Range;
use std::sync::Arc;

use block::{
    BlockError, BlockErrorKind, BlockId, BlockStore, Encrypting, Nonce, SealedBlock, Sealer, sealed,
};
use keyring::{FixedRing, RingKeys};
use record::RingNumber;

pub(crate) const RING: RingNumber = RingNumber(1);

pub(crate) fn ring() -> Arc<dyn RingKeys> {
    Arc::new(FixedRing::new((1..=20).map(|n| (RingNumber(n), [n.to_le_bytes()[0]; 32]))))
}

pub(crate) fn content(salt: u8, length: u32) -> Vec<u8> {
    (0..length).map(|at| (at ^ (at >> 8)).to_le_bytes()[0] ^ salt).collect()
}

pub(crate) fn seal(id: BlockId, ring: Option<RingNumber>, content: &[u8]) -> SealedBlock {
    let mut sealer = Sealer::new(id, 0);
    if let Some(ring) = ring {
        sealer = sealer.under(ring);
    }
    sealer.push_copy(content);
    sealer.finish()
}

pub(crate) fn id(counter: u64) -> BlockId {
    BlockId::secret(Nonce([0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0xa9]), counter)
}

/// Returns all bytes of an object.
pub(crate) async fn object(store: &dyn BlockStore, id: BlockId) -> Vec<u8> {
    store.get(id, 0..1 << 30).await.expect("the object is there").to_vec()
}

/// Returns the content of a range, read at once or as a stream.
pub(crate) async fn read(
    store: &dyn BlockStore,
    block: &SealedBlock,
    range: Range<u32>,
    streamed: bool,
) -> Result<Vec<u8>, BlockError> {
    let span = sealed::span(block.length(), range.clone());
    let bytes = if streamed {
        let (mut source, mut found) = (store.open(block.id(), span.bytes).await?, Vec::new());
        while let Some(frame) = source.next().await? {
            found.extend_from_slice(&frame);
        }
        found.into()
    } else {
        store.get(block.id(), span.bytes).await?
    };
    Ok(sealed::open(block.reference(), range, bytes)?.concat())
}

/// Returns the damaged forms of an object of four sub-blocks, each with its name.
fn damages(object: &[u8], other: &[u8]) -> Vec<(String, Vec<u8>)> {
    let unit = |index: usize| 80 + (index - 1) * 65_556..80 + index * 65_556;
    let mut found = Vec::new();
    // Magic, format, cipher, reserved, id, ring key, checksum; unit 0 and its tag; the content, the
    // checksum and the tag of units 1 and 2; the last unit and its tag.
    let units = [80, 65_618, 65_630, 70_000, 131_190, 200_000, object.len() - 1];
    for place in [0, 4, 5, 6, 23, 24, 27, 31, 32, 63, 64, 79].into_iter().chain(units) {
        let mut flipped = object.to_vec();
        flipped[place] ^= 0x10;
        found.push((format!("a flipped bit at {place}"), flipped));
    }
    let mut swapped = object.to_vec();
    swapped[unit(1)].copy_from_slice(&object[unit(2)]);
    swapped[unit(2)].copy_from_slice(&object[unit(1)]);
    found.push(("swapped units".to_owned(), swapped));
    let mut strange = object.to_vec();
    strange[unit(2)].copy_from_slice(&other[unit(2)]);
    found.push(("a unit of another block".to_owned(), strange));
    found.push(("another block".to_owned(), other.to_vec()));
    for length in [0, 31, 32, 40, 79, 80, 90, 65_636, 65_640, 196_749, object.len() - 1] {
        found.push((format!("an object of {length} bytes"), object[..length].to_vec()));
    }
    found
}

/// Every damage of an object is `Corrupt` for a reader of the whole block, at once and as a stream.
/// `plant` replaces the object of a block in the store below the layer.
pub(crate) async fn each_damage_is_corrupt<B, F>(
    inner: Arc<B>,
    plant: impl Fn(BlockId, Vec<u8>) -> F,
) where
    B: BlockStore,
    F: Future<Output = ()>,
{
    let store = Encrypting::new(Arc::clone(&inner), ring());
    let block = seal(id(1), Some(RING), &content(1, 200_000));
    let other = seal(id(2), Some(RING), &content(2, 200_000));
    store.put(&block).await.expect("it can be put");
    store.put(&other).await.expect("it can be put");
    let (raw, raw_other) = (object(&*inner, id(1)).await, object(&*inner, id(2)).await);
    for (name, damaged) in damages(&raw, &raw_other) {
        plant(id(1), damaged).await;
        for streamed in [false, true] {
            // A layer that has learned the ring key, and one that has not.
            let fresh = Encrypting::new(Arc::clone(&inner), ring());
            for store in [&store, &fresh] {
                let error = read(store, &block, 0..200_000, streamed).await.expect_err(&name);
                assert_eq!(error.kind(), BlockErrorKind::Corrupt, "{name}: {error}");
            }
        }
    }
    // A damage in the unit of one sub-block leaves the others readable.
    let mut flipped = raw.clone();
    flipped[70_000] ^= 1;
    plant(id(1), flipped).await;
    for streamed in [false, true] {
        let fresh = Encrypting::new(Arc::clone(&inner), ring());
        for store in [&fresh, &store] {
            for range in [0..65_536, 131_072..200_000] {
                let found = read(store, &block, range.clone(), streamed).await;
                let expected = &content(1, 200_000)[range.start as usize..range.end as usize];
                assert_eq!(found.expect("its units are whole"), expected);
            }
            let damaged = read(store, &block, 65_536..65_537, streamed).await;
            let error = damaged.expect_err("its unit is damaged");
            assert_eq!(error.kind(), BlockErrorKind::Corrupt, "{error}");
        }
    }
    plant(id(1), raw).await;
    assert_eq!(
        read(&store, &block, 0..200_000, true).await.expect("it is whole again"),
        content(1, 200_000)
    );
}
