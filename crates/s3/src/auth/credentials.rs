//! The credentials of a request, and the function that verifies them.

use http::HeaderMap;

use super::head::{RequestHead, single};
use super::header::HeaderSignature;
use super::kind::AuthKind;
use super::payload::PayloadMode;
use super::presigned::{self, PresignedV4};
use super::signature_rules::SignatureRules;
use super::token::SESSION_TOKEN;
use super::uri::Parameters;
use super::v2::{self, PresignedV2};
use super::verified::Verified;
use crate::{Code, Fault};

/// The credentials of a request: an access key and a signature, parsed and not yet verified.
#[derive(Clone, Debug)]
pub enum Credentials {
    /// The request has no credentials.
    Anonymous,
    /// A SigV4 `Authorization` header.
    Header(HeaderSignature),
    /// A SigV4 presigned URL.
    Query(PresignedV4),
    /// A SigV2 presigned URL.
    QueryV2(PresignedV2),
}

impl Credentials {
    /// Parses the credentials of a request.
    ///
    /// Fails with `InvalidArgument` for two kinds of credentials at once, for a repeated header,
    /// and for an unknown scheme; `InvalidRequest` for SigV2 headers;
    /// `AuthorizationHeaderMalformed`, `AuthorizationQueryParametersError` or `AccessDenied` for
    /// malformed credentials; or `InvalidURI`.
    pub fn parse(request: &RequestHead<'_>) -> Result<Credentials, Fault> {
        // A repeated header is refused before the credentials are read: two readers of the request
        // could use different values of it.
        request.host()?;
        let authorization = single(request.headers, "authorization")?;
        single(request.headers, "x-amz-date")?;
        single(request.headers, "x-amz-content-sha256")?;
        let parameters = Parameters::parse(request.query)?;
        let v4 = presigned::is_present(&parameters);
        let v2 = v2::is_present(&parameters);
        // Exactly one kind of credentials is accepted, as in S3.
        match (authorization, v4, v2) {
            (None, false, false) => Ok(Credentials::Anonymous),
            (Some(value), false, false) => {
                HeaderSignature::parse(value, request.headers).map(Credentials::Header)
            }
            (None, true, false) => PresignedV4::parse(&parameters).map(Credentials::Query),
            (None, false, true) => PresignedV2::parse(&parameters).map(Credentials::QueryV2),
            _ => Err(Fault::because(
                Code::InvalidArgument,
                "Only one auth mechanism allowed; only the X-Amz-Algorithm query parameter, \
                 Signature query string parameter or the Authorization header should be specified",
            )
            .with("ArgumentName", "Authorization")),
        }
    }

    /// Returns the kind of the credentials, for example a SigV4 header or a presigned URL.
    pub fn kind(&self) -> AuthKind {
        match self {
            Credentials::Anonymous => AuthKind::Anonymous,
            Credentials::Header(_) => AuthKind::Header,
            Credentials::Query(_) => AuthKind::Query,
            Credentials::QueryV2(_) => AuthKind::QueryV2,
        }
    }

    /// Returns the access key whose secret [`verify`](Self::verify) needs. It is not verified yet.
    pub fn access_key(&self) -> Option<&str> {
        match self {
            Credentials::Anonymous => None,
            Credentials::Header(signature) => Some(signature.access_key()),
            Credentials::Query(signature) => Some(signature.access_key()),
            Credentials::QueryV2(signature) => Some(signature.access_key()),
        }
    }

    /// Returns the token of temporary credentials in the query or in a header; `None` if the
    /// request has none.
    ///
    /// Fails with `InvalidToken` if the token is repeated or is not text.
    pub fn session_token<'a>(
        &'a self,
        request: &RequestHead<'a>,
    ) -> Result<Option<&'a str>, Fault> {
        let queried = match self {
            Credentials::Anonymous | Credentials::Header(_) => None,
            Credentials::Query(signature) => signature.token.as_deref(),
            Credentials::QueryV2(signature) => signature.token(),
        };
        let mut sent = request.headers.get_all(SESSION_TOKEN).into_iter();
        // A token in both places is refused even if both are equal.
        match (queried, sent.next(), sent.next()) {
            (Some(token), None, _) => Ok(Some(token)),
            (None, None, _) => Ok(None),
            (None, Some(token), None) => match std::str::from_utf8(token.as_bytes()) {
                Ok(token) => Ok(Some(token)),
                Err(_) => Err(Code::InvalidToken.into()),
            },
            _ => Err(Code::InvalidToken.into()),
        }
    }

    /// Verifies that the holder of the access key signed this request, and returns the verified
    /// sender. `secret` is the secret of [`access_key`](Self::access_key). If this key does not
    /// exist or is disabled, pass `None`: the function then does the same work, so that its
    /// duration does not reveal which keys exist, and fails with `InvalidAccessKeyId`.
    ///
    /// SigV4 fails, in the order of the checks, with the faults of [`PayloadMode::choose`];
    /// `AuthorizationHeaderMalformed` or `AuthorizationQueryParametersError` (scope);
    /// `RequestTimeTooSkewed`, or `AccessDenied` for a URL that is expired or not valid yet;
    /// `AccessDenied` for headers that are not signed; `InvalidAccessKeyId`; `InvalidToken`;
    /// `SignatureDoesNotMatch`; `XAmzContentSHA256Mismatch` for an empty body with another hash.
    ///
    /// SigV2 fails with the faults of [`PayloadMode::choose`]; `InvalidRequest` if it is disabled;
    /// `AccessDenied` if the request is not about an object, the URL is expired, or a header
    /// differs from the URL; `InvalidAccessKeyId`; `SignatureDoesNotMatch`; `InvalidToken`.
    pub fn verify(
        &self,
        secret: Option<&str>,
        request: &RequestHead<'_>,
        rules: &SignatureRules<'_>,
    ) -> Result<Verified, Fault> {
        let header = content_sha256(request.headers)?;
        let choose = |value| PayloadMode::choose(value, self.kind(), rules.accepts_aws_chunked);
        match self {
            Credentials::Anonymous => Ok(Verified {
                access_key: None,
                kind: AuthKind::Anonymous,
                payload: choose(header)?,
                seed: None,
                hoisted: Vec::new(),
                signed_at: None,
            }),
            Credentials::Header(signature) => {
                signature.verify(secret, request, rules, choose(header)?, header)
            }
            // A presigned URL can have the body hash as a parameter, and the client can also send
            // the header.
            Credentials::Query(signature) => {
                let value = single_content_sha256(signature.content_sha256.as_deref(), header)?;
                signature.verify(secret, request, rules, choose(value)?, value)
            }
            Credentials::QueryV2(signature) => {
                let value = single_content_sha256(signature.content_sha256(), header)?;
                signature.verify(secret, request, rules, choose(value)?)
            }
        }
    }
}

/// Returns the value of the header `x-amz-content-sha256`.
fn content_sha256(headers: &HeaderMap) -> Result<Option<&str>, Fault> {
    let value = single(headers, "x-amz-content-sha256")?;
    value
        .map(std::str::from_utf8)
        .transpose()
        .map_err(|_| Fault::because(Code::InvalidRequest, "x-amz-content-sha256 is not text."))
}

/// Returns the SHA-256 of the body, or its replacement, from the query or the headers. If both have
/// one, they must be equal.
fn single_content_sha256<'a>(
    query: Option<&'a str>,
    header: Option<&'a str>,
) -> Result<Option<&'a str>, Fault> {
    match (query, header) {
        // The parameter is signed and the header may not be, so a different header must not replace
        // it.
        (Some(query), Some(header)) if query != header => {
            let why = "x-amz-content-sha256 differs between the query and the headers.";
            Err(Fault::because(Code::InvalidRequest, why))
        }
        _ => Ok(query.or(header)),
    }
}
