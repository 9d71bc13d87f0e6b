//! The round trips of each operation.

use bytes::Bytes;
use namespace::{
    AttributeChange, ContentChange, FindName, FindNode, FindUnlinked, FindXattr, FsError, LinkNode,
    MakeNode, NewNode, NodeName, ObjectItem, Planner, ReadNames, RemoveDirectory, RemoveName,
    RenameMode, RenameNode, SetAttributes, SetObjectItem, SetXattr, WriteContent, XattrChange,
};
use record::{BlockId, Ino, Slice, Tag};
use std::fmt::Debug;

use crate::acts::LONG;
use crate::memory::Memory;
use crate::world::{B, Cost, KEPT, NONCE, State, World, at, drive, inline};

/// A volume of which all records are cached, also the absence of names.
pub(crate) struct Remembered {
    state: State,
    memory: Memory,
}

impl Remembered {
    pub(crate) fn of(world: &World, absent: &[NodeName]) -> Remembered {
        for name in absent {
            world.find(name).expect_err("an absent name");
        }
        let state = world.state();
        Remembered { state, memory: world.memory.clone() }
    }

    /// Runs an operation in a later state of the volume, with hints of the old one.
    pub(crate) fn run_in<O>(
        &self,
        world: &World,
        operation: &O,
    ) -> (Result<O::Output, FsError>, Cost)
    where
        O: Planner,
        O::Output: Debug,
    {
        drive(&world.store, operation, world.env(), &self.memory, None)
    }

    /// The costs of a successful operation: with everything cached, and with nothing.
    pub(crate) fn costs<O>(&self, operation: &O) -> [Cost; 2]
    where
        O: Planner,
        O::Output: Debug,
    {
        let warm = World::of(&self.state);
        let (answer, warm) = drive(&warm.store, operation, warm.env(), &self.memory, None);
        answer.unwrap();
        let (answer, cold) = World::of(&self.state).cold(operation);
        answer.unwrap();
        [warm, cold]
    }
}

pub(crate) const fn costs(warm: (usize, usize), cold: (usize, usize)) -> [Cost; 2] {
    let (reads, commits) = warm;
    let warm = Cost { reads, commits };
    let (reads, commits) = cold;
    [warm, Cost { reads, commits }]
}

#[test]
fn lookup_takes_one_read_and_two_for_an_uncached_directory() {
    let world = World::new();
    let (file, directory) = (world.file(B, "f", 1), world.mkdir(B, "d"));
    let volume = Remembered::of(&world, &[at(B, "n")]);
    let find = |name| volume.costs(&FindName { name: &at(B, name) });
    assert_eq!(find("f"), costs((1, 0), (1, 0)));
    assert_eq!(find("d"), costs((1, 0), (2, 0)));
    let (warm, cold) = (World::of(&volume.state), World::of(&volume.state));
    let absent = FindName { name: &at(B, "n") };
    let warm = drive(&warm.store, &absent, warm.env(), &volume.memory, None).1;
    assert_eq!([warm, cold.cold(&absent).1], costs((1, 0), (1, 0)));
    assert_eq!(volume.costs(&FindNode { ino: file }), costs((1, 0), (1, 0)));
    assert_eq!(volume.costs(&FindNode { ino: directory }), costs((1, 0), (2, 0)));
    assert_eq!(volume.costs(&FindUnlinked { ino: file }), costs((1, 0), (1, 0)));
    assert_eq!(volume.costs(&FindUnlinked { ino: directory }), costs((1, 0), (2, 0)));
    let names = ReadNames { directory: B, from: None, limit: 10, whole_inodes: true };
    assert_eq!(volume.costs(&names), costs((1, 0), (1, 0)));
}

#[test]
fn page_that_ends_between_a_file_and_its_directory_takes_two_reads() {
    let world = World::new();
    for key in ["a", "a.x", "a/x"] {
        world.put(key, 1);
    }
    let volume = Remembered::of(&world, &[]);
    for (limit, reads) in [(1, 2), (2, 2), (3, 1)] {
        let names = ReadNames { directory: B, from: None, limit, whole_inodes: true };
        let [_, cold] = volume.costs(&names);
        assert_eq!(cold, Cost { reads, commits: 0 }, "{limit}");
    }
}

#[test]
fn creating_a_node_takes_one_round_trip_if_its_parent_is_cached() {
    let world = World::new();
    let volume = Remembered::of(&world, &[]);
    let ino = world.ino();
    let nodes = [NewNode::Directory, NewNode::File(Box::new(inline(9))), NewNode::Symlink(vec![1])];
    for node in &nodes {
        let name = Some(&b"n"[..]);
        let (mode, uid, gid) = (0o644, 1, 2);
        let make = MakeNode { directory: B, name, ino, node, mode, umask: 0, uid, gid };
        // The dentry of the bucket has its versioning state, which a new file needs.
        let cold = if matches!(node, NewNode::File(_)) { 2 } else { 1 };
        assert_eq!(volume.costs(&make), costs((0, 1), (cold, 1)), "{node:?}");
    }
    let node = &nodes[1];
    let nameless =
        MakeNode { directory: B, name: None, ino, node, mode: 0, umask: 0, uid: 1, gid: 2 };
    // The dentry of the bucket says if the file is encrypted.
    assert_eq!(volume.costs(&nameless), costs((0, 1), (2, 1)));
}

#[test]
fn removing_a_name_takes_one_round_trip_if_it_is_cached() {
    let world = World::new();
    world.file(B, "f", 1);
    let linked = world.file(B, "l", 1);
    world.link(linked, Some(&at(B, "l")), &at(B, "m")).unwrap();
    let volume = Remembered::of(&world, &[]);
    assert_eq!(volume.costs(&RemoveName { name: &at(B, "f") }), costs((0, 1), (3, 1)));
    assert_eq!(volume.costs(&RemoveName { name: &at(B, "l") }), costs((0, 1), (4, 1)));
}

#[test]
fn removing_a_directory_reads_that_it_is_empty_first() {
    let world = World::new();
    world.mkdir(B, "d");
    let volume = Remembered::of(&world, &[]);
    assert_eq!(volume.costs(&RemoveDirectory { name: &at(B, "d") }), costs((1, 1), (3, 1)));
}

#[test]
fn rename_takes_one_round_trip_if_directories_and_names_are_cached() {
    let world = World::new();
    let (a, d) = (world.mkdir(B, "a"), world.mkdir(B, "d"));
    let below = world.mkdir(d, "below");
    world.file(a, "f", 1);
    world.file(a, "g", 1);
    let volume = Remembered::of(&world, &[at(below, "n"), at(a, "n")]);
    let rename =
        |from: &NodeName, to: &NodeName, mode| volume.costs(&RenameNode { from, to, mode });
    let (f, g) = (at(a, "f"), at(a, "g"));
    // The rename of a file also reads the bucket and its dentry, for the versioning state.
    assert_eq!(rename(&f, &at(a, "n"), RenameMode::Replace), costs((0, 1), (3, 1)));
    assert_eq!(rename(&f, &at(below, "n"), RenameMode::NoReplace), costs((0, 1), (3, 1)));
    assert_eq!(rename(&f, &g, RenameMode::Replace), costs((0, 1), (3, 1)));
    assert_eq!(rename(&f, &g, RenameMode::Exchange), costs((0, 1), (3, 1)));
    // The directories above the new name are read one by one: `d`, and that of the bucket.
    let moved = rename(&at(B, "a"), &at(below, "n"), RenameMode::Replace);
    assert_eq!(moved, costs((0, 1), (3, 1)));
}

#[test]
fn link_takes_one_round_trip_if_all_records_are_cached() {
    let world = World::new();
    let ino = world.file(B, "f", 1);
    let volume = Remembered::of(&world, &[]);
    let link = LinkNode { ino, known_name: Some(&at(B, "f")), to: &at(B, "g") };
    assert_eq!(volume.costs(&link), costs((0, 1), (3, 1)));
    let nameless = world.make_nameless(B, 1).unwrap();
    let volume = Remembered::of(&world, &[]);
    let link = LinkNode { ino: nameless, known_name: None, to: &at(B, "g") };
    assert_eq!(volume.costs(&link), costs((0, 1), (3, 1)));
}

#[test]
fn attribute_change_takes_one_round_trip_if_the_node_is_cached() {
    let world = World::new();
    let (file, object) = (world.file(B, "f", 1), world.put("o", 1));
    let volume = Remembered::of(&world, &[]);
    let change = &AttributeChange { mode: Some(0), ..KEPT };
    let chmod = SetAttributes { ino: file, change };
    assert_eq!(volume.costs(&chmod), costs((0, 1), (1, 1)));
    let set = |ino, known_name, length, expected| {
        let change = &XattrChange::Set(Bytes::from(vec![0; length]));
        let set = SetXattr { ino, known_name, name: b"user.a", change };
        assert_eq!(volume.costs(&set), expected, "{length}");
    };
    let item = &ObjectItem::Tag("t".to_owned());
    let tag = SetObjectItem { ino: object, item, value: Some("v"), must_exist: None };
    assert_eq!(volume.costs(&tag), costs((0, 1), (1, 1)));
    set(file, None, 1, costs((0, 1), (1, 1)));
    set(file, None, LONG, costs((0, 1), (1, 1)));
    set(object, None, 1, costs((0, 1), (1, 1)));
    set(object, Some(&at(B, "o")), LONG, costs((0, 1), (2, 1)));
}

#[test]
fn uncached_xattr_takes_one_read_and_a_long_one_two() {
    let world = World::new();
    let ino = world.file(B, "f", 1);
    for (name, length) in [(&b"user.short"[..], 1), (b"user.long", LONG)] {
        let change = &XattrChange::Set(Bytes::from(vec![0; length]));
        world.run(&SetXattr { ino, known_name: None, name, change }).unwrap();
    }
    let volume = Remembered::of(&world, &[]);
    let find = |name| volume.costs(&FindXattr { ino, name });
    assert_eq!(find(b"user.short"), costs((1, 0), (1, 0)));
    assert_eq!(find(b"user.long"), costs((1, 0), (2, 0)));
}

/// A write of slices of one byte, each in a block of its own, at every second position.
fn comb(from: u64, count: u64, block: u64) -> ContentChange {
    let slice = |n| Slice {
        position: from + 2 * n,
        block: BlockId::new(NONCE, block + n),
        block_length: 1,
        block_crc32c: 0,
        offset: 0,
        length: 1,
    };
    ContentChange::Write {
        cut: None,
        slices: (0..count).map(slice).collect(),
        end: from + 2 * count,
        sums: Vec::new(),
    }
}

fn write(ino: Ino, hidden_ino: Ino, change: &ContentChange) -> WriteContent<'_> {
    let (known_name, tag, attributes) = (None, Tag::Md5([1; 16]), &KEPT);
    let own_retention = None;
    let (over, assumptions) = (None, &[][..]);
    WriteContent {
        ino,
        known_name,
        expected_data_version: over,
        assumptions,
        change,
        tag,
        hidden_ino,
        attributes,
        own_retention,
    }
}

#[test]
fn write_takes_one_round_trip_if_file_and_pages_are_cached() {
    let world = World::new();
    let ino = world.file(B, "f", 0);
    let small = comb(0, 3, 0);
    let volume = Remembered::of(&world, &[]);
    // The dentry of the bucket shows whether it has object lock.
    assert_eq!(volume.costs(&write(ino, world.ino(), &small)), costs((0, 1), (3, 1)));
    let large = comb(0, 2_000, 100);
    world.run(&write(ino, world.ino(), &large)).unwrap();
    let volume = Remembered::of(&world, &[]);
    // All pages that a change affects are read together.
    let changes = [comb(7, 3, 5_000), comb(0, 1_000, 5_000), ContentChange::Truncate(0)];
    for change in &changes {
        assert_eq!(volume.costs(&write(ino, world.ino(), change)), costs((0, 1), (3, 1)));
    }
}
