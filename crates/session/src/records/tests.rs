//! The memory of records: what is a hint, and what is current.

mod currency;
mod hints;
mod interleaved;
mod whole;
