//! Creates, lists, looks up and deletes buckets.

use http::StatusCode;
use http::header::LOCATION;
use record::{BucketConfig, BucketConfigKind, ObjectOwnership, Versioning};
use s3::request::{CreateBucket, ListBuckets};
use s3::response::{BucketEntry, ListBucketsOutput, LocationConstraint};
use s3::{Code, Fault};
use volume::{BucketStat, FsError, NewBucket, VolumeError};

use crate::call::{Call, no_such_bucket};
use crate::http::HttpBody;
use crate::receive::document;
use crate::response::S3Response;
use crate::translate::{self, time};

/// The limit of buckets in a response, if the client sets none.
const BUCKETS_MAX: u32 = 10_000;

/// The region in which a client may create its own bucket again without an error, as in S3.
const FORGIVING_REGION: &str = "us-east-1";

pub(super) async fn list(call: &Call<'_>) -> Result<S3Response, Fault> {
    let request = ListBuckets::parse(&call.arguments())?;
    let limit = request.max_buckets.unwrap_or(BUCKETS_MAX) as usize;
    let region = &call.settings.region;
    // All buckets are in one region, so another region has none.
    let elsewhere = request.region.as_ref().is_some_and(|requested| requested != region);
    let mut buckets = if elsewhere {
        Vec::new()
    } else {
        let (prefix, after) = (request.prefix.as_str(), request.after.as_deref());
        let account = call.sender.account();
        let found = call.volume.buckets_owned_by(account, prefix, after, limit + 1).await;
        found.map_err(translate::fault)?
    };
    let more = buckets.len() > limit;
    buckets.truncate(limit);
    let last = buckets.last().filter(|_| more).map(|bucket| bucket.name.clone());
    let paged = request.max_buckets.is_some() || request.region.is_some();
    let entry = |bucket: volume::BucketStat| BucketEntry {
        name: bucket.name,
        created: time(bucket.made),
        region: paged.then(|| region.clone()),
    };
    let output = ListBucketsOutput {
        owner: call.sender.access.owner(call.sender.account()),
        buckets: buckets.into_iter().map(entry).collect(),
        prefix: (!request.prefix.is_empty()).then_some(request.prefix),
        next_token: last.map(|last| s3::request::ContinuationToken::AfterBucket(last).encode()),
    };
    Ok(S3Response::xml(StatusCode::OK, output.to_xml()))
}

pub(super) async fn create(call: &Call<'_>, body: HttpBody) -> Result<S3Response, Fault> {
    let document = document(call, body, s3::xml::XmlLimits::SMALL.bytes).await?;
    let request = CreateBucket::parse(&call.arguments(), &document, &call.settings.region)?;
    call.require_permissions_with_body(|facts| facts.location.clone_from(&request.location))
        .await?;
    let (bucket, account) = (call.bucket()?, call.sender.account());
    let Some(identity) = &call.sender.identity else { return Err(Code::AccessDenied.into()) };
    let ownership = match request.ownership {
        Some(ownership) => translate::ownership(ownership),
        None => call.settings.object_ownership,
    };
    let mut configs = Vec::new();
    if let Some(requested) = &request.acl
        && !(ownership == ObjectOwnership::BucketOwnerEnforced && requested.grants_only_owners())
    {
        if ownership == ObjectOwnership::BucketOwnerEnforced {
            return Err(Code::InvalidBucketAclWithObjectOwnership.into());
        }
        let owner = call.sender.access.owner(account).id;
        let acl = translate::requested_acl(call.sender.access, requested, &owner, &owner)?;
        configs.push((BucketConfigKind::Acl, BucketConfig::of_acl(&acl)));
    }
    if !request.tags.is_empty() {
        configs.push((BucketConfigKind::Tags, BucketConfig::of_tags(request.tags.as_slice())));
    }
    let mut versioning = Versioning::Off;
    // Object Lock requires versions, so S3 enables both together.
    if s3::object_lock::requests_object_lock(call.fields())? {
        versioning = Versioning::Enabled;
        let config = s3::object_lock::ObjectLockConfiguration { default: None };
        let bytes = config.to_xml().into();
        configs.push((BucketConfigKind::ObjectLock, BucketConfig { bytes }));
    }
    let (uid, gid, umask) = (identity.uid, identity.gid, identity.umask);
    let new = NewBucket { account, ownership, versioning, configs: &configs, uid, gid, umask };
    match call.volume.create_bucket(bucket.as_str(), &new).await {
        Ok(()) => {}
        Err(VolumeError::Fs(FsError::BucketExists)) => {
            let existing = call.volume.bucket(bucket.as_str()).await;
            let existing = existing.map_err(|error| translate::bucket_fault(bucket, error))?;
            if existing.bucket.owner != account {
                return Err(
                    Fault::new(Code::BucketAlreadyExists).with("BucketName", bucket.as_str())
                );
            }
            if call.settings.region != FORGIVING_REGION {
                return Err(
                    Fault::new(Code::BucketAlreadyOwnedByYou).with("BucketName", bucket.as_str())
                );
            }
        }
        Err(error) => return Err(translate::bucket_fault(bucket, error)),
    }
    let mut response = S3Response::empty(StatusCode::OK);
    response.set(LOCATION, &format!("/{bucket}"));
    response.set_named("x-amz-bucket-arn", &format!("arn:aws:s3:::{bucket}"));
    Ok(response)
}

pub(super) async fn head(call: &Call<'_>) -> Result<S3Response, Fault> {
    found(call).await?;
    let mut response = S3Response::empty(StatusCode::OK);
    response.set_named("x-amz-bucket-region", &call.settings.region);
    response.set_named("x-amz-access-point-alias", "false");
    Ok(response)
}

pub(super) async fn delete(call: &Call<'_>) -> Result<S3Response, Fault> {
    let bucket = call.bucket()?;
    let deleted = call.volume.delete_bucket(call.named_bucket()?).await;
    deleted.map_err(|error| translate::bucket_fault(bucket, error))?;
    Ok(S3Response::empty(StatusCode::NO_CONTENT))
}

pub(super) async fn location(call: &Call<'_>) -> Result<S3Response, Fault> {
    found(call).await?;
    let region = call.settings.region.clone();
    Ok(S3Response::xml(StatusCode::OK, LocationConstraint { region }.to_xml()))
}

/// Returns the bucket from the metadata store, not from the cache. Fails with `NoSuchBucket` if it
/// does not exist, or if it is not the one whose permissions were checked.
pub(super) async fn found(call: &Call<'_>) -> Result<BucketStat, Fault> {
    let bucket = call.bucket()?;
    let found = call.volume.bucket(bucket.as_str()).await;
    let found = found.map_err(|error| translate::bucket_fault(bucket, error))?;
    if found.ino == call.rules()?.ino { Ok(found) } else { Err(no_such_bucket(bucket)) }
}
