//! The authentication of a request: its signature, and the identity behind its access key.
//!
//! `s3::auth` parses credentials and computes signatures; it knows no access keys. This module
//! finds the secret of the access key and the identity of its owner. For example, a request with an
//! access key that begins with `ASIA` has a session token; the token has the secret, and the name
//! of the user whose permissions the session has.
//!
//! Invariant: an [`Authenticated`] has an identity only if the signature was made with the secret
//! of this identity.

use std::sync::Arc;

use s3::Fault;
use s3::auth::{Credentials, RequestHead, SignatureRules, Verified};
use time::OffsetDateTime;

use crate::access::{Access, Identity};

/// The signatures that a view accepts.
#[derive(Clone, Copy, Debug)]
pub struct AcceptedSignatures<'a> {
    /// The region that the credential scope must name.
    pub region: &'a str,
    /// The service that the credential scope must name, for example `s3`.
    pub service: &'a str,
    /// True if SigV2 presigned URLs are accepted, for objects only.
    pub sigv2_presign: bool,
    /// True if the operation accepts bodies in chunks with signatures or trailers.
    pub accepts_aws_chunked: bool,
    /// The current time.
    pub now: OffsetDateTime,
}

impl<'a> AcceptedSignatures<'a> {
    /// Returns the rules for views that accept SigV4 signatures alone, and bodies without chunks.
    pub fn sigv4(region: &'a str, service: &'a str, now: OffsetDateTime) -> AcceptedSignatures<'a> {
        AcceptedSignatures {
            region,
            service,
            sigv2_presign: false,
            accepts_aws_chunked: false,
            now,
        }
    }

    /// Returns the rules for the signature of one sender. `identity` is the owner of the access
    /// key; `None` if the key is unknown.
    pub fn rules_for(&self, identity: Option<&Identity>) -> SignatureRules<'a> {
        let AcceptedSignatures { region, service, sigv2_presign, accepts_aws_chunked, now } = *self;
        let has_session = identity.is_some_and(|identity| identity.session.is_some());
        SignatureRules { region, service, has_session, sigv2_presign, accepts_aws_chunked, now }
    }
}

/// A request whose signature is valid, or that has none.
#[derive(Clone, Debug)]
pub struct Authenticated {
    /// The facts of the signature.
    pub verified: Verified,
    /// The owner of the access key; `None` for an anonymous request.
    pub identity: Option<Arc<Identity>>,
}

impl Access {
    /// Returns the identity of an access key, or of a session if a session token came with the key.
    /// Returns `None` for an anonymous request, and for an unknown or expired key. Nothing is
    /// verified yet: the caller checks that the sender knows the secret of the identity.
    ///
    /// Faults: `InvalidToken`; `ExpiredToken`; `AccessDenied` if a policy of a web identity is
    /// missing.
    pub fn identify(
        &self,
        access_key: Option<&str>,
        token: Option<&str>,
        now: OffsetDateTime,
    ) -> Result<Option<Arc<Identity>>, Fault> {
        let Some(access_key) = access_key else { return Ok(None) };
        // Permanent keys are looked up first. A token is opened only for an unknown key.
        let known = self.lookup(access_key, now);
        match token {
            // A token together with a permanent access key is refused when the signature is
            // verified.
            Some(token) if known.is_none() => self.session(access_key, token, now).map(Some),
            Some(_) | None => Ok(known),
        }
    }

    /// Verifies the signature of a request. `credentials` are those of the request, or
    /// `Credentials::Anonymous` if the operation ignores signatures.
    ///
    /// Fails with a fault of [`Access::identify`] or [`Credentials::verify`]. A view with other
    /// error documents than those of S3 uses the HTTP status of the fault.
    pub fn authenticate(
        &self,
        credentials: &Credentials,
        request: &RequestHead<'_>,
        accepted: &AcceptedSignatures<'_>,
    ) -> Result<Authenticated, Fault> {
        let token = credentials.session_token(request)?;
        let identity = self.identify(credentials.access_key(), token, accepted.now)?;
        let secret = identity.as_ref().map(|identity| identity.secret.expose());
        let rules = accepted.rules_for(identity.as_deref());
        let verified = credentials.verify(secret, request, &rules)?;
        if let Some(identity) = &identity {
            identity.note_use(accepted.now);
        }
        Ok(Authenticated { verified, identity })
    }
}

#[cfg(test)]
mod tests;
