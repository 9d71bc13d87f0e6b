//! Configurations that decide about access to a bucket: policy, object ownership, public access
//! block and CORS, and other configurations that are one document.
//!
//! For example, `PutBucketPolicy` with a public policy fails if the public access block has
//! `BlockPublicPolicy`.

use bytes::Bytes;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use policy::{POLICY_BYTES_MAX, Policy, PolicyError, PolicyKind};
use record::{BucketConfig, BucketConfigKind};
use rules::CONFIG_BYTES_MAX;
use s3::bucket_document::BucketDocument;
use s3::cors::{CorsResource, Preflight};
use s3::operation::Stub;
use s3::request::PublicAccessBlockConfiguration;
use s3::response::{ownership_controls, policy_status, public_access_block};
use s3::xml::XmlLimits;
use s3::{Code, Fault, S3Resource};
use volume::BucketChange;

use super::bucket;
use crate::call::Call;
use crate::http::HttpBody;
use crate::receive::{document, required_document};
use crate::response::S3Response;
use crate::translate;

/// Fails with `MethodNotAllowed` if the sender is not of the bucket owner's account, even if a
/// policy allows it: "if you have the correct permissions, but you're not using an identity that
/// belongs to the bucket owner's account, Amazon S3 returns a 405" (API reference,
/// `GetBucketPolicy`, `PutBucketPolicy`, `DeleteBucketPolicy`).
fn check_owner_account(call: &Call<'_>) -> Result<(), Fault> {
    if call.sender.account() == call.rules()?.settings.owner {
        return Ok(());
    }
    Err(Fault::new(Code::MethodNotAllowed).with("ResourceType", "BUCKETPOLICY"))
}

pub(super) async fn get_policy(call: &Call<'_>) -> Result<S3Response, Fault> {
    check_owner_account(call)?;
    let config = config(call, BucketConfigKind::Policy).await?;
    let config = config.ok_or_else(|| absent(call, Code::NoSuchBucketPolicy))?;
    let mut response = S3Response::bytes(StatusCode::OK, config.bytes);
    response.set(CONTENT_TYPE, "application/json");
    Ok(response)
}

pub(super) async fn put_policy(call: &Call<'_>, body: HttpBody) -> Result<S3Response, Fault> {
    check_owner_account(call)?;
    let document = document(call, body, POLICY_BYTES_MAX).await?;
    let Ok(text) = std::str::from_utf8(&document) else {
        return Err(Fault::new(Code::MalformedPolicy).detail("The policy is not valid UTF-8."));
    };
    let bucket = call.bucket()?;
    let exists = |principal: &_| call.sender.access.exists(principal);
    let kind = PolicyKind::Bucket { bucket: bucket.as_str(), exists: &exists };
    let policy = Policy::parse_new(text, kind).map_err(|error| malformed(&error))?;
    // The block refuses new public policies. An existing one stays; `RestrictPublicBuckets` limits
    // it.
    if policy.is_public() && call.rules()?.public_access().block_public_policy {
        return Err(Code::AccessDenied.into());
    }
    set(call, BucketConfigKind::Policy, Some(Bytes::copy_from_slice(&document))).await
}

pub(super) async fn delete_policy(call: &Call<'_>) -> Result<S3Response, Fault> {
    check_owner_account(call)?;
    remove(call, BucketConfigKind::Policy).await
}

pub(super) async fn get_policy_status(call: &Call<'_>) -> Result<S3Response, Fault> {
    bucket::found(call).await?;
    let policy = call.rules()?.policy.as_ref();
    let policy = policy.ok_or_else(|| absent(call, Code::NoSuchBucketPolicy))?;
    Ok(S3Response::xml(StatusCode::OK, policy_status(policy.is_public())))
}

fn malformed(error: &PolicyError) -> Fault {
    let fault = Fault::because(Code::MalformedPolicy, error.sentence().to_owned());
    match error.detail() {
        Some(detail) => fault.detail(detail.to_owned()),
        None => fault,
    }
}

pub(super) async fn get_ownership(call: &Call<'_>) -> Result<S3Response, Fault> {
    let ownership = bucket::found(call).await?.bucket.ownership;
    let ownership = ownership.ok_or_else(|| absent(call, Code::OwnershipControlsNotFoundError))?;
    let ownership = translate::shown_ownership(ownership);
    Ok(S3Response::xml(StatusCode::OK, ownership_controls(ownership)))
}

pub(super) async fn put_ownership(call: &Call<'_>, body: HttpBody) -> Result<S3Response, Fault> {
    let document = required_document(call, body, XmlLimits::SMALL.bytes).await?;
    let ownership = s3::request::parse_ownership_controls(&document)?;
    call.require_permissions_with_body(|facts| facts.set_ownership(ownership.as_str())).await?;
    // Disabling ACLs would silently remove these grants, so S3 refuses it.
    if ownership == s3::request::OwnershipRule::BucketOwnerEnforced && grants_to_others(call)? {
        return Err(Code::InvalidBucketAclWithObjectOwnership.into());
    }
    let change = BucketChange::Ownership(Some(translate::ownership(ownership)));
    change_bucket(call, change, StatusCode::OK).await
}

/// Returns true if the bucket's ACL has a grant to anyone except its owner.
fn grants_to_others(call: &Call<'_>) -> Result<bool, Fault> {
    let rules = call.rules()?;
    let own = call.sender.access.canonical_id(rules.settings.owner);
    let others = |grant: &record::Grant| match grant.grantee {
        record::Grantee::Account(id) => Some(id) != own,
        record::Grantee::AllUsers
        | record::Grantee::AuthenticatedUsers
        | record::Grantee::LogDelivery => true,
    };
    Ok(rules.acl.as_ref().is_some_and(|acl| acl.grants.iter().any(others)))
}

pub(super) async fn delete_ownership(call: &Call<'_>) -> Result<S3Response, Fault> {
    change_bucket(call, BucketChange::Ownership(None), StatusCode::NO_CONTENT).await
}

pub(super) async fn get_public_access(call: &Call<'_>) -> Result<S3Response, Fault> {
    let block = bucket::found(call).await?.bucket.public_access;
    let missing = || absent(call, Code::NoSuchPublicAccessBlockConfiguration);
    let record::PublicAccessBlock {
        block_public_acls,
        ignore_public_acls,
        block_public_policy,
        restrict_public_buckets,
    } = block.ok_or_else(missing)?;
    let block = PublicAccessBlockConfiguration {
        block_public_acls,
        ignore_public_acls,
        block_public_policy,
        restrict_public_buckets,
    };
    Ok(S3Response::xml(StatusCode::OK, public_access_block(block)))
}

pub(super) async fn put_public_access(
    call: &Call<'_>,
    body: HttpBody,
) -> Result<S3Response, Fault> {
    let document = required_document(call, body, XmlLimits::SMALL.bytes).await?;
    let PublicAccessBlockConfiguration {
        block_public_acls,
        ignore_public_acls,
        block_public_policy,
        restrict_public_buckets,
    } = PublicAccessBlockConfiguration::parse(&document)?;
    let block = record::PublicAccessBlock {
        block_public_acls,
        ignore_public_acls,
        block_public_policy,
        restrict_public_buckets,
    };
    change_bucket(call, BucketChange::PublicAccess(Some(block)), StatusCode::OK).await
}

pub(super) async fn delete_public_access(call: &Call<'_>) -> Result<S3Response, Fault> {
    change_bucket(call, BucketChange::PublicAccess(None), StatusCode::NO_CONTENT).await
}

/// Responds with a configuration that is one document.
pub(super) async fn get_document(
    call: &Call<'_>,
    kind: BucketConfigKind,
    document: BucketDocument,
) -> Result<S3Response, Fault> {
    match config(call, kind).await? {
        Some(config) => Ok(S3Response::xml(StatusCode::OK, (document.show)(&config.bytes)?)),
        None => stub(call, document.absent),
    }
}

/// Returns the response of a feature that the bucket has never used.
pub(super) fn stub(call: &Call<'_>, stub: Stub) -> Result<S3Response, Fault> {
    match stub {
        Stub::Absent(code) => Err(absent(call, code)),
        Stub::NoContent => Ok(S3Response::empty(StatusCode::NO_CONTENT)),
        document @ Stub::Document(..) => {
            Ok(S3Response::xml(StatusCode::OK, document.to_xml().unwrap_or_default()))
        }
    }
}

/// Stores a configuration that is one document, as it arrived.
pub(super) async fn put_document(
    call: &Call<'_>,
    body: HttpBody,
    kind: BucketConfigKind,
    BucketDocument { bytes_max, show, .. }: BucketDocument,
) -> Result<S3Response, Fault> {
    let document = required_document(call, body, bytes_max).await?;
    show(&document)?;
    set(call, kind, Some(Bytes::copy_from_slice(&document))).await?;
    Ok(S3Response::empty(StatusCode::OK))
}

/// Responds to a CORS preflight. Its signature is not verified, because a browser sends the
/// preflight to the URL of the request that follows.
pub(super) fn preflight(call: &Call<'_>) -> Result<S3Response, Fault> {
    let preflight = Preflight::parse(call.headers)?;
    let about = match call.resource {
        S3Resource::Object(..) => CorsResource::Object,
        S3Resource::Bucket(_) | S3Resource::Service => CorsResource::Bucket,
    };
    let headers = preflight.respond(call.rules()?.cors.as_ref(), about)?;
    let mut response = S3Response::empty(StatusCode::OK);
    for (name, value) in headers.into_inner() {
        response.headers.insert(name, value);
    }
    Ok(response)
}

/// Returns a configuration of the bucket from the metadata store.
pub(super) async fn config(
    call: &Call<'_>,
    kind: BucketConfigKind,
) -> Result<Option<BucketConfig>, Fault> {
    let name = call.bucket()?;
    let found = call.volume.bucket_config(call.named_bucket()?, kind).await;
    found.map_err(|error| translate::bucket_fault(name, error))
}

/// Removes a configuration of the bucket. Responds with status 204.
pub(super) async fn remove(call: &Call<'_>, kind: BucketConfigKind) -> Result<S3Response, Fault> {
    set(call, kind, None).await
}

/// Sets a configuration of the bucket, or removes it if `document` is `None`. Responds with status
/// 204. Fails with `NoSuchBucket` if the bucket was replaced meanwhile.
pub(super) async fn set(
    call: &Call<'_>,
    kind: BucketConfigKind,
    document: Option<Bytes>,
) -> Result<S3Response, Fault> {
    if document.as_ref().is_some_and(|document| document.len() > CONFIG_BYTES_MAX) {
        return Err(Fault::too_long(CONFIG_BYTES_MAX));
    }
    let (name, config) = (call.bucket()?, document.map(|bytes| BucketConfig { bytes }));
    let set = call.volume.set_bucket_config(call.named_bucket()?, kind, config.as_ref());
    set.await.map_err(|error| translate::bucket_fault(name, error))?;
    Ok(S3Response::empty(StatusCode::NO_CONTENT))
}

async fn change_bucket(
    call: &Call<'_>,
    change: BucketChange,
    status: StatusCode,
) -> Result<S3Response, Fault> {
    let name = call.bucket()?;
    let set = call.volume.set_bucket(call.named_bucket()?, change).await;
    set.map_err(|error| translate::bucket_fault(name, error))?;
    Ok(S3Response::empty(status))
}

pub(super) fn absent(call: &Call<'_>, code: Code) -> Fault {
    let name = call.resource.bucket().map(ToString::to_string).unwrap_or_default();
    Fault::new(code).with("BucketName", name)
}
