//! Opens the file: takes its lock, checks its format, and makes commits durable.
//!
//! For example, a file of a newer format is refused before a byte of it changes.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{AssertSqlSafe, ConnectOptions};
use store::{Space, StoreError, StoreErrorKind};

use crate::error::{is_busy, while_doing};

/// The options of opening a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SqliteOptions {
    /// Refuse to open the file if another process has it open exclusively, and prevent others from
    /// doing so. A gateway sets this. A command that changes a few records while a gateway runs
    /// does not.
    pub exclusive: bool,
    /// Spaces whose records may be put on a full disk, because sessions and the reaper need them to
    /// free space. There must be few of these records, or they must be short-lived.
    pub spared: &'static [Space],
}

/// The format that this crate writes, and the only one that it reads.
const FORMAT: i64 = 1;

/// The first release of SQLite without the bug by which a checkpoint concurrent with a commit could
/// lose pages (introduced in 3.7.0).
const SQLITE_VERSION_MIN: (u32, u32, u32) = (3, 51, 3);

/// How long a statement waits for the lock of another connection before it fails.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Number of tries to turn on WAL mode, and the pause between them. SQLite does not always wait if
/// two connections change the mode of a file at once.
const WAL_TRIES: u32 = 100;
const WAL_PAUSE: Duration = Duration::from_millis(20);

/// Rows that a connection's thread may read before the task takes them.
const ROWS_AHEAD: usize = 1_024;

/// Prepared scripts that a connection caches.
const SCRIPTS_CACHED: usize = 256;

/// The mode of the store's files: only the owner has access. SQLite gives the files that it creates
/// the same mode.
pub(crate) const FILE_MODE: u32 = 0o600;

/// The permission bits of the group and of others, which the store's files must not have.
const OTHERS: u32 = 0o077;

/// Number of pages in the write-ahead log at which a commit also moves them into the database file:
/// 16 MiB.
const CHECKPOINT_PAGES: u32 = 4_096;

/// Size of the write-ahead log, in bytes, at which the writer waits for readers in order to restart
/// the log from its beginning.
pub(crate) const WAL_BYTES_MAX: u64 = 64 << 20;

const SCHEMA: &str = "
    BEGIN IMMEDIATE;
    CREATE TABLE IF NOT EXISTS ashlar_store (
        id INTEGER PRIMARY KEY CHECK (id = 1), format INTEGER NOT NULL,
        origin BLOB NOT NULL) STRICT;
    INSERT INTO ashlar_store VALUES (1, 1, randomblob(8)) ON CONFLICT DO NOTHING;
    CREATE TABLE IF NOT EXISTS record (
        key BLOB PRIMARY KEY NOT NULL, value BLOB NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS counter (
        key BLOB PRIMARY KEY NOT NULL, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS change (seq INTEGER PRIMARY KEY, body BLOB NOT NULL) STRICT;
    COMMIT";

/// Returns the path of a file beside the store: its name with `suffix`.
pub(crate) fn sibling(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

/// The time for which an open waits for the lock of the store's file. A process that ends, or that
/// is just starting a child, holds the lock a moment longer than its store.
const LOCK_WAIT: Duration = Duration::from_secs(1);

/// The interval at which such an open tries again.
const LOCK_RETRY: Duration = Duration::from_millis(20);

/// Opens the lock file beside the store, and takes the lock if `exclusive` is set. The lock is held
/// while the returned file is open. The kernel releases it when the process ends, also after a
/// crash.
pub(crate) async fn lock(path: &Path, options: SqliteOptions) -> Result<File, StoreError> {
    let name = sibling(path, ".lock");
    let doing = format!("opening {}", path.display());
    let mut private = OpenOptions::new();
    private.create(true).truncate(false).write(true).mode(FILE_MODE);
    // Create the store's file too, with this mode. SQLite treats an empty file as new, but would
    // create it with another mode.
    let opened = private.open(&name).and_then(|lock| private.open(path).map(|_| lock));
    let file = opened.map_err(|error| {
        let doing = if path.is_dir() {
            format!("{doing}, which is a folder: name a file")
        } else {
            format!("{doing}: its folder must exist and be writable")
        };
        StoreError::because(StoreErrorKind::Unavailable, doing, error)
    })?;
    if options.exclusive {
        take(&file).await.map_err(|error| match error {
            TryLockError::WouldBlock => {
                let doing = format!("{doing}: another process serves it already");
                StoreError::new(StoreErrorKind::Unavailable, doing)
            }
            TryLockError::Error(error) => {
                StoreError::because(StoreErrorKind::Unavailable, &doing, error)
            }
        })?;
    }
    Ok(file)
}

/// Takes the lock of a file, for which it waits at most [`LOCK_WAIT`].
async fn take(file: &File) -> Result<(), TryLockError> {
    let end = tokio::time::Instant::now() + LOCK_WAIT;
    loop {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) if tokio::time::Instant::now() < end => {
                tokio::time::sleep(LOCK_RETRY).await;
            }
            result => return result,
        }
    }
}

/// Removes the rights of the group and of others from the store's files, and logs the change.
fn close_to_others(path: &Path) {
    let (mut closed, mut open) = (false, false);
    for suffix in ["", "-wal", "-shm", "-reserve", ".lock"] {
        let path = sibling(path, suffix);
        let Ok(found) = fs::metadata(&path) else { continue };
        let mode = found.permissions().mode();
        if mode & OTHERS != 0 {
            let mended = fs::set_permissions(&path, Permissions::from_mode(mode & !OTHERS));
            closed |= mended.is_ok();
            open |= mended.is_err();
        }
    }
    let path = path.display();
    if closed {
        tracing::warn!(%path, "others could read the metadata store, and cannot any more");
    }
    if open {
        tracing::warn!(
            %path,
            "others can read the metadata store, and this user may not change that: run chmod go= \
             on it and on the files beside it",
        );
    }
}

fn options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .busy_timeout(BUSY_TIMEOUT)
        .statement_cache_capacity(SCRIPTS_CACHED)
        .row_buffer_size(ROWS_AHEAD)
        .disable_statement_logging()
}

/// Opens the connection that writes. Creates the tables if the file is new.
pub(crate) async fn writer(path: &Path) -> Result<SqliteConnection, StoreError> {
    let doing = format!("opening {}", path.display());
    let failed = while_doing(&doing);
    let options = options(path).create_if_missing(true);
    let mut connection = options.connect().await.map_err(&failed)?;
    let version: String = ask(&mut connection, "SELECT sqlite_version()").await.map_err(&failed)?;
    if !is_recent(&version) {
        let (major, minor, bugfix) = SQLITE_VERSION_MIN;
        let needed = format!("{doing}: SQLite {version} is older than {major}.{minor}.{bugfix}");
        return Err(StoreError::new(StoreErrorKind::Unavailable, needed));
    }
    // Check first, change later: a file that is neither a store nor empty must not change.
    let is_new = is_empty(&mut connection, &doing).await?;
    make_durable(&mut connection, &doing).await?;
    close_to_others(path);
    if is_new {
        let made = sqlx::raw_sql(SCHEMA).execute(&mut connection).await;
        made.map_err(&failed)?;
        // Another process may have created the tables first, in another format.
        is_empty(&mut connection, &doing).await?;
    }
    Ok(connection)
}

/// Opens a read-only connection, of a store that the writer has open.
pub(crate) async fn reader(path: &Path) -> Result<SqliteConnection, StoreError> {
    let options = options(path).read_only(true).pragma("cache_size", "-16384");
    options.connect().await.map_err(while_doing("opening a connection to read"))
}

async fn ask<T>(connection: &mut SqliteConnection, text: &str) -> Result<T, sqlx::Error>
where
    T: for<'r> sqlx::Decode<'r, sqlx::Sqlite> + sqlx::Type<sqlx::Sqlite> + Send + Unpin,
{
    sqlx::query_scalar(AssertSqlSafe(text)).fetch_one(connection).await
}

fn is_recent(version: &str) -> bool {
    let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
    let mut next = || parts.next().unwrap_or(0);
    (next(), next(), next()) >= SQLITE_VERSION_MIN
}

/// Returns true if the file is empty. Fails with `Corrupt` if it is neither empty nor a store of
/// this format.
async fn is_empty(connection: &mut SqliteConnection, doing: &str) -> Result<bool, StoreError> {
    let failed = while_doing(doing);
    let refuse = |why: String| StoreError::new(StoreErrorKind::Corrupt, format!("{doing}: {why}"));
    let tables: Vec<String> = sqlx::query_scalar("SELECT name FROM sqlite_schema")
        .fetch_all(&mut *connection)
        .await
        .map_err(&failed)?;
    if tables.is_empty() {
        return Ok(true);
    }
    if !tables.iter().any(|table| table == "ashlar_store") {
        return Err(refuse("it is a database, but not a store of Ashlar".into()));
    }
    let format: i64 =
        ask(connection, "SELECT max(format) FROM ashlar_store").await.map_err(&failed)?;
    if format != FORMAT {
        let why = format!("it has format {format}, and this version reads {FORMAT} only");
        return Err(refuse(why));
    }
    Ok(false)
}

/// Sets the options that durability needs, and checks that SQLite reports them.
async fn make_durable(connection: &mut SqliteConnection, doing: &str) -> Result<(), StoreError> {
    let failed = while_doing(doing);
    let settings = format!(
        "PRAGMA synchronous = FULL; PRAGMA mmap_size = 0; PRAGMA cache_size = -32768; \
         PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}; \
         PRAGMA journal_size_limit = {WAL_BYTES_MAX}"
    );
    let mode = turn_on_wal(connection).await.map_err(&failed)?;
    let set = sqlx::raw_sql(AssertSqlSafe(settings)).execute(&mut *connection).await;
    set.map_err(&failed)?;
    let synchronous: i64 = ask(connection, "PRAGMA synchronous").await.map_err(&failed)?;
    if mode != "wal" || synchronous != 2 {
        let why =
            format!("{doing}: journal_mode is {mode} and synchronous {synchronous}, not wal and 2");
        return Err(StoreError::new(StoreErrorKind::Unavailable, why));
    }
    Ok(())
}

/// Turns on WAL mode. Returns the mode that the file then has.
async fn turn_on_wal(connection: &mut SqliteConnection) -> Result<String, sqlx::Error> {
    for _ in 1..WAL_TRIES {
        match ask(connection, "PRAGMA journal_mode = WAL").await {
            Err(error) if is_busy(&error) => tokio::time::sleep(WAL_PAUSE).await,
            done => return done,
        }
    }
    ask(connection, "PRAGMA journal_mode = WAL").await
}

/// Returns the size of the write-ahead log beside the database at `path`, in bytes; 0 if there is
/// none.
pub(crate) fn wal_bytes(path: &Path) -> u64 {
    sibling(path, "-wal").metadata().map_or(0, |metadata| metadata.len())
}

/// The effort of a checkpoint, which moves pages from the write-ahead log to the database file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Checkpoint {
    /// Moves as many pages as readers permit, without waiting for them.
    Passive,
    /// Waits briefly for readers and moves all pages. The next commit starts at the beginning of
    /// the log.
    Restart,
    /// Does the same as `Restart`, and truncates the log.
    Truncate,
}

/// Moves pages from the write-ahead log to the database file. Fails if readers still need a part of
/// the log, or if the disk has no space for pages that the file lacks.
pub(crate) async fn checkpoint(
    connection: &mut SqliteConnection,
    mode: Checkpoint,
) -> Result<(), sqlx::Error> {
    const WAIT_MS: u32 = 200;
    let statement = match mode {
        Checkpoint::Passive => "PRAGMA wal_checkpoint(PASSIVE)",
        Checkpoint::Restart => "PRAGMA wal_checkpoint(RESTART)",
        Checkpoint::Truncate => "PRAGMA wal_checkpoint(TRUNCATE)",
    };
    // A checkpoint holds up all commits, so it waits for readers for a shorter time than statements
    // wait for a lock.
    let wait = format!("PRAGMA busy_timeout = {WAIT_MS}");
    let usual = format!("PRAGMA busy_timeout = {}", BUSY_TIMEOUT.as_millis());
    sqlx::raw_sql(AssertSqlSafe(wait)).execute(&mut *connection).await?;
    let busy = ask::<i64>(connection, statement).await;
    sqlx::raw_sql(AssertSqlSafe(usual)).execute(&mut *connection).await?;
    if busy? == 0 { Ok(()) } else { Err(sqlx::Error::Protocol("readers hold the log".into())) }
}

/// Sizes of the database, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DatabaseBytes {
    /// All pages, including those that are only in the log.
    pub(crate) pages: u64,
    /// Pages without data. SQLite uses them for the next records first.
    pub(crate) free: u64,
}

/// Returns the sizes of the database after the last commit.
pub(crate) async fn database_bytes(
    connection: &mut SqliteConnection,
) -> Result<DatabaseBytes, sqlx::Error> {
    let mut pragma = async |text: &str| {
        let number: i64 = ask(connection, text).await?;
        Ok::<u64, sqlx::Error>(u64::try_from(number).unwrap_or(0))
    };
    let page = pragma("PRAGMA page_size").await?;
    let (pages, free) =
        (pragma("PRAGMA page_count").await?, pragma("PRAGMA freelist_count").await?);
    Ok(DatabaseBytes { pages: pages * page, free: free * page })
}
