//! The gateway: authenticates each request, checks its permissions, and starts its operation.
//!
//! The order of the steps is fixed. [`Gateway::handle`] parses the request, verifies its signature,
//! reads the rules of its bucket, and checks permissions. The operation runs last. STS requests and
//! HTML forms have other credentials, so they branch off before the signature is verified.
//!
//! For example, a POST form carries its credentials in its fields. The gateway reads the fields
//! first and then handles the file as the body of a PUT.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use content::ByteBudget;
use http::header::{CONTENT_TYPE, ORIGIN};
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri, Version};
use identity::{AcceptedSignatures, Access, Authenticated, RequestOrigin, Sender};
use rules::{BucketRules, RulesCache};
use s3::auth::{Credentials, FormCredentials, RequestHead};
use s3::cors::{CorsHeaders, Preflight};
use s3::operation::{Demand, Permission, route};
use s3::request::PostObject;
use s3::request::{Fields, Query};
use s3::{BucketName, Code, Fault, Operation, S3Resource};
use volume::Volume;

use crate::browser;
use crate::call::{Call, RequestHost, no_such_bucket, reveals_absence};
use crate::documents::DocumentBudgets;
use crate::finish::refuse;
use crate::form;
use crate::holder::holder;
use crate::http::{
    ExpectedBucket, HttpBody, InMemory, RequestContext, Served, Serving, empty_body,
};
use crate::operations;
use crate::place::Place;
use crate::response::S3Response;
use crate::sending::OutgoingBodies;
use crate::settings::{
    ANONYMOUS_BYTES_MAX, BEGINNINGS_BYTES_MAX, DOCUMENT_BYTES_MAX, Settings, TOKENS_BYTES_MAX,
};
use crate::translate;
use crate::unknown_senders::UnknownSenders;

/// The S3 view of a volume.
#[derive(Debug)]
pub struct Gateway {
    volume: Arc<Volume>,
    access: Arc<Access>,
    settings: Settings,
    rules: Arc<RulesCache>,
    sending: Arc<OutgoingBodies>,
    /// Memory for incoming XML documents and for the values parsed from them.
    documents: DocumentBudgets,
    /// As `documents`, for senders that are anonymous or not authenticated yet.
    anonymous_documents: DocumentBudgets,
    /// The memory for what clients send before the gateway knows them.
    unknown_senders: UnknownSenders,
    /// Memory for the tokens of web identities, and for the values parsed from them.
    tokens: ByteBudget,
}

/// A parsed request with its sender: the input of `carry_out`.
struct ParsedRequest<'a> {
    operation: Operation,
    resource: &'a S3Resource,
    query: &'a Query,
    /// The headers of the operation. For a form: its fields, as headers.
    headers: &'a HeaderMap,
    authenticated: &'a Authenticated,
    host: &'a RequestHost<'a>,
    form: Option<&'a PostObject>,
    /// The rules of the bucket; `None` if the request names no bucket or creates one.
    rules: Option<Arc<BucketRules>>,
}

impl Gateway {
    /// Returns a gateway to a volume. `access` decides which clients it admits.
    pub fn new(volume: Arc<Volume>, access: Arc<Access>, settings: Settings) -> Arc<Gateway> {
        let sending = OutgoingBodies::over(&volume);
        let documents = DocumentBudgets::new(BEGINNINGS_BYTES_MAX, DOCUMENT_BYTES_MAX);
        let anonymous_documents = DocumentBudgets::new(ANONYMOUS_BYTES_MAX, ANONYMOUS_BYTES_MAX);
        let tokens = ByteBudget::with_fixed_shares(TOKENS_BYTES_MAX);
        Arc::new(Gateway {
            volume,
            access,
            settings,
            rules: Arc::new(RulesCache::new()),
            sending,
            documents,
            anonymous_documents,
            unknown_senders: UnknownSenders::new(),
            tokens,
        })
    }

    /// Returns the cache of the rules of buckets. Other parts of the process, such as lifecycle
    /// passes, share it, so that its memory is used once.
    pub fn rules(&self) -> Arc<RulesCache> {
        Arc::clone(&self.rules)
    }

    pub(crate) fn volume(&self) -> &Arc<Volume> {
        &self.volume
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the rules of a bucket: its settings and configurations. Faults: `NoSuchBucket`;
    /// `InternalError` if a configuration of the bucket cannot be parsed.
    pub(crate) async fn bucket_rules(&self, name: &BucketName) -> Result<Arc<BucketRules>, Fault> {
        let rules = self.rules.get(&self.volume, name).await;
        rules.map_err(|error| translate::rules_fault(name, error))
    }

    /// Responds to a request. A failure is a response too, with an error code and an XML document.
    ///
    /// A view of this process that has authenticated the sender itself adds the [`Authenticated`]
    /// as an extension of the request. Its signature is then not looked for; all other checks are
    /// the same.
    ///
    /// If the future is dropped before it ends, the facts about the request go to the
    /// [`Abandoned`](crate::Abandoned) among its extensions.
    ///
    /// If the body is not read to its end, it is dropped, and the caller must close the connection.
    /// The caller passes each response, also its own, through [`finish()`](crate::finish()).
    pub async fn handle(&self, request: Request<HttpBody>) -> Response<HttpBody> {
        let (mut head, body) = request.into_parts();
        // Boxed, so that the future of each request is smaller.
        let mut serving = Box::new(Serving::new(head.extensions.remove()));
        let served = serving.facts();
        let outcome = self.serve(&head, body, served).await;
        let mut response = match outcome {
            Ok(answer) => answer.into_response(),
            Err(fault) => {
                served.code = Some(fault.code.as_str());
                refuse(&RequestContext::of(&head), &fault)
            }
        };
        // The version that the operation used, not the one that the client wrote.
        if let Some(version) = response.headers().get("x-amz-version-id") {
            served.version_id = version.to_str().ok().map(str::to_owned);
        }
        // Refusals get CORS headers as well. Otherwise a browser hides the error from the page.
        self.add_cors(&head, served, &mut response).await;
        // A refusal of a HEAD has a document too, which HTTP does not allow in the response.
        if head.method == Method::HEAD || response.status() == StatusCode::NOT_MODIFIED {
            *response.body_mut() = empty_body();
            response.extensions_mut().insert(InMemory);
        }
        response.extensions_mut().insert(serving.finished());
        response
    }

    /// Returns the facts about a request that is refused before it is handled: the operation, the
    /// bucket and the key that its head names. `headers` need only have `Host` and the source of a
    /// copy. The operation is `Unserved` if the head names none.
    pub fn claimed(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Served {
        let mut served = Served { operation: "Unserved", ..Served::default() };
        let (path, query) = (uri.path(), uri.query().unwrap_or_default());
        let authority = uri.authority().map(http::uri::Authority::as_str);
        let request = RequestHead { method, path, query, headers, authority, host_bucket: None };
        let Ok(name) = request.host() else { return served };
        let name = name.map(String::from_utf8_lossy);
        let resource = S3Resource::parse(name.as_deref(), path, &self.settings.domains);
        let (Ok(resource), Ok(query)) = (resource, Query::parse(query)) else { return served };
        served.set_resource(&resource);
        served.version_id = query.get("versionId").ok().flatten().map(str::to_owned);
        if let Ok(operation) = route(method, &resource, &query, Fields::new(headers, &[])) {
            served.set_operation(operation);
        }
        served
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
        let name = request.host()?.map(String::from_utf8_lossy);
        let resource = S3Resource::parse(name.as_deref(), path, &self.settings.domains)?;
        served.set_resource(&resource);
        // The host name contains the bucket if and only if the path alone gives another resource.
        let names_bucket = !self.settings.domains.is_empty()
            && S3Resource::parse(None, path, &[]).ok().as_ref() != Some(&resource);
        request.host_bucket =
            resource.bucket().filter(|_| names_bucket).map(s3::BucketName::as_str);
        let host = RequestHost { name, names_bucket };
        let query = Query::parse(raw_query)?;
        served.version_id = query.get("versionId").ok().flatten().map(str::to_owned);
        // The operation decides if the body may be chunked and if a signature is needed. The
        // operation in turn depends on headers, and headers in a presigned URL count only after the
        // signature is verified. Until then the gateway uses the operation that the plain headers
        // claim.
        let claimed = route(&head.method, &resource, &query, Fields::new(&head.headers, &[]));
        if let Ok(operation) = &claimed {
            served.set_operation(*operation);
        }
        if let Some(redirection) = self.redirection(head, &resource) {
            return Ok(redirection);
        }
        if resource == S3Resource::Service && is_sts_request(head, &query) {
            // Boxed, so that other requests do not reserve memory for this future.
            return Box::pin(self.serve_sts(head, &request, &query, body, served)).await;
        }
        if matches!(claimed, Ok(Operation::PostObject)) {
            return Box::pin(self.serve_form(head, &request, &resource, &host, body, served)).await;
        }
        let authenticated = match head.extensions.get::<Authenticated>() {
            // Another view of this process has authenticated the sender, for example by the cookie
            // of a console session. No part of a network request becomes this extension.
            Some(authenticated) => authenticated.clone(),
            None => self.authenticate(&request, claimed.as_ref().ok().copied())?,
        };
        served.set_sender(&authenticated);

        // The signature is verified, so headers in the presigned URL now count, and the operation
        // may change. A request without such headers has the operation that it claimed.
        let fields = Fields::new(&head.headers, authenticated.verified.hoisted());
        let operation = if authenticated.verified.hoisted().is_empty() {
            claimed?
        } else {
            route(&head.method, &resource, &query, fields)?
        };
        served.set_operation(operation);
        if operation == Operation::OptionsObject {
            // An invalid preflight is refused for each kind of resource.
            Preflight::parse(&head.headers)?;
        }
        let is_known = authenticated.identity.is_some();
        let rules = self.rules_of(head, operation, &resource, is_known).await?;
        if let Some(rules) = &rules {
            served.set_rules(rules);
        }
        let demand = operation.demand(&resource, &query, fields)?;
        let parsed = ParsedRequest {
            operation,
            resource: &resource,
            query: &query,
            headers: &head.headers,
            authenticated: &authenticated,
            host: &host,
            form: None,
            rules,
        };
        self.carry_out(head, parsed, &demand, body, served).await
    }

    /// Returns the redirection of a browser that opens the endpoint itself.
    fn redirection(&self, head: &Parts, resource: &S3Resource) -> Option<S3Response> {
        let url = self.settings.console_url.as_ref()?;
        let is_visit = *resource == S3Resource::Service && browser::is_visit(head);
        is_visit.then(|| browser::redirect(url))
    }

    /// Returns the rules of the bucket of a request; `is_known` if an access key has signed it.
    /// `NoSuchBucket` takes precedence over errors in the arguments of the request.
    async fn rules_of(
        &self,
        head: &Parts,
        operation: Operation,
        resource: &S3Resource,
        is_known: bool,
    ) -> Result<Option<Arc<BucketRules>>, Fault> {
        // A bucket that is being created has no rules yet; the policies of the sender decide alone.
        let name = resource.bucket().filter(|_| operation != Operation::CreateBucket);
        let Some(name) = name else { return Ok(None) };
        if matches!(resource, S3Resource::Bucket(_))
            && (head.method == Method::PUT || head.method == Method::DELETE)
            && is_known
        {
            // A change of the bucket itself needs the permissions of the present bucket. The cached
            // records may be those of a bucket that another gateway has just replaced, and this
            // read corrects them. Strangers must not cause reads of the store, so the cached
            // records decide about them.
            let present = self.volume.bucket(name.as_str()).await;
            present.map_err(|error| translate::bucket_fault(name, error))?;
        }
        let rules = self.bucket_rules(name).await?;
        match head.extensions.get() {
            Some(ExpectedBucket(ino)) if rules.ino != *ino => Err(no_such_bucket(name)),
            Some(_) | None => Ok(Some(rules)),
        }
    }

    /// Serves an HTML form upload (POST). The fields contain the credentials and the key, so they
    /// are read first.
    async fn serve_form(
        &self,
        head: &Parts,
        request: &RequestHead<'_>,
        resource: &S3Resource,
        host: &RequestHost<'_>,
        body: HttpBody,
        served: &mut Served,
    ) -> Result<S3Response, Fault> {
        let Some(bucket) = resource.bucket() else { return Err(Code::MethodNotAllowed.into()) };
        // The sender of the fields is not known yet, so the form is read only if the bucket exists.
        served.set_rules(&*self.bucket_rules(bucket).await?);
        let memory = self.unknown_senders.memory(holder(head.extensions.get().copied(), None));
        let fields = form::begin(&head.headers, body, self.settings.body_patience, memory);
        let (form, rest) = Place::without(head.extensions.get(), fields).await??;
        let credentials = FormCredentials::parse(request, &form)?;
        let (key, token) = (credentials.access_key(), credentials.session_token());
        let accepted = self.accepted_signatures(None);
        let identity = self.access.identify(key, token, accepted.now)?;
        let secret = identity.as_ref().map(|identity| identity.secret.expose());
        let form = credentials.verify(secret, bucket, &accepted.rules_for(identity.as_deref()))?;
        if let Some(identity) = &identity {
            identity.note_use(accepted.now);
        }
        let authenticated = Authenticated { verified: form.verified().clone(), identity };
        served.set_sender(&authenticated);
        let post = PostObject::parse(&form)?;
        let resource = S3Resource::Object(bucket.clone(), post.key.clone());
        served.set_resource(&resource);
        let parsed = ParsedRequest {
            operation: Operation::PostObject,
            resource: &resource,
            query: &Query::default(),
            headers: post.headers(),
            authenticated: &authenticated,
            host,
            form: Some(&post),
            // The form may have arrived slowly, so the rules are looked up again.
            rules: Some(self.bucket_rules(bucket).await?),
        };
        let demand = Demand::All(Permission::for_form(&post, bucket));
        let file = rest.into_body(form.lengths());
        self.carry_out(head, parsed, &demand, file, served).await
    }

    /// Carries out a parsed request if its sender has the permissions in `demand`. Writes the facts
    /// for the access log, such as the bytes that arrived, to `served`.
    async fn carry_out(
        &self,
        head: &Parts,
        parsed: ParsedRequest<'_>,
        demand: &Demand,
        body: HttpBody,
        served: &mut Served,
    ) -> Result<S3Response, Fault> {
        let ParsedRequest { operation, resource, query, headers, authenticated, host, form, rules } =
            parsed;
        let origin = RequestOrigin {
            headers: &head.headers,
            client: head.extensions.get().copied(),
            now: translate::time(self.volume.now()),
        };
        let sender = Sender::new(&self.access, &self.volume, authenticated, origin);
        let is_anonymous = sender.identity.is_none();
        let bytes_in = AtomicU64::new(0);
        if operation == Operation::DeleteObjects {
            served.deleted = Some(Arc::default());
        }
        let call = Call {
            volume: &self.volume,
            sender: &sender,
            rules,
            all_rules: &self.rules,
            settings: &self.settings,
            sending: &self.sending,
            // Requests without a signature must not use up the memory of signed requests.
            documents: if is_anonymous { &self.anonymous_documents } else { &self.documents },
            place: head.extensions.get(),
            operation,
            resource,
            query,
            // The file part of a form has no length of its own: it ends at the boundary. HTTP/2
            // does not require a length.
            version: if form.is_some() { Version::HTTP_2 } else { head.version },
            headers,
            host,
            demanded: demand,
            form,
            bytes_in: &bytes_in,
            deleted: served.deleted.as_deref(),
        };
        // This check needs no object, so it comes before the permissions, which may need a lookup.
        call.check_owners()?;
        match demand {
            Demand::All(permissions) => call.require_permissions(permissions).await?,
            Demand::WithBody(permissions) => {
                call.require_permissions_before_body(permissions).await?;
            }
            Demand::WithUpload(permissions) => {
                call.require_permissions_for_upload(permissions).await?;
            }
            // The body decides which permissions are needed. If the bucket admits only its owner's
            // account, an unsigned request fails in any case, so its body is not read.
            Demand::FromBody if call.is_anonymous_in_private_bucket() => {
                return Err(Code::AccessDenied.into());
            }
            Demand::FromBody | Demand::Nothing => {}
        }
        let answer = operations::carry_out(&call, body).await;
        let answer = match answer {
            // A copy hides a missing source itself, and it names no other object that could be
            // missing.
            Err(fault) if !operation.copies() && reveals_absence(&fault) => {
                match resource.bucket() {
                    Some(bucket) => Err(call.hide_absence(bucket, fault).await),
                    None => Err(fault),
                }
            }
            answer => answer,
        };
        let answer = answer.map_err(|fault| call.with_elements(fault));
        served.bytes_in = bytes_in.into_inner();
        answer
    }

    /// Adds the CORS headers of the bucket to a response, also to a refusal.
    async fn add_cors(&self, head: &Parts, served: &Served, response: &mut Response<HttpBody>) {
        let (Some(origin), Some(name)) = (head.headers.get(ORIGIN), &served.bucket) else { return };
        // The preflight operation has set its CORS headers already.
        if head.method == Method::OPTIONS {
            return;
        }
        let Ok(name) = BucketName::parse(name) else { return };
        let Ok(rules) = self.bucket_rules(&name).await else { return };
        let headers =
            rules.cors.as_ref().and_then(|cors| cors.response_headers(origin, &head.method));
        for (name, value) in headers.map(CorsHeaders::into_inner).unwrap_or_default() {
            response.headers_mut().insert(name, value);
        }
    }

    /// Returns the signatures that the gateway accepts: the region, the time, and the signature
    /// versions. `claimed` is the operation according to the plain headers.
    fn accepted_signatures(&self, claimed: Option<Operation>) -> AcceptedSignatures<'_> {
        AcceptedSignatures {
            sigv2_presign: self.settings.sigv2_presign,
            accepts_aws_chunked: claimed.is_some_and(Operation::accepts_aws_chunked),
            ..AcceptedSignatures::sigv4(
                &self.settings.region,
                "s3",
                translate::time(self.volume.now()),
            )
        }
    }

    /// Verifies the signature of a request. `claimed` is the operation according to the plain
    /// headers.
    fn authenticate(
        &self,
        request: &RequestHead<'_>,
        claimed: Option<Operation>,
    ) -> Result<Authenticated, Fault> {
        // An operation that needs no signature ignores one, because it may belong to another
        // request. For example, a browser sends a preflight to the presigned URL of the request
        // that follows it. The client is anonymous then.
        let credentials = match claimed {
            Some(operation) if operation.needs_no_permission() => Credentials::Anonymous,
            Some(_) | None => Credentials::parse(request)?,
        };
        self.access.authenticate(&credentials, request, &self.accepted_signatures(claimed))
    }
}

/// Returns true if a request on the service is an STS request: it has a form body or an `Action`
/// parameter.
fn is_sts_request(head: &Parts, query: &Query) -> bool {
    let form = head
        .headers
        .get(CONTENT_TYPE)
        .is_some_and(|value| value.as_bytes().starts_with(b"application/x-www-form-urlencoded"));
    let names_action = query.has("Action");
    match head.method {
        Method::POST => form || names_action,
        Method::GET => names_action,
        _ => false,
    }
}

mod sts;
#[cfg(test)]
mod tests;
