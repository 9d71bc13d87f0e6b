//! The errors of tokens and issuers.

/// The reason why a token is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// The token is longer than `TOKEN_BYTES_MAX` bytes.
    #[error("the token is too long")]
    TooLong,
    /// The token is not three parts of base64 with JSON in the first two, or `alg` is `none` or
    /// unknown.
    #[error("the token is not a signed JSON web token")]
    Malformed,
    /// The token is signed with a shared secret, or has an extension that is not implemented.
    #[error("the token is not signed with an algorithm of public keys")]
    Algorithm,
    /// A required claim, that is, a member of the JSON in the token, is missing or malformed. The
    /// value is the name of the claim.
    #[error("the claim {0:?} of the token is missing or malformed")]
    Claim(&'static str),
    /// The token names another issuer than the one that verifies it.
    #[error("the token is of another issuer")]
    Issuer,
    /// The token is for another audience, that is, for another service.
    #[error("the token is for another audience")]
    Audience,
    /// The token has expired. Both times are in seconds since 1970.
    #[error("the token has expired")]
    Expired {
        /// The current time of this machine.
        now: i64,
        /// The expiration time in the claim `exp` of the token.
        expired: i64,
    },
    /// The token is not valid yet: its claim `nbf` or `iat` is in the future.
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
    /// The maximum number of requests already waits for the keys of the issuer. The client can try
    /// again later.
    #[error("too many requests wait for the issuer")]
    Busy,
}

/// The reason why the settings of an issuer cannot be used, as a text for the operator.
#[derive(Debug, thiserror::Error)]
pub enum IssuerError {
    /// The URL of the issuer may not be requested. The value is the reason.
    #[error("{0}")]
    Url(&'static str),
    /// The certificates of the authorities that the operator configured cannot be used. The value
    /// is the reason.
    #[error("{0}")]
    Certificates(String),
}
