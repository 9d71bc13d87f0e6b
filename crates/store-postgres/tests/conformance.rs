//! The conformance suite, with functions and with plain statements, each case in a database of its
//! own.

mod test_database;

use std::sync::Arc;

use store::{MemoryStore, MetaStore};

use crate::test_database::{TestDatabase, open, run};

/// Without a server the suite runs with the reference engine, so that it compiles and runs.
async fn fresh_with(functions: bool) -> (Arc<dyn MetaStore>, Option<TestDatabase>) {
    let Some(place) = TestDatabase::fresh().await else {
        return (Arc::new(MemoryStore::new()), None);
    };
    (Arc::new(open(&place.url(), functions).await), Some(place))
}

mod by_function {
    use super::{Arc, MetaStore, TestDatabase, fresh_with, run};

    async fn fresh() -> (Arc<dyn MetaStore>, Option<TestDatabase>) {
        fresh_with(true).await
    }

    store::conformance!(run, fresh);
}

mod by_statements {
    use super::{Arc, MetaStore, TestDatabase, fresh_with, run};

    async fn fresh() -> (Arc<dyn MetaStore>, Option<TestDatabase>) {
        fresh_with(false).await
    }

    store::conformance!(run, fresh);
}
