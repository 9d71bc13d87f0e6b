//! What every part of the process that does something by itself needs: tasks that outlive their
//! callers, the time of day, and counters.
//!
//! Nothing here knows what the tasks do or what is counted.

mod clock;
mod count;
mod tasks;

pub use clock::{Clock, Moment, SetClock, SystemClock};
pub use count::Count;
pub use tasks::Tasks;
