//! What every part of the process that does something by itself needs: tasks that outlive their
//! callers, the time of day, counters, and connections within the machine.
//!
//! Nothing here knows what the tasks do or what is counted.

mod clock;
mod count;
mod loopback;
mod tasks;

pub use clock::{Clock, Moment, SetClock, SystemClock};
pub use count::Count;
pub use loopback::unpace;
pub use tasks::Tasks;
