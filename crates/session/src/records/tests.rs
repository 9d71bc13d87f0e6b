//! The memory of records: what is a hint, and what is current.

mod bare;
mod currency;
mod hints;
mod interleaved;
mod whole;
