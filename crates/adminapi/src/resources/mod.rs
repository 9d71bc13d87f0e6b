//! The resources of the API, each with its JSON and its functions.
//!
//! A function takes the sender, checks its permission, and returns a value. The HTTP interface and
//! the console call the same functions. For example, `AdminApi::buckets` returns a page of the
//! buckets that the sender may see.

pub mod accounts;
pub mod activity;
pub mod archive;
pub mod associations;
pub mod bucket_documents;
pub mod buckets;
pub mod groups;
pub mod jobs;
pub mod keys;
pub mod live;
pub mod me;
pub mod nodes;
pub mod policies;
pub mod public;
pub mod quota;
pub mod sessions;
pub mod simulation;
pub mod status;
mod times;
pub mod trash;
pub mod users;
