//! The suite that every engine passes, on a server, each case in a database of its own.

use std::sync::Arc;

use crate::service::{Database, run};
use store::MetaStore;
use store_mysql::{MysqlOptions, MysqlStore};

async fn fresh() -> (Arc<dyn MetaStore>, Database) {
    let database = Database::new().await;
    // What the settings risk is no concern of this suite.
    let options = MysqlOptions { relaxed: true, ..MysqlOptions::default() };
    let store = MysqlStore::open(&database.url(), options).await.expect("a store");
    (Arc::new(store), database)
}

store::conformance!(run, fresh);
