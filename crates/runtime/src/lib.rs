//! What every part of the process that does something by itself needs: tasks that outlive their
//! callers, the time of day, counters, and connections within the machine.
//!
//! Nothing here knows what the tasks do or what is counted.

mod clock;
mod loopback;
mod metric_counter;
mod tasks;

pub use clock::{Clock, Moment, SetClock, SystemClock};
pub use loopback::unpace;
pub use metric_counter::MetricCounter;
pub use tasks::Tasks;
