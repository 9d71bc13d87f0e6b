//! `PutObject` and HTML form uploads.

use http::header::LOCATION;
use http::{HeaderValue, StatusCode};
use s3::post::SuccessAction;
use s3::request::PutObject;
use s3::response::PostObjectOutput;
use s3::{Code, Fault};

use super::publish::Written;
use super::{append, lifecycle, publish};
use crate::call::Call;
use crate::http::HttpBody;
use crate::response::S3Response;
use crate::translate::{etag, shown_new_version, shown_sum};

pub(super) async fn put_object(call: &Call<'_>, body: HttpBody) -> Result<S3Response, Fault> {
    let request = PutObject::parse(&call.arguments())?;
    let appends = request.append_at.is_some();
    // Lifecycle rules may need the tags after the request is consumed. The copy is made only then.
    let tags = call.rules()?.lifecycle.is_some().then(|| request.tags.as_slice().to_vec());
    let written = receive(call, request, body).await?;
    let (published, size) = (&written.published, written.size);
    let mut response = S3Response::empty(StatusCode::OK);
    response.set_named("x-amz-object-size", &size.to_string());
    describe(&mut response, &written);
    match tags {
        Some(tags) if !appends => {
            let changed = published.object_changed;
            lifecycle::describe(call, &mut response, size, &tags, changed)?;
        }
        Some(_) => lifecycle::describe_current(call, &mut response).await?,
        None => {}
    }
    Ok(response)
}

/// Responds to a form upload. The headers, too, have the entity tag and the location of the object.
pub(super) async fn post_object(call: &Call<'_>, body: HttpBody) -> Result<S3Response, Fault> {
    let post = call.form.ok_or(Code::InvalidRequest)?;
    let written = receive(call, post.put.clone(), body).await?;
    let (bucket, key) = call.object()?;
    let (tag, location) = (etag(&written.published.tag), call.location()?);
    let mut response = match &post.success {
        SuccessAction::Created => {
            let output = PostObjectOutput {
                location: location.clone(),
                bucket: bucket.to_string(),
                key: key.to_string(),
                etag: tag.clone(),
            };
            S3Response::xml(StatusCode::CREATED, output.to_xml())
        }
        other @ (SuccessAction::Redirect(_) | SuccessAction::Ok | SuccessAction::NoContent) => {
            S3Response::empty(other.status())
        }
    };
    describe(&mut response, &written);
    lifecycle::describe_current(call, &mut response).await?;
    match post.success.redirect(bucket, key, &tag) {
        Some(page) => response.headers.insert(LOCATION, page),
        None => HeaderValue::from_str(&location)
            .ok()
            .and_then(|location| response.headers.insert(LOCATION, location)),
    };
    Ok(response)
}

/// Adds the headers that describe a written object.
fn describe(response: &mut S3Response, written: &Written) {
    let published = &written.published;
    response.encryption(written.encryption.as_ref(), written.customer_key.as_deref());
    response.etag(&published.tag);
    response.version(shown_new_version(published.version));
    if let Some(sum) = shown_sum(&published.sums) {
        response.checksum(sum, 1);
    }
}

/// Receives the content of an object. Then binds the key to it as a new object, or appends it to
/// the existing object if the request has an offset.
async fn receive(call: &Call<'_>, request: PutObject, body: HttpBody) -> Result<Written, Fault> {
    match request.append_at {
        None => publish::replace(call, request, body).await,
        Some(offset) => Box::pin(append::object(call, request, body, offset)).await,
    }
}
