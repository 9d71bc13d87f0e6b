//! Tokens of OpenID issuers: it verifies the issuer, the signature, the audience and the times of a
//! token, and returns its claims.
//!
//! Roles: an [`Issuer`] is identified by its URL, from which its keys are fetched. An
//! [`UnverifiedToken`] is a parsed token. [`Issuer::verify`] checks issuer, audience, times and
//! signature, and returns [`Claims`]. Invariant: the content of an unverified token only selects
//! the issuer to ask. For example, a token with `"iss": "https://idp.example.com"` is verified with
//! the keys of the issuer with this URL, or refused if there is none.
//!
//! A person logs in with a browser by the authorization code flow: [`Issuer::authorization_url`] is
//! the page of the issuer, and [`Issuer::redeem`] exchanges the code with which the browser
//! returns.
//!
//! The sender of a token is not trusted before verification, so the cost of a token has limits: the
//! length of the token, the number of claims that are read, the frequency of requests to the
//! issuer, their duration, the size of the response, and the number of requests that wait for it.
//!
//! The crate does not know the permissions of the token's holder.

mod claims;
mod code;
mod discovery;
mod endpoints;
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
pub use code::{CodeClient, CodeError, CodeRequest, ProviderError};
pub use error::{IssuerError, TokenError};
pub use fetch::{DOCUMENT_BYTES_MAX, FETCH_DEADLINE};
pub use first_claims::AUDIENCES_MAX;
pub use issuer::{Issuer, IssuerSettings};
pub use key_cache::{
    KEYS_AGE_MAX, KEYS_REFRESH_AFTER, REFRESH_INTERVAL_MIN, REFRESH_WAIT_MAX, WAITERS_MAX,
};
pub use keys::KEYS_MAX;
pub use token::{TOKEN_BYTES_MAX, UnverifiedToken};
