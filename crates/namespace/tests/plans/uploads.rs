//! uploads
