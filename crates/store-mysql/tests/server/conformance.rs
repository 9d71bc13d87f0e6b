//! The conformance suite, on a server, each case in a database of its own.

use std::sync::Arc;

use crate::service::{Database, run};
use store::MetaStore;
use store_mysql::{MysqlOptions, MysqlStore};

async fn fresh() -> (Arc<dyn MetaStore>, Database) {
    let database = Database::new().await;
    // This suite accepts any risks of the settings.
    let options = MysqlOptions { relaxed: true, ..MysqlOptions::default() };
    let store = MysqlStore::open(&database.url(), options).await.expect("a store");
    (Arc::new(store), database)
}

store::conformance!(run, fresh);
