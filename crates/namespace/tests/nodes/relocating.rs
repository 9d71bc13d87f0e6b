//! Relocating the bytes of a file to another block, without any other change of the file.

use std::collections::BTreeMap;
use std::ops::Range;

use futures::executor::block_on;
use layout::{Relocation, joined};
use namespace::{ContentChange, FsError, Next, NoHints, RelocateContent, Relocated, Run};
use record::{BlockId, Content, File, Ino, Inode, InodeBody, Slice, key};
use store::{MetaStore, Verdict};

use crate::audit::slices_of;
use crate::content::{Change, Model, write};
use crate::world::{B, NONCE, World};

/// A copy of runs into a new block, one behind the other. Overlapping runs are left out.
fn copied(slices: &[Slice], block: BlockId) -> Relocation {
    let mut runs: BTreeMap<BlockId, Vec<(Range<u32>, u32)>> = BTreeMap::new();
    let mut length = 0;
    for slice in slices {
        let run = slice.offset..slice.offset + slice.length;
        let runs = runs.entry(slice.block).or_default();
        if runs.iter().all(|(other, _)| other.end <= run.start || run.end <= other.start) {
            runs.push((run, length));
            length += slice.length;
        }
    }
    runs.values_mut().for_each(|runs| runs.sort_unstable_by_key(|(run, _)| run.start));
    Relocation { block, block_length: length, block_crc32c: 3, runs }
}

fn relocate(
    world: &World,
    ino: Ino,
    to: &Relocation,
    within: Range<u64>,
) -> Result<Relocated, FsError> {
    world.run(&RelocateContent { ino, record: None, to, within, hidden_ino: world.ino() })
}

/// An inode without its content.
fn without_content(inode: &Inode) -> Inode {
    let mut inode = inode.clone();
    let InodeBody::File(file) = &mut inode.body else { panic!("a file") };
    let nothing = Content::Slices(Vec::new());
    inode.body =
        InodeBody::File(Box::new(File { content: nothing, pages_made: 0, ..*file.clone() }));
    inode
}

impl Model {
    fn slices(&self) -> Vec<Slice> {
        slices_of(&self.world.state(), self.ino, &self.file())
    }

    /// Copies every n-th run within a range, and lets the file name the copies.
    pub(super) fn relocate(&mut self, within: Range<u64>, every: usize) {
        let before = self.world.state().inode(self.ino);
        let all = self.slices();
        let in_range = all.iter().filter(|it| it.position < within.end && within.start < it.end());
        let chosen: Vec<Slice> = in_range.step_by(every).copied().collect();
        // The pages around it are read, and do not change.
        let to = copied(&chosen, BlockId::new(NONCE, self.blocks));
        self.blocks += 1;
        for (block, runs) in &to.runs {
            for (run, place) in runs {
                for (old, new) in run.clone().zip(*place..) {
                    let first = self.copies.get(&(*block, old)).copied().unwrap_or((*block, old));
                    self.copies.insert((to.block, new), first);
                }
            }
        }
        let relocated = relocate(&self.world, self.ino, &to, within).unwrap();
        let after = self.world.state().inode(self.ino);
        if matches!(before.file().unwrap().content, Content::Inline(_)) || chosen.is_empty() {
            assert_eq!((relocated.bytes, after), (0, before));
            return;
        }
        assert_eq!(without_content(&after), without_content(&before));
        assert_eq!(after.attributes, before.attributes);
        let left: Vec<Slice> = self.slices();
        let moved = |slice: &&Slice| to.locate(slice).is_some() && !left.contains(slice);
        assert_eq!(chosen.iter().filter(moved).count(), {
            chosen.iter().filter(|slice| to.locate(slice).is_some()).count()
        });
        assert!(relocated.runs.1 <= relocated.runs.0);
        assert!(left.len() <= all.len());
    }
}

#[test]
fn content_map_of_short_runs_shrinks_into_the_inode() {
    let mut model = Model::new();
    model.apply(&Change::Comb { from: 0, count: 1_400, length: 2, gap: 0, pack: false });
    let Content::Pages(pages) = model.file().content else { panic!("pages") };
    assert_eq!(pages.len(), 3);
    model.relocate(0..2_800, 1);
    model.check();
    assert!(matches!(&model.file().content, Content::Slices(slices) if slices.len() == 1));
}

#[test]
fn relocation_rewrites_only_pages_with_moved_slices() {
    let mut model = Model::new();
    model.apply(&Change::Comb { from: 0, count: 1_900, length: 2, gap: 1, pack: true });
    let Content::Pages(before) = model.file().content else { panic!("pages") };
    let second = before[1].start..before[1].start + 9;
    // The pages around it are looked at, and stay.
    let to = copied(
        &model.slices().into_iter().filter(|it| second.contains(&it.position)).collect::<Vec<_>>(),
        BlockId::new(NONCE, 1 << 20),
    );
    let relocated = relocate(&model.world, model.ino, &to, 0..u64::MAX).unwrap();
    assert_eq!(relocated.bytes, 6);
    let Content::Pages(after) = model.file().content else { panic!("pages") };
    assert_eq!((after[0], &after[2..]), (before[0], &before[2..]));
    assert_eq!(after[1].start, before[1].start);
    assert_eq!(after[1].page as usize, before.len(), "a number that no page had");
    model.world.audit();
}

#[test]
fn relocation_keeps_concurrent_writes_and_moves_the_rest() {
    for count in [40_u64, 1_200] {
        let mut model = Model::new();
        model.apply(&Change::Comb { from: 0, count, length: 4, gap: 0, pack: false });
        let to = copied(&model.slices(), BlockId::new(NONCE, 1 << 20));
        let operation = RelocateContent {
            ino: model.ino,
            record: None,
            to: &to,
            within: 0..u64::MAX,
            hidden_ino: model.world.ino(),
        };
        let mut run = Run::new(&operation, model.world.env());
        let mut refused = 0;
        let bytes = loop {
            match run.advance(&NoHints) {
                Next::Read(reads) => {
                    let found = block_on(model.world.store.read(&reads)).unwrap();
                    run.learn(reads, found);
                }
                Next::Commit(plan, relocated) => {
                    // A program writes between the plan and its commit, twice.
                    if refused < 2 {
                        model.apply(&Change::Comb {
                            from: refused * 10 + 1,
                            count: 1,
                            length: 2,
                            gap: 0,
                            pack: false,
                        });
                    }
                    let guards = plan.guards.clone();
                    match block_on(model.world.store.commit(&[plan])).unwrap().remove(0) {
                        Verdict::Committed => break relocated.bytes,
                        Verdict::Refused { guard, found } => run.refused(&guards[guard], found),
                        Verdict::Failed(error) => panic!("{error:?}"),
                    }
                    refused += 1;
                }
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(refused, 2);
        assert_eq!(bytes, count * 4 - 4, "all but what was written since");
        for (old, runs) in &to.runs {
            for (run, place) in runs {
                let bytes = run.clone().zip(*place..);
                model.copies.extend(bytes.map(|(at, new)| ((to.block, new), (*old, at))));
            }
        }
        model.check();
    }
}

#[test]
fn relocation_of_overwritten_bytes_changes_nothing() {
    let mut model = Model::new();
    model.apply(&Change::Comb { from: 0, count: 700, length: 3, gap: 0, pack: true });
    let to = copied(&model.slices(), BlockId::new(NONCE, 1 << 20));
    write(&model.world, model.ino, &ContentChange::Truncate(0)).unwrap();
    let before = model.world.state();
    let within = 0..u64::MAX;
    assert_eq!(relocate(&model.world, model.ino, &to, within.clone()), Ok(Relocated::default()));
    assert_eq!(model.world.state(), before);
    model.world.unlink(B, "f").unwrap();
    let mut state = model.world.state();
    state.records.remove(&key::inode(model.ino));
    let world = World::of(&state);
    assert_eq!(relocate(&world, model.ino, &to, within), Err(FsError::Stale));
}

#[test]
fn runs_contiguous_in_file_and_block_are_joined() {
    let slice = |position, offset, length| Slice {
        position,
        block: BlockId::new(NONCE, 1),
        block_length: 100,
        block_crc32c: 0,
        offset,
        length,
    };
    let apart = [slice(0, 0, 5), slice(5, 6, 5), slice(11, 11, 5)];
    assert_eq!(joined(apart), apart);
    let other = Slice { block: BlockId::new(NONCE, 2), ..slice(5, 5, 5) };
    assert_eq!(joined([slice(0, 0, 5), other]).len(), 2);
    let runs = [slice(0, 10, 5), slice(5, 15, 5), slice(10, 20, 1), slice(12, 22, 5)];
    assert_eq!(joined(runs), [slice(0, 10, 11), slice(12, 22, 5)]);
}
