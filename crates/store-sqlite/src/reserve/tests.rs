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
fn a_probe_of_free_space_leaves_the_reserve_as_it_is() {
    let (reserve, _folder) = fresh();
    reserve.refill().expect("there is space");
    assert!(reserve.has_space(STEP_BYTES));
    assert!(!reserve.has_space(1 << 60), "no disk is as large");
    assert_eq!(reserve.path.metadata().expect("the file exists").len(), reserve.whole);
}

#[test]
fn a_file_system_that_cannot_allocate_gets_noise() {
    let (reserve, _folder) = fresh();
    let file = reserve.lock().expect("a file");
    fill(&file, 0, 10_000).expect("written");
    let written = std::fs::read(&reserve.path).expect("read");
    assert_eq!(written.len(), 10_000);
    assert!(written.chunks_exact(8).all(|word| word != [0; 8]), "zeros might have no blocks");
}
