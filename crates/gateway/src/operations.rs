//! The S3 operations, with one module for each kind. [`carry_out`] is their table.
//!
//! For example, `PutObject` is in `write`, and completion of a multipart upload in `complete`. A
//! request arrives here after authentication and, for most operations, after all checks of
//! permissions; see `Call`.

mod acl;
mod append;
mod bucket;
mod bucket_access;
mod change;
mod complete;
mod copy;
mod delete;
mod encryption;
pub(crate) mod lifecycle;
mod list;
mod locks;
mod logging;
mod multipart;
mod object_lock;
mod publish;
#[cfg(test)]
mod racing;
mod read;
mod rename;
#[cfg(test)]
mod replaced_bucket;
mod tagging;
mod versioning;
mod write;

use record::BucketConfigKind as Kind;
use s3::bucket_document::CORS;
use s3::{Code, Fault, Operation};

use crate::call::Call;
use crate::http::HttpBody;
use crate::response::S3Response;

/// Carries out an operation. The client is authenticated and has the permissions that can be
/// checked before the body.
#[expect(clippy::too_many_lines, reason = "a row for each operation, so that none is forgotten")]
pub(crate) async fn carry_out(call: &Call<'_>, body: HttpBody) -> Result<S3Response, Fault> {
    match call.operation {
        Operation::PutObject => write::put_object(call, body).await,
        Operation::PostObject => write::post_object(call, body).await,
        Operation::GetObject => read::get_object(call, false).await,
        Operation::HeadObject => read::get_object(call, true).await,
        Operation::GetObjectAttributes => read::attributes(call).await,
        Operation::RenameObject => rename::object(call).await,
        Operation::DeleteObject => delete::object(call).await,
        Operation::DeleteObjects => delete::objects(call, body).await,
        Operation::CopyObject => Box::pin(copy::object(call)).await,
        Operation::ListObjects => list::objects(call).await,
        Operation::ListObjectsV2 => list::objects_v2(call).await,
        Operation::ListObjectVersions => list::versions(call).await,
        Operation::CreateMultipartUpload => multipart::create(call).await,
        Operation::UploadPart => multipart::put_part(call, body).await,
        Operation::UploadPartCopy => copy::part(call).await,
        Operation::CompleteMultipartUpload => Box::pin(complete::complete(call, body)).await,
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
        Operation::GetBucketAcl => acl::get_bucket(call).await,
        Operation::PutBucketAcl => acl::put_bucket(call, body).await,
        Operation::GetObjectAcl => acl::get_object(call).await,
        Operation::PutObjectAcl => acl::put_object(call, body).await,
        Operation::GetBucketPolicy => bucket_access::get_policy(call).await,
        Operation::PutBucketPolicy => bucket_access::put_policy(call, body).await,
        Operation::DeleteBucketPolicy => bucket_access::delete_policy(call).await,
        Operation::GetBucketPolicyStatus => bucket_access::get_policy_status(call).await,
        Operation::GetBucketOwnershipControls => bucket_access::get_ownership(call).await,
        Operation::PutBucketOwnershipControls => bucket_access::put_ownership(call, body).await,
        Operation::DeleteBucketOwnershipControls => bucket_access::delete_ownership(call).await,
        Operation::GetPublicAccessBlock => bucket_access::get_public_access(call).await,
        Operation::PutPublicAccessBlock => bucket_access::put_public_access(call, body).await,
        Operation::DeletePublicAccessBlock => bucket_access::delete_public_access(call).await,
        Operation::GetBucketCors => bucket_access::get_document(call, Kind::Cors, CORS).await,
        Operation::PutBucketCors => bucket_access::put_document(call, body, Kind::Cors, CORS).await,
        Operation::DeleteBucketCors => bucket_access::remove(call, Kind::Cors).await,
        Operation::GetBucketEncryption => encryption::get(call).await,
        Operation::PutBucketEncryption => Box::pin(encryption::put(call, body)).await,
        Operation::DeleteBucketEncryption => encryption::delete(call).await,
        Operation::GetBucketLogging => logging::get(call).await,
        Operation::PutBucketLogging => Box::pin(logging::put(call, body)).await,
        Operation::GetBucketVersioning => versioning::get(call).await,
        Operation::PutBucketVersioning => versioning::put(call, body).await,
        Operation::GetBucketLifecycleConfiguration => lifecycle::get(call).await,
        Operation::PutBucketLifecycleConfiguration => Box::pin(lifecycle::put(call, body)).await,
        Operation::DeleteBucketLifecycle => bucket_access::remove(call, Kind::Lifecycle).await,
        Operation::GetObjectLockConfiguration => object_lock::get_bucket(call).await,
        Operation::PutObjectLockConfiguration => object_lock::put_bucket(call, body).await,
        Operation::GetObjectRetention => object_lock::get_retention(call).await,
        Operation::PutObjectRetention => object_lock::put_retention(call, body).await,
        Operation::GetObjectLegalHold => object_lock::get_legal_hold(call).await,
        Operation::PutObjectLegalHold => object_lock::put_legal_hold(call, body).await,
        Operation::OptionsObject => bucket_access::preflight(call),
        other @ (Operation::GetBucketReplication
        | Operation::DeleteBucketReplication
        | Operation::GetBucketWebsite
        | Operation::DeleteBucketWebsite
        | Operation::GetBucketNotificationConfiguration
        | Operation::GetBucketAccelerateConfiguration
        | Operation::GetBucketRequestPayment
        | Operation::ListBucketInventoryConfigurations
        | Operation::ListBucketAnalyticsConfigurations
        | Operation::ListBucketMetricsConfigurations
        | Operation::ListBucketIntelligentTieringConfigurations) => stub(call, other).await,
        // The router never returns one of these.
        Operation::PutBucketReplication
        | Operation::PutBucketWebsite
        | Operation::PutBucketNotificationConfiguration
        | Operation::PutBucketAccelerateConfiguration
        | Operation::PutBucketRequestPayment
        | Operation::PutBucketInventoryConfiguration
        | Operation::DeleteBucketInventoryConfiguration
        | Operation::PutBucketAnalyticsConfiguration
        | Operation::DeleteBucketAnalyticsConfiguration
        | Operation::PutBucketMetricsConfiguration
        | Operation::DeleteBucketMetricsConfiguration
        | Operation::PutBucketIntelligentTieringConfiguration
        | Operation::DeleteBucketIntelligentTieringConfiguration
        | Operation::CreateSession
        | Operation::RestoreObject
        | Operation::SelectObjectContent
        | Operation::GetObjectTorrent
        | Operation::UpdateObjectEncryption => Err(Code::NotImplemented.into()),
    }
}

/// Responds as S3 does for a feature that the bucket has never used.
async fn stub(call: &Call<'_>, operation: Operation) -> Result<S3Response, Fault> {
    let stub = operation.stub().ok_or(Code::NotImplemented)?;
    bucket::found(call).await?;
    bucket_access::stub(call, stub)
}
