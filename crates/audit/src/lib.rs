//! The access log of a process, and the activity of its operations.
//!
//! A view makes one [`AuditEntry`] for each request that ends, also for a refused one. [`AuditLog`]
//! writes the entries to a file as lines of JSON or of S3's server access log, and passes them to
//! live subscribers. [`Activity`] keeps rates and latencies of each operation in memory for pages
//! of operators. For example, the line of a DELETE names the access key, the address, the object
//! and the version, so it answers "which key deleted photos/2026?".
//!
//! Invariants: no request waits for the log. If the queue is full or the file cannot be written,
//! the entries are dropped and counted. One entry is one line, whatever bytes its fields have. A
//! line has no secret: signatures, session tokens and customer keys in a query are removed.
//!
//! This crate knows no S3, no HTTP and no volume. The view that makes an entry names the operation
//! and the requester.
//!
//! ```
//! use audit::{AuditEntry, LineFormat};
//!
//! let entry = AuditEntry { operation: "GetObject", status: 200, ..AuditEntry::default() };
//! assert!(LineFormat::Json.line(&entry).contains(r#""operation":"GetObject""#));
//! ```

mod activity;
mod entry;
mod line;
mod log;
mod redact;
mod writer;

pub use activity::{
    Activity, ActivityCounts, ActivitySeries, ActivitySnapshot, OperationActivity, RequestSample,
};
pub use entry::{AuditEntry, EntryKind, Requester, TARGET_BYTES_MAX, TEXT_BYTES_MAX, shortened};
pub use line::LineFormat;
pub use log::{AuditLog, LogSink};
pub use redact::redacted;
