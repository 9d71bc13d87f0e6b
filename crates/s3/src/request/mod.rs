//! What each operation asks for, parsed once from query, headers and body.
//!
//! A request is a plain value; whoever holds one need not look at the wire again. What S3 knows
//! and we do not serve is refused here, never ignored: a client that asked for encryption or a
//! lock must not believe that it got one.

mod fields;
mod query;

pub use fields::Fields;
pub use query::Query;
