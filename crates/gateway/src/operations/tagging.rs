//! Tags of objects and buckets.

use http::StatusCode;
use s3::{Code, Fault, TagSet, Tagged};
use volume::ObjectChange;

use crate::call::Call;
use crate::http::HttpBody;
use crate::operations::read::find;
use crate::receive::required_document;
use crate::response::S3Response;
use crate::translate;

pub(super) async fn get_object(call: &Call<'_>) -> Result<S3Response, Fault> {
    let found = find(call, call.arguments().version()?.as_ref()).await;
    let object = found.map_err(translate::no_object)?;
    let tags = TagSet::new(object.file().object.tags.clone(), Tagged::Object)?;
    let mut response = S3Response::xml(StatusCode::OK, tags.to_xml());
    response.version(object.version);
    Ok(response)
}

pub(super) async fn put_object(call: &Call<'_>, body: HttpBody) -> Result<S3Response, Fault> {
    let document = required_document(call, body, s3::xml::XmlLimits::SMALL.bytes).await?;
    let tags = TagSet::parse_xml(&document, Tagged::Object)?;
    call.demand_with_body(|facts| facts.tags = Some(tags.clone())).await?;
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
    let version = translate::version(call.arguments().version()?.as_ref())?;
    let (_, key) = call.object()?;
    let (bucket, key) = (call.named_bucket()?, key.as_str().as_bytes());
    let change = ObjectChange::Tags(tags.as_slice());
    let set = call.volume.change_object(bucket, key, version, None, change);
    let version = set.await.map_err(|error| translate::no_object(translate::fault(error)))?;
    let mut response = S3Response::empty(status);
    response.version(version);
    Ok(response)
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
    let document = required_document(call, body, s3::xml::XmlLimits::SMALL.bytes).await?;
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
