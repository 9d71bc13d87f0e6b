//! The lines of the access log for the begin and the end of a mount.
//!
//! For example, the line of the begin has the folder, the user id of the process that serves the
//! mount, and its name among the sessions of the volume.

use std::path::Path;

use audit::{AuditEntry, AuditLog, EntryKind, Requester, TARGET_BYTES_MAX, shortened};
use record::Timestamp;
use time::OffsetDateTime;

use crate::instance;

/// Records the begin or the end of the mount on a folder.
pub(crate) fn record(log: &AuditLog, kind: EntryKind, folder: &Path, now: Timestamp) {
    if log.is_active() {
        log.record(entry(kind, folder, now));
    }
}

fn entry(kind: EntryKind, folder: &Path, now: Timestamp) -> AuditEntry {
    let session = instance::place();
    let host = session.split_once(':').map(|(host, _)| host.to_owned());
    let uid = rustix::process::getuid().as_raw();
    let user = Some(format!("uid={uid}"));
    AuditEntry {
        time: moment(now),
        kind,
        operation: if kind == EntryKind::MountEnd { "Unmount" } else { "Mount" },
        requester: Some(Requester { user, ..Requester::default() }),
        resources: vec![("session", session)],
        target: shortened(folder.display().to_string(), TARGET_BYTES_MAX),
        host,
        ..AuditEntry::default()
    }
}

/// Returns a timestamp of the store as a time of the log.
pub(crate) fn moment(time: Timestamp) -> OffsetDateTime {
    // Times beyond the year 9999 do not fit, and no clock shows them.
    OffsetDateTime::from_unix_timestamp_nanos(time.0.into()).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}
