//! What each operation of S3 does on a volume, with a file for each kind of operation.

mod bucket;
mod copy;
mod delete;
mod list;
mod multipart;
mod read;
mod tagging;
mod write;

use http::StatusCode;
use s3::operation::Stub;
use s3::response::AccessControlPolicy;
use s3::{Code, Fault, Operation};

use crate::call::Call;
use crate::http::HttpBody;
use crate::receive::document;
use crate::response::S3Response;
use crate::translate;

/// Carries an operation out. The client has been authenticated and authorised, as far as the
/// operation demands it.
pub(crate) async fn carry_out(call: &Call<'_>, body: HttpBody) -> Result<S3Response, Fault> {
    match call.operation {
        Operation::PutObject => write::put_object(call, body).await,
        Operation::GetObject => read::get_object(call, false).await,
        Operation::HeadObject => read::get_object(call, true).await,
        Operation::GetObjectAttributes => read::attributes(call).await,
        Operation::DeleteObject => delete::object(call).await,
        Operation::DeleteObjects => delete::objects(call, body).await,
        Operation::CopyObject => copy::object(call).await,
        Operation::ListObjects => list::objects(call).await,
        Operation::ListObjectsV2 => list::objects_v2(call).await,
        Operation::ListObjectVersions => list::versions(call).await,
        Operation::CreateMultipartUpload => multipart::create(call).await,
        Operation::UploadPart => multipart::put_part(call, body).await,
        Operation::UploadPartCopy => copy::part(call).await,
        Operation::CompleteMultipartUpload => multipart::complete(call, body).await,
        Operation::AbortMultipartUpload => multipart::abort(call).await,
        Operation::ListParts => multipart::parts(call).await,
        Operation::ListMultipartUploads => multipart::uploads(call).await,
        Operation::ListBuckets => bucket::list(call).await,
        Operation::CreateBucket => bucket::create(call, body).await,
        Operation::HeadBucket => bucket::head(call).await,
        Operation::DeleteBucket => bucket::delete(call).await,
        Operation::GetBucketLocation => bucket::location(call).await,
        Operation::GetObjectTagging => tagging::get_object(call).await,
        Operation::PutObjectTagging => tagging::put_object(call, body).await,
        Operation::DeleteObjectTagging => tagging::delete_object(call).await,
        Operation::GetBucketTagging => tagging::get_bucket(call).await,
        Operation::PutBucketTagging => tagging::put_bucket(call, body).await,
        Operation::DeleteBucketTagging => tagging::delete_bucket(call).await,
        Operation::GetBucketAcl => bucket_acl(call).await,
        Operation::PutBucketAcl => put_bucket_acl(call, body).await,
        Operation::GetObjectAcl => object_acl(call).await,
        Operation::PutObjectAcl => put_object_acl(call, body).await,
        // S3 responds like this where a bucket has no CORS configuration, and here none has one.
        // The client need not be authenticated.
        Operation::OptionsObject => Err(Code::AccessForbidden.into()),
        other => stub(call, other).await,
    }
}

/// Responds as S3 does for a feature that the bucket has never used.
async fn stub(call: &Call<'_>, operation: Operation) -> Result<S3Response, Fault> {
    let stub = operation.stub().ok_or(Code::NotImplemented)?;
    let bucket = call.bucket()?;
    call.volume.bucket(bucket.as_str()).await.map_err(translate::fault)?;
    match stub {
        Stub::Absent(code) => Err(Fault::new(code).with("BucketName", bucket.as_str())),
        Stub::NoContent => Ok(S3Response::empty(StatusCode::NO_CONTENT)),
        document @ Stub::Document(..) => {
            Ok(S3Response::xml(StatusCode::OK, document.to_xml().unwrap_or_default()))
        }
    }
}

async fn bucket_acl(call: &Call<'_>) -> Result<S3Response, Fault> {
    call.volume.bucket(call.bucket()?.as_str()).await.map_err(translate::fault)?;
    let policy = AccessControlPolicy { owner: translate::owner(0) };
    Ok(S3Response::xml(StatusCode::OK, policy.to_xml()))
}

async fn put_bucket_acl(call: &Call<'_>, body: HttpBody) -> Result<S3Response, Fault> {
    let document = document(call, body, s3::xml::XmlLimits::SMALL.bytes).await?;
    s3::request::parse_acl(&call.arguments(), &document)?;
    call.volume.bucket(call.bucket()?.as_str()).await.map_err(translate::fault)?;
    Ok(S3Response::empty(StatusCode::OK))
}

async fn object_acl(call: &Call<'_>) -> Result<S3Response, Fault> {
    let object = read::find(call, call.arguments().version()?.as_ref()).await?;
    let policy = AccessControlPolicy { owner: translate::owner_of(&object.inode) };
    Ok(S3Response::xml(StatusCode::OK, policy.to_xml()))
}

async fn put_object_acl(call: &Call<'_>, body: HttpBody) -> Result<S3Response, Fault> {
    let document = document(call, body, s3::xml::XmlLimits::SMALL.bytes).await?;
    s3::request::parse_acl(&call.arguments(), &document)?;
    read::find(call, call.arguments().version()?.as_ref()).await?;
    Ok(S3Response::empty(StatusCode::OK))
}
