//! Who may do what: access keys, their secrets, and the policies that bind them.

mod secret;

pub use secret::{MasterKey, SealError, Secret};

#[cfg(test)]
mod tests;
