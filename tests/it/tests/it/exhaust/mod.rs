//! What one client can use up, and what is left for others then.

mod documents;
mod h2;
mod readers;
