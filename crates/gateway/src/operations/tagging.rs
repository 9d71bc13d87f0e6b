//! Tags of objects and buckets.

use http::StatusCode;
use s3::{Code, Fault, TagSet, Tagged};

use crate::call::{Call, only_current};
use crate::http::HttpBody;
use crate::operations::read::find;
use crate::receive::document;
use crate::response::S3Response;
use crate::translate;

pub(super) async fn get_object(call: &Call<'_>) -> Result<S3Response, Fault> {
    let object = find(call, call.arguments().version()?.as_ref()).await?;
    let tags = TagSet::new(object.file().object.tags.clone(), Tagged::Object)?;
    Ok(S3Response::xml(StatusCode::OK, tags.to_xml()))
}

pub(super) async fn put_object(call: &Call<'_>, body: HttpBody) -> Result<S3Response, Fault> {
    let document = document(call, body, s3::xml::XmlLimits::SMALL.bytes).await?;
    let tags = TagSet::parse_xml(&document, Tagged::Object)?;
    set_object(call, tags, StatusCode::OK).await
}

pub(super) async fn delete_object(call: &Call<'_>) -> Result<S3Response, Fault> {
    set_object(call, TagSet::default(), StatusCode::NO_CONTENT).await
}

async fn set_object(
    call: &Call<'_>,
    tags: TagSet,
    status: StatusCode,
) -> Result<S3Response, Fault> {
    only_current(call.arguments().version()?.as_ref())?;
    let (bucket, key) = call.object()?;
    let key = key.as_str().as_bytes();
    let set = call.volume.set_tags(bucket.as_str(), key, tags.as_slice().to_vec());
    set.await.map_err(translate::fault)?;
    Ok(S3Response::empty(status))
}

pub(super) async fn get_bucket(call: &Call<'_>) -> Result<S3Response, Fault> {
    let bucket = call.bucket()?;
    let tags = call.volume.bucket_tags(bucket.as_str()).await.map_err(translate::fault)?;
    if tags.is_empty() {
        return Err(Fault::new(Code::NoSuchTagSet).with("BucketName", bucket.as_str()));
    }
    let tags = TagSet::new(tags, Tagged::Bucket)?;
    Ok(S3Response::xml(StatusCode::OK, tags.to_xml()))
}

pub(super) async fn put_bucket(call: &Call<'_>, body: HttpBody) -> Result<S3Response, Fault> {
    let document = document(call, body, s3::xml::XmlLimits::SMALL.bytes).await?;
    let tags = TagSet::parse_xml(&document, Tagged::Bucket)?;
    set_bucket(call, tags).await
}

pub(super) async fn delete_bucket(call: &Call<'_>) -> Result<S3Response, Fault> {
    set_bucket(call, TagSet::default()).await
}

async fn set_bucket(call: &Call<'_>, tags: TagSet) -> Result<S3Response, Fault> {
    let name = call.bucket()?.as_str();
    let set = call.volume.set_bucket_tags(name, tags.as_slice());
    set.await.map_err(translate::fault)?;
    Ok(S3Response::empty(StatusCode::NO_CONTENT))
}
