//! The conformance suite, on a file in a folder of its own.

use std::sync::Arc;

use store::MetaStore;
use store_sqlite::{SqliteOptions, SqliteStore};
use tempfile::TempDir;

fn run(case: impl Future<Output = ()>) {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().expect("a runtime").block_on(case);
}

async fn fresh() -> (Arc<dyn MetaStore>, TempDir) {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("meta.db");
    let store = SqliteStore::open(&path, SqliteOptions { exclusive: true, spared: &[] })
        .await
        .expect("a store");
    (Arc::new(store), folder)
}

store::conformance!(run, fresh);
