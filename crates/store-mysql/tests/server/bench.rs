//! A server of one test, which the test may kill or change, behind a proxy that can cut
//! connections.

use databases::Engine;
use proxy::Proxy;

/// A server of one test, a proxy in front of it, and the URLs of a database through either.
pub(crate) struct Bench {
    pub(crate) server: databases::Database,
    pub(crate) proxy: Proxy,
    pub(crate) direct: String,
    pub(crate) through: String,
}

/// Runs a test on a server of its own, if one can be started here.
pub(crate) fn run(case: impl AsyncFnOnce(Bench)) {
    if crate::service::server().is_none() {
        return;
    }
    if !databases::Database::installed(Engine::Mysql) {
        return crate::service::skip("MariaDB is not installed here");
    }
    let server = databases::Database::start(Engine::Mysql);
    let proxy = Proxy::start(server.address()).expect("a proxy");
    let direct = server.fresh("ashlar");
    let through = databases::Database::through(&direct, server.address(), proxy.address());
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(case(Bench { server, proxy, direct, through }));
}
