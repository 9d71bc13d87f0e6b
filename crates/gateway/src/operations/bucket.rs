//! Buckets.

use http::StatusCode;
use http::header::LOCATION;
use s3::request::{CreateBucket, ListBuckets};
use s3::response::{BucketEntry, ListBucketsOutput, LocationConstraint};
use s3::{Code, Fault};
use volume::{FsError, VolumeError};

use crate::call::Call;
use crate::http::HttpBody;
use crate::receive::document;
use crate::response::S3Response;
use crate::translate::{self, owner, time};

/// The most buckets in a response that the client did not ask to be paged.
const BUCKETS_MAX: u32 = 10_000;

/// The region in which it is no error to create one's own bucket again, as in S3.
const FORGIVING_REGION: &str = "us-east-1";

pub(super) async fn list(call: &Call<'_>) -> Result<S3Response, Fault> {
    let request = ListBuckets::parse(&call.arguments())?;
    let limit = request.max_buckets.unwrap_or(BUCKETS_MAX) as usize;
    let region = &call.settings.region;
    let elsewhere = request.region.as_ref().is_some_and(|wanted| wanted != region);
    let mut buckets = if elsewhere {
        Vec::new()
    } else {
        let (prefix, after) = (request.prefix.as_str(), request.after.as_deref());
        call.volume.buckets(prefix, after, limit + 1).await.map_err(translate::fault)?
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
        owner: owner(call.owner().uid),
        buckets: buckets.into_iter().map(entry).collect(),
        prefix: (!request.prefix.is_empty()).then_some(request.prefix),
        next_token: last.map(|last| s3::request::ContinuationToken::AfterBucket(last).encode()),
    };
    Ok(S3Response::xml(StatusCode::OK, output.to_xml()))
}

pub(super) async fn create(call: &Call<'_>, body: HttpBody) -> Result<S3Response, Fault> {
    let document = document(call, body, s3::xml::XmlLimits::SMALL.bytes).await?;
    CreateBucket::parse(&call.arguments(), &document, &call.settings.region)?;
    let (name, owner) = (call.bucket()?.as_str(), call.owner());
    match call.volume.create_bucket(name, &owner).await {
        Ok(()) => {}
        Err(VolumeError::Fs(FsError::BucketExists)) => {
            let existing = call.volume.bucket(name).await.map_err(translate::fault)?;
            if existing.bucket.owner != owner.access_key {
                return Err(Code::BucketAlreadyExists.into());
            }
            if call.settings.region != FORGIVING_REGION {
                return Err(Code::BucketAlreadyOwnedByYou.into());
            }
        }
        Err(error) => return Err(translate::fault(error)),
    }
    let mut response = S3Response::empty(StatusCode::OK);
    response.set(LOCATION, &format!("/{name}"));
    Ok(response)
}

pub(super) async fn head(call: &Call<'_>) -> Result<S3Response, Fault> {
    call.volume.bucket(call.bucket()?.as_str()).await.map_err(translate::fault)?;
    let mut response = S3Response::empty(StatusCode::OK);
    response.set_named("x-amz-bucket-region", &call.settings.region);
    response.set_named("x-amz-access-point-alias", "false");
    Ok(response)
}

pub(super) async fn delete(call: &Call<'_>) -> Result<S3Response, Fault> {
    call.volume.delete_bucket(call.bucket()?.as_str()).await.map_err(translate::fault)?;
    Ok(S3Response::empty(StatusCode::NO_CONTENT))
}

pub(super) async fn location(call: &Call<'_>) -> Result<S3Response, Fault> {
    call.volume.bucket(call.bucket()?.as_str()).await.map_err(translate::fault)?;
    let region = call.settings.region.clone();
    Ok(S3Response::xml(StatusCode::OK, LocationConstraint { region }.to_xml()))
}
