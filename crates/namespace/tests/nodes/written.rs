//! Effects of a content change: marks in dentries, checksums, marks of staged content, and rights.

use bytes::Bytes;
use namespace::{AttributeChange, ContentChange, FsError, WriteContent};
use record::key::{self, space};
use record::{BlockId, Content, File, INLINE_PERMANENT_MAX, PartRun, Slice, Tag};
use store::Value;

use crate::content::write;
use crate::world::{B, KEPT, NONCE, World, at, empty};

#[test]
fn write_removes_the_checksums_of_parts() {
    let world = World::new();
    let parts = vec![PartRun { count: 3, length: 5 }];
    let node =
        namespace::NewNode::File(Box::new(File { parts, size: 15, sparse: true, ..empty() }));
    let ino = world.make(&at(B, "f"), &node).unwrap();
    let sums = key::part_sums(ino, 0);
    let mut state = world.state();
    state.records.insert(sums.clone(), Value::from_static(b"checksums"));
    let world = World::of(&state);
    write(&world, ino, &ContentChange::Truncate(4)).unwrap();
    assert!(!world.state().records.contains_key(&sums));
    assert!(world.state().inode(ino).file().unwrap().parts.is_empty());
}

#[test]
fn staged_inline_content_has_a_mark_while_it_is_staged() {
    let world = World::new();
    let ino = world.file(B, "f", INLINE_PERMANENT_MAX + 1);
    let marks = || world.state().keys(space::STAGED_INLINE).len();
    assert_eq!(marks(), 1);
    world.audit();
    for (size, expected) in [(INLINE_PERMANENT_MAX + 1, 1), (INLINE_PERMANENT_MAX, 0)] {
        write(&world, ino, &ContentChange::Truncate(size as u64)).unwrap();
        assert_eq!(marks(), expected);
        world.audit();
    }
    let size = INLINE_PERMANENT_MAX + 7;
    let content = Content::Inline(record::InlineBytes::plain(Bytes::from(vec![1; size])));
    let change = ContentChange::Replace { content, size: size as u64, sums: Vec::new() };
    write(&world, ino, &change).unwrap();
    assert_eq!(marks(), 1);
    world.audit();
    let content = Content::Slices(Vec::new());
    write(&world, ino, &ContentChange::Replace { content, size: 0, sums: Vec::new() }).unwrap();
    assert_eq!(marks(), 0);
    world.audit();
}

#[test]
fn writing_to_a_node_that_is_not_a_file_fails() {
    let world = World::new();
    let nodes = [world.mkdir(B, "d"), world.symlink(B, "l"), world.fifo(B, "p")];
    for ino in nodes {
        let answer = write(&world, ino, &ContentChange::Truncate(0));
        assert_eq!(answer.unwrap_err(), FsError::IsADirectory);
    }
}

#[test]
fn write_drops_set_user_id_and_capabilities() {
    let world = World::new();
    let node = namespace::NewNode::File(Box::new(empty()));
    let (ino, _) = world.make_with(&at(B, "f"), &node, 0o6755).unwrap();
    let change = &ContentChange::Truncate(1);
    for (drop_rights, mode) in [(false, 0o6755), (true, 0o755)] {
        let (tag, hidden_ino) = (Tag::Md5([9; 16]), world.ino());
        let attributes = &AttributeChange { drop_rights, ..KEPT };
        let write = WriteContent {
            ino,
            known_name: None,
            expected_data_version: None,
            assumptions: &[],
            change,
            tag,
            hidden_ino,
            attributes,
            own_retention: None,
        };
        assert_eq!(world.run(&write).unwrap().inode.attributes.mode, mode);
    }
}

#[test]
fn unlinked_open_file_can_be_written_to() {
    let world = World::new();
    let ino = world.file(B, "f", 0);
    world.unlink(B, "f").unwrap();
    let block = BlockId::new(NONCE, 1);
    let slice =
        Slice { position: 4, block, block_length: 9, block_crc32c: 0, offset: 0, length: 9 };
    let change = ContentChange::Write { cut: None, slices: vec![slice], end: 13, sums: Vec::new() };
    assert_eq!(write(&world, ino, &change).unwrap().inode.file().unwrap().size, 13);
    world.audit();
}
