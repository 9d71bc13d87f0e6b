//! The errors of tokens and issuers.

/// The reason why a token is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// The token exceeds the maximum length.
    #[error("the token is too long")]
    TooLong,
    /// The token is not three parts of base64 with JSON in the first two, or `alg` is `none` or
    /// unknown.
    #[error("the token is not a signed JSON web token")]
    Malformed,
    /// The token is signed with a shared secret, or has an extension that is not implemented.
    #[error("the token is not signed with an algorithm of public keys")]
    Algorithm,
    /// A required claim is missing or malformed.
    #[error("the claim {0:?} of the token is missing or malformed")]
    Claim(&'static str),
    /// The token is of another issuer.
    #[error("the token is of another issuer")]
    Issuer,
    /// The token is for another audience.
    #[error("the token is for another audience")]
    Audience,
    /// The token has expired. Both times are in seconds since 1970.
    #[error("the token has expired")]
    Expired {
        /// The current time.
        now: i64,
        /// The expiration time.
        expired: i64,
    },
    /// The token is not valid yet.
    #[error("the token is not valid yet")]
    NotYet,
    /// The issuer has no key with which the token can have been signed.
    #[error("the issuer has no key that the token can have been signed with")]
    UnknownKey,
    /// The signature does not match the key.
    #[error("the signature of the token is wrong")]
    Signature,
    /// The issuer's keys are not known, because the issuer did not return them.
    #[error("the issuer does not return its keys")]
    Unreachable,
    /// The maximum number of requests already waits for the issuer.
    #[error("too many requests wait for the issuer")]
    Busy,
}

/// The reason why an issuer cannot be used, as a text for the operator.
#[derive(Debug, thiserror::Error)]
pub enum IssuerError {
    /// The URL is not valid.
    #[error("{0}")]
    Url(&'static str),
    /// The certificate authorities cannot be used.
    #[error("{0}")]
    Certificates(String),
}
