//! Encrypted connections, with verification of the server.
//!
//! The server is one of this test's own, because others have certificates that the test cannot
//! choose.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use store::{MetaStore, StoreErrorKind};
use store_mysql::{MysqlOptions, MysqlStore};
use tempfile::TempDir;

use crate::service::{decide_one, execute, key, plan, put, record, run, skip};

/// A server with a certificate for `localhost`, killed when dropped.
struct Server {
    folder: TempDir,
    child: Child,
    port: u16,
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns a command of MariaDB that uses one folder for everything.
fn program(name: &str, folder: &Path) -> Command {
    let mut command = Command::new(name);
    command.args(["--no-defaults", "--user=root"]);
    command.arg(format!("--datadir={}", folder.join("data").display()));
    command.arg(format!("--tmpdir={}", folder.display()));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

impl Server {
    fn start() -> Server {
        let folder = TempDir::new().expect("a folder");
        let issued = rcgen::generate_simple_self_signed(["localhost".to_owned()]);
        let issued = issued.expect("a certificate");
        let file = |name: &str| folder.path().join(name);
        fs::write(file("cert.pem"), issued.cert.pem()).expect("a file");
        fs::write(file("key.pem"), issued.signing_key.serialize_pem()).expect("a file");
        let mut install = program("mariadb-install-db", folder.path());
        install.args(["--auth-root-authentication-method=normal", "--skip-test-db"]);
        assert!(install.status().expect("it is installed").success(), "no system tables");
        let port = ports::reserve().port();
        let mut command = program("mariadbd", folder.path());
        for (option, name) in [("ssl-cert", "cert.pem"), ("ssl-key", "key.pem"), ("socket", "s")] {
            command.arg(format!("--{option}={}", file(name).display()));
        }
        command.args([&format!("--port={port}"), "--bind-address=127.0.0.1"]);
        let child = command.spawn().expect("it is installed");
        Server { folder, child, port }
    }

    /// Returns the URL of its database, with parameters.
    fn url(&self, user: &str, host: &str, parameters: &str) -> String {
        format!("mysql://{user}@{host}:{}/ashlar?{parameters}", self.port)
    }

    /// Waits until the server answers on its socket, and creates a database and a user that must
    /// use TLS.
    async fn prepare(&self) {
        let socket = self.folder.path().join("s");
        let limit = Instant::now() + Duration::from_mins(1);
        while !socket.exists() {
            assert!(Instant::now() < limit, "the server does not start");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let url = format!("mysql://root@localhost/mysql?socket={}", socket.display());
        let text = "CREATE DATABASE ashlar; CREATE USER safe@'%' IDENTIFIED BY 'p' REQUIRE SSL; \
                    GRANT ALL ON ashlar.* TO safe@'%'";
        execute(&url, text).await;
    }
}

#[test]
fn connections_are_encrypted_and_verify_the_server() {
    run(async {
        if !databases::Database::installed(databases::Engine::Mysql) {
            return skip("MariaDB is not installed here");
        }
        let server = tokio::task::block_in_place(Server::start);
        server.prepare().await;
        let ca = format!("ssl-ca={}", server.folder.path().join("cert.pem").display());
        let relaxed = || MysqlOptions { relaxed: true, ..MysqlOptions::default() };
        let good = [
            ("localhost", String::new()),
            ("localhost", "ssl-mode=REQUIRED".into()),
            ("127.0.0.1", format!("ssl-mode=VERIFY_CA&{ca}")),
            ("localhost", format!("ssl-mode=VERIFY_IDENTITY&{ca}")),
        ];
        for (host, parameters) in good {
            let url = server.url("safe:p", host, &parameters);
            let store = MysqlStore::open(&url, relaxed()).await.expect(&url);
            let at = key(1, &parameters);
            decide_one(&store, plan([], [put(at.clone(), "x")])).await;
            assert_eq!(record(&store, &at).await.as_deref(), Some(&b"x"[..]));
            store.close().await;
        }
        let bad = [
            // This user must not connect without encryption.
            ("localhost", "ssl-mode=DISABLED".into()),
            // No public authority has signed this server's certificate.
            ("localhost", "ssl-mode=VERIFY_CA".into()),
            ("127.0.0.1", format!("ssl-mode=VERIFY_IDENTITY&{ca}")),
        ];
        for (host, parameters) in bad {
            let url = server.url("safe:p", host, &parameters);
            let error = MysqlStore::open(&url, relaxed()).await.expect_err(&url);
            assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
        }
    });
}
