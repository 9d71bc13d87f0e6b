//! What goes into a new pack, decided from records alone.

use std::collections::BTreeMap;
use std::ops::Range;

use block::BlockRef;
use layout::Relocation;
use namespace::join_packs;
use record::{BlockId, Content, DecodeError, Ino, Inode, InodeBody, Orphan, Slice, key};
use session::scan::slices_of;
use store::{Guard, Plan, Value, Write};

use crate::sparse::is_sparse;

/// An owner of a pack as found.
#[derive(Clone, Debug)]
pub(super) struct PackOwner {
    pub(super) ino: Ino,
    /// Its inode's record; a part of an upload has none.
    pub(super) record: Option<Value>,
    /// Whether it has lost its name and will let go by itself.
    pub(super) leaving: bool,
}

/// What is to be done with a pack.
#[derive(Debug)]
pub(super) enum Look {
    /// Nothing: enough of it is alive, or nothing will be soon.
    Fine,
    /// It is sparse, and has owners that cannot be moved with the others: those of them whose content
    /// maps are in pages move by themselves.
    Fixed(Vec<Ino>),
    /// It is worth rewriting.
    Sparse(Source),
}

/// A file that is to be moved.
#[derive(Clone, Debug)]
struct Mover {
    record: Value,
    inode: Inode,
}

/// A sparse pack.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) block: BlockRef,
    /// What is alive of its content, in order and apart.
    pub(super) runs: Vec<Range<u32>>,
    /// How much that is.
    pub(super) bytes: u32,
    movers: BTreeMap<Ino, Mover>,
}

impl Source {
    /// How many files are to be moved.
    pub(super) fn owners(&self) -> usize {
        self.movers.len()
    }

    /// The slices that lie in this pack.
    pub(super) fn slices(&self) -> impl Iterator<Item = &Slice> {
        let all = self.movers.values().flat_map(|mover| slices_of(&mover.inode));
        all.filter(|slice| slice.block == self.block.id)
    }
}

/// Looks at a pack and all of its owners.
pub(super) fn look(pack: BlockId, owners: Vec<PackOwner>) -> Result<Look, DecodeError> {
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
        // An owner that does not name the pack any more was moved before, and its share awaits the
        // reaper.
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
        return Ok(if fixed { Look::Fixed(paged) } else { Look::Fine });
    };
    let reference = |slice: &Slice| (slice.block_length, slice.block_crc32c);
    if slices.iter().any(|slice| reference(slice) != reference(first)) {
        return Err(DecodeError::Field("block length"));
    }
    let block = BlockRef { id: pack, length: first.block_length, crc32c: first.block_crc32c };
    let runs = runs(&slices);
    let bytes = runs.iter().map(|run| run.end - run.start).sum();
    Ok(match fixed {
        _ if !is_sparse(u64::from(bytes), block.length) => Look::Fine,
        true => Look::Fixed(paged),
        false => Look::Sparse(Source { block, runs, bytes, movers }),
    })
}

/// What slices name of their block, each byte once.
fn runs(slices: &[Slice]) -> Vec<Range<u32>> {
    // A slice lies within its block, or its record would not decode.
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

/// What goes into one new pack.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) sources: Vec<Source>,
    /// Content bytes.
    pub(super) bytes: u32,
    movers: BTreeMap<Ino, Mover>,
}

impl Batch {
    /// How many files are to be moved.
    pub(super) fn owners(&self) -> usize {
        self.movers.len()
    }

    /// Adds a pack. Gives it back if one of its owners is in the batch as it was before.
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

    /// The swap of each owner, once its bytes lie in their new place.
    pub(super) fn swaps(&self, placed: &Relocation) -> Vec<Swap> {
        self.movers.iter().filter_map(|(ino, mover)| Swap::new(*ino, mover, placed)).collect()
    }
}

/// The move of one owner to a new pack.
#[derive(Debug)]
pub(super) struct Swap {
    /// Whose move.
    ino: Ino,
    record: Value,
    /// Its inode as it will be.
    inode: Inode,
    /// What it leaves: of each old pack, how many bytes.
    pub(super) left: BTreeMap<BlockId, u64>,
    /// Its slices in the new pack.
    joined: Vec<Slice>,
}

impl Swap {
    fn new(ino: Ino, mover: &Mover, placed: &Relocation) -> Option<Swap> {
        let mut inode = mover.inode.clone();
        let InodeBody::File(file) = &mut inode.body else { return None };
        let Content::Slices(slices) = &mut file.content else { return None };
        let (mut left, mut joined) = (BTreeMap::new(), Vec::new());
        for slice in slices {
            if let Some(new) = placed.locate(slice) {
                *left.entry(slice.block).or_default() += u64::from(slice.length);
                *slice = new;
                joined.push(new);
            }
        }
        let record = mover.record.clone();
        (!joined.is_empty()).then_some(Swap { ino, record, inode, left, joined })
    }

    /// Bytes that are moved.
    pub(super) fn bytes(&self) -> u64 {
        self.left.values().sum()
    }

    /// The plan; `orphans` has a fresh number for each pack that is left.
    pub(super) fn plan(&self, orphans: &[Ino]) -> Plan {
        let at = key::inode(self.ino);
        let mut writes = vec![Write::Put(at.clone(), self.inode.encode(&at))];
        writes.extend(join_packs(&self.joined, self.ino));
        let mut guards = vec![Guard::Equals(at, self.record.clone())];
        for ((pack, length), ino) in self.left.iter().zip(orphans) {
            let orphan = key::orphan(*ino);
            guards.push(Guard::Absent(orphan.clone()));
            let moved = Orphan::Moved { pack: *pack, owner: self.ino, length: *length };
            writes.push(Write::Put(orphan.clone(), moved.encode(&orphan)));
        }
        Plan { guards, writes }
    }
}
