//! Share records of packs: blocks that hold the data of several files.
//!
//! A block of one file has no share records. A pack has several owners from the start, and they
//! come and go one by one. So each owner has a share record, under the pack and the owner, from its
//! first plan on. A pack without share records has no owner, and the reaper deletes it. For
//! example, a pack of 40 small objects has 40 share records; each DELETE of an object removes one.

use std::collections::BTreeMap;

use record::{BlockId, Ino, Mark, Slice, key};
use store::Write;

/// The bytes that these slices use of each pack, which is a block with the data of several files.
/// Blocks of one file are left out.
fn bytes_in_packs(slices: &[Slice]) -> BTreeMap<BlockId, i64> {
    let mut packs = BTreeMap::new();
    for slice in slices.iter().filter(|slice| slice.block.is_pack()) {
        *packs.entry(slice.block).or_default() += i64::from(slice.length);
    }
    packs
}

/// The writes that make the file `owner` an owner of the packs (blocks of several files) among
/// these slices: for each pack a share record, which names the owner, and an addition to the
/// counter of the pack's live bytes.
pub fn add_pack_shares(slices: &[Slice], owner: Ino) -> Vec<Write> {
    let join = |(pack, bytes): (BlockId, i64)| {
        let share = key::share(pack, owner);
        [Write::Put(share.clone(), Mark.encode(&share)), Write::Add(key::live(pack), bytes)]
    };
    bytes_in_packs(slices).into_iter().flat_map(join).collect()
}
