//! Forks of buckets: their content, their costs, and the independence of both sides.

use std::collections::BTreeMap;
use std::sync::Arc;

use block::{MemoryBlocks, Observed};
use bytes::Bytes;
use faulty::Faulty;
use futures::TryStreamExt;
use namespace::{
    AclKind, AttributeChange, NamedBucket, NewNode, NodeName, ReadDirectoryPage, SetTime,
};
use record::key::{self, CounterKind, space};
use record::{
    Content, Ino, Inode, InodeBody, Kind, ObjectHeaders, ObjectLock, ObjectOwnership, PartTag,
    PublicAccessBlock, RetainUntil, RetentionMode, SpecialKind, Sum, SumAlgorithm, SumKind, Tag,
    Timestamp, Versioning,
};
use session::SessionOptions;
use store::{MetaStore, Read, ReadResult};

use super::packs::{THREE, bytes_of, counters, findings, pack};
use super::reaping::{finished, owner, part, put, put_bytes, records, upload};
use super::{MaintainedVolume, count_blocks, make_bucket};
use crate::{
    Acl, BucketChange, CompletePart, CompleteUpload, Creator, FileWrite, ForkWatch, Forked,
    FsError, NewObject, ObjectChange, ObjectDigests, SetClock, Volume, VolumeError, VolumeOptions,
    WriteCondition, XattrChange,
};

const MAKER: Creator = Creator { mode: 0o750, umask: 0, uid: 7, gid: 8 };

/// A volume whose blocks are counted.
struct World {
    store: Arc<Faulty>,
    blocks: Arc<MemoryBlocks>,
    counted: Arc<Observed<Arc<MemoryBlocks>>>,
    clock: Arc<SetClock>,
    volume: MaintainedVolume,
    bucket: Ino,
}

impl World {
    async fn new() -> World {
        let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
        let counted = Arc::new(Observed::new(blocks.clone()));
        let clock = Arc::new(SetClock::new(Timestamp(1_000_000_000_000)));
        let options = VolumeOptions {
            block_bytes: 65_536,
            session: SessionOptions { clock: clock.clone(), ..SessionOptions::default() },
            ..VolumeOptions::default()
        };
        let volume = MaintainedVolume::open_without_tasks(options, store.clone(), counted.clone())
            .await
            .unwrap();
        let bucket = make_bucket(&volume).await;
        World { store, blocks, counted, clock, volume, bucket }
    }

    async fn fork(&self, to: &str) -> Forked {
        self.clock.set(Timestamp(9_000_000_000_000));
        self.volume.fork_bucket("b", to, &()).await.unwrap()
    }

    async fn in_order(&self) {
        assert_eq!(findings(&self.store, &self.blocks).await, []);
    }

    async fn node(&self, directory: Ino, name: &[u8], node: NewNode) -> Ino {
        let unnoted = ledger::Note::none();
        let act = self.volume.journaled(&unnoted);
        act.make_node(directory, Some(name), &node, MAKER).await.unwrap().ino
    }

    async fn set_xattr(&self, ino: Ino, known_name: Option<&NodeName>, name: &[u8], value: &[u8]) {
        let unnoted = ledger::Note::none();
        let set = XattrChange::Set(Bytes::copy_from_slice(value));
        self.volume.journaled(&unnoted).set_xattr(ino, known_name, name, &set).await.unwrap();
    }

    async fn ino(&self, bucket: &str, key: &[u8]) -> Ino {
        self.volume.stat(bucket, key).await.unwrap().ino
    }

    async fn ino_of_directory(&self, bucket: &str, name: &[u8]) -> Ino {
        let name = NodeName { directory: self.bucket_of(bucket).await, name: name.to_vec() };
        self.volume.find_name(&name).await.unwrap().ino
    }

    async fn bucket_of(&self, name: &str) -> Ino {
        self.volume.bucket(name).await.unwrap().ino
    }

    /// Deletes a bucket with all its objects, and then all unnamed blocks.
    async fn delete_all(&self, name: &str) {
        self.empty(name, self.bucket_of(name).await, Vec::new()).await;
        self.volume.delete_bucket(name).await.unwrap();
        self.volume.upkeep.reap_now().await.unwrap();
    }

    async fn empty(&self, bucket: &str, directory: Ino, path: Vec<u8>) {
        let unnoted = ledger::Note::none();
        let act = self.volume.journaled(&unnoted);
        for (sort_key, kind, ino) in names_in(&self.volume, directory).await {
            let at = [&path[..], &sort_key].concat();
            let name = NodeName {
                directory,
                name: sort_key.strip_suffix(b"/").unwrap_or(&sort_key).to_vec(),
            };
            match kind {
                Kind::File => {
                    let deleted = self.volume.delete(bucket, vec![(at, None)]).await.unwrap();
                    assert!(deleted[0].is_ok(), "{deleted:?}");
                }
                Kind::Directory => {
                    Box::pin(self.empty(bucket, ino, at)).await;
                    let gone = act.remove_directory(&name).await;
                    let gone = gone.map(drop);
                    assert!(
                        matches!(
                            gone,
                            Ok(()) | Err(VolumeError::Fs(FsError::NoSuchKey | FsError::Stale))
                        ),
                        "{gone:?} of {}",
                        name.name.escape_ascii()
                    );
                }
                Kind::Symlink | Kind::Special => drop(act.remove_name(&name).await.unwrap()),
            }
        }
    }
}

/// The dentries of a directory.
async fn names_in(volume: &Volume, directory: Ino) -> Vec<(Vec<u8>, Kind, Ino)> {
    let read = ReadDirectoryPage { directory, from: None, limit: 1_000 };
    let page = volume.session.run(&read).await.unwrap();
    let name =
        |name: namespace::BoundName| (name.sort_key().to_vec(), name.dentry.kind, name.dentry.ino);
    page.names.into_iter().map(name).collect()
}

/// Everything that both views show of a directory, as text, and which names are of one file.
async fn picture(volume: &Volume, directory: Ino) -> BTreeMap<Vec<u8>, String> {
    let (mut all, mut waiting) = (BTreeMap::new(), vec![(directory, Vec::new())]);
    let mut numbers: Vec<Ino> = Vec::new();
    while let Some((directory, path)) = waiting.pop() {
        for (sort_key, kind, ino) in names_in(volume, directory).await {
            let at = [&path[..], &sort_key].concat();
            let key =
                if sort_key.is_empty() { [&at[..], b"(object)"].concat() } else { at.clone() };
            let number = numbers.iter().position(|one| *one == ino).unwrap_or(numbers.len());
            if number == numbers.len() {
                numbers.push(ino);
            }
            let node = volume.find_node(ino).await.unwrap();
            let bytes: Vec<Bytes> = match node.inode.file() {
                Some(file) => {
                    let read = volume.read_node(&node, volume.reading(), 0..file.size);
                    read.try_collect().await.unwrap()
                }
                None => Vec::new(),
            };
            let mut long = Vec::new();
            for xattr in &node.inode.xattrs {
                long.push(volume.xattr(ino, &xattr.name).await.unwrap());
            }
            let sums = part_sums(volume, &node.inode, ino).await;
            let words = words(node.inode, kind);
            let bytes = crc(&bytes.concat());
            all.insert(key, format!("{number} {words} {bytes} {long:?} {sums:?}"));
            if kind == Kind::Directory {
                waiting.push((ino, at));
            }
        }
    }
    all
}

fn crc(bytes: &[u8]) -> String {
    use md5::Digest;
    format!("{} bytes {}", bytes.len(), hex::encode(md5::Md5::digest(bytes)))
}

async fn part_sums(volume: &Volume, inode: &Inode, ino: Ino) -> Option<Vec<u8>> {
    inode.file()?.parts.first()?;
    let at = key::part_sums(ino, 0);
    let value = faulty::get(&**volume.session.store(), &at).await?;
    Some(record::PartSums::decode(&at, &value).unwrap().sums[0].bytes.clone())
}

/// The properties of an inode that its copy must have, too.
fn words(mut inode: Inode, kind: Kind) -> String {
    inode.bucket = Ino::ROOT;
    (inode.attributes.created, inode.attributes.status_changed) = Default::default();
    match &mut inode.body {
        InodeBody::Directory(directory) => directory.parent = Ino::ROOT,
        InodeBody::File(file) => {
            (file.data_version, file.pages_made) = (1, 0);
            file.marked_in_dentry = false;
            file.content = Content::Inline(record::InlineBytes::empty());
            file.object.acl = None;
            file.object.lock = ObjectLock::default();
        }
        InodeBody::Symlink(_) | InodeBody::Special(_) => {}
    }
    format!("{kind:?} {inode:?}")
}

/// An object with all that S3 keeps with one.
async fn put_dressed(volume: &Volume, name: &[u8]) {
    let mut writer = volume.writer(None, None);
    writer.write(Bytes::from_static(b"dressed")).await.unwrap();
    let pair = |name: &str| (name.to_owned(), "value".to_owned());
    let headers = ObjectHeaders {
        headers: vec![(record::Header::ContentType, "text/x".to_owned())],
        user: vec![pair("meta")],
        tags: vec![pair("tag")],
        acl: None,
        lock: ObjectLock::default(),
    };
    let sum =
        Sum { algorithm: SumAlgorithm::Crc32, kind: SumKind::FullObject, bytes: vec![1, 2, 3, 4] };
    let writer_account = crate::FileOwner { writer: Some(record::AccountId(9)), ..owner() };
    let new = NewObject {
        owner: writer_account,
        headers,
        tag: Tag::Md5([8; 16]),
        sums: vec![sum],
        encryption: None,
    };
    let body = writer.finish().await.unwrap();
    volume.put("b", name, body, new, WriteCondition::None).await.unwrap();
}

/// An object of two parts, with a checksum of each.
async fn complete(volume: &Arc<Volume>, name: &[u8]) {
    let id = upload(volume, name).await;
    let mut writer = content::ContentWriter::in_blocks(&volume.writers, None);
    writer.write(vec![6; 5_300_000].into()).await.unwrap();
    let body = writer.finish().await.unwrap();
    volume.put_part("b", name, id, 1, body, PartTag::Md5([9; 16]), Vec::new()).await.unwrap();
    part(volume, name, id, 2).await;
    let part = |number| CompletePart { number, tag: Tag::Md5([9; 16]), sums: Vec::new() };
    let parts = [part(1), part(2)];
    let wanted =
        CompleteUpload { parts: &parts, object_size: None, condition: WriteCondition::None };
    let sum = |byte| Sum {
        algorithm: SumAlgorithm::Crc32,
        kind: SumKind::FullObject,
        bytes: vec![byte; 4],
    };
    let finish = |_: &_, _: &[_]| {
        let part_sums = vec![sum(1), sum(2)];
        Ok::<_, VolumeError>(ObjectDigests { part_sums, ..finished(Tag::Multipart([3; 16], 2)) })
    };
    volume.complete("b", name, id, wanted, finish).await.unwrap();
}

/// Creates one node of each kind.
async fn furnish(world: &World) {
    let volume = &world.volume;
    pack(volume, &THREE).await;
    put_bytes(volume, b"d/block", &bytes_of("block", 60_000)).await;
    put_bytes(volume, b"d/e/many", &bytes_of("many", 6_000_000)).await;
    put_bytes(volume, b"d/", b"the directory's own").await;
    put_dressed(volume, b"deep/er/st/dressed").await;
    put_dressed(volume, b"both").await;
    put_dressed(volume, b"both/below").await;
    complete(volume, b"parts").await;
    put(volume, b"changed", 200_000).await;
    let changed = world.ino("b", b"changed").await;
    let write = FileWrite::new(changed, None);
    volume.clear_range(write, 1_000..199_000).await.unwrap();

    let made = world.node(world.bucket, b"made", NewNode::Directory).await;
    world.node(made, b"empty", NewNode::Directory).await;
    world.set_xattr(made, None, b"user.long", &[b'l'; 5_000]).await;
    world.node(made, b"link", NewNode::Symlink(b"../d/block".to_vec())).await;
    world.node(made, b"fifo", NewNode::Special(SpecialKind::Fifo, 0)).await;
    let (key, acl) = (
        b"d/block",
        b"\x02\0\0\0\x01\0\x06\0\xff\xff\xff\xff\x02\0\x04\0\x07\0\0\0\
        \x04\0\x04\0\xff\xff\xff\xff\x10\0\x04\0\xff\xff\xff\xff\x20\0\0\0\xff\xff\xff\xff",
    );
    let block = world.ino("b", key).await;
    let acl = Acl::parse(acl).unwrap();
    let unnoted = ledger::Note::none();
    let act = volume.journaled(&unnoted);
    act.set_acl(block, AclKind::Access, acl.as_ref(), false).await.unwrap();
    world.set_xattr(block, None, b"user.short", b"s").await;

    let file = NewNode::File(Box::new(crate::empty_file()));
    let first = world.node(made, b"first", file).await;
    let name = |name: &[u8]| NodeName { directory: made, name: name.to_vec() };
    for other in [&b"second"[..], b"third"] {
        act.link_node(first, Some(&name(b"first")), &name(other)).await.unwrap();
    }
    let times = AttributeChange {
        accessed: Some(SetTime::At(Timestamp(5))),
        modified: Some(SetTime::At(Timestamp(6_000))),
        ..AttributeChange::default()
    };
    for ino in [first, made, world.bucket] {
        act.set_attributes(ino, &times).await.unwrap();
    }
}

async fn count(store: &dyn MetaStore, ino: Ino, kind: CounterKind) -> i64 {
    match store.read(&[Read::Counter(key::counter(ino, kind))]).await.unwrap()[..] {
        [ReadResult::Counter(count)] => count,
        _ => panic!("a counter was asked for"),
    }
}

/// A copy equals its source in every respect, needs no block read or written, and can be changed
/// and deleted without the other.
#[tokio::test(start_paused = true)]
async fn a_fork_has_the_content_of_its_bucket_and_shares_its_blocks() {
    let world = World::new().await;
    furnish(&world).await;
    world.volume.upkeep.reap_now().await.unwrap();
    world.in_order().await;
    let before = picture(&world.volume, world.bucket).await;
    let meters = world.counted.meters();
    let transfers = || (meters.put.requests.get(), meters.get.requests.get());
    let (moved, kept) = (transfers(), count_blocks(&world.blocks).await);
    let forked = world.fork("c").await;
    // The whole point of it.
    assert_eq!(transfers(), moved);
    assert_eq!(count_blocks(&world.blocks).await, kept);
    let files = 3 + 3 + 3 + 1 + 1 + 1;
    let made = Forked {
        directories: before.values().filter(|words| words.contains("Directory")).count() as u64,
        files,
        bytes: forked.bytes,
        others: 2,
        links: 2,
        ..Forked::default()
    };
    assert_eq!(forked, made);
    world.in_order().await;
    let copy = world.bucket_of("c").await;
    assert_eq!(picture(&world.volume, copy).await, before);
    for kind in [CounterKind::Objects, CounterKind::Bytes, CounterKind::Entries] {
        let [old, new] = [world.bucket, copy];
        let store = &*world.store;
        assert_eq!(count(store, new, kind).await, count(store, old, kind).await, "{kind:?}");
    }
    let own = world.volume.find_node(copy).await.unwrap().inode;
    let theirs = world.volume.find_node(world.bucket).await.unwrap().inode.attributes;
    assert_eq!(own.attributes.modified, theirs.modified);
    assert_eq!(own.attributes.created, Timestamp(9_000_000_000_000));
    let changed = each_is_changed(&world, copy, &before).await;

    world.delete_all("b").await;
    world.in_order().await;
    let left = picture(&world.volume, copy).await;
    assert_eq!(left, changed, "without the bucket that it came from");
    world.delete_all("c").await;
    nothing_is_left(&world).await;
}

/// Changes the bucket and its copy. Neither sees the changes of the other. Returns the copy.
async fn each_is_changed(
    world: &World,
    copy: Ino,
    before: &BTreeMap<Vec<u8>, String>,
) -> BTreeMap<Vec<u8>, String> {
    let write = FileWrite::new(world.ino("c", b"d/e/many").await, None);
    world.volume.clear_range(write, 10..5_000_000).await.unwrap();
    let write = FileWrite::new(world.ino("b", b"d/block").await, None);
    world.volume.truncate(write, 100).await.unwrap();
    world.volume.upkeep.reap_now().await.unwrap();
    world.in_order().await;
    let (old, new) =
        (picture(&world.volume, world.bucket).await, picture(&world.volume, copy).await);
    let differing = |one: &BTreeMap<_, String>| -> Vec<Vec<u8>> {
        let differs =
            |(name, words): (&Vec<u8>, &String)| (before[name] != *words).then(|| name.clone());
        one.iter().filter_map(differs).collect()
    };
    assert_eq!(differing(&old), [b"d/block".to_vec()]);
    assert_eq!(differing(&new), [b"d/e/many".to_vec()]);
    new
}

async fn nothing_is_left(world: &World) {
    world.in_order().await;
    assert_eq!(count_blocks(&world.blocks).await, 0);
    assert_eq!(counters(&*world.store).await, BTreeMap::new());
    for space in [space::SHARE, space::MAP, space::PART_SUMS, space::XATTR, space::STAGED] {
        assert_eq!(records(&*world.store, space).await, 0, "{space:?}");
    }
}

/// The copied bucket may also be the one that is deleted last.
#[tokio::test(start_paused = true)]
async fn the_bucket_outlives_its_fork() {
    let world = World::new().await;
    furnish(&world).await;
    let before = picture(&world.volume, world.bucket).await;
    world.fork("c").await;
    world.delete_all("c").await;
    world.in_order().await;
    assert_eq!(picture(&world.volume, world.bucket).await, before);
    world.delete_all("b").await;
    nothing_is_left(&world).await;
}

/// Of what a bucket is set to do only what keeps others out comes along; of versions the current
/// ones, and no lock.
#[tokio::test(start_paused = true)]
async fn a_fork_has_current_versions_and_is_not_locked() {
    let world = World::new().await;
    let volume = &world.volume;
    let block = PublicAccessBlock { ignore_public_acls: true, ..PublicAccessBlock::default() };
    for change in [
        BucketChange::Versioning(Versioning::Enabled),
        BucketChange::Ownership(Some(ObjectOwnership::ObjectWriter)),
        BucketChange::PublicAccess(Some(block)),
    ] {
        volume.set_bucket("b", change).await.unwrap();
    }
    volume.set_bucket_tags("b", &[("a".to_owned(), "b".to_owned())]).await.unwrap();
    put_bytes(volume, b"kept", &bytes_of("old", 70_000)).await;
    put_bytes(volume, b"kept", &bytes_of("new", 70_000)).await;
    put_bytes(volume, b"gone", &bytes_of("gone", 70_000)).await;
    volume.delete("b", vec![(b"gone".to_vec(), None)]).await.unwrap();
    for change in [
        ObjectChange::LegalHold(true),
        ObjectChange::Retention {
            retention: Some(RetainUntil {
                mode: RetentionMode::Compliance,
                until: Timestamp(i64::MAX),
            }),
            bypasses_governance: false,
        },
    ] {
        volume.change_object("b", b"kept", None, None, change).await.unwrap();
    }
    let forked = world.fork("c").await;
    assert_eq!((forked.files, forked.bytes), (1, 70_000));
    world.in_order().await;
    let found = volume.bucket("c").await.unwrap();
    assert_eq!(found.versioning, Versioning::Off);
    assert_eq!(found.bucket.ownership, Some(ObjectOwnership::ObjectWriter));
    assert_eq!(found.bucket.public_access, Some(block));
    assert_eq!(volume.bucket_tags("c").await.unwrap(), []);
    let object = volume.stat("c", b"kept").await.unwrap();
    assert_eq!(object.version, None);
    assert_eq!(object.file().object.lock, ObjectLock::default());
    // A reader that has found it keeps it.
    drop(object);
    world.delete_all("c").await;
    world.in_order().await;
}

/// While others write, replace and delete, each file of the fork is as it was at some instant.
#[tokio::test(start_paused = true)]
async fn each_file_of_a_fork_is_of_one_instant_beside_writers() {
    const FILES: u8 = 80;
    let world = World::new().await;
    let volume = &world.volume;
    let content = |fill: u8| vec![fill; 70_000 + usize::from(fill)];
    for number in 0..FILES {
        put_bytes(volume, format!("w/{number}").as_bytes(), &content(0)).await;
    }
    let meddle = async {
        for turn in 1..60_u8 {
            let replaced = format!("w/{}", turn % FILES);
            put_bytes(volume, replaced.as_bytes(), &content(turn)).await;
            let deleted = format!("w/{}", turn.wrapping_mul(7) % FILES);
            volume.delete("b", vec![(deleted.into_bytes(), None)]).await.unwrap();
        }
    };
    let (forked, ()) = futures::join!(volume.fork_bucket("b", "c", &()), meddle);
    let forked = forked.unwrap();
    assert!(forked.omitted == 0 && forked.files > u64::from(FILES) / 4, "{forked:?}");
    volume.upkeep.reap_now().await.unwrap();
    world.in_order().await;
    let directory = world.ino_of_directory("c", b"w").await;
    for (name, _, _) in names_in(volume, directory).await {
        let object = volume.stat("c", &[b"w/", &name[..]].concat()).await.unwrap();
        let read = volume.read(&object, 0..object.size());
        let bytes = read.try_collect::<Vec<Bytes>>().await.unwrap().concat();
        assert!(bytes == content(bytes[0]), "{}", name.escape_ascii());
    }
    world.delete_all("b").await;
    world.delete_all("c").await;
    nothing_is_left(&world).await;
}

/// Records the progress that it gets.
struct Recorder(std::sync::Mutex<Vec<Forked>>);

impl ForkWatch for Recorder {
    fn started(&self, names: u64) {
        assert_eq!(names, 300);
    }

    fn progress(&self, so_far: &Forked) {
        self.0.lock().unwrap().push(so_far.clone());
    }
}

/// A wide directory is read in pages, its files come several at a time, and the names of a fork
/// that exists already are refused.
#[tokio::test(start_paused = true)]
async fn a_fork_reads_many_names_and_needs_a_free_bucket_name() {
    let world = World::new().await;
    for number in 0..300 {
        put(&world.volume, format!("w/{}/{number}", number % 3).as_bytes(), 100).await;
    }
    let watch = Recorder(std::sync::Mutex::default());
    let forked = world.volume.fork_bucket("b", "c", &watch).await.unwrap();
    assert_eq!((forked.files, forked.directories, forked.omitted), (300, 4, 0));
    assert_eq!(watch.0.lock().unwrap().last(), Some(&forked));
    world.in_order().await;
    let copy = world.bucket_of("c").await;
    let (there, here) =
        (picture(&world.volume, copy).await, picture(&world.volume, world.bucket).await);
    assert_eq!(there, here);
    for (from, to, error) in
        [("b", "c", FsError::BucketExists), ("none", "d", FsError::NoSuchBucket)]
    {
        let refused = world.volume.fork_bucket(from, to, &()).await;
        assert!(matches!(refused, Err(VolumeError::Fs(found)) if found == error), "{refused:?}");
    }
    // The permissions were checked for an earlier bucket with the name of the source.
    let replaced = NamedBucket { name: b"b", ino: Some(Ino(world.bucket.0 + 1)) };
    let refused = world.volume.fork_bucket(replaced, "d", &()).await;
    assert!(matches!(refused, Err(VolumeError::Fs(FsError::NoSuchBucket))), "{refused:?}");
    assert!(world.volume.bucket("d").await.is_err(), "no bucket was created");
}
