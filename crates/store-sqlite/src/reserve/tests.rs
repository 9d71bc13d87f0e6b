use tempfile::TempDir;

use super::{RESERVE_BYTES_MAX, RESERVE_BYTES_MIN, Reserve, STEP_BYTES, fill};

fn fresh() -> (Reserve, TempDir) {
    let folder = TempDir::new().expect("a folder");
    (Reserve::beside(&folder.path().join("meta.db")), folder)
}

#[test]
fn a_reserve_has_real_blocks_and_grows_again_after_a_cut() {
    use std::os::unix::fs::MetadataExt;
    let (reserve, _folder) = fresh();
    assert!((RESERVE_BYTES_MIN..=RESERVE_BYTES_MAX).contains(&reserve.whole));
    assert_eq!(reserve.missing(), reserve.whole);
    reserve.refill().expect("there is space");
    let metadata = reserve.path.metadata().expect("the file exists");
    assert!(metadata.blocks() * 512 >= reserve.whole, "{} blocks", metadata.blocks());
    assert!(reserve.cut(STEP_BYTES));
    assert_eq!(reserve.missing(), STEP_BYTES);
    reserve.refill().expect("there is space");
    assert_eq!(reserve.missing(), 0);
    assert!(reserve.cut(u64::MAX));
    assert!(!reserve.cut(1), "nothing is left");
}

#[test]
fn a_reserve_that_was_copied_as_a_hole_gets_blocks_again() {
    use std::os::unix::fs::MetadataExt;
    let (reserve, _folder) = fresh();
    let copy = std::fs::File::create(&reserve.path).expect("a file");
    copy.set_len(reserve.whole).expect("a hole");
    let blocks = || reserve.path.metadata().expect("the file exists").blocks() * 512;
    assert_eq!((blocks(), reserve.missing()), (0, 0), "it looks whole");
    reserve.fill_holes().and_then(|()| reserve.refill()).expect("there is space");
    assert!(blocks() >= reserve.whole, "{} blocks", blocks());
    assert_eq!(reserve.missing(), 0);
    let modified = || reserve.path.metadata().expect("the file exists").modified().expect("a time");
    let before = modified();
    reserve.fill_holes().expect("nothing to do");
    assert_eq!(modified(), before);
}

#[test]
fn a_probe_of_free_space_leaves_the_reserve_as_it_is() {
    let (reserve, _folder) = fresh();
    reserve.refill().expect("there is space");
    assert!(reserve.has_space(STEP_BYTES));
    assert!(!reserve.has_space(1 << 60), "no disk is as large");
    assert_eq!(reserve.path.metadata().expect("the file exists").len(), reserve.whole);
}

#[test]
fn without_fallocate_the_reserve_is_filled_with_noise() {
    let (reserve, _folder) = fresh();
    let file = reserve.lock().expect("a file");
    fill(&file, 0, 10_000).expect("written");
    let written = std::fs::read(&reserve.path).expect("read");
    assert_eq!(written.len(), 10_000);
    assert!(written.chunks_exact(8).all(|word| word != [0; 8]), "zeros might have no blocks");
}
