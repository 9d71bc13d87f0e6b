//! Times as text in JSON documents.

use record::Timestamp;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Returns a time in the form `2026-01-02T03:04:05Z`, in seconds. A time that the calendar does not
/// have is empty.
pub(crate) fn text(at: Timestamp) -> String {
    let seconds = at.0.div_euclid(1_000_000_000);
    let time = OffsetDateTime::from_unix_timestamp(seconds).ok();
    time.and_then(|time| time.format(&Rfc3339).ok()).unwrap_or_default()
}
