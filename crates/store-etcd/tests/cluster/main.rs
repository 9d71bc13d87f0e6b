//! The engine with real members.
//!
//! Most tests need an etcd with the flags of the engine, named by `ASHLAR_TEST_ETCD`
//! (`etcd://127.0.0.1:PORT/`). The others start members of their own. Without them these tests
//! print a message and pass, unless `ASHLAR_TEST_REQUIRE_SERVICES=1`.

mod calls;
mod conformance;
mod counting;
mod members;
mod opening;
mod outcomes;
mod server;
mod trips;
