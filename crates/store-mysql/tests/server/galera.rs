//! A real node of a Galera cluster.

use std::path::Path;
use std::time::{Duration, Instant};

use sqlx::{AssertSqlSafe, Row};
use store::{Durability, MetaStore, StoreErrorKind};
use store_mysql::{MysqlOptions, MysqlStore};

use crate::bench;
use crate::service::{connect, execute, skip};

/// The provider, where packages install it.
const PROVIDER: &str = "/usr/lib/galera/libgalera_smm.so";

/// Limit of the time until a node accepts applications.
const READY_WITHIN: Duration = Duration::from_mins(1);

/// Two gateways with two nodes of one cluster lose acknowledged writes. So a node is refused,
/// unless the URL confirms that all gateways use it. The first node of a cluster is enough for the
/// check.
#[test]
fn a_node_of_a_galera_cluster_is_refused_unless_it_is_the_only_writer() {
    if !Path::new(PROVIDER).exists() {
        return skip("Galera's provider is not installed here");
    }
    bench::run(async |mut bench| {
        let plain = MysqlStore::open(&bench.direct, MysqlOptions::default()).await;
        plain.expect("a server without a cluster").close().await;
        let (group, transfer) = (ports::reserve().port(), ports::reserve().port());
        let options = format!(
            "base_port={group};gmcast.listen_addr=tcp://127.0.0.1:{group};\
             ist.recv_addr=127.0.0.1:{transfer};gcache.size=16M"
        );
        bench.server.kill();
        bench.server.set(&[
            "--wsrep-on=1",
            &format!("--wsrep-provider={PROVIDER}"),
            "--wsrep-cluster-address=gcomm://",
            "--wsrep-cluster-name=ashlar",
            &format!("--wsrep-node-address=127.0.0.1:{group}"),
            &format!("--wsrep-provider-options={options}"),
            "--innodb-autoinc-lock-mode=2",
            "--wsrep-new-cluster",
        ]);
        bench.server.restart();
        let mut connection = connect(&bench.direct).await;
        let mut status = async |name: &str| -> String {
            let text = format!("SHOW STATUS WHERE Variable_name = '{name}'");
            let row = sqlx::query(AssertSqlSafe(text)).fetch_one(&mut connection).await;
            row.expect("a status").get(1)
        };
        let until = Instant::now() + READY_WITHIN;
        while status("wsrep_ready").await != "ON" {
            assert!(Instant::now() < until, "the node does not get ready");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert_eq!(
            status("wsrep_cluster_status").await,
            "Primary",
            "the node is part of a cluster"
        );

        let single = format!("{}?single_writer=yes", bench.direct);
        let relaxed = || MysqlOptions { relaxed: true, ..MysqlOptions::default() };
        for (url, options) in [
            (&bench.direct, relaxed()),
            (&bench.direct, MysqlOptions::default()),
            (&format!("{}?single_writer=no", bench.direct), relaxed()),
        ] {
            let error = MysqlStore::open(url, options).await.expect_err("a cluster");
            assert_eq!(error.kind(), StoreErrorKind::Unavailable);
            let text = error.to_string();
            assert!(text.contains("wsrep_on") && text.contains("single_writer=yes"), "{text}");
        }
        let error = MysqlStore::open(&single, MysqlOptions::default()).await.expect_err("a risk");
        assert!(error.to_string().contains("--metadata-durability=relaxed"), "{error}");
        let store = MysqlStore::open(&single, relaxed()).await.expect("one node for all");
        assert_eq!(store.durability(), Durability::Relaxed);
        store.close().await;
        // The node stays in the cluster, but its writes are not replicated.
        execute(&bench.direct, "SET GLOBAL wsrep_on = OFF").await;
        let error = MysqlStore::open(&bench.direct, relaxed()).await.expect_err("a node");
        assert!(error.to_string().contains("wsrep_provider is set"), "{error}");
    });
}
