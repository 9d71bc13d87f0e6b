//! Behaviour that only folders have: leftovers of crashes, and errors of operators.

use std::fs;
use std::io::ErrorKind;

use tempfile::TempDir;

use super::*;
use crate::BlockErrorKind::{Full, Refused, Unavailable};
use crate::{BlockErrorKind, Sealer};

fn block(counter: u64) -> SealedBlock {
    let mut sealer = Sealer::new(BlockId::new(Nonce([1; Nonce::BYTES]), counter), 100);
    sealer.push_copy(&[7; 100]);
    sealer.finish()
}

async fn folder() -> (TempDir, FolderBlocks) {
    let root = TempDir::new().expect("a folder for the test");
    let blocks = FolderBlocks::open(root.path()).await.expect("a fresh folder opens");
    (root, blocks)
}

#[track_caller]
fn check(error: &BlockError, kind: BlockErrorKind, words: &str) {
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(words), "{error} lacks {words:?}");
}

#[tokio::test]
async fn blocks_survive_reopening_and_leftovers_do_not() {
    let (root, blocks) = folder().await;
    blocks.put(&block(1)).await.expect("put");
    let leftover = root.path().join("tmp/123-4");
    fs::write(&leftover, b"half a blo").expect("a crash leaves this");
    let again = FolderBlocks::open(root.path()).await.expect("it opens again");
    assert!(!leftover.exists(), "opening removes the leftovers of a crash");
    let found = again.get(block(1).id(), 0..1_000).await.expect("the block is still there");
    assert_eq!(found, block(1).to_bytes());
    // The removed files may include unfinished ones of the first store, which continues.
    blocks.put(&block(2)).await.expect("the older process still writes");
}

#[tokio::test]
async fn put_leaves_only_its_block() {
    let (root, blocks) = folder().await;
    blocks.put(&block(4_097)).await.expect("put");
    blocks.put(&block(4_097)).await.expect("put again");
    let path = "01010101010101010101/000000001/01010101010101010101000000001001";
    assert_eq!(fs::read(root.path().join(path)).expect("its place"), block(4_097).to_bytes());
    assert_eq!(fs::read_dir(root.path().join("tmp")).expect("readable").count(), 0);
    blocks.delete(block(4_097).id()).await.expect("deleted");
    assert_eq!(fs::read_dir(root.path()).expect("readable").count(), 1, "only tmp is left");
}

#[tokio::test]
async fn mark_is_a_file_named_volume_and_survives_reopening() {
    let (root, blocks) = folder().await;
    blocks.set_mark(Bytes::from_static(b"ours\n")).await.expect("marked");
    assert_eq!(fs::read(root.path().join("volume")).expect("its place"), b"ours\n");
    assert_eq!(fs::read_dir(root.path().join("tmp")).expect("readable").count(), 0);
    let again = FolderBlocks::open(root.path()).await.expect("it opens again");
    assert_eq!(again.mark().await.expect("readable").as_deref(), Some(&b"ours\n"[..]));
    fs::write(root.path().join("volume"), [7; 4_097]).expect("writable");
    let error = again.mark().await.expect_err("no process set this");
    check(&error, BlockErrorKind::Corrupt, "more than 4096 bytes");
}

#[tokio::test]
async fn a_file_where_the_folder_should_be_is_refused() {
    let root = TempDir::new().expect("a folder for the test");
    let path = root.path().join("file");
    fs::write(&path, b"").expect("writable");
    let error = FolderBlocks::open(&path).await.expect_err("not a folder");
    check(&error, BlockErrorKind::Refused, &path.display().to_string());
}

#[tokio::test]
async fn stray_name_fails_a_listing() {
    let (root, blocks) = folder().await;
    blocks.put(&block(1)).await.expect("put");
    fs::create_dir(root.path().join("lost+found")).expect("writable");
    assert_eq!(blocks.sessions().await.expect("no session"), [block(1).id().session()]);
    let session = root.path().join(block(1).id().session().to_string());
    for stray in [session.join("notes"), session.join("000000000/notes")] {
        fs::write(&stray, b"").expect("writable");
        let error = blocks.list(block(1).id().session(), None).await.expect_err("a stray name");
        check(&error, BlockErrorKind::Corrupt, &stray.display().to_string());
        fs::remove_file(&stray).expect("writable");
    }
    blocks.list(block(1).id().session(), None).await.expect("no stray name is left");
}

#[tokio::test]
async fn vanished_folder_is_unavailable_not_empty() {
    let (root, blocks) = folder().await;
    blocks.put(&block(1)).await.expect("put");
    let aside = root.path().with_extension("aside");
    fs::rename(root.path(), &aside).expect("as if its disk were unmounted");
    fs::create_dir(root.path()).expect("the empty mount point");
    let (id, session) = (block(1).id(), block(1).id().session());
    let words = "is its disk mounted?";
    let unavailable = BlockErrorKind::Unavailable;
    check(&blocks.put(&block(2)).await.expect_err("put"), unavailable, words);
    check(&blocks.put(&block(1 << 20)).await.expect_err("put elsewhere"), unavailable, words);
    check(&blocks.get(id, 0..1).await.expect_err("get"), unavailable, words);
    check(&blocks.size(id).await.expect_err("size"), unavailable, words);
    check(&blocks.delete(id).await.expect_err("delete"), unavailable, words);
    check(&blocks.sessions().await.expect_err("sessions"), unavailable, words);
    check(&blocks.list(session, None).await.expect_err("list"), unavailable, words);
    check(&blocks.mark().await.expect_err("mark"), unavailable, words);
    let mark = Bytes::from_static(b"ours");
    check(&blocks.set_mark(mark).await.expect_err("set_mark"), unavailable, words);
    check(&blocks.probe().await.expect_err("probe"), unavailable, words);
    fs::remove_dir(root.path()).expect("nothing was made in the empty mount point");
    fs::rename(&aside, root.path()).expect("mounted again");
    blocks.put(&block(2)).await.expect("it goes on without being opened again");
    assert_eq!(blocks.list(session, None).await.expect("listed").blocks.len(), 2);
}

#[tokio::test]
async fn probe_creates_and_removes_a_folder_where_puts_do() {
    let (root, blocks) = folder().await;
    let beside = root.path().join(files::PROBE);
    fs::create_dir(&beside).expect("as a killed process left it");
    blocks.probe().await.expect("a folder of blocks");
    assert!(!beside.exists(), "the probe removes its folder");
    // Root may write to each folder, so a file takes the place of missing permissions.
    fs::write(&beside, b"").expect("writable");
    let words = "writing a probe";
    check(&blocks.probe().await.expect_err("probe"), BlockErrorKind::Refused, words);
}

#[tokio::test]
async fn unknown_resume_position_is_refused() {
    let (_root, blocks) = folder().await;
    let session = block(1).id().session();
    let error = blocks.list(session, Some("../..".to_owned())).await.expect_err("not a group");
    check(&error, BlockErrorKind::Refused, "is not the end of a page");
}

/// Root may write anywhere, and a disk is rarely full on demand, so the test creates the errors.
#[test]
fn errors_advise_the_operator() {
    let root = TempDir::new().expect("a folder for the test");
    let files = Files::open(root.path().to_owned()).expect("a fresh folder opens");
    let failed = |kind: ErrorKind| files.failed("writing block 7", kind.into());
    check(&failed(ErrorKind::StorageFull), Full, "free space on its file system");
    check(&failed(ErrorKind::PermissionDenied), Refused, "may not use");
    check(&failed(ErrorKind::ReadOnlyFilesystem), Refused, "may not use");
    check(&failed(ErrorKind::Unsupported), Refused, "no hard links");
    check(&failed(ErrorKind::Other), Unavailable, &root.path().display().to_string());
}

#[tokio::test]
async fn permissions_are_restricted_to_the_owner() {
    use std::os::unix::fs::PermissionsExt;

    fn modes(folder: &Path, found: &mut Vec<(bool, u32)>) {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let mode = fs::metadata(&path).expect("there").permissions().mode() & 0o777;
            found.push((path.is_dir(), mode));
            if path.is_dir() {
                modes(&path, found);
            }
        }
    }

    let root = tempfile::tempdir().expect("a folder");
    let path = root.path().join("blocks");
    let blocks = FolderBlocks::open(&path).await.expect("it opens");
    blocks.set_mark(Bytes::from_static(b"ours")).await.expect("marked");
    let mut sealer = Sealer::new(BlockId::new(Nonce([1; Nonce::BYTES]), 1), 9);
    sealer.push_copy(b"some text");
    let block = sealer.finish();
    blocks.put(&block).await.expect("put");
    let mut found = Vec::new();
    modes(root.path(), &mut found);
    assert!(found.len() == 6, "the root, tmp, the mark, a session, a group, a block: {found:?}");
    for (folder, mode) in found {
        assert_eq!(mode, if folder { 0o700 } else { 0o600 });
    }
    let session = path.join(block.id().session().to_string());
    for open in [&session, &path.join("tmp"), &path.join("volume")] {
        fs::set_permissions(open, fs::Permissions::from_mode(0o755)).expect("changed");
    }
    let blocks = FolderBlocks::open(&path).await.expect("it opens again");
    for open in [&session, &path.join("tmp"), &path.join("volume")] {
        let mode = fs::metadata(open).expect("there").permissions().mode();
        assert_eq!(mode & 0o077, 0, "{}", open.display());
    }
    assert_eq!(blocks.get(block.id(), 0..999).await.expect("got"), block.to_bytes());
}
