//! An issuer to try tokens with: keys that sign, and a server that tells them.

pub(crate) mod server;
pub(crate) mod signer;
