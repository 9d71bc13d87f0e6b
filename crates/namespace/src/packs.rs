//! What records say of packs: blocks that several files lie in.
//!
//! A block that one file owns needs no record of that. A pack has several owners from the start,
//! and they come and go one by one. So each of them has a *share* from its first plan on: a record
//! under the pack and the owner. A pack without shares has no owner.

use std::collections::BTreeMap;

use record::{BlockId, Ino, Mark, Slice, key};
use store::Write;

/// The bytes that slices name in each pack among their blocks.
fn bytes_in_packs(slices: &[Slice]) -> BTreeMap<BlockId, i64> {
    let mut packs = BTreeMap::new();
    for slice in slices.iter().filter(|slice| slice.block.is_pack()) {
        *packs.entry(slice.block).or_default() += i64::from(slice.length);
    }
    packs
}

/// That a new owner has a share of the packs among these slices' blocks.
pub fn add_pack_shares(slices: &[Slice], owner: Ino) -> Vec<Write> {
    let join = |(pack, bytes): (BlockId, i64)| {
        let share = key::share(pack, owner);
        [Write::Put(share.clone(), Mark.encode(&share)), Write::Add(key::live(pack), bytes)]
    };
    bytes_in_packs(slices).into_iter().flat_map(join).collect()
}
