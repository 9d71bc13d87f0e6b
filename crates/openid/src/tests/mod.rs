//! A test issuer: keys that sign tokens, and a server that publishes them.

pub(crate) mod server;
pub(crate) mod signer;
