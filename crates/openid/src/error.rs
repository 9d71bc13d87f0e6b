//! Why a token does not count, and why an issuer cannot be used.

/// Why a token does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// It is longer than any that is looked at.
    #[error("the token is too long")]
    TooLong,
    /// It is not three parts of base64, with JSON in the first two. `alg` is `none`, or unknown.
    #[error("the token is not a signed JSON web token")]
    Malformed,
    /// It is signed with a secret that its issuer shares, or it demands what is not known here.
    #[error("the token is not signed with an algorithm of public keys")]
    Algorithm,
    /// A claim that it must have is missing, or is not what it must be.
    #[error("the claim {0:?} of the token is missing or malformed")]
    Claim(&'static str),
    /// Another issuer made it.
    #[error("the token is of another issuer")]
    Issuer,
    /// It is meant for others.
    #[error("the token is for another audience")]
    Audience,
    /// Its time is over. Both in seconds since 1970.
    #[error("the token has expired")]
    Expired {
        /// The time now.
        now: i64,
        /// When it expired.
        expired: i64,
    },
    /// Its time has not come.
    #[error("the token is not valid yet")]
    NotYet,
    /// Its issuer has no such key.
    #[error("the issuer has no key that the token can have been signed with")]
    UnknownKey,
    /// The signature is not that of the key.
    #[error("the signature of the token is wrong")]
    Signature,
    /// The issuer's keys are not known, because it does not tell them.
    #[error("the issuer does not tell its keys")]
    Unreachable,
    /// As many wait for the issuer as may.
    #[error("too many requests wait for the issuer")]
    Busy,
}

/// Why an issuer cannot be used, in a sentence for the operator.
#[derive(Debug, thiserror::Error)]
pub enum IssuerError {
    /// Its URL makes no sense.
    #[error("{0}")]
    Url(&'static str),
    /// The certificates that it is to be known by cannot be used.
    #[error("{0}")]
    Certificates(String),
}
