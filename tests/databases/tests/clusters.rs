//! Each kind of cluster fails over, keeps its data, and accepts its old primary as a standby.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use databases::{Cluster, Engine, Fault};

#[test]
fn patroni_promotes_a_standby_of_a_stopped_primary() {
    fails_over(Engine::Postgres, &[Fault::Freeze]);
}

#[test]
fn an_operator_promotes_a_replica_of_mariadb() {
    fails_over(Engine::Mysql, &[Fault::Kill, Fault::Freeze]);
}

#[test]
fn sentinels_promote_a_replica_of_redis() {
    fails_over(Engine::Redis, &[Fault::Kill]);
}

fn fails_over(engine: Engine, faults: &[Fault]) {
    if !Cluster::installed(engine) {
        let required = std::env::var_os("ASHLAR_TEST_REQUIRE_SERVICES").is_some();
        assert!(!required, "a cluster of {engine:?} is not installed");
        eprintln!("not run: a cluster of {engine:?} is not installed");
        return;
    }
    let mut cluster = Cluster::start(engine);
    assert!(is_new(&cluster, "before"));
    for (number, &fault) in faults.iter().enumerate() {
        let primary = cluster.primary();
        let done = cluster.fail_over(fault);
        eprintln!("{done}");
        assert_eq!((done.fault, done.from, done.to), (fault, primary, cluster.primary()));
        assert_ne!(done.from, done.to);
        assert!(!is_new(&cluster, "before"), "an acknowledged write is lost");
        assert!(is_new(&cluster, &format!("after-{number}")), "the rest of the cluster is enough");
        cluster.heal();
        assert_eq!(cluster.primary(), done.to, "the old primary is a standby");
    }
}

/// Creates a name. Returns true if it did not exist before.
fn is_new(cluster: &Cluster, name: &str) -> bool {
    if cluster.engine() != Engine::Redis {
        let make = std::panic::AssertUnwindSafe(|| cluster.fresh(name));
        return std::panic::catch_unwind(make).is_ok();
    }
    redis(cluster.primary(), &format!("SETNX {name} 1")) == ":1"
}

/// Returns the reply of Redis to a command, without the line end.
fn redis(address: SocketAddr, command: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("Redis listens");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
    stream.write_all(format!("{command}\r\n").as_bytes()).expect("a command is taken");
    let mut reply = [0; 64];
    let length = stream.read(&mut reply).expect("a reply");
    String::from_utf8_lossy(&reply[..length]).trim_end().to_owned()
}
