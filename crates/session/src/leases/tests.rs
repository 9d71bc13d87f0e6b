//! Leases of sessions in one process, over links that a test delays, cuts and falsifies.

mod protocol;
mod simulated;
