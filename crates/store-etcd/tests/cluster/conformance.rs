//! The conformance suite, each case in a store of its own.

use std::sync::Arc;

use store::MetaStore;

use crate::server;

/// Runs a case, unless there is no server.
fn run(case: impl Future<Output = ()>) {
    if server::given().is_none() {
        return;
    }
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(case);
}

async fn fresh() -> (Arc<dyn MetaStore>, ()) {
    let url = server::fresh(&server::given().expect("run looked for a server"));
    (Arc::new(server::open(&url).await), ())
}

store::conformance!(run, fresh);
