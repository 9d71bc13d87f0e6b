//! STS requests, which return temporary credentials. They share the endpoint of S3.
//!
//! `AssumeRole` and `GetCallerIdentity` are signed. `AssumeRoleWithWebIdentity` is not: its token
//! is the proof. For example, a pod sends the token of its service account and gets an access key,
//! a secret and a session token.

use std::time::Duration;

use http::request::Parts;
use http::{HeaderValue, StatusCode};
use identity::{AcceptedSignatures, Authenticated, Identity, WebSession};
use s3::auth::{Credentials, RequestHead};
use s3::request::Query;
use s3::sts::{
    AssumeRole, AssumeRoleWithWebIdentity, STS_BYTES_MAX, StsRequest, WebIdentityUser,
    assumed_role, assumed_role_with_web_identity, caller_identity, refusal,
};
use s3::{Code, Fault};
use sha2::{Digest, Sha256};
use tokio::time::timeout;

use super::Gateway;
use crate::holder::holder;
use crate::http::{HttpBody, RequestContext, Served};
use crate::place::Place;
use crate::receive::Frames;
use crate::response::S3Response;
use crate::translate;
use crate::unknown_senders::SenderMemory;

/// The time limit for the arrival of the body, which is a small form.
const STS_BODY_WAIT: Duration = Duration::from_secs(5);

/// Bytes of memory for each byte of a request with a token: one for the token, one for the values
/// parsed from it.
const TOKEN_MEMORY: u64 = 2;

/// The longest wait of a request with a token for memory.
const TOKEN_MEMORY_WAIT: Duration = Duration::from_secs(5);

const HASH: &str = "x-amz-content-sha256";

impl Gateway {
    /// Serves an STS request. Returns errors in the XML format of STS.
    pub(super) async fn serve_sts(
        &self,
        head: &Parts,
        request: &RequestHead<'_>,
        query: &Query,
        body: HttpBody,
        served: &mut Served,
    ) -> Result<S3Response, Fault> {
        served.operation = "Sts";
        let id = RequestContext::of(head).id.0;
        match self.answer_sts(head, request, query, body, served, &id).await {
            Ok(document) => Ok(S3Response::xml(StatusCode::OK, document)),
            Err(fault) => {
                served.code = Some(fault.code.as_str());
                Ok(S3Response::xml(fault.status(), refusal(&fault, &id)))
            }
        }
    }

    async fn answer_sts(
        &self,
        head: &Parts,
        request: &RequestHead<'_>,
        query: &Query,
        body: HttpBody,
        served: &mut Served,
        id: &str,
    ) -> Result<String, Fault> {
        let place = head.extensions.get();
        let client = holder(head.extensions.get().copied(), None);
        let mut memory = self.unknown_senders.memory(client);
        let bytes = Place::without(place, self.small_body(body, &mut memory)).await??;
        let text = std::str::from_utf8(&bytes).map_err(|_| Code::ValidationError)?;
        let sent = Query::parse(text)?;
        // A GET has its parameters in the query, a POST usually in the body.
        let parameters = if query.has("Action") { query } else { &sent };
        let identity = if StsRequest::is_unsigned(parameters) {
            None
        } else {
            let authenticated = self.authenticate_sts(head, request, &bytes)?;
            served.set_sender(&authenticated);
            Some(authenticated.identity.ok_or(Code::AccessDenied)?)
        };
        match (StsRequest::parse(parameters)?, identity) {
            (StsRequest::AssumeRoleWithWebIdentity(requested), _) => {
                // The gateway may have to fetch the issuer's keys, and holds the token for this
                // time.
                let holder = holder(head.extensions.get().copied(), None);
                let needed = TOKEN_MEMORY * bytes.len() as u64;
                // Both waits depend on others: on the memory of other clients, and on the issuer.
                let answered = async {
                    let memory = self.tokens.acquire_for(&holder, needed, TOKEN_MEMORY_WAIT).await;
                    let _memory = memory.map_err(translate::fault)?;
                    self.assume_role_with_web_identity(&requested, id).await
                };
                Place::without(place, answered).await?
            }
            (_, None) => Err(Code::AccessDenied.into()),
            (StsRequest::GetCallerIdentity, Some(identity)) => {
                let arn = self.access.principal(Some(&identity)).sender_arn().unwrap_or_default();
                let account = identity.account.to_string();
                Ok(caller_identity(&arn, &identity.user_id(), &account, id))
            }
            (StsRequest::AssumeRole(requested), Some(identity)) => {
                self.assume_role(&identity, &requested, id)
            }
        }
    }

    /// Verifies the signature of an STS request and returns its sender, who may be anonymous. The
    /// hash for the signature is computed from the body, because STS requests, unlike those of S3,
    /// need no hash header.
    fn authenticate_sts(
        &self,
        head: &Parts,
        request: &RequestHead<'_>,
        body: &[u8],
    ) -> Result<Authenticated, Fault> {
        let mut headers = head.headers.clone();
        let hash = hex::encode(Sha256::digest(body));
        let claimed = headers.get(HASH);
        // The computed hash replaces the header below, so a wrong claim must be refused here.
        if claimed.is_some_and(|claimed| claimed.as_bytes() != hash.as_bytes()) {
            return Err(Code::XAmzContentSHA256Mismatch.into());
        }
        let hash = HeaderValue::from_str(&hash).map_err(|_| Code::InternalError)?;
        headers.insert(HASH, hash);
        let request = RequestHead { headers: &headers, ..*request };
        let credentials = Credentials::parse(&request)?;
        let now = translate::time(self.volume.now());
        let accepted = AcceptedSignatures::sigv4(&self.settings.region, "sts", now);
        self.access.authenticate(&credentials, &request, &accepted)
    }

    fn assume_role(
        &self,
        identity: &Identity,
        requested: &AssumeRole,
        id: &str,
    ) -> Result<String, Fault> {
        let now = translate::time(self.volume.now());
        let credentials = self.access.assume_role(identity, requested, now)?;
        let (account, role) = (identity.account, &identity.access_key);
        let arn = format!("arn:aws:sts::{account}:assumed-role/{role}/{}", requested.session);
        let session = format!("{role}:{}", requested.session);
        Ok(assumed_role(&credentials, &arn, &session, id))
    }

    /// Returns temporary credentials for the holder of a token of an OpenID issuer.
    async fn assume_role_with_web_identity(
        &self,
        requested: &AssumeRoleWithWebIdentity,
        id: &str,
    ) -> Result<String, Fault> {
        let now = translate::time(self.volume.now());
        let begun = self.access.assume_role_with_web_identity(requested, now).await?;
        let WebSession { credentials, role, claims } = begun;
        let (account, role_name, name) = (role.account, &role.name, &requested.session.session);
        let arn = format!("arn:aws:sts::{account}:assumed-role/{role_name}/{name}");
        let session = format!("{role_name}:{name}");
        let user = WebIdentityUser {
            subject: claims.subject(),
            audience: claims.audience(),
            provider: role.issuer.url(),
        };
        Ok(assumed_role_with_web_identity(&credentials, (&arn, &session), user, id))
    }

    /// Receives a small form body. The sender is not known yet, so the limits of size and time are
    /// low.
    async fn small_body(
        &self,
        body: HttpBody,
        memory: &mut SenderMemory<'_>,
    ) -> Result<Vec<u8>, Fault> {
        let patience = self.settings.body_patience.min(STS_BODY_WAIT);
        let mut frames = Frames::new(body, patience);
        let mut bytes = Vec::new();
        let arrives = async {
            while let Some(frame) = frames.next().await? {
                // The limit is checked before the copy, so an unknown sender cannot use more
                // memory.
                if bytes.len() + frame.len() > STS_BYTES_MAX {
                    return Err(Fault::too_long(STS_BYTES_MAX));
                }
                memory.grow((bytes.len() + frame.len()) as u64).await?;
                bytes.extend_from_slice(&frame);
            }
            Ok(())
        };
        timeout(patience, arrives).await.map_err(|_late| Code::RequestTimeout)??;
        Ok(bytes)
    }
}
