//! What each server needs: programs, a folder, options, a way to ask it.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::program::{find, program, run, succeeds};

/// Files of PostgreSQL's log that are made beforehand: 384 MiB.
const LOG_FILES: usize = 24;

/// Connections that PostgreSQL and MariaDB take: some fifteen for each store that a test opens, for all
/// tests that run at the same time.
const CONNECTIONS_MAX: u32 = 400;

/// Bytes of an answer of Redis that are looked at.
const ANSWER_BYTES: usize = 4 << 10;

/// Which server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// PostgreSQL.
    Postgres,
    /// MariaDB.
    Mysql,
    /// Redis.
    Redis,
}

impl Engine {
    /// Every server there is.
    pub const ALL: [Engine; 3] = [Engine::Postgres, Engine::Mysql, Engine::Redis];

    /// What is run.
    pub(crate) fn programs(self) -> &'static [&'static str] {
        match self {
            Engine::Postgres => &["setpriv", "initdb", "pg_basebackup", "postgres", "psql"],
            Engine::Mysql => &["setpriv", "mariadb-install-db", "mariadbd", "mariadb"],
            Engine::Redis => &["setpriv", "redis-server"],
        }
    }

    /// The user that a server runs as when root starts it: some refuse to be root.
    fn user(self) -> Option<&'static str> {
        let root = rustix::process::geteuid().is_root();
        match self {
            Engine::Postgres if root => Some("postgres"),
            Engine::Mysql if root => Some("mysql"),
            _ => None,
        }
    }

    /// A program that runs as the server's user and ends with this process.
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

    /// Gives a folder to the user that the server runs as.
    pub(crate) fn own(self, folder: &Path) {
        if let Some(user) = self.user() {
            let mut command = Command::new("chown");
            command.arg(user).arg(folder);
            run(command);
        }
    }

    /// Makes the files of a server without data.
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
                // Another server that starts would sweep a folder for temporary files that both use.
                command.args(["--no-defaults", "--skip-test-db"]);
                command.arg(format!("--tmpdir={}", folder.display()));
                command.arg("--auth-root-authentication-method=normal");
                run(command);
            }
            Engine::Redis => {}
        }
    }

    /// The server itself, in the foreground.
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
                    // Files of the log that were made once are used again.
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
                // Without a binary log, others see a commit before it is on disk.
                command.arg(format!("--log-bin={}", folder.join("binlog").display()));
                command.args(["--sync-binlog=1", "--binlog-format=ROW"]);
                command
            }
            Engine::Redis => {
                let mut command = self.as_user("redis-server");
                command.args(["--port", &port, "--bind", "127.0.0.1", "--save", ""]);
                command.args(["--appendonly", "yes", "--appendfsync", "always"]);
                // What docs/METADATA.md recommends: most of what is there does not compress, and
                // small files need not be rewritten.
                command.args(["--rdbcompression", "no", "--auto-aof-rewrite-min-size", "1gb"]);
                command.arg("--dir").arg(folder);
                command
            }
        }
    }

    /// Whether the server takes commands.
    pub(crate) fn ready(self, address: SocketAddr) -> bool {
        match self {
            Engine::Postgres => succeeds(postgres(address, "select 1")),
            Engine::Mysql => succeeds(mariadb(address, "select 1")),
            Engine::Redis => ping(address).is_some_and(|answer| answer.starts_with(b"+PONG")),
        }
    }

    /// Makes files of the log before they are needed, if the server makes them one by one while
    /// commits wait.
    pub(crate) fn prepare_log(self, address: SocketAddr) {
        match self {
            Engine::Postgres => fill_log(address),
            Engine::Mysql | Engine::Redis => {}
        }
    }

    pub(crate) fn url(self, address: SocketAddr) -> String {
        match self {
            Engine::Postgres => format!("postgres://postgres@{address}/postgres"),
            Engine::Mysql => format!("mysql://root@{address}/mysql"),
            Engine::Redis => format!("redis://{address}/"),
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
        }
    }
}

/// Fills so many files of the log, which a checkpoint then makes files to be filled.
fn fill_log(address: SocketAddr) {
    let switch = format!(
        "do $$ begin for n in 1..{LOG_FILES} loop \
         perform pg_logical_emit_message(false, 'ashlar', 'n'), pg_switch_wal(); \
         end loop; end $$"
    );
    run(postgres(address, &switch));
    run(postgres(address, "checkpoint"));
}

fn postgres(address: SocketAddr, statement: &str) -> Command {
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

/// What Redis answers to PING. While it loads its file, that is an error.
fn ping(address: SocketAddr) -> Option<Vec<u8>> {
    ask(address, "PING")
}

/// The first bytes of what Redis answers to a line.
pub(crate) fn ask(address: SocketAddr, line: &str) -> Option<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(1))).ok()?;
    stream.write_all(format!("{line}\r\n").as_bytes()).ok()?;
    let mut answer = vec![0; ANSWER_BYTES];
    let length = stream.read(&mut answer).ok()?;
    answer.truncate(length);
    Some(answer)
}
