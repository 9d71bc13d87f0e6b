//! Changes of content in place, compared with a map of bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use bytes::Bytes;
use layout::{Segment, resolve};
use namespace::{ContentChange, FoundNode, FsError, NodeName, SharedRange, WriteContent};
use proptest::prelude::*;
use record::key::{self, space};
use record::{BlockId, Content, File, INODE_SLICES_MAX, Ino, Orphan, PAGE_SLICES_MAX, Slice, Tag};
use store::{Key, Value};

use crate::audit::{audit, slices_of};
use crate::laws::seeded;
use crate::world::{B, C, KEPT, NONCE, World, at};

/// The origin of a byte of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Hole,
    Inline,
    Block(BlockId, u32),
}

/// A change of a file.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// Writes `count` slices of `length` bytes from a position, with gaps between them: into one
    /// pack, or each into a block of its own.
    Comb {
        from: u64,
        count: u64,
        length: u64,
        gap: u64,
        pack: bool,
    },
    /// Cuts the file, writes slices, and sets its least size.
    CutComb {
        cut: u64,
        from: u64,
        count: u64,
        end: u64,
    },
    /// Shares a range of the file at another position of the same file.
    Share {
        slice: prop::sample::Index,
        to: u64,
    },
    Truncate(u64),
    Clear {
        from: u64,
        length: u64,
    },
    /// Shares a range of another file.
    Take {
        from: u64,
        length: u64,
        to: u64,
    },
    /// Copies every n-th run within a range into one new block, and lets the file name the copy.
    Relocate {
        from: u64,
        length: u64,
        every: usize,
    },
    ReplaceInline(u64),
    Replace {
        count: u64,
        length: u64,
        gap: u64,
    },
}

fn change() -> impl Strategy<Value = Change> {
    let count = || prop_oneof![3 => 1..8_u64, 2 => 50..80_u64, 2 => 300..1_200_u64];
    let gap = || prop_oneof![Just(0), Just(0), 1..4_u64];
    prop_oneof![
        6 => (0..4_000_u64, count(), 1..5_u64, gap(), any::<bool>()).prop_map(
            |(from, count, length, gap, pack)| Change::Comb { from, count, length, gap, pack }
        ),
        3 => (0..6_000_u64, 0..5_000_u64, 0..200_u64, 0..6_000_u64)
            .prop_map(|(cut, from, count, end)| Change::CutComb { cut, from, count, end }),
        1 => (any::<prop::sample::Index>(), 0..4_000_u64)
            .prop_map(|(slice, to)| Change::Share { slice, to }),
        2 => (0..6_000_u64).prop_map(Change::Truncate),
        3 => (0..5_000_u64, 0..3_000_u64).prop_map(|(from, length)| Change::Clear { from, length }),
        4 => (0..LENT, 0..LENT, 0..4_000_u64)
            .prop_map(|(from, length, to)| Change::Take { from, length, to }),
        4 => (0..4_000_u64, 1..4_000_u64, 1..4_usize)
            .prop_map(|(from, length, every)| Change::Relocate { from, length, every }),
        1 => (0..40_u64).prop_map(Change::ReplaceInline),
        1 => (count(), 1..4_u64, gap())
            .prop_map(|(count, length, gap)| Change::Replace { count, length, gap }),
    ]
}

/// A file, its bytes, and all slices that its content map ever had.
pub(super) struct Model {
    pub(super) world: World,
    pub(super) ino: Ino,
    bytes: Vec<Place>,
    pub(super) blocks: u64,
    /// For each copied byte: the position of its first original.
    pub(super) copies: BTreeMap<(BlockId, u32), (BlockId, u32)>,
    pages: BTreeMap<Key, Value>,
    named: BTreeSet<BlockId>,
    /// Another file, and its bytes.
    pub(super) lender: Ino,
    lent: Vec<Slice>,
}

/// The size of the other file.
pub(super) const LENT: u64 = 600;

impl Model {
    pub(super) fn new() -> Model {
        let world = World::new();
        let ino = world.file(B, "f", 0);
        let lender = world.file(C, "lender", 0);
        let (pages, named) = (BTreeMap::new(), BTreeSet::new());
        let (lent, copies) = (Vec::new(), BTreeMap::new());
        let mut model =
            Model { world, ino, bytes: Vec::new(), blocks: 0, copies, pages, named, lender, lent };
        let packed = model.comb(10, 20, 9, 1, true);
        model.lent = [packed, model.comb(300, 20, 9, 2, false)].concat();
        let (slices, end) = (model.lent.clone(), LENT);
        write(
            &model.world,
            lender,
            &ContentChange::Write { cut: None, slices, end, sums: Vec::new() },
        )
        .unwrap();
        model
    }

    /// A range of the other file, as a change of this one.
    pub(super) fn taken(&self, from: u64, length: u64, to: u64) -> SharedRange {
        let range = from..(from + length).min(LENT);
        let within = self.lent.iter().filter_map(|slice| layout::clip(slice, &range));
        let at_its_place = |piece: Slice| Slice { position: piece.position - from + to, ..piece };
        SharedRange {
            range: to..to + (range.end - from),
            slices: within.map(at_its_place).collect(),
            source: self.lender,
            record: self.world.state().records[&key::inode(self.lender)].clone(),
            encryption: None,
            tag: None,
        }
    }

    /// Returns true if the file has released one of these blocks, and the reaper has not processed
    /// the release.
    fn has_pending_release(&self, slices: &[Slice]) -> bool {
        let state = self.world.state();
        let named = slices_of(&state, self.ino, &self.file());
        slices.iter().any(|slice| {
            let has_share = state.records.contains_key(&key::share(slice.block, self.ino));
            has_share && named.iter().all(|named| named.block != slice.block)
        })
    }

    fn dig(&mut self, range: &Range<u64>) {
        let end = self.bytes.len().min(usize::try_from(range.end).unwrap());
        if let Some(bytes) = self.bytes.get_mut(usize::try_from(range.start).unwrap()..end) {
            bytes.fill(Place::Hole);
        }
    }

    fn comb(&mut self, from: u64, count: u64, length: u64, gap: u64, pack: bool) -> Vec<Slice> {
        let length = u32::try_from(length).unwrap();
        let slice = |n: u64| {
            let (number, offset) = if pack {
                (self.blocks, u32::try_from(n).unwrap() * length)
            } else {
                (self.blocks + n, 3)
            };
            let block =
                if pack { BlockId::pack(NONCE, number) } else { BlockId::new(NONCE, number) };
            let position = from + n * (u64::from(length) + gap);
            let block_length = if pack { 1 << 20 } else { offset + length };
            Slice { position, block, block_length, block_crc32c: 0, offset, length }
        };
        let slices = (0..count).map(slice).collect();
        self.blocks += if pack { 1 } else { count };
        slices
    }

    /// The position of the first original of a copied byte.
    fn first_of(&self, place: Place) -> Place {
        let Place::Block(block, offset) = place else { return place };
        let (block, offset) = self.copies.get(&(block, offset)).copied().unwrap_or((block, offset));
        Place::Block(block, offset)
    }

    fn paint(&mut self, slices: &[Slice]) {
        for slice in slices {
            for (n, at) in (0..).zip(slice.position..slice.end()) {
                let at = usize::try_from(at).unwrap();
                self.bytes.resize(self.bytes.len().max(at + 1), Place::Hole);
                self.bytes[at] = self.first_of(Place::Block(slice.block, slice.offset + n));
            }
        }
    }

    pub(super) fn file(&self) -> File {
        self.world.state().inode(self.ino).file().unwrap().clone()
    }

    /// Applies a change to the file and to the map of bytes.
    pub(super) fn apply(&mut self, change: &Change) {
        match *change {
            Change::Clear { from, length } => self.clear(&(from..from + length)),
            Change::Take { from, length, to } => self.take(&self.taken(from, length, to)),
            Change::CutComb { cut, from, count, end } => self.cut_and_write(cut, from, count, end),
            Change::Relocate { from, length, every } => self.relocate(from..from + length, every),
            _ => self.write(change),
        }
    }

    fn write(&mut self, change: &Change) {
        let (size, has_inline) = (self.bytes.len() as u64, self.bytes.contains(&Place::Inline));
        let (change, new) = match *change {
            Change::Comb { from, count, length, gap, pack } => {
                let slices = self.comb(from, count, length, gap, pack);
                let end = slices.last().map_or(0, Slice::end);
                (
                    ContentChange::Write {
                        cut: None,
                        slices: slices.clone(),
                        end,
                        sums: Vec::new(),
                    },
                    Some(slices),
                )
            }
            Change::Share { slice, to } => {
                let slices = slices_of(&self.world.state(), self.ino, &self.file());
                if slices.is_empty() {
                    return;
                }
                let slices = vec![Slice { position: to, ..slices[slice.index(slices.len())] }];
                let end = slices[0].end();
                (
                    ContentChange::Write {
                        cut: None,
                        slices: slices.clone(),
                        end,
                        sums: Vec::new(),
                    },
                    Some(slices),
                )
            }
            Change::Truncate(size) => {
                self.bytes.resize(usize::try_from(size).unwrap(), Place::Hole);
                (ContentChange::Truncate(size), None)
            }
            Change::Clear { .. }
            | Change::Take { .. }
            | Change::CutComb { .. }
            | Change::Relocate { .. } => return,
            Change::ReplaceInline(size) => {
                let bytes = usize::try_from(size).unwrap();
                self.bytes = vec![Place::Inline; bytes];
                let content =
                    Content::Inline(record::InlineBytes::plain(Bytes::from(vec![b'x'; bytes])));
                (ContentChange::Replace { content, size, sums: Vec::new() }, None)
            }
            Change::Replace { count, length, gap } => {
                let slices = self.comb(gap, count, length, gap, false);
                let size = slices.last().map_or(0, Slice::end);
                self.bytes.clear();
                self.paint(&slices);
                let content = Content::Slices(slices);
                (ContentChange::Replace { content, size, sums: Vec::new() }, None)
            }
        };
        let answer = write(&self.world, self.ino, &change);
        if let Some(slices) = new {
            if has_inline {
                // A writer replaces the inline bytes together with its own.
                assert_eq!(answer.unwrap_err(), FsError::ContentReplaced);
                return;
            }
            self.paint(&slices);
            assert!(self.bytes.len() as u64 >= size);
        }
        assert_eq!(answer.unwrap().inode, self.world.state().inode(self.ino));
    }

    fn cut_and_write(&mut self, cut: u64, from: u64, count: u64, end: u64) {
        let slices = self.comb(from, count, 2, 1, false);
        let end = slices.last().map_or(0, Slice::end).max(end);
        let is_inline = self.bytes.contains(&Place::Inline);
        let (cut, end_at) = (usize::try_from(cut).unwrap(), usize::try_from(end).unwrap());
        let write_it = ContentChange::Write {
            cut: Some(cut as u64),
            slices: slices.clone(),
            end,
            sums: Vec::new(),
        };
        let answer = write(&self.world, self.ino, &write_it);
        if is_inline && !slices.is_empty() {
            assert_eq!(answer.unwrap_err(), FsError::ContentReplaced);
            return;
        }
        self.bytes.truncate(cut);
        self.bytes.resize(self.bytes.len().max(end_at), Place::Hole);
        self.paint(&slices);
        assert_eq!(answer.unwrap().inode, self.world.state().inode(self.ino));
    }

    fn clear(&mut self, range: &Range<u64>) {
        let is_inline = self.bytes.contains(&Place::Inline);
        match write(&self.world, self.ino, &ContentChange::Clear(range.clone())) {
            Ok(found) => assert_eq!(found.inode, self.world.state().inode(self.ino)),
            Err(error) => {
                // Inline bytes behind the range would have to move.
                assert_eq!(error, FsError::ContentReplaced);
                let behind = usize::try_from(range.end).unwrap();
                assert!(is_inline && self.bytes.get(behind) == Some(&Place::Inline));
                return;
            }
        }
        self.dig(range);
    }

    fn take(&mut self, shared: &SharedRange) {
        let (is_inline, release_pending) =
            (self.bytes.contains(&Place::Inline), self.has_pending_release(&shared.slices));
        let is_paged = matches!(self.file().content, Content::Pages(_));
        match write(&self.world, self.ino, &ContentChange::Share(shared.clone())) {
            Ok(_) => assert!(!release_pending),
            Err(FsError::ContentReplaced) => return assert!(is_inline),
            // Pages that are not written to are not read, so a release may be refused although a
            // page still names the block.
            Err(FsError::BlockReleasePending) => return assert!(release_pending || is_paged),
            Err(error) => panic!("{error}"),
        }
        let end = usize::try_from(shared.range.end).unwrap();
        self.bytes.resize(self.bytes.len().max(end), Place::Hole);
        self.dig(&shared.range);
        self.paint(&shared.slices);
        let state = self.world.state();
        for slice in &shared.slices {
            for owner in [self.ino, self.lender] {
                let share = key::share(slice.block, owner);
                assert!(state.records.contains_key(&share), "{owner:?} has no {share:?}");
            }
        }
    }

    /// Compares the file with the map of bytes, and its content map with all slices so far.
    pub(super) fn check(&mut self) {
        let state = self.world.state();
        audit(&state);
        let file = self.file();
        assert_eq!(file.size, self.bytes.len() as u64);
        let slices = slices_of(&state, self.ino, &file);
        let mut found = Vec::with_capacity(self.bytes.len());
        let inline = if let Content::Inline(bytes) = &file.content { bytes.len() } else { 0 };
        found.resize(inline, Place::Inline);
        for segment in resolve(&slices, inline as u64..file.size) {
            let places = segment.position()..segment.end();
            found.extend((0..).zip(places).map(|(n, _)| match segment {
                Segment::Hole { .. } => Place::Hole,
                Segment::Block(slice) => self.first_of(Place::Block(slice.block, slice.offset + n)),
            }));
        }
        assert_eq!(found, self.bytes);
        assert!(file.sparse || !found.contains(&Place::Hole), "a hole of a file without any");
        match &file.content {
            Content::Inline(_) => {}
            Content::Slices(slices) => assert!(slices.len() <= INODE_SLICES_MAX),
            Content::Pages(pages) => {
                for page in pages {
                    assert!(page.page < file.pages_made);
                    let at = key::map_page(self.ino, page.page);
                    let slices = record::MapPage::decode(&at, &state.records[&at]).unwrap().0;
                    assert!((1..=PAGE_SLICES_MAX).contains(&slices.len()));
                }
            }
        }
        for at in state.keys(space::MAP) {
            let value = &state.records[at];
            let before = self.pages.entry(at.clone()).or_insert_with(|| value.clone());
            assert_eq!(before, value, "{at:?} was written anew");
        }
        let named: BTreeSet<BlockId> = slices.iter().map(|slice| slice.block).collect();
        let mut hidden = BTreeSet::new();
        for at in state.keys(space::ORPHAN) {
            let orphan = Orphan::decode(at, &state.records[at]).unwrap();
            let Orphan::Hidden { owner, blocks, .. } = orphan else { panic!("{orphan:?}") };
            assert_eq!(owner, self.ino);
            hidden.extend(blocks.into_iter().map(|hidden| hidden.block));
        }
        self.named.extend(&named);
        let lost: Vec<&BlockId> =
            self.named.iter().filter(|b| !named.contains(b) && !hidden.contains(b)).collect();
        assert_eq!(lost, Vec::<&BlockId>::new(), "neither named nor left to the reaper");
    }
}

/// Changes the content of a file.
pub(super) fn write(world: &World, ino: Ino, change: &ContentChange) -> Result<FoundNode, FsError> {
    write_as(world, ino, None, change)
}

/// As [`write`], for a file that was found by a name.
pub(super) fn write_as(
    world: &World,
    ino: Ino,
    known_name: Option<&NodeName>,
    change: &ContentChange,
) -> Result<FoundNode, FsError> {
    let (tag, hidden_ino) = (Tag::Md5([9; 16]), world.ino());
    let attributes = &KEPT;
    world.run(&WriteContent {
        ino,
        known_name,
        expected_data_version: None,
        assumptions: &[],
        change,
        tag,
        hidden_ino,
        attributes,
        own_retention: None,
    })
}

proptest! {
    #![proptest_config(seeded(96))]

    #[test]
    fn content_equals_a_map_of_bytes(changes in prop::collection::vec(change(), 1..10)) {
        let mut model = Model::new();
        for change in &changes {
            model.apply(change);
            model.check();
        }
    }
}

#[test]
fn released_block_is_shared_again_only_after_its_release() {
    let mut model = Model::new();
    for (from, length) in [(0, 100), (300, 9)] {
        let taken = model.taken(from, length, 0);
        let take = |model: &Model| {
            write(&model.world, model.ino, &ContentChange::Share(taken.clone())).err()
        };
        model.apply(&Change::Truncate(0));
        assert_eq!(take(&model), None);
        // The file still names a part of the block.
        model.apply(&Change::Truncate(length / 2));
        assert_eq!(take(&model), None);
        model.apply(&Change::Truncate(0));
        assert_eq!(take(&model), Some(FsError::BlockReleasePending));
        let mut state = model.world.state();
        let reaped = |at: &Key| at.space() == space::ORPHAN || at.space() == space::SHARE;
        state.records.retain(|at, _| !reaped(at));
        model.world = World::of(&state);
        assert_eq!(take(&model), None);
    }
}

#[test]
fn shared_range_is_that_of_the_source_at_commit() {
    let model = Model::new();
    let taken = model.taken(0, 400, 0);
    write(&model.world, model.lender, &ContentChange::Clear(0..20)).unwrap();
    let answer = write(&model.world, model.ino, &ContentChange::Share(taken));
    assert_eq!(answer.unwrap_err(), FsError::SourceChanged);
    model.world.audit();
}

#[test]
fn content_map_grows_into_pages_and_pages_split() {
    let mut model = Model::new();
    let mut most = 0;
    for (n, count) in (0..).zip([60, 4, 1, 500, 700, 1]) {
        let from = n * 10_000;
        model.apply(&Change::Comb { from, count, length: 2, gap: 1, pack: false });
        model.check();
        most += usize::try_from(count).unwrap();
        match model.file().content {
            Content::Slices(slices) => assert!(slices.len() == most && most <= INODE_SLICES_MAX),
            Content::Pages(pages) => assert!(pages.len() >= most.div_ceil(PAGE_SLICES_MAX)),
            Content::Inline(_) => panic!("slices were written"),
        }
    }
    model.apply(&Change::Truncate(0));
    model.check();
    assert_eq!(model.file().content, Content::Slices(Vec::new()));
}

#[test]
fn write_before_the_first_page_changes_the_first_page() {
    let mut model = Model::new();
    model.apply(&Change::Comb { from: 1_000, count: 600, length: 1, gap: 1, pack: false });
    for from in [500, 0, 990] {
        model.apply(&Change::Comb { from, count: 5, length: 4, gap: 0, pack: true });
        model.check();
    }
}

#[test]
fn write_changes_only_the_pages_that_it_covers() {
    let mut model = Model::new();
    model.apply(&Change::Comb { from: 0, count: 1_400, length: 1, gap: 1, pack: false });
    let Content::Pages(before) = model.file().content else { panic!("pages") };
    assert!(before.len() >= 3);
    model.apply(&Change::Comb { from: before[1].start, count: 1, length: 1, gap: 0, pack: false });
    model.check();
    let Content::Pages(after) = model.file().content else { panic!("pages") };
    assert_eq!((after[0], &after[2..]), (before[0], &before[2..]));
    assert_ne!(after[1].page, before[1].page);
}

#[test]
fn write_clears_the_self_contained_mark_and_needs_its_name() {
    let world = World::new();
    let ino = world.put("a", 5);
    let mut model = Model { world, ino, ..Model::new() };
    model.bytes = vec![Place::Inline; 5];
    let changes = [
        ContentChange::Truncate(3),
        ContentChange::Truncate(9),
        ContentChange::Replace {
            content: Content::Inline(record::InlineBytes::empty()),
            size: 0,
            sums: Vec::new(),
        },
    ];
    for change in &changes {
        let answer = write(&model.world, ino, change);
        // The dentry of the object has the mark "self-contained", so a change needs its name.
        assert_eq!(answer.unwrap_err(), FsError::Stale);
    }
    for (n, change) in (1..).zip(&changes) {
        let (tag, hidden_ino) = (Tag::Md5([n; 16]), model.world.ino());
        let known_name = Some(&at(B, "a"));
        let write = WriteContent {
            ino,
            known_name,
            expected_data_version: None,
            assumptions: &[],
            change,
            tag,
            hidden_ino,
            attributes: &KEPT,
            own_retention: None,
        };
        let found = model.world.run(&write).unwrap();
        let file = found.inode.file().unwrap();
        assert_eq!((file.tag, file.data_version), (tag, u64::from(n)));
        assert!(file.sums.is_empty());
        let attributes = found.inode.attributes;
        assert_eq!(attributes.changed, attributes.modified);
        model.world.audit();
    }
    model.world.delete(&[b"a"]);
    assert_eq!(model.world.state().keys(space::ORPHAN), [&key::orphan(ino)]);
    model.world.audit();
}
