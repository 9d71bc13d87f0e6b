//! Inodes that are not files, and records that belong to an inode: their deletion, and the damage
//! that fsck finds.

use std::sync::Arc;

use block::MemoryBlocks;
use bytes::Bytes;
use faulty::Faulty;
use record::key::{self, CounterKind, space};
use record::{
    Attributes, Content, Dentry, Directory, InlineBytes, Ino, Inode, InodeBody, Kind, Origin,
    Orphan, SortKey, Special, SpecialKind, Symlink, Timestamp, Xattr, XattrPlace, XattrValue,
};
use session::Outcome;
use store::{Plan, Write};
use upkeep::Finding;

use super::reaping::{bytes_of, delete, put, records};
use super::{MaintainedVolume, packs::findings};
use super::{file, lookup, make_bucket, open, publish};
use crate::Volume;

async fn world() -> (Arc<Faulty>, Arc<MemoryBlocks>, MaintainedVolume, Ino) {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let volume = open(store.clone(), blocks.clone()).await;
    let bucket = make_bucket(&volume).await;
    (store, blocks, volume, bucket)
}

async fn commit(volume: &Volume, writes: Vec<Write>) {
    for writes in writes.chunks(4_000) {
        let plan = Plan { guards: Vec::new(), writes: writes.to_vec() };
        let outcome = volume.session.commit_plan(plan).await;
        assert!(matches!(outcome, Outcome::Committed), "{outcome:?}");
    }
}

fn of(bucket: Ino, body: InodeBody) -> Inode {
    let attributes = Attributes::new(0o777, 0, 0, Timestamp(5));
    Inode { attributes, bucket, xattrs: Vec::new(), body }
}

fn symlink(bucket: Ino, links: u32) -> Inode {
    of(bucket, InodeBody::Symlink(Symlink { target: b"../elsewhere".to_vec(), links }))
}

fn special(bucket: Ino, links: u32) -> Inode {
    of(bucket, InodeBody::Special(Special { kind: SpecialKind::Fifo, device: 0, links }))
}

fn write(ino: Ino, inode: &Inode) -> Write {
    let at = key::inode(ino);
    Write::Put(at.clone(), inode.encode(&at))
}

/// Gives an inode long attributes, and a short one.
fn adorn(ino: Ino, inode: &mut Inode, count: usize) -> Vec<Write> {
    let short = XattrPlace::Inline(b"blue".to_vec());
    inode.xattrs = vec![Xattr { name: b"user.colour".to_vec(), value: short }];
    let mut writes = Vec::new();
    for number in 0..count {
        let name = format!("user.{number:05}").into_bytes();
        let at = key::xattr(ino, &name);
        let value = XattrValue(Bytes::from_static(b"long"));
        writes.push(Write::Put(at.clone(), value.encode(&at)));
        inode.xattrs.push(Xattr { name, value: XattrPlace::Apart(4) });
    }
    writes
}

/// Binds a name to an inode that is new, in a bucket; the inode's directory has none.
fn bind(bucket: Ino, name: &[u8], dentry: Dentry) -> Vec<Write> {
    let sort_key = match dentry.kind {
        Kind::Directory => SortKey::directory(name),
        _ => SortKey::file(name),
    };
    let slot = key::dentry(bucket, sort_key.as_bytes());
    let mut writes = vec![
        Write::Put(slot.clone(), dentry.encode(&slot)),
        Write::Add(key::counter(bucket, CounterKind::Entries), 1),
    ];
    match dentry.kind {
        Kind::File => writes.push(Write::Add(key::counter(bucket, CounterKind::Objects), 1)),
        Kind::Directory => {
            writes.push(Write::Add(key::counter(bucket, CounterKind::Directories), 1));
        }
        Kind::Symlink | Kind::Special => {}
    }
    writes
}

fn orphan(ino: Ino, bucket: Ino) -> Write {
    let at = key::orphan(ino);
    Write::Put(at.clone(), Orphan::File { bucket }.encode(&at))
}

#[tokio::test(start_paused = true)]
async fn unlinked_nodes_are_reaped_with_their_attributes() {
    let (store, blocks, volume, bucket) = world().await;
    let inos = volume.session.allocate_inodes(4).await.unwrap();
    let (before, mut writes) = (records(&*store, space::INODE).await, Vec::new());
    let directory = InodeBody::Directory(Directory { parent: bucket, name: b"d".to_vec() });
    let bodies = [symlink(bucket, 1), special(bucket, 1), of(bucket, directory)];
    for (ino, mut inode) in inos.iter().zip(bodies) {
        writes.extend(adorn(*ino, &mut inode, 3));
        writes.extend([write(*ino, &inode), orphan(*ino, bucket)]);
    }
    commit(&volume, writes).await;
    assert_eq!(records(&*store, space::XATTR).await, 9);
    assert_eq!(findings(&store, &blocks).await, [], "with orphans");
    assert_eq!(volume.upkeep.reap_now().await.unwrap().orphans, 3);
    assert_eq!(records(&*store, space::INODE).await, before);
    assert_eq!((records(&*store, space::XATTR).await, bytes_of(&*store, bucket).await), (0, 0));
    assert_eq!(findings(&store, &blocks).await, []);
}

#[tokio::test(start_paused = true)]
async fn a_file_with_many_xattrs_is_reaped_with_them() {
    for (bytes, count) in [(5, 1), (200_000, 2), (200_000, 9_000)] {
        let (store, blocks, volume, bucket) = world().await;
        put(&volume, b"x", bytes).await;
        let found = lookup(&volume, b"x").await.unwrap();
        let mut inode = found.inode.clone();
        let writes = adorn(found.ino, &mut inode, count);
        commit(&volume, writes).await;
        commit(&volume, vec![write(found.ino, &inode)]).await;
        assert_eq!(findings(&store, &blocks).await, [], "with {count} attributes");
        delete(&volume, b"x").await;
        assert_eq!(findings(&store, &blocks).await, [], "an orphan with {count} attributes");
        volume.upkeep.reap_now().await.unwrap();
        for space in [space::XATTR, space::ORPHAN, space::PENDING] {
            assert_eq!(records(&*store, space).await, 0, "{space:?} of {count}");
        }
        assert_eq!(super::count_blocks(&blocks).await, 0);
        assert_eq!(bytes_of(&*store, bucket).await, 0);
        assert_eq!(findings(&store, &blocks).await, []);
    }
}

#[tokio::test(start_paused = true)]
async fn a_directory_with_entries_is_not_reaped() {
    let (store, _, volume, bucket) = world().await;
    publish(&volume, b"d/x", 5).await.unwrap();
    let slot = key::dentry(bucket, b"d/");
    let dentry = faulty::get(&*store, &slot).await.unwrap();
    let ino = Dentry::decode(&slot, &dentry).unwrap().ino;
    commit(&volume, vec![orphan(ino, bucket)]).await;
    volume.upkeep.reap_now().await.unwrap();
    assert!(lookup(&volume, b"d/x").await.is_ok());
    assert_eq!(records(&*store, space::ORPHAN).await, 1, "something is wrong; nothing is lost");
}

/// A bucket with one of each: a file of two names, a symbolic link, a FIFO, an empty directory that
/// a key implied once, and attributes.
async fn furnished() -> (Arc<Faulty>, Arc<MemoryBlocks>, MaintainedVolume, Ino, Vec<Ino>) {
    let (store, blocks, volume, bucket) = world().await;
    let inos = volume.session.allocate_inodes(4).await.unwrap();
    let mut twice = file(3, Content::Inline(InlineBytes::plain(Bytes::from_static(b"abc"))));
    twice.bucket = bucket;
    *twice.links_mut().unwrap() = 2;
    let implied = InodeBody::Directory(Directory { parent: bucket, name: b"implied".to_vec() });
    let bodies = [twice, symlink(bucket, 1), special(bucket, 1), of(bucket, implied)];
    let mut writes = vec![Write::Add(key::counter(bucket, CounterKind::Bytes), 3)];
    for (ino, mut inode) in inos.iter().zip(bodies) {
        writes.extend(adorn(*ino, &mut inode, 1));
        writes.push(write(*ino, &inode));
    }
    let linked = Dentry { linked: true, ..Dentry::file(inos[0]) };
    writes.extend(bind(bucket, b"one", linked));
    writes.extend(bind(bucket, b"two", linked));
    writes.extend(bind(bucket, b"symlink", Dentry::of(inos[1], Kind::Symlink)));
    writes.extend(bind(bucket, b"fifo", Dentry::of(inos[2], Kind::Special)));
    writes.extend(bind(bucket, b"implied", Dentry::directory(inos[3], Origin::Implied)));
    commit(&volume, merged(writes)).await;
    (store, blocks, volume, bucket, inos)
}

/// Writes with each counter once.
fn merged(writes: Vec<Write>) -> Vec<Write> {
    let mut merged: Vec<Write> = Vec::new();
    for write in writes {
        let same = merged.iter_mut().find_map(|known| match (known, &write) {
            (Write::Add(key, sum), Write::Add(other, number)) if key == other => {
                Some((sum, *number))
            }
            _ => None,
        });
        match same {
            Some((sum, number)) => *sum += number,
            None => merged.push(write),
        }
    }
    merged
}

#[tokio::test(start_paused = true)]
async fn hard_links_and_special_files_pass_fsck() {
    let (store, blocks, volume, bucket, _) = furnished().await;
    publish(&volume, b"a/b", 5).await.unwrap();
    let report = upkeep::fsck(store.clone(), blocks.clone(), &upkeep::NoProgress).await.unwrap();
    assert_eq!(report.findings, []);
    assert_eq!((report.counts.files, report.counts.directories), (5, 4));
    // A name of two goes: the file stays, and is counted as long as the last one does.
    delete(&volume, b"one").await;
    assert_eq!(findings(&store, &blocks).await, [], "one is left");
    assert_eq!(bytes_of(&*store, bucket).await, 8);
    delete(&volume, b"two").await;
    assert_eq!(findings(&store, &blocks).await, [], "an orphan");
    volume.upkeep.reap_now().await.unwrap();
    assert_eq!(bytes_of(&*store, bucket).await, 5);
    assert_eq!(findings(&store, &blocks).await, []);
}

/// The findings of fsck after a record of a furnished bucket was overwritten.
async fn broken(damage: impl FnOnce(Ino, &[Ino]) -> Vec<Write>) -> Vec<Finding> {
    let (store, blocks, volume, bucket, inos) = furnished().await;
    commit(&volume, damage(bucket, &inos)).await;
    let found = findings(&store, &blocks).await;
    assert!(found.iter().all(|finding| !finding.to_string().is_empty()));
    found
}

fn renamed(bucket: Ino, name: &[u8], dentry: Dentry) -> Vec<Write> {
    bind(bucket, name, dentry).into_iter().take(1).collect()
}

#[tokio::test(start_paused = true)]
async fn damaged_names_are_found() {
    let unlinked = broken(|bucket, inos| renamed(bucket, b"one", Dentry::file(inos[0])));
    assert!(matches!(unlinked.await[..], [Finding::Unlinked(..)]));
    let links = broken(|bucket, inos| {
        let mut inode = symlink(bucket, 7);
        adorn(inos[1], &mut inode, 1);
        vec![write(inos[1], &inode)]
    });
    assert!(matches!(links.await[..], [Finding::Links { recorded: 7, found: 1, .. }]));
    let unmarked = broken(|bucket, inos| {
        let mut inode = file(3, Content::Inline(InlineBytes::plain(Bytes::from_static(b"abc"))));
        inode.bucket = bucket;
        *inode.links_mut().unwrap() = 2;
        adorn(inos[0], &mut inode, 1);
        if let InodeBody::File(file) = &mut inode.body {
            file.marked_in_dentry = true;
        }
        vec![write(inos[0], &inode)]
    });
    let unmarked = unmarked.await;
    assert_eq!(unmarked.len(), 2, "each name: {unmarked:?}");
    assert!(unmarked.iter().all(|finding| matches!(finding, Finding::SelfContainedMismatch(..))));
    let marked = broken(|bucket, inos| {
        let marked = Dentry { self_contained: Some(3), ..Dentry::file(inos[0]) };
        renamed(bucket, b"one", marked)
    });
    let marked = marked.await;
    assert!(
        marked.iter().any(|finding| matches!(finding, Finding::SelfContainedMismatch(..))),
        "{marked:?}"
    );
    assert!(marked.iter().any(|finding| matches!(finding, Finding::NotSelfContained(..))));
    for (parent, name) in [(0, &b"other"[..]), (9, b"implied")] {
        let moved = broken(|bucket, inos| {
            let parent = Ino(bucket.0 + parent);
            let body = InodeBody::Directory(Directory { parent, name: name.to_vec() });
            let mut inode = of(bucket, body);
            adorn(inos[3], &mut inode, 1);
            vec![write(inos[3], &inode)]
        });
        assert!(matches!(moved.await[..], [Finding::Parent(_)]), "{parent}");
    }
    let foreign = broken(|bucket, inos| {
        let mut inode = symlink(Ino(bucket.0 + 9), 1);
        adorn(inos[1], &mut inode, 1);
        vec![write(inos[1], &inode)]
    });
    assert!(matches!(foreign.await[..], [Finding::ForeignBucket { .. }]));
    let directories =
        broken(|bucket, _| vec![Write::Add(key::counter(bucket, CounterKind::Directories), 1)]);
    let directories = directories.await;
    assert!(matches!(directories[..], [Finding::Counter { what: "directories", .. }]));
}

#[tokio::test(start_paused = true)]
async fn damaged_attributes_are_found() {
    let missing = broken(|_, inos| vec![Write::Delete(key::xattr(inos[1], b"user.00000"))]);
    assert!(matches!(missing.await[..], [Finding::MissingXattr(_)]));
    let shorter = broken(|_, inos| {
        let at = key::xattr(inos[1], b"user.00000");
        vec![Write::Put(at.clone(), XattrValue(Bytes::from_static(b"x")).encode(&at))]
    });
    assert!(matches!(shorter.await[..], [Finding::MissingXattr(_)]));
    for (ino, name) in [(1, &b"user.other"[..]), (9, b"user.00000")] {
        let stray = broken(|_, inos| {
            let at = key::xattr(Ino(inos[0].0 + ino), name);
            vec![Write::Put(at.clone(), XattrValue(Bytes::new()).encode(&at))]
        });
        assert!(matches!(stray.await[..], [Finding::StrayXattr(_)]));
    }
}

#[tokio::test(start_paused = true)]
async fn slices_out_of_order_are_found() {
    for pages in [false, true] {
        for damage in ["swapped", "overlapping", "late", "less"] {
            let of_page = ["late", "less"].contains(&damage);
            let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
            let block_bytes = if pages { 256 } else { 65_536 };
            let options = crate::VolumeOptions { block_bytes, ..Default::default() };
            let volume =
                MaintainedVolume::open_without_tasks(options, store.clone(), blocks.clone())
                    .await
                    .unwrap();
            make_bucket(&volume).await;
            put(&volume, b"x", 200_000).await;
            let found = lookup(&volume, b"x").await.unwrap();
            let mut inode = found.inode.clone();
            let object = volume.stat("b", b"x").await.unwrap();
            let mut slices = volume.slices(&object).await.unwrap();
            match damage {
                "swapped" => slices.swap(1, 2),
                "overlapping" => slices[1].position -= 1,
                _ => {}
            }
            let mut writes = Vec::new();
            let InodeBody::File(file) = &mut inode.body else { panic!("a file") };
            match &mut file.content {
                Content::Slices(named) if !of_page => *named = slices,
                // Slices by themselves have no page that could be another.
                Content::Slices(_) => continue,
                Content::Pages(refs) if damage == "late" => refs[1].start += 1,
                Content::Pages(refs) if damage == "less" => refs[1].bytes -= 1,
                Content::Pages(_) => {
                    let at = key::map_page(found.ino, 0);
                    let page = record::MapPage(slices[..512].to_vec());
                    writes.push(Write::Put(at.clone(), page.encode(&at)));
                }
                Content::Inline(_) => panic!("it is long"),
            }
            writes.push(write(found.ino, &inode));
            commit(&volume, writes).await;
            drop(object);
            let found = findings(&store, &blocks).await;
            assert!(matches!(found[..], [Finding::Disorder(_)]), "{damage} {pages}: {found:?}");
        }
    }
}
