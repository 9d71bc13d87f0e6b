//! The decision if a pack is sparse, and which of its owners can be moved.

use keyring::Protection;
use record::{
    Attributes, BlockId, Content, File, Ino, Inode, InodeBody, Nonce, PageRef, Slice, Tag,
    Timestamp, key,
};

use super::{Batch, Owner, PackOwner, PackState, Source, classify};

fn pack(number: u64) -> BlockId {
    BlockId::pack(Nonce([7; 10]), number)
}

/// The length of the pack's content.
const LENGTH: u32 = 1_000;

fn slice(block: BlockId, offset: u32, length: u32) -> Slice {
    Slice { position: 0, block, block_length: LENGTH, block_crc32c: 3, offset, length }
}

/// An owner of the pack with this content.
fn owner(ino: u64, content: Content) -> PackOwner {
    let body = InodeBody::File(Box::new(File::new(100, Tag::Md5([0; 16]), content)));
    let attributes = Attributes::new(0o644, 0, 0, Timestamp(1));
    let inode = Inode { attributes, bucket: Ino::ROOT, xattrs: Vec::new(), body };
    let record = Some(inode.encode(&key::inode(Ino(ino))));
    PackOwner { ino: Ino(ino), record, leaving: false }
}

fn with_slices(ino: u64, slices: &[Slice]) -> PackOwner {
    owner(ino, Content::Slices(slices.to_vec()))
}

fn sparse(owners: Vec<PackOwner>) -> Source {
    match classify(pack(1), owners).unwrap() {
        PackState::Sparse(source) => source,
        other => panic!("{other:?}"),
    }
}

#[test]
fn bytes_that_several_owners_name_count_once() {
    let named = slice(pack(1), 0, 400);
    let source = sparse(vec![with_slices(5, &[named]), with_slices(6, &[named])]);
    assert_eq!((source.bytes, source.owners.len()), (400, 2));
    let half = with_slices(7, &[slice(pack(1), 400, 100)]);
    let state = classify(pack(1), vec![with_slices(5, &[named]), half]).unwrap();
    assert!(matches!(state, PackState::Dense), "half of it is not less than half: {state:?}");
}

#[test]
fn owners_that_leave_or_have_moved_count_for_nothing() {
    let leaving = PackOwner { leaving: true, ..with_slices(5, &[slice(pack(1), 0, 900)]) };
    let moved = with_slices(6, &[slice(pack(2), 0, 900)]);
    let stays = with_slices(7, &[slice(pack(1), 900, 50), slice(pack(2), 0, 50)]);
    let source = sparse(vec![leaving.clone(), moved.clone(), stays]);
    assert_eq!((source.bytes, source.owners.keys().copied().collect()), (50, vec![Ino(7)]));
    let state = classify(pack(1), vec![leaving, moved]).unwrap();
    assert!(matches!(state, PackState::Dense), "{state:?}");
}

#[test]
fn parts_of_uploads_and_files_in_pages_keep_a_sparse_pack() {
    let small = || with_slices(5, &[slice(pack(1), 0, 50)]);
    let part = PackOwner { ino: Ino(6), record: None, leaving: false };
    let state = classify(pack(1), vec![small(), part]).unwrap();
    assert!(matches!(&state, PackState::Immovable(paged) if paged.is_empty()), "{state:?}");
    let paged = owner(7, Content::Pages(vec![PageRef { start: 0, page: 0, bytes: 100 }]));
    let state = classify(pack(1), vec![small(), paged]).unwrap();
    assert!(matches!(&state, PackState::Immovable(paged) if *paged == [Ino(7)]), "{state:?}");
}

#[test]
fn owners_that_differ_about_the_pack_are_damage() {
    let other = Slice { block_crc32c: 4, ..slice(pack(1), 50, 50) };
    let owners = vec![with_slices(5, &[slice(pack(1), 0, 50)]), with_slices(6, &[other])];
    classify(pack(1), owners).unwrap_err();
}

#[test]
fn packs_of_one_owner_are_moved_together_only_with_one_record() {
    let both = [slice(pack(1), 0, 50), slice(pack(2), 100, 60)];
    let source = |slices: &[Slice]| {
        let owner = with_slices(5, &both);
        let owner = Owner { record: owner.record, slices: slices.to_vec(), ..Owner::default() };
        Source { bytes: 50, protection: Protection::Volume, owners: [(Ino(5), owner)].into() }
    };
    let mut batch = Batch::for_pack();
    assert!(batch.add(source(&both[..1])) && batch.add(source(&both[1..])));
    assert_eq!(batch.owners[&Ino(5)].slices, both);
    let stayed = [Ino(5), Ino(6)].into();
    assert_eq!(batch.packs_of(&stayed).collect::<Vec<_>>(), [pack(1), pack(2)]);
    let mut newer = source(&both);
    newer.owners.get_mut(&Ino(5)).unwrap().record = with_slices(5, &both[..1]).record;
    assert!(!batch.add(newer), "the two changes of the inode would conflict");
    assert_eq!(batch.owners[&Ino(5)].slices.len(), 2, "nothing of it is added");
}
