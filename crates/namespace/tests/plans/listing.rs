//! Listing, compared with brute force over a sorted list of keys, and the costs of a page.

use std::collections::BTreeSet;

use futures::executor::block_on;
use namespace::{
    Hints, ListEntry, ListQuery, ListStart, Next, NoHints, Publish, Run, WalkStep, WriteCondition,
};
use proptest::prelude::*;
use record::{Content, InlineBytes, Ino, Inode, InodeBody, key};
use store::{Key, MetaStore as _, Target};

use crate::world::{World, file, path};

type Keys = BTreeSet<Vec<u8>>;

/// A page: the keys, each with whether it is a common prefix, and whether there are more.
type Page = (Vec<(Vec<u8>, bool)>, bool);

/// The rules of S3, as simple as possible.
fn brute_force(keys: &Keys, query: &ListQuery) -> Page {
    let mut page = Vec::new();
    for key in keys {
        let Some(rest) = key.strip_prefix(&query.prefix[..]) else { continue };
        let delimiter = query.delimiter.as_deref();
        let at = delimiter.and_then(|d| rest.windows(d.len()).position(|window| window == d));
        let rolled = at.zip(delimiter).map(|(at, d)| query.prefix.len() + at + d.len());
        let entry = (key[..rolled.unwrap_or(key.len())].to_vec(), rolled.is_some());
        let behind = query.after.as_ref().is_none_or(|after| entry.0 > *after);
        if !behind || page.last() == Some(&entry) {
            continue;
        }
        if page.len() >= query.limit {
            return (page, query.limit > 0);
        }
        page.push(entry);
    }
    (page, false)
}

fn listed(world: &World, query: &ListQuery, hints: &dyn Hints) -> (Page, usize) {
    let (listing, reads) = world.list(b"b", query, hints);
    let listing = listing.expect("the bucket exists");
    let shown = |entry: &ListEntry| {
        if let ListEntry::Object { key, inode, .. } = entry {
            assert!(inode.file().is_none_or(|file| file.size == 1 + key.len() as u64 % 7));
        }
        (entry.key().to_vec(), matches!(entry, ListEntry::Prefix(_)))
    };
    ((listing.entries.iter().map(shown).collect(), listing.truncated), reads)
}

pub(crate) fn put(world: &World, object: &[u8]) {
    put_inode(world, object, &file(1 + u8::try_from(object.len() % 7).unwrap()));
}

pub(crate) fn put_inode(world: &World, object: &[u8], inode: &Inode) {
    let path = path(object);
    let fresh: Vec<Ino> = path.directories.iter().map(|_| world.ino()).collect();
    let publish = Publish {
        path: &path,
        ino: world.ino(),
        fresh: &fresh,
        inode,
        condition: &WriteCondition::None,
        assumptions: &[],
        writes: &[],
    };
    world.warm(&publish).0.expect("a PUT");
}

/// A file with this number of inline bytes.
fn long(length: usize) -> Inode {
    let mut inode = file(1);
    if let InodeBody::File(file) = &mut inode.body {
        file.size = length as u64;
        file.content = Content::Inline(InlineBytes::plain(vec![7; length].into()));
    }
    inode
}

fn size(entry: &ListEntry) -> u64 {
    match entry {
        ListEntry::Object { inode, .. } => inode.file().map_or(0, |file| file.size),
        ListEntry::Prefix(_) => panic!("no common prefix is expected"),
    }
}

/// The key of the longest inode record.
fn large_inode(world: &World) -> Key {
    let state = world.state();
    let inodes = state.records.iter().filter(|(key, _)| key.space() == key::space::INODE);
    inodes.max_by_key(|(_, value)| value.len()).expect("an inode").0.clone()
}

/// A volume with these objects, and with made directories, which are objects while they are empty.
fn planted(objects: &Keys, made: &Keys) -> (World, Keys) {
    let world = World::new();
    for directory in made {
        let components: Vec<&[u8]> = directory.split(|byte| *byte == b'/').collect();
        world.mkdir(Ino(1_024), &components);
    }
    objects.iter().for_each(|object| put(&world, object));
    let mut keys = objects.clone();
    for directory in made {
        let mut below = vec![];
        for component in directory.split(|byte| *byte == b'/') {
            below.extend_from_slice(component);
            below.push(b'/');
            let holds = |key: &Vec<u8>| key.starts_with(&below) && (key.len() > below.len());
            let holds_made = |other: &Vec<u8>| other.starts_with(&below);
            if !objects.iter().any(holds) && !made.iter().any(holds_made) {
                keys.insert(below.clone());
            }
        }
    }
    (world, keys)
}

fn set(keys: &[&[u8]]) -> Keys {
    keys.iter().map(|key| key.to_vec()).collect()
}

fn delimiters() -> Vec<Option<Vec<u8>>> {
    let some = [&b"/"[..], b"-", b"//", b"b/c", "é".as_bytes(), b"/b/", b"."];
    std::iter::once(None).chain(some.map(|d| Some(d.to_vec()))).collect()
}

/// All prefixes of all keys, and some that no key has.
fn prefixes(keys: &Keys) -> Keys {
    let mut all: Keys =
        keys.iter().flat_map(|key| (0..=key.len().min(9)).map(|n| key[..n].to_vec())).collect();
    all.extend(keys.iter().cloned());
    all.extend(set(&[b"zzz", b"a/zz", b"a/b/", b"a//", b"//", b"a/b/c/d/", b"\xff", b"a/\xff"]));
    all
}

/// All keys, all common prefixes, and strings between, before and behind them.
fn markers(keys: &Keys, query: &ListQuery) -> Keys {
    let everything = ListQuery { after: None, limit: usize::MAX, ..query.clone() };
    let mut all: Keys = keys.clone();
    all.extend(brute_force(keys, &everything).0.into_iter().map(|(key, _)| key));
    let mut between = set(&[b"", b"\x01", b"/", b"a", b"\xff"]);
    for key in &all {
        between.insert([key, &b"\x01"[..]].concat());
        between.insert([key, &b"/"[..]].concat());
        between.insert([key, &b"\xff"[..]].concat());
        between.insert(key[..key.len().saturating_sub(1)].to_vec());
    }
    all.extend(between);
    all
}

#[track_caller]
fn agrees(world: &World, keys: &Keys, query: &ListQuery, hints: &dyn Hints) -> Page {
    let (page, _) = listed(world, query, hints);
    assert_eq!(page, brute_force(keys, query), "{query:?}");
    page
}

/// Lists all pages, and compares them with the complete listing.
fn turn_pages(world: &World, keys: &Keys, query: &ListQuery, hints: &dyn Hints) -> usize {
    let (mut query, mut all, mut pages) = (query.clone(), Vec::new(), 0);
    loop {
        let (page, truncated) = agrees(world, keys, &query, hints);
        pages += 1;
        query.after = page.last().map(|(key, _)| key.clone());
        all.extend(page);
        if !truncated {
            break;
        }
    }
    let whole = ListQuery { after: None, limit: usize::MAX, ..query };
    assert_eq!(all, brute_force(keys, &whole).0);
    pages
}

fn nasty() -> Keys {
    let long = [&b"a/"[..], &[b'x'; 300], b"/y"].concat();
    let mut keys = set(&[
        b"a", b"a/", b"a/b", b"a/b/c", b"a/b/c/d", b"a/b-c", b"a//b", b"a///", b"a-b", b"a-b/c",
        b"a-c", b"a.b", b"a.c", b"/", b"//", b"/a", b".", b"..", b"../x", b"./a/..", b"ab/c",
        b"b/c", b"b/cd", b"xb/c/d", b"b0", b"a0",
    ]);
    keys.extend(["é", "é/ü", "aé-é", "日本/é"].map(|key| key.as_bytes().to_vec()));
    keys.insert(long);
    keys
}

#[test]
fn every_prefix_and_delimiter_lists_page_by_page() {
    let (world, keys) = planted(&nasty(), &set(&[b"a/made", b"made", b"made-2/x", b"b"]));
    let mut pages = 0;
    for prefix in prefixes(&keys) {
        for delimiter in delimiters() {
            for limit in [1, 2, 3, 4, 5, 6, 7, 1_000] {
                let (prefix, delimiter) = (prefix.clone(), delimiter.clone());
                let query = ListQuery { prefix, delimiter, after: None, limit };
                pages += turn_pages(&world, &keys, &query, &world.memory);
            }
        }
    }
    assert!(pages > 5_000, "{pages} pages");
}

#[test]
fn page_can_start_at_every_marker() {
    let (world, keys) = planted(&nasty(), &set(&[b"a/made", b"made"]));
    let (mut cases, mut limit) = (0, 0);
    for prefix in set(&[b"", b"a", b"a/", b"a/b", b"/", b"b", b"made/", b"a/b/", b"."]) {
        for delimiter in delimiters() {
            let (prefix, delimiter) = (prefix.clone(), delimiter.clone());
            let query = ListQuery { prefix, delimiter, after: None, limit: 0 };
            for after in markers(&keys, &query) {
                limit = limit % 7 + 1;
                let query = ListQuery { after: Some(after), limit, ..query.clone() };
                agrees(&world, &keys, &query, &NoHints);
                cases += 1;
            }
        }
    }
    assert!(cases > 5_000, "{cases} cases");
}

fn component() -> impl Strategy<Value = Vec<u8>> {
    let names: Vec<&[u8]> =
        vec![b"", b"", b"a", b"b", b"c", b"a-b", b"a.b", b"-", b".", b"..", "é".as_bytes(), b"a0"];
    prop::sample::select(names).prop_map(<[u8]>::to_vec)
}

fn object_key() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(component(), 1..5)
        .prop_map(|components| components.join(&b'/'))
        .prop_filter("a key is not empty", |key| !key.is_empty())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn listing_of_random_keys_equals_brute_force(
        objects in prop::collection::btree_set(object_key(), 0..25),
        made in prop::collection::btree_set(object_key(), 0..4),
        picks in prop::collection::vec(any::<[prop::sample::Index; 3]>(), 24),
        limit in 1_usize..8,
    ) {
        let (world, keys) = planted(&objects, &made);
        world.audit();
        let prefixes: Vec<Vec<u8>> = prefixes(&keys).into_iter().collect();
        for [prefix, delimiter, after] in picks {
            let (prefix, delimiter) = (prefix.get(&prefixes), delimiter.index(delimiters().len()));
            let delimiter = delimiters()[delimiter].clone();
            let query = ListQuery { prefix: prefix.clone(), delimiter, after: None, limit };
            turn_pages(&world, &keys, &query, &NoHints);
            let markers: Vec<Vec<u8>> = markers(&keys, &query).into_iter().collect();
            let query = ListQuery { after: Some(after.get(&markers).clone()), ..query };
            agrees(&world, &keys, &query, &world.memory);
            agrees(&world, &keys, &ListQuery { limit: 1_000, ..query }, &NoHints);
        }
    }
}

fn query(prefix: &[u8], delimiter: Option<&[u8]>, limit: usize) -> ListQuery {
    let delimiter = delimiter.map(<[u8]>::to_vec);
    ListQuery { prefix: prefix.to_vec(), delimiter, after: None, limit }
}

/// The number of entries of a page, whether there are more, and the number of reads.
fn page(world: &World, query: &ListQuery, hints: &dyn Hints) -> (usize, bool, usize) {
    let ((entries, truncated), reads) = listed(world, query, hints);
    (entries.len(), truncated, reads)
}

#[test]
fn page_of_one_directory_takes_one_read() {
    let world = World::new();
    for n in 0..1_500 {
        put(&world, format!("dir/sub/{n:04}").as_bytes());
    }
    put(&world, b"dir/other/deep/x");
    let memory = &world.memory;
    let slash = Some(&b"/"[..]);
    // One read for each directory of the prefix that is not cached.
    assert_eq!(page(&world, &query(b"dir/sub/", slash, 1_000), memory), (1_000, true, 1));
    assert_eq!(page(&world, &query(b"dir/sub/", slash, 1), memory), (1, true, 1));
    assert_eq!(page(&world, &query(b"dir/", slash, 1_000), memory), (2, false, 1));
    assert_eq!(page(&world, &query(b"dir/sub/14", slash, 1_000), memory), (100, false, 1));
    assert_eq!(page(&world, &query(b"dir/none", slash, 1_000), memory), (0, false, 1));
    let after =
        |key: &[u8]| ListQuery { after: Some(key.to_vec()), ..query(b"dir/sub/", slash, 1_000) };
    assert_eq!(page(&world, &after(b"dir/sub/0999"), memory), (500, false, 1));
    assert_eq!(page(&world, &query(b"dir/sub/", None, 1_000), memory), (1_000, true, 1));
    // One read for each directory of the prefix that is not remembered.
    assert_eq!(page(&world, &query(b"dir/sub/", slash, 1_000), &NoHints), (1_000, true, 4));
}

#[test]
fn page_over_many_directories_takes_few_reads() {
    let world = World::new();
    for n in 0..1_000 {
        put(&world, format!("{n:04}/file").as_bytes());
    }
    let memory = &world.memory;
    assert_eq!(page(&world, &query(b"", Some(b"/"), 1_000), memory), (1_000, false, 1));
    // The names of the bucket, then its directories, 256 at a time.
    assert_eq!(page(&world, &query(b"", None, 1_000), memory), (1_000, false, 5));
    assert_eq!(page(&world, &query(b"", None, 500), memory), (500, true, 3));
}

#[test]
fn rolled_up_keys_are_not_read() {
    for (delimiter, behind) in [(b"-", b'.'), (b".", b'/')] {
        let world = World::new();
        for n in 0..3_000 {
            let key = [&b"a"[..], delimiter, format!("{n:04}").as_bytes()].concat();
            put(&world, &key);
        }
        put(&world, &[b'a', behind, b'x']);
        put(&world, b"b");
        let query = query(b"", Some(delimiter), 10);
        let (entries, truncated, reads) = page(&world, &query, &world.memory);
        assert_eq!((entries, truncated), (3, false));
        assert!(reads <= 3, "{reads} reads to skip what begins with a{}", char::from(delimiter[0]));
    }
}

/// The reads of a page do not depend on the length of inode records.
#[test]
fn page_reads_only_the_heads_of_objects() {
    let world = World::new();
    for (object, length) in [(&b"dir/small"[..], 1), (b"dir/large", 4_096)] {
        put_inode(&world, object, &long(length));
    }
    let query = query(b"dir/", Some(b"/"), 10);
    let start = ListStart { bucket: b"b".into(), query: &query };
    let mut run = Run::new(&start, world.env());
    let Next::Read(reads) = run.advance(&world.memory) else { panic!("a page is read") };
    let found = block_on(world.store.read(&reads)).unwrap();
    let cut = |entry: &store::Entry| matches!(entry.target, Target::Cut(_));
    let cuts = found.iter().filter_map(|found| match found {
        store::ReadResult::Range(entries) => Some(entries.iter().map(cut).collect::<Vec<_>>()),
        _ => None,
    });
    assert_eq!(cuts.collect::<Vec<_>>(), [[true, false]], "of the large one only the first bytes");
    let before = world.memory.clone();
    world.memory.learn(&reads, &found);
    run.learn(reads, found);
    let Next::Done(Ok(mut walk)) = run.advance(&world.memory) else { panic!("one read is enough") };
    let Ok(WalkStep::Page(page)) = walk.advance() else { panic!("the page is there") };
    let sizes: Vec<_> = page.entries.iter().map(size).collect();
    assert_eq!(sizes, [4_096, 1]);
    // The cached record of the large inode is still complete.
    let large = large_inode(&world);
    assert_eq!(world.memory.record(&large), before.record(&large));
    let record = world.memory.record(&large).flatten().expect("remembered since its PUT");
    Inode::decode(&large, &record).expect("a whole record");
}

#[test]
fn listing_a_missing_bucket_fails() {
    let (page, reads) = World::new().list(b"c", &query(b"", None, 1), &NoHints);
    assert_eq!((page, reads), (Err(namespace::FsError::NoSuchBucket), 1));
}

#[test]
fn page_with_limit_zero_is_empty_and_not_truncated() {
    let world = World::new();
    put(&world, b"a");
    assert_eq!(page(&world, &query(b"", None, 0), &world.memory), (0, false, 1));
}
