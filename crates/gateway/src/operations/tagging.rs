//! Reads, sets and deletes tags of objects and buckets.

use http::StatusCode;
use s3::operation::Permission;
use s3::{Code, Fault, TagSet, Tagged};
use volume::{Object, ObjectChange};

use super::change;
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
    let permissions = call.permissions_with_body(|facts| facts.tags = Some(tags.clone()))?;
    set_object(call, &permissions, &tags, StatusCode::OK).await
}

pub(super) async fn delete_object(call: &Call<'_>) -> Result<S3Response, Fault> {
    set_object(call, call.permissions(), &TagSet::default(), StatusCode::NO_CONTENT).await
}

async fn set_object(
    call: &Call<'_>,
    permissions: &[Permission],
    tags: &TagSet,
    status: StatusCode,
) -> Result<S3Response, Fault> {
    let change = |_: Option<&Object>| Ok(Some(ObjectChange::Tags(tags.as_slice())));
    let version = change::object(call, permissions, false, change).await?;
    let mut response = S3Response::empty(status);
    response.version(version);
    Ok(response)
}

pub(super) async fn get_bucket(call: &Call<'_>) -> Result<S3Response, Fault> {
    let bucket = call.bucket()?;
    let tags = call.volume.bucket_tags(call.named_bucket()?).await.map_err(translate::fault)?;
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
    let set = call.volume.set_bucket_tags(call.named_bucket()?, tags.as_slice());
    set.await.map_err(translate::fault)?;
    Ok(S3Response::empty(StatusCode::NO_CONTENT))
}
