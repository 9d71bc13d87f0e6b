//! Access control lists (ACLs) of buckets and objects.
//!
//! If the object ownership of a bucket is `BucketOwnerEnforced`, its ACLs are disabled. Then a GET
//! shows full control of the owner, and a PUT may only set this same ACL. For example, `x-amz-acl:
//! private` succeeds without a change, and `public-read` fails with
//! `AccessControlListNotSupported`.

use http::StatusCode;
use record::{BucketConfig, BucketConfigKind, Grantee, ObjectOwnership, S3Acl};
use s3::acl::{AclDocument, RequestedAcl};
use s3::request::PutAcl;
use s3::response::AccessControlPolicy;
use s3::{Code, Fault};
use volume::{Object, ObjectChange};

use super::{bucket, change, read};
use crate::call::Call;
use crate::http::HttpBody;
use crate::receive::document;
use crate::response::S3Response;
use crate::translate;

pub(super) async fn get_bucket(call: &Call<'_>) -> Result<S3Response, Fault> {
    bucket::found(call).await?;
    let rules = call.rules()?;
    respond(call, None, rules.acl.as_ref())
}

pub(super) async fn put_bucket(call: &Call<'_>, body: HttpBody) -> Result<S3Response, Fault> {
    // The ACL comes in headers or in a document, so an empty body is allowed.
    let document = document(call, body, s3::xml::XmlLimits::SMALL.bytes).await?;
    let request = parse(call, &document)?;
    let owner = call.owner_of(None)?.id;
    let Some(acl) = acl_of_request(call, &request, &owner, &owner)? else {
        return Ok(S3Response::empty(StatusCode::OK));
    };
    let (name, config) = (call.bucket()?, BucketConfig::of_acl(&acl));
    let bucket = call.named_bucket()?;
    let set = call.volume.set_bucket_config(bucket, BucketConfigKind::Acl, Some(&config));
    set.await.map_err(|error| translate::bucket_fault(name, error))?;
    Ok(S3Response::empty(StatusCode::OK))
}

/// Parses the ACL of a request. If ACLs are disabled, a malformed ACL is refused like any other
/// ACL.
fn parse(call: &Call<'_>, document: &[u8]) -> Result<PutAcl, Fault> {
    match PutAcl::parse(&call.arguments(), document) {
        Err(_) if !call.rules()?.acls_enabled() => Err(Code::AccessControlListNotSupported.into()),
        request => request,
    }
}

pub(super) async fn get_object(call: &Call<'_>) -> Result<S3Response, Fault> {
    let object = read::find(call, call.arguments().version()?.as_ref()).await?;
    let file = object.file();
    respond(call, Some(&object), file.object.acl.as_ref())
}

pub(super) async fn put_object(call: &Call<'_>, body: HttpBody) -> Result<S3Response, Fault> {
    let document = document(call, body, s3::xml::XmlLimits::SMALL.bytes).await?;
    let request = parse(call, &document)?;
    let change = |object: Option<&Object>| {
        let object = object.ok_or(Code::InternalError)?;
        let owner = call.owner_of(object.file().writer)?.id;
        let bucket_owner = call.owner_of(None)?.id;
        Ok(acl_of_request(call, &request, &owner, &bucket_owner)?.map(ObjectChange::Acl))
    };
    let version = change::object(call, call.permissions(), true, change).await?;
    let mut response = S3Response::empty(StatusCode::OK);
    response.version(version);
    Ok(response)
}

/// Returns the ACL of a new object from its headers; `None` if it gives access to the owner alone.
pub(super) fn for_new_object(
    call: &Call<'_>,
    requested: Option<&RequestedAcl>,
    owner: &volume::FileOwner,
) -> Result<Option<S3Acl>, Fault> {
    let Some(requested) = requested else { return Ok(None) };
    let rules = call.rules()?;
    if !rules.acls_enabled() {
        return if requested.grants_only_owners() {
            Ok(None)
        } else {
            Err(Code::AccessControlListNotSupported.into())
        };
    }
    let access = call.sender.access;
    let bucket_owner = access.owner(rules.settings.owner).id;
    let owner = call.owner_of(owner.writer)?.id;
    let acl = translate::requested_acl(access, requested, &owner, &bucket_owner)?;
    refuse_public(call, &acl)?;
    Ok(Some(acl))
}

/// Returns the ACL that a request sets; `None` if ACLs are disabled and the request asks for the
/// owner's access alone. Fails with `AccessControlListNotSupported` if ACLs are disabled and the
/// request asks for more, and with `AccessDenied` if the ACL names another owner or the bucket
/// blocks it.
fn acl_of_request(
    call: &Call<'_>,
    request: &PutAcl,
    owner: &str,
    bucket_owner: &str,
) -> Result<Option<S3Acl>, Fault> {
    let access = call.sender.access;
    if !call.rules()?.acls_enabled() {
        return if asks_for_owner_only(request, owner) {
            Ok(None)
        } else {
            Err(Code::AccessControlListNotSupported.into())
        };
    }
    let acl = match request {
        PutAcl::Headers(requested) => {
            translate::requested_acl(access, requested, owner, bucket_owner)?
        }
        PutAcl::Document(AclDocument { owner: named, grants }) => {
            // An ACL cannot change the owner.
            if named != owner {
                return Err(Code::AccessDenied.into());
            }
            translate::acl(access, grants)?
        }
    };
    refuse_public(call, &acl)?;
    Ok(Some(acl))
}

/// Returns true if a request asks for the state of a bucket with disabled ACLs: full control of the
/// owner and no other grants.
fn asks_for_owner_only(request: &PutAcl, owner: &str) -> bool {
    match request {
        PutAcl::Headers(requested) => requested.grants_only_owners(),
        PutAcl::Document(document) => {
            let private = s3::acl::CannedAcl::Private.grants(owner, owner);
            document.owner == owner && document.grants == private
        }
    }
}

/// Fails with `AccessDenied` if an ACL grants something to all users and the bucket blocks public
/// ACLs.
fn refuse_public(call: &Call<'_>, acl: &S3Acl) -> Result<(), Fault> {
    let public = |grantee| matches!(grantee, Grantee::AllUsers | Grantee::AuthenticatedUsers);
    let public = acl.grants.iter().any(|grant| public(grant.grantee));
    if public && call.rules()?.public_access().block_public_acls {
        return Err(Code::AccessDenied.into());
    }
    Ok(())
}

/// Returns an ACL as S3 shows it. If ACLs are disabled, the owner has full control.
fn respond(
    call: &Call<'_>,
    object: Option<&Object>,
    acl: Option<&S3Acl>,
) -> Result<S3Response, Fault> {
    let rules = call.rules()?;
    let enforced = rules.settings.ownership == Some(ObjectOwnership::BucketOwnerEnforced);
    let writer = object.and_then(|object| object.file().writer).filter(|_| !enforced);
    let owner = call.owner_of(writer)?;
    let grants = match acl.filter(|_| !enforced) {
        Some(acl) => translate::shown_grants(call.sender.access, acl),
        None => {
            let private = s3::acl::CannedAcl::Private.grants(&owner.id, &owner.id);
            let named = |grant| (grant, owner.display_name.clone());
            private.into_iter().map(named).collect()
        }
    };
    let policy = AccessControlPolicy { owner, grants };
    Ok(S3Response::xml(StatusCode::OK, policy.to_xml()))
}
