//! The rows of the comparison with MinIO, and the target ratios.

use std::time::Duration;

use load::{Verb, Workload};

/// A row of the comparison with direct MinIO: a workload, and the targets of its ratio.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) verb: Verb,
    pub(super) object_bytes: u64,
    pub(super) clients: usize,
    /// True if each object is read once only, by a gateway with empty caches.
    pub(super) cold: bool,
    pub(super) wanted: Wanted,
}

/// The targets of a ratio, of Ashlar's value to that of the other side.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    /// A smaller ratio is a defect.
    pub(super) must: f64,
    /// From this ratio on the result is good.
    pub(super) goal: f64,
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// All rows in the order of their measurement. Later rows read or delete the objects that earlier
/// rows wrote.
pub(super) const ROWS: [Row; 13] = [
    row("PUT 4 KiB ×16", Verb::Put, 4 * KIB, 16, 2.1, 4.3),
    row("PUT 64 KiB ×16", Verb::Put, 64 * KIB, 16, 1.3, 2.0),
    row("PUT 1 MiB ×16", Verb::Put, MIB, 16, 1.0, 1.3),
    row("PUT 16 MiB ×4", Verb::Put, 16 * MIB, 4, 0.72, 0.85),
    Row { cold: true, ..row("GET 16 MiB cold ×4", Verb::Get, 16 * MIB, 4, 0.6, 0.7) },
    row("GET 16 MiB warm ×4", Verb::Get, 16 * MIB, 4, 1.1, 1.4),
    row("GET 1 MiB warm ×16", Verb::Get, MIB, 16, 1.25, 2.0),
    row("GET 4 KiB warm ×16", Verb::Get, 4 * KIB, 16, 1.7, 2.7),
    row("HEAD ×16", Verb::Head, 4 * KIB, 16, 1.7, 2.5),
    row("LIST 5,000 keys ×8", Verb::List, 4 * KIB, 8, 1.9, 2.8),
    row("mixed 256 KiB ×8", Verb::Mixed, 256 * KIB, 8, 1.45, 1.9),
    row("DELETE ×16", Verb::Delete, 4 * KIB, 16, 2.0, 4.0),
    row("DELETE 1,000 a request ×4", Verb::DeleteBatch, 4 * KIB, 4, 2.0, 5.0),
];

const fn row(
    name: &'static str,
    verb: Verb,
    object_bytes: u64,
    clients: usize,
    must: f64,
    goal: f64,
) -> Row {
    Row { name, verb, object_bytes, clients, cold: false, wanted: Wanted { must, goal } }
}

impl Row {
    pub(super) fn workload(&self, time: Duration) -> Workload {
        Workload::new(self.verb, self.object_bytes, self.clients, time)
    }
}

impl Wanted {
    /// Returns the target that a ratio reaches, as tables print it.
    pub(super) fn verdict(self, ratio: f64) -> &'static str {
        match ratio {
            _ if ratio >= self.goal => "goal",
            _ if ratio >= self.must => "must",
            _ => "**below**",
        }
    }
}
