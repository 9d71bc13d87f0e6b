use std::ops::Range;

use async_trait::async_trait;
use block::{Arrival, BlockError, BlockId, BlockReader, BlockRef};
use bytes::Bytes;
use record::{Nonce, Slice};

use super::read_from_memory;

/// Holds the first eight bytes of each block, of which the first one is the block's number.
#[derive(Debug)]
struct Eight;

#[async_trait]
impl BlockReader for Eight {
    async fn read(&self, _: BlockRef, _: Range<u32>) -> Result<Vec<Bytes>, BlockError> {
        unreachable!("nothing is read that is not in memory")
    }

    fn in_memory(&self, block: BlockRef, range: Range<u32>) -> Option<Vec<Bytes>> {
        let content = format!("{:x}2345678", block.crc32c);
        let range = usize::try_from(range.start).ok()?..usize::try_from(range.end).ok()?;
        Some(vec![Bytes::copy_from_slice(content.as_bytes().get(range)?)])
    }

    fn arrival(&self, _: BlockRef, _: Range<u32>) -> Option<Arrival> {
        None
    }

    async fn open(&self, _: &mut Arrival) -> Result<(), BlockError> {
        unreachable!("nothing arrives")
    }

    async fn advance(&self, _: &mut Arrival) -> Result<bool, BlockError> {
        unreachable!("nothing arrives")
    }
}

fn slice(position: u64, number: u32, offset: u32, length: u32) -> Slice {
    let block = BlockId::new(Nonce([0; 10]), u64::from(number));
    Slice { position, block, block_length: 20, block_crc32c: number, offset, length }
}

#[track_caller]
fn check(range: Range<u64>, due: Option<&str>) {
    // A hole from 16 to 20, and a slice whose first bytes are in memory.
    let slices =
        [slice(0, 0xa, 0, 8), slice(8, 0xb, 2, 4), slice(12, 0xc, 4, 4), slice(20, 0xd, 0, 20)];
    let found = read_from_memory(&Eight, &slices, range);
    let found = found.map(|found| String::from_utf8(found.concat()).expect("digits"));
    assert_eq!(found.as_deref(), due);
}

#[test]
fn memory_returns_a_whole_range_or_nothing() {
    check(0..8, Some("a2345678"));
    check(3..5, Some("45"));
    check(6..14, Some("78345656"));
    check(14..16, Some("78"));
    check(14..17, None);
    check(17..18, None);
    check(20..28, Some("d2345678"));
    check(26..30, None);
    check(38..45, None);
    check(50..51, None);
}
