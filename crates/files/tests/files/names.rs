//! Names: create, remove, rename, link.

use files::{NodeKind, SetNode};
use record::{Ino, SpecialKind};
use rustix::io::Errno;
use volume::{AttributeChange, RenameMode, SetTime};

use super::{Bench, by, bytes};

#[tokio::test]
async fn only_buckets_are_directories_of_the_root() {
    let bench = Bench::new().await;
    let files = &bench.files;
    let made = files.make_directory(Ino::ROOT, b"new-bucket", by()).await.unwrap();
    assert_eq!(made.kind, NodeKind::Directory);
    assert!(bench.volume.bucket("new-bucket").await.is_ok());
    let illegal = files.make_directory(Ino::ROOT, b"Not_A_Bucket", by()).await;
    assert_eq!(illegal.unwrap_err(), Errno::INVAL);
    assert_eq!(files.make_file(Ino::ROOT, b"file", by()).await.unwrap_err(), Errno::PERM);
    let (from, to) = ((Ino::ROOT, &b"new-bucket"[..]), (Ino::ROOT, &b"other"[..]));
    assert_eq!(files.rename(from, to, RenameMode::Replace).await, Err(Errno::PERM));
    bench.write("f", b"x").await;
    assert_eq!(files.remove_directory(Ino::ROOT, b"bkt").await, Err(Errno::NOTEMPTY));
    files.remove_directory(Ino::ROOT, b"new-bucket").await.unwrap();
    assert!(bench.volume.bucket("new-bucket").await.is_err());
}

#[tokio::test]
async fn every_kind_of_node_has_its_attributes() {
    let bench = Bench::new().await;
    let files = &bench.files;
    let fifo = files.make_special(bench.bucket, b"p", SpecialKind::Fifo, 0, by()).await.unwrap();
    let device =
        files.make_special(bench.bucket, b"c", SpecialKind::Character, 0x501, by()).await.unwrap();
    let link = files.make_symlink(bench.bucket, b"l", b"../else", by()).await.unwrap();
    assert_eq!((fifo.kind, fifo.mode, fifo.uid, fifo.gid), (NodeKind::Fifo, 0o644, 1_000, 1_001));
    assert_eq!((device.kind, device.device), (NodeKind::Character, 0x501));
    assert_eq!((link.kind, link.size, link.mode), (NodeKind::Symlink, 7, 0o777));
    assert_eq!(files.read_link(link.ino).await.unwrap(), b"../else");
    assert_eq!(files.read_link(fifo.ino).await.unwrap_err(), Errno::INVAL);
    let long = vec![b'n'; 256];
    assert_eq!(files.make_file(bench.bucket, &long, by()).await.unwrap_err(), Errno::NAMETOOLONG);
}

#[tokio::test]
async fn directory_counts_subdirectories_and_updates_its_times() {
    let bench = Bench::new().await;
    let files = &bench.files;
    let made = files.make_directory(bench.bucket, b"d", by()).await.unwrap();
    assert_eq!(made.links, 2);
    files.make_directory(made.ino, b"below", by()).await.unwrap();
    let now = files.attributes(made.ino).await.unwrap();
    assert_eq!(now.links, 3);
    assert!(now.modified > made.created);
    let past = record::Timestamp(-5_000_000_000);
    let attributes =
        AttributeChange { modified: Some(SetTime::At(past)), ..AttributeChange::default() };
    let set = files.set(made.ino, None, SetNode { attributes, size: None }).await.unwrap();
    assert_eq!((set.modified, set.links), (past, 3));
    files.remove_directory(made.ino, b"below").await.unwrap();
    let now = files.attributes(made.ino).await.unwrap();
    assert!(now.modified > past);
    assert_eq!(now.links, 2);
}

#[tokio::test]
async fn hard_link_shows_writes_through_the_other_name() {
    let bench = Bench::new().await;
    let files = &bench.files;
    bench.put("a", &bytes(5_000, 1)).await;
    let a = files.look_up(bench.bucket, b"a").await.unwrap();
    assert_eq!(files.link(a.ino, bench.bucket, b"b").await.unwrap().links, 2);
    bench.write("c", b"").await;
    let handle = bench.open("a", super::WRITES).await;
    files.write(handle, 0, b"new", false, false).await.unwrap();
    bench.close(handle).await;
    assert_eq!(&bench.get("b").await.unwrap()[..4], &[b'n', b'e', b'w', bytes(4, 1)[3]]);
    // A PUT that replaces one of the names leaves the other as it is.
    bench.put("a", b"other").await;
    assert_eq!(bench.get("b").await.unwrap().len(), 5_000);
    assert_eq!(files.attributes(a.ino).await.unwrap().links, 1);
    assert!(bench.delete("b").await);
    assert_eq!(files.look_up(bench.bucket, b"b").await.unwrap_err(), Errno::NOENT);
}

#[tokio::test]
async fn node_with_unknown_name_is_stale_until_looked_up() {
    let bench = Bench::new().await;
    bench.put("a", b"small").await;
    let a = bench.volume.find_name(&bench.name("a")).await.unwrap();
    let linked = bench.files.link(a.ino, bench.bucket, b"b").await;
    assert_eq!(linked.unwrap_err(), Errno::STALE);
    bench.files.look_up(bench.bucket, b"a").await.unwrap();
    bench.files.link(a.ino, bench.bucket, b"b").await.unwrap();
}

#[tokio::test]
async fn renaming_a_directory_moves_its_objects() {
    let bench = Bench::new().await;
    let files = &bench.files;
    for at in 0..20 {
        bench.put(&format!("from/deep/{at}"), b"x").await;
    }
    let (from, to) = ((bench.bucket, &b"from"[..]), (bench.bucket, &b"to"[..]));
    files.rename(from, to, RenameMode::Replace).await.unwrap();
    assert!(bench.get("to/deep/7").await.is_ok());
    assert!(bench.get("from/deep/7").await.is_err());
    let below = files.look_up(bench.bucket, b"to").await.unwrap().ino;
    let into_itself = files.rename(to, (below, b"x"), RenameMode::Replace).await;
    assert_eq!(into_itself, Err(Errno::INVAL));
    bench.write("f", b"file").await;
    let exchange =
        files.rename((bench.bucket, b"f"), (bench.bucket, b"to"), RenameMode::Exchange).await;
    exchange.unwrap();
    assert_eq!(bench.get("to").await.unwrap(), b"file");
    assert!(bench.get("f/deep/7").await.is_ok());
}

#[tokio::test]
async fn rename_and_link_across_buckets_are_refused() {
    let bench = Bench::new().await;
    let files = &bench.files;
    let other = files.make_directory(Ino::ROOT, b"other", by()).await.unwrap().ino;
    let file = bench.write("f", b"x").await;
    let moved = files.rename((bench.bucket, b"f"), (other, b"f"), RenameMode::Replace).await;
    assert_eq!(moved, Err(Errno::XDEV));
    assert_eq!(files.link(file, other, b"f").await.unwrap_err(), Errno::XDEV);
}
