//! Decides from records alone which bytes go into a new pack.
//!
//! For example, a pack of 8 MiB with two owners, of which one has lost its name, has only the
//! slices of the other one to move.

use std::collections::BTreeMap;
use std::ops::Range;

use block::BlockRef;
use layout::Relocation;
use namespace::add_pack_shares;
use record::{BlockId, Content, DecodeError, Ino, Inode, InodeBody, Orphan, Slice, key};
use session::scan::slices_of;
use store::{Guard, Plan, Value, Write};

use crate::repack_queue::is_sparse;

/// An owner of a pack (a file or a part with bytes in a block of several), as read.
#[derive(Clone, Debug)]
pub(super) struct PackOwner {
    pub(super) ino: Ino,
    /// The record of the owner's inode; `None` for a part of an upload.
    pub(super) record: Option<Value>,
    /// True if the owner has lost its name, so that the reaper will release its share.
    pub(super) leaving: bool,
}

/// The state of a pack (a block of several files), on which its treatment by the rewriter depends.
#[derive(Debug)]
pub(super) enum PackState {
    /// Enough of the pack is live (referenced), or none of it will be soon: nothing is done.
    Dense,
    /// The pack is sparse (less than half is live) and has owners that cannot be moved here. The
    /// given owners have content maps in pages, so the compactor moves them.
    Immovable(Vec<Ino>),
    /// The pack is sparse (less than half is live), and all its owners can be moved.
    Sparse(Source),
}

/// A file whose bytes are to be moved to another pack.
#[derive(Clone, Debug)]
struct Mover {
    record: Value,
    inode: Inode,
}

/// A sparse pack: a block of several files of which less than half is live. Its live bytes are to
/// be moved.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) block: BlockRef,
    /// The live (referenced) ranges of the pack's content, in order and without overlap.
    pub(super) runs: Vec<Range<u32>>,
    /// The total length of these ranges, in bytes.
    pub(super) bytes: u32,
    movers: BTreeMap<Ino, Mover>,
}

impl Source {
    /// Returns the number of files to move.
    pub(super) fn owners(&self) -> usize {
        self.movers.len()
    }

    /// Returns the files' slices in this pack.
    pub(super) fn slices(&self) -> impl Iterator<Item = &Slice> {
        let all = self.movers.values().flat_map(|mover| slices_of(&mover.inode));
        all.filter(|slice| slice.block == self.block.id)
    }
}

/// Determines from all owners of a pack (a block of several files) if it is sparse and if its
/// owners can be moved. Fails if an owner's record cannot be decoded.
pub(super) fn classify(pack: BlockId, owners: Vec<PackOwner>) -> Result<PackState, DecodeError> {
    let (mut movers, mut fixed, mut paged) = (BTreeMap::new(), false, Vec::new());
    for PackOwner { ino, record, .. } in owners.into_iter().filter(|owner| !owner.leaving) {
        let Some(record) = record else {
            fixed = true;
            continue;
        };
        let inode = Inode::decode(&key::inode(ino), &record)?;
        if inode.file().is_some_and(|file| matches!(file.content, Content::Pages(_))) {
            paged.push(ino);
        }
        // An owner that does not reference the pack any more was moved before. The reaper has yet
        // to remove its share.
        if slices_of(&inode).iter().any(|slice| slice.block == pack) {
            movers.insert(ino, Mover { record, inode });
        }
    }
    fixed |= !paged.is_empty();
    let named = |mover: &Mover| {
        let slices = slices_of(&mover.inode).iter().copied();
        slices.filter(|slice| slice.block == pack).collect::<Vec<Slice>>()
    };
    let slices: Vec<Slice> = movers.values().flat_map(named).collect();
    let Some(first) = slices.first() else {
        return Ok(if fixed { PackState::Immovable(paged) } else { PackState::Dense });
    };
    let reference = |slice: &Slice| (slice.block_length, slice.block_crc32c);
    if slices.iter().any(|slice| reference(slice) != reference(first)) {
        return Err(DecodeError::Field("block length"));
    }
    let block = BlockRef { id: pack, length: first.block_length, crc32c: first.block_crc32c };
    let runs = runs(&slices);
    let bytes = runs.iter().map(|run| run.end - run.start).sum();
    Ok(match fixed {
        _ if !is_sparse(u64::from(bytes), block.length) => PackState::Dense,
        true => PackState::Immovable(paged),
        false => PackState::Sparse(Source { block, runs, bytes, movers }),
    })
}

/// Returns the ranges that slices (runs of block bytes) cover in their block, each byte once.
fn runs(slices: &[Slice]) -> Vec<Range<u32>> {
    // A slice is within its block, or its record would not decode.
    let mut named: Vec<Range<u32>> = slices
        .iter()
        .map(|slice| slice.offset..slice.offset.saturating_add(slice.length))
        .collect();
    named.sort_unstable_by_key(|run| run.start);
    let mut runs: Vec<Range<u32>> = Vec::with_capacity(named.len());
    for run in named {
        match runs.last_mut() {
            Some(last) if run.start <= last.end => last.end = last.end.max(run.end),
            _ => runs.push(run),
        }
    }
    runs
}

/// The content of one new pack (a block of several files): the live bytes of sparse packs.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) sources: Vec<Source>,
    /// The total length of the live bytes, in content bytes.
    pub(super) bytes: u32,
    movers: BTreeMap<Ino, Mover>,
}

impl Batch {
    /// Returns the number of files to move.
    pub(super) fn owners(&self) -> usize {
        self.movers.len()
    }

    /// Adds the live bytes of a sparse pack to the new pack. Returns the sparse pack if the batch
    /// has one of its owners with an older record, because the two changes of that owner's inode
    /// would conflict.
    pub(super) fn add(&mut self, source: Source) -> Result<(), Source> {
        let before = |(ino, mover): (&Ino, &Mover)| {
            self.movers.get(ino).is_some_and(|known| known.record != mover.record)
        };
        if source.movers.iter().any(before) {
            return Err(source);
        }
        self.bytes = self.bytes.saturating_add(source.bytes);
        self.movers.extend(source.movers.iter().map(|(ino, mover)| (*ino, mover.clone())));
        self.sources.push(source);
        Ok(())
    }

    /// Returns the change of each owner's inode, given the new places of its bytes.
    pub(super) fn swaps(&self, placed: &Relocation) -> Vec<Swap> {
        self.movers.iter().filter_map(|(ino, mover)| Swap::new(*ino, mover, placed)).collect()
    }
}

/// The change of one owner's inode, which moves its bytes to a new pack.
#[derive(Debug)]
pub(super) struct Swap {
    /// The inode of the owner.
    ino: Ino,
    record: Value,
    /// The inode as it will be, with slices in the new pack.
    inode: Inode,
    /// For each old pack, the bytes that the owner had in it.
    pub(super) left_packs: BTreeMap<BlockId, u64>,
    /// The owner's slices in the new pack.
    joined: Vec<Slice>,
}

impl Swap {
    fn new(ino: Ino, mover: &Mover, placed: &Relocation) -> Option<Swap> {
        let mut inode = mover.inode.clone();
        let InodeBody::File(file) = &mut inode.body else { return None };
        let Content::Slices(slices) = &mut file.content else { return None };
        let (mut left_packs, mut joined) = (BTreeMap::new(), Vec::new());
        for slice in slices {
            if let Some(new) = placed.locate(slice) {
                *left_packs.entry(slice.block).or_default() += u64::from(slice.length);
                *slice = new;
                joined.push(new);
            }
        }
        let record = mover.record.clone();
        (!joined.is_empty()).then_some(Swap { ino, record, inode, left_packs, joined })
    }

    /// Returns the number of bytes that are moved.
    pub(super) fn bytes(&self) -> u64 {
        self.left_packs.values().sum()
    }

    /// Returns the plan that changes the inode. `orphans` has an unused inode number for each old
    /// pack: for the orphan record by which the reaper releases the owner's share of it.
    pub(super) fn plan(&self, orphans: &[Ino]) -> Plan {
        let at = key::inode(self.ino);
        let mut writes = vec![Write::Put(at.clone(), self.inode.encode(&at))];
        writes.extend(add_pack_shares(&self.joined, self.ino));
        let mut guards = vec![Guard::Equals(at, self.record.clone())];
        for ((pack, length), ino) in self.left_packs.iter().zip(orphans) {
            let orphan = key::orphan(*ino);
            guards.push(Guard::Absent(orphan.clone()));
            let moved = Orphan::Moved { pack: *pack, owner: self.ino, length: *length };
            writes.push(Write::Put(orphan.clone(), moved.encode(&orphan)));
        }
        Plan { guards, writes }
    }
}
