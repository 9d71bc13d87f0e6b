//! PostgreSQL, MariaDB, Redis and etcd as processes that tests start, kill, pause and restart.
//!
//! Each server has a reserved port of this machine and its own temporary folder. Its settings make
//! an acknowledged commit durable. It ends with the value that owns it, or with the process that
//! started it. All waiting has a time limit; a failure panics with the log of the server.
//!
//! For example, a test starts a server with `Database::start(Engine::Redis)`, stores data, calls
//! `kill` and `restart`, and checks that the data is still there.
//!
//! A [`Cluster`] is several servers, of which one is the primary. If a test ends or stops the
//! primary, another one takes over.

mod cluster;
mod database;
mod descendants;
mod engine;
mod etcd;
mod etcd_cluster;
mod past;
mod program;
mod replica;

pub use cluster::{Cluster, FailOver, Fault};
pub use database::Database;
pub use engine::Engine;
pub use etcd_cluster::EtcdCluster;
pub use past::Past;
