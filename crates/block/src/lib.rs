//! Immutable blocks by id.
