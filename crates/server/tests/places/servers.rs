//! Databases of servers that hold no volume: commands and mounts make no tables there.

use std::path::Path;

use databases::{Database, Engine};
use store::StoreError;
use store_etcd::{EtcdOptions, EtcdStore};
use store_mysql::{MysqlOptions, MysqlStore};
use store_postgres::{PostgresOptions, PostgresStore};
use store_redis::{RedisOptions, RedisStore};

use super::refused;
use crate::running::{Folder, Gateway};

/// Returns true if the database has the tables of a store.
fn is_made(engine: Engine, url: &str) -> bool {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let found: Result<bool, StoreError> = runtime.expect("a runtime").block_on(async {
        match engine {
            Engine::Postgres => PostgresStore::is_made(url, &PostgresOptions::default()).await,
            Engine::Mysql => MysqlStore::is_made(url, &MysqlOptions::default()).await,
            Engine::Redis => RedisStore::is_made(url, &RedisOptions::default()).await,
            Engine::Etcd => EtcdStore::is_made(url, &EtcdOptions::default()).await,
        }
    });
    found.expect("the server answers")
}

#[test]
fn commands_and_mounts_create_no_tables_in_a_database_without_a_volume() {
    for engine in Engine::ALL {
        if !Database::installed(engine) {
            continue;
        }
        let database = Database::start(engine);
        let url = database.fresh("mistyped");
        let folder = Folder::new();
        std::fs::create_dir(folder.path("mnt")).expect("a folder");
        let mnt = folder.path("mnt");
        let mount = ["mount", &mnt, "--foreground"];
        let mut commands: Vec<&[&str]> = vec![
            &["user", "add", "anna"],
            &["bucket", "list"],
            &["fsck"],
            &["gc", "--dry-run"],
            &["dump", "-"],
        ];
        // Without FUSE a mount is refused for another reason.
        if Path::new("/dev/fuse").exists() {
            commands.push(&mount);
        }
        let meta = [("ASHLAR_META", url.as_str())];
        for command in commands {
            refused(&folder.run(command, &meta), &["there is no volume in ", "--data-dir"]);
            assert!(!is_made(engine, &url), "{engine:?}: {command:?} made tables");
        }
        Gateway::start(&folder, &[], &meta).stop();
        assert!(is_made(engine, &url), "{engine:?}: a gateway makes them");
    }
}
