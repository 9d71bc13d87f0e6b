//! Texts of the process that a mount shows to programs.

use std::fmt;

use futures::future::BoxFuture;
use record::Ino;

/// The extended attribute with the report on a node. It is not listed.
pub const REPORT_ATTRIBUTE: &str = "user.ashlar.info";

/// The process that serves a mount, as the source of texts for programs on the mount.
pub trait Reports: fmt::Debug + Send + Sync + 'static {
    /// Returns the metrics of the process as text, for the file `.ashlar/stats`. Fails if they
    /// cannot be encoded.
    fn metrics(&self) -> Result<String, fmt::Error>;

    /// Returns the report on a node, for the attribute [`REPORT_ATTRIBUTE`], or `None` if it cannot
    /// be made. `here` is the state of the node on this mount.
    fn node(&self, ino: Ino, here: MountState) -> BoxFuture<'_, Option<Vec<u8>>>;
}

/// The state of a file on the mount that makes a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MountState {
    /// Open handles of the file.
    pub open: u64,
    /// True if the file has dirty data.
    pub unwritten: bool,
    /// The size with dirty data, in bytes.
    pub size: u64,
}
