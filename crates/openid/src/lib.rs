//! Tokens of OpenID issuers: who signed them, with which of its keys, and what they say.
//!
//! An [`Issuer`] is known by its URL, and its keys are fetched from there. A token counts once its
//! issuer, its audience, its times and its signature have been verified, all of them by
//! [`Issuer::verify`]; what an unverified token says decides nothing but which issuer is asked.
//!
//! Whoever sends a token is a stranger until then. So what a token costs has limits: its length, how
//! much of it is read, how often an issuer is asked because of one, how long that takes, how much it may answer, and how many
//! wait for it. What the token's holder may do is not known here.

mod claims;
mod discovery;
mod error;
mod fetch;
mod first_claims;
mod issuer;
mod key_cache;
mod keys;
#[cfg(test)]
mod tests;
mod token;

pub use claims::{ClaimTexts, Claims, LEEWAY};
pub use error::{IssuerError, TokenError};
pub use fetch::{DOCUMENT_BYTES_MAX, FETCH_DEADLINE};
pub use first_claims::AUDIENCES_MAX;
pub use issuer::{Issuer, IssuerSettings};
pub use key_cache::{
    KEYS_AGE_MAX, KEYS_REFRESH_AFTER, REFRESH_INTERVAL_MIN, REFRESH_WAIT_MAX, WAITERS_MAX,
};
pub use keys::KEYS_MAX;
pub use token::{TOKEN_BYTES_MAX, UnverifiedToken};
