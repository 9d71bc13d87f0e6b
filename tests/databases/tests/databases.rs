//! Each installed server starts, dies and restarts.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use databases::{Database, Engine, EtcdCluster};

#[test]
fn servers_start_die_and_start_again() {
    for engine in Engine::ALL {
        if !Database::installed(engine) {
            let required = std::env::var_os("ASHLAR_TEST_REQUIRE_SERVICES").is_some();
            assert!(!required, "{engine:?} is not installed");
            eprintln!("not run: {engine:?} is not installed");
            continue;
        }
        let mut database = Database::start(engine);
        assert!(database.fresh("one").contains(&database.address().to_string()));
        let processes = database.processes();
        if engine == Engine::Postgres {
            assert!(processes.len() > 3, "its workers are its own: {processes:?}");
        }
        database.kill();
        let left = || processes.iter().filter(|pid| is_alive(**pid)).count();
        for _ in 0..200 {
            if left() == 0 {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        assert_eq!(left(), 0, "nothing of it is left");
        database.restart();
        assert!(database.url().contains(&database.address().to_string()));
    }
}

#[test]
fn replicas_follow_and_settings_are_applied() {
    // etcd has no replicas: all members of a cluster take writes.
    let engines = [Engine::Postgres, Engine::Mysql, Engine::Redis];
    for engine in engines.into_iter().filter(|engine| Database::installed(*engine)) {
        let primary = Database::start(engine);
        primary.fresh("before");
        let mut replica = Database::replica(&primary);
        assert_ne!(replica.address(), primary.address());
        replica.kill();
        replica.set(match engine {
            Engine::Postgres => &["-c", "cluster_name=told"],
            Engine::Mysql => &["--report-host=told"],
            Engine::Redis => &["--logfile", "told"],
            Engine::Etcd => unreachable!("it is not in the list"),
        });
        replica.restart();
        let told = replica.processes().iter().any(|pid| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains("told")
        });
        assert!(told || engine == Engine::Redis && replica.folder().join("told").exists());
    }
}

#[test]
fn a_log_is_preallocated_and_kept() {
    if !Database::installed(Engine::Postgres) {
        // `servers_start_die_and_start_again` reports that PostgreSQL is missing.
        return;
    }
    let database = Database::start(Engine::Postgres);
    let files = || {
        let log = std::fs::read_dir(database.folder().join("data/pg_wal")).expect("its log");
        let name = |file: std::io::Result<std::fs::DirEntry>| file.expect("a file").file_name();
        log.map(name).filter(|name| name.len() == 24).count()
    };
    assert!(files() < 4, "a new server has a short log");
    database.prepare_log();
    assert!(files() >= 24, "{} files", files());
}

/// Creates a name. Returns true if it did not exist before.
fn is_new(database: &Database, name: &str) -> bool {
    if database.engine() == Engine::Etcd {
        let is_absent = database.etcdctl(&["get", name]).is_empty();
        database.etcdctl(&["put", name, "1"]);
        return is_absent;
    }
    if database.engine() != Engine::Redis {
        let make = std::panic::AssertUnwindSafe(|| database.fresh(name));
        return std::panic::catch_unwind(make).is_ok();
    }
    let mut stream = TcpStream::connect(database.address()).expect("Redis listens");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
    stream.write_all(format!("SETNX {name} 1\r\n").as_bytes()).expect("a command is taken");
    let mut answer = [0; 4];
    stream.read_exact(&mut answer).expect("an answer");
    &answer == b":1\r\n"
}

#[test]
fn servers_are_restored_to_an_earlier_state() {
    for engine in Engine::ALL {
        if !Database::installed(engine) {
            // `servers_start_die_and_start_again` reports that the engine is missing.
            continue;
        }
        let mut database = Database::start(engine);
        assert!(is_new(&database, "before"), "{engine:?}");
        let past = database.remember();
        assert!(is_new(&database, "after"), "{engine:?}");
        // Twice, because a restore keeps the copy.
        for _ in 0..2 {
            database.kill();
            database.restore(&past);
            assert!(is_new(&database, "after"), "{engine:?} kept a later name");
            assert!(!is_new(&database, "before"), "{engine:?} lost an earlier name");
        }
    }
}

/// Returns true if a process runs. A zombie does not.
fn is_alive(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    status.is_ok_and(|status| {
        !status.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('Z'))
    })
}

#[test]
fn a_cluster_of_etcd_elects_another_leader() {
    if !Database::installed(Engine::Etcd) {
        // `servers_start_die_and_start_again` reports that etcd is missing.
        return;
    }
    let mut cluster = EtcdCluster::start();
    let first = cluster.leader();
    cluster.kill(first);
    let (second, _) = cluster.next_leader(first);
    assert_ne!(first, second);
    cluster.restart(first);
    cluster.freeze(second, true);
    let (third, passed) = cluster.next_leader(second);
    assert_ne!(second, third);
    assert!(passed < Duration::from_secs(20), "{passed:?}");
    cluster.freeze(second, false);
}
