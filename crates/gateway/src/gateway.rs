//! The one function that every request passes.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use content::ByteBudget;
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use s3::auth::{Credentials, RequestHead, Terms, Verified};
use s3::operation::{Demand, route};
use s3::request::{Fields, Query};
use s3::{Code, Fault, S3Resource};
use volume::Volume;

use crate::access::{Access, Identity};
use crate::call::Call;
use crate::finish::refuse;
use crate::http::{HttpBody, InMemory, RequestContext, Served, empty_body};
use crate::operations;
use crate::response::S3Response;
use crate::sending::OutgoingBodies;
use crate::settings::{DOCUMENT_BYTES_MAX, Settings};
use crate::translate;

/// The S3 view of a volume.
#[derive(Debug)]
pub struct Gateway {
    volume: Arc<Volume>,
    access: Arc<Access>,
    settings: Settings,
    sending: Arc<OutgoingBodies>,
    /// Memory for XML documents that arrive, and for what is parsed from them.
    documents: ByteBudget,
}

impl Gateway {
    /// A gateway to a volume, for the clients that `access` permits.
    pub fn new(volume: Arc<Volume>, access: Arc<Access>, settings: Settings) -> Arc<Gateway> {
        let sending = OutgoingBodies::over(&volume);
        let documents = ByteBudget::new(DOCUMENT_BYTES_MAX);
        Arc::new(Gateway { volume, access, settings, sending, documents })
    }

    /// Responds to a request. A failure is a response too, with an error code and a document.
    ///
    /// A body that is not read to its end is dropped; the caller must close the connection then.
    /// The caller also passes every response through [`finish()`](crate::finish()), its own
    /// responses included.
    pub async fn handle(&self, request: Request<HttpBody>) -> Response<HttpBody> {
        let (head, body) = request.into_parts();
        let mut served = Served::default();
        let outcome = self.serve(&head, body, &mut served).await;
        let mut response = match outcome {
            Ok(answer) => answer.into_response(),
            Err(fault) => {
                served.code = Some(fault.code.as_str());
                refuse(&RequestContext::of(&head), &fault)
            }
        };
        if head.method == Method::HEAD || response.status() == StatusCode::NOT_MODIFIED {
            *response.body_mut() = empty_body();
            response.extensions_mut().insert(InMemory);
        }
        response.extensions_mut().insert(served);
        response
    }

    async fn serve(
        &self,
        head: &Parts,
        body: HttpBody,
        served: &mut Served,
    ) -> Result<S3Response, Fault> {
        let path = head.uri.path();
        let raw_query = head.uri.query().unwrap_or_default();
        let mut request = RequestHead {
            method: &head.method,
            path,
            query: raw_query,
            headers: &head.headers,
            authority: head.uri.authority().map(http::uri::Authority::as_str),
            host_bucket: None,
        };
        let host = request.host()?.map(|host| String::from_utf8_lossy(host).into_owned());
        let resource = S3Resource::parse(host.as_deref(), path, &self.settings.domains)?;
        served.bucket = resource.bucket().map(ToString::to_string);
        // The host names the bucket if and only if the path alone would mean something else.
        let named_by_host = S3Resource::parse(None, path, &[]).ok().as_ref() != Some(&resource);
        request.host_bucket =
            resource.bucket().filter(|_| named_by_host).map(s3::BucketName::as_str);
        let query = Query::parse(raw_query)?;
        // Whether the body may come in chunks, and whether a signature is needed at all, depends on
        // the operation. The operation depends on headers, and those in a presigned URL count only
        // once the signature is verified. Until then the operation is the one that the plain
        // headers claim.
        let claimed = route(&head.method, &resource, &query, Fields::new(&head.headers, &[])).ok();
        let (verified, identity) = self.authenticate(&request, claimed)?;

        let fields = Fields::new(&head.headers, verified.hoisted());
        let operation = route(&head.method, &resource, &query, fields)?;
        served.operation = operation.name();
        if !self.allows(identity.as_deref(), &operation.demand(&resource, &query, fields)?) {
            return Err(Code::AccessDenied.into());
        }
        let bytes_in = AtomicU64::new(0);
        let call = Call {
            volume: &self.volume,
            access: &self.access,
            settings: &self.settings,
            sending: &self.sending,
            documents: &self.documents,
            operation,
            resource: &resource,
            query: &query,
            version: head.version,
            headers: &head.headers,
            hoisted: verified.hoisted(),
            verified: &verified,
            identity,
            bytes_in: &bytes_in,
        };
        let answer = operations::carry_out(&call, body).await;
        served.bytes_in = bytes_in.into_inner();
        answer
    }

    /// Whether an identity, or an anonymous client, may do what demands this.
    fn allows(&self, identity: Option<&Identity>, demand: &Demand) -> bool {
        match demand {
            Demand::Nothing => true,
            Demand::All(permissions) => {
                permissions.iter().all(|permission| self.access.authorise(identity, permission))
            }
            // The keys are in the body, and each is checked on its own. An anonymous client may
            // delete none, so it is refused before its body is read.
            Demand::EachKey => identity.is_some(),
        }
    }

    /// Verifies the signature of a request. `claimed` is the operation according to the plain
    /// headers.
    fn authenticate(
        &self,
        request: &RequestHead<'_>,
        claimed: Option<s3::Operation>,
    ) -> Result<(Verified, Option<Arc<Identity>>), Fault> {
        // Where no signature is needed, one that is there may belong to another request: a
        // browser's preflight has the presigned URL of the request that it is going to send. The
        // signature is not looked at then, and the client is anonymous.
        let credentials = match claimed {
            Some(operation) if operation.is_open() => Credentials::Anonymous,
            _ => Credentials::parse(request)?,
        };
        let terms = Terms {
            region: &self.settings.region,
            sigv2_presign: self.settings.sigv2_presign,
            may_stream: claimed.is_some_and(s3::Operation::may_stream),
            now: translate::time(self.volume.now()),
        };
        let identity = credentials.access_key().and_then(|key| self.access.lookup(key));
        let secret = identity.as_ref().map(|identity| identity.secret.expose());
        let verified = credentials.verify(secret, request, &terms)?;
        Ok((verified, identity))
    }
}

#[cfg(test)]
mod tests;
