//! The questions to each server about its role and settings, and what the answers permit.
//!
//! For example, a server with `fsync = off` may lose acknowledged commits in a crash.

use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::address::LOCK_TIMEOUT;
use crate::error::unreadable;

/// The oldest version of the server that is known to work: 15.
const VERSION_MIN: i32 = 15_00_00;

/// The questions to each server, and an expression that makes the session keep memory for later
/// statements.
///
/// The C library of most servers takes each allocation of more than 128 KiB from the system and
/// returns it at once. So each copy of a large value costs page faults, more than the copying
/// itself. The library raises this limit to the size of an allocation that it returns, and keeps
/// twice as much. So a session that has freed 2 MiB keeps memory for values, of which the largest
/// has 1 MiB, and holds at most 4 MiB.
///
/// A server that is in recovery answers with the highest timeline that it has followed. Standbys
/// are receivers that replay the log. `pg_receivewal` and `pg_basebackup` do not, and subscribers
/// of logical replication are no standbys. A role without `pg_read_all_stats` sees only that there
/// are receivers, not their state.
pub(crate) const QUESTIONS: &str = "select current_setting('server_version_num') version, \
     pg_is_in_recovery()::text recovery, current_setting('fsync') fsync, \
     current_setting('full_page_writes') full_page_writes, \
     current_setting('synchronous_commit') synchronous_commit, \
     current_setting('lock_timeout') lock_timeout, \
     current_setting('transaction_isolation') isolation, \
     pg_postmaster_start_time()::text started, \
     (select system_identifier::text from pg_control_system()) system, \
     (case when pg_is_in_recovery() then greatest( \
     (select timeline_id from pg_control_checkpoint()), \
     (select min_recovery_end_timeline from pg_control_recovery()), \
     (select received_tli from pg_stat_wal_receiver)) \
     else ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint end)::text \
     timeline, \
     current_setting('synchronous_standby_names') synchronous, \
     (select count(*) from pg_stat_replication r where replay_lsn is not null \
     and state in ('catchup', 'streaming') and not exists (select from pg_replication_slots s \
     where s.active_pid = r.pid and s.slot_type = 'logical'))::text standbys, \
     (select count(*) from pg_stat_replication where state is null)::text hidden, \
     octet_length(repeat(repeat('x', 2048), 1024)) kept";

/// The answers of a server about its version, role and settings.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) version: String,
    pub(crate) recovery: String,
    pub(crate) fsync: String,
    pub(crate) full_page_writes: String,
    pub(crate) synchronous_commit: String,
    pub(crate) lock_timeout: String,
    pub(crate) isolation: String,
    /// The start time, which identifies the server.
    pub(crate) started: String,
    /// The system identifier, which a primary and its standbys have in common.
    pub(crate) system: String,
    /// The timeline, which a promotion increases.
    pub(crate) timeline: i64,
    /// The setting `synchronous_standby_names`.
    pub(crate) synchronous: String,
    /// Number of standbys that receive and replay the log.
    pub(crate) standbys: i64,
    /// Number of receivers of the log whose state this role may not see.
    pub(crate) hidden: i64,
}

impl Server {
    pub(crate) fn of(row: &PgRow) -> Result<Server, sqlx::Error> {
        let number = |name: &str| {
            let text: String = row.try_get(name)?;
            text.parse().map_err(|_| unreadable("a number of the server's state"))
        };
        Ok(Server {
            version: row.try_get("version")?,
            recovery: row.try_get("recovery")?,
            fsync: row.try_get("fsync")?,
            full_page_writes: row.try_get("full_page_writes")?,
            synchronous_commit: row.try_get("synchronous_commit")?,
            lock_timeout: row.try_get("lock_timeout")?,
            isolation: row.try_get("isolation")?,
            started: row.try_get("started")?,
            system: row.try_get("system")?,
            timeline: number("timeline")?,
            synchronous: row.try_get("synchronous")?,
            standbys: number("standbys")?,
            hidden: number("hidden")?,
        })
    }

    /// Returns true if this server accepts writes, in contrast to a standby.
    pub(crate) fn is_primary(&self) -> bool {
        self.recovery == "false"
    }

    /// Returns true if this role cannot see if the server has asynchronous standbys.
    pub(crate) fn hides_standbys(&self) -> bool {
        self.synchronous.is_empty() && self.hidden > 0
    }

    /// Returns the reason why this server cannot be used at all, or `None`.
    pub(crate) fn refused(&self) -> Option<String> {
        if self.version.parse::<i32>().is_ok_and(|version| version < VERSION_MIN) {
            let (version, least) = (&self.version, VERSION_MIN);
            return Some(format!("its version is {version}, and at least {least} is needed"));
        }
        if !self.is_primary() {
            return Some("it is a standby; the URL must name the primary".to_owned());
        }
        if self.lock_timeout != LOCK_TIMEOUT || self.isolation != "read committed" {
            return Some(
                "it does not take the settings of the session; what stands between must pass on \
                 the startup parameter `options`"
                    .to_owned(),
            );
        }
        None
    }

    /// Returns the losses that the server's settings and standbys permit; empty if acknowledged
    /// commits are durable. With `never_promoted`, no asynchronous standby takes over.
    pub(crate) fn lax(&self, never_promoted: bool) -> Vec<String> {
        let mut reasons = Vec::new();
        if self.fsync != "on" {
            reasons.push(
                "fsync is off, so a crash of its machine may destroy the database".to_owned(),
            );
        }
        if self.full_page_writes != "on" {
            reasons.push(
                "full_page_writes is off, so a crash of its machine may tear pages".to_owned(),
            );
        }
        if !matches!(&*self.synchronous_commit, "on" | "remote_write" | "remote_apply") {
            reasons.push(format!(
                "synchronous_commit is {}, so a crash or a failover may lose the last commits \
                 that were acknowledged",
                self.synchronous_commit
            ));
        }
        // If names are set, each commit waits for a standby that has one of them, also while no
        // such standby is connected.
        if self.standbys > 0 && self.synchronous.is_empty() && !never_promoted {
            reasons.push(format!(
                "asynchronous standbys ({}) follow it, and one that lags may take over without the \
                 last commits that were acknowledged; name synchronous standbys in \
                 synchronous_standby_names, or promise with async_standbys=never_promoted in the \
                 URL that none of them is promoted",
                self.standbys
            ));
        }
        reasons
    }
}

#[cfg(test)]
pub(crate) mod tests;
