//! What records say of packs: blocks that several files lie in.

use std::collections::BTreeMap;

use record::{BlockId, Ino, Mark, Slice, key};
use store::Write;

/// The bytes that slices name in each pack among their blocks.
pub(crate) fn bytes_in_packs(slices: &[Slice]) -> BTreeMap<BlockId, i64> {
    let mut packs = BTreeMap::new();
    for slice in slices.iter().filter(|slice| slice.block.is_pack()) {
        *packs.entry(slice.block).or_default() += i64::from(slice.length);
    }
    packs
}

/// That a new file owns its share of the packs among these slices' blocks. Every owner of a pack
/// says so from its first plan on, because there may always be others.
pub(crate) fn join_packs(slices: &[Slice], owner: Ino) -> Vec<Write> {
    let join = |(pack, bytes): (BlockId, i64)| {
        let share = key::share(pack, owner);
        [Write::Put(share.clone(), Mark.encode(&share)), Write::Add(key::live(pack), bytes)]
    };
    bytes_in_packs(slices).into_iter().flat_map(join).collect()
}
