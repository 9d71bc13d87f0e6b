//! The engine over real servers.
//!
//! Most of it needs a Redis or Valkey server, named by `ASHLAR_TEST_REDIS`
//! (`redis://127.0.0.1:PORT/`); the rest starts a `redis-server` of its own. Without them these
//! tests say so and pass, unless `ASHLAR_TEST_REQUIRE_SERVICES=1`.

mod conformance;
mod server;
