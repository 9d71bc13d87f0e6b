//! The record cache: hints and current entries.

mod complete_directories;
mod currency;
mod hints;
mod interleaved;
mod without_xattrs;
