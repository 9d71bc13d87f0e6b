//! Replicas of servers. They serve reads, with data that may be slightly outdated.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Instant;

use crate::engine::{Engine, ask, mariadb};
use crate::program::{PATIENCE, PAUSE, run};

/// Creates the files of a replica.
pub(crate) fn prepare(engine: Engine, folder: &Path, primary: SocketAddr) {
    let Engine::Postgres = engine else { return engine.prepare(folder) };
    engine.own(folder);
    let mut command = engine.as_user("pg_basebackup");
    command.args(["-h", &primary.ip().to_string(), "-p", &primary.port().to_string()]);
    command.args(["-U", "postgres", "--write-recovery-conf", "--checkpoint=fast", "--no-sync"]);
    command.arg("-D").arg(folder.join("data"));
    run(command);
}

/// Makes a running server follow a primary, and waits until it has all present data.
pub(crate) fn follow(engine: Engine, address: SocketAddr, primary: SocketAddr) {
    let (ip, port) = (primary.ip(), primary.port());
    match engine {
        // The files contain the data and the address of the primary.
        Engine::Postgres => {}
        Engine::Mysql => {
            let id = address.port();
            // Two servers must have different ids.
            let statements = format!(
                "set global server_id = {id}; \
                 change master to master_host = '{ip}', master_port = {port}, \
                 master_user = 'root', master_connect_retry = 1, master_use_gtid = slave_pos; \
                 start slave; set global read_only = 1"
            );
            run(mariadb(address, &statements));
            let told = |address, statement: &str| {
                let output = mariadb(address, statement).output().expect("mariadb");
                let told = String::from_utf8_lossy(&output.stdout).into_owned();
                told.lines().last().unwrap_or_default().to_owned()
            };
            let position = told(primary, "select @@gtid_binlog_pos");
            let wait = format!("select master_gtid_wait('{position}', {})", PATIENCE.as_secs());
            assert_eq!(told(address, &wait), "0", "{address} does not follow {primary}");
        }
        // Members of etcd are equal: there is no replica.
        Engine::Etcd => panic!("etcd has members and no replicas"),
        Engine::Redis => {
            let answer = ask(address, &format!("REPLICAOF {ip} {port}"));
            assert!(answer.is_some_and(|answer| answer.starts_with(b"+OK")), "REPLICAOF");
            let limit = Instant::now() + PATIENCE;
            let up = || {
                let told = ask(address, "INFO replication").unwrap_or_default();
                String::from_utf8_lossy(&told).contains("master_link_status:up")
            };
            while !up() {
                assert!(Instant::now() < limit, "{address} does not follow {primary}");
                std::thread::sleep(PAUSE);
            }
        }
    }
}
