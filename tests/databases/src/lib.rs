//! PostgreSQL, MariaDB and Redis as programs that tests start, kill, stop and start again.
//!
//! Each has a free port of this machine and a temporary folder of its own, is set up so that an
//! acknowledged commit is on disk, and ends with the value that owns it, or with the process that
//! started it. Everything here waits with a deadline and panics with what the server said.

mod database;
mod descendants;
mod engine;
mod past;
mod program;
mod replica;

pub use database::Database;
pub use engine::Engine;
pub use past::Past;
