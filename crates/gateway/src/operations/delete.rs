//! Deletes.

use http::StatusCode;
use s3::conditions::{WritePrecondition, failed};
use s3::operation::Permission;
use s3::request::{DeleteObject, DeleteObjects, Deletion};
use s3::response::{DeleteError, DeleteObjectsOutput, DeletedObject};
use s3::{BucketName, Fault};
use volume::{FsError, TagMatch, VolumeError};

use crate::call::{Call, only_current};
use crate::http::HttpBody;
use crate::receive::document;
use crate::response::S3Response;
use crate::translate;

// Every key that can be stored can be deleted.
const _: () = assert!(s3::ObjectKey::SLASHES_MAX <= volume::DIRECTORIES_MAX);

pub(super) async fn object(call: &Call<'_>) -> Result<S3Response, Fault> {
    let request = DeleteObject::parse(&call.arguments())?;
    only_current(request.version.as_ref())?;
    let (bucket, key) = call.object()?;
    let condition = condition(&request.condition);
    let keys = vec![(key.as_str().as_bytes().to_vec(), condition)];
    let mut removed = call.volume.delete(bucket.as_str(), keys).await.map_err(translate::fault)?;
    match removed.pop() {
        Some(Err(error)) => Err(refusal(error)),
        Some(Ok(_)) | None => Ok(S3Response::empty(StatusCode::NO_CONTENT)),
    }
}

pub(super) async fn objects(call: &Call<'_>, body: HttpBody) -> Result<S3Response, Fault> {
    let document = document(call, body, s3::xml::XmlLimits::LARGE.bytes).await?;
    let request = DeleteObjects::parse(&document)?;
    let bucket = call.bucket()?;
    let mut output = DeleteObjectsOutput::default();
    let mut allowed: Vec<&Deletion> = Vec::with_capacity(request.deletions.len());
    for deletion in &request.deletions {
        if let Err(fault) = call.demand(&permissions(bucket, deletion)) {
            output.errors.push(error(deletion, fault));
        } else if let Err(fault) = only_current(deletion.version.as_ref()) {
            output.errors.push(error(deletion, fault));
        } else {
            allowed.push(deletion);
        }
    }
    let key = |deletion: &&Deletion| {
        (deletion.key.as_str().as_bytes().to_vec(), condition(&deletion.condition))
    };
    let keys = allowed.iter().map(key).collect();
    let removed = call.volume.delete(bucket.as_str(), keys).await.map_err(translate::fault)?;
    for (deletion, removed) in allowed.into_iter().zip(removed) {
        match removed {
            Ok(_) if request.quiet => {}
            Ok(_) => output.deleted.push(DeletedObject {
                key: deletion.key.as_str().to_owned(),
                version: deletion.version.as_ref().map(|version| version.as_str().to_owned()),
                delete_marker: None,
            }),
            Err(why) => output.errors.push(error(deletion, refusal(why))),
        }
    }
    Ok(S3Response::xml(StatusCode::OK, output.to_xml()))
}

/// The permissions that this deletion needs.
fn permissions(bucket: &BucketName, deletion: &Deletion) -> Vec<Permission> {
    let Deletion { key, version, condition } = deletion;
    let mut all = vec![Permission::delete(bucket, key, version.is_some())];
    all.extend(Permission::to_compare(condition, bucket, key));
    all
}

fn condition(condition: &WritePrecondition) -> Option<TagMatch> {
    match condition {
        WritePrecondition::IfMatch(list) => Some(translate::tag_match(list)),
        WritePrecondition::None | WritePrecondition::IfNoneMatchStar => None,
    }
}

fn refusal(error: VolumeError) -> Fault {
    match error {
        VolumeError::Fs(FsError::PreconditionFailed) => failed("If-Match"),
        other => translate::fault(other),
    }
}

fn error(deletion: &Deletion, fault: Fault) -> DeleteError {
    DeleteError {
        key: deletion.key.as_str().to_owned(),
        version: deletion.version.as_ref().map(|version| version.as_str().to_owned()),
        fault,
    }
}
