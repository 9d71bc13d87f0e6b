//! Creates the store: its tables, and the function that commits.
//!
//! Processes that open at the same time do this one after the other, under a lock. The name of the
//! function ends with a number, which increases when its behaviour changes. A process finds the
//! function of its version or creates it, so processes of two versions can work at the same time.
//! They share the tables and the locks, which are the format; the format has a number of its own.
//!
//! For example, version 4 of the function would be `ashlar_commit_4`, beside `ashlar_commit_3`.

use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Row};
use store::{StoreError, StoreErrorKind};

use crate::commit::Way;
use crate::error::{is_forbidden, unavailable, while_doing};

/// The format that this crate writes, and the only one that it reads.
const FORMAT: i32 = 1;

const TABLES: &str = include_str!("tables.sql");
const FUNCTION: &str = include_str!("commit.sql");

/// Takes the lock under which the tables and the function are created. The number is "ashlar" in
/// ASCII.
const LOCK: &str =
    "set local lock_timeout = '8s'; select pg_advisory_xact_lock(x'6173686c6172'::bigint)";

/// The parts of the store that exist in the schema of the connection.
#[derive(Debug)]
struct Existing {
    schema: Option<String>,
    tables: bool,
    function: bool,
    /// True if the server has checksums for its pages.
    checksums: bool,
}

const LOOK: &str = "select current_schema()::text, \
     to_regclass(quote_ident(current_schema()) || '.ashlar_store') is not null, \
     to_regproc(quote_ident(current_schema()) || '.ashlar_commit_3') is not null, \
     current_setting('data_checksums')";

async fn look(connection: &mut PgConnection, doing: &str) -> Result<Existing, StoreError> {
    let row = sqlx::raw_sql(LOOK).fetch_one(connection).await;
    let there = row.and_then(|row| {
        let (tables, function): (Option<bool>, Option<bool>) = (row.try_get(1)?, row.try_get(2)?);
        let there = |there: Option<bool>| there.unwrap_or(false);
        let (schema, checksums): (_, String) = (row.try_get(0)?, row.try_get(3)?);
        let (tables, function) = (there(tables), there(function));
        Ok(Existing { schema, tables, function, checksums: checksums == "on" })
    });
    there.map_err(while_doing(doing))
}

/// Returns true if the tables of a store exist in the schema of the connection.
pub(crate) async fn is_made(connection: &mut PgConnection, name: &str) -> Result<bool, StoreError> {
    let doing = format!("looking for the store in PostgreSQL at {name}");
    Ok(look(connection, &doing).await?.tables)
}

/// Creates the missing parts. Returns the way to commit.
pub(crate) async fn prepare(
    connection: &mut PgConnection,
    name: &str,
    functions: bool,
) -> Result<Way, StoreError> {
    let doing = format!("opening the store in PostgreSQL at {name}");
    let there = look(connection, &doing).await?;
    let Some(schema) = there.schema else {
        return Err(unavailable(format!("{doing}: no schema of the search path exists")));
    };
    if !there.checksums {
        tracing::info!(server = name, "data_checksums is off: a disk's faults stay unnoticed");
    }
    if !there.tables {
        make(connection, TABLES).await.map_err(|error| {
            if is_forbidden(&error) {
                let why = format!("{doing}: the role may not create tables in schema {schema}");
                StoreError::because(StoreErrorKind::Unavailable, why, error)
            } else {
                while_doing(&doing)(error)
            }
        })?;
    }
    // Also after creating the tables: another process may have created them first, in another
    // format.
    check_format(connection, &doing).await?;
    if !functions {
        return Ok(Way::Statements);
    }
    if there.function {
        return Ok(Way::Function);
    }
    match make(connection, FUNCTION).await {
        Ok(()) => Ok(Way::Function),
        Err(error) if is_forbidden(&error) => {
            let why = "the role may not create functions: commits take two round trips";
            tracing::warn!(server = name, schema, %error, "{why}");
            Ok(Way::Statements)
        }
        // Another process may have created the function meanwhile.
        Err(error) => match look(connection, &doing).await? {
            Existing { function: true, .. } => Ok(Way::Function),
            _ => Err(while_doing(&doing)(error)),
        },
    }
}

/// Runs statements in one transaction, under the lock.
async fn make(connection: &mut PgConnection, text: &str) -> Result<(), sqlx::Error> {
    let all = format!("begin; {LOCK}; {text}; commit");
    let made = sqlx::raw_sql(AssertSqlSafe(all)).execute(&mut *connection).await;
    if let Err(error) = made {
        // The connection is used again, so it must not stay in the failed transaction.
        sqlx::raw_sql("rollback").execute(connection).await?;
        return Err(error);
    }
    Ok(())
}

async fn check_format(connection: &mut PgConnection, doing: &str) -> Result<(), StoreError> {
    let row = sqlx::raw_sql("select format from ashlar_store").fetch_one(connection).await;
    let format: i32 = row.and_then(|row| row.try_get(0)).map_err(while_doing(doing))?;
    if format == FORMAT {
        return Ok(());
    }
    let why = format!("{doing}: it has format {format}, and this version reads {FORMAT} only");
    Err(StoreError::new(StoreErrorKind::Corrupt, why))
}
