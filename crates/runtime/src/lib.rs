//! Services that all background work of the process uses: tasks that outlive their callers, clocks,
//! counters, and an option of local connections.
//!
//! This crate does not know the purpose of tasks and counters. For example, a commit runs as a task
//! of [`Tasks`], so it completes if its client disconnects, and shutdown waits for it.

mod clock;
mod loopback;
mod metrics;
mod tasks;

pub use clock::{Clock, Moment, SetClock, SystemClock};
pub use loopback::disable_pacing;
pub use metrics::{Metered, Metric, MetricCounter, MetricKind};
pub use tasks::Tasks;
