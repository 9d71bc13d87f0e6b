//! What records say of packs: blocks that several files lie in.
//!
//! Every owner of a pack is known from its first plan on, because there may always be others. There
//! are two ways. An owner has a *share*: a record under the pack and the owner. Or it is a file on
//! the pack's *roster*: the numbers that the packer drew when the pack left, for the files that its
//! bodies were going to be. Such a file needs no record: whoever asks for a pack's owners reads the
//! inodes on its roster, and those that name the pack own it. They are many, and the roster is one
//! number.
//!
//! A number on a roster is given to one file, which names the pack from its first plan on or never,
//! and whose inode goes, or ceases to name the pack, once and for good. Who takes the pack out of an
//! inode without letting go of it leaves a share instead, in the same plan. Copies, parts, and
//! what is moved to another pack have shares.

use std::collections::BTreeMap;

use record::{BlockId, Ino, Mark, Roster, Slice, key};
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
pub fn join_packs(slices: &[Slice], owner: Ino) -> Vec<Write> {
    let join = |(pack, bytes): (BlockId, i64)| {
        let share = key::share(pack, owner);
        [Write::Put(share.clone(), Mark.encode(&share)), Write::Add(key::live(pack), bytes)]
    };
    bytes_in_packs(slices).into_iter().flat_map(join).collect()
}

/// That a file on the roster of the pack that its only slice lies in owns it from now on.
pub fn join_listed(slice: &Slice, roster: Roster) -> Vec<Write> {
    vec![
        Write::Max(key::roster(slice.block), roster.to_tally()),
        Write::Add(key::live(slice.block), i64::from(slice.length)),
    ]
}
