//! The contract of block stores, for blocks in a folder.

use block::FolderBlocks;
use tempfile::TempDir;

async fn fresh() -> Option<(TempDir, FolderBlocks)> {
    let root = TempDir::new().expect("a folder for the test");
    let blocks = FolderBlocks::open(root.path()).await.expect("a fresh folder opens");
    Some((root, blocks))
}

block::conformance!(fresh);
