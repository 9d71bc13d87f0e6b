//! The programs, folders, options and commands of each server.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::etcd;
use crate::program::{find, program, run, succeeds};

/// Number of PostgreSQL's log files that are preallocated: 384 MiB.
const LOG_FILES: usize = 24;

/// Limit of the connections of PostgreSQL and MariaDB: about fifteen for each store that a test
/// opens, for all tests that run at the same time.
pub(crate) const CONNECTIONS_MAX: u32 = 400;

/// Limit of the bytes that are read of a reply of Redis.
const ANSWER_BYTES: usize = 4 << 10;

/// The kind of server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// PostgreSQL.
    Postgres,
    /// MariaDB.
    Mysql,
    /// Redis.
    Redis,
    /// One member of etcd.
    Etcd,
}

impl Engine {
    /// All kinds of servers.
    pub const ALL: [Engine; 4] = [Engine::Postgres, Engine::Mysql, Engine::Redis, Engine::Etcd];

    /// Returns the programs that must be installed.
    pub(crate) fn programs(self) -> &'static [&'static str] {
        match self {
            Engine::Postgres => &["setpriv", "initdb", "pg_basebackup", "postgres", "psql"],
            Engine::Mysql => &["setpriv", "mariadb-install-db", "mariadbd", "mariadb"],
            Engine::Redis => &["setpriv", "redis-server"],
            Engine::Etcd => &["setpriv", "etcd", "etcdctl"],
        }
    }

    /// Returns the user of the server if root starts it, since some servers refuse to run as root.
    fn user(self) -> Option<&'static str> {
        let root = rustix::process::geteuid().is_root();
        match self {
            Engine::Postgres if root => Some("postgres"),
            Engine::Mysql if root => Some("mysql"),
            _ => None,
        }
    }

    /// Returns a command that runs as the server's user and ends with this process.
    pub(crate) fn as_user(self, name: &str) -> Command {
        let mut command = program("setpriv");
        command.args(["--pdeathsig", "KILL"]);
        if let Some(user) = self.user() {
            command.args(["--reuid", user, "--regid", user, "--clear-groups"]);
        }
        command.arg("--").arg(find(name).unwrap_or_else(|| panic!("{name} is not installed")));
        command.env("LC_ALL", "C").current_dir("/");
        command
    }

    /// Makes the server's user the owner of a folder.
    pub(crate) fn own(self, folder: &Path) {
        if let Some(user) = self.user() {
            let mut command = Command::new("chown");
            command.arg(user).arg(folder);
            run(command);
        }
    }

    /// Creates the files of an empty server.
    pub(crate) fn prepare(self, folder: &Path) {
        self.own(folder);
        match self {
            Engine::Postgres => {
                let mut command = self.as_user("initdb");
                command.arg("-D").arg(folder.join("data"));
                command.args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync"]);
                run(command);
            }
            Engine::Mysql => {
                let mut command = self.as_user("mariadb-install-db");
                command.arg(format!("--datadir={}", folder.join("data").display()));
                // A starting server deletes files in its temporary folder, so servers must not
                // share one.
                command.args(["--no-defaults", "--skip-test-db"]);
                command.arg(format!("--tmpdir={}", folder.display()));
                command.arg("--auth-root-authentication-method=normal");
                run(command);
            }
            Engine::Redis | Engine::Etcd => {}
        }
    }

    /// Returns the command of the server, in the foreground.
    pub(crate) fn server(self, folder: &Path, address: SocketAddr) -> Command {
        let port = address.port().to_string();
        match self {
            Engine::Postgres => {
                let mut command = self.as_user("postgres");
                command.arg("-D").arg(folder.join("data")).args(["-p", &port]);
                for setting in [
                    "listen_addresses=127.0.0.1",
                    "unix_socket_directories=",
                    &format!("max_connections={CONNECTIONS_MAX}"),
                    "shared_buffers=128MB",
                    // Keeps log files for reuse instead of deleting them.
                    "min_wal_size=1GB",
                ] {
                    command.args(["-c", setting]);
                }
                command
            }
            Engine::Mysql => {
                let mut command = self.as_user("mariadbd");
                command.arg("--no-defaults");
                command.arg(format!("--datadir={}", folder.join("data").display()));
                command.arg(format!("--tmpdir={}", folder.display()));
                command.arg(format!("--socket={}", folder.join("socket").display()));
                command.arg(format!("--pid-file={}", folder.join("pid").display()));
                command.arg(format!("--port={port}"));
                command.args(["--bind-address=127.0.0.1", "--skip-name-resolve"]);
                command.arg(format!("--max-connections={CONNECTIONS_MAX}"));
                command.arg("--innodb-buffer-pool-size=128M");
                // Without a binary log, other clients see a commit before it is on disk.
                command.arg(format!("--log-bin={}", folder.join("binlog").display()));
                command.args(["--sync-binlog=1", "--binlog-format=ROW"]);
                command
            }
            Engine::Redis => {
                let mut command = self.as_user("redis-server");
                command.args(["--port", &port, "--bind", "127.0.0.1", "--save", ""]);
                command.args(["--appendonly", "yes", "--appendfsync", "always"]);
                // The settings that docs/METADATA.md recommends: most data does not compress, and
                // small files need not be rewritten.
                command.args(["--rdbcompression", "no", "--auto-aof-rewrite-min-size", "1gb"]);
                command.arg("--dir").arg(folder);
                command
            }
            Engine::Etcd => {
                let mut command = self.as_user("etcd");
                etcd::sole_member(&mut command, folder, address);
                command
            }
        }
    }

    /// Returns true if the server accepts commands.
    pub(crate) fn ready(self, address: SocketAddr) -> bool {
        match self {
            Engine::Postgres => succeeds(postgres(address, "select 1")),
            Engine::Mysql => succeeds(mariadb(address, "select 1")),
            Engine::Redis => ping(address).is_some_and(|answer| answer.starts_with(b"+PONG")),
            Engine::Etcd => etcd::is_healthy(address),
        }
    }

    /// Preallocates log files, if the server otherwise creates them one by one while commits wait.
    pub(crate) fn prepare_log(self, address: SocketAddr) {
        match self {
            Engine::Postgres => fill_log(address),
            Engine::Mysql | Engine::Redis | Engine::Etcd => {}
        }
    }

    pub(crate) fn url(self, address: SocketAddr) -> String {
        match self {
            Engine::Postgres => format!("postgres://postgres@{address}/postgres"),
            Engine::Mysql => format!("mysql://root@{address}/mysql"),
            Engine::Redis => format!("redis://{address}/"),
            Engine::Etcd => format!("etcd://{address}/"),
        }
    }

    pub(crate) fn fresh(self, address: SocketAddr, name: &str) -> String {
        match self {
            Engine::Postgres => {
                run(postgres(address, &format!("create database \"{name}\"")));
                format!("postgres://postgres@{address}/{name}")
            }
            Engine::Mysql => {
                run(mariadb(address, &format!("create database `{name}`")));
                format!("mysql://root@{address}/{name}")
            }
            Engine::Redis => format!("redis://{address}/?prefix={name}"),
            Engine::Etcd => format!("etcd://{address}/{name}"),
        }
    }
}

/// Fills this many log files; the checkpoint then recycles them.
fn fill_log(address: SocketAddr) {
    let switch = format!(
        "do $$ begin for n in 1..{LOG_FILES} loop \
         perform pg_logical_emit_message(false, 'ashlar', 'n'), pg_switch_wal(); \
         end loop; end $$"
    );
    run(postgres(address, &switch));
    run(postgres(address, "checkpoint"));
}

pub(crate) fn postgres(address: SocketAddr, statement: &str) -> Command {
    let mut command = program("psql");
    command.args(["-h", &address.ip().to_string(), "-p", &address.port().to_string()]);
    command.args(["-U", "postgres", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-c", statement]);
    command.arg("postgres").env("PGCONNECT_TIMEOUT", "2");
    command
}

pub(crate) fn mariadb(address: SocketAddr, statement: &str) -> Command {
    let mut command = program("mariadb");
    command.args(["--no-defaults", "--user=root", "--connect-timeout=2", "--protocol=tcp"]);
    command.arg(format!("--host={}", address.ip())).arg(format!("--port={}", address.port()));
    command.args(["-e", statement]);
    command
}

/// Returns the reply of Redis to PING. While it loads its file, that is an error.
fn ping(address: SocketAddr) -> Option<Vec<u8>> {
    ask(address, "PING")
}

/// Returns the first bytes of the reply of Redis to a line.
pub(crate) fn ask(address: SocketAddr, line: &str) -> Option<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(1))).ok()?;
    stream.write_all(format!("{line}\r\n").as_bytes()).ok()?;
    let mut answer = vec![0; ANSWER_BYTES];
    let length = stream.read(&mut answer).ok()?;
    answer.truncate(length);
    Some(answer)
}
