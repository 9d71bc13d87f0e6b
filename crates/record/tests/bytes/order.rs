//! The order of keys, and the contents of ranges.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use record::key;
use record::{BlockId, Ino, Nonce, SortKey, VersionStamp};
use store::Key;

/// Random bytes of an object key, with many bytes next to `/` in byte order.
fn object_key() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![6 => prop::sample::select(b"/ab-.0".to_vec()), 1 => 1_u8..];
    prop::collection::vec(byte, 1..12)
}

/// Directories by inode number. Each is a map from the keys of its dentries to its subdirectories.
type Tree = BTreeMap<u64, BTreeMap<Key, Option<u64>>>;

fn plant(keys: &BTreeSet<Vec<u8>>) -> Tree {
    let mut tree = Tree::from([(1, BTreeMap::new())]);
    for object in keys {
        let mut components: Vec<&[u8]> = object.split(|byte| *byte == b'/').collect();
        let name = components.pop().unwrap();
        let mut at = 1;
        for directory in components {
            let next = tree.len() as u64 + 1;
            let slot = key::dentry(Ino(at), SortKey::directory(directory).as_bytes());
            let names = tree.get_mut(&at).unwrap();
            at = names.entry(slot).or_insert(Some(next)).unwrap();
            tree.entry(at).or_default();
        }
        let slot = key::dentry(Ino(at), SortKey::file(name).as_bytes());
        tree.get_mut(&at).unwrap().insert(slot, None);
    }
    tree
}

fn walk(tree: &Tree, at: u64, prefix: &[u8], found: &mut Vec<Vec<u8>>) {
    for (slot, directory) in &tree[&at] {
        let object = [prefix, slot.suffix()].concat();
        match directory {
            Some(directory) => walk(tree, *directory, &object, found),
            None => found.push(object),
        }
    }
}

proptest! {
    #[test]
    fn depth_first_walk_of_dentries_is_object_key_order(
        keys in prop::collection::btree_set(object_key(), 0..40),
    ) {
        let mut found = Vec::new();
        walk(&plant(&keys), 1, b"", &mut found);
        prop_assert_eq!(found, keys.into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn ranges_contain_exactly_their_own_keys(
        mine in any::<[u8; 16]>(), other in any::<[u8; 16]>(), owner in 0..u64::MAX,
        ino in 1..u64::MAX - 1, number in any::<u16>(), sent in any::<u32>(),
        object in object_key(),
    ) {
        let within = |(start, end): (Key, Key), key: &Key| start <= *key && *key < end;
        let (block, owner) = (BlockId(mine), Ino(owner));
        prop_assert!(within(key::shares(block), &key::share(block, owner)));
        // A block of another session with the same end is in the same partition.
        let mut twin = other;
        twin[8..].copy_from_slice(&mine[8..]);
        for foreign in [BlockId(other), BlockId(twin)] {
            prop_assert_eq!(
                within(key::shares(block), &key::share(foreign, owner)),
                foreign == block
            );
        }

        let (here, next) = (Ino(ino), Ino(ino + 1));
        for (range, of) in [
            (key::dentries(here), key::dentry as fn(Ino, &[u8]) -> Key),
            (key::versions(here), |ino, object| {
                key::version(ino, object, VersionStamp([7; 16]))
            }),
            (key::uploads(here), |ino, object| key::upload(ino, object, [7; 16])),
        ] {
            prop_assert!(within(range.clone(), &of(here, &object)));
            prop_assert!(!within(range.clone(), &of(next, &object)));
            prop_assert!(!within(range, &of(Ino(ino - 1), &object)));
        }
        let stamp = VersionStamp(mine);
        let version = key::version(here, &object, stamp);
        prop_assert!(within(key::versions_of(here, &object), &version));
        prop_assert_eq!(key::version_parts(&version), Some((&object[..], stamp)));
        let longer = [&object[..], b"\x01"].concat();
        prop_assert!(!within(key::versions_of(here, &object), &key::version(here, &longer, stamp)));
        prop_assert!(within(key::dentries(here), &key::dentry(here, b"")));
        prop_assert!(within(key::parts(here), &key::part(here, number, sent)));
        prop_assert!(!within(key::parts(here), &key::part(next, number, sent)));
        prop_assert!(!within(key::parts(here), &key::part(Ino(ino - 1), number, sent)));
    }

    #[test]
    fn keys_sort_like_their_contents(
        a in (any::<u16>(), any::<u64>()), b in (any::<u16>(), any::<u64>()),
        sent in any::<(u32, u32)>(),
        pages in any::<(u32, u32)>(), blocks in any::<([u8; 16], [u8; 16])>(),
        uploads in ((object_key(), any::<[u8; 16]>()), (object_key(), any::<[u8; 16]>())),
    ) {
        let ino = Ino(5);
        let (first, second) = ((a.0, sent.0), (b.0, sent.1));
        let part = |(number, sent)| key::part(ino, number, sent);
        prop_assert_eq!(part(first).cmp(&part(second)), first.cmp(&second));
        let (one, two) = pages;
        prop_assert_eq!(key::map_page(ino, one).cmp(&key::map_page(ino, two)), one.cmp(&two));
        prop_assert_eq!(key::part_sums(ino, one).cmp(&key::part_sums(ino, two)), one.cmp(&two));
        prop_assert_eq!(key::inode(Ino(a.1)).cmp(&key::inode(Ino(b.1))), a.1.cmp(&b.1));
        prop_assert_eq!(key::orphan(Ino(a.1)).cmp(&key::orphan(Ino(b.1))), a.1.cmp(&b.1));
        let pending = [BlockId(blocks.0), BlockId(blocks.1)].map(key::pending);
        prop_assert_eq!(pending[0].cmp(&pending[1]), blocks.0.cmp(&blocks.1));
        // The newest version of a key comes first.
        let version = |(object, id): &(Vec<u8>, [u8; 16])| {
            key::version(ino, object, VersionStamp(*id))
        };
        let newest_first = |(object, id): &(Vec<u8>, [u8; 16])| (object.clone(), Reverse(*id));
        prop_assert_eq!(
            version(&uploads.0).cmp(&version(&uploads.1)),
            newest_first(&uploads.0).cmp(&newest_first(&uploads.1))
        );
        let upload = |(object, id): &(Vec<u8>, [u8; 16])| key::upload(ino, object, *id);
        prop_assert_eq!(upload(&uploads.0).cmp(&upload(&uploads.1)), uploads.0.cmp(&uploads.1));
    }

    #[test]
    fn block_id_contains_session_and_counter(
        nonce in any::<[u8; 10]>(), counter in 0..=BlockId::COUNTER_MAX,
    ) {
        let block = BlockId::new(Nonce(nonce), counter);
        prop_assert_eq!((block.session(), block.counter()), (Nonce(nonce), counter));
        prop_assert_eq!(block.to_string().parse(), Ok(block));
        prop_assert_eq!(Nonce(nonce).to_string().parse(), Ok(Nonce(nonce)));
        // A listing of the bucket shows the blocks of a session in the order in which it wrote
        // them.
        prop_assert!(counter == 0 || BlockId::new(Nonce(nonce), counter - 1).to_string()
            < block.to_string());
    }

    #[test]
    fn block_ids_mark_packs_bare_and_secret_blocks(
        nonce in any::<[u8; 10]>(), counter in 0..BlockId::DRAWN_END,
    ) {
        let session = Nonce(nonce);
        let ids = [
            (BlockId::plain(session, counter), (false, false, false)),
            (BlockId::pack(session, counter), (true, false, false)),
            (BlockId::bare(session, counter), (false, true, false)),
            (BlockId::secret(session, counter), (false, false, true)),
            (BlockId::secret_pack(session, counter), (true, false, true)),
        ];
        for (id, marks) in ids {
            let parsed: BlockId = id.to_string().parse().unwrap();
            prop_assert_eq!((parsed.is_pack(), parsed.is_bare(), parsed.is_secret()), marks);
            prop_assert_eq!(parsed.session(), session);
            prop_assert_eq!(parsed.counter() % BlockId::DRAWN_END, counter);
            prop_assert_eq!(ids.iter().filter(|(other, _)| *other == id).count(), 1);
        }
    }

    #[test]
    fn text_that_is_not_an_id_is_refused(text in "\\PC{0,40}") {
        let lower = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
        let id = text.len() == 32 && text.chars().all(lower);
        prop_assert_eq!(text.parse::<BlockId>().is_ok(), id);
    }
}

#[test]
fn dentry_can_be_followed_to_its_inode() {
    let slot = key::dentry(Ino(9), b"name");
    let dentry = record::Dentry::file(Ino(0x1234_5678_9abc_def0));
    let target = key::dentry_to_inode().target(&dentry.encode(&slot));
    assert_eq!(target, Some(key::inode(dentry.ino)));
}

#[test]
fn uppercase_digits_and_wrong_lengths_are_not_ids() {
    assert!("A0a1a2a3a4a5a6a7a8a9".parse::<Nonce>().is_err());
    assert!("a0a1a2a3a4a5a6a7a8a".parse::<Nonce>().is_err());
    assert!("a0a1a2a3a4a5a6a7a8a9a".parse::<Nonce>().is_err());
    assert!("a0a1a2a3a4a5a6a7a8ag".parse::<Nonce>().is_err());
}

#[test]
#[should_panic(expected = "a session writes fewer than 2^43 blocks")]
fn a_counter_that_reaches_the_marks_is_refused() {
    let _ = BlockId::secret(Nonce([1; 10]), BlockId::DRAWN_END);
}
