//! The memory of records: what is a hint, and what is current.

mod complete_directories;
mod currency;
mod hints;
mod interleaved;
mod without_xattrs;
