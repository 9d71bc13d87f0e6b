//! The file system as a service: what the views of a volume share.

pub mod content;
mod error;
mod tasks;

pub use error::VolumeError;
pub use tasks::Tasks;
